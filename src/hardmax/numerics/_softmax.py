"""Where softmax weights can be, given where the logits are."""

from __future__ import annotations

import numpy as np

from hardmax.numerics._interval import Interval


def softmax_ranges(low: np.ndarray, high: np.ndarray) -> Interval:
    """The weights 1/(1 + sum_i exp(l_i - l_j)) along the last axis, logits l in [low, high].

    A weight is largest where its own logit is high and all others are low. Widened for the
    rounding of logits and exponentials; [0, 1] where logits are too large for that to say much.
    """
    size = np.maximum(np.abs(low), np.abs(high)).max(axis=-1, keepdims=True, initial=0.0)
    slack = 1e-12 * (1.0 + size)
    lost = 1e-15 * low.shape[-1]  # to cancellation in the two differences below
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        top, bottom = high.max(axis=-1, keepdims=True), low.max(axis=-1, keepdims=True)
        from_low, from_high = np.exp(low - bottom), np.exp(high - top)
        others_low = from_low.sum(axis=-1, keepdims=True) - from_low - lost
        others_high = from_high.sum(axis=-1, keepdims=True) - from_high + lost
        most = 1.0 / (1.0 + np.exp(bottom - high) * np.maximum(others_low, 0.0))
        least = 1.0 / (1.0 + np.exp(np.minimum(top - low, 700.0)) * np.maximum(others_high, 0.0))
    sharp = slack < 1e-3
    most = np.where(sharp & np.isfinite(most), np.minimum(most + slack, 1.0), 1.0)
    least = np.where(sharp & np.isfinite(least), np.maximum(least - slack, 0.0), 0.0)
    return Interval(least, most)
