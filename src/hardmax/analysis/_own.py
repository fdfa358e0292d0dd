"""Heads that scale the asking token's own coordinates by known factors: they clear, or keep."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardmax.analysis._outlines import Outline
from hardmax.analysis._places import Place
from hardmax.analysis._question import Asking
from hardmax.numerics import FLOAT64, Interval, inflate, product_up, stray


@dataclass(frozen=True, eq=False)
class KnownWeights:
    """Weights of heads whose scores are constants, heads x seen."""

    reference: Interval
    middle: np.ndarray  # what runs, over the reals, lies within ...
    away: np.ndarray  # ... this of it, ...
    apart: np.ndarray  # ... and, rounded, within this of the reference
    most: np.ndarray  # over the reals


@dataclass(frozen=True, eq=False)
class OwnFactors:
    """x becomes (1 + factor) x in coordinates of one token, or of all: tokens x width.

    Intervals would add the ranges of x and of what heads make of it as if they were unrelated: a
    head that takes x away would double them.
    """

    reference: Interval
    middle: np.ndarray
    away: np.ndarray
    apart: np.ndarray
    size: np.ndarray  # of what is added, in units of x

    @classmethod
    def none(cls, width: int) -> OwnFactors:
        zero = np.zeros(width)
        return cls(Interval.point(zero), zero, zero, zero, zero)

    @classmethod
    def stacked(cls, rows: list[OwnFactors]) -> OwnFactors:
        return cls(
            Interval(
                np.stack([row.reference.lo for row in rows]),
                np.stack([row.reference.hi for row in rows]),
            ),
            *(
                np.stack([getattr(row, name) for row in rows])
                for name in ("middle", "away", "apart", "size")
            ),
        )

    def __add__(self, other: OwnFactors) -> OwnFactors:
        """Of two groups of heads; numbers are added once, and sums of middles rounded."""
        middle = self.middle + other.middle
        lost = stray(1, np.abs(middle), FLOAT64)
        return OwnFactors(
            self.reference + other.reference,
            middle,
            inflate(self.away + other.away + lost, 3),
            inflate(self.apart + other.apart, 2),
            inflate(self.size + other.size),
        )

    @property
    def some(self) -> np.ndarray:
        return self.size > 0.0

    def times(self, place: Place) -> Place:
        """What the factors leave of a stream.

        x' (1 + f') - x (1 + f) = (x' - x)(1 + f') + x (f' - f), f' being what runs.
        """
        left = self.reference + 1.0
        middle = self.middle + 1.0  # a sum, rounded
        away = inflate(self.away + np.where(self.some, stray(1, np.abs(middle), FLOAT64), 0.0), 2)
        deviation = place.deviation.scaled(middle, away)
        strayed = product_up(self.apart, place.where.magnitude)
        outline = place.outline
        if outline is not None:
            mid = left.middle
            outline = outline.scaled(mid, (left - mid).magnitude)
        scaled = Place(place.range * left, deviation, outline).strayed(strayed)
        here = Place(place.range, place.deviation, place.outline)
        result = here.overruled(self.some, scaled)
        if outline is None or place.outline is None:
            return result
        chosen = place.outline.overruled(self.some, outline)
        return Place(result.range, result.deviation, chosen)


def own_factors(asking: Asking, weights: KnownWeights) -> tuple[np.ndarray, OwnFactors]:
    """Which rows of values are read off one own coordinate and written there alone, and factors.

    Of heads whose scores are constants; heads x value width.
    """
    group, width = asking.group, asking.group.query.shape[2]
    at = np.abs(group.value).argmax(axis=2)
    heads, rows = np.indices(at.shape)
    read, written = group.value[heads, rows, at], group.output[heads, at, rows]
    alone = ((group.value != 0.0).sum(axis=2) == 1) & ((group.output != 0.0).sum(axis=1) == 1)
    own = np.flatnonzero(asking.seen == asking.t)
    alone &= group.position_bias is not None  # heads that clear look by biases
    alone &= asking.format.holds(read) & asking.format.holds(written)  # or they would be charged
    chosen = alone & (written != 0.0) & asking.constant[:, None] & (len(own) == 1)
    if not chosen.any():
        return chosen, OwnFactors.none(width)
    h, v = np.nonzero(chosen)
    j, place = int(own[0]), at[h, v]
    factor = read[h, v] * written[h, v]
    plain = np.abs(factor) == 1.0  # other products are rounded
    spare = np.where(plain, 0.0, stray(2, np.abs(factor), FLOAT64))
    part = (weights.reference[h, j] * Interval.point(factor)).widened(spare)

    def by_place(numbers: np.ndarray) -> np.ndarray:
        row = np.zeros(width)
        np.add.at(row, place, numbers)  # several heads may scale one coordinate
        return row

    added = stray(len(h) + 2, by_place(np.abs(factor)), FLOAT64)
    lost = np.where(by_place(np.ones(len(h))) > 1.0, added, 0.0)
    middle = factor * weights.middle[h, j]
    away = product_up(np.abs(factor), weights.away[h, j]) + spare
    apart = product_up(np.abs(factor), weights.apart[h, j]) + spare
    reference = Interval(by_place(part.lo), by_place(part.hi)).widened(lost)
    return chosen, OwnFactors(
        reference,
        by_place(middle),
        inflate(by_place(away) + lost, len(h) + 2),
        inflate(by_place(apart) + lost, len(h) + 2),
        inflate(by_place(np.abs(factor)), len(h) + 2),
    )


def without_own(asking: Asking, chosen: np.ndarray) -> tuple[Place, Outline | None]:
    """The values, and their outlines, with 0 for the own token's in the rows chosen."""
    gone = chosen[:, :, None] & (asking.seen == asking.t)
    nothing = Place.zero(gone.shape)
    values = asking.values.overruled(gone, nothing)
    outline = asking.outline
    if outline is not None:
        outline = outline.overruled(gone, Outline.of(nothing.range))
    return values, outline
