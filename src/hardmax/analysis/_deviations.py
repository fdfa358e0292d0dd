"""Deviations that remember where they come from.

A deviation is `rest + sum_s forms[s] noise_s`: an interval, and multiples of noises, numbers in
[-1, 1] of which nothing else is known. Every softmax head makes one noise, the shortfall of its
maximum about the middle. What two neurons inherit from the same head is then known to be the same,
and cancels where their weights have opposite signs; intervals would add it up. For a ReLU network
the bound becomes that of an interval gradient: per head max(P, N), with P and N the sums of the
positive and the negative path weights, instead of P + N.

The noises of one layer are also known together: as a vector they lie in a ball (`NoiseCounter`).
What a layer of ReLUs or maxima does to a deviation beyond halving it is a vector no longer than
half of it, however many coordinates it has; intervals would add the coordinates up.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from types import EllipsisType

import numpy as np

from hardmax.analysis._noises import NoiseCounter
from hardmax.core import Projection
from hardmax.numerics import Interval, inflate, length_up, matmul_up, product_up, stray, up

_NO_WIDER = 1.01  # what keeping noises may cost now: later on, cancelling, they spare far more


_Axis = int | list[int] | np.integer | slice | np.ndarray | EllipsisType | None
Index = _Axis | tuple[_Axis, ...]  # what arrays are indexed by


@dataclass(frozen=True, eq=False)
class LeftOver:
    """Another way to read the rests of an array: a number of the core, plus one beside it.

    At any noises the square of the number beside it is at most the sum of the squares that the
    forms of its entry make of them.
    """

    core: Interval
    forms: np.ndarray  # two axes more: several forms, and the noises

    def __neg__(self) -> LeftOver:
        return LeftOver(-self.core, self.forms)

    def __add__(self, other: Interval | np.ndarray | float) -> LeftOver:
        return LeftOver(self.core + other, self.forms)

    def __getitem__(self, key: Index) -> LeftOver:
        return LeftOver(self.core[key], self.forms[key])

    def reshape(self, *shape: int) -> LeftOver:
        core = self.core.reshape(*shape)
        return LeftOver(core, self.forms.reshape(*core.shape, *self.forms.shape[-2:]))


@dataclass(frozen=True, eq=False)
class Deviation:
    """An array of deviations; `forms` has one axis more, the noises."""

    rest: Interval
    forms: np.ndarray
    counter: NoiseCounter | None = None  # which noises lie in a ball together; None: nothing known
    left: LeftOver | None = None  # None: the rests are all that is known of the rests

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
        if self.counter is not None:
            return self.counter.reach(self.forms)
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
            left = self.left and self.left + other
            return Deviation(self.rest + other, self.forms, self.counter, left)
        noises = max(self.noises, other.noises)
        if not noises:
            return Deviation.of(self.rest + other.rest)
        forms = self.padded(noises) + other.padded(noises)
        # Each coefficient is rounded once; the sum of their sizes loses less than half.
        lost = stray(2, np.abs(forms).sum(axis=-1))
        counter = self.counter or other.counter
        return Deviation((self.rest + other.rest).widened(lost), forms, counter)

    def __neg__(self) -> Deviation:
        return Deviation(-self.rest, -self.forms, self.counter, self.left and -self.left)

    def __getitem__(self, key: Index) -> Deviation:
        left = self.left and self.left[key]
        return Deviation(self.rest[key], self.forms[key], self.counter, left)

    def reshape(self, *shape: int) -> Deviation:
        rest = self.rest.reshape(*shape)
        forms = self.forms.reshape(*rest.shape, self.noises)
        return Deviation(rest, forms, self.counter, self.left and self.left.reshape(*shape))

    def transposed(self) -> Deviation:
        rest = Interval(self.rest.lo.T, self.rest.hi.T)
        return Deviation(rest, np.swapaxes(self.forms, 0, 1), self.counter)

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
        return Deviation(rest.widened(stray(terms, size)), forms, self.counter)

    def scaled(self, factor: np.ndarray, away: np.ndarray | float = 0.0) -> Deviation:
        """Times factors of the same shape (broadcast), each of them off by `away` at most."""
        rest = self.rest * Interval.point(factor).widened(np.broadcast_to(away, np.shape(factor)))
        if not self.noises:
            return Deviation.of(rest)
        forms = self.forms * np.asarray(factor)[..., None]
        lost = product_up(self.spread, away) + stray(1, product_up(np.abs(factor), self.spread))
        return Deviation(rest.widened(lost), forms, self.counter)

    def total(self) -> Deviation:
        """The sum along the last axis that is not the noises'."""
        rest, forms = self.rest.sum(axis=-1), self.forms.sum(axis=-2)
        if not self.noises:
            return Deviation.of(rest)
        # n - 1 additions; the nth covers what the sum of the sizes loses.
        slack = stray(self.rest.shape[-1], self.spread.sum(axis=-1))
        return Deviation(rest.widened(slack), forms, self.counter)

    def overruled(self, applies: np.ndarray, other: Deviation) -> Deviation:
        """`other` where it applies, broadcast; this one elsewhere."""
        noises = max(self.noises, other.noises)
        rest = _either(applies, other.rest, self.rest)
        left = None
        if self.left or other.left:
            mine, theirs = (d.left or LeftOver(d.rest, np.zeros((1, 1))) for d in (self, other))
            core = _either(applies, theirs.core, mine.core)
            beside = np.where(applies[..., None, None], theirs.forms, mine.forms)
            left = LeftOver(core, np.broadcast_to(beside, (*rest.shape, *beside.shape[-2:])))
        applies = np.broadcast_to(applies, rest.shape)[..., None]
        forms = np.where(applies, other.padded(noises), self.padded(noises))
        return Deviation(rest, forms, self.counter or other.counter, left)

    def with_noises(
        self, where: np.ndarray, counter: NoiseCounter, *, alike: bool = False
    ) -> Deviation:
        """In the entries chosen, the rest becomes a noise of its own about its middle.

        All of them together lie in a ball: in units of their radii, they are no longer than the
        core about those middles and the vector of what is beside it, together. If they are to be
        `alike`, all have the largest radius as their unit: the ball is then as small as it can be.
        """
        places = np.nonzero(where)
        count = len(places[0])
        if not count:
            return self
        middle = self.rest.middle
        radius = _radius_about(self.rest, middle)[places]
        if alike:
            radius = np.full(count, radius.max())
        first = counter.take(count, *self._length(places, middle[places], radius))
        if first is None:
            return self
        forms = np.concatenate([self.padded(first), np.zeros((*self.rest.shape, count))], axis=-1)
        forms[(*places, first + np.arange(count))] = radius
        return Deviation(_either(where, Interval.point(middle), self.rest), forms, counter)

    def strayed_together(
        self, strays: np.ndarray, length: float, counter: NoiseCounter
    ) -> Deviation:
        """Plus errors e, |e_i| <= strays_i and |e|_2 <= length, each of which is a noise.

        All have the largest of them as their unit, so that they lie in the smallest ball.
        """
        places = np.nonzero(strays)
        count, unit = len(places[0]), float(strays.max(initial=0.0))
        length = min(length, length_up(strays[places]))
        first = counter.take(count, float(inflate(length / unit, 1))) if count else None
        if first is None:
            return self + Interval(-strays, strays)
        forms = np.concatenate([self.padded(first), np.zeros((*self.rest.shape, count))], axis=-1)
        forms[(*places, first + np.arange(count))] = unit
        return Deviation(self.rest, forms, counter)

    def _length(
        self, places: tuple[np.ndarray, ...], middle: np.ndarray, radius: np.ndarray
    ) -> tuple[float, ...]:
        """How long the rests are as a vector, about their middles and in units of their radii.

        Also how much of that is new, and how much comes from each group of noises before.
        """
        moving = radius > 0.0
        length = length_up(moving.astype(float))
        if self.left is None or self.counter is None:
            return length, 1.0
        unit = np.where(moving, radius, np.inf)
        core = inflate(_radius_about(self.left.core[places], middle) / unit, 1)
        forms = self.left.forms[places] / unit[:, None, None]
        beside = self.counter.joint_reach(forms.reshape(-1, forms.shape[-1]))
        # the quotients: each by a unit of itself
        rounded = stray(1, length_up(self.counter.reach(forms).ravel()))
        own = length_up(core)
        length = min(length, float(inflate(own + beside + rounded, 2)))
        return length, own, *self.counter.sizes(forms)


