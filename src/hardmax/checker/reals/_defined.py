"""Whether a target is defined on all of a domain, whatever cancels in it later."""

from __future__ import annotations

import numpy as np

from hardmax.checker._budget import CALL, ENTRY, Clock, charge
from hardmax.core import Box, Steps, Univariate
from hardmax.numerics import STEP, Interval, record_of

_MOST_BOXES = 1 << 15
_NARROW = 4096.0 * STEP  # of the domain's width: boxes are not halved further


def undefined_near(steps: Steps, domain: Box, clock: Clock) -> np.ndarray | None:
    """A point near which some step could not be shown to be finite; None if all of them are.

    Enclosures of steps that depend on each other may be infinite on large boxes: these are halved,
    along their widest side, as long as there are few.
    """
    low, high = domain.low[:, None].astype(float), domain.high[:, None].astype(float)
    width = np.where(domain.high > domain.low, domain.high - domain.low, 1.0)[:, None]
    while True:
        open_ = ~_are_finite(steps, low, high)
        low, high = low[:, open_], high[:, open_]
        if not low.shape[1]:
            return None
        middle = 0.5 * low + 0.5 * high
        if 2 * low.shape[1] > _MOST_BOXES or clock.is_spent:
            return np.asarray(middle[:, 0])
        side = ((high - low) / width).argmax(axis=0), np.arange(low.shape[1])
        if not (high[side] - low[side] > _NARROW * width[side[0], 0]).all():
            return np.asarray(middle[:, 0])
        left, right = high.copy(), low.copy()
        left[side] = right[side] = middle[side]
        low, high = np.concatenate([low, right], axis=1), np.concatenate([left, high], axis=1)


def _are_finite(steps: Steps, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """For each box, whether all values are defined and finite on it."""
    sizes = [steps.size(number) for number in range(len(steps.steps) + 1)]
    charge(8 * CALL * len(sizes) + 16 * ENTRY * sum(sizes) * low.shape[1])
    with np.errstate(all="ignore"):
        values = steps.values(Interval(low, high))
    finite = np.ones(low.shape[1], dtype=bool)
    for value in values:
        known = np.isfinite(value.lo) & np.isfinite(value.hi)
        finite &= known.reshape(-1, low.shape[1]).all(axis=0)
    for step in steps.steps:
        least = _least_argument(step) if isinstance(step, Univariate) else None
        if least is not None:  # enclosures ignore what is below
            for source in step.sources:
                argument = values[source].lo.reshape(-1, low.shape[1])
                finite &= (argument >= least).all(axis=0)
    return finite


def _least_argument(step: Univariate) -> float | None:
    """From where on a function is defined; None if that is no question of size."""
    condition = record_of(step.name, step.exponent).condition
    return None if condition is None else condition.floor
