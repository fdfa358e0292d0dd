"""Where the weights of heads can be, soft and hard, and how far their logits are off."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardmax.checker.rounding._format import NothingKnown, is_point, relative, summed, up, widened
from hardmax.checker.rounding._logits import Asked
from hardmax.numerics import Interval

_EXP = 16  # exp is trusted to 8 ulp, that is, 16 unit roundoffs


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

    @property
    def total(self) -> np.ndarray:
        losing = self.exponential[:, None] + self.relative[:, None] * self.below
        return up(self.absolute + losing)


def with_softmax(asked: Asked) -> LogitRounding:
    """The rounding of the logits, the exponential's error counted as one of its logit.

    Subtracting the maximum rounds the difference once. Evaluators may multiply by the coldness
    last, or, with two tokens, take the differences of the keys before the sum over the key width:
    once or twice more. And exp(x)(1 + r) is exp(x + log(1 + r)). The largest logit becomes 0, and
    exp(0) is 1, without error. A hard head compares logits as they are.
    """
    lead, error, format = asked.lead, asked.logit_error, asked.format
    below = lead.hi.max(axis=1, keepdims=True) - lead.lo
    if asked.seen == 2:
        apart = (asked.keys.value[:, :, 1] - asked.keys.value[:, :, 0]).magnitude
        apart = apart + asked.keys.error.sum(axis=2)
        below = np.maximum(below, summed(asked.query.size * apart, 1)[:, None])
    below = up(below + 2.0 * (error + asked.shift).max(axis=1, keepdims=True))
    roundings = relative(np.where(asked.rounds, 3.0, 2.0), format)
    return LogitRounding(
        error,
        np.where(asked.hard, 0.0, relative(_EXP, format)),
        np.where(asked.hard, 0.0, roundings),
        below,
    )


def weights_of(asked: Asked, shifted: np.ndarray) -> Interval:
    """Where the weights are, for real and for computed logits; 0 is 0, and 1 is 1."""
    around = widened(asked.lead, shifted)
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
    slack = np.where(count & (count - 1), 2.0**-52, 0.0) * share
    decided = exact | (count == 1)
    lo = np.where(decided, share - slack, 0.0)
    hi = np.where(decided, share + slack, np.where(winners, 1.0, 0.0))
    hard = asked.hard[:, None]
    return Interval(np.where(hard, lo, soft.lo), np.where(hard, hi, soft.hi))


def weight_ranges(lead: Interval) -> Interval:
    """p_j = 1/(1 + sum_(i != j) exp(l_i - l_j)) over the last axis, every l in its interval.

    Largest with the own logit high and all others low. The sum over the others leaves out the
    largest term where that is the own one, and is at least that term elsewhere, so that its
    relative error stays below a few times n 2^-52; an exponential of a difference below 750 is
    good to 750 2^-52, and differences are cut off at 700, where it is too late to matter.
    """
    slack = (lead.shape[-1] + 4000.0) * 2.0**-52

    def odds(others: np.ndarray, own: np.ndarray) -> np.ndarray:
        top = others.argmax(axis=-1)[..., None]
        best = np.take_along_axis(others, top, axis=-1)
        powers = np.exp(others - best)
        np.put_along_axis(powers, top, 0.0, axis=-1)
        beyond = powers.sum(axis=-1, keepdims=True)
        total = 1.0 + np.maximum(beyond - powers, 0.0)
        np.put_along_axis(total, top, beyond, axis=-1)
        return np.asarray(np.exp(np.clip(best - own, -745.0, 700.0)) * total)

    with np.errstate(under="ignore", over="ignore"):
        most = 1.0 / (1.0 + odds(lead.lo, lead.hi) * (1.0 - slack))
        against = odds(lead.hi, lead.lo) * (1.0 + slack) + 1e-300
        least = 1.0 / (1.0 + against)
    cut = lead.lo - lead.hi.max(axis=-1, keepdims=True) < -690.0
    least = np.where(cut, 0.0, least * (1.0 - 2.0**-50))
    return Interval(least, np.minimum(most * (1.0 + 2.0**-50), 1.0))