def _either(applies: np.ndarray, one: Interval, other: Interval) -> Interval:
    return Interval(np.where(applies, one.lo, other.lo), np.where(applies, one.hi, other.hi))


def _radius_about(rest: Interval, middle: np.ndarray) -> np.ndarray:
    return np.asarray(up(np.maximum(np.maximum(rest.hi - middle, middle - rest.lo), 0.0)))


def deviation_of_maximum(deviation: Deviation, contender: np.ndarray) -> Deviation:
    """max_j (V_j + e_j) - max_j V_j over the contenders, along the last axis.

    It is sum_j l_j e_j with l_j >= 0 and sum l_j = 1 (a maximum of affine functions of the e_j with
    such slopes), so it lies in the hull of the e_j; and for any form m it lies in m plus the hull
    of the e_j - m. With m the mean of the forms, the noises that all contenders share pass through.
    The second is taken where it is no wider, but for a hundredth: for a ReLU, with contenders e and
    0, they are equally wide up to rounding, which small deviations may not lose their noises to.

    What is left over, r_h for the h-th maximum, is known as a vector, too (`_left_over`).
    """
    plain = _hull_over(deviation.hull, contender)
    if not deviation.noises:
        return Deviation.of(plain)
    count = np.maximum(contender.sum(axis=-1), 1)[..., None]
    mean = np.where(contender[..., None], deviation.forms, 0.0).sum(axis=-2) / count
    away = Deviation(deviation.rest, deviation.forms - mean[..., None, :], deviation.counter)
    # Each difference from the mean is rounded once, for which `spread` has room.
    kept = Deviation(_hull_over(away.hull, contender), mean, deviation.counter)
    wider = (kept.hi - kept.lo) > (plain.hi - plain.lo) * _NO_WIDER
    found = kept.overruled(wider, Deviation.of(plain))
    if deviation.counter is None:
        return found
    left = _left_over(deviation, away, contender, wider)
    return Deviation(found.rest, found.forms, found.counter, left)


