"""Ranges and deviations of a stream, side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax.numerics import Interval


@dataclass(frozen=True, eq=False)
class Place:
    """The range of the reference and the deviation of the evaluation from it."""

    range: Interval
    deviation: Interval

    @classmethod
    def zero(cls, shape: tuple[int, ...]) -> Place:
        zero = Interval.point(np.zeros(shape))
        return cls(zero, zero)

    @property
    def where(self) -> Interval:
        """Where reference and evaluation both are."""
        moved = self.range + self.deviation
        return Interval(np.minimum(moved.lo, self.range.lo), np.maximum(moved.hi, self.range.hi))

    @property
    def fixed(self) -> np.ndarray:
        """Coordinates that are one known number, for reference and evaluation alike."""
        return (self.range.lo == self.range.hi) & (self.deviation.magnitude == 0.0)

    def __add__(self, other: Place) -> Place:
        return Place(self.range + other.range, self.deviation + other.deviation)

    def __neg__(self) -> Place:
        return Place(-self.range, -self.deviation)

    def __getitem__(self, key: Any) -> Place:
        return Place(self.range[key], self.deviation[key])

    def transposed(self) -> Place:
        r, d = self.range, self.deviation
        return Place(Interval(r.lo.T, r.hi.T), Interval(d.lo.T, d.hi.T))

    def shifted(self, shift: np.ndarray | Interval) -> Place:
        return Place(self.range, self.deviation + shift)

    def strayed(self, stray: np.ndarray) -> Place:
        """Widened by a rounding error."""
        return Place(self.range, self.deviation + Interval(-stray, stray))

    def overruled(self, applies: np.ndarray, other: Place) -> Place:
        """`other` where it applies, broadcast; this place elsewhere."""
        ends = [
            Interval(np.where(applies, new.lo, mine.lo), np.where(applies, new.hi, mine.hi))
            for mine, new in ((self.range, other.range), (self.deviation, other.deviation))
        ]
        return Place(*ends)

    def replaced(self, tokens: np.ndarray, coordinates: np.ndarray, values: Place) -> Place:
        """Other values at single coordinates of single tokens."""
        if not len(tokens):
            return self
        ends = []
        for mine, new in ((self.range, values.range), (self.deviation, values.deviation)):
            lo, hi = mine.lo.copy(), mine.hi.copy()
            lo[tokens, coordinates], hi[tokens, coordinates] = new.lo, new.hi
            ends.append(Interval(lo, hi))
        return Place(*ends)


def stack_places(places: list[Place], join: Any = np.stack) -> Place:
    """Several places as one, along a new first axis or end to end."""
    return Place(
        *(
            Interval(join([p.lo for p in parts]), join([p.hi for p in parts]))
            for parts in ([p.range for p in places], [p.deviation for p in places])
        )
    )
