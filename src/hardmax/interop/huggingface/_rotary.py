"""Whether rotary positions may stay on: a forward pass that has them, on samples."""

from __future__ import annotations

import numpy as np

from hardmax.core import Attention, Construction, Rotary, Sublayer, Transformer
from hardmax.core import streams as plain_streams
from hardmax.interop.huggingface._prepare import SHARE, embedded_samples

OFF = 1e30  # the factor by which positions are divided to switch them off
_IS_OFF = 1e25  # from here on: angles below 1e-19 at 10^6 tokens, whose cosine is 1 in any format


def rotary_fits(construction: Construction, rotary: Rotary) -> bool:
    """Whether answers on samples move by a small share of the error claimed.

    Plane i turns by a_i = theta^(-i/planes) per token, so that the part q k of a score loses
    q k (1 - cos((t - s) a_i)), at most q k (tokens a_i)^2/2.
    """
    transformer, readout = construction.transformer, construction.transformer.readout
    moved = 0.0
    for batch in embedded_samples(construction):
        *_, last = plain_streams(transformer, batch)
        turned = _turned_stream(construction, rotary, batch)
        moved = max(moved, float(np.abs((turned - last) @ readout.weights.T).max(initial=0.0)))
    return moved <= SHARE * construction.claim.error


def is_off(factor: float) -> bool:
    """Whether a linear factor leaves nothing of rotary positions.

    Angles are then below 1e-19 for a million tokens: their cosines are 1 in every format, and what
    their sines move into the other half of a plane is below 1e-19 of a query and of a key.
    """
    return factor >= _IS_OFF


def _turned_stream(construction: Construction, rotary: Rotary, stream: np.ndarray) -> np.ndarray:
    transformer = construction.transformer
    place = np.arange(stream.shape[1])
    apart = place[:, None] - place
    for sublayer in transformer.sublayers:
        if not isinstance(sublayer, Attention):
            stream = _fed(sublayer, transformer, stream)
            continue
        change = np.zeros_like(stream)
        for head in sublayer.heads:
            planes = rotary.first + np.arange(head.key_width)
            turned = np.cos(apart[..., None] * rotary.theta ** (-planes / rotary.planes))
            query, key = stream @ head.query.T, stream @ head.key.T
            scores = head.coldness * np.einsum("btk,bsk,tsk->bts", query, key, turned)
            scores = np.where(apart >= 0, scores, -np.inf)
            powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
            weights = powers / powers.sum(axis=-1, keepdims=True)
            change += weights @ (stream @ head.value.T) @ head.output.T
        stream = stream + change
    return stream


def _fed(sublayer: Sublayer, transformer: Transformer, stream: np.ndarray) -> np.ndarray:
    """The stream after a sublayer without heads."""
    *_, last = plain_streams(
        Transformer(transformer.input, [sublayer], transformer.readout), stream
    )
    return last