def _left_over(
    deviation: Deviation, away: Deviation, contender: np.ndarray, wider: np.ndarray
) -> LeftOver:
    """What maxima leave over of their contenders' deviations.

    A maximum leaves sum_j l_j (x_j + c_j) over, with x_j = (forms_j - m) noise, and c_j in the
    rests, whose hull is the core. As the k numbers x_j sum to 0, each of them is minus the sum of
    the others, x_j^2 <= (k - 1) (sum x^2 - x_j^2), so that

        (sum_j l_j x_j)^2  <=  max_j x_j^2  <=  (k - 1)/k sum_j x_j^2,

    with equality if one is 1 and the others are -1/(k - 1); for a ReLU it is e^2/4. Where the mean
    is not kept, x_j = forms_j noise, and the factor is 1.
    """
    count = contender.sum(axis=-1)
    share = np.where(wider, 1.0, np.sqrt(np.maximum(count - 1, 0) / np.maximum(count, 1)))
    share = np.where(contender, share[..., None], 0.0)
    forms = np.where(wider[..., None, None], deviation.forms, away.forms) * share[..., None]
    # The mean, the difference, the root and the product are rounded, in units of the contenders'.
    size = np.where(contender, deviation.spread, 0.0).sum(axis=-1)
    lost = stray(contender.shape[-1] + 8, size)
    return LeftOver(_hull_over(deviation.rest, contender).widened(lost), forms)


def deviation_of_relu(deviation: Deviation) -> Deviation:
    """relu(z + e) - relu(z): the maximum with 0, whose deviation is 0."""
    zero = np.zeros_like(deviation.rest.lo)
    pair = Deviation(
        Interval(
            np.stack([deviation.rest.lo, zero], axis=-1),
            np.stack([deviation.rest.hi, zero], axis=-1),
        ),
        np.stack([deviation.forms, np.zeros_like(deviation.forms)], axis=-2),
        deviation.counter,
    )
    return deviation_of_maximum(pair, np.ones(pair.rest.shape, dtype=bool))


def _hull_over(parts: Interval, contender: np.ndarray) -> Interval:
    lo = np.where(contender, parts.lo, np.inf).min(axis=-1)
    hi = np.where(contender, parts.hi, -np.inf).max(axis=-1)
    nobody = ~contender.any(axis=-1)
    return Interval(np.where(nobody, 0.0, lo), np.where(nobody, 0.0, hi))
