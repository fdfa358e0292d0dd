"""How far a gate's activation is from what it stands for when it is computed in floats."""

from __future__ import annotations

import numpy as np

from hardmax.numerics._formats import Format
from hardmax.numerics._outward import gamma, inflate

_AROUND_EXP = 6  # roundings of x sigmoid(x), in whatever way it is put together, beside exp's


def activation_error(name: str, z: np.ndarray, value: np.ndarray, format: Format) -> np.ndarray:
    """|computed - real| for act(z), given bounds `z` on |z| and `value` on |act(z)|.

    A ReLU rounds nothing. A silu is z/(1 + e^-z), or z times e^z/(1 + e^z) or 1/(1 + e^-z): exp
    passes on its relative error with a factor of 1 at most, and a sum, a quotient, a product and
    what they are made of round once each. Where exp vanishes or overflows the sigmoid is off by
    `vanished`, or by 1/largest, which is multiplied by z. What is tiny is lost a few times.
    """
    if name == "relu":
        return np.zeros(np.broadcast_shapes(np.shape(z), np.shape(value)))
    relative = gamma(format.exp_units + _AROUND_EXP, format)
    beyond = 2.0 * max(format.vanished, 1.0 / format.largest)
    lost = 8.0 * max(format.smallest, format.flushed)
    return np.asarray(inflate(relative * value + beyond * z + lost, 4))
