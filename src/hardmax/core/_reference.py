"""The meaning of a Transformer: one evaluator, written once, for floats and for Fractions.

It is slow and plain on purpose; every fast evaluator is tested against it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from hardmax._errors import SemanticsError, ShapeError
from hardmax.core._gated import GatedFeedForward
from hardmax.core._layers import (
    Attention,
    FeedForward,
    Hardmax,
    Head,
    SequenceInput,
    Sublayer,
    VectorInput,
)
from hardmax.core._transformer import Transformer

Number = float | Fraction
N = TypeVar("N", float, Fraction)
Stream = list[list[Any]]  # tokens x width


@dataclass(frozen=True)
class Trace:
    """What the evaluator saw: the stream after the embedding and after every sublayer."""

    streams: list[Stream]
    outputs: list[Any]


def reference(transformer: Transformer, x: Iterable[object], number: type = float) -> list[Any]:
    """The outputs at x, in floats or, with `number=Fraction`, exactly.

    For a vector input x is a list of numbers and the result a list of outputs; for a sequence
    it is a list of symbols, and a read-out at every token gives one list per symbol.
    """
    return trace(transformer, x, number).outputs


def trace(transformer: Transformer, x: Iterable[object], number: type = float) -> Trace:
    """The outputs together with every stream on the way."""
    if number is Fraction and not transformer.is_hard:
        raise SemanticsError(
            "A softmax has no rational value, nor has a silu: evaluate it with floats, or take its "
            "hard skeleton."
        )
    stream = _embed(transformer, x, number)
    streams = [stream]
    for sublayer in transformer.sublayers:
        stream = [
            [a + b for a, b in zip(old, change, strict=True)]
            for old, change in zip(stream, _change(sublayer, stream, number), strict=True)
        ]
        streams.append(stream)
    return Trace(streams, _read(transformer, stream, number))


def _embed(transformer: Transformer, x: Iterable[object], number: type) -> Stream:
    source = transformer.input
    match source:
        case VectorInput():
            vector = [number(value) for value in x]
            if len(vector) != source.inputs:
                raise ShapeError(f"The input needs {source.inputs} numbers, but got {len(vector)}.")
            return [
                _affine(source.maps[t], source.offsets[t], vector, number)
                for t in range(source.tokens)
            ]
        case SequenceInput():
            rows = [source.embedding[i] for i in source.indices(x)]
            if source.start is not None:
                rows.insert(0, source.start)
            return [
                [number(a) + number(b) for a, b in zip(row, position, strict=True)]
                for row, position in zip(rows, source.positions, strict=False)
            ]


def _change(sublayer: Sublayer, stream: Stream, number: type) -> Stream:
    match sublayer:
        case FeedForward():
            return [_feed_forward(sublayer, token, number) for token in stream]
        case GatedFeedForward():
            return [_gated(sublayer, token, number) for token in stream]
        case Attention():
            change = [[number(0)] * sublayer.width for _ in stream]
            for head in sublayer.heads:
                for row, addition in zip(change, _attend(head, stream, number), strict=True):
                    for c, amount in enumerate(addition):
                        row[c] += amount
            return change


def _feed_forward(layer: FeedForward, token: list[N], number: type[N]) -> list[N]:
    hidden = [max(h, number(0)) for h in _affine(layer.inner, layer.inner_bias, token, number)]
    return _affine(layer.outer, layer.outer_bias, hidden, number)


def _gated(layer: GatedFeedForward, token: list[N], number: type[N]) -> list[N]:
    gates = _affine(layer.gate, layer.gate_bias, token, number)
    factors = _affine(layer.inner, layer.inner_bias, token, number)
    if layer.is_exact:
        hidden = [max(z, number(0)) * u for z, u in zip(gates, factors, strict=True)]
    else:
        opened = [number(float(layer.act(float(z)))) for z in gates]
        hidden = [z * u for z, u in zip(opened, factors, strict=True)]
    return _affine(layer.outer, layer.outer_bias, hidden, number)


def _attend(head: Head, stream: Stream, number: type) -> Stream:
    queries = [_linear(head.query, token, number) for token in stream]
    keys = [_linear(head.key, token, number) for token in stream]
    values = [_linear(head.value, token, number) for token in stream]
    result = []
    for t, query in enumerate(queries):
        seen = range(t + 1) if head.causal else range(len(stream))
        scores = [_dot(query, keys[j], number) for j in seen]
        if head.position_bias is not None:
            scores = [
                s + number(head.position_bias[t, j]) for j, s in zip(seen, scores, strict=True)
            ]
        weights = _weights(head, scores, number)
        mixed = [
            _dot(weights, [values[j][v] for j in seen], number) for v in range(head.value_width)
        ]
        result.append(_linear(head.output, mixed, number))
    return result


def _weights(head: Head, scores: list[Any], number: type) -> list[Any]:
    top = max(scores)
    if isinstance(head.weighting, Hardmax):
        winners = sum(score == top for score in scores)
        return [number(1) / winners if score == top else number(0) for score in scores]
    logits = [head.weighting.coldness * score for score in scores]
    top = max(logits)
    powers = [math.exp(logit - top) for logit in logits]
    total = math.fsum(powers)
    return [power / total for power in powers]


def _read(transformer: Transformer, stream: Stream, number: type) -> list[Any]:
    readout = transformer.readout
    if readout.token is not None:
        return _affine(readout.weights, readout.bias, stream[readout.token], number)
    first = int(
        isinstance(transformer.input, SequenceInput) and transformer.input.start is not None
    )
    return [_affine(readout.weights, readout.bias, token, number) for token in stream[first:]]


def _dot(a: Sequence[N], b: Sequence[N], number: type[N]) -> N:
    return sum((p * q for p, q in zip(a, b, strict=True)), start=number(0))


def _linear(matrix: np.ndarray, vector: Sequence[N], number: type[N]) -> list[N]:
    """matrix @ vector, skipping zeros: 0 * v is 0 for every number that can occur."""
    result = [number(0)] * matrix.shape[0]
    for row, column in zip(*np.nonzero(matrix), strict=True):
        result[row] += number(matrix[row, column]) * vector[column]
    return result


def _affine(matrix: np.ndarray, bias: np.ndarray, vector: Sequence[N], number: type[N]) -> list[N]:
    return [number(b) + r for b, r in zip(bias, _linear(matrix, vector, number), strict=True)]
