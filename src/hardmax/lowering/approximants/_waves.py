"""Sums of sigmoids for curves that turn often: how often, and where a search begins.

What is seen, not proved: a sigmoid with an affine factor follows one whole wave, so that a sum
begins to follow f at half as many heads as f has turns. Below, nothing is found by any search:
sin(8x) on [-2, 2] turns ten times, and 4, 5, 6, 7 heads come within 1, 3e-2, 1.5e-4, 8e-7 of it.
Above, nearly every start will do whose centres are spread as the waves are, so that few starts and
short descents are enough, and a sum of 11 heads is found in a tenth of a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

import numpy as np

from hardmax.lowering.approximants._curve import Curve
from hardmax.lowering.approximants._levelling import levelled_by_weights
from hardmax.lowering.approximants._projection_fit import Problem, State, descend
from hardmax.numerics import FAINT, Format

_SAMPLES = 20_001
_NOISE = 1e-9  # of the largest value: far more than rounding, far less than waves worth following
_POWERS = (1.0 / 3.0, 0.5)  # of |f''|, to which the density of centres is proportional
_BEYOND = (0.0, 0.5, 1.0)  # how many centres lie beyond each end
_STEEPNESS = (1.0, 2.0, 3.0, 4.5, 7.0)  # times the gap to the next centre
_LARGE = 16  # heads, from which on only those that have been seen to win
_SEARCH, _POLISH = 1e-10, 1e-12  # ridges
_NEAR = 1.6  # a least-squares fit this many times too large is worth a levelling


def turns_beyond(curve: Curve, swing: float) -> int:
    """How often the curve turns back by more than `swing` (as far as 20,001 points show it).

    What may be the noise of floats is no wave.
    """
    x = np.linspace(curve.low, curve.high, _SAMPLES)
    f = curve.at(x)
    f = f[np.isfinite(f)]
    swing = max(swing, _NOISE * float(np.abs(f).max(initial=0.0)))
    steps = np.sign(np.diff(f))
    moving = np.flatnonzero(steps)
    ends = moving[1:][steps[moving[1:]] != steps[moving[:-1]]]  # where it turns
    turns, low, high, direction = 0, np.inf, -np.inf, 0
    for value in f[[0, *ends, -1]] if len(f) else ():
        low, high = min(low, value), max(high, value)
        if direction >= 0 and high - value > swing:
            turns, direction, low, high = turns + (direction > 0), -1, value, value
        elif direction <= 0 and value - low > swing:
            turns, direction, low, high = turns + (direction < 0), 1, value, value
    return turns


@lru_cache(maxsize=64)
def searched_for_waves(
    curve: Curve, heads: int, affine: bool, linear: bool, format: Format
) -> tuple[State, Problem, float]:
    """The best sum found by least squares on [-1, 1], in units of the last number."""
    unknowns = (4 if affine else 3) * heads + 2
    u, density = _grid(curve, 5 * unknowns), _densities(curve)
    f = curve.at(curve.across(u))
    scale = float(0.5 * np.ptp(f)) or 1.0
    problem = Problem(u, f / scale, linear, affine, max(_SEARCH, 1e3 * format.unit))
    places = list(_starts(heads, density))
    state = State.begin(np.array([p[0] for p in places]), np.array([p[1] for p in places]))
    state = descend(problem, state, 40)
    state = descend(problem, state.best(3), 100)
    freer = replace(problem, ridge=max(_POLISH, 1e3 * format.unit))
    return descend(freer, state.best(2), 100).best(1), freer, scale


@lru_cache(maxsize=64)
def levelled_waves(
    curve: Curve, heads: int, affine: bool, linear: bool, format: Format
) -> tuple[State, Problem, float]:
    """The same, with a smaller largest residual."""
    state, problem, scale = searched_for_waves(curve, heads, affine, linear, format)
    return levelled_by_weights(problem, state, 12), problem, scale


def may_reach(worst: float, error: float) -> bool:
    """Whether levelling may bring a largest residual down to an error."""
    return error < worst <= _NEAR * error


def _grid(curve: Curve, points: int) -> np.ndarray:
    """Half of them Chebyshev's, half spread as the waves are."""
    half = points // 2 + 20
    place, total = _densities(curve)[-1]
    spread = np.interp(np.linspace(0.0, 1.0, half), total, place)
    return np.unique(np.concatenate([-np.cos(np.linspace(0.0, np.pi, half)), spread]))


def _densities(curve: Curve) -> list[tuple[np.ndarray, np.ndarray]]:
    """Places on [-1, 1], and the share of |f''|^p before each; for every power p.

    A hundredth of the mean is added everywhere: nothing is left without centres.
    """
    u = np.linspace(-1.0, 1.0, 4001)
    f = curve.at(curve.across(u))
    bend = np.abs(np.diff(np.where(np.isfinite(f), f, 0.0), 2))
    edges = np.concatenate([u[:1], 0.5 * (u[1:-2] + u[2:-1]), u[-1:]])
    found = []
    for power in _POWERS:
        weight = bend**power
        total = np.cumsum(weight + 0.01 * weight.mean() + FAINT)
        found.append((edges, np.concatenate([[0.0], total / total[-1]])))
    return found


def _starts(
    heads: int, densities: list[tuple[np.ndarray, np.ndarray]]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Log steepness and centres, spread by the densities."""
    large = heads >= _LARGE
    for place, total in densities[:1] if large else densities:
        for beyond in _BEYOND:
            share = (np.arange(heads) + 0.5 - beyond) / (heads - 2.0 * beyond)
            centre = np.interp(share, total, place)
            centre = np.where(share < 0.0, -1.0 + 2.0 * share, centre)
            centre = np.where(share > 1.0, 2.0 * share - 1.0, centre)
            gap = np.maximum(np.abs(np.gradient(centre)), 1e-4)
            for factor in _STEEPNESS[:3] if large else _STEEPNESS:
                yield np.log(factor / gap), centre
