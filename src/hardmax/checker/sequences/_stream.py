"""The stream of a Transformer of sequences, enclosed: for the reals and for a float format at once.

A `Table` is an array of balls, middle and radius. Each ball holds the number over the reals and
every number that an evaluation in the float format can arrive at: weights rounded to the format,
sums in any order, each operation rounded once. A radius of 0 says that nothing was rounded.

A `Stream` is a sum of tables. The block of `axes` depends on the token and on the values of those
slots (see `_slots`); the block without axes depends on the token alone. Sums of small
tables reach where one joint table would be too large, and a coordinate that nobody writes to stays
what it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from hardmax.checker._work import CALL, ENTRY, FLOPS, charge
from hardmax.checker.sequences._axes import Axes, merged_axes
from hardmax.numerics import LARGEST, UNIT_ROUNDOFF, inflate, is_power_of_two, is_representable
from hardmax.numerics import stray as stray_of

OWN_UNIT = UNIT_ROUNDOFF["float64"]  # middles are computed in float64
OWN_SMALLEST = -1074
LARGEST_TABLE = 2**22  # numbers in one joint table
_SMALLEST = {"float64": -1074, "float32": -149, "float16": -24, "bfloat16": -133}


class Overflow(Exception):
    """A number may be too large for the format: nothing can be said."""


class TooLarge(Exception):
    """A table would have too many entries, or a slot too many values."""


@dataclass(frozen=True)
class Arithmetic:
    """The reals and one float format beside them; for `REALS` no format at all."""

    name: str
    unit: float
    digits: int
    smallest: int  # exponent of the smallest positive number
    largest: float

    @classmethod
    def of(cls, name: str) -> Arithmetic:
        digits = round(-np.log2(UNIT_ROUNDOFF[name]))
        return cls(name, UNIT_ROUNDOFF[name], digits, _SMALLEST[name], LARGEST[name])

    def holds(self, values: np.ndarray) -> np.ndarray:
        """Which float64 numbers the format stores without rounding."""
        if self.unit == 0.0:
            return np.ones(np.shape(values), dtype=bool)
        fine = is_representable(values, self.unit) & (lowest_bit(values) >= self.smallest)
        return np.asarray(fine & (np.abs(values) <= self.largest))

    def is_exact(self, size: np.ndarray, grid: np.ndarray) -> np.ndarray:
        """Where sums of multiples of 2^grid are not rounded, |terms| adding up to `size`.

        Every partial sum is a multiple of 2^grid of at most 2^digits times 2^grid, so it has at
        most `digits` digits: the format holds it, whatever the order.
        """
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray((size <= np.exp2(self.digits + grid)) & (grid >= self.smallest))

    def check(self, size: np.ndarray) -> None:
        """Refuse numbers that may overflow."""
        if not np.max(size, initial=0.0) <= self.largest:
            raise Overflow(f"Nothing can be said in {self.name}: a number may be too large for it.")

    def check_weights(self, weights: np.ndarray) -> None:
        """Refuse weights that overflow, or lose digits below the smallest normal number."""
        self.check(np.abs(weights))
        small = np.abs(weights) < 2.0 ** max(self.smallest + self.digits - 1, OWN_SMALLEST)
        if (small & (weights != 0.0)).any():
            raise Overflow(f"Nothing can be said in {self.name}: a weight is too small for it.")


REALS = Arithmetic("reals", 0.0, 2**10, -(2**12), LARGEST["float64"])
OWN = Arithmetic.of("float64")


def lowest_bit(values: np.ndarray) -> np.ndarray:
    """The largest e for which the number is a multiple of 2^e; infinite for 0."""
    mantissa, exponent = np.frexp(values)
    whole = np.abs(mantissa * 2.0**53).astype(np.int64)
    with np.errstate(divide="ignore"):
        trailing = np.log2((whole & -whole).astype(np.float64))
    return np.where(whole == 0, np.inf, exponent - 53 + trailing)


class Table(NamedTuple):
    """Balls: middle - radius <= x <= middle + radius, entry by entry."""

    middle: np.ndarray
    radius: np.ndarray

    @classmethod
    def point(cls, values: np.ndarray) -> Table:
        return cls(values, np.zeros(np.shape(values)))

    @classmethod
    def between(cls, low: np.ndarray, high: np.ndarray) -> Table:
        """All of the intervals; a point has radius 0."""
        size = np.maximum(np.abs(low), np.abs(high))
        wide = high > low
        radius = np.where(wide, inflate(0.5 * high - 0.5 * low) + size * 2.0**-50, 0.0)
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
        return np.where(self.radius > 0.0, top + np.abs(top) * 2.0**-52, top)

    @property
    def low(self) -> np.ndarray:
        return -Table(-self.middle, self.radius).high

    @property
    def size(self) -> np.ndarray:
        """The largest absolute value; infinite where nothing is known."""
        ends = np.maximum(np.abs(self.low), np.abs(self.high))
        return np.where(np.isnan(ends), np.inf, ends)


def added(a: Table, b: Table) -> Table:
    """The sum; what float64 loses of the middles is known exactly, and widens the radius.

    For s = fl(a + b) the error a + b - s is itself a float64, found by six additions without
    rounding (Knuth's TwoSum).
    """
    total = a.middle + b.middle
    charge(12 * CALL + 12 * ENTRY * total.size)
    part = total - a.middle
    lost = np.abs((a.middle - (total - part)) + (b.middle - part))
    radius = a.radius + b.radius + lost
    return Table(total, np.where(radius > 0.0, inflate(radius), 0.0))


@dataclass(frozen=True, eq=False)
class Stream:
    """Tokens x width, as a sum of tables of shape lead + sizes of the axes + (width,).

    `lead` axes come first: the token, or a batch and the token. `grid` belongs to the last axis:
    entries of radius 0 are multiples of 2^grid.
    """

    blocks: Mapping[Axes, Table]
    grid: np.ndarray
    lead: int

    @classmethod
    def of(cls, table: Table, lead: int) -> Stream:
        """A stream of one block without axes."""
        flat = table.middle.reshape(-1, table.middle.shape[-1])
        return cls({(): table}, lowest_bit(flat).min(axis=0, initial=np.inf), lead)

    @property
    def width(self) -> int:
        return len(self.grid)

    @property
    def leading(self) -> tuple[int, ...]:
        return self.blocks[()].middle.shape[: self.lead]

    def over_axes(self, table: np.ndarray) -> tuple[int, ...]:
        return tuple(range(self.lead, table.ndim - 1))

    @cached_property
    def magnitude(self) -> np.ndarray:
        """A bound on |x|, lead + (width,)."""
        total = np.zeros((*self.leading, self.width))
        for middle, radius in self.blocks.values():
            total += (np.abs(middle) + radius).max(axis=self.over_axes(middle))
        return np.asarray(inflate(total, len(self.blocks) + 8))

    @cached_property
    def looseness(self) -> np.ndarray:
        """The radii added up, lead + (width,): 0 where a coordinate is known exactly."""
        total = np.zeros((*self.leading, self.width))
        for middle, radius in self.blocks.values():
            total += radius.max(axis=self.over_axes(middle))
        return np.asarray(inflate(total, len(self.blocks) + 8))

    @cached_property
    def range(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds, lead + (width,)."""
        low = high = Table.point(np.zeros((*self.leading, self.width)))
        for table in self.blocks.values():
            axes = self.over_axes(table.middle)
            low = added(low, Table.point(table.low.min(axis=axes)))
            high = added(high, Table.point(table.high.max(axis=axes)))
        return low.low, high.high

    def affine(self, matrix: np.ndarray, bias: np.ndarray | None, arithmetic: Arithmetic) -> Stream:
        """matrix @ x + bias: one sum per row, in any order, its rounding added to the radius.

        Each term passes through the rounding of its weight, of the product, and of at most as many
        additions as there are terms. A row that copies a coordinate, perhaps times a power of two
        above 1, rounds nothing.
        """
        entries = sum(table.middle.size for table in self.blocks.values())
        charge(60 * CALL + matrix.size * 20 * ENTRY + entries * (16 * ENTRY + len(matrix) // FLOPS))
        arithmetic.check_weights(matrix)
        bias = np.zeros(len(matrix)) if bias is None else bias
        sizes = np.abs(matrix)
        long = matrix.shape[1] + 8
        size = inflate(self.magnitude @ sizes.T + np.abs(bias), long)
        grid = self._grid_of(matrix, bias)
        lost = self._lost(matrix, bias, size, grid, arithmetic)
        arithmetic.check(size + lost)
        blocks = {
            axes: Table(t.middle @ matrix.T, inflate(t.radius @ sizes.T, long))
            for axes, t in self.blocks.items()
        }
        blocks[()] = Table(blocks[()].middle + bias, inflate(blocks[()].radius + lost))
        return Stream(blocks, grid, self.lead).trimmed()

    def _lost(
        self,
        matrix: np.ndarray,
        bias: np.ndarray,
        size: np.ndarray,
        grid: np.ndarray,
        arithmetic: Arithmetic,
    ) -> np.ndarray:
        """What rounding can do to matrix @ x + bias: the format's, and that of float64 here."""
        entries = matrix != 0.0
        terms, total = entries.sum(axis=1), np.abs(matrix).sum(axis=1)
        copies = (terms == 1) & is_power_of_two(total) & (total >= 1.0) & (bias == 0.0)
        loose = (self.looseness @ entries.T.astype(float)) > 0.0
        stored = arithmetic.holds(matrix).all(axis=1) & arithmetic.holds(bias)
        here = copies | (~loose & OWN.is_exact(size, grid))
        there = stored & (copies | (~loose & arithmetic.is_exact(size, grid)))
        lost_here = np.where(here, 0.0, stray_of(terms + 3, size, OWN_UNIT))
        return lost_here + np.where(there, 0.0, stray_of(terms + 3, size, arithmetic.unit))

    def _grid_of(self, matrix: np.ndarray, bias: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore"):
            terms = np.where(matrix == 0.0, np.inf, lowest_bit(matrix) + self.grid)
        return np.minimum(terms.min(axis=1, initial=np.inf), lowest_bit(bias))

    def trimmed(self) -> Stream:
        """Without blocks that are zero."""
        kept = {axes: t for axes, t in self.blocks.items() if not axes or not t.is_zero}
        return self if len(kept) == len(self.blocks) else Stream(kept, self.grid, self.lead)

    def rows(self, chosen: np.ndarray) -> Stream:
        """Some of the coordinates."""
        blocks = {
            axes: Table(t.middle[..., chosen], t.radius[..., chosen])
            for axes, t in self.blocks.items()
        }
        return Stream(blocks, self.grid[chosen], self.lead).trimmed()

    def at_tokens(self, chosen: np.ndarray) -> Stream:
        """Some of the tokens."""
        blocks = {
            axes: Table(*(np.take(part, chosen, axis=self.lead - 1) for part in t))
            for axes, t in self.blocks.items()
        }
        return Stream(blocks, self.grid, self.lead)

    def size_of(self, axes: Iterable[int]) -> tuple[int, ...]:
        """How many values each axis has."""
        sizes = {
            axis: size
            for own, t in self.blocks.items()
            for axis, size in zip(own, t.middle.shape[self.lead : -1], strict=True)
        }
        return tuple(sizes[axis] for axis in axes)

    @property
    def axes(self) -> Axes:
        """Every slot that some block depends on, ascending."""
        return tuple(sorted({axis for own in self.blocks for axis in own}))

    def joined(self) -> Table:
        """All blocks in one table over all axes; refused if it were too large."""
        axes = self.axes
        shape = (*self.leading, *self.size_of(axes), self.width)
        if np.prod(shape, dtype=float) > LARGEST_TABLE:
            raise TooLarge(f"A table of shape {shape} would be too large.")
        charge(ENTRY * int(np.prod(shape)))
        parts = [expanded(table, own, axes, self.lead) for own, table in self.blocks.items()]
        total = parts[0]
        for part in parts[1:]:
            total = added(total, part)
        return Table(*(np.broadcast_to(part, shape) for part in total))

    def beside(self, *others: Stream) -> Stream:
        """The coordinates of several streams of the same tokens, one after the other."""
        parts = (self, *others)
        blocks = {}
        for axes in dict.fromkeys(axes for part in parts for axes in part.blocks):
            given = [part.blocks.get(axes) for part in parts]
            shape = next(t.middle.shape[:-1] for t in given if t is not None)
            filled = [
                Table.point(np.zeros((*shape, part.width))) if t is None else t
                for part, t in zip(parts, given, strict=True)
            ]
            blocks[axes] = Table(
                np.concatenate([t.middle for t in filled], axis=-1),
                np.concatenate([t.radius for t in filled], axis=-1),
            )
        return Stream(blocks, np.concatenate([part.grid for part in parts]), self.lead)


def expanded(table: Table, own: Axes, axes: Axes, lead: int) -> Table:
    """A table over some axes, ready to be broadcast over more of them."""
    shape = list(table.middle.shape[:lead])
    sizes = dict(zip(own, table.middle.shape[lead:-1], strict=True))
    shape += [sizes.get(axis, 1) for axis in axes] + [table.middle.shape[-1]]
    return Table(table.middle.reshape(shape), table.radius.reshape(shape))


def stored(values: np.ndarray, arithmetic: Arithmetic) -> Table:
    """Weights as they are kept: rounded to the format unless it holds them."""
    arithmetic.check(np.abs(values))
    lost = stray_of(1, np.abs(values), arithmetic.unit)
    return Table(np.asarray(values), np.where(arithmetic.holds(values), 0.0, lost))


class Blocks:
    """Tables of one width by axes, added up; axes may come in any order, and twice."""

    def __init__(self, tokens: int, width: int) -> None:
        self.width = width
        self.tables: dict[Axes, Table] = {(): Table.point(np.zeros((tokens, width)))}

    def add(self, axes: Axes, table: Table) -> None:
        own, middle = merged_axes(axes, table.middle)
        new = Table(middle, merged_axes(axes, table.radius)[1])
        self.tables[own] = added(self.tables[own], new) if own in self.tables else new
