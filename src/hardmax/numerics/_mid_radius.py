"""Arrays of balls: middles and radii. Where most numbers are points, half the work of intervals."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hardmax.numerics._outward import inflate, stray, up


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
