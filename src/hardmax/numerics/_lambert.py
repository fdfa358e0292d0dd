"""The Lambert W function on the nonnegative reals, and the sharp constant of softmax."""

from __future__ import annotations

import math
from functools import lru_cache

from hardmax.numerics._elementary import exp
from hardmax.numerics._interval import Interval
from hardmax.numerics._outward import STEP


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
