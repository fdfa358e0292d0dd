"""Arrays of intervals with outward rounding: what is true of the reals stays true of the floats.

Each operation computes in round-to-nearest and then steps outward by a bound on its own rounding:
|r| 2^-52 + 5e-324 covers one correctly rounded operation (ten times faster than nextafter).
Exact zeros stay exact, so coordinates that nothing writes to stay points.

`Interval` holds ends, `MidRadius` middles and radii: where most numbers are points, that is half
the work.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from types import EllipsisType
from typing import NamedTuple, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from hardmax._errors import ShapeError
from hardmax.numerics._outward import TINY, down, gamma, inflate, is_power_of_two, stray, up

Index = SupportsIndex | slice | EllipsisType | np.ndarray | list[int] | None


def _float_of(number: float | Fraction) -> float:
    try:
        return float(number)
    except OverflowError:  # an integer or a Fraction beyond all floats
        return np.inf if number > 0 else -np.inf


_floats_of = np.frompyfunc(_float_of, 1, 1)


def _least(products: list[np.ndarray]) -> np.ndarray:
    """The least of four arrays, entry by entry: a third of the time that stacking them takes."""
    a, b, c, d = products
    return np.minimum(np.minimum(a, b), np.minimum(c, d))


def _most(products: list[np.ndarray]) -> np.ndarray:
    a, b, c, d = products
    return np.maximum(np.maximum(a, b), np.maximum(c, d))


def _floats(values: object, toward: float) -> np.ndarray:
    """The floats nearest to the numbers on the side of `toward`; a float64 stays itself.

    The nearest float may lie on either side; where it lies on the wrong one its neighbour is
    taken. Python compares integers and Fractions with floats without rounding.
    """
    given = np.asarray(values)
    if given.dtype.kind in "bf" and given.itemsize <= 8:
        return given.astype(np.float64, copy=False)
    if given.dtype.kind in "iu" and (given <= 2**53).all() and (given >= -(2**53)).all():
        return given.astype(np.float64)
    exactly = given if given.dtype.kind == "f" else given.astype(object)
    with np.errstate(over="ignore", under="ignore"):  # beyond all floats there is infinity
        nearest = np.asarray(
            given if given.dtype.kind == "f" else _floats_of(exactly), dtype=np.float64
        )
        wrong = nearest > exactly if toward < 0 else nearest < exactly
        return np.where(np.asarray(wrong, dtype=bool), np.nextafter(nearest, toward), nearest)


@dataclass(frozen=True, eq=False)
class Interval:
    """An array of closed intervals [lo, hi]; every operation encloses the exact result.

    Ends may be infinite. Arrays of float64 are taken as they are, not copied; ends of any other
    kind (integers, Fractions) are rounded outward.
    """

    lo: np.ndarray
    hi: np.ndarray

    __array_ufunc__ = None  # a NumPy array on the left must hand the operation over to us

    def __post_init__(self) -> None:
        lo, hi = _floats(self.lo, -np.inf), _floats(self.hi, np.inf)
        if lo.shape != hi.shape:
            raise ShapeError(f"The ends have shapes {lo.shape} and {hi.shape}; they must agree.")
        if not (lo <= hi).all():  # false for nan, too
            raise ShapeError("An interval needs lo <= hi everywhere, and no nan.")
        object.__setattr__(self, "lo", lo)
        object.__setattr__(self, "hi", hi)

    @classmethod
    def point(cls, values: object) -> Interval:
        """The degenerate intervals [v, v]; a number that float64 does not hold gets neighbours."""
        given = np.asarray(values)
        return cls(given, given)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.lo.shape

    @property
    def magnitude(self) -> np.ndarray:
        """The largest absolute value in each interval."""
        return np.maximum(np.abs(self.lo), np.abs(self.hi))

    @property
    def middle(self) -> np.ndarray:
        """A float of each interval, near its midpoint; nan for the whole line.

        Halves of subnormals are rounded, so that the sum can fall outside.
        """
        with np.errstate(invalid="ignore"):
            return np.clip(0.5 * self.lo + 0.5 * self.hi, self.lo, self.hi)

    def __repr__(self) -> str:
        if self.lo.ndim == 0:
            return f"Interval[{float(self.lo)!r}, {float(self.hi)!r}]"
        return f"Interval(shape={self.shape})"

    def __len__(self) -> int:
        return len(self.lo)

    def __getitem__(self, key: Index | tuple[Index, ...]) -> Interval:
        return Interval(self.lo[key], self.hi[key])

    def contains(self, values: object) -> np.ndarray:
        """Where `values` (floats, integers or Fractions, compared exactly) lie inside."""
        array = np.asarray(values)
        if array.dtype.kind in "iu":
            array = array.astype(object)  # NumPy would round them to floats
        return np.asarray((self.lo <= array) & (array <= self.hi), dtype=bool)

    def reshape(self, *shape: int) -> Interval:
        return Interval(self.lo.reshape(*shape), self.hi.reshape(*shape))

    def __neg__(self) -> Interval:
        return Interval(-self.hi, -self.lo)

    def __add__(self, other: object) -> Interval:
        other = _as_interval(other)
        with np.errstate(over="ignore", invalid="ignore"):
            lo, hi = self.lo + other.lo, self.hi + other.hi
        lo_exact = (self.lo == 0.0) | (other.lo == 0.0)  # adding 0 rounds nothing
        hi_exact = (self.hi == 0.0) | (other.hi == 0.0)
        return Interval(np.where(lo_exact, lo, down(lo)), np.where(hi_exact, hi, up(hi)))

    __radd__ = __add__

    def __sub__(self, other: object) -> Interval:
        return self + (-_as_interval(other))

    def __rsub__(self, other: object) -> Interval:
        return (-self) + other

    def __mul__(self, other: object) -> Interval:
        other = _as_interval(other)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            products = [a * b for a in (self.lo, self.hi) for b in (other.lo, other.hi)]
        lo, hi = _least(products), _most(products)
        if (lo != lo).any():  # 0 times an infinite end is 0
            products = [np.where(product == product, product, 0.0) for product in products]
            lo, hi = _least(products), _most(products)
        exact_zero = (self.magnitude == 0.0) | (other.magnitude == 0.0)
        keeps = exact_zero | self._has_sign_of(other)  # a product of one sign keeps it
        flips = exact_zero | self._has_sign_of(-other)
        lo = np.where(exact_zero, 0.0, down(lo) - TINY)
        hi = np.where(exact_zero, 0.0, up(hi) + TINY)
        return Interval(
            np.where(keeps, np.maximum(lo, 0.0), lo), np.where(flips, np.minimum(hi, 0.0), hi)
        )

    __rmul__ = __mul__

    def _has_sign_of(self, other: Interval) -> np.ndarray:
        both = (self.lo >= 0.0) & (other.lo >= 0.0)
        return np.asarray(both | ((self.hi <= 0.0) & (other.hi <= 0.0)))

    def __truediv__(self, other: object) -> Interval:
        return self * _as_interval(other).reciprocal()

    def __rtruediv__(self, other: object) -> Interval:
        return self.reciprocal() * other

    def reciprocal(self) -> Interval:
        """1/x; infinite at an end that is 0, everything where 0 lies inside or x is 0."""
        with np.errstate(divide="ignore", over="ignore", under="ignore"):
            lo, hi = 1.0 / self.hi, 1.0 / self.lo
        lo = np.where(is_power_of_two(self.hi) & np.isfinite(lo), lo, down(lo))
        hi = np.where(is_power_of_two(self.lo) & np.isfinite(hi), hi, up(hi))
        lo = np.where(self.lo >= 0.0, np.maximum(lo, 0.0), np.where(self.hi < 0.0, lo, -np.inf))
        hi = np.where(self.hi <= 0.0, np.minimum(hi, 0.0), np.where(self.lo > 0.0, hi, np.inf))
        zero = (self.lo == 0.0) & (self.hi == 0.0)
        return Interval(np.where(zero, -np.inf, lo), np.where(zero, np.inf, hi))

    def __rmatmul__(self, matrix: np.ndarray) -> Interval:
        """matrix @ self for a float matrix: one rounding bound for the whole sum, any order."""
        matrix, above = _floats(matrix, -np.inf), _floats(matrix, np.inf)
        if above is not matrix and not np.array_equal(matrix, above):
            raise ShapeError("A matrix beside an interval needs entries that float64 holds.")
        positive, negative = np.maximum(matrix, 0.0), np.minimum(matrix, 0.0)
        entries = (matrix != 0.0).astype(np.float64)
        terms = 2 * int(entries.sum(axis=-1).max(initial=0)) + 4
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            lo = positive @ self.lo + negative @ self.hi
            hi = positive @ self.hi + negative @ self.lo
            under = self._rounding(positive, self.lo, negative, self.hi, terms)
            over = self._rounding(positive, self.hi, negative, self.lo, terms)
            copies = (entries.sum(axis=-1) == 1) & (np.abs(matrix).sum(axis=-1) == 1.0)
            copies = copies if self.lo.ndim == 1 else copies[..., None]  # rows of the result
            under, over = np.where(copies, 0.0, under), np.where(copies, 0.0, over)
            lo, hi = lo - under, hi + over  # one entry of 1 or -1: nothing is rounded
        # Whatever is infinite or nan among the terms or their rounding makes the ends so, too.
        lo, hi = np.where(np.isfinite(lo), lo, -np.inf), np.where(np.isfinite(hi), hi, np.inf)
        return Interval(lo, hi)

    @staticmethod
    def _rounding(
        positive: np.ndarray, a: np.ndarray, negative: np.ndarray, b: np.ndarray, terms: int
    ) -> np.ndarray:
        """A bound on the rounding of positive @ a + negative @ b; 0 where every term is 0.

        With n entries in a row the sum and the step outward take k = n + 2 roundings, and so does
        the size: the bound is gamma_k (1 + gamma_k) times the one computed, below gamma_2k.
        """
        size = positive @ np.abs(a) - negative @ np.abs(b)
        some = (positive != 0.0) @ (a != 0.0).astype(float) + (negative != 0.0) @ (b != 0.0).astype(
            float
        )
        widen = size * gamma(terms) + terms * TINY
        return np.asarray(np.where(some > 0.0, widen, 0.0))

    def maximum(self, other: object) -> Interval:
        other = _as_interval(other)
        return Interval(np.maximum(self.lo, other.lo), np.maximum(self.hi, other.hi))

    def minimum(self, other: object) -> Interval:
        other = _as_interval(other)
        return Interval(np.minimum(self.lo, other.lo), np.minimum(self.hi, other.hi))

    def widened(self, by: ArrayLike) -> Interval:
        """[lo - by, hi + by] for by >= 0, and the same interval where `by` is 0."""
        by = np.asarray(by, dtype=np.float64)
        return self + Interval(-by, by)

    def meet(self, other: Interval) -> Interval:
        """What both enclose; if rounding left nothing in common, this one."""
        lo, hi = np.maximum(self.lo, other.lo), np.minimum(self.hi, other.hi)
        empty = ~(lo <= hi)
        return Interval(np.where(empty, self.lo, lo), np.where(empty, self.hi, hi))

    def sum(self, axis: int) -> Interval:
        """The sum along an axis, in any order; exact where at most one part is not 0."""
        some = ((self.lo != 0.0) | (self.hi != 0.0)).sum(axis=axis)
        with np.errstate(over="ignore", invalid="ignore"):
            size = self.magnitude.sum(axis=axis)
            low, high = self.lo.sum(axis=axis), self.hi.sum(axis=axis)
        by = np.where(some > 1, stray(2 * self.shape[axis], size), 0.0)
        low, high = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
        return Interval(low, high).widened(by)

    def max(self, axis: int = 0) -> Interval:
        """The range of the maximum along an axis."""
        return Interval(self.lo.max(axis=axis), self.hi.max(axis=axis))

    def min(self, axis: int = 0) -> Interval:
        """The range of the minimum along an axis."""
        return Interval(self.lo.min(axis=axis), self.hi.min(axis=axis))


def _as_interval(value: object) -> Interval:
    return value if isinstance(value, Interval) else Interval.point(value)


# ---- middles and radii ---------------------------------------------------------------------------


class MidRadius(NamedTuple):
    """middle - radius <= x <= middle + radius, entry by entry; a radius of 0 is a point."""

    middle: np.ndarray
    radius: np.ndarray

    @classmethod
    def point(cls, values: np.ndarray) -> MidRadius:
        return cls(values, np.zeros(np.shape(values)))

    @classmethod
    def between(cls, low: np.ndarray, high: np.ndarray) -> MidRadius:
        """All of the intervals; a point has radius 0.

        The middle, the half width and the sum below are rounded once each, by at most u times the
        size: four roundings of the size cover them, with whatever underflows in the halves.
        """
        wide = high > low
        size = np.maximum(np.abs(low), np.abs(high))
        radius = np.where(wide, 0.5 * high - 0.5 * low + stray(4, size), 0.0)
        return cls(np.where(wide, 0.5 * low + 0.5 * high, low), radius)

    @property
    def is_zero(self) -> bool:
        return not (self.middle.any() or self.radius.any())

    @property
    def high(self) -> np.ndarray:
        """An upper end, rounded upwards: exact where the radius is 0."""
        if not self.radius.any():
            return self.middle
        top = self.middle + self.radius
        return np.where(self.radius > 0.0, up(top), top)

    @property
    def low(self) -> np.ndarray:
        return -MidRadius(-self.middle, self.radius).high

    @property
    def size(self) -> np.ndarray:
        """The largest absolute value; infinite where nothing is known."""
        ends = np.maximum(np.abs(self.low), np.abs(self.high))
        return np.where(np.isnan(ends), np.inf, ends)

    def plus(self, other: MidRadius) -> MidRadius:
        """The sum; what float64 loses of the middles is known exactly, and widens the radius.

        For s = fl(a + b) the error a + b - s is itself a float64, found by six additions without
        rounding (Knuth's TwoSum).
        """
        total = self.middle + other.middle
        part = total - self.middle
        lost = np.abs((self.middle - (total - part)) + (other.middle - part))
        return MidRadius(total, inflate(self.radius + other.radius + lost))


def line_with_kink(x: Interval, line: Interval, weight: Interval) -> Interval:
    """x + w max(a x + b, 0), given a x + b: extreme at the ends of x's range, or where a x + b = 0.

    The two terms of a plain interval sum would be taken at different x.
    """
    return x + weight * line.maximum(0.0)
