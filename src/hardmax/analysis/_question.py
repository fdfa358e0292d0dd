"""A group of heads as one token asks it: queries, keys, values, and what rounding does to them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hardmax.analysis._affine_rounding import faint_stray
from hardmax.analysis._deviations import Deviation
from hardmax.analysis._outlines import Outline
from hardmax.analysis._places import Place
from hardmax.core import HeadGroup
from hardmax.numerics import (
    Format,
    Interval,
    down,
    exp,
    gamma,
    inflate,
    is_power_of_two,
    matmul_up,
    stray,
)

TRAILING = 40.0  # logits: a token that trails another by so much whatever is asked only leaks
_FADING = 6  # roundings that all logits of a head share, `Projected._has_one_factor`


@dataclass(frozen=True, eq=False)
class Asking:
    """A group of heads asked by one token: everything the lemmas look at, heads first."""

    group: HeadGroup
    base: HeadGroup  # of the reference: equal, but for constants that routing heads write
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
    value_sizes: np.ndarray  # heads x value width x seen
    value_terms: np.ndarray  # heads: roundings of a mixed value
    value_stray: np.ndarray  # heads: how far a mixed value strays by rounding, and ...
    value_lost: np.ndarray  # ... the part of it that no size of a mixed value enlarges
    constant: np.ndarray  # heads whose scores are constants
    radius: np.ndarray  # heads: the largest |score| of any token, those left out included
    format: Format
    against_skeleton: bool


class Projected:
    """Queries, keys and values of a group at every token."""

    def __init__(
        self,
        place: Place,
        group: HeadGroup,
        coldness: np.ndarray,
        format: Format,
        base: HeadGroup | None = None,
    ) -> None:
        self.place, self.group, self.coldness, self.format = place, group, coldness, format
        self.base = base or group
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
        known = self.base.value.reshape(-1, width)
        moved = with_difference(flat @ transposed.deviation, flat, known, transposed.range)
        self.value = Place(
            (known @ transposed.range).reshape(*shape), moved.reshape(*shape)
        ).strayed(faint)
        self.outline = None
        if place.outline is not None:
            self.outline = (known @ place.outline.transposed()).reshape(*shape)
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
        constant = self.query_fixed[:, t] & self.key_fixed[:, seen].all(axis=1)
        fades = self._has_one_factor(seen) & soft & against_skeleton & ~constant
        rounded = np.where(fades, 0.0, rounded) + self.lost[:, t]
        rounded = 2 * rounded + self.exp_stray * soft
        kept, left = self._trailing(t, seen, rounded)
        spread = _spread(self.value[:, :, seen].where)
        leak = left * spread * (1.0 if against_skeleton else 2.0)
        radius = close.magnitude.max(axis=1)
        seen, scores, close = seen[kept], scores[:, kept], close[:, kept]
        values = self.value[:, :, seen]
        value_terms = _terms(group.value) + 2 * len(seen) + 8
        value_size = self.value_size[:, :, seen].max(axis=2, initial=0.0)
        largest = value_size.max(axis=1, initial=0.0)
        vanished = len(seen) * format.vanished * _may_vanish(scores, finite, soft, format)
        lost = inflate(2 * vanished * largest + leak, 3)
        value_stray = inflate(stray(value_terms, largest, format) + lost)
        return Asking(
            group,
            self.base,
            self.place,
            t,
            seen,
            coldness,
            scores,
            close,
            moved.max(axis=(1, 2)),
            rounded,
            np.where(fades, float(gamma(_FADING, format)), 0.0),
            values,
            self.outline and self.outline[:, :, seen],
            inflate(value_size + self.faint + value_stray[:, None], 2),
            self.value_size[:, :, seen],
            value_terms,
            value_stray,
            lost,
            (self.query_fixed[:, t] & self.key_fixed[:, seen].all(axis=1))
            | (self.key_width == 0 or len(seen) == 1),
            radius,
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

    def _trailing(
        self, t: int, seen: np.ndarray, rounded: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Which tokens to look at, and heads: the weight of those left out.

        Two tokens with equal keys, of coordinates that are known numbers, differ in their scores
        by their position biases, whatever is asked and held. One that trails another by enough
        has a weight below e^-(coldness times that), less what rounding does to two logits; a hard
        head never takes it. All heads of the group must agree.
        """
        group, every = self.group, np.ones(len(seen), dtype=bool)
        nothing = np.zeros(self.heads)
        if group.position_bias is None or self.key_width == 0:
            return every, nothing
        read = group.key.any(axis=(0, 1))
        known, fixed = self.place.range.lo[seen][:, read], self.place.fixed[seen][:, read]
        equal = (known[:, None] == known[None]).all(axis=2) & fixed.all(axis=1)
        equal &= fixed.all(axis=1)[:, None]
        bias = group.position_bias[:, t][:, seen]
        ahead = np.where(equal, bias[:, None, :] - bias[:, :, None], 0.0).max(axis=2)
        hard = np.isinf(self.coldness)
        cold = np.where(hard, 1.0, self.coldness)
        behind = down(down(down(ahead) * cold[:, None]) - rounded[:, None])
        trails = (behind > np.where(hard, 0.0, TRAILING)[:, None]).all(axis=0)
        if not trails.any():
            return every, nothing
        weights = np.where(trails & ~hard[:, None], exp(Interval.point(-behind)).hi, 0.0)
        return ~trails, inflate(weights.sum(axis=1), len(seen))


def with_difference(
    deviation: Deviation, matrix: np.ndarray, base: np.ndarray, range: Interval
) -> Deviation:
    """M x' - B x = M (x' - x) + (M - B) x, the first of which is known; few entries differ."""
    if matrix is base or np.array_equal(matrix, base):
        return deviation
    more = Interval.point(np.zeros((len(matrix), *range.shape[1:])))
    for row, column in np.argwhere(matrix != base).tolist():
        apart = Interval.point(matrix[row, column]) - base[row, column]
        part = range[column] * apart
        low, high = np.zeros(more.shape), np.zeros(more.shape)
        low[row], high[row] = part.lo, part.hi
        more = more + Interval(low, high)
    return deviation + more


def _spread(values: Interval) -> np.ndarray:
    """The largest distance of two values, for each head."""
    apart = values.hi.max(axis=2) - values.lo.min(axis=2)
    return np.asarray(inflate(apart.max(axis=1, initial=0.0)))


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
