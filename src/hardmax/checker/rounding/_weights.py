"""Where the weights of heads can be, soft and hard, and how far their logits are off."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardmax.checker.rounding._format import NothingKnown, is_point, relative
from hardmax.checker.rounding._logits import Asked
from hardmax.numerics import FLOAT64, Interval, down, gamma, inflate, product_up, sum_up, up

_FAR = 700.0  # exponentials of differences are float64 up to here, and beyond, up to 9 logits


@dataclass(frozen=True, eq=False)
class LogitRounding:
    """How far computed logits are off, besides what the queries' rounding does.

    By `absolute`, and all but the largest by `exponential` and by the share `relative` of `below`,
    which is how far they are below the largest.
    """

    absolute: np.ndarray  # heads x seen
    exponential: np.ndarray  # heads
    relative: np.ndarray  # heads
    below: np.ndarray  # heads x seen
    faint: np.ndarray  # heads x seen: what powers gain or lose besides, the largest being 1

    @property
    def total(self) -> np.ndarray:
        losing = self.exponential[:, None] + self.relative[:, None] * self.below
        return inflate(self.absolute + losing, 3)


def with_softmax(asked: Asked) -> LogitRounding:
    """The rounding of the logits, the exponential's error counted as one of its logit.

    Subtracting the maximum rounds the difference once. Evaluators may multiply by the coldness
    last, or, with two tokens, take the differences of the keys before the sum over the key width:
    once or twice more. And exp(x)(1 + r) is exp(x + log(1 + r)). The largest logit becomes 0, and
    exp(0) is 1, without error. Where a power may be subnormal it loses the smallest number, too,
    and where its logit may lie below the edge of the format's exp, it may vanish. A hard head
    compares logits as they are.
    """
    lead, error, format = asked.lead, asked.logit_error, asked.format
    below = lead.hi.max(axis=1, keepdims=True) - lead.lo
    if asked.seen == 2:
        apart = (asked.keys.value[:, :, 1] - asked.keys.value[:, :, 0]).magnitude
        apart = inflate(apart + asked.keys.error.sum(axis=2), 2)
        below = np.maximum(below, sum_up(product_up(asked.query.size, apart), 1)[:, None])
    below = inflate(below + 2.0 * (error + asked.shift).max(axis=1, keepdims=True), 3)
    roundings = relative(np.where(asked.rounds, 3.0, 2.0), format)
    lowest = inflate(below * (1.0 + roundings[:, None]), 2)
    vanishing = np.where(lowest > -format.exp_vanishes, format.vanished, 0.0)
    return LogitRounding(
        error,
        np.where(asked.hard, 0.0, relative(format.power_units(asked.seen), format)),
        np.where(asked.hard, 0.0, roundings),
        below,
        up(vanishing + format.smallest),
    )


def weights_of(asked: Asked, shifted: np.ndarray) -> Interval:
    """Where the weights are, for real and for computed logits; 0 is 0, and 1 is 1."""
    around = asked.lead.widened(shifted)
    if not np.isfinite(around.magnitude).all():
        raise NothingKnown
    soft = weight_ranges(around)
    if not asked.hard.any():
        return soft
    floor = around.lo.max(axis=1, keepdims=True)
    winners = around.hi >= floor
    equal = is_point(asked.lead) & (shifted == 0.0) & (asked.lead.lo == floor)
    exact = (equal | ~winners).all(axis=1, keepdims=True)
    count = winners.sum(axis=1, keepdims=True)
    share = np.where(winners, 1.0 / count, 0.0)
    rounds = (count & (count - 1)) != 0  # unless it is a power of two
    decided = exact | (count == 1)
    lo = np.where(decided, np.where(rounds, down(share), share), 0.0)
    hi = np.where(rounds, up(share), share)
    hi = np.where(decided, hi, np.where(winners, 1.0, 0.0))
    hard = asked.hard[:, None]
    return Interval(np.where(hard, lo, soft.lo), np.where(hard, hi, soft.hi))


def weight_ranges(lead: Interval) -> Interval:
    """p_j = 1/(1 + sum_(i != j) exp(l_i - l_j)) over the last axis, every l in its interval.

    Largest with the own logit high and all others low. The sum over the others leaves out the
    largest term where that is the own one, and is at least that term elsewhere, so that it errs by
    2 n roundings. A difference d is rounded by u |d|, which counts as |d| roundings of its
    exponential; two of them meet, and differences are cut off at 700, where it is too late to
    matter: what is left of the own one is less than 9 logits from there.
    """
    roundings = 2 * lead.shape[-1] + 2 * (int(_FAR) + 50 + FLOAT64.exp_units) + 8
    slack = gamma(roundings)

    def odds(others: np.ndarray, own: np.ndarray) -> np.ndarray:
        top = others.argmax(axis=-1)[..., None]
        best = np.take_along_axis(others, top, axis=-1)
        powers = np.exp(others - best)
        np.put_along_axis(powers, top, 0.0, axis=-1)
        beyond = powers.sum(axis=-1, keepdims=True)
        total = 1.0 + np.maximum(beyond - powers, 0.0)
        np.put_along_axis(total, top, beyond, axis=-1)
        return np.asarray(np.exp(np.clip(best - own, -_FAR - 45.0, _FAR)) * total)

    with np.errstate(under="ignore", over="ignore"):
        most = up(1.0 / down(1.0 + odds(lead.lo, lead.hi) * (1.0 - slack)))
        least = down(1.0 / up(1.0 + odds(lead.hi, lead.lo) * (1.0 + slack)))
    cut = lead.lo - lead.hi.max(axis=-1, keepdims=True) < 10.0 - _FAR
    return Interval(np.where(cut, 0.0, least), np.minimum(most, 1.0))
