"""The value at the waist: how an input becomes tokens, residual layers, a read-out.

Its canonical printed form lists nonzero entries only, with every digit that matters, so that equal
texts mean equal weights; golden tests compare it. Identity is the fingerprint of the exact bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from hardmax._errors import ShapeError
from hardmax.core._gated import GatedFeedForward
from hardmax.core._layers import (
    Attention,
    FeedForward,
    Hardmax,
    Head,
    Input,
    SequenceInput,
    Sublayer,
    VectorInput,
    Weighting,
)
from hardmax.numerics import finite_array


@dataclass(frozen=True, eq=False)
class ReadOut:
    """The answer: weights @ x + bias at one token (negative counts from the end), or at each.

    `token=None` reads every token of a sequence; the start token, if any, is left out.

    >>> hm.ReadOut(weights=[[1.0, 0.0]], bias=[0.5]).outputs
    1
    """

    weights: np.ndarray
    bias: np.ndarray
    token: int | None = -1

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", finite_array(self.weights, "read-out weights", ndim=2))
        object.__setattr__(self, "bias", finite_array(self.bias, "read-out bias", ndim=1))
        if self.bias.shape != self.weights.shape[:1]:
            raise ShapeError(
                f"The read-out bias must have shape {self.weights.shape[:1]}, but it is "
                f"{self.bias.shape}."
            )

    @property
    def outputs(self) -> int:
        return self.weights.shape[0]

    def __repr__(self) -> str:
        where = "every token" if self.token is None else f"token {self.token}"
        return f"ReadOut({self.outputs} outputs from {where})"


@dataclass(frozen=True, eq=False)
class Transformer:
    """A standard Transformer: x <- x + sublayer(x), no layer norm, softmax or hardmax heads.

    Weights denote exact reals, so a hard Transformer means an exact function on the rationals.

    >>> start = hm.VectorInput(maps=[[[2.0]]], offsets=[[0.0]])
    >>> double = hm.Transformer(start, [], hm.ReadOut(np.eye(1), np.zeros(1)))
    >>> double.tokens, double.width, double.outputs
    (1, 1, 1)
    """

    input: Input
    sublayers: tuple[Sublayer, ...]
    readout: ReadOut

    def __init__(self, input: Input, sublayers: Iterable[Sublayer], readout: ReadOut) -> None:
        object.__setattr__(self, "input", input)
        object.__setattr__(self, "sublayers", tuple(sublayers))
        object.__setattr__(self, "readout", readout)
        self._check_kinds()
        for number, sublayer in enumerate(self.sublayers):
            if sublayer.width != self.width:
                raise ShapeError(
                    f"Sublayer {number} has width {sublayer.width}, but the stream has width "
                    f"{self.width}."
                )
        if readout.weights.shape[1] != self.width:
            raise ShapeError(
                f"The read-out reads width {readout.weights.shape[1]}, but the stream has width "
                f"{self.width}."
            )
        if readout.token is not None and not -self.tokens <= readout.token < self.tokens:
            raise ShapeError(f"The read-out reads token {readout.token} of {self.tokens}.")
        if readout.token is None and isinstance(input, VectorInput):
            raise ShapeError("A vector input has one answer: name the token to read it from.")
        for head in self.heads:
            if head.position_bias is not None and len(head.position_bias) < self.tokens:
                raise ShapeError(
                    f"A position bias covers {len(head.position_bias)} positions, but the prompt "
                    f"has {self.tokens} tokens."
                )

    def _check_kinds(self) -> None:
        if not isinstance(self.input, VectorInput | SequenceInput):
            raise ShapeError("A Transformer's input must be a VectorInput or a SequenceInput.")
        if not all(isinstance(layer, Sublayer) for layer in self.sublayers):
            raise ShapeError(
                "A Transformer's sublayers must be Attention, FeedForward or GatedFeedForward "
                "values."
            )

    @property
    def width(self) -> int:
        return self.input.width

    @property
    def tokens(self) -> int:
        return self.input.tokens

    @property
    def outputs(self) -> int:
        return self.readout.outputs

    @property
    def heads(self) -> tuple[Head, ...]:
        return tuple(
            head for layer in self.sublayers if isinstance(layer, Attention) for head in layer.heads
        )

    @property
    def is_hard(self) -> bool:
        """Whether heads are hardmaxes and gates ReLUs: the function is exact on the rationals."""
        gated = (layer for layer in self.sublayers if isinstance(layer, GatedFeedForward))
        hard = all(isinstance(head.weighting, Hardmax) for head in self.heads)
        return hard and all(layer.is_exact for layer in gated)

    @cached_property
    def tokens_that_matter(self) -> tuple[tuple[int, ...], ...]:
        """Entry k names the tokens whose streams after k sublayers the answer may depend on.

        Entry 0 is about the embedding, the last one about the stream that is read. The answer is
        a function of the tokens of any entry alone, by induction from the end: it is read from
        the read-out's token, or from all of them. A feed-forward sublayer makes a token from
        itself. An attention sublayer makes token t from itself and from what its heads let it
        see: tokens 0 to t if every head is causal, else all of them. So the tokens before it are
        0 to the largest one after it, or all, and the tokens after it are among them.

        Only masks are looked at, never weights: a token that matters may turn out to be read by
        a weight of 0. At the full length, where tokens are counted from the first one.
        """
        everyone, token = tuple(range(self.tokens)), self.readout.token
        found = [everyone if token is None else (token % self.tokens,)]
        for sublayer in reversed(self.sublayers):
            after = found[-1]
            if isinstance(sublayer, Attention):
                causal = all(head.causal for head in sublayer.heads)
                after = everyone[: max(after) + 1] if causal else everyone
            found.append(after)
        return tuple(reversed(found))

    def with_weightings(self, weightings: Iterable[Weighting]) -> Transformer:
        """The same weights, with the heads' weightings replaced in order."""
        supply = iter(weightings)
        sublayers = [
            Attention(replace(head, weighting=next(supply)) for head in layer.heads)
            if isinstance(layer, Attention)
            else layer
            for layer in self.sublayers
        ]
        return Transformer(self.input, sublayers, self.readout)

    def __repr__(self) -> str:
        attention = sum(isinstance(layer, Attention) for layer in self.sublayers)
        return (
            f"Transformer(width {self.width}, {self.tokens} tokens, {attention} attention and "
            f"{len(self.sublayers) - attention} feed-forward sublayers, {len(self.heads)} heads, "
            f"{self.outputs} outputs)"
        )


