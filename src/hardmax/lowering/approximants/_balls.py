"""Balls of python-flint at a chosen precision, and the way back to floats."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from hardmax._errors import SemanticsError

# What a function of balls may raise: a denominator that may be 0, or a kink inside a series.
NO_SERIES = (ValueError, ZeroDivisionError, SemanticsError)
_JUST_BELOW = 1.0 - 2.0**-31


@contextmanager
def working(bits: int, cap: int) -> Iterator[None]:
    """Precision and series length are global to the process: set here, and put back."""
    from flint import ctx

    before = ctx.prec, ctx.cap
    ctx.prec, ctx.cap = bits, cap
    try:
        yield
    finally:
        ctx.prec, ctx.cap = before


def ball_around(middle: Any, radius: float) -> Any:
    """A ball that holds [middle - radius, middle + radius], and no more for a power of two.

    The radius is rounded up to 30 bits, and a power of two steps to the next number, too. A number
    just below lands on the power of two exactly. Then a ball that ends where sqrt begins does not
    reach beyond.
    """
    from flint import arb

    snug = arb(middle, radius * _JUST_BELOW)
    return snug if snug.rad() >= radius else arb(middle, radius)


def ball_between(low: float, high: float) -> Any:
    """A ball that holds [low, high]: exactly that when the width is a power of two."""
    from flint import arb

    half = (arb(high) - arb(low)) / 2
    radius = float(half)
    if not arb(radius) >= half:
        radius = float(np.nextafter(radius, np.inf))
    return ball_around((arb(low) + arb(high)) / 2, radius)


def upper_float(ball: Any) -> float:
    """A float that is at least |x| for every x in the ball; inf when nothing is known."""
    size = float(ball.abs_upper())
    return float(np.nextafter(size, np.inf)) if np.isfinite(size) else np.inf


def lower_float(ball: Any) -> float:
    """A float that is at most |x| for every x in the ball, and not negative."""
    size = float(ball.abs_lower())
    return max(0.0, float(np.nextafter(size, -np.inf))) if np.isfinite(size) else 0.0


def ends(ball: Any) -> tuple[float, float]:
    """Floats lo, hi with lo <= x <= hi for every x in the ball; an exact float stays."""
    if not ball.is_finite():
        return -np.inf, np.inf
    low, high = float(ball.lower()), float(ball.upper())
    below = low if low <= ball else float(np.nextafter(low, -np.inf))
    return below, high if ball <= high else float(np.nextafter(high, np.inf))
