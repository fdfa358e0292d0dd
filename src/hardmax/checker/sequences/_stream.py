"""The stream of a Transformer of sequences, enclosed: for the reals and for a float format at once.

A table is an array of balls (`MidRadius`). Each ball holds the number over the reals and every
number that an evaluation in the float format can arrive at: weights rounded to the format, sums in
any order, each operation rounded once. A radius of 0 says that nothing was rounded.

A `Stream` is a sum of tables. The block of `axes` depends on the token and on the values of those
slots (see `_slots`); the block without axes depends on the token alone. Sums of small
tables reach where one joint table would be too large, and a coordinate that nobody writes to stays
what it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from hardmax.checker._budget import CALL, ENTRY, FLOPS, charge
from hardmax.checker.sequences._axes import Axes, merged_axes
from hardmax.core import SequenceInput, Transformer
from hardmax.numerics import (
    FLOAT64,
    Format,
    MidRadius,
    above_float,
    inflate,
    is_power_of_two,
    lowest_bit,
    stray,
)

Number = int | float | Fraction  # what the steps of a target say
LARGEST_TABLE = 2**22  # numbers in one joint table


class Overflow(Exception):
    """A number may be too large for the format: nothing can be said."""


class TooLarge(Exception):
    """A table would have too many entries, or a slot too many values."""


def check(format: Format, size: np.ndarray) -> None:
    """Refuse numbers that may overflow."""
    if not format.fits(size):
        raise Overflow(f"Nothing can be said in {format.name}: a number may be too large for it.")


def check_sums(format: Format, tokens: int, values: np.ndarray) -> None:
    """Refuse values up to sizes for which a softmax may overflow before it divides."""
    if not format.accumulates(inflate(tokens * values), tokens):
        raise Overflow(f"Nothing can be said in {format.name}: a sum may be too large for it.")


def check_weights(format: Format, weights: np.ndarray) -> None:
    """Refuse weights that overflow, or lose digits below the smallest normal number."""
    check(format, np.abs(weights))
    if ((np.abs(weights) < format.normal) & (weights != 0.0)).any():
        raise Overflow(f"Nothing can be said in {format.name}: a weight is too small for it.")


def strays(terms: float | np.ndarray, size: float | np.ndarray, format: Format) -> np.ndarray:
    """How far a sum can stray, both here, where middles are computed, and in the format."""
    return np.asarray(stray(terms, size) + stray(terms, size, format))


@dataclass(frozen=True, eq=False)
class Stream:
    """Tokens x width, as a sum of tables of shape lead + sizes of the axes + (width,).

    `lead` axes come first: the token, or a batch and the token. `grid` belongs to the last axis:
    entries of radius 0 are multiples of 2^grid.
    """

    blocks: Mapping[Axes, MidRadius]
    grid: np.ndarray
    lead: int

    @classmethod
    def of(cls, table: MidRadius, lead: int) -> Stream:
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
    def is_loose(self) -> np.ndarray:
        """Whether some radius is not 0, lead + (width,): elsewhere coordinates are exact."""
        found = np.zeros((*self.leading, self.width), dtype=bool)
        for middle, radius in self.blocks.values():
            found |= (radius != 0.0).any(axis=self.over_axes(middle))
        return found

    @cached_property
    def range(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds, lead + (width,)."""
        low = high = MidRadius.point(np.zeros((*self.leading, self.width)))
        for table in self.blocks.values():
            axes = self.over_axes(table.middle)
            low = low.plus(MidRadius.point(table.low.min(axis=axes)))
            high = high.plus(MidRadius.point(table.high.max(axis=axes)))
        return low.low, high.high

    def affine(self, matrix: np.ndarray, bias: np.ndarray | None, format: Format) -> Stream:
        """matrix @ x + bias: one sum per row, in any order, its rounding added to the radius.

        Each term passes through the rounding of its weight, of the product, and of at most as many
        additions as there are terms. A row that copies a coordinate, perhaps times a power of two
        above 1, rounds nothing.
        """
        entries = sum(table.middle.size for table in self.blocks.values())
        charge(60 * CALL + matrix.size * 20 * ENTRY + entries * (16 * ENTRY + len(matrix) // FLOPS))
        check_weights(format, matrix)
        bias = np.zeros(len(matrix)) if bias is None else bias
        sizes = np.abs(matrix)
        long = matrix.shape[1] + 8
        size = inflate(self.magnitude @ sizes.T + np.abs(bias), long)
        grid = self._grid_of(matrix, bias)
        lost = self._lost(matrix, bias, size, grid, format)
        check(format, size + lost)
        blocks = {
            axes: MidRadius(t.middle @ matrix.T, inflate(t.radius @ sizes.T, long))
            for axes, t in self.blocks.items()
        }
        blocks[()] = MidRadius(blocks[()].middle + bias, inflate(blocks[()].radius + lost))
        return Stream(blocks, grid, self.lead).trimmed()

    def _lost(
        self,
        matrix: np.ndarray,
        bias: np.ndarray,
        size: np.ndarray,
        grid: np.ndarray,
        format: Format,
    ) -> np.ndarray:
        """What rounding can do to matrix @ x + bias: the format's, and that of float64 here."""
        entries = matrix != 0.0
        terms, total = entries.sum(axis=1), np.abs(matrix).sum(axis=1)
        copies = (terms == 1) & is_power_of_two(total) & (total >= 1.0) & (bias == 0.0)
        loose = (self.is_loose.astype(float) @ entries.T.astype(float)) > 0.0
        stored = format.holds(matrix).all(axis=1) & format.holds(bias)
        here = copies | (~loose & FLOAT64.is_exact(size, grid))
        there = stored & (copies | (~loose & format.is_exact(size, grid)))
        lost_here = np.where(here, 0.0, stray(terms + 3, size))
        return lost_here + np.where(there, 0.0, stray(terms + 3, size, format))

    def _grid_of(self, matrix: np.ndarray, bias: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore"):
            terms = np.where(matrix == 0.0, np.inf, lowest_bit(matrix) + self.grid)
        return np.minimum(terms.min(axis=1, initial=np.inf), lowest_bit(bias))

    def loosened(self, by: np.ndarray) -> Stream:
        """Balls that are larger: by so much at each token and coordinate."""
        middle, radius = self.blocks[()]
        larger = MidRadius(middle, inflate(radius + by, 1))
        return Stream({**self.blocks, (): larger}, self.grid, self.lead)

    def trimmed(self) -> Stream:
        """Without blocks that are zero."""
        kept = {axes: t for axes, t in self.blocks.items() if not axes or not t.is_zero}
        return self if len(kept) == len(self.blocks) else Stream(kept, self.grid, self.lead)

    def rows(self, chosen: np.ndarray) -> Stream:
        """Some of the coordinates."""
        blocks = {
            axes: MidRadius(t.middle[..., chosen], t.radius[..., chosen])
            for axes, t in self.blocks.items()
        }
        return Stream(blocks, self.grid[chosen], self.lead).trimmed()

    def at_tokens(self, chosen: np.ndarray) -> Stream:
        """Some of the tokens."""
        blocks = {
            axes: MidRadius(*(np.take(part, chosen, axis=self.lead - 1) for part in t))
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

    def joined(self) -> MidRadius:
        """All blocks in one table over all axes; refused if it were too large."""
        axes = self.axes
        shape = (*self.leading, *self.size_of(axes), self.width)
        if np.prod(shape, dtype=float) > LARGEST_TABLE:
            raise TooLarge(f"A table of shape {shape} would be too large.")
        charge(ENTRY * int(np.prod(shape)))
        parts = [expanded(table, own, axes, self.lead) for own, table in self.blocks.items()]
        total = parts[0]
        for part in parts[1:]:
            total = total.plus(part)
        return MidRadius(*(np.broadcast_to(part, shape) for part in total))

    def beside(self, *others: Stream) -> Stream:
        """The coordinates of several streams of the same tokens, one after the other."""
        parts = (self, *others)
        blocks = {}
        for axes in dict.fromkeys(axes for part in parts for axes in part.blocks):
            given = [part.blocks.get(axes) for part in parts]
            shape = next(t.middle.shape[:-1] for t in given if t is not None)
            filled = [
                MidRadius.point(np.zeros((*shape, part.width))) if t is None else t
                for part, t in zip(parts, given, strict=True)
            ]
            blocks[axes] = MidRadius(
                np.concatenate([t.middle for t in filled], axis=-1),
                np.concatenate([t.radius for t in filled], axis=-1),
            )
        return Stream(blocks, np.concatenate([part.grid for part in parts]), self.lead)


def expanded(table: MidRadius, own: Axes, axes: Axes, lead: int) -> MidRadius:
    """A table over some axes, ready to be broadcast over more of them."""
    shape = list(table.middle.shape[:lead])
    sizes = dict(zip(own, table.middle.shape[lead:-1], strict=True))
    shape += [sizes.get(axis, 1) for axis in axes] + [table.middle.shape[-1]]
    return MidRadius(table.middle.reshape(shape), table.radius.reshape(shape))


def sequence_input(transformer: Transformer) -> SequenceInput:
    assert isinstance(transformer.input, SequenceInput)
    return transformer.input


def ball_of(number: Fraction) -> tuple[float, float]:
    """The float beside a rational, and how far it is; 0 where they agree."""
    middle = float(number)
    return middle, above_float(abs(Fraction(middle) - number))


def balls_of(numbers: list[Fraction]) -> MidRadius:
    """Rationals as balls; those that float64 holds have radius 0."""
    return MidRadius(*np.array([ball_of(number) for number in numbers]).reshape(-1, 2).T)


def stored(values: np.ndarray, format: Format) -> MidRadius:
    """Weights as they are kept: rounded to the format unless it holds them."""
    check(format, np.abs(values))
    lost = stray(1, np.abs(values), format)
    return MidRadius(np.asarray(values), np.where(format.holds(values), 0.0, lost))


class Blocks:
    """Tables of one width by axes, added up; axes may come in any order, and twice."""

    def __init__(self, tokens: int, width: int) -> None:
        self.width = width
        self.tables: dict[Axes, MidRadius] = {(): MidRadius.point(np.zeros((tokens, width)))}

    def add(self, axes: Axes, table: MidRadius) -> None:
        own, middle = merged_axes(axes, table.middle)
        new = MidRadius(middle, merged_axes(axes, table.radius)[1])
        self.tables[own] = self.tables[own].plus(new) if own in self.tables else new
