"""A stream of registers: what each coordinate holds, as a function of one value of the target.

A coordinate of the symbols' tokens is a ball for every place and every number that its *root*, a
value of the target's steps, can be at that token; without a root it is a ball for every place.
Nothing else about the word is remembered. Balls hold the reals and the float format at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hardmax.checker.sequences._stream import Stream
from hardmax.numerics import Format, MidRadius, lowest_bit, stray, up

Sizes = float | np.ndarray


@dataclass(frozen=True, eq=False)
class Register:
    """Places (or 1 for all) x numbers of the root (or 1 without one), all with one radius."""

    root: int | None
    middle: np.ndarray
    radius: float

    @classmethod
    def of(cls, root: int | None, middle: np.ndarray, radius: float) -> Register:
        """With no more places and numbers than there are differences."""
        if len(middle) > 1 and (middle == middle[:1]).all():
            middle = middle[:1]
        if root is not None and (middle == middle[:, :1]).all():
            root, middle = None, middle[:, :1]
        return cls(root, np.ascontiguousarray(middle), float(radius))

    @classmethod
    def ball(cls, size: float) -> Register:
        """Anything that is not larger."""
        return cls(None, np.zeros((1, 1)), float(size))

    @cached_property
    def size(self) -> float:
        return float(up(float(np.abs(self.middle).max()) + self.radius))

    @cached_property
    def grid(self) -> float:
        """The middles are multiples of 2^grid."""
        return float(lowest_bit(self.middle).min())

    @cached_property
    def key(self) -> bytes:
        return self.middle.tobytes() + str(self.middle.shape).encode()

    @cached_property
    def by_place(self) -> tuple[np.ndarray, np.ndarray]:
        """Middle and radius at each place (or 1), whatever the root is."""
        if self.middle.shape[1] == 1:
            return self.middle[:, 0], np.full(len(self.middle), self.radius)
        hull = MidRadius.between(self.middle.min(axis=1), self.middle.max(axis=1))
        return hull.middle, up(hull.radius + self.radius)


@dataclass(frozen=True, eq=False)
class State:
    """Every coordinate at the symbols' tokens, and at the start token if there is one."""

    length: int
    symbols: tuple[Register, ...]
    start: tuple[Register, ...] | None

    @property
    def first(self) -> int:
        return int(self.start is not None)

    @cached_property
    def sizes(self) -> np.ndarray:
        """A bound on each coordinate, at all tokens."""
        own = np.array([register.size for register in self.symbols])
        if self.start is None:
            return own
        return np.maximum(own, [register.size for register in self.start])

    @cached_property
    def stream(self) -> Stream:
        """Tokens x width, as balls without roots."""
        shape = (self.length + self.first, len(self.symbols))
        table = MidRadius(np.zeros(shape), np.zeros(shape))
        for c, register in enumerate(self.symbols):
            table.middle[self.first :, c], table.radius[self.first :, c] = register.by_place
        for c, register in enumerate(self.start or ()):
            table.middle[0, c], table.radius[0, c] = register.middle[0, 0], register.radius
        return Stream.of(table, 1)


def near_grid(terms: Sizes, size: Sizes, noise: Sizes, grid: Sizes, format: Format) -> np.ndarray:
    """What rounding does to sums of numbers that are close to a grid; infinite if it may do more.

    Let the terms be m_i + e_i, the m_i multiples of 2^grid whose sizes add up to at most 2^digits
    times that, and the e_i together less than u/4 2^grid. Then every partial sum is m + e with m in
    the format. If m is not 0, the next floats are at least u |m| away, and the rounded m + e, which
    is no further from m + e than m is, can only be m. If m is 0, e is rounded by u |e|, or
    underflows. So a sum strays as if it were the sum of the e_i. In particular a number of the
    format that is so close to m is m itself, unless m is 0.
    """
    lost = stray(np.asarray(terms) + 3, noise, format)
    room = 0.25 * format.unit * np.exp2(np.minimum(grid, 1000.0))
    close = (np.asarray(noise) == 0.0) | (noise + lost <= room)
    return np.where(close & format.is_exact(size, grid), lost, np.inf)
