"""The largest |F| on an interval, proved: Taylor models where F is smooth, balls elsewhere."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from functools import lru_cache
from math import frexp
from typing import Any

import numpy as np

from hardmax._errors import DomainError
from hardmax.lowering.approximants._curve import NO_SERIES
from hardmax.numerics import (
    FAINT,
    ball_around,
    ball_size_down,
    ball_size_up,
    inflate,
    precision,
    stray,
)

BITS = 160  # cancellation of O(1) terms down to 1e-9 leaves 130 of them
_ORDER = 8  # degree of the Taylor polynomials
_CELLS = 128  # a polynomial is read at so many equidistant points, plus one


def supremum(
    ball_function: Callable[[Any], Any],
    low: float,
    high: float,
    *,
    tolerance: float = 0.01,
    boxes: int = 4000,
) -> tuple[float, float]:
    """Floats (found, proved) with found <= sup |F| <= proved on [low, high].

    `ball_function` is F on `flint.arb` and `flint.arb_series`. On a box of radius r around m,

        F(m + r t) = sum_{k <= n} F_k r^k t^k + R r^(n+1) t^(n+1),    |t| <= 1,

    where the F_k come from the series at the point m and R lies in the last coefficient of the
    series at the whole box (Taylor with Lagrange's remainder). The polynomial is read on a grid of
    step h in t, and between two neighbours exceeds the larger by at most h^2/8 max|P''|. Where the
    series does not exist, as for sqrt at 0, F of the whole box is used instead.

    The box with the largest bound is halved until proved <= (1 + tolerance) found, or until the
    budget of boxes is spent: the bound is proved in any case. It is infinite where F has none on a
    box as narrow as floats tell points apart, as beyond the end of its domain: nothing helps then.
    Sums that cancel are harmless, for the balls carry 160 bits.
    """
    if not low < high:
        raise DomainError(f"A supremum needs low < high, but got [{low}, {high}].")
    with precision(BITS, _ORDER + 2):
        queue = [_bounded(ball_function, *box) for box in _first_boxes(low, high)]
        found = max(box[1] for box in queue)
        heapq.heapify(queue)
        for _ in range(boxes):
            if -queue[0][0] <= max((1.0 + tolerance) * found, 2.0 * FAINT):
                break
            if np.isinf(queue[0][0]) and queue[0][3] <= stray(1, high - low):
                break
            _, _, middle, radius = heapq.heappop(queue)
            for sign in (-0.5, 0.5):
                box = _bounded(ball_function, middle + sign * radius, 0.5 * radius)
                found = max(found, box[1])
                heapq.heappush(queue, box)
        return found, -queue[0][0]


def _first_boxes(low: float, high: float) -> list[tuple[Any, float]]:
    """Two ends of a power of two (so that balls do not leave the domain) and what is between."""
    from flint import arb

    a, b = arb(low), arb(high)
    end = 2.0 ** (frexp((high - low) / 8.0)[1] - 1)  # at most an eighth of the width
    middle, rest = 0.5 * (a + b), 0.5 * (b - a) - end
    radius = ball_size_up(rest)
    return [(a + 0.5 * end, 0.5 * end), (middle, radius), (b - 0.5 * end, 0.5 * end)]


def _bounded(function: Callable[[Any], Any], middle: Any, radius: float) -> tuple[Any, ...]:
    """(-upper, lower, middle, radius) of one box, ready for a heap."""
    from flint import arb, arb_series

    box = ball_around(middle, radius)
    try:
        around = function(arb_series([middle, 1], prec=_ORDER + 1))
        beyond = function(arb_series([box, 1], prec=_ORDER + 2))[_ORDER + 1]
    except NO_SERIES:
        return _enclosed(function, middle, radius)
    scale = [arb(1)]
    for _ in range(_ORDER + 1):
        scale.append(scale[-1] * radius)
    coefficients = [around[k] * scale[k] for k in range(_ORDER + 1)]
    upper, lower = _polynomial_bounds(coefficients, ball_size_up(beyond * scale[-1]))
    if not np.isfinite(upper):
        return _enclosed(function, middle, radius)
    return -upper, lower, middle, radius


def _enclosed(function: Callable[[Any], Any], middle: Any, radius: float) -> tuple[Any, ...]:
    """The same from the range of F over the box and its value in the middle, without a series."""
    upper, lower = np.inf, 0.0
    try:
        lower = ball_size_down(function(middle))
        upper = ball_size_up(function(ball_around(middle, radius)))
    except NO_SERIES:
        pass
    return -upper, lower, middle, radius


def _polynomial_bounds(coefficients: list[Any], rest: float) -> tuple[float, float]:
    """Bounds of max |P(t)| + rest over |t| <= 1 from above, and of one |P(t)| from below."""
    floats = np.array([float(c.mid()) for c in coefficients])
    if not np.isfinite(floats).all():
        return np.inf, 0.0
    powers, curvature = _grid()
    best = float(np.abs(powers @ floats).max())
    bend = float(np.abs(floats) @ curvature) * (2.0 / _CELLS) ** 2 / 8.0
    around = sum(ball_size_up(c.rad()) for c in coefficients)
    # each coefficient is converted, multiplied and added up with the others, then with the bend
    # (which is a thousand times smaller than they are) and with the slack
    rounding = stray(_ORDER + 6, float(np.abs(floats).sum()))
    slack = float(inflate(rest + around + rounding + FAINT, _ORDER + 6))
    return best + bend + slack, max(0.0, best - slack)


@lru_cache(maxsize=1)
def _grid() -> tuple[np.ndarray, np.ndarray]:
    """Powers t^k on the grid (exact: 64ths), and k(k - 1), which bounds the bend of t^k."""
    degrees = np.arange(_ORDER + 1.0)
    points = np.linspace(-1.0, 1.0, _CELLS + 1)
    return points[:, None] ** degrees, degrees * (degrees - 1.0)
