"""Elementary functions of intervals, outward rounded, with infinite ends instead of failures.

NumPy's elementary functions of float64 are trusted to `ELEMENTARY_ULPS`; every end is moved
outward by one ulp more, because the step outward is rounded, too.

Intervals are extended: at a pole or a singularity on the edge of the interval the end is
infinite, and an interval that leaves the domain of the function gives [-inf, inf], which claims
nothing. Roots, which are continuous up to the edge of their domain, go on enclosing their values
on the part x >= 0: rounding alone pushes 1 - x**2 below 0 at x = 1. No nan ever appears.

Then softmax, the one function of many variables: where its weights can be, and by how much its
mean can fall short of the maximum, a constant that the Lambert W function gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np

from hardmax.numerics._formats import FLOAT64
from hardmax.numerics._interval import Interval
from hardmax.numerics._outward import STEP, TINY, Pair, gamma, pair_of_values, pair_product

ELEMENTARY_ULPS = 4  # what NumPy's elementary functions of float64 are trusted to
_ULPS = ELEMENTARY_ULPS + 1.0
_TURN = 2.0 * np.pi
_FAR = 2.0**40  # beyond, a period is a coarse multiple of an ulp: no attempt is made

_NEVER = FLOAT64.exp_vanishes  # where exponentials begin to vanish
_HUGE = 700.0  # exp of it is finite, and beside it all other tokens round away


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


def sigmoid_curve(low: np.ndarray, high: np.ndarray) -> tuple[Pair, Pair, Pair]:
    """The sigmoid s, s' = s (1 - s) and s'' = -s' tanh(x/2) on [low, high].

    s and tanh are monotone and s' decreases in |x|. With e = exp(-|x|), s is 1/(1 + e) or
    e/(1 + e) and s' = e/(1 + e)^2: a relative error of e passes on with factor at most 1, and
    four more roundings follow at most (that of 1 + e counts twice).
    """
    with np.errstate(under="ignore", invalid="ignore", over="ignore"):
        bottom, top = np.exp(-np.abs(low)), np.exp(-np.abs(high))
        s_low = np.where(low >= 0.0, 1.0, bottom) / (1.0 + bottom)
        s_high = np.where(high >= 0.0, 1.0, top) / (1.0 + top)
        ends = bottom / (1.0 + bottom) ** 2, top / (1.0 + top) ** 2
        inside = (low <= 0.0) & (high >= 0.0)
        first = pair_of_values(np.minimum(*ends), np.where(inside, 0.25, np.maximum(*ends)))
        turn = pair_of_values(np.tanh(-0.5 * high), np.tanh(-0.5 * low))
        return pair_of_values(s_low, s_high), first, pair_product(first, turn)


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


# ---- softmax -------------------------------------------------------------------------------------


def softmax_ranges(low: np.ndarray, high: np.ndarray) -> Interval:
    """The weights exp(l_j) / sum_i exp(l_i) along the last axis, logits l in [low, high]."""
    with np.errstate(all="ignore"):
        least, most = softmax_ends(np.moveaxis(low, -1, 0), np.moveaxis(high, -1, 0))
    return Interval(np.moveaxis(least, 0, -1), np.moveaxis(most, 0, -1))


def softmax_ends(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The least and the most that each weight can be, tokens along the first axis.

    A weight t = N/(N + S) is largest where its own logit is high and all others are low. Sums
    leave one term out, so they are made of partial sums from both sides: nothing cancels.

    Rounding. With D the largest difference of logits, an argument of exp is off by u D at most,
    its value by a factor exp(u D), and by the `exp_units` that are assumed of exp. A term of S
    passes through n - 1 additions, and N + S, the quotient, the factor below and the product with
    it are rounded: as t is less sensitive to S/N than S/N itself, t is right up to gamma_k with
    k = 2 D + 2 exp_units + n + 3.

    Where exponentials vanish: the most is taken relative to the largest lower end, and either N
    or a term of S is 1 or more. A term that vanishes in S makes t larger; N is kept above
    exp(-500), and below exp(700), where t is 1. The least is taken relative to the largest upper
    end, all terms of S are kept above exp(-500), and where N is below that, 0 is said. A term of S
    below exp(-500) that is too large, and not 0, is nothing beside 1: one more rounding covers n
    of them, and another one the rounding of k itself.
    Where a logit is infinite or nan, the weight is between 0 and 1.
    """
    top, floor = high.max(axis=0), low.max(axis=0)
    apart = top - low.min(axis=0)
    count = 2.0 * np.minimum(apart, _HUGE) + (2 * FLOAT64.exp_units + len(low) + 5)
    own = np.exp(np.clip(high - floor, _NEVER, _HUGE))
    most = np.minimum(own / (own + _others(np.exp(low - floor))) * (1.0 + gamma(count)), 1.0)
    behind = low - top
    own = np.exp(behind)
    least = own / (own + _others(np.exp(np.maximum(high - top, _NEVER)))) * (1.0 - gamma(count))
    known = apart < np.inf
    return np.where(known & (behind > _NEVER), least, 0.0), np.where(known, most, 1.0)


