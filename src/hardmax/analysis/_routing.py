"""Heads that select a token, or merely average: two lemmas."""

from __future__ import annotations

import numpy as np

from hardmax.analysis._deviations import Deviation
from hardmax.analysis._places import Place
from hardmax.analysis._question import Asking
from hardmax.numerics import Interval, exp, inflate, tanh


def hull_of_values(asking: Asking) -> Place:
    """A weighted mean lies between the smallest and the largest value.

    Against the Transformer itself more can be said: if no logit is off by more than d, the mean
    moves by at most tanh(d/2) times the spread of the values (`weights_moved`, here of arrays).
    Roundings of d count: tanh passes relative errors on with a factor of at most 1.
    """
    inner, outer = asking.values.range, asking.values.where
    hull = Interval(inner.lo.min(axis=2), inner.hi.max(axis=2))
    apart = Interval(outer.lo.min(axis=2), outer.hi.max(axis=2)) - hull
    lo, hi = np.minimum(apart.lo, 0.0), np.maximum(apart.hi, 0.0)
    if not asking.against_skeleton:
        hard = np.isinf(asking.coldness)
        cold = np.where(hard, 0.0, asking.coldness)
        off = asking.logit_stray + cold * asking.score_deviation
        off = np.minimum(np.where(hard, np.inf, off), 1e3)
        moved = asking.values.deviation.magnitude.max(axis=2)
        share = tanh(Interval.point(0.5 * off)).hi[:, None]
        total = inflate(share * (hull.hi - hull.lo) + moved)
        lo, hi = np.maximum(lo, -total), np.minimum(hi, total)
    return Place(hull, Deviation.of(Interval(lo, hi)))


def selection(asking: Asking) -> tuple[np.ndarray, Place]:
    """The head takes the value of the one token whose score leads all others by a gap.

    A loser's weight is at most e^(-beta gap) times the winner's, so the n - 1 losers have at most
    (n-1)/(e^(beta gap) + n - 1) of the weight, which is attained when all of them tie; times the
    spread of the values that is how far the mean can be from the winner's value.
    """
    scores, values = asking.scores, asking.values
    heads = np.arange(scores.shape[0])
    winner = scores.lo.argmax(axis=1)
    others = scores.hi.copy()
    others[heads, winner] = -np.inf
    finite = np.where(np.isinf(asking.coldness), 1.0, asking.coldness)
    gap = Interval.point(scores.lo[heads, winner]) - others.max(axis=1)
    warmer = Interval(1.0 - asking.fading, 1.0 + asking.fading)
    behind = (gap * finite * warmer - 2 * asking.logit_stray).lo
    holds = behind > 0
    losers = (len(asking.seen) - 1) * exp(Interval.point(-np.maximum(behind, 0.0))).hi
    outer = values.where
    spread = outer.hi.max(axis=2) - outer.lo.min(axis=2)
    leaks = holds & np.isfinite(asking.coldness)
    leak = np.where(leaks, losers / (1 + losers), 0.0)[:, None]
    leak = np.asarray(inflate(leak * spread, 6))
    taken = values[heads, :, winner]
    if not asking.against_skeleton:
        return holds, Place(taken.range.widened(leak), taken.deviation).strayed(2 * leak)
    return holds, taken.strayed(leak)
