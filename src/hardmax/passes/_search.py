"""The smallest of all largest logits whose deviation fits: a search in few trials."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from hardmax.analysis import Flow

WARMEST = 2.0**-10  # a largest logit below this is not worth looking for ...
COLDEST = 2.0**60  # ... and colder than this, rounding is all that is left
_FAR = 2.0**8
CLOSE = 1e-3  # the largest logit is minimal to within this


@dataclass(frozen=True)
class Trial:
    """A largest logit and the deviation that comes with it."""

    logit: float
    flow: Flow

    @property
    def error(self) -> float:
        return self.flow.error


def smallest_that_fits(
    trial: Callable[[float], Trial], start: float, budget: float
) -> Trial | None:
    """The smallest largest logit whose deviation fits, to within a part in a thousand.

    The deviation is close to a/logit + b, with b from rounding, so that steps in 1/logit land
    almost at once. What does not fit at 2^60 fits nowhere, and None is the answer: there
    only b is left.
    """
    low, high, least = None, trial(start), 1.0
    while high.error > budget:
        if high.logit >= COLDEST:
            return None
        step = max(_step(low, high, budget), least)
        least = 1.0 if low is None else 2.0  # twice as cold where lines through trials did not do
        low, high = high, trial(min(high.logit * step, COLDEST))
    colder = None
    for _ in range(20):  # two are typical
        if high.error >= budget * (1 - CLOSE) or high.logit <= WARMEST:
            break
        guess = trial(_between(low, high, budget) if low else _warmer(high, colder, budget))
        if guess.error > budget:
            low = guess
        else:
            colder, high = high, guess
        if low is not None and high.logit <= low.logit * (1 + CLOSE / 4):
            break
    return high


def _step(low: Trial | None, high: Trial, budget: float) -> float:
    """How many times colder to try next, where the last trial did not fit.

    As if the error were a/logit, and with a trial before, `low`, as if it were a/logit + b through
    both, if that is more. Where b alone does not fit, all depends on what is far colder.
    """
    step = (1 + CLOSE / 2) * high.error / budget
    if low is not None:
        fits = _on_a_line(low, high, budget)
        step = max(step, _FAR if fits is None else fits / high.logit)
    return min(step, 2.0**20)


def _warmer(high: Trial, colder: Trial | None, budget: float) -> float:
    """Where a/logit + b through two trials that fit (b = 0 if there is but one) just does."""
    alone = high.logit * high.error / budget * (1 + CLOSE / 2)
    fits = None if colder is None else _on_a_line(high, colder, budget)
    return max(alone if fits is None or fits >= high.logit else fits, WARMEST)


def _between(low: Trial, high: Trial, budget: float) -> float:
    """Where a/logit + b through both trials just fits the budget.

    Error times logit is a + b logit. Where it is far larger at the lower end, some lemma holds at
    the upper end only, and the lower one says nothing of the line.
    """
    if low.error * low.logit > 2.0 * high.error * high.logit:
        through_one = _warmer(high, None, budget)
        is_new = through_one > low.logit * (1 + CLOSE)
        return through_one if is_new else math.sqrt(low.logit * high.logit)
    fits = _on_a_line(low, high, budget)
    if fits is None:
        return math.sqrt(low.logit * high.logit)
    nudge = 1 + CLOSE / 8  # for speed: how far a guess stays from both ends
    return min(max(fits, low.logit * nudge), high.logit / nudge)


def _on_a_line(low: Trial, high: Trial, budget: float) -> float | None:
    """The logit at which a/logit + b through both trials is half of `CLOSE` below the budget."""
    if low.logit == high.logit:
        return None
    if low.logit == high.logit:  # where even the coldest model is too warm
        return None
    slope = (low.error - high.error) / (1 / low.logit - 1 / high.logit)
    room = budget - (high.error - slope / high.logit)
    return slope / room * (1 + CLOSE / 2) if room > 0.0 else None
