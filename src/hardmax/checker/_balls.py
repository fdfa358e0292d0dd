"""A Transformer and its target at one point, in exact or ball arithmetic.

This evaluator shares nothing with the graph, the tapes and NumPy: it reads weights and steps and
follows them literally. It confirms what the others found. Hard models stay exact, in rationals,
as long as the numbers are rational; everything else is a ball that contains the true value.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from flint import arb, fmpq

from hardmax.checker._work import BALL, charge
from hardmax.checker.forms import rational
from hardmax.core import (
    Affine,
    Attention,
    FeedForward,
    Head,
    Maximum,
    Product,
    Steps,
    Transformer,
    Univariate,
    VectorInput,
)
from hardmax.numerics import ball_size_down, ball_size_up, precision, record_of

Number = fmpq | arb
_PRECISION = 160


class Undefined(Exception):
    """A value is not defined, or cannot be told from an undefined one, at this point."""


def error_at(
    transformer: Transformer, goal: Steps | Sequence[float], x: Sequence[float]
) -> tuple[float, float]:
    """The largest |T(x) - f(x)| over the outputs lies between these two numbers.

    The goal is the target's program, or its values at x if these are taken as exact.
    """
    with precision(_PRECISION):
        point = [rational(v) for v in x]
        ours = transformer_at(transformer, point)
        theirs = steps_at(goal, point) if isinstance(goal, Steps) else list(map(rational, goal))
        pairs = [_magnitude(a - b) for a, b in zip(ours, theirs, strict=True)]
    return max(a for a, _ in pairs), max(b for _, b in pairs)


def _magnitude(value: Number) -> tuple[float, float]:
    """|value| from below and from above, in floats."""
    low, high = ball_size_down(arb(value)), ball_size_up(arb(value))
    if not high < np.inf:
        raise Undefined("The error is not finite at this point.")
    return low, high


def transformer_at(transformer: Transformer, x: Sequence[Number]) -> list[Number]:
    """The outputs at a point."""
    source = transformer.input
    assert isinstance(source, VectorInput)
    stream = [_affine(source.maps[t], source.offsets[t], x) for t in range(transformer.tokens)]
    for sublayer, asking in zip(transformer.sublayers, asking_tokens(transformer), strict=True):
        match sublayer:
            case FeedForward():
                changes = {t: _feed_forward(sublayer, stream[t]) for t in asking}
            case Attention():
                changes = {t: [fmpq(0)] * transformer.width for t in asking}
                for head in sublayer.heads:
                    _attend(head, stream, changes)
        for t, change in changes.items():
            stream[t] = [a + b for a, b in zip(stream[t], change, strict=True)]
    readout = transformer.readout
    assert readout.token is not None
    return _affine(readout.weights, readout.bias, stream[readout.token])


def asking_tokens(transformer: Transformer) -> list[range]:
    """For each sublayer the tokens whose change has a say in what is read out.

    A feed-forward layer is asked for those that come after it, attention for all that they see.
    """
    assert transformer.readout.token is not None
    last = transformer.readout.token % transformer.tokens
    needed = range(last, last + 1)
    asking = []
    for sublayer in reversed(transformer.sublayers):
        asking.append(needed)
        if isinstance(sublayer, Attention):
            everyone = not all(head.causal for head in sublayer.heads)
            needed = range(transformer.tokens if everyone else needed.stop)
    return asking[::-1]


def _linear(matrix: np.ndarray, x: Sequence[Number]) -> list[Number]:
    result: list[Number] = [fmpq(0)] * matrix.shape[0]
    _add(matrix, x, result)
    return result


def _add(matrix: np.ndarray, x: Sequence[Number], result: list[Number]) -> None:
    """result += matrix @ x, by the entries that are not 0."""
    rows, columns = np.nonzero(matrix)
    entries = matrix[rows, columns].tolist()
    charge(BALL, 4 + 2 * len(entries))
    for i, j, entry in zip(rows.tolist(), columns.tolist(), entries, strict=True):
        value = x[j]
        term = value * arb(entry) if isinstance(value, arb) else rational(entry) * value
        result[i] = result[i] + term


def _affine(matrix: np.ndarray, bias: np.ndarray, x: Sequence[Number]) -> list[Number]:
    return [rational(b) + v for b, v in zip(bias, _linear(matrix, x), strict=True)]


def _feed_forward(layer: FeedForward, token: Sequence[Number]) -> list[Number]:
    hidden = [_largest([h, fmpq(0)]) for h in _affine(layer.inner, layer.inner_bias, token)]
    return _affine(layer.outer, layer.outer_bias, hidden)


def _attend(head: Head, stream: list[list[Number]], changes: dict[int, list[Number]]) -> None:
    keys = [_linear(head.key, token) for token in stream]
    values = [_linear(head.value, token) for token in stream]
    for t in changes:
        seen = range(t + 1) if head.causal else range(len(stream))
        query = _linear(head.query, stream[t])
        scores = [sum((a * b for a, b in zip(query, keys[j], strict=True)), fmpq(0)) for j in seen]
        if head.position_bias is not None:
            scores = [
                s + rational(head.position_bias[t, j]) for s, j in zip(scores, seen, strict=True)
            ]
        charge(BALL, len(scores) * (2 * len(query) + 8 + 2 * head.value_width))
        weights = _weights(scores, head.coldness)
        mixed = [
            sum((w * values[j][v] for w, j in zip(weights, seen, strict=True)), fmpq(0))
            for v in range(head.value_width)
        ]
        _add(head.output, mixed, changes[t])


def _weights(scores: list[Number], coldness: float) -> list[Number]:
    if np.isinf(coldness):
        top = _largest(scores)
        if any(isinstance(s, arb) for s in scores):
            leads = [s for s in scores if not bool(s < top)]
            if len(leads) != 1:
                raise Undefined("A hard head cannot tell its winner at this point.")
            return [fmpq(int(not bool(s < top))) for s in scores]
        winners = sum(s == top for s in scores)
        return [fmpq(1, winners) if s == top else fmpq(0) for s in scores]
    logits = [arb(s * rational(coldness)) for s in scores]
    middle = max(logits, key=lambda logit: float(logit.mid()))
    powers = [(logit - middle).exp() for logit in logits]
    whole = sum(powers, arb(0))
    return [power / whole for power in powers]


def _largest(values: Sequence[Number]) -> Number:
    top = values[0]
    for value in values[1:]:
        if isinstance(top, fmpq) and isinstance(value, fmpq):
            top = max(top, value)
        else:
            a, b = arb(top), arb(value)
            top = (a + b + abs(a - b)) / 2
    return top


def steps_at(steps: Steps, x: Sequence[Number]) -> list[Number]:
    """The target at a point."""
    values: list[list[Number]] = [list(x)]
    for step in steps.steps:
        read = [v for source in step.sources for v in values[source]]
        match step:
            case Affine():
                values.append(_affine(step.weights, step.bias, read))
            case Maximum():
                values.append([_largest([read[i] for i in row if i >= 0]) for row in step.groups])
            case Product():
                values.append([read[i] * read[j] for i, j in step.pairs])
            case Univariate():
                values.append([_univariate(step, v) for v in read])
    return values[-1]


def _univariate(step: Univariate, x: Number) -> Number:
    """Exact where a rational stays one (a high power of it would be too long), or else a ball."""
    function = record_of(step.name, step.exponent)
    if isinstance(x, fmpq) and function.pieces:
        return _largest([piece.slope * x + piece.offset for piece in function.pieces])
    if isinstance(x, fmpq) and function.fractions and x != 0 and abs(Fraction(step.exponent)) <= 64:
        value = function.fractions(Fraction(int(x.p), int(x.q)))
        assert isinstance(value, Fraction)
        return fmpq(value.numerator, value.denominator)
    return function.balls(arb(x))