def _others(terms: np.ndarray) -> np.ndarray:
    """The sum over all other tokens."""
    before, after = np.zeros_like(terms), np.zeros_like(terms)
    np.cumsum(terms[:-1], axis=0, out=before[1:])
    after[:-1] = np.cumsum(terms[:0:-1], axis=0)[::-1]
    return before + after


def lambert_w(y: float) -> float:
    """The w >= 0 with w e^w = y, for y >= 0.

    Newton's iteration for f(w) = w + ln w - ln y. f is increasing and concave, so its graph lies
    below every tangent: after one step from any start the iterates are below the root and
    increase to it. The first step stays positive because the start is below e y.
    """
    if not (0.0 <= y < math.inf):
        raise ValueError(f"lambert_w needs a finite y >= 0, but y = {y}.")
    if y == 0.0:
        return 0.0
    w = y / (1.0 + y) if y < math.e else math.log(y) - math.log(math.log(y))
    for _ in range(100):
        step = w * (math.log(y / w) - w) / (1.0 + w)
        w += step
        if abs(step) <= 4e-16 * w:
            break
    return w


@lru_cache(maxsize=4096)
def softmax_gap(contenders: int) -> float:
    """c_n = W((n-1)/e): by how much, times the coldness, a softmax mean can fall short of the max.

    Theorem. Let p = softmax(beta x) over n numbers. Then 0 <= max(x) - p.x <= c_n / beta,
    and the right side is attained when every loser sits (1 + c_n)/beta below the winner.

    Proof. Scale beta to 1 and write t_j >= 0 for how far x_j lies below the maximum; one t_j
    is 0. The shortfall is F(t) = sum t_j e^-t_j / (1 + sum e^-t_j), sums over the n-1 others.
    If F <= c for all t, then sum (t_j - c) e^-t_j <= c, and conversely; each summand is
    largest at t_j = 1 + c, with value e^-(1+c). So the smallest admissible c solves
    (n-1) e^-(1+c) = c, that is c e^c = (n-1)/e. At t_j = 1 + c equality holds throughout.

    For n = 1 it is 0. The value is one that intervals prove to be at least c_n: by the proof above
    every c with (n-1) e^-(1+c) <= c is. A few ulp above c_n suffice.
    """
    if contenders < 1:
        raise ValueError(f"softmax_gap needs at least one contender, but got {contenders}.")
    gap, above = lambert_w((contenders - 1) / math.e), STEP
    while not _is_a_gap(gap, contenders):
        gap, above = gap * (1.0 + above), 2.0 * above
    return gap


def _is_a_gap(gap: float, contenders: int) -> bool:
    """Whether (n-1) e^-(1+c) <= c, for certain."""
    share = exp(-(Interval.point(gap) + 1.0)) * (contenders - 1)
    return bool(share.hi <= gap)


def weights_moved(off: float) -> float:
    """How much weight a softmax changes at most if no logit is off by more than `off`.

    Raise one set of tokens by d, lower the rest by d: the set's weight moves from sigmoid(l - d) to
    sigmoid(l + d) at most, whose difference is largest at l = 0, where it is tanh(d/2). That is
    attained, and the mean of values moves by as much times their spread.
    """
    return math.tanh(min(off, 1e3) / 2)
