"""Lemmas that whoever bounds a head uses, on a sketch or on weights.

They are formulas, not decisions: where they apply is said by those who use them.
"""

from __future__ import annotations

import math

from hardmax.numerics import Interval

NEGLIGIBLE = 40.0  # a token whose logit is this far behind counts as leakage, not as contender


def weights_moved(off: float) -> float:
    """How much weight changes hands, at most, if no logit is off by more than `off`.

    Raise one set of tokens by d, lower the rest by d: the set's weight moves from sigmoid(l - d) to
    sigmoid(l + d) at most, whose difference is largest at l = 0, where it is tanh(d/2). That is
    attained, and the mean of values moves by as much times their spread.
    """
    return math.tanh(min(off, 1e3) / 2)


def line_with_kink(x: Interval, line: Interval, weight: Interval) -> Interval:
    """x + w max(a x + b, 0), given a x + b: extreme at the ends of x's range, or where a x + b = 0.

    The two terms of a plain interval sum would be taken at different x.
    """
    return x + weight * line.maximum(0.0)
