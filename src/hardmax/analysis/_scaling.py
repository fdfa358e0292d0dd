"""Heads that scale a coordinate in place: x <- x (1 + sum_i w_i p_i).

A head whose value is a multiple of one coordinate adds w p x to that coordinate, with p its weight
on the token itself, and what the other tokens hold there, which is 0 on a sink. Interval
arithmetic would add the ranges of x and of w p x as if they were unrelated; a warm head that
multiplies does nothing else than let the two nearly cancel.
"""

from __future__ import annotations

import numpy as np

from hardmax.analysis._question import Asking
from hardmax.numerics import Interval, softmax_ranges


def mean_of_values(asking: Asking, weights: Interval) -> Interval:
    """sum_j p_j V_j with the weights in their ranges: heads x value width."""
    parts = weights.reshape(weights.shape[0], 1, -1) * asking.values.range
    return parts.sum(axis=2)


def weight_ranges(asking: Asking) -> Interval:
    """Where the softmax weights are, heads x seen: 1/(1 + sum_i exp(beta (s_i - s_j))).

    Hard heads get [0, 1].
    """
    soft = np.isfinite(asking.coldness)[:, None]
    cold = np.where(soft, asking.coldness[:, None], 0.0)
    logits = asking.scores * cold
    found = softmax_ranges(logits.lo, logits.hi)
    return Interval(np.where(soft, found.lo, 0.0), np.where(soft, found.hi, 1.0))


def scaled_coordinates(asking: Asking) -> tuple[np.ndarray, np.ndarray]:
    """(coordinate, factor) for each head: value = factor * coordinate; -1 if it is not."""
    group, t = asking.group, asking.t
    heads = group.value.shape[0]
    none = np.full(heads, -1), np.zeros(heads)
    if group.value.shape[1] != 1:
        return none
    valued = group.value[:, 0]
    at = np.abs(valued).argmax(axis=1)
    single = (valued != 0).sum(axis=1) == 1
    holds = single & np.isfinite(asking.coldness) & (asking.seen == t).any()
    return np.where(holds, at, -1), valued[np.arange(heads), at]


def from_others(asking: Asking) -> Interval:
    """What the other tokens can add to the mixed value, whatever their weights: heads."""
    others = asking.seen != asking.t
    values = asking.values.range[:, 0, :]
    lo = np.where(others, np.minimum(values.lo, 0.0), 0.0).min(axis=1)
    hi = np.where(others, np.maximum(values.hi, 0.0), 0.0).max(axis=1)
    return Interval(lo, hi)


def factor_in_place(asking: Asking, weights: Interval) -> tuple[np.ndarray, Interval]:
    """(rows scaled by each head or -1, w * factor * p): what each head adds to 1."""
    at, factor = scaled_coordinates(asking)
    heads = np.arange(len(at))
    output = asking.group.output[heads, np.maximum(at, 0), 0]
    at = np.where((output != 0.0) & (factor != 0.0), at, -1)
    own = np.flatnonzero(asking.seen == asking.t)
    if not len(own):  # it trails another token, and no coordinate is scaled by its weight
        return at, Interval.point(np.zeros(len(at)))
    return at, weights[:, own[0]] * (Interval.point(output) * factor)
