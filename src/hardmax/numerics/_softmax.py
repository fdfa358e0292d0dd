"""Where softmax weights can be, given where the logits are."""

from __future__ import annotations

import numpy as np

from hardmax.numerics._formats import FLOAT64
from hardmax.numerics._interval import Interval
from hardmax.numerics._outward import gamma

_NEVER = FLOAT64.exp_vanishes  # where exponentials begin to vanish
_HUGE = 700.0  # exp of it is finite, and beside it all other tokens round away


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
