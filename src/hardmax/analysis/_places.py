"""Ranges and deviations of a stream, side by side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from hardmax.analysis._deviations import Deviation, Index
from hardmax.analysis._outlines import Outline
from hardmax.numerics import Interval


@dataclass(frozen=True, eq=False)
class Place:
    """The range of the reference and the deviation of the evaluation from it."""

    range: Interval
    deviation: Deviation
    outline: Outline | None = None  # of the stream: the reference as affine forms, if wanted ...
    narrow: Interval | None = None  # ... and where they say that it is

    @classmethod
    def zero(cls, shape: tuple[int, ...]) -> Place:
        zero = Interval.point(np.zeros(shape))
        return cls(zero, Deviation.of(zero))

    @property
    def where(self) -> Interval:
        """Where reference and evaluation both are."""
        moved = self.range + self.deviation.hull
        return Interval(np.minimum(moved.lo, self.range.lo), np.maximum(moved.hi, self.range.hi))

    @property
    def close(self) -> Interval:
        """The same, by all that is known: for how large numbers are, not for lemmas."""
        if self.narrow is None:
            return self.where
        moved = self.narrow + self.deviation.hull
        lo, hi = np.minimum(moved.lo, self.narrow.lo), np.maximum(moved.hi, self.narrow.hi)
        return self.where.meet(Interval(lo, hi))

    def outlined(self, outline: Outline | None, narrow: Interval | None) -> Place:
        """With an outline, or else with the narrow ranges that one had led to."""
        if outline is not None:
            narrow = self.range.meet(outline.hull)
        return Place(self.range, self.deviation, outline, narrow)

    @property
    def fixed(self) -> np.ndarray:
        """Coordinates that are one known number, for reference and evaluation alike."""
        return (self.range.lo == self.range.hi) & (self.deviation.magnitude == 0.0)

    def __add__(self, other: Place) -> Place:
        return Place(self.range + other.range, self.deviation + other.deviation)

    def __neg__(self) -> Place:
        return Place(-self.range, -self.deviation)

    def __getitem__(self, key: Index) -> Place:
        return Place(self.range[key], self.deviation[key])

    def transposed(self) -> Place:
        range = Interval(self.range.lo.T, self.range.hi.T)
        return Place(range, self.deviation.transposed())

    def shifted(self, shift: np.ndarray | Interval) -> Place:
        return replace(self, deviation=self.deviation + shift)

    def strayed(self, stray: np.ndarray) -> Place:
        """Widened by a rounding error."""
        return replace(self, deviation=self.deviation + Interval(-stray, stray))

    def overruled(self, applies: np.ndarray, other: Place) -> Place:
        """`other` where it applies, broadcast; this place elsewhere."""
        range = Interval(
            np.where(applies, other.range.lo, self.range.lo),
            np.where(applies, other.range.hi, self.range.hi),
        )
        return Place(range, self.deviation.overruled(applies, other.deviation))

    def replaced(self, tokens: np.ndarray, coordinates: np.ndarray, values: Place) -> Place:
        """Other values at single coordinates of single tokens."""
        if not len(tokens):
            return self
        spread = Place.zero(self.range.shape)
        at = np.zeros(self.range.shape, dtype=bool)
        at[tokens, coordinates] = True
        return self.overruled(at, spread._with(tokens, coordinates, values))

    def _with(self, tokens: np.ndarray, coordinates: np.ndarray, values: Place) -> Place:
        def put(old: np.ndarray, new: np.ndarray) -> np.ndarray:
            result = np.zeros((*old.shape[:2], *new.shape[1:]))
            result[tokens, coordinates] = new
            return result

        range, rest = values.range, values.deviation.rest
        return Place(
            Interval(put(self.range.lo, range.lo), put(self.range.lo, range.hi)),
            Deviation(
                Interval(put(self.range.lo, rest.lo), put(self.range.lo, rest.hi)),
                put(self.range.lo, values.deviation.forms),
                values.deviation.counter,
            ),
        )


Join = Callable[[list[np.ndarray]], np.ndarray]


def stack_places(places: list[Place], join: Join = np.stack) -> Place:
    """Several places as one, along a new first axis or end to end."""
    noises = max(p.deviation.noises for p in places)
    return Place(
        _joined([p.range for p in places], join),
        Deviation(
            _joined([p.deviation.rest for p in places], join),
            join([p.deviation.padded(noises) for p in places]),
            next((p.deviation.counter for p in places if p.deviation.counter), None),
        ),
    )


def _joined(parts: list[Interval], join: Join) -> Interval:
    return Interval(join([p.lo for p in parts]), join([p.hi for p in parts]))


def scaled_in_place(
    place: Place, change: Place, factor: Interval, scaled: tuple[Interval, Interval]
) -> Place:
    """place + change, where x (1 + factor) is known to stand for x + a part of the change.

    `scaled` is that part of the change's lower end, and of its upper end.
    The range is the narrower of the two readings; the deviation is that of the sum.
    """
    plain = place + change
    if not (factor.lo.any() or factor.hi.any()):
        return plain
    low, high = (change.range.lo - scaled[0]).lo, (change.range.hi - scaled[1]).hi
    rest = Interval(np.minimum(low, high), np.maximum(low, high))
    product = place.range * (factor + 1.0) + rest
    return Place(plain.range.meet(product), plain.deviation)
