"""Targets that are nothing but their steps, or a table of words; and a Transformer as steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from hardmax._errors import SemanticsError
from hardmax.core import (
    SYMBOL,
    Affine,
    Attention,
    EncodedTarget,
    FeedForward,
    GatedFeedForward,
    Head,
    Product,
    Recalled,
    SequenceSteps,
    Softmax,
    Steps,
    Transformer,
    Univariate,
    VectorInput,
)
from hardmax.numerics import Interval

Number = int | float | Fraction


@dataclass(frozen=True, eq=False)
class StepsTarget:
    """A straight-line program as a target; no file can hold it."""

    program: Steps

    @property
    def inputs(self) -> int:
        return self.program.inputs

    @property
    def outputs(self) -> int:
        return self.program.size(len(self.program.steps))

    @property
    def parameters(self) -> int | None:
        return None

    def __call__(self, x: Any, /) -> Any:
        if isinstance(x, Interval):
            return self.program.values(x)[-1]
        return np.moveaxis(self.program.values(np.moveaxis(np.asarray(x), -1, 0))[-1], 0, -1)

    def steps(self) -> Steps:
        return self.program

    def encode(self) -> EncodedTarget | None:
        return None


@dataclass(frozen=True, eq=False)
class WordTable:
    """Rows of rational numbers for every word of a domain, one row per symbol or one per word."""

    rows: Mapping[tuple[Any, ...], tuple[tuple[Fraction, ...], ...]]
    alphabet: tuple[object, ...]
    outputs: int
    each_symbol: bool

    @property
    def parameters(self) -> int | None:
        return None

    def __call__(self, word: Sequence[object], /) -> tuple[tuple[Fraction, ...], ...]:
        return self.rows[tuple(word)]

    def steps(self) -> SequenceSteps:
        """One recalled table per output; a single row is said at every position."""
        number = {symbol: i for i, symbol in enumerate(self.alphabet)}
        tables = []
        for output in range(self.outputs):
            said: dict[tuple[Number, ...], tuple[Number, ...]] = {}
            for word, rows in self.rows.items():
                places = rows if self.each_symbol else rows * len(word)
                said[tuple(number[s] for s in word)] = tuple(row[output] for row in places)
            tables.append(Recalled(SYMBOL, said, 0))
        outputs = range(3, 3 + self.outputs)
        return SequenceSteps(tables, outputs, None if self.each_symbol else -1)

    def encode(self) -> EncodedTarget | None:
        return None


def steps_of_transformer(transformer: Transformer, added: Steps | None = None) -> Steps:
    """A soft Transformer of vectors, weight by weight, as a straight-line program of the reals.

    Both mean the same function: a softmax is exp(coldness score_j) times the reciprocal of the sum
    of them. With `added`, a program of the same inputs and outputs, their sum.
    """
    writer = _TransformerSteps(transformer)
    stream = writer.embed_tokens()
    for layer in transformer.sublayers:
        match layer:
            case Attention():
                stream = [writer.attend_heads(layer, stream, t) for t in range(len(stream))]
            case FeedForward():
                stream = [writer.fed_forward(layer, row) for row in stream]
            case GatedFeedForward():
                stream = [writer.gated(layer, row) for row in stream]
    readout = transformer.readout
    assert readout.token is not None
    answer = stream[readout.token]
    if added is None:
        writer.add(Affine((answer,), readout.weights, readout.bias))
    else:
        other = writer.append(added)
        both = np.hstack([readout.weights, np.eye(readout.outputs)])
        writer.add(Affine((answer, other), both, readout.bias))
    return Steps(writer.inputs, writer.steps)


class _TransformerSteps:
    """Writes steps; a value is known by its number."""

    def __init__(self, transformer: Transformer) -> None:
        assert isinstance(transformer.input, VectorInput)
        self.source, self.width = transformer.input, transformer.width
        self.inputs = transformer.input.inputs
        self.steps: list[Affine | Product | Univariate] = []

    def add(self, step: Affine | Product | Univariate) -> int:
        self.steps.append(step)
        return len(self.steps)

    def linear(self, value: int, weights: np.ndarray) -> int:
        return self.add(Affine((value,), weights, np.zeros(len(weights))))

    def append(self, program: Steps) -> int:
        """Another program of the same inputs; its last value."""
        shift = len(self.steps)
        for step in program.steps:
            moved = tuple(source + shift if source else 0 for source in step.sources)
            match step:
                case Affine():
                    self.add(Affine(moved, step.weights, step.bias))
                case Product():
                    self.add(Product(moved, step.pairs))
                case Univariate():
                    self.add(Univariate(moved, step.name, step.size, step.exponent))
                case _:
                    raise SemanticsError("Maxima cannot be appended.")
        return len(self.steps)

    def embed_tokens(self) -> list[int]:
        source = self.source
        pairs = zip(source.maps, source.offsets, strict=True)
        return [self.add(Affine((0,), map_, offset)) for map_, offset in pairs]

    def fed_forward(self, layer: FeedForward, row: int) -> int:
        hidden = self.add(Affine((row,), layer.inner, layer.inner_bias))
        positive = self.add(Univariate((hidden,), "relu", layer.hidden_width))
        both = np.hstack([np.eye(self.width), layer.outer])
        return self.add(Affine((row, positive), both, layer.outer_bias))

    def gated(self, layer: GatedFeedForward, row: int) -> int:
        """Unit by unit, without a look at which of them make products."""
        gates = self.add(Affine((row,), layer.gate, layer.gate_bias))
        opened = self.add(Univariate((gates,), layer.activation, layer.hidden_width))
        factors = self.add(Affine((row,), layer.inner, layer.inner_bias))
        pairs = [[k, layer.hidden_width + k] for k in range(layer.hidden_width)]
        hidden = self.add(Product((opened, factors), np.array(pairs)))
        both = np.hstack([np.eye(self.width), layer.outer])
        return self.add(Affine((row, hidden), both, layer.outer_bias))

    def attend_heads(self, layer: Attention, stream: list[int], t: int) -> int:
        mixed = [self._mix_values(head, stream, t) for head in layer.heads]
        weights = np.hstack([np.eye(self.width), *[head.output for head in layer.heads]])
        return self.add(Affine((stream[t], *mixed), weights, np.zeros(self.width)))

    def _mix_values(self, head: Head, stream: list[int], t: int) -> int:
        seen = range(t + 1) if head.causal else range(len(stream))
        powers = [self._power(head, stream, t, j) for j in seen]
        ones = np.ones((1, len(powers)))
        total = self.add(Affine(tuple(powers), ones, np.zeros(1)))
        share = self.add(Univariate((total,), "reciprocal", 1))
        parts = []
        for power, j in zip(powers, seen, strict=True):
            weight = self.add(Product((power, share), np.array([[0, 1]])))
            value = self.linear(stream[j], head.value)
            pairs = [[0, 1 + v] for v in range(head.value_width)]
            parts.append(self.add(Product((weight, value), np.array(pairs))))
        summed = np.hstack([np.eye(head.value_width)] * len(parts))
        return self.add(Affine(tuple(parts), summed, np.zeros(head.value_width)))

    def _power(self, head: Head, stream: list[int], t: int, j: int) -> int:
        if not isinstance(head.weighting, Softmax):
            raise SemanticsError("A hardmax has no steps.")
        query, key = self.linear(stream[t], head.query), self.linear(stream[j], head.key)
        pairs = [[k, head.key_width + k] for k in range(head.key_width)]
        products = self.add(Product((query, key), np.array(pairs)))
        bias = 0.0 if head.position_bias is None else head.position_bias[t, j]
        ones = np.ones((1, head.key_width))
        score = self.add(Affine((products,), ones, np.array([bias])))
        logit = self.linear(score, np.array([[head.weighting.coldness]]))
        return self.add(Univariate((logit,), "exp", 1))
