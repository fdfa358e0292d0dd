"""Elementary functions of intervals, outward rounded, with infinite ends instead of failures.

NumPy's elementary functions of float64 are trusted to `ELEMENTARY_ULPS`; every end is moved
outward by one ulp more, because the step outward is rounded, too.

Intervals are extended: at a pole or a singularity on the edge of the interval the end is
infinite, and an interval that leaves the domain of the function gives [-inf, inf], which claims
nothing. Roots, which are continuous up to the edge of their domain, go on enclosing their values
on the part x >= 0: rounding alone pushes 1 - x**2 below 0 at x = 1. No nan ever appears.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from hardmax.numerics._formats import FLOAT64
from hardmax.numerics._interval import Interval
from hardmax.numerics._outward import STEP, TINY

ELEMENTARY_ULPS = 4  # what NumPy's elementary functions of float64 are trusted to
_ULPS = ELEMENTARY_ULPS + 1.0
_TURN = 2.0 * np.pi
_FAR = 2.0**40  # beyond, a period is a coarse multiple of an ulp: no attempt is made


def exp(x: Interval) -> Interval:
    """Monotone; at 0 exactly 1."""
    y = monotone(x, np.exp, exact_at=0.0)
    return Interval(np.maximum(y.lo, 0.0), y.hi)


def log(x: Interval) -> Interval:
    """Monotone on x > 0; the lower end is -inf where x reaches 0."""
    return _inside((x.lo >= 0.0) & (x.hi > 0.0), monotone(x, np.log, exact_at=1.0))


def sqrt(x: Interval) -> Interval:
    """Monotone on x >= 0, exact at 0 and 1; everything where all of x is negative."""
    y = _nonnegative(x)
    return _inside(x.hi >= 0.0, _keep_units(y, monotone(y, np.sqrt, exact_at=0.0)))


def tanh(x: Interval) -> Interval:
    """Monotone, between -1 and 1."""
    return _clipped(monotone(x, np.tanh, exact_at=0.0), -1.0, 1.0)


def sigmoid(x: Interval) -> Interval:
    """1/(1 + exp(-x)): monotone, between 0 and 1.

    Written with e = exp(-|x|) <= 1 as 1/(1 + e) or e/(1 + e). A relative error of e passes on
    with factor at most 1, and two more roundings are one ulp more.
    """
    return _clipped(monotone(x, sigmoid_of_floats, exact_at=0.0, ulps=_ULPS + 1.0), 0.0, 1.0)


def sigmoid_of_floats(x: np.ndarray) -> np.ndarray:
    """The same for floats, without overflow."""
    e = np.exp(-np.abs(x))
    return np.where(np.asarray(x) >= 0.0, 1.0, e) / (1.0 + e)


def absolute(x: Interval) -> Interval:
    """|x|, exactly."""
    return Interval(np.maximum(np.maximum(x.lo, -x.hi), 0.0), x.magnitude)


def reciprocal(x: Interval) -> Interval:
    """1/x: an infinite end where x ends at 0, everything where 0 lies inside."""
    return x.reciprocal()


def sin(x: Interval) -> Interval:
    """The ends, or 1 and -1 where a crest or a trough lies between them."""
    return _wave(x, np.sin, crest=0.25)


def cos(x: Interval) -> Interval:
    """The ends, or 1 and -1 where a crest or a trough lies between them."""
    return _wave(x, np.cos, crest=0.0)


def tan(x: Interval) -> Interval:
    """Monotone between poles; everything where a pole may lie inside."""
    safe = ~_meets(x, period=np.pi, phase=0.5)
    ends = Interval(np.where(safe, x.lo, 0.0), np.where(safe, x.hi, 0.0))
    return _inside(safe, monotone(ends, np.tan, exact_at=0.0))


def power(x: Interval, exponent: Fraction | float) -> Interval:
    """x**exponent: any integer, or any exponent on x >= 0 (see the root's rule above).

    Even powers are monotone in |x|, odd ones in x, negative ones are reciprocals. An exponent
    that float64 does not hold, integers beyond 2^53 among them, lies between two that it does
    (or beyond all of them), and |x|**t is monotone in t.
    """
    exponent = Fraction(exponent)
    if exponent < 0:
        inverse = reciprocal(power(x, -exponent))
        return inverse if exponent.denominator == 1 else _inside(x.lo >= 0.0, inverse)
    if exponent == 0:
        return Interval.point(np.ones(x.shape))
    if exponent == 1:
        return x
    if exponent.denominator == 1:
        inside, base = np.ones(x.shape, bool), absolute(x) if exponent % 2 == 0 else x
    else:
        inside, base = x.hi >= 0.0, _nonnegative(x)
    bounds = Interval.point(exponent)
    low = monotone(base, lambda t: _signed_power(t, bounds.lo), exact_at=0.0)
    if bounds.lo == bounds.hi:
        return _inside(inside, _keep_units(base, low))
    high = monotone(base, lambda t: _signed_power(t, bounds.hi), exact_at=0.0)
    hull = Interval(np.minimum(low.lo, high.lo), np.maximum(low.hi, high.hi))
    return _inside(inside, _keep_units(base, hull))


def _signed_power(t: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """|t|**exponent with the sign of t: an odd integer beyond 2^53 has no odd float beside it."""
    return np.copysign(np.power(np.abs(t), exponent), t)


def _keep_units(x: Interval, raised: Interval) -> Interval:
    """0, 1 and -1 are their own powers (of x >= 0, or odd ones), and signs are kept."""
    lo = np.where(np.isin(x.lo, (-1.0, 0.0, 1.0)), x.lo, raised.lo)
    hi = np.where(np.isin(x.hi, (-1.0, 0.0, 1.0)), x.hi, raised.hi)
    return Interval(
        np.where(x.lo >= 0.0, np.maximum(lo, 0.0), lo),
        np.where(x.hi <= 0.0, np.minimum(hi, 0.0), hi),
    )


def monotone(
    x: Interval,
    function: Callable[[np.ndarray], np.ndarray],
    *,
    exact_at: float,
    ulps: float | Callable[[np.ndarray], np.ndarray] = _ULPS,
) -> Interval:
    """The values at both ends, moved outward except where the argument is `exact_at`.

    How many ulp a value may be off is a number, or a function of the argument.
    """
    with np.errstate(all="ignore"):
        lo, hi = np.asarray(function(x.lo)), np.asarray(function(x.hi))
        below, above = (ulps(x.lo), ulps(x.hi)) if callable(ulps) else (ulps, ulps)
        lo = np.where(x.lo == exact_at, lo, down_by_ulps(lo, below))
        hi = np.where(x.hi == exact_at, hi, -down_by_ulps(-hi, above))
    return Interval(lo, hi)


def down_by_ulps(r: np.ndarray, ulps: float | np.ndarray = _ULPS) -> np.ndarray:
    """So many ulp below; an overflow to +inf means only that it was huge, nan means nothing."""
    r = np.where(np.isnan(r), -np.inf, np.minimum(r, FLOAT64.largest))
    return np.asarray(r - (np.abs(r) * (ulps * STEP) + ulps * TINY))


def _clipped(y: Interval, low: float, high: float) -> Interval:
    return Interval(np.clip(y.lo, low, high), np.clip(y.hi, low, high))


def _nonnegative(x: Interval) -> Interval:
    return Interval(np.maximum(x.lo, 0.0), np.maximum(x.hi, 0.0))


def _inside(inside: np.ndarray, y: Interval) -> Interval:
    """y where the argument is in the domain, everything elsewhere."""
    return Interval(np.where(inside, y.lo, -np.inf), np.where(inside, y.hi, np.inf))


def _wave(x: Interval, function: Callable[[np.ndarray], np.ndarray], *, crest: float) -> Interval:
    with np.errstate(all="ignore"):
        values = np.stack([function(x.lo), function(x.hi)])
    exact = np.stack([x.lo, x.hi]) == 0.0  # sin 0 = 0 and cos 0 = 1
    lo = np.where(exact, values, down_by_ulps(values)).min(axis=0)
    hi = np.where(exact, values, -down_by_ulps(-values)).max(axis=0)
    hi = np.where(_meets(x, period=_TURN, phase=crest), 1.0, hi)
    lo = np.where(_meets(x, period=_TURN, phase=crest + 0.5), -1.0, lo)
    return _clipped(Interval(lo, hi), -1.0, 1.0)


def _meets(x: Interval, *, period: float, phase: float) -> np.ndarray:
    """Where x may contain (phase + k) period for an integer k; never wrongly False.

    The float period is that of pi or 2 pi, below the real one by less than 0.4 u of it, and
    y = phase + k is a float for |x| <= 2^40. If x >= y times the real period, x over the float
    period is at least y, or (where y < 0) below it by less than 0.4 u |y|, which is less than
    half the distance to the next float: its quotient is rounded to y or more, and so is the
    difference with the phase to k. The same from the other side: nothing need be added.
    """
    near = (np.abs(x.lo) <= _FAR) & (np.abs(x.hi) <= _FAR)
    lo, hi = np.where(near, x.lo, 0.0) / period - phase, np.where(near, x.hi, 0.0) / period - phase
    return np.asarray(~near | (np.floor(hi) >= np.ceil(lo)))
