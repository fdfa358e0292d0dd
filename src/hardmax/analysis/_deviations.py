"""Deviations that remember where they come from.

A deviation is `rest + sum_s forms[s] noise_s`: an interval, and multiples of noises, numbers in
[-1, 1] of which nothing else is known. Every softmax head makes one noise, the shortfall of its
maximum about the middle. What two neurons inherit from the same head is then known to be the same,
and cancels where their weights have opposite signs; intervals would add it up. For a ReLU network
the bound becomes that of an interval gradient: per head max(P, N), with P and N the sums of the
positive and the negative path weights, instead of P + N.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from types import EllipsisType

import numpy as np

from hardmax.core import Projection
from hardmax.numerics import Interval, inflate, matmul_up, product_up, stray, up

MOST_COEFFICIENTS = 20_000_000  # beyond this many, new noises go into the rest


class NoiseCounter:
    """Numbers the noises of one flow, as long as there is room for their coefficients."""

    def __init__(self, coordinates: int) -> None:
        self.most = MOST_COEFFICIENTS // max(coordinates, 1)
        self.taken = 0

    def take(self, count: int) -> int | None:
        """The number of the first of `count` new noises; None if there is no room."""
        if self.taken + count > self.most:
            return None
        self.taken += count
        return self.taken - count


_Axis = int | list[int] | np.integer | slice | np.ndarray | EllipsisType | None
Index = _Axis | tuple[_Axis, ...]  # what arrays are indexed by


@dataclass(frozen=True, eq=False)
class Deviation:
    """An array of deviations; `forms` has one axis more, the noises."""

    rest: Interval
    forms: np.ndarray

    @classmethod
    def of(cls, rest: Interval) -> Deviation:
        return cls(rest, np.zeros((*rest.shape, 0)))

    @property
    def noises(self) -> int:
        return self.forms.shape[-1]

    @cached_property
    def spread(self) -> np.ndarray:
        """How far the noises reach."""
        if not self.noises:
            return np.zeros(self.rest.shape)
        return np.asarray(inflate(np.abs(self.forms).sum(axis=-1), self.noises))

    @cached_property
    def hull(self) -> Interval:
        """The deviation as a plain interval."""
        return self.rest + Interval(-self.spread, self.spread) if self.noises else self.rest

    @property
    def lo(self) -> np.ndarray:
        return self.hull.lo

    @property
    def hi(self) -> np.ndarray:
        return self.hull.hi

    @property
    def magnitude(self) -> np.ndarray:
        return self.hull.magnitude

    @property
    def width(self) -> np.ndarray:
        return self.hull.hi - self.hull.lo

    @property
    def middle(self) -> np.ndarray:
        return self.rest.middle

    def contains(self, values: np.ndarray) -> np.ndarray:
        return self.hull.contains(values)

    def padded(self, noises: int) -> np.ndarray:
        """The forms with room for more noises."""
        if noises == self.noises:
            return self.forms
        return np.concatenate(
            [self.forms, np.zeros((*self.rest.shape, noises - self.noises))], axis=-1
        )

    def __add__(self, other: Deviation | Interval | np.ndarray | float) -> Deviation:
        if not isinstance(other, Deviation):
            return Deviation(self.rest + other, self.forms)
        noises = max(self.noises, other.noises)
        if not noises:
            return Deviation.of(self.rest + other.rest)
        forms = self.padded(noises) + other.padded(noises)
        # Each coefficient is rounded once; the sum of their sizes loses less than half.
        lost = stray(2, np.abs(forms).sum(axis=-1))
        return Deviation((self.rest + other.rest).widened(lost), forms)

    def __neg__(self) -> Deviation:
        return Deviation(-self.rest, -self.forms)

    def __getitem__(self, key: Index) -> Deviation:
        return Deviation(self.rest[key], self.forms[key])

    def reshape(self, *shape: int) -> Deviation:
        rest = self.rest.reshape(*shape)
        return Deviation(rest, self.forms.reshape(*rest.shape, self.noises))

    def transposed(self) -> Deviation:
        return Deviation(Interval(self.rest.lo.T, self.rest.hi.T), np.swapaxes(self.forms, 0, 1))

    __array_ufunc__ = None  # matrix @ deviation is ours

    def __rmatmul__(self, matrix: np.ndarray) -> Deviation:
        rest = matrix @ self.rest
        if not self.noises:
            return Deviation.of(rest)
        flat = self.forms.reshape(self.forms.shape[0], -1)
        rows = np.flatnonzero(matrix.any(axis=1))
        forms = np.zeros((matrix.shape[0], flat.shape[1]))
        forms[rows] = Projection.of(matrix[rows])(flat)
        forms = forms.reshape(*rest.shape, self.noises)
        terms = int((matrix != 0.0).sum(axis=-1).max(initial=0))
        size = matmul_up(np.abs(matrix), self.spread)
        return Deviation(rest.widened(stray(terms, size)), forms)

    def scaled(self, factor: np.ndarray, away: np.ndarray | float = 0.0) -> Deviation:
        """Times factors of the same shape (broadcast), each of them off by `away` at most."""
        rest = self.rest * Interval.point(factor).widened(np.broadcast_to(away, np.shape(factor)))
        if not self.noises:
            return Deviation.of(rest)
        forms = self.forms * np.asarray(factor)[..., None]
        lost = product_up(self.spread, away) + stray(1, product_up(np.abs(factor), self.spread))
        return Deviation(rest.widened(lost), forms)

    def total(self) -> Deviation:
        """The sum along the last axis that is not the noises'."""
        rest, forms = self.rest.sum(axis=-1), self.forms.sum(axis=-2)
        if not self.noises:
            return Deviation.of(rest)
        # n - 1 additions; the nth covers what the sum of the sizes loses.
        slack = stray(self.rest.shape[-1], self.spread.sum(axis=-1))
        return Deviation(rest.widened(slack), forms)

    def overruled(self, applies: np.ndarray, other: Deviation) -> Deviation:
        """`other` where it applies, broadcast; this one elsewhere."""
        noises = max(self.noises, other.noises)
        rest = Interval(
            np.where(applies, other.rest.lo, self.rest.lo),
            np.where(applies, other.rest.hi, self.rest.hi),
        )
        applies = np.broadcast_to(applies, rest.shape)[..., None]
        return Deviation(rest, np.where(applies, other.padded(noises), self.padded(noises)))

    def with_noises(self, where: np.ndarray, counter: NoiseCounter) -> Deviation:
        """In the entries chosen, the rest becomes a noise of its own about its middle."""
        chosen = np.argwhere(where)
        first = counter.take(len(chosen))
        if first is None or not len(chosen):
            return self
        places = tuple(chosen.T)
        forms = np.concatenate(
            [self.padded(first), np.zeros((*self.rest.shape, len(chosen)))], axis=-1
        )
        middle = self.rest.middle
        radius = up(np.maximum(self.rest.hi - middle, middle - self.rest.lo))
        forms[(*places, first + np.arange(len(chosen)))] = radius[places]
        rest = Interval(
            np.where(where, middle, self.rest.lo), np.where(where, middle, self.rest.hi)
        )
        return Deviation(rest, forms)


