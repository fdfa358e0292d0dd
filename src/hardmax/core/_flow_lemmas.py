"""Heads that are linear maps, select a token, or merely average: three lemmas."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from hardmax.core._flow_asking import Asking, HeadFlow
from hardmax.core._flow_deviation import Deviation
from hardmax.core._flow_place import Place
from hardmax.numerics import Interval, exact, gamma, inflate, is_coarse


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
    gap = scores.lo[heads, winner] - others.max(axis=1) - 2 * asking.logit_stray / finite
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


def constant_scores(asking: Asking, flows: list[HeadFlow]) -> Place:
    """Scores that are constants make the head a linear map with known weights.

    How far each score is below the best is computed exactly, so that ties are ties. The evaluated
    weights differ from the hard ones by the leakage of the softmax, and from their real values by
    the rounding of the logits: if those are off by d, a weight p moves by at most
    p (1 - p)(e^(4d) - 1). A hard head whose tie rounding may break is given the whole spread.
    """
    below, exact_in_floats = _below_the_best(asking)
    tied = below == 0.0
    hard = tied / tied.sum(axis=1, keepdims=True)
    cold = np.where(np.isinf(asking.coldness), 0.0, asking.coldness)[:, None]
    with np.errstate(under="ignore"):
        powers = np.where(np.isinf(asking.coldness)[:, None], tied, np.exp(cold * below))
    soft = np.where(tied.all(axis=1, keepdims=True), hard, powers / powers.sum(axis=1)[:, None])
    _note_gaps(asking, below, flows)
    off = 0.0 if exact_in_floats else asking.logit_stray[:, None] + 2.0**-50 * cold * -below
    moved = soft * (1 - soft) * np.expm1(4 * np.minimum(off, 100.0))
    fragile = (
        np.isinf(asking.coldness)[:, None] & (-below <= 2 * off) & (tied.sum(axis=1) > 0)[:, None]
    )
    moved = np.where(fragile & (off > 0), 1.0, moved)
    if not asking.against_skeleton:
        hard = soft
    values = asking.values
    relative = 1e-14 + 2.0**-50 * cold * -below
    carried = values.deviation.scaled(soft[:, None, :], relative[:, None, :]).total()
    base = Interval(hard * (1 - 2.0**-50), hard * (1 + 2.0**-50))[:, None, :]
    leaked = (np.abs(soft - hard) + moved)[:, None, :] * values.where.magnitude
    return Place(_sum(base * values.range), carried).strayed(
        inflate(leaked.sum(axis=2), leaked.shape[2] + 8)
    )


def _note_gaps(asking: Asking, below: np.ndarray, flows: list[HeadFlow]) -> None:
    """The smallest lead of the winners over the others, for heads that have losers."""
    lead = -np.where(below < 0.0, below, -np.inf).max(axis=1)
    for h in np.flatnonzero(asking.constant & np.isfinite(lead)):
        flows[h].gap = min(flows[h].gap, float(lead[h]))


def _below_the_best(asking: Asking) -> tuple[np.ndarray, bool]:
    """score - best score <= 0 for every head and token, and whether floats compute it exactly.

    Flags and codes are coarse numbers, which floats add and multiply exactly; for others the
    difference is taken in Fractions.
    """
    heads, seen = asking.scores.shape
    group, stream = asking.group, np.where(asking.place.fixed, asking.place.range.lo, 0.0)
    if seen == 1 or (group.query.shape[1] == 0 and group.position_bias is None):
        return np.zeros((heads, seen)), True
    query, key = group.query[asking.constant], group.key[asking.constant]
    used = query.any(axis=(0, 1)) | key.any(axis=(0, 1))
    if group.position_bias is None and all(map(is_coarse, (query, key, stream[:, used]))):
        q = np.einsum("hkw,w->hk", query, stream[asking.t])
        k = np.einsum("hkw,jw->hkj", key, stream[asking.seen])
        scores = np.zeros((heads, seen))
        scores[asking.constant] = np.einsum("hk,hkj->hj", q, k)
        return scores - scores.max(axis=1, keepdims=True), True
    below = np.zeros((heads, seen))
    for h in np.flatnonzero(asking.constant):
        fractions = _exact_scores(asking, int(h))
        below[h] = [float(score - max(fractions)) for score in fractions]
    return below, False


def _sum(terms: Interval) -> Interval:
    slack = gamma(terms.shape[-1]) * terms.magnitude.sum(axis=-1)
    return Interval(terms.lo.sum(axis=-1) - slack, terms.hi.sum(axis=-1) + slack)


def _exact_scores(asking: Asking, h: int) -> list[Fraction]:
    group, t = asking.group, asking.t
    stream = asking.place.range.lo

    def project(matrix: np.ndarray, token: int) -> list[Fraction]:
        used = np.flatnonzero(matrix[h].any(axis=0))
        if not used.size:
            return [Fraction(0)] * matrix.shape[1]
        return list(exact(matrix[h][:, used]) @ exact(stream[token, used]))

    query = project(group.query, t)
    scores = []
    for j in asking.seen:
        score = sum((a * b for a, b in zip(query, project(group.key, j), strict=True)), Fraction(0))
        if group.position_bias is not None:
            score += Fraction(group.position_bias[h, t, j])
        scores.append(score)
    return scores