def weight_arrays(transformer: Transformer) -> Iterator[np.ndarray]:
    """Every stored weight."""
    source = transformer.input
    match source:
        case VectorInput():
            yield from (source.maps, source.offsets)
        case SequenceInput():
            yield from (source.embedding, source.positions)
            if source.start is not None:
                yield source.start
    for head in transformer.heads:
        yield from (head.query, head.key, head.value, head.output)
        if head.position_bias is not None:
            yield head.position_bias
    for layer in transformer.sublayers:
        if isinstance(layer, FeedForward):
            yield from (layer.inner, layer.inner_bias, layer.outer, layer.outer_bias)
        elif isinstance(layer, GatedFeedForward):
            yield from layer.parts().values()
    yield from (transformer.readout.weights, transformer.readout.bias)


# ---- text and fingerprint ------------------------------------------------------------------------


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
            case GatedFeedForward():
                hidden = f"hidden {sublayer.hidden_width}, {sublayer.activation}"
                yield f"sublayer {number}: gated feed-forward, {hidden}"
                for name, part in sublayer.parts().items():
                    yield f"  {name}: {_entries(part)}"
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
            case GatedFeedForward():
                yield ["gated", sublayer.activation], None
                yield from sublayer.parts().items()
    yield ["read-out", readout.token], readout.weights
    yield "read-out bias", readout.bias
