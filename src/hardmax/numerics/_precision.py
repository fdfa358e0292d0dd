"""Balls of python-flint: the precision they are computed with, and the way back to floats."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flint import arb

# Just below a power of two: arb rounds radii up to 30 bits, and a power of two to the next number.
_JUST_BELOW = 1.0 - 2.0**-31


@contextmanager
def precision(bits: int, cap: int | None = None) -> Iterator[None]:
    """Precision and series length are global to the process: set here, and put back."""
    from flint import ctx

    before = ctx.prec, ctx.cap
    ctx.prec, ctx.cap = bits, before[1] if cap is None else cap
    try:
        yield
    finally:
        ctx.prec, ctx.cap = before


def ball_around(middle: arb | float, radius: float) -> arb:
    """A ball that holds [middle - radius, middle + radius], and no more for a power of two.

    The radius is rounded up to 30 bits, and a power of two steps to the next number, too. A number
    just below lands on the power of two exactly. Then a ball that ends where sqrt begins does not
    reach beyond.
    """
    from flint import arb

    snug = arb(middle, radius * _JUST_BELOW)
    return snug if snug.rad() >= radius else arb(middle, radius)


def ball_between(low: float, high: float) -> arb:
    """A ball that holds [low, high]: exactly that when the width is a power of two."""
    from flint import arb

    half = (arb(high) - arb(low)) / 2
    radius = float(half)
    if not arb(radius) >= half:
        radius = math.nextafter(radius, math.inf)
    return ball_around((arb(low) + arb(high)) / 2, radius)


def ball_size_up(ball: arb) -> float:
    """A float that is at least |x| for every x in the ball; infinite when nothing is known."""
    size = float(ball.abs_upper())
    return math.nextafter(size, math.inf) if math.isfinite(size) else math.inf


def ball_size_down(ball: arb) -> float:
    """A float that is at most |x| for every x in the ball, and not negative.

    Beyond all floats that is the largest one; nan, of which nothing is known, is not above 0.
    """
    return max(0.0, math.nextafter(float(ball.abs_lower()), -math.inf))


def ball_ends(ball: arb) -> tuple[float, float]:
    """Floats lo, hi with lo <= x <= hi for every x in the ball; an exact float stays."""
    if not ball.is_finite():
        return -math.inf, math.inf
    low, high = float(ball.lower()), float(ball.upper())
    below = low if low <= ball else math.nextafter(low, -math.inf)
    return below, high if ball <= high else math.nextafter(high, math.inf)
