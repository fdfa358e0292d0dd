"""Continuous piecewise linear approximation with free knots, as few as convexity allows."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike

from hardmax._errors import PrecisionError, RequestError, ShapeError
from hardmax.lowering.approximants._curve import Curve
from hardmax.lowering.approximants._knots_proof import proved_error
from hardmax.lowering.approximants._zones import Zone, convexity_zones, spans
from hardmax.numerics import FAINT, Interval, finite_array

MOST_PIECES = 12_000
_FINE = 256  # pieces of the grid that estimates how many are needed
_SAMPLES = np.arange(1, 16) / 16.0


@dataclass(frozen=True, eq=False)
class PiecewiseFit:
    """The continuous function through (knots, values), linear in between; |f - it| <= error."""

    knots: np.ndarray
    values: np.ndarray
    error: float

    def __post_init__(self) -> None:
        knots = finite_array(self.knots, "knots", ndim=1)
        values = finite_array(self.values, "values", ndim=1)
        if len(knots) != len(values) or len(knots) < 2 or (np.diff(knots) <= 0.0).any():
            raise ShapeError("A fit needs two or more increasing knots, and a value at each.")
        object.__setattr__(self, "knots", knots)
        object.__setattr__(self, "values", values)

    def __repr__(self) -> str:
        return f"PiecewiseFit({self.pieces} pieces, error <= {self.error:.3g})"

    @property
    def pieces(self) -> int:
        return len(self.knots) - 1

    @property
    def slopes(self) -> np.ndarray:
        return np.diff(self.values) / np.diff(self.knots)

    @property
    def kinks(self) -> np.ndarray:
        """How much the slope grows at each inner knot."""
        return np.diff(self.slopes)

    def at(self, points: ArrayLike) -> np.ndarray:
        return np.asarray(np.interp(np.asarray(points, dtype=np.float64), self.knots, self.values))


def fit_knots(curve: Curve, error: float, *, most: int = MOST_PIECES) -> PiecewiseFit:
    """A piecewise linear function within `error` of the curve, with as few pieces as it takes.

    Where f is convex a chord lies above f. Lowered by e it meets |line - f| <= e exactly when its
    largest gap to f is at most 2e. All pieces lowered by the same e stay continuous: the value at
    every knot is f - e. No continuous piecewise linear function does better with as many pieces
    when all gaps are 2e: on each piece line - f is -e, e, -e, and a competitor that is closer
    everywhere would cross some piece's line three times. Concave zones are the mirror image.
    At an inflection the value is f itself, and a piece whose offset o(x) e runs linearly from e
    to 0 needs e = max gap(x) / (1 + o(x)).

    The gap of a piece grows with the square of its length, so sum(sqrt(e_i)) hardly depends on
    the knots: spreading it evenly (de Boor) makes all e_i equal, and their number follows.

    The error is proved for the floats returned (`proved_error`); x^2 on [0, 1] attains it.
    """
    if not error > 0.0:
        raise RequestError(f"An error must be positive, but {error!r} was asked.")
    _refuse_too_many(curve, _rough_count(curve, error), error, 2 * most)
    zones = convexity_zones(curve, 1e-4 * error)
    for trust in (1.0 - 1e-7, 0.999, 0.97):
        knots, values = _built(curve, spans(zones, 1e-3 * error), trust * error, most)
        fit = PiecewiseFit(knots, values, proved_error(curve, zones, knots, values))
        if fit.error <= error:
            return fit
    raise PrecisionError(
        f"{curve.name} could be fitted within {fit.error:.3g}, but {error:.3g} was asked. "
        "Ask for a larger error, or shrink the domain."
    )


def _rough_count(curve: Curve, error: float) -> float:
    """About integral sqrt|f''| / (4 sqrt(error)) pieces, from f'' at a few thousand points."""
    if curve.second is None:
        return 0.0
    x = curve.low + (curve.high - curve.low) * (np.arange(4096) + 0.5) / 4096
    with np.errstate(all="ignore"):
        bend = np.abs(curve.second(Interval.point(x)).middle)
    roots = np.sqrt(bend[np.isfinite(bend)])
    return float(roots.mean() * (curve.high - curve.low) / (4 * sqrt(error))) if len(roots) else 0.0


def _built(
    curve: Curve, zones: tuple[Zone, ...], error: float, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """Knots and values, zone by zone; neighbours share a knot, where both have f itself."""
    knots, values = list[np.ndarray](), list[np.ndarray]()
    for i, zone in enumerate(zones):
        weights = (float(i == 0), float(i == len(zones) - 1))
        t, offset = _zone_knots(curve, zone, weights, error, most)
        v = np.array(curve.at(t))
        v[1:-1] -= offset
        v[[0, -1]] -= offset * np.array(weights)
        knots.append(t if i == 0 else t[1:])
        values.append(v if i == 0 else v[1:])
    return np.concatenate(knots), np.concatenate(values)


def _zone_knots(
    curve: Curve, zone: Zone, weights: tuple[float, float], error: float, most: int
) -> tuple[np.ndarray, float]:
    """The knots of one zone, and how far the values lie below f."""
    if zone.sign == 0:
        return _even_knots(curve, zone, error, most), 0.0
    fine = np.linspace(zone.low, zone.high, _FINE + 1)
    needs = _needs(curve, fine, zone.sign, weights)
    for _ in range(6):
        fine = _spread(fine, needs, _FINE)
        needs = _needs(curve, fine, zone.sign, weights)
    estimate = float(np.sqrt(needs).sum()) / sqrt(error)  # nearly the same for all knots
    _refuse_too_many(curve, estimate, error, most)
    pieces = max(1, int(0.97 * estimate) - 1)
    while True:
        t, need = _balanced(curve, _spread(fine, needs, pieces), zone.sign, weights, error)
        if need <= error:
            return t, zone.sign * need
        pieces = max(pieces + 1, int(pieces * min(sqrt(need / error), 1.05)))
        _refuse_too_many(curve, pieces, error, most)


def _refuse_too_many(curve: Curve, pieces: float, error: float, most: int) -> None:
    if not np.isfinite(pieces):
        raise PrecisionError(
            f"{curve.name} or its curvature is undefined inside [{curve.low:g}, {curve.high:g}], "
            "so pieces cannot be counted. Keep away from the singular point."
        )
    if pieces > most:
        raise PrecisionError(
            f"{curve.name} needs about {pieces:.3g} pieces for an error of {error:.3g}, and more "
            f"than {most:,} are refused. Ask for a larger error, or shrink the domain."
        )


def _even_knots(curve: Curve, zone: Zone, error: float, most: int) -> np.ndarray:
    """Where only |f''| <= M is known: equal steps h with M h^2 / 8 <= error."""
    pieces = max(1.0, np.ceil(np.sqrt(zone.bend / error)))
    _refuse_too_many(curve, pieces, error, most)
    return np.linspace(zone.low, zone.high, int(pieces) + 1)


def _balanced(
    curve: Curve, t: np.ndarray, sign: int, weights: tuple[float, float], error: float
) -> tuple[np.ndarray, float]:
    """Knots spread until the largest need is within the error, or the needs are equal."""
    best, least = t, np.inf
    for _ in range(40):
        needs = _needs(curve, t, sign, weights)
        most = float(needs.max())
        if most < least:
            best, least = t, most
        average = float(np.sqrt(needs).mean()) ** 2
        if least <= error or not average > 0.0 or most <= average * (1.0 + 1e-5):
            break
        t = _spread(t, needs, len(t) - 1)
    return best, least


def _spread(t: np.ndarray, needs: np.ndarray, pieces: int) -> np.ndarray:
    """New knots that cut the running sum of sqrt(needs) evenly; the ends stay."""
    roots = np.sqrt(np.maximum(needs, 0.0))
    roots = roots + 1e-9 * roots.max(initial=0.0) + FAINT
    total = np.concatenate([[0.0], np.cumsum(roots)])
    new = np.interp(np.linspace(0.0, total[-1], pieces + 1), total, t)
    new[0], new[-1] = t[0], t[-1]
    return new


def _needs(curve: Curve, t: np.ndarray, sign: int, weights: tuple[float, float]) -> np.ndarray:
    """The error that each piece needs: the largest gap(x) / (1 + o(x)), searched in floats."""
    f, left, width = curve.at(t), t[:-1, None], np.diff(t)[:, None]
    offsets = np.ones(len(t))
    offsets[[0, -1]] = weights

    def ratio(part: np.ndarray) -> np.ndarray:
        chord = f[:-1, None] + part * np.diff(f)[:, None]
        offset = offsets[:-1, None] + part * np.diff(offsets)[:, None]
        return np.asarray(sign * (chord - curve.at(left + part * width)) / (1.0 + offset))

    coarse = ratio(np.broadcast_to(_SAMPLES, (len(t) - 1, len(_SAMPLES))))
    best = _SAMPLES[np.argmax(coarse, axis=1)][:, None]
    step = 1.0 / 24.0
    three = ratio(best + step * np.array([-1.0, 0.0, 1.0]))
    bend = three[:, :1] - 2.0 * three[:, 1:2] + three[:, 2:]
    with np.errstate(divide="ignore", invalid="ignore"):
        move = 0.5 * step * (three[:, :1] - three[:, 2:]) / bend
    move = np.clip(np.where(np.isfinite(move), move, 0.0), -step, step)
    return np.maximum(ratio(best + move)[:, 0], coarse.max(axis=1)).clip(0.0)
