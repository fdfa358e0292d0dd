"""A linear map is a head that averages."""

from __future__ import annotations

import numpy as np

from hardmax.core import Head


def averaging_head(read: np.ndarray, write: np.ndarray, *, width: int) -> Head:
    """Add write @ x[read] to the data token of the prompt (sink, data); causal.

    Key width 0: all scores are 0, and each of the two tokens gets weight exactly 1/2, hard or soft
    at any coldness. The sink holds 0 in the coordinates `read`, so the mean is x[read]/2, and the
    output weights are 2 write: doubling a float is exact. `write` is width x len(read).

    This is how ReLUs of fixed sign pass: one weight each, no score, no softening error.
    """
    value = np.zeros((len(read), width))
    value[np.arange(len(read)), read] = 1.0
    nothing = np.zeros((0, width))
    return Head(query=nothing, key=nothing, value=value, output=2.0 * write, causal=True)
