"""One word, without rounding: in rationals if every head is hard, otherwise in balls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from hardmax.checker._budget import BALL, charge
from hardmax.checker.sequences.words._batches import sequence_input, tokens_read
from hardmax.core import (
    Attention,
    Construction,
    FeedForward,
    Head,
    Transformer,
    reference,
    weight_arrays,
)
from hardmax.numerics import precision

_PRECISIONS = (96, 256, 1024)  # bits
_HUGE = Fraction(10) ** 400
_NARROW = Fraction(1, 2**40)  # of the error itself: enough digits for any report


def error_at(construction: Construction, word: Sequence[Any]) -> tuple[Fraction, Fraction]:
    """Bounds on the largest error over the outputs for one word, over the reals.

    They agree for a hard Transformer. For a soft one they come from balls of growing precision,
    until they are close to each other; a hard head that the balls cannot decide leaves (0, huge).
    """
    transformer, target = construction.transformer, construction.claim.target
    wanted = [[Fraction(v) for v in row] for row in target(word)]
    charge(BALL, cost_of_word(transformer, len(word)))
    if transformer.is_hard:
        given = reference(transformer, word, Fraction)
        rows = given if transformer.readout.token is None else [given]
        error = max(
            (
                abs(a - b)
                for r, w in zip(rows, wanted, strict=True)
                for a, b in zip(r, w, strict=True)
            ),
            default=Fraction(0),
        )
        return error, error
    low, high = Fraction(0), _HUGE
    for bits in _PRECISIONS:
        low, high = _in_balls(transformer, word, wanted, bits)
        if high - low <= _NARROW * high:
            break
    return low, high


def cost_of_word(transformer: Transformer, length: int) -> int:
    """Operations on one word: weights times tokens, and what heads do for pairs of tokens."""
    tokens = length + 1
    weights = sum(int(np.count_nonzero(part)) for part in weight_arrays(transformer))
    heads = [h for a in transformer.sublayers if isinstance(a, Attention) for h in a.heads]
    pairs = sum(2 * len(h.query) + 2 * h.value_width + 8 for h in heads)
    return 8 + tokens * 2 * weights + tokens * tokens * pairs


def _in_balls(
    transformer: Transformer, word: Sequence[Any], wanted: list[list[Fraction]], bits: int
) -> tuple[Fraction, Fraction]:
    from flint import arb, fmpq

    with precision(bits):
        try:
            rows = _Balls(transformer).outputs(word)
        except _Undecided:
            return Fraction(0), _HUGE
        errors = [
            a - arb(fmpq(b.numerator, b.denominator))
            for row, want in zip(rows, wanted, strict=True)
            for a, b in zip(row, want, strict=True)
        ]
        if not all(e.is_finite() for e in errors):
            return Fraction(0), _HUGE
        lows = [_fraction(e.abs_lower()) for e in errors]
        highs = [_fraction(e.abs_upper()) for e in errors]
        return max(lows, default=Fraction(0)), max(highs, default=Fraction(0))


class _Undecided(Exception):
    """Two scores of a hard head overlap."""


def _fraction(ball: Any) -> Fraction:
    mantissa, exponent = ball.man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


class _Balls:
    """The reference semantics, said again in python-flint's balls; floats are taken exactly."""

    def __init__(self, transformer: Transformer) -> None:
        from flint import arb

        self.ball = arb
        self.transformer = transformer

    def outputs(self, word: Sequence[Any]) -> list[list[Any]]:
        source, readout = sequence_input(self.transformer), self.transformer.readout
        rows = [source.embedding[i] for i in source.indices(word)]
        if source.start is not None:
            rows.insert(0, source.start)
        stream = [
            [self.ball(float(a)) + self.ball(float(b)) for a, b in zip(row, place, strict=True)]
            for row, place in zip(rows, source.positions, strict=False)
        ]
        for sublayer in self.transformer.sublayers:
            changes = self._changes(sublayer, stream)
            stream = [
                [a + b for a, b in zip(x, dx, strict=True)]
                for x, dx in zip(stream, changes, strict=True)
            ]
        tokens = tokens_read(self.transformer, len(word))
        return [self._affine(readout.weights, readout.bias, stream[t]) for t in tokens]

    def _changes(self, sublayer: Any, stream: list[list[Any]]) -> list[list[Any]]:
        match sublayer:
            case FeedForward():
                return [self._feed_forward(sublayer, token) for token in stream]
            case Attention():
                parts = [self._attend(head, stream) for head in sublayer.heads]
                return [
                    [sum(terms, self.ball(0)) for terms in zip(*rows, strict=True)]
                    for rows in zip(*parts, strict=True)
                ]
        raise AssertionError(sublayer)

    def _feed_forward(self, layer: FeedForward, token: list[Any]) -> list[Any]:
        hidden = [h.max(self.ball(0)) for h in self._affine(layer.inner, layer.inner_bias, token)]
        return self._affine(layer.outer, layer.outer_bias, hidden)

    def _attend(self, head: Head, stream: list[list[Any]]) -> list[list[Any]]:
        queries, keys, values = (
            [self._linear(matrix, token) for token in stream]
            for matrix in (head.query, head.key, head.value)
        )
        result = []
        for t, query in enumerate(queries):
            seen = range(t + 1) if head.causal else range(len(stream))
            scores = [self._dot(query, keys[j]) for j in seen]
            if head.position_bias is not None:
                biases = [self.ball(float(head.position_bias[t, j])) for j in seen]
                scores = [s + b for s, b in zip(scores, biases, strict=True)]
            weights = self._weights(head, scores)
            mixed = [
                self._dot(weights, [values[j][v] for j in seen]) for v in range(head.value_width)
            ]
            result.append(self._linear(head.output, mixed))
        return result

    def _weights(self, head: Head, scores: list[Any]) -> list[Any]:
        zero, one = self.ball(0), self.ball(1)
        if np.isinf(head.coldness):
            return self._winners(scores, zero, one)
        top = scores[int(np.argmax([float(s.mid()) for s in scores]))]
        powers = [((s - top) * self.ball(head.coldness)).exp() for s in scores]
        total = sum(powers, zero)
        return [power / total for power in powers]

    def _winners(self, scores: list[Any], zero: Any, one: Any) -> list[Any]:
        """1/count on the winners; ties are ties only between numbers known exactly."""
        floor = max(_fraction(s.lower()) for s in scores)
        wins = [_fraction(s.upper()) >= floor for s in scores]
        if sum(wins) > 1 and not all(
            s.is_exact() for s, winner in zip(scores, wins, strict=True) if winner
        ):
            raise _Undecided
        return [one / sum(wins) if winner else zero for winner in wins]

    def _dot(self, a: Iterable[Any], b: Iterable[Any]) -> Any:
        return sum((p * q for p, q in zip(a, b, strict=True)), self.ball(0))

    def _linear(self, matrix: np.ndarray, vector: Sequence[Any]) -> list[Any]:
        result = [self.ball(0)] * matrix.shape[0]
        for row, column in zip(*np.nonzero(matrix), strict=True):
            result[row] = result[row] + self.ball(float(matrix[row, column])) * vector[column]
        return result

    def _affine(self, matrix: np.ndarray, bias: np.ndarray, vector: Sequence[Any]) -> list[Any]:
        rows = self._linear(matrix, vector)
        return [self.ball(float(b)) + r for b, r in zip(bias, rows, strict=True)]
