"""Float formats, and what one of them does to a matrix product. Every bound is rounded up."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hardmax.numerics import LARGEST, UNIT_ROUNDOFF, Interval, gamma, is_power_of_two

TINY = 5e-324  # of float64, in which this analysis itself is computed
_SMALLEST = {"float64": TINY, "float32": 2.0**-149, "float16": 2.0**-24, "bfloat16": 2.0**-133}
_TWICE = 1.0 + 2.0**-10  # rounding through a format in between moves a weight by so much more


class NothingKnown(Exception):
    """A number may leave the format's range, or a sum has too many terms: no bound is proved."""


@dataclass(frozen=True)
class Format:
    """Binary floats, rounded to nearest, with subnormal numbers."""

    name: str

    @property
    def unit(self) -> float:
        """The unit roundoff u: |fl(x) - x| <= u |x|, unless x is tiny."""
        return UNIT_ROUNDOFF[self.name]

    @property
    def smallest(self) -> float:
        """The smallest positive number: what a product may lose besides its relative error."""
        return _SMALLEST[self.name]

    def check(self, *sizes: np.ndarray) -> None:
        """Refuse to go on where a number may exceed the largest of the format; nan fails, too."""
        for size in sizes:
            if not (np.asarray(size) <= LARGEST[self.name]).all():
                raise NothingKnown

    def stored(self, weights: np.ndarray) -> np.ndarray:
        """The weights rounded to nearest, as float64."""
        if self.name == "float64":
            return weights
        _, exponent = np.frexp(weights)
        digits = round(-np.log2(self.unit))
        quantum = np.maximum(np.ldexp(1.0, exponent - digits), self.smallest)
        return np.asarray(np.rint(weights / quantum) * quantum)

    def moved(self, weights: np.ndarray) -> np.ndarray:
        """|stored - real| for every weight.

        A framework may round float64 to float32 first and then to the format. Twice rounded is
        rounded to the other side only within 2^-13 units of a tie, where both errors agree to a
        factor 1 + 2^-11.
        """
        stored = self.stored(weights)
        self.check(np.abs(stored))
        return np.asarray(np.abs(stored - weights) * _TWICE)


