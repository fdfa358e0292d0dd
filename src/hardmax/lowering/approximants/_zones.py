"""Where a curve is convex and where it is concave, proved by enclosures of f''."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from hardmax.lowering.approximants._balls import NO_SERIES, ball_between, ends, working
from hardmax.lowering.approximants._curve import Curve
from hardmax.numerics import Interval

_FIRST, _LEVELS, _MOST = 32, 56, 1024  # boxes at the start, halvings, undecided boxes at most


@dataclass(frozen=True)
class Zone:
    """[low, high] where f'' has one sign: 1 convex, -1 concave, 0 undecided with |f''| <= bound."""

    low: float
    high: float
    sign: int
    bound: float

    @property
    def bend(self) -> float:
        """A chord across the zone misses f by at most bound * width^2 / 8 (inf if unknown)."""
        return self.bound * (self.high - self.low) ** 2 / 8.0


def convexity_zones(curve: Curve, negligible: float) -> tuple[Zone, ...]:
    """Zones that cover [low, high] from left to right, neighbours of different signs.

    A box whose enclosure of f'' has one sign is decided; the others are halved until a chord
    across misses f by less than `negligible`, or until the budget is spent.
    """
    second = curve.second or _second_from_balls(curve)
    grid = np.unique(np.linspace(curve.low, curve.high, _FIRST + 1))
    low, high, done = grid[:-1], grid[1:], list[Zone]()
    for level in range(_LEVELS):
        enclosure = second(Interval(low, high))
        bound = enclosure.magnitude
        sign = np.where(enclosure.lo >= 0.0, 1, np.where(enclosure.hi <= 0.0, -1, 0))
        with np.errstate(invalid="ignore", over="ignore"):
            small = bound * (high - low) ** 2 / 8.0 <= negligible
        middle = 0.5 * (low + high)
        last = level == _LEVELS - 1 or 2 * int((sign == 0).sum()) > _MOST
        stop = (sign != 0) | small | (middle <= low) | (middle >= high) | last
        for i in np.flatnonzero(stop):
            done.append(Zone(float(low[i]), float(high[i]), int(sign[i]), float(bound[i])))
        low, middle, high = low[~stop], middle[~stop], high[~stop]
        if not len(low):
            break
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
    return _joined(sorted(done, key=lambda zone: zone.low))


def _joined(zones: list[Zone]) -> tuple[Zone, ...]:
    joined = []
    for sign, run in groupby(zones, key=lambda zone: zone.sign):
        same = list(run)
        joined.append(Zone(same[0].low, same[-1].high, sign, max(z.bound for z in same)))
    return tuple(joined)


def spans(zones: tuple[Zone, ...], negligible: float) -> tuple[Zone, ...]:
    """The zones with the thin undecided ones absorbed: what a fit is built on.

    Between two signs the border is the middle of the thin zone. Between equal signs there is none,
    unless f'' is unbounded in the thin zone: that may be a kink, which wants a knot.
    """
    width = zones[-1].high - zones[0].low
    built, open_end, kink = list[Zone](), zones[0].low, False
    for zone in zones:
        thin = zone.bend <= negligible or zone.high - zone.low <= 1e-9 * width
        if zone.sign == 0 and thin:
            kink = kink or not np.isfinite(zone.bound)
            continue
        if built and (kink or built[-1].sign != zone.sign):
            open_end = 0.5 * (built[-1].high + zone.low)
            built[-1] = replace(built[-1], high=open_end)
        elif built:
            open_end = built.pop().low
        built.append(replace(zone, low=open_end))
        kink = False
    if not built:
        return (Zone(zones[0].low, zones[-1].high, 1, max(z.bound for z in zones)),)
    built[-1] = replace(built[-1], high=zones[-1].high)
    return tuple(built)


def _second_from_balls(curve: Curve) -> Callable[[Interval], Interval]:
    """f'' from Taylor series at balls, one box at a time, for curves that bring no enclosure."""

    def second(boxes: Interval) -> Interval:
        from flint import arb_series

        pairs = []
        with working(64, 3):
            for low, high in zip(boxes.lo, boxes.hi, strict=True):
                box = ball_between(float(low), float(high))
                try:
                    pairs.append(ends(2 * curve.ball(arb_series([box, 1], prec=3))[2]))
                except NO_SERIES:
                    pairs.append((-np.inf, np.inf))
        found = np.array(pairs).reshape(-1, 2)
        return Interval(found[:, 0], found[:, 1])

    return second
