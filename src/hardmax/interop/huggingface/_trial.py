"""What was written, tried on samples: a claim that the folder's format breaks is not handed out.

This proves nothing, and is no bound: whoever certifies the folder has one. It is for messages that
come early and name the format, where a certificate could only say that the claim is refuted.
"""

from __future__ import annotations

import numpy as np

from hardmax._errors import PrecisionError
from hardmax.core import Construction, Host, SequenceInput, Transformer, streams
from hardmax.interop.huggingface._prepare import embedded_samples
from hardmax.numerics import format_named


def refuse_if_broken(construction: Construction, stored: Construction, host: Host) -> None:
    """Refuse a folder whose weights or norms' casts move answers by more than is claimed."""
    before = sampled_answers(construction, (None,) * len(construction.transformer.sublayers))
    after = sampled_answers(
        stored, tuple(None if n is None else n.computes_in for n in host.norms[:-1])
    )
    pairs = zip(before, after, strict=True)
    moved = max((float(np.abs(a - b).max(initial=0.0)) for a, b in pairs), default=0.0)
    claim = stored.claim
    if moved > claim.error:
        casts = {norm.computes_in for norm in host.norms if norm is not None} - {None}
        inside = f", with norms in {casts.pop()}" if casts else ""
        raise PrecisionError(
            f"In {claim.format}{inside}, answers move by {moved:.2g} on samples, and the error "
            f"claimed is {claim.error:.2g}: compile with float='float32' or a larger error, or "
            f"choose another dtype or architecture."
        )


def sampled_answers(construction: Construction, casts: tuple[str | None, ...]) -> list[np.ndarray]:
    """Answers on samples, batch by batch; what sublayer i reads is cast to casts[i] before."""
    transformer = construction.transformer
    found = []
    for stream in embedded_samples(construction):
        for i, cast in enumerate(casts):
            read = stream if cast is None else format_named(cast).stored(stream)
            alone = Transformer(transformer.input, [transformer.sublayers[i]], transformer.readout)
            *_, after = streams(alone, read)
            stream = stream + (after - read)
        found.append(_read(transformer, stream))
    return found


def _read(transformer: Transformer, stream: np.ndarray) -> np.ndarray:
    readout, source = transformer.readout, transformer.input
    started = isinstance(source, SequenceInput) and source.start is not None
    read = stream[:, int(started) :] if readout.token is None else stream[:, readout.token]
    return np.asarray(read @ readout.weights.T + readout.bias)
