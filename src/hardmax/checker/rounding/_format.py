"""What a float format does to a matrix product, and whether numbers fit it at all.

Every bound is rounded up. Numbers that nobody reads may be rounded as they like. But they must not
overflow: 0 times infinity is no number, and a dense matrix product reads everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hardmax.checker._hosts import NOTHING, ReadCharge
from hardmax.numerics import (
    FLOAT16,
    FLOAT32,
    FLOAT64,
    STEP,
    Format,
    Interval,
    gamma,
    inflate,
    is_power_of_two,
    matmul_up,
    product_up,
    stray,
)

# Rounding through float32 on the way moves a weight by so much more: see `moved`.
_TWICE = 1.0 + 5.0 * FLOAT32.unit / FLOAT16.unit


class NothingKnown(Exception):
    """A number may leave the format's range, or a sum has too many terms: no bound is proved."""


def check(format: Format, *sizes: np.ndarray) -> None:
    """Refuse to go on where a number may exceed the largest of the format; nan fails, too."""
    if not all(format.fits(size) for size in sizes):
        raise NothingKnown


def check_accumulated(format: Format, size: np.ndarray, tokens: int) -> None:
    """Refuse to go on where powers times values may overflow before they are divided."""
    if not format.accumulates(size, tokens):
        raise NothingKnown


def moved(weights: np.ndarray, format: Format) -> np.ndarray:
    """|stored - real| for every weight.

    A framework may round float64 to float32 first and then to the format. Twice rounded is
    rounded to the other side only within t = 2 u'/u of a tie, in halves of a step, u' being the
    unit of float32: there both errors agree to a factor (1 + t)/(1 - t) < 1 + 5 u'/u.
    """
    stored = format.stored(weights)
    check(format, np.abs(stored))
    return np.asarray(np.abs(stored - weights) * _TWICE)


def is_point(value: Interval) -> np.ndarray:
    return np.asarray(value.lo == value.hi)


