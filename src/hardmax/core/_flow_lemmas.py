"""Heads that select a token, or merely average: two lemmas."""

from __future__ import annotations

import numpy as np

from hardmax.core._flow_asking import Asking
from hardmax.core._flow_deviation import Deviation
from hardmax.core._flow_place import Place
from hardmax.numerics import Interval, inflate


def hull_of_values(asking: Asking) -> Place:
    """A weighted mean lies between the smallest and the largest value.

    Against the Transformer itself more can be said: if no logit is off by more than d, the
    weights change by at most tanh(d/2) in total variation (raise one set of tokens by d, lower
    the rest by d: the set's weight moves from sigmoid(l - d) to sigmoid(l + d) at most, whose
    difference is largest at l = 0), and the mean by that times the spread of the values.
    """
    inner, outer = asking.values.range, asking.values.where
    hull = Interval(inner.lo.min(axis=2), inner.hi.max(axis=2))
    apart = Interval(outer.lo.min(axis=2), outer.hi.max(axis=2)) - hull
    lo, hi = np.minimum(apart.lo, 0.0), np.maximum(apart.hi, 0.0)
    if not asking.against_skeleton:
        hard = np.isinf(asking.coldness)
        cold = np.where(hard, 0.0, asking.coldness)
        off = np.where(hard, np.inf, asking.logit_stray + cold * asking.score_deviation)
        moved = asking.values.deviation.magnitude.max(axis=2)
        share = np.tanh(np.minimum(off, 1e3) / 2)[:, None]
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
    rival = others.max(axis=1)
    gap = scores.lo[heads, winner] - rival - 2 * asking.logit_stray / finite
    gap = gap - 2.0**-50 * np.where(np.isfinite(rival), np.abs(rival) + np.abs(gap), 0.0)
    holds = gap > 0
    with np.errstate(under="ignore", invalid="ignore"):
        exponent = np.where(np.isinf(asking.coldness), -np.inf, -asking.coldness * gap)
        losers = (len(asking.seen) - 1) * np.exp(np.minimum(exponent, 0.0))
        leak = losers / (1 + losers) * (1 + 1e-12)
    outer = values.where
    spread = outer.hi.max(axis=2) - outer.lo.min(axis=2)
    leak = np.where(holds, leak, 0.0)[:, None] * spread
    if len(asking.seen) == 1:
        leak = np.zeros_like(leak)
    taken = values[heads, :, winner]
    if not asking.against_skeleton:
        leaky = taken.range + Interval(-leak, leak)
        return holds, Place(leaky, taken.deviation).strayed(2 * leak)
    return holds, taken.strayed(leak)