def above(matrix: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """matrix @ sizes for nonnegative arrays, from above; 0 where every product is 0.

    A dot product of k terms is good to a factor 1 + gamma_k, and each product may underflow.
    """
    some = (matrix != 0.0).astype(float) @ (sizes != 0.0).astype(float)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        total = (matrix @ sizes) * (1.0 + (matrix.shape[-1] + 8) * 2.0**-52)
    return np.where(some > 0.0, _at_worst(total + some * TINY), 0.0)


def _at_worst(size: np.ndarray) -> np.ndarray:
    """Infinite where nothing is known: 0 times infinity, and infinity less infinity, are nan."""
    return np.where(np.isnan(size), np.inf, size)


def up(size: np.ndarray) -> np.ndarray:
    """A nonnegative number that came from a dozen operations of float64, from above."""
    return np.where(size <= 0.0, 0.0, _at_worst(size * (1.0 + 2.0**-48) + TINY))


def summed(sizes: np.ndarray, axis: int) -> np.ndarray:
    """The sum of nonnegative numbers along an axis, from above; each may be off by a rounding."""
    return np.asarray(sizes.sum(axis=axis) * (1.0 + (sizes.shape[axis] + 2) * 2.0**-52))


def product(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The product of nonnegative arrays, from above; 0 only where a factor is 0."""
    nothing = (first <= 0.0) | (second <= 0.0)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        size = first * second * (1.0 + 2.0**-51) + TINY
    return np.where(nothing, 0.0, _at_worst(size))


def meet(first: Interval, second: Interval) -> Interval:
    """Both enclose the same; if rounding left nothing in common, the first."""
    lo, hi = np.maximum(first.lo, second.lo), np.minimum(first.hi, second.hi)
    empty = ~(lo <= hi)
    return Interval(np.where(empty, first.lo, lo), np.where(empty, first.hi, hi))


def widened(value: Interval, by: np.ndarray) -> Interval:
    """[lo - by, hi + by], and the point itself where `by` is 0."""
    return value + Interval(-by, by)


def total_of(parts: Interval, axis: int) -> Interval:
    """The sum along an axis, outward; exact where at most one part is not 0."""
    slack = up(parts.magnitude.sum(axis=axis) * (parts.shape[axis] * 2.0**-52))
    several = ((parts.lo != 0.0) | (parts.hi != 0.0)).sum(axis=axis) > 1
    slack = np.where(several, slack, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = _at_worst(-parts.lo.sum(axis=axis)), _at_worst(parts.hi.sum(axis=axis))
    return widened(Interval(-low, high), slack)


def is_point(value: Interval) -> np.ndarray:
    return np.asarray(value.lo == value.hi)


@dataclass(frozen=True, eq=False)
class Sum:
    """What is known of sums of products in a format, entry by entry.

    `value` encloses the real sum of the real products of the float operands. The computed terms
    differ from the real ones by at most `base` in all, no partial sum of the real ones exceeds
    `partial`, and there are `terms` of them that are not 0.
    """

    format: Format
    value: Interval
    base: np.ndarray
    partial: np.ndarray
    terms: np.ndarray

    def error(self, value: Interval | None = None) -> np.ndarray:
        """How far the computed sum is from the real one, for any order of summation.

        k terms are added in a binary tree of k - 1 additions, fused with products or not. An
        addition of computed a and b errs by at most u |a + b|. Let E be the sum of all these
        errors. Then |a + b| <= (real partial sum) + base + E at every node; at the root the real
        sum is the `value`, of which the caller may know more. Adding up over the tree,
        E <= u ((k-2) partial + |value| + (k-1) (base + E)), which is solved for E.
        """
        unit = self.format.unit
        root = np.minimum((self.value if value is None else value).magnitude, self.partial)
        inner = np.maximum(self.terms - 1.0, 0.0)
        if (inner * unit >= 0.5).any():
            raise NothingKnown
        partials = np.maximum(inner - 1.0, 0.0) * self.partial + np.where(inner > 0, root, 0.0)
        added = unit * (partials + inner * self.base) / (1.0 - inner * unit)
        total = up(self.base + added)
        self.format.check(self.partial + total)
        return total


@dataclass(frozen=True, eq=False)
class Stored:
    """A matrix and a bias as a format holds them.

    The real matrix has zeros in all but some columns, and there it is `matrix` up to the relative
    `doubt`, as a coldness times a query is. Stored weights differ from the real ones by at most
    `moved`.
    """

    format: Format
    operands: int
    columns: np.ndarray
    matrix: np.ndarray
    bias: np.ndarray
    moved: np.ndarray
    bias_moved: np.ndarray
    doubt: np.ndarray  # rows

    @classmethod
    def of(cls, matrix: np.ndarray, format: Format, bias: np.ndarray | None = None) -> Stored:
        bias = np.zeros(len(matrix)) if bias is None else bias
        operands, columns = matrix.shape[1], np.flatnonzero(matrix.any(axis=0))
        matrix = matrix[:, columns]
        moved, bias_moved = format.moved(matrix), format.moved(bias)
        nothing = np.zeros(len(matrix))
        return cls(format, operands, columns, matrix, bias, moved, bias_moved, nothing)

    @classmethod
    def scaled(cls, matrix: np.ndarray, factor: np.ndarray, format: Format) -> Stored:
        """factor * matrix, row by row; that product is rounded, here or wherever it is applied.

        The matrix may have been rounded to the format before, or the product alone is. Times a
        power of two nothing is rounded; but it may underflow.
        """
        operands, columns = matrix.shape[1], np.flatnonzero(matrix.any(axis=0))
        matrix = matrix[:, columns]
        with np.errstate(over="ignore", under="ignore"):
            folded = matrix * factor[:, None]
        format.check(np.abs(folded))
        rounds = ~is_power_of_two(factor)
        lost = format.unit * np.abs(folded) + format.smallest
        lost = np.where(rounds[:, None] & (matrix != 0.0), lost * (1.0 + 2.0**-20), 0.0)
        lost += np.where((np.abs(folded) < 2.0**-960) & (matrix != 0.0), TINY, 0.0)
        before = format.moved(matrix) * factor[:, None]
        moved = up(np.maximum(format.moved(folded), before) + lost)
        doubt = np.where(rounds, 2.0**-52, 0.0)
        nothing = np.zeros(len(matrix))
        return cls(format, operands, columns, folded, nothing, moved, nothing, doubt)

    @cached_property
    def size(self) -> np.ndarray:
        """|real weights|."""
        return np.asarray(np.abs(self.matrix) * (1.0 + self.doubt[:, None]))

    @cached_property
    def held(self) -> np.ndarray:
        """|stored weights|."""
        return np.asarray(self.size + self.moved)

    @cached_property
    def _rounding(self) -> np.ndarray:
        """|stored weights| with which products round: all but powers of two."""
        exact = is_power_of_two(self.matrix) & (self.moved == 0.0)
        return np.where(exact, 0.0, self.held)

    @cached_property
    def _losing(self) -> np.ndarray:
        """1 for weights whose products may underflow: all but powers of two from 1 on."""
        exact = is_power_of_two(self.matrix) & (self.moved == 0.0) & (np.abs(self.matrix) >= 1.0)
        return np.where(exact | (self.held == 0.0), 0.0, 1.0)

    def times(self, x: Interval, carried: Interval | None = None) -> Sum:
        """matrix @ x + bias, and `carried` besides, for floats x (columns) in their ranges.

        A product with a number that is a constant and a power of two rounds nothing either.
        """
        x = x[self.columns]
        unit, size = self.format.unit, x.magnitude
        self.format.check(size)
        easy = is_point(x) & is_power_of_two(x.lo)
        rounding = np.where(easy, 0.0, size)
        losing = np.where((easy & (size >= 1.0)) | (size == 0.0), 0.0, 1.0)
        base = above(self.moved, size) + self.bias_moved[:, None]
        base = base + unit * above(self._rounding, rounding)
        base = up(base + self.format.smallest * (self._losing @ losing))
        terms = (self.held != 0.0).astype(float) @ (size != 0.0).astype(float)
        terms = terms + (self.bias != 0.0)[:, None]
        up_part, down_part = self._parts(x)
        value = self.matrix @ x + Interval.point(self.bias[:, None])
        if self.doubt.any():
            value = widened(value, product(self.doubt[:, None], above(np.abs(self.matrix), size)))
        value = self._sharp(value, x, terms, base)
        if carried is not None:
            value = value + carried
            terms = terms + (carried.magnitude != 0.0)
            up_part = up_part + np.maximum(carried.hi, 0.0)
            down_part = down_part + np.maximum(-carried.lo, 0.0)
        partial = up(np.maximum(up_part, down_part))
        self.format.check(partial + base)
        return Sum(self.format, value, base, partial, terms)

    def _parts(self, x: Interval) -> tuple[np.ndarray, np.ndarray]:
        """The sums of all positive terms and of all negative ones at their largest."""
        rises, falls = np.maximum(x.hi, 0.0), np.maximum(-x.lo, 0.0)
        size = self.size
        more, less = np.where(self.matrix > 0, size, 0.0), np.where(self.matrix < 0, size, 0.0)
        bias = self.bias[:, None]
        ups = above(more, rises) + above(less, falls) + np.maximum(bias, 0.0)
        downs = above(more, falls) + above(less, rises) + np.maximum(-bias, 0.0)
        return ups, downs

    def _sharp(self, value: Interval, x: Interval, terms: np.ndarray, base: np.ndarray) -> Interval:
        """One term that is a constant, computed without error, is that number and no interval."""
        moving = (self.matrix != 0.0).astype(float) @ (~is_point(x)).astype(float)
        exact = (moving == 0.0) & (terms <= 1.0) & (base == 0.0)
        if not exact.any():
            return value
        with np.errstate(under="ignore"):
            number = self.matrix @ x.lo + self.bias[:, None]
        return Interval(np.where(exact, number, value.lo), np.where(exact, number, value.hi))

    def carry(self, off: np.ndarray) -> np.ndarray:
        """How far the real map takes a deviation."""
        return above(self.size, off[self.columns])


def relative(roundings: np.ndarray | float, format: Format) -> np.ndarray:
    """gamma_k: what k roundings in a row do to a number."""
    bound = np.asarray(gamma(roundings, format.unit))
    if not np.isfinite(bound).all():
        raise NothingKnown
    return bound
