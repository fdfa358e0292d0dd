"""Heads whose scores are constants: linear maps with known weights."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from hardmax.analysis._outlines import Outline
from hardmax.analysis._own import KnownWeights
from hardmax.analysis._places import Place
from hardmax.analysis._question import Asking, HeadFlow
from hardmax.numerics import (
    FLOAT64,
    TINY,
    Interval,
    down,
    exact,
    inflate,
    is_power_of_two,
    softmax_ranges,
    stray,
    up,
)


def known_weights(asking: Asking, flows: list[HeadFlow]) -> KnownWeights:
    """Scores that are constants make the head a linear map with known weights.

    How far each score is below the best is computed exactly, so that ties are ties. The evaluated
    weights differ from the hard ones by the leakage of the softmax, and from their real values by
    the rounding of the logits (`_moved`). Both sum to 1: no weight has gained more than the others
    have lost, which is how little the winner's differs from 1.
    """
    below = _below_the_best(asking)
    hard, soft = _shares(below == 0.0), _weights(asking, below)
    _note_gaps(asking, below, flows)
    moved = _moved(asking, below, soft.hi)
    leaked = (soft - hard).magnitude
    others = inflate(leaked @ (1.0 - np.eye(leaked.shape[1])), leaked.shape[1])
    leaked = np.minimum(leaked, others)
    by_shares = inflate(leaked + (hard - hard.middle).magnitude)
    by_range = (soft - soft.middle).magnitude
    closer = by_shares < by_range
    base, apart = soft, moved
    if asking.against_skeleton:
        base, apart = hard, inflate(moved + leaked)
    return KnownWeights(
        base,
        np.where(closer, hard.middle, soft.middle),
        np.where(closer, by_shares, by_range),
        apart,
        soft.hi,
    )


def constant_scores(
    asking: Asking, weights: KnownWeights, values: Place, outline: Outline | None
) -> Place:
    """The values, mixed by known weights; their outline is mixed alike."""
    base, heads = weights.reference, len(weights.apart)
    shape = (heads, 1, -1)
    carried = values.deviation.scaled(
        weights.middle.reshape(shape), weights.away.reshape(shape)
    ).total()
    total = (weights.apart.reshape(shape) * values.where.magnitude).sum(axis=2)
    mixed = (base.reshape(*shape) * values.range).sum(axis=2)
    if outline is not None:
        middle = base.middle
        away = (base - middle).magnitude
        outline = outline.scaled(middle.reshape(shape), away.reshape(shape)).total()
    return Place(mixed, carried, outline).strayed(inflate(total, len(asking.seen) + 2))


def mixing_stray(asking: Asking, known: KnownWeights) -> np.ndarray:
    """How far rounding moves the mixed values of heads whose scores are constants.

    A sum of products errs by so many units of the sum of their sizes, each a value's times its
    weight: those of a sink, which looks at nobody, hardly stray. Heads x value width.
    """
    if len(asking.seen) == 1:
        return np.broadcast_to(asking.value_stray[:, None], asking.value_sizes.shape[:2])
    off = asking.logit_stray[:, None]  # the odds of one against the others change by e^(2 off)
    weights = np.where(off > 1.0, 1.0, inflate(known.most * np.exp(2 * np.minimum(off, 1.0)), 4))
    size = inflate((weights[:, None, :] * asking.value_sizes).sum(axis=2), len(asking.seen) + 2)
    rounds = stray(asking.value_terms[:, None], size, asking.format)
    return np.asarray(inflate(rounds + asking.value_lost[:, None]))


def _shares(tied: np.ndarray) -> Interval:
    """Equal weights for those that tie; halves, quarters and so on are floats."""
    count = tied.sum(axis=1, keepdims=True)
    share = tied / count
    exact = is_power_of_two(count)
    return Interval(np.where(exact, share, down(share)), np.where(exact, share, up(share)))


def _weights(asking: Asking, below: np.ndarray) -> Interval:
    """The real weights of the heads as they are, soft or hard.

    `below` was rounded once, by u times what it is. The best logit is 0, and subtracting that
    rounds nothing: what `softmax_ends` charges for it covers the rounding of `below` instead.
    """
    hard = _shares(below == 0.0)
    all_tied = (below == 0.0).all(axis=1) | np.isinf(asking.coldness)
    cold = np.where(all_tied, 0.0, asking.coldness)[:, None]
    logits = Interval.point(below) * cold
    soft = softmax_ranges(logits.lo, logits.hi)
    return Interval(
        np.where(all_tied[:, None], hard.lo, soft.lo), np.where(all_tied[:, None], hard.hi, soft.hi)
    )


def _moved(asking: Asking, below: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """How far rounding moves each weight from its real value.

    If no logit is off by more than d, the odds of a set of tokens change by a factor e^(2d) at
    most, so its weight P moves by at most P (1 - P)(e^(2d) - 1), and by 1 in any case. Tokens
    that tie are such a set if every evaluator keeps their tie; each then moves by its share. A
    hard head moves only if rounding can break a tie or lift a token that is close behind. The
    weights are given from above, and expm1 is trusted as the other functions are.
    """
    tied = below == 0.0
    d = asking.logit_stray[:, None]
    kept = _keeps_ties(asking)[:, None]
    others = weights @ (1.0 - np.eye(weights.shape[1]))  # never as 1 - weight: that cancels
    beaten = np.where(tied, 0.0, weights).sum(axis=1, keepdims=True)
    others = np.where(kept & tied, beaten, others)
    share = weights * others * np.expm1(2 * np.minimum(d, 1.0))
    share = inflate(share, weights.shape[1] + FLOAT64.exp_units + 4)
    moved = np.where(d > 1.0, np.where(others > 0.0, 1.0, 0.0), np.minimum(share, 1.0))
    breaks = ~kept[:, 0] & (tied.sum(axis=1) > 1)
    close = ((down(-below) <= 2 * d) & ~tied).any(axis=1)
    fragile = np.where(breaks | close, 1.0, 0.0)[:, None]
    return np.where(np.isinf(asking.coldness)[:, None], fragile, moved)


def _keeps_ties(asking: Asking) -> np.ndarray:
    """Heads whose tied tokens have the same logit in every evaluator and every order of summation.

    With key width 0 all logits are 0. With key width 1 a logit is one product; if keys are copied
    from single coordinates, with weights that are powers of two and numbers that the format
    holds, equal keys are equal floats.
    """
    group, place = asking.group, asking.place
    heads, key_width, _ = group.key.shape
    if len(asking.seen) == 1 or (key_width == 0 and group.position_bias is None):
        return np.ones(heads, dtype=bool)
    if key_width != 1 or group.position_bias is not None:
        return np.zeros(heads, dtype=bool)
    copied = np.ones(heads, dtype=bool)
    for matrix in (group.query[:, 0], group.key[:, 0]):
        copied &= ((matrix != 0).sum(axis=1) <= 1) & is_power_of_two(matrix).all(axis=1)
    held = asking.format.holds(place.range.lo[asking.seen]).all(axis=0)
    return copied & ~((group.key[:, 0] != 0) & ~held).any(axis=1)


def _note_gaps(asking: Asking, below: np.ndarray, flows: list[HeadFlow]) -> None:
    """The smallest lead of the winners over the others, for heads that have losers."""
    lead = -np.where(below < 0.0, below, -np.inf).max(axis=1)
    for h in np.flatnonzero(asking.constant):
        flows[h].gap = min(flows[h].gap, float(lead[h]))


def _below_the_best(asking: Asking) -> np.ndarray:
    """score - best score <= 0 for every head and token; 0 for ties and for nothing else."""
    heads, seen = asking.scores.shape
    group, stream = asking.group, np.where(asking.place.fixed, asking.place.range.lo, 0.0)
    if seen == 1 or (group.query.shape[1] == 0 and group.position_bias is None):
        return np.zeros((heads, seen))
    below = np.zeros((heads, seen))
    if _fits_in_floats(asking, stream):
        q = np.einsum("hkw,w->hk", group.query[asking.constant], stream[asking.t])
        k = np.einsum("hkw,jw->hkj", group.key[asking.constant], stream[asking.seen])
        scores = np.einsum("hk,hkj->hj", q, k)
        if group.position_bias is not None:
            scores = scores + group.position_bias[asking.constant, asking.t][:, asking.seen]
        below[asking.constant] = scores - scores.max(axis=1, keepdims=True)
        return below
    for h in np.flatnonzero(asking.constant):
        fractions = _exact_scores(asking, int(h))
        best = max(fractions)
        below[h] = [0.0 if f == best else min(float(f - best), -TINY) for f in fractions]
    return below


def _fits_in_floats(asking: Asking, stream: np.ndarray) -> bool:
    """Whether float64 computes the constant scores without rounding.

    All numbers are multiples of 2^-8, so scores are multiples of 2^-32, and no partial sum exceeds
    2^20: 52 bits hold everything.
    """
    query, key = asking.group.query[asking.constant], asking.group.key[asking.constant]
    used = query.any(axis=(0, 1)) | key.any(axis=(0, 1))
    bias = np.zeros(1)
    if asking.group.position_bias is not None:
        bias = asking.group.position_bias[asking.constant, asking.t]
    numbers = (query, key, stream[:, used], bias)
    if not all((array * 2.0**8 == np.round(array * 2.0**8)).all() for array in numbers):
        return False
    size = np.abs(query) @ np.abs(stream[asking.t])
    other = np.abs(key) @ np.abs(stream[asking.seen]).T
    most = (size[:, :, None] * other).sum(axis=1).max(initial=0.0)
    return bool(most + np.abs(bias).max(initial=0.0) < 2.0**20)


def _exact_scores(asking: Asking, h: int) -> list[Fraction]:
    group, t = asking.group, asking.t
    stream = asking.place.range.lo

    def project(matrix: np.ndarray, token: int) -> list[Fraction]:
        used = np.flatnonzero(matrix[h].any(axis=0))
        if not used.size:
            return [Fraction(0)] * matrix.shape[1]
        return list(exact(matrix[h][:, used]) @ exact(stream[token, used]))

    query = project(group.query, t)
    if not any(query) and group.position_bias is None:
        return [Fraction(0)] * len(asking.seen)  # nothing is asked: all tie
    scores = []
    for j in asking.seen:
        score = sum((a * b for a, b in zip(query, project(group.key, j), strict=True)), Fraction(0))
        if group.position_bias is not None:
            score += Fraction(group.position_bias[h, t, j])
        scores.append(score)
    return scores