def may_vanish(x: Interval, off: np.ndarray, format: Format) -> np.ndarray:
    """By how much numbers change at most when the format takes them for 0.

    What is not off at all is never taken for 0: inputs and stored weights are numbers that the
    format holds, copies and multiples by powers of two from 1 on are so too, and whatever else is
    computed is charged for a loss.
    """
    nearest = np.maximum(np.maximum(x.lo, -x.hi), 0.0)
    kept = (off == 0.0) | (nearest >= format.flushed)
    return np.where(kept, 0.0, np.minimum(x.magnitude, format.flushed))


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
        E <= u ((k-2) partial + |value| + (k-1) (base + E)), which is solved for E. Sums do not
        underflow where that is gradual; elsewhere each of them loses `flushed` besides.
        """
        unit = self.format.unit
        root = np.minimum((self.value if value is None else value).magnitude, self.partial)
        inner = np.maximum(self.terms - 1.0, 0.0)
        if (inner * unit >= 0.5).any():
            raise NothingKnown
        partials = np.maximum(inner - 1.0, 0.0) * self.partial + np.where(inner > 0, root, 0.0)
        added = unit * (partials + inner * self.base) + inner * self.format.flushed
        added = added / (1.0 - inner * unit)
        total = inflate(self.base + added, 12)
        check(self.format, self.partial + total)
        return np.asarray(total)


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
        off, bias_off = moved(matrix, format), moved(bias, format)
        nothing = np.zeros(len(matrix))
        return cls(format, operands, columns, matrix, bias, off, bias_off, nothing)

    @classmethod
    def scaled(cls, matrix: np.ndarray, factor: np.ndarray, format: Format) -> Stored:
        """factor * matrix, row by row; that product is rounded, here or wherever it is applied.

        The matrix may have been rounded to the format before, or the product alone is. Times a
        power of two nothing is rounded; but it may underflow. Where float64 itself underflows
        nothing is promised.
        """
        operands, columns = matrix.shape[1], np.flatnonzero(matrix.any(axis=0))
        matrix = matrix[:, columns]
        with np.errstate(over="ignore", under="ignore"):
            folded = matrix * factor[:, None]
        check(format, np.abs(folded))
        some, rounds = matrix != 0.0, ~is_power_of_two(factor)
        if (some & (np.abs(folded) < FLOAT64.normal)).any():
            raise NothingKnown
        before = product_up(moved(matrix, format), factor[:, None])
        faint = np.where(np.abs(folded) < format.normal, format.smallest, 0.0)
        lost = np.where(rounds[:, None], stray(1, np.abs(folded) + before, format), faint)
        off = np.where(some, inflate(np.maximum(moved(folded, format), before) + lost), 0.0)
        doubt = np.where(rounds, STEP, 0.0)
        nothing = np.zeros(len(matrix))
        return cls(format, operands, columns, folded, nothing, off, nothing, doubt)

    @cached_property
    def dense(self) -> np.ndarray:
        """The real matrix, columns of zeros included, where there is no doubt about it."""
        full = np.zeros((len(self.matrix), self.operands))
        full[:, self.columns] = self.matrix
        return full

    @cached_property
    def size(self) -> np.ndarray:
        """|real weights|."""
        size, doubt = np.abs(self.matrix), self.doubt[:, None]
        return np.where(doubt > 0.0, inflate(size * (1.0 + doubt), 2), size)

    @cached_property
    def held(self) -> np.ndarray:
        """|stored weights|."""
        return np.where(self.moved > 0.0, inflate(self.size + self.moved, 1), self.size)

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

    def times(
        self,
        x: Interval,
        off: np.ndarray,
        carried: Interval | None = None,
        charge: ReadCharge = NOTHING,
    ) -> Sum:
        """matrix @ x + bias, and `carried` besides, for floats x (columns) in their ranges.

        A product with a number that is a constant and a power of two rounds nothing either. Numbers
        that are `off` may be flushed, and are read as 0, whatever is done with them. A host may
        read them as something else, within the `charge`: that moves each term.
        """
        x, off = x[self.columns], off[self.columns]
        unit, size = self.format.unit, x.magnitude
        check(self.format, size)
        easy = is_point(x) & is_power_of_two(x.lo)
        rounding = np.where(easy, 0.0, size)
        losing = np.where((easy & (size >= 1.0)) | (size == 0.0), 0.0, 1.0)
        base = matmul_up(self.moved, size) + self.bias_moved[:, None]
        base = base + unit * matmul_up(self._rounding, rounding)
        base = inflate(base + self.format.smallest * (self._losing @ losing))
        if self.format.flushed > 0.0:
            base = inflate(base + matmul_up(self.held, may_vanish(x, off, self.format)))
        if charge != NOTHING:
            base = inflate(base + self._read_otherwise(x, charge), 4)
        terms = (self.held != 0.0).astype(float) @ (size != 0.0).astype(float)
        terms = terms + (self.bias != 0.0)[:, None]
        up_part, down_part = self._parts(x)
        value = self.matrix @ x + Interval.point(self.bias[:, None])
        if self.doubt.any():
            # a doubt is a power of two; what underflows is less than the value's own rounding
            value = value.widened(self.doubt[:, None] * matmul_up(np.abs(self.matrix), size))
        value = self._sharp(value, x, terms, base)
        if carried is not None:
            value = value + carried
            terms = terms + (carried.magnitude != 0.0)
            up_part = up_part + np.maximum(carried.hi, 0.0)
            down_part = down_part + np.maximum(-carried.lo, 0.0)
        partial = inflate(np.maximum(up_part, down_part))
        check(self.format, partial + base)
        return Sum(self.format, value, base, partial, terms)

    def _read_otherwise(self, x: Interval, charge: ReadCharge) -> np.ndarray:
        """What terms are off by because their numbers are; a bias is one of them."""
        kept = is_point(x) & (np.abs(x.lo) >= charge.safe)
        moved = matmul_up(self.held, charge.of(x.magnitude, kept))
        biases = product_up(charge.biases, np.abs(self.bias) + self.bias_moved)[:, None]
        return np.asarray(moved + biases)

    def _parts(self, x: Interval) -> tuple[np.ndarray, np.ndarray]:
        """The sums of all positive terms and of all negative ones at their largest."""
        rises, falls = np.maximum(x.hi, 0.0), np.maximum(-x.lo, 0.0)
        size = self.size
        more, less = np.where(self.matrix > 0, size, 0.0), np.where(self.matrix < 0, size, 0.0)
        bias = self.bias[:, None]
        ups = matmul_up(more, rises) + matmul_up(less, falls) + np.maximum(bias, 0.0)
        downs = matmul_up(more, falls) + matmul_up(less, rises) + np.maximum(-bias, 0.0)
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
        return matmul_up(self.size, off[self.columns])


def relative(roundings: np.ndarray | float, format: Format) -> np.ndarray:
    """gamma_k: what k roundings in a row do to a number."""
    bound = np.asarray(gamma(roundings, format))
    if not np.isfinite(bound).all():
        raise NothingKnown
    return bound
