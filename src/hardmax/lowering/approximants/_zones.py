"""Where a curve is convex and where it is concave, proved by enclosures of f''."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from hardmax.lowering.approximants._curve import NO_SERIES, Curve
from hardmax.numerics import Interval, ball_between, ball_ends, precision

_THIN = 1e-6  # an undecided stretch of this share of the width is absorbed
_FIRST, _LEVELS, _MOST = 32, 1100, 1024  # boxes at the start, halvings, undecided boxes at most


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
    """Zones that cover [low, high] from left to right, neighbours of one sign joined.

    A box whose enclosure of f'' is bounded and has one sign is decided: f' exists on the closed
    box, so neighbours of one sign make one zone. An unbounded enclosure decides nothing, whatever
    its sign, for a cusp may hide inside: (x^2)^(1/3) has f'' < 0 on both sides of 0 and is not
    concave. Undecided boxes are halved until a chord across misses f by less than `negligible`,
    or f itself varies by less, or the budget is spent.
    """
    second = curve.second or _second_from_balls(curve)
    grid = np.unique(np.linspace(curve.low, curve.high, _FIRST + 1))
    low, high, done = grid[:-1], grid[1:], list[Zone]()
    for level in range(_LEVELS):
        enclosure = second(Interval(low, high))
        bound, middle = enclosure.magnitude, _middles(curve, low, high)
        sign = np.where(enclosure.lo >= 0.0, 1, np.where(enclosure.hi <= 0.0, -1, 0))
        sign = np.where(np.isfinite(bound), sign, 0)
        small = _negligible(curve, low, high, bound, negligible)
        last = level == _LEVELS - 1 or 2 * int((sign == 0).sum()) > _MOST
        stop = (sign != 0) | small | (middle <= low) | (middle >= high) | last
        for i in np.flatnonzero(stop):
            done.append(Zone(float(low[i]), float(high[i]), int(sign[i]), float(bound[i])))
        low, middle, high = low[~stop], middle[~stop], high[~stop]
        if not len(low):
            break
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
    return _joined(sorted(done, key=lambda zone: zone.low))


def _middles(curve: Curve, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Where to cut; at the ends of the domain a power of two away, so that balls fit snugly."""
    with np.errstate(divide="ignore"):
        step = np.exp2(np.floor(np.log2(high - low)) - 1.0)
    middle = np.where(high == curve.high, high - step, 0.5 * (low + high))
    return np.asarray(np.where(low == curve.low, low + step, middle))


def _negligible(
    curve: Curve, low: np.ndarray, high: np.ndarray, bound: np.ndarray, negligible: float
) -> np.ndarray:
    """Where a chord is good enough; where f'' is unbounded, whether f hardly varies."""
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        flat = bound * (high - low) ** 2 / 8.0 <= negligible
    thin = high - low <= 0.01 * _THIN * (curve.high - curve.low)
    small = flat & thin
    for i in np.flatnonzero(~np.isfinite(bound) & thin):
        least, most = range_on(curve, float(low[i]), float(high[i]))
        small[i] = 100.0 * (most - least) <= negligible
    return np.asarray(small)


def range_on(curve: Curve, low: float, high: float) -> tuple[float, float]:
    """An enclosure of f on [low, high], from intervals and from balls."""
    least, most = -np.inf, np.inf
    if curve.hull is not None:
        found = curve.hull(Interval(np.array([low]), np.array([high])))
        least, most = float(found.lo[0]), float(found.hi[0])
    with precision(64, 1):
        try:
            below, above = ball_ends(curve.ball(ball_between(low, high)))
        except NO_SERIES:
            return least, most
    return max(least, below), min(most, above)


def _joined(zones: list[Zone]) -> tuple[Zone, ...]:
    """Neighbours of one sign in one zone; undecided ones stay apart, each with its own bound."""
    joined = list[Zone]()
    for sign, run in groupby(zones, key=lambda zone: zone.sign):
        same = list(run)
        joined += same if sign == 0 else [_merged(same)]
    return tuple(joined)


def _merged(run: list[Zone]) -> Zone:
    return Zone(run[0].low, run[-1].high, run[0].sign, max(zone.bound for zone in run))


def spans(zones: tuple[Zone, ...], negligible: float) -> tuple[Zone, ...]:
    """The zones with thin undecided stretches absorbed: what a fit is built on.

    Between two signs the border is the middle of the stretch. Between equal signs there is none,
    unless f'' is unbounded in the stretch: that may be a kink, which wants a knot.
    """
    width = zones[-1].high - zones[0].low
    built, start, kink = list[Zone](), zones[0].low, False
    for sign, run in groupby(zones, key=lambda zone: zone.sign):
        zone = _merged(list(run))
        if sign == 0 and (zone.bend <= negligible or zone.high - zone.low <= _THIN * width):
            kink = not np.isfinite(zone.bound)
            continue
        if built and (kink or built[-1].sign != sign):
            start = 0.5 * (built[-1].high + zone.low)
            built[-1] = replace(built[-1], high=start)
        elif built:
            start = built.pop().low
        built.append(replace(zone, low=start))
        kink = False
    if not built:
        return (replace(_merged(list(zones)), sign=1),)
    built[-1] = replace(built[-1], high=zones[-1].high)
    return tuple(built)


def _second_from_balls(curve: Curve) -> Callable[[Interval], Interval]:
    """f'' from Taylor series at balls, one box at a time, for curves that bring no enclosure."""

    def second(boxes: Interval) -> Interval:
        from flint import arb_series

        pairs = []
        with precision(64, 3):
            for low, high in zip(boxes.lo, boxes.hi, strict=True):
                box = ball_between(float(low), float(high))
                try:
                    pairs.append(ball_ends(2 * curve.ball(arb_series([box, 1], prec=3))[2]))
                except NO_SERIES:
                    pairs.append((-np.inf, np.inf))
        found = np.array(pairs).reshape(-1, 2)
        return Interval(found[:, 0], found[:, 1])

    return second