def deviation_of_maximum(deviation: Deviation, contender: np.ndarray) -> Deviation:
    """max_j (V_j + e_j) - max_j V_j over the contenders, along the last axis.

    It is sum_j l_j e_j with l_j >= 0 and sum l_j = 1 (a maximum of affine functions of the e_j with
    such slopes), so it lies in the hull of the e_j; and for any form m it lies in m plus the hull
    of the e_j - m. With m the mean of the forms, the noises that all contenders share pass through.
    The second is taken where it is no wider; for a ReLU, with contenders e and 0, it never is.
    """
    plain = _hull_over(deviation.hull, contender)
    if not deviation.noises:
        return Deviation.of(plain)
    count = np.maximum(contender.sum(axis=-1), 1)[..., None]
    mean = np.where(contender[..., None], deviation.forms, 0.0).sum(axis=-2) / count
    away = Deviation(deviation.rest, deviation.forms - mean[..., None, :])
    # Each difference from the mean is rounded once, for which `spread` has room.
    kept = Deviation(_hull_over(away.hull, contender), mean)
    wider = (kept.hi - kept.lo) > (plain.hi - plain.lo) * (1 + 1e-9)
    return kept.overruled(wider, Deviation.of(plain))


def deviation_of_relu(deviation: Deviation) -> Deviation:
    """relu(z + e) - relu(z): the maximum with 0, whose deviation is 0."""
    zero = np.zeros_like(deviation.rest.lo)
    pair = Deviation(
        Interval(
            np.stack([deviation.rest.lo, zero], axis=-1),
            np.stack([deviation.rest.hi, zero], axis=-1),
        ),
        np.stack([deviation.forms, np.zeros_like(deviation.forms)], axis=-2),
    )
    return deviation_of_maximum(pair, np.ones(pair.rest.shape, dtype=bool))


def _hull_over(parts: Interval, contender: np.ndarray) -> Interval:
    lo = np.where(contender, parts.lo, np.inf).min(axis=-1)
    hi = np.where(contender, parts.hi, -np.inf).max(axis=-1)
    nobody = ~contender.any(axis=-1)
    return Interval(np.where(nobody, 0.0, lo), np.where(nobody, 0.0, hi))
