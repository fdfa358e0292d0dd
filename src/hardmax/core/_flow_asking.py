"""A group of heads as one token asks it: queries, keys, values, and what rounding does to them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hardmax.core._flow_place import Place
from hardmax.core._layers import HeadGroup
from hardmax.numerics import Format, Interval, gamma, inflate, stray


@dataclass(frozen=True, eq=False)
class Asking:
    """A group of heads asked by one token: everything the lemmas look at, heads first."""

    group: HeadGroup
    place: Place
    t: int
    seen: np.ndarray  # visible tokens
    coldness: np.ndarray
    scores: Interval  # heads x seen, reference and evaluation
    score_deviation: np.ndarray  # heads: how far a score moves with the stream's deviation
    logit_stray: np.ndarray  # heads: rounding of a logit, and of its exponential
    values: Place  # heads x value width x seen
    value_stray: np.ndarray  # heads: rounding of the mixed value
    constant: np.ndarray  # heads whose scores are constants
    format: Format
    against_skeleton: bool


class Projected:
    """Queries, keys and values of a group at every token."""

    def __init__(self, place: Place, group: HeadGroup, format: Format) -> None:
        self.place, self.group, self.format = place, group, format
        self.heads, self.key_width, width = group.query.shape
        # exp with a relative error r is exp of a logit that is off by r/(1 - r) at most
        self.exp_stray = gamma(format.exp_units, format)
        where = place.where
        columns = Interval(where.lo.T, where.hi.T)
        size = where.magnitude.T
        self.query, self.query_size = self._project(group.query, columns, size)
        self.key, self.key_size = self._project(group.key, columns, size)
        deviation = place.deviation.magnitude.T
        self.query_deviation = self._bound(group.query, deviation)
        self.key_deviation = self._bound(group.key, deviation)
        flat = group.value.reshape(-1, width)
        transposed = place.transposed()
        shape = (self.heads, group.value.shape[1], place.range.shape[0])
        self.value = Place(
            (flat @ transposed.range).reshape(*shape),
            (flat @ transposed.deviation).reshape(*shape),
        )
        self.value_size = inflate(np.abs(flat) @ size, width).reshape(*shape)
        free = ~place.fixed.T.astype(bool)
        reads = group.query.any(axis=1).astype(float) @ free
        self.query_fixed = reads == 0
        self.key_fixed = (group.key.any(axis=1).astype(float) @ free) == 0

    def _project(
        self, matrix: np.ndarray, columns: Interval, size: np.ndarray
    ) -> tuple[Interval, np.ndarray]:
        flat = matrix.reshape(-1, matrix.shape[2])
        shape = (self.heads, self.key_width, columns.shape[1])
        return (flat @ columns).reshape(*shape), self._bound(matrix, size)

    def _bound(self, matrix: np.ndarray, size: np.ndarray) -> np.ndarray:
        """|matrix| @ size, heads x key width x tokens."""
        flat = np.abs(matrix.reshape(-1, matrix.shape[2]))
        bound = inflate(flat @ size, matrix.shape[2])
        return bound.reshape(self.heads, self.key_width, size.shape[1])

    def asked_by(self, t: int, coldness: np.ndarray, against_skeleton: bool) -> Asking:
        group, format = self.group, self.format
        tokens = self.place.range.shape[0]
        seen = np.arange(t + 1 if group.causal else tokens)
        products = self.query[:, :, t][:, :, None] * self.key[:, :, seen]
        scores = products.sum(axis=1)
        size = (self.query_size[:, :, t][:, :, None] * self.key_size[:, :, seen]).sum(axis=1)
        if group.position_bias is not None:
            bias = group.position_bias[:, t][:, seen]
            scores, size = scores + bias, size + np.abs(bias)
        size = inflate(size, self.key_width + 2)
        moved = (
            self.query_deviation[:, :, t][:, :, None] * self.key_size[:, :, seen]
            + self.query_size[:, :, t][:, :, None] * self.key_deviation[:, :, seen]
        ).sum(axis=1)
        terms = _terms(group.query) + _terms(group.key) + self.key_width + 8
        soft = np.isfinite(coldness)
        finite = np.where(soft, coldness, 1.0)
        values = self.value[:, :, seen]
        value_terms = _terms(group.value) + 2 * len(seen) + 8
        value_size = self.value_size[:, :, seen].max(axis=(1, 2), initial=0.0)
        vanished = len(seen) * format.vanished * _may_vanish(scores, finite, soft, format)
        return Asking(
            group,
            self.place,
            t,
            seen,
            coldness,
            scores,
            inflate(moved.max(axis=1), self.key_width + 8),
            inflate(2 * stray(terms, size.max(axis=1), format) * finite + self.exp_stray * soft, 3),
            values,
            inflate(stray(value_terms, value_size, format) + 2 * vanished * value_size, 4),
            (self.query_fixed[:, t] & self.key_fixed[:, seen].all(axis=1)) | (self.key_width == 0),
            format,
            against_skeleton,
        )


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
