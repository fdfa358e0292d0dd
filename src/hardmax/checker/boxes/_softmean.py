"""Jets of softmax means, hard means and maxima of several forms.

Arrays gain an axis for the tokens in front: tokens x components x boxes. The reference token,
whose logit and value are 0, is put first.
"""

from __future__ import annotations

import numpy as np

from hardmax.checker.boxes._jets import Jet, Shape
from hardmax.numerics import (
    Pair,
    pair_between,
    pair_ends,
    pair_product,
    pair_sum,
    pair_total,
    softmax_ends,
)


def weights(low: np.ndarray, high: np.ndarray) -> Pair:
    """Where the softmax weights lie, tokens along the first axis, logits in [low, high]."""
    return pair_between(*softmax_ends(low, high))


def soft_mean(logits: list[Jet], values: list[Jet]) -> Jet:
    """o = sum_j w_j v_j, w = softmax(l), with the reference token included.

    w_j moves by w_j (l_j' - m), m = sum_j w_j l_j', so that
        o'  = sum_j w_j (v_j' + (v_j - o) (l_j' - m)),
        o'' = sum_j w_j (v_j'' + (v_j - o) (l_j'' + (l_j' - m)(l_j' - m)) + (l_j' - m) v_j'
              + v_j' (l_j' - m));
    constants subtracted from all v_j or l_j' change nothing, because sum_j w_j (l_j' - m) = 0.
    """
    shape = logits[0].shape
    l_mid, l_rad = _with_reference(logits)
    v_mid, v_rad = _with_reference(values)
    w = weights(*pair_ends((l_mid[:, 0], l_rad[:, 0])))
    return mean_of(w, (l_mid, l_rad), (v_mid, v_rad), shape)


def _with_reference(jets: list[Jet]) -> Pair:
    mid = np.stack([np.zeros_like(jets[0].mid), *(jet.mid for jet in jets)])
    return mid, np.stack([np.zeros_like(jets[0].rad), *(jet.rad for jet in jets)])


def mean_of(w: Pair, logits: Pair, values: Pair, shape: Shape) -> Jet:
    k = shape.variables
    slope = slice(1, 1 + k)
    w1 = w[0][:, None], w[1][:, None]  # tokens x 1 x boxes
    value, away = _centred(w, (values[0][:, 0], values[1][:, 0]))
    away = away[0][:, None], away[1][:, None]
    _, turn = _centred(w1, (logits[0][:, slope], logits[1][:, slope]))
    v_slope = values[0][:, slope], values[1][:, slope]
    slopes = pair_total(pair_product(w1, pair_sum(v_slope, pair_product(away, turn))))
    if shape.order == 1:
        return Jet.of(value, slopes, None, shape)
    i, j = shape.pairs
    first, second = (turn[0][:, i], turn[1][:, i]), (turn[0][:, j], turn[1][:, j])
    bent = pair_sum((logits[0][:, 1 + k :], logits[1][:, 1 + k :]), pair_product(first, second))
    inner = pair_sum((values[0][:, 1 + k :], values[1][:, 1 + k :]), pair_product(away, bent))
    crossed = pair_sum(
        pair_product(first, (v_slope[0][:, j], v_slope[1][:, j])),
        pair_product(second, (v_slope[0][:, i], v_slope[1][:, i])),
    )
    return Jet.of(value, slopes, pair_total(pair_product(w1, pair_sum(inner, crossed))), shape)


def _centred(w: Pair, x: Pair) -> tuple[Pair, Pair]:
    """The weighted mean of x, and x minus it.

    The mean is taken about a float near it, so that the weights' uncertainty multiplies small
    numbers; it also lies between the smallest and the largest x.
    """
    share = w[0] / w[0].sum(axis=0)
    about = (share * x[0]).sum(axis=0)
    from_it = pair_sum(x, (-about[None], np.zeros_like(about)[None]))
    mean = pair_sum((about, np.zeros_like(about)), pair_total(pair_product(w, from_it)))
    low, high = pair_ends(x)
    hull = pair_between(low.min(axis=0), high.max(axis=0))
    narrower = hull[1] < mean[1]
    mean = np.where(narrower, hull[0], mean[0]), np.where(narrower, hull[1], mean[1])
    return mean, pair_sum(x, (-mean[0][None], mean[1][None]))


def maximum(jets: list[Jet]) -> Jet:
    """max(0, u_1, u_2, ...): slopes in the hull of those that may lead.

    Where one leads for certain its curvature counts; elsewhere nothing is known of it.
    """
    mid, rad = _with_reference(jets)
    low, high = pair_ends((mid[:, 0], rad[:, 0]))
    leads = high >= low.max(axis=0)
    return _hull_of(mid, rad, leads, pair_between(low.max(axis=0), high.max(axis=0)), jets[0].shape)


def hard_mean(scores: list[Jet], values: list[Jet]) -> Jet:
    """The value of the winner; between winners it may jump, and nothing is known of its slope."""
    s_mid, s_rad = _with_reference(scores)
    mid, rad = _with_reference(values)
    low, high = pair_ends((s_mid[:, 0], s_rad[:, 0]))
    leads = high >= low.max(axis=0)
    v_low, v_high = pair_ends((mid[:, 0], rad[:, 0]))
    value = pair_between(
        np.where(leads, v_low, np.inf).min(axis=0), np.where(leads, v_high, -np.inf).max(axis=0)
    )
    jet = _hull_of(mid, rad, leads, value, values[0].shape)
    jet.rad[1:, leads.sum(axis=0) != 1] = np.inf
    return jet


def _hull_of(mid: np.ndarray, rad: np.ndarray, leads: np.ndarray, value: Pair, shape: Shape) -> Jet:
    low, high = pair_ends((mid, rad))
    on = leads[:, None]
    hull = pair_between(
        np.where(on, low, np.inf).min(axis=0), np.where(on, high, -np.inf).max(axis=0)
    )
    several = leads.sum(axis=0) != 1
    hull[1][1 + shape.variables :, several] = np.inf
    hull[0][0], hull[1][0] = value
    return Jet(*hull, shape)
