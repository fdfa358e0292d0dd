"""The canonical printed form of a Transformer, and the fingerprint of its exact bytes.

The text lists nonzero entries only, with every digit that matters, so that equal texts mean
equal weights; golden tests compare it. Identity is the fingerprint.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

import numpy as np

from hardmax.core._inputs import SequenceInput, VectorInput
from hardmax.core._layers import Attention, FeedForward, Head
from hardmax.core._transformer import Transformer


def to_text(transformer: Transformer) -> str:
    """Every nonzero weight, one block per part, readable and complete."""
    return "\n".join(_lines(transformer)) + "\n"


def _lines(transformer: Transformer) -> Iterator[str]:
    yield f"transformer: width {transformer.width}, tokens {transformer.tokens}"
    yield from _input_lines(transformer)
    for number, sublayer in enumerate(transformer.sublayers):
        match sublayer:
            case Attention():
                yield f"sublayer {number}: attention, {len(sublayer.heads)} heads"
                for index, head in enumerate(sublayer.heads):
                    yield from _head_lines(index, head)
            case FeedForward():
                yield f"sublayer {number}: feed-forward, hidden {sublayer.hidden_width}"
                for name in ("inner", "inner_bias", "outer", "outer_bias"):
                    yield f"  {name}: {_entries(getattr(sublayer, name))}"
    where = "every token" if transformer.readout.token is None else transformer.readout.token
    yield f"read-out: token {where}"
    yield f"  weights: {_entries(transformer.readout.weights)}"
    yield f"  bias: {_entries(transformer.readout.bias)}"


def _input_lines(transformer: Transformer) -> Iterator[str]:
    source = transformer.input
    match source:
        case VectorInput():
            yield f"input: {source.inputs} reals"
            for t in range(source.tokens):
                yield f"  token {t} map: {_entries(source.maps[t])}"
                yield f"  token {t} offset: {_entries(source.offsets[t])}"
        case SequenceInput():
            yield f"input: symbols {json.dumps(source.alphabet)}"
            yield f"  embedding: {_entries(source.embedding)}"
            yield f"  positions: {_entries(source.positions)}"
            if source.start is not None:
                yield f"  start: {_entries(source.start)}"


def _head_lines(index: int, head: Head) -> Iterator[str]:
    mask = ", causal" if head.causal else ""
    yield f"  head {index}: {head.weighting}{mask}"
    for name in ("query", "key", "value", "output"):
        yield f"    {name} {getattr(head, name).shape}: {_entries(getattr(head, name))}"
    if head.position_bias is not None:
        yield f"    position bias: {_entries(head.position_bias)}"


def _entries(array: np.ndarray) -> str:
    places = np.argwhere(array)
    if not len(places):
        return "0"
    return " ".join(f"[{','.join(map(str, p))}]={_number(array[tuple(p)])}" for p in places)


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def fingerprint(transformer: Transformer) -> str:
    """SHA-256 of the structure and of every weight's bytes (zeros keep their sign)."""
    digest = hashlib.sha256(b"hardmax transformer 1")
    for label, part in _parts(transformer):
        digest.update(json.dumps(label).encode())
        if part is not None:
            array = np.ascontiguousarray(part, dtype="<f8")
            digest.update(json.dumps(array.shape).encode())
            digest.update(array.tobytes())
    return digest.hexdigest()


def _parts(transformer: Transformer) -> Iterator[tuple[object, np.ndarray | None]]:
    source, readout = transformer.input, transformer.readout
    match source:
        case VectorInput():
            yield "maps", source.maps
            yield "offsets", source.offsets
        case SequenceInput():
            yield ["alphabet", list(source.alphabet)], source.embedding
            yield "positions", source.positions
            yield "start", source.start
    for sublayer in transformer.sublayers:
        match sublayer:
            case Attention():
                yield ["attention", len(sublayer.heads)], None
                for head in sublayer.heads:
                    yield ["head", str(head.weighting), head.causal], head.query
                    yield "key", head.key
                    yield "value", head.value
                    yield "output", head.output
                    yield "position bias", head.position_bias
            case FeedForward():
                yield "inner", sublayer.inner
                yield "inner bias", sublayer.inner_bias
                yield "outer", sublayer.outer
                yield "outer bias", sublayer.outer_bias
    yield ["read-out", readout.token], readout.weights
    yield "read-out bias", readout.bias
