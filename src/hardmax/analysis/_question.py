"""A group of heads as one token asks it: queries, keys, values, and what rounding does to them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hardmax.analysis._affine_rounding import faint_stray
from hardmax.analysis._outlines import Outline
from hardmax.analysis._places import Place
from hardmax.core import HeadGroup
from hardmax.numerics import (
    Format,
    Interval,
    gamma,
    inflate,
    is_power_of_two,
    matmul_up,
    stray,
)

_FADING = 6  # roundings that all logits of a head share, `Projected._has_one_factor`


@dataclass(frozen=True, eq=False)
class Asking:
    """A group of heads asked by one token: everything the lemmas look at, heads first."""

    group: HeadGroup
    place: Place
    t: int
    seen: np.ndarray  # visible tokens
    coldness: np.ndarray
    scores: Interval  # heads x seen, reference and evaluation, by intervals ...
    close_scores: Interval  # ... and by outlines
    score_deviation: np.ndarray  # heads: how far a score moves with the stream's deviation
    logit_stray: np.ndarray  # heads: rounding of a logit, and of its exponential ...
    fading: np.ndarray  # ... and how much warmer or colder it makes the head, relatively
    values: Place  # heads x value width x seen
    outline: Outline | None  # of the reference's values, likewise
    value_size: np.ndarray  # heads x value width: how large a mixed value is
    value_stray: np.ndarray  # heads: rounding of the mixed value
    constant: np.ndarray  # heads whose scores are constants
    format: Format
    against_skeleton: bool


class Projected:
    """Queries, keys and values of a group at every token."""

    def __init__(
        self, place: Place, group: HeadGroup, coldness: np.ndarray, format: Format
    ) -> None:
        self.place, self.group, self.coldness, self.format = place, group, coldness, format
        self.heads, self.key_width, width = group.query.shape
        # exp with a relative error r is exp of a logit that is off by r/(1 - r) at most
        self.exp_stray = gamma(format.exp_units, format)
        size = place.close.magnitude.T
        self.query, self.key = self._projections(place.where)
        self.close_query, self.close_key = self.query, self.key
        if place.narrow is not None:
            self.close_query, self.close_key = self._projections(place.close)
        self.query_size, self.key_size = (self._bound(m, size) for m in (group.query, group.key))
        self.lost = self._lost_of_scores(size)
        deviation = place.deviation.magnitude.T
        self.query_deviation = self._bound(group.query, deviation)
        self.key_deviation = self._bound(group.key, deviation)
        flat = group.value.reshape(-1, width)
        transposed = place.transposed()
        shape = (self.heads, group.value.shape[1], place.range.shape[0])
        faint = (faint_stray(flat, size, format) + np.zeros((len(flat), shape[2]))).reshape(shape)
        self.value = Place(
            (flat @ transposed.range).reshape(*shape),
            (flat @ transposed.deviation).reshape(*shape),
        ).strayed(faint)
        self.outline = None
        if place.outline is not None:
            self.outline = (flat @ place.outline.transposed()).reshape(*shape)
        self.value_size = matmul_up(np.abs(flat), size).reshape(*shape)
        self.faint = faint.max(axis=2)
        free = ~place.fixed.T.astype(bool)
        reads = group.query.any(axis=1).astype(float) @ free
        self.query_fixed = reads == 0
        self.key_fixed = (group.key.any(axis=1).astype(float) @ free) == 0

    def _projections(self, where: Interval) -> tuple[Interval, Interval]:
        """Queries and keys, heads x key width x tokens."""
        columns = Interval(where.lo.T, where.hi.T)
        shape = (self.heads, self.key_width, columns.shape[1])
        query, key = (m.reshape(-1, m.shape[2]) for m in (self.group.query, self.group.key))
        return (query @ columns).reshape(*shape), (key @ columns).reshape(*shape)

    def _bound(self, matrix: np.ndarray, size: np.ndarray) -> np.ndarray:
        """|matrix| @ size, heads x key width x tokens."""
        flat = np.abs(matrix.reshape(-1, matrix.shape[2]))
        bound = matmul_up(flat, size)
        return bound.reshape(self.heads, self.key_width, size.shape[1])

    def _lost_of_scores(self, size: np.ndarray) -> np.ndarray:
        """What logits lose by products and weights that underflow: heads x tokens that ask.

        Queries and keys lose it, besides their relative error, and the other one enlarges it. The
        coldness may be folded into the query's weights, or multiply the scores.
        """
        warm, cold = np.minimum(self.coldness, 1.0), np.maximum(self.coldness, 1.0)
        folded = self._lost(self.group.query * warm[:, None, None], size)
        asks = np.maximum(self._lost(self.group.query, size), folded).transpose(0, 2, 1)
        key = self._lost(self.group.key, size).max(axis=2, initial=0.0, keepdims=True)
        asked = self.key_size.max(axis=2, initial=0.0, keepdims=True) + key
        lost = matmul_up(asks, asked) + matmul_up(self.query_size.transpose(0, 2, 1), key)
        return lost[:, :, 0] * np.where(np.isinf(cold), 1.0, cold)[:, None]

    def _lost(self, matrix: np.ndarray, size: np.ndarray) -> np.ndarray:
        """What a query or a key loses: the smallest number in a product, and in a faint weight."""
        flat = matrix.reshape(-1, matrix.shape[2])
        lost = self.format.smallest * (flat != 0.0).sum(axis=1)[:, None]
        lost = lost + faint_stray(flat, size, self.format) + np.zeros(size.shape[1])
        return lost.reshape(self.heads, self.key_width, size.shape[1])

    def asked_by(self, t: int, against_skeleton: bool) -> Asking:
        group, coldness, format = self.group, self.coldness, self.format
        tokens = self.place.range.shape[0]
        seen = np.arange(t + 1 if group.causal else tokens)
        scores, close = (
            (query[:, :, t][:, :, None] * key[:, :, seen]).sum(axis=1)
            for query, key in ((self.query, self.key), (self.close_query, self.close_key))
        )
        asks, asked = self.query_size[:, None, :, t], self.key_size[:, :, seen]
        size = matmul_up(asks, asked)[:, 0]
        if group.position_bias is not None:
            bias = group.position_bias[:, t][:, seen]
            scores, close, size = scores + bias, close + bias, size + np.abs(bias)
        moved = matmul_up(self.query_deviation[:, None, :, t], asked)
        moved = moved + matmul_up(asks, self.key_deviation[:, :, seen])
        terms = _terms(group.query) + _terms(group.key) + self.key_width + 8
        soft = np.isfinite(coldness)
        finite = np.where(soft, coldness, 1.0)
        rounded = stray(terms, size.max(axis=1), format) * finite
        fades = self._has_one_factor(seen) & soft & against_skeleton
        rounded = np.where(fades, 0.0, rounded) + self.lost[:, t]
        values = self.value[:, :, seen]
        value_terms = _terms(group.value) + 2 * len(seen) + 8
        value_size = self.value_size[:, :, seen].max(axis=2, initial=0.0)
        largest = value_size.max(axis=1, initial=0.0)
        vanished = len(seen) * format.vanished * _may_vanish(scores, finite, soft, format)
        value_stray = stray(value_terms, largest, format) + 2 * vanished * largest
        return Asking(
            group,
            self.place,
            t,
            seen,
            coldness,
            scores,
            close,
            moved.max(axis=(1, 2)),
            2 * rounded + self.exp_stray * soft,
            np.where(fades, float(gamma(_FADING, format)), 0.0),
            values,
            self.outline and self.outline[:, :, seen],
            inflate(value_size + self.faint + value_stray[:, None], 2),
            value_stray,
            (self.query_fixed[:, t] & self.key_fixed[:, seen].all(axis=1)) | (self.key_width == 0),
            format,
            against_skeleton,
        )

    def _has_one_factor(self, seen: np.ndarray) -> np.ndarray:
        """Heads with logits that are all one number times powers of two, or 0.

        Theorem. In any evaluation the logits of such a head differ as those of the same head do if
        it is a little colder or warmer: by factors within gamma_6 of 1. Proof: the query is copied
        from a single coordinate, with the coldness or without: two weights are rounded, their
        product, and one with the coordinate. Keys are copied, too, from coordinates that are powers
        of two for reference and evaluation alike; so a logit is the query, or the coldness times
        it, shifted: what that rounds is the same factor for all of them. Last, each difference from
        the largest one is rounded. QED A ReLU is such a head, with keys 1/2 and -1/2: how large
        its logits are has no say in what rounding them does.
        """
        group, stream = self.group, self.place.range.lo[seen]
        if self.key_width != 1 or group.position_bias is not None:
            return np.zeros(self.heads, dtype=bool)
        query, key = group.query[:, 0], group.key[:, 0]
        copied = ((query != 0.0).sum(axis=1) <= 1) & ((key != 0.0).sum(axis=1) <= 1)
        known = (self.place.fixed[seen] & self.format.holds(stream)).all(axis=0)
        known &= ((stream == 0.0) | is_power_of_two(stream)).all(axis=0)
        shifted = ((key == 0.0) | (is_power_of_two(key) & self.format.holds(key))).all(axis=1)
        return np.asarray(copied & shifted & ~((key != 0.0) & ~known).any(axis=1))


def _may_vanish(
    scores: Interval, coldness: np.ndarray, soft: np.ndarray, format: Format
) -> np.ndarray:
    """Heads some of whose exponentials may come out as 0, or as twice what they are."""
    apart = (scores.hi.max(axis=1) - scores.lo.min(axis=1)) * coldness
    return np.asarray(soft & ~(apart < -0.5 * format.exp_vanishes))


def _terms(matrix: np.ndarray) -> np.ndarray:
    """The most entries in a row, head by head."""
    return (matrix != 0).sum(axis=2).max(axis=1, initial=0)


@dataclass(eq=False)
class HeadFlow:
    """What is known of one head over the domain."""

    largest_logit: float = 0.0  # with coldness; of the scores themselves if hard
    radius: float = 0.0  # the largest |score|
    constant: bool = True  # no score depends on the input
    gap: float = np.inf  # constant scores: the smallest lead of the winners over the others
    lemmas: set[str] = field(default_factory=set)  # which lemmas were used, over all tokens
