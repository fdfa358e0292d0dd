"""A Transformer and its target at one input, in exact or ball arithmetic.

This evaluator shares nothing with the graph, the tapes and NumPy: it reads weights and steps and
follows them literally. It confirms what the others found, for vectors and for words. Hard models
stay exact, in rationals, as long as the numbers are rational; everything else is a ball that
contains the true value.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from fractions import Fraction

import numpy as np
from flint import arb, fmpq

from hardmax.checker._budget import BALL, charge
from hardmax.checker._dependence import tokens_asking, tokens_read
from hardmax.checker.forms import rational
from hardmax.core import (
    Affine,
    Attention,
    Construction,
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
    weight_arrays,
)
from hardmax.numerics import ball_size_down, ball_size_up, precision, record_of

Number = fmpq | arb
_PRECISION = 160
_PRECISIONS = (96, 256, 1024)  # bits, for words: few suffice, and a word has many tokens
_HUGE = Fraction(10) ** 400
_NARROW = Fraction(1, 2**40)  # of the error itself: enough digits for any report


class Undefined(Exception):
    """A value is not defined, or cannot be told from an undefined one, at this point."""


# ---- errors ------------------------------------------------------------------------------------


def error_at_point(
    transformer: Transformer, goal: Steps | Sequence[float], x: Sequence[float]
) -> tuple[float, float]:
    """The largest |T(x) - f(x)| over the outputs lies between these two numbers.

    The goal is the target's program, or its values at x if these are taken as exact.
    """
    source = transformer.input
    assert isinstance(source, VectorInput)
    with precision(_PRECISION):
        point = [rational(v) for v in x]
        maps = zip(source.maps, source.offsets, strict=True)
        (ours,) = _outputs(transformer, [_affine(m, offset, point) for m, offset in maps])
        theirs = steps_at(goal, point) if isinstance(goal, Steps) else list(map(rational, goal))
        pairs = [_magnitude(a - b) for a, b in zip(ours, theirs, strict=True)]
    return max(a for a, _ in pairs), max(b for _, b in pairs)


def _magnitude(value: Number) -> tuple[float, float]:
    """|value| from below and from above, in floats."""
    low, high = ball_size_down(arb(value)), ball_size_up(arb(value))
    if not high < np.inf:
        raise Undefined("The error is not finite at this point.")
    return low, high


def error_at_word(
    construction: Construction, word: Sequence[Hashable]
) -> tuple[Fraction, Fraction]:
    """Bounds on the largest error over the outputs for one word, over the reals.

    They agree for a hard Transformer. For a soft one they come from balls of growing precision,
    until they are close to each other; a hard head that the balls cannot decide leaves (0, huge).
    """
    transformer = construction.transformer
    wanted = [Fraction(v) for row in construction.claim.target(word) for v in row]
    charge(BALL, cost_of_word(transformer, len(word)))
    low, high = Fraction(0), _HUGE
    for bits in _PRECISIONS:
        with precision(bits):
            try:
                given = [v for row in _outputs_of_word(transformer, word) for v in row]
                pairs = [_distance(a, b) for a, b in zip(given, wanted, strict=True)]
            except Undefined:
                continue
        low = max((a for a, _ in pairs), default=Fraction(0))
        high = max((b for _, b in pairs), default=Fraction(0))
        if high - low <= _NARROW * high:
            break
    return low, high


def _distance(given: Number, wanted: Fraction) -> tuple[Fraction, Fraction]:
    """|given - wanted| from below and from above."""
    away = given - fmpq(wanted.numerator, wanted.denominator)
    if isinstance(away, fmpq):
        exact = abs(Fraction(int(away.p), int(away.q)))
        return exact, exact
    if not away.is_finite():
        raise Undefined("The error is not finite for this word.")
    return _fraction(away.abs_lower()), _fraction(away.abs_upper())


def _fraction(ball: arb) -> Fraction:
    mantissa, exponent = ball.man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def cost_of_word(transformer: Transformer, length: int) -> int:
    """Operations on one word: weights times tokens, and what heads do for pairs of tokens."""
    tokens = length + 1
    weights = sum(int(np.count_nonzero(part)) for part in weight_arrays(transformer))
    heads = [h for a in transformer.sublayers if isinstance(a, Attention) for h in a.heads]
    pairs = sum(2 * len(h.query) + 2 * h.value_width + 8 for h in heads)
    return 8 + tokens * 2 * weights + tokens * tokens * pairs


def _outputs_of_word(transformer: Transformer, word: Sequence[Hashable]) -> list[list[Number]]:
    """Rationals if every head is hard; else balls from the start, which a softmax makes anyway."""
    source = transformer.input
    assert isinstance(source, SequenceInput)
    number = rational if transformer.is_hard else arb
    rows = [source.embedding[i] for i in source.indices(word)]
    if source.start is not None:
        rows.insert(0, source.start)
    stream = [
        [number(float(a)) + number(float(b)) for a, b in zip(row, place, strict=True)]
        for row, place in zip(rows, source.positions, strict=False)
    ]
    return _outputs(transformer, stream, tick=0)


# ---- the Transformer ---------------------------------------------------------------------------


def _outputs(
    transformer: Transformer, stream: list[list[Number]], tick: int = BALL
) -> list[list[Number]]:
    """What is read out, given the stream after the embedding, which is used up.

    The reference semantics, said again; floats are taken exactly. `tick` is what an operation is
    charged for: 0 where all of them have been charged for before.
    """
    read = tokens_read(transformer, len(stream))
    asked = tokens_asking(transformer.sublayers, read, len(stream))
    for sublayer, asking in zip(transformer.sublayers, asked, strict=True):
        match sublayer:
            case FeedForward():
                changes = {t: _feed_forward(sublayer, stream[t], tick) for t in asking}
            case GatedFeedForward():
                changes = {t: _gated(sublayer, stream[t], tick) for t in asking}
            case Attention():
                first, *others = (_attend(head, stream, asking, tick) for head in sublayer.heads)
                changes = {t: _sum_of(first[t], *(o[t] for o in others)) for t in asking}
        for t, change in changes.items():
            stream[t] = _sum_of(stream[t], change)
    weights, bias = transformer.readout.weights, transformer.readout.bias
    return [_affine(weights, bias, stream[t], tick) for t in read]


def _feed_forward(layer: FeedForward, token: Sequence[Number], tick: int) -> list[Number]:
    read = _affine(layer.inner, layer.inner_bias, token, tick)
    hidden = [_largest([h, fmpq(0)]) for h in read]
    return _affine(layer.outer, layer.outer_bias, hidden, tick)


def _gated(layer: GatedFeedForward, token: Sequence[Number], tick: int) -> list[Number]:
    """Term by term: pairs of units that multiply are rational where what they read is."""
    units, multiplies = layer.terms
    gates = _affine(layer.gate[units], layer.gate_bias[units], token, tick)
    factors = _affine(layer.inner[units], layer.inner_bias[units], token, tick)
    acted = [
        z
        if product
        else _largest([z, fmpq(0)])
        if layer.is_exact
        else record_of("silu").balls(arb(z))
        for z, product in zip(gates, multiplies, strict=True)
    ]
    hidden = [z * u for z, u in zip(acted, factors, strict=True)]
    return _affine(layer.outer[:, units], layer.outer_bias, hidden, tick)


def _attend(
    head: Head, stream: list[list[Number]], asking: Sequence[int], tick: int
) -> dict[int, list[Number]]:
    """What a head writes to the tokens that ask."""
    keys = [_linear(head.key, token, tick) for token in stream]
    values = [_linear(head.value, token, tick) for token in stream]
    written = {}
    for t in asking:
        seen = range(t + 1) if head.causal else range(len(stream))
        query = _linear(head.query, stream[t], tick)
        scores = [_dot(query, keys[j]) for j in seen]
        if head.position_bias is not None:
            bias = head.position_bias[t]
            scores = [s + rational(bias[j]) for s, j in zip(scores, seen, strict=True)]
        charge(tick, len(scores) * (2 * len(query) + 8 + 2 * head.value_width))
        weights = _weights(scores, head.coldness)
        mixed = [_dot(weights, [values[j][v] for j in seen]) for v in range(head.value_width)]
        written[t] = _linear(head.output, mixed, tick)
    return written


def _linear(matrix: np.ndarray, x: Sequence[Number], tick: int = BALL) -> list[Number]:
    """matrix @ x, by the entries that are not 0."""
    result: list[Number] = [fmpq(0)] * matrix.shape[0]
    rows, columns = np.nonzero(matrix)
    entries = matrix[rows, columns].tolist()
    charge(tick, 4 + 2 * len(entries))
    for i, j, entry in zip(rows.tolist(), columns.tolist(), entries, strict=True):
        value = x[j]
        term = value * arb(entry) if isinstance(value, arb) else rational(entry) * value
        result[i] = result[i] + term
    return result


def _affine(
    matrix: np.ndarray, bias: np.ndarray, x: Sequence[Number], tick: int = BALL
) -> list[Number]:
    return [rational(b) + v for b, v in zip(bias, _linear(matrix, x, tick), strict=True)]


def _dot(a: Sequence[Number], b: Sequence[Number]) -> Number:
    return sum((p * q for p, q in zip(a, b, strict=True)), fmpq(0))


def _sum_of(first: list[Number], *others: list[Number]) -> list[Number]:
    for other in others:
        first = [a + b for a, b in zip(first, other, strict=True)]
    return first


def _weights(scores: list[Number], coldness: float) -> list[Number]:
    if np.isinf(coldness):
        return _winners(scores)
    balls = [arb(s) for s in scores]
    top = balls[int(np.argmax([float(s.mid()) for s in balls]))]
    powers = [((s - top) * arb(coldness)).exp() for s in balls]
    whole = sum(powers, arb(0))
    return [power / whole for power in powers]


def _winners(scores: list[Number]) -> list[Number]:
    """1/count on the winners; ties are ties only between numbers that are known exactly."""
    if not any(isinstance(s, arb) for s in scores):
        top = max(scores)
        count = sum(s == top for s in scores)
        return [fmpq(int(s == top), count) for s in scores]
    balls = [arb(s) for s in scores]
    floor = max(s.lower() for s in balls)
    wins = [not bool(s < floor) for s in balls]
    if sum(wins) > 1 and not all(s.is_exact() for s, won in zip(balls, wins, strict=True) if won):
        raise Undefined("A hard head cannot tell its winner at this point.")
    return [arb(1) / sum(wins) if won else arb(0) for won in wins]


def _largest(values: Sequence[Number]) -> Number:
    top = values[0]
    for value in values[1:]:
        if isinstance(top, fmpq) and isinstance(value, fmpq):
            top = max(top, value)
        else:
            top = arb(top).max(arb(value))
    return top


# ---- the target --------------------------------------------------------------------------------


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
