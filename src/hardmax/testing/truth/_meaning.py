"""What a Transformer and a straight-line program mean, said from the definition in any arithmetic.

It shares no code with the evaluators, nor with the checker.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hardmax.core import (
    Affine,
    Attention,
    FeedForward,
    GatedFeedForward,
    Head,
    Maximum,
    Product,
    SequenceInput,
    Steps,
    Transformer,
    Univariate,
    VectorInput,
)
from hardmax.testing.truth._arithmetic import Arithmetic, Row


def outputs_on_vector(transformer: Transformer, x: Sequence[Any], numbers: Arithmetic) -> Row:
    """The outputs for an input whose coordinates are numbers of the arithmetic."""
    source = transformer.input
    assert isinstance(source, VectorInput)
    stream = [_affine(source.maps[t], source.offsets[t], x, numbers) for t in range(source.tokens)]
    return outputs_of_stream(transformer, stream, numbers)[0]


def outputs_on_word(
    transformer: Transformer, word: Sequence[object], numbers: Arithmetic
) -> list[Row]:
    """The rows for a word: one per symbol, or the one that is read."""
    source = transformer.input
    assert isinstance(source, SequenceInput)
    rows = [source.embedding[i] for i in source.indices(word)]
    if source.start is not None:
        rows = [source.start, *rows]
    stream = [
        [numbers.number(a) + numbers.number(b) for a, b in zip(row, place, strict=True)]
        for row, place in zip(np.array(rows).tolist(), source.positions.tolist(), strict=False)
    ]
    return outputs_of_stream(transformer, stream, numbers)


def outputs_of_stream(
    transformer: Transformer, stream: list[Row], numbers: Arithmetic
) -> list[Row]:
    """What is read from the stream after all sublayers; after the last head, of no other token."""
    answering = _answering(transformer, len(stream))
    attention = [n for n, s in enumerate(transformer.sublayers) if isinstance(s, Attention)]
    last = max(attention, default=-1)
    for number, layer in enumerate(transformer.sublayers):
        asking = answering if number >= last else range(len(stream))
        match layer:
            case FeedForward():
                changes = _feed_forward(layer, stream, asking, numbers)
            case GatedFeedForward():
                changes = _gated(layer, stream, asking, numbers)
            case Attention():
                changes = _attention(layer, stream, asking, numbers)
        stream = [_sum(row, changes[t]) if t in changes else row for t, row in enumerate(stream)]
    readout = transformer.readout
    return [_affine(readout.weights, readout.bias, stream[t], numbers) for t in answering]


def values_of_steps(steps: Steps, x: Sequence[Any], numbers: Arithmetic) -> Row:
    """The last value of a straight-line program."""
    values = [list(x)]
    for step in steps.steps:
        read = [component for source in step.sources for component in values[source]]
        match step:
            case Affine():
                values.append(_affine(step.weights, step.bias, read, numbers))
            case Maximum():
                rows = [[read[i] for i in row if i >= 0] for row in step.groups.tolist()]
                values.append([numbers.maximum(row) for row in rows])
            case Product():
                values.append([read[a] * read[b] for a, b in step.pairs.tolist()])
            case Univariate():
                values.append([numbers.apply(step.name, v, step.exponent) for v in read])
    return values[-1]


def _answering(transformer: Transformer, tokens: int) -> Sequence[int]:
    token = transformer.readout.token
    if token is not None:
        return [range(tokens)[token]]
    source = transformer.input
    return range(int(isinstance(source, SequenceInput) and source.start is not None), tokens)


def _feed_forward(
    layer: Any, stream: list[Row], asking: Sequence[int], numbers: Arithmetic
) -> dict[int, Row]:
    changes = {}
    for t in asking:
        hidden = _affine(layer.inner, layer.inner_bias, stream[t], numbers)
        positive = [numbers.apply("relu", h, 1.0) for h in hidden]
        changes[t] = _affine(layer.outer, layer.outer_bias, positive, numbers)
    return changes


def _gated(
    layer: GatedFeedForward, stream: list[Row], asking: Sequence[int], numbers: Arithmetic
) -> dict[int, Row]:
    changes = {}
    for t in asking:
        gates = _affine(layer.gate, layer.gate_bias, stream[t], numbers)
        factors = _affine(layer.inner, layer.inner_bias, stream[t], numbers)
        hidden = [
            numbers.apply(layer.activation, z, 1.0) * u for z, u in zip(gates, factors, strict=True)
        ]
        changes[t] = _affine(layer.outer, layer.outer_bias, hidden, numbers)
    return changes


def _attention(
    layer: Any, stream: list[Row], asking: Sequence[int], numbers: Arithmetic
) -> dict[int, Row]:
    changes = {t: [numbers.number(0)] * layer.width for t in asking}
    for head in layer.heads:
        keys = [_linear(head.key, token, numbers) for token in stream]
        values = [_linear(head.value, token, numbers) for token in stream]
        for t in asking:
            query = _linear(head.query, stream[t], numbers)
            scores = _scores(head, t, query, keys, numbers)
            mixed = numbers.mix(scores, head.weighting, values[: len(scores)])
            changes[t] = _sum(changes[t], _linear(head.output, mixed, numbers))
    return changes


def _scores(head: Head, t: int, query: Row, keys: list[Row], numbers: Arithmetic) -> Row:
    """Of the tokens that t sees."""
    scores = []
    for j in range(t + 1) if head.causal else range(len(keys)):
        terms = [q * k for q, k in zip(query, keys[j], strict=True)]
        bias = 0.0 if head.position_bias is None else float(head.position_bias[t, j])
        scores.append(sum(terms, numbers.number(bias)))
    return scores


def _sum(a: Row, b: Row) -> Row:
    return [x + y for x, y in zip(a, b, strict=True)]


def _affine(matrix: np.ndarray, bias: np.ndarray, x: Sequence[Any], numbers: Arithmetic) -> Row:
    constants = [numbers.number(value) for value in bias.tolist()]
    return _sum(_linear(matrix, x, numbers), constants)


def _linear(matrix: np.ndarray, x: Sequence[Any], numbers: Arithmetic) -> Row:
    """matrix @ x, zeros skipped."""
    result = [numbers.number(0)] * len(matrix)
    for row, column in zip(*np.nonzero(matrix), strict=True):
        result[row] = result[row] + numbers.number(float(matrix[row, column])) * x[column]
    return result
