"""What the checker's searches read of slopes; the records are on trial in tests/numerics."""

from __future__ import annotations

import numpy as np

from hardmax.numerics import pair_ends, record_of, rectifier_curve


def test_the_sigmoid_is_steepest_at_0():
    low, high = np.array([-0.5, 0.0, -0.5, 0.5]), np.array([0.25, 0.5, 0.0, 1.0])
    _, first, _ = record_of("sigmoid").curve(low, high)
    top = pair_ends(first)[1]
    assert (top[:3] >= 0.25).all()
    assert (top[:3] <= 0.25 * (1 + 1e-14)).all()
    assert top[3] < 0.24


def test_a_rectifier_has_one_slope_on_each_side_and_any_between():
    low, high = np.array([-2.0, 1.0, -1.0, 0.0, np.nan]), np.array([-1.0, 3.0, 2.0, 1.0, 1.0])
    value, slope, bend = rectifier_curve(low, high)
    bottom, top = pair_ends(value)
    assert (bottom[:4] <= [0.0, 1.0, 0.0, 0.0]).all()
    assert (top[:4] >= [0.0, 3.0, 2.0, 1.0]).all()
    assert (top[:4] - bottom[:4] <= np.array([0.0, 2.0, 2.0, 1.0]) * (1 + 1e-14)).all()
    assert list(slope[0] - slope[1]) == [0.0, 1.0, 0.0, 1.0, 0.0]
    assert list(slope[0] + slope[1]) == [0.0, 1.0, 1.0, 1.0, 1.0]
    assert list(bend[1]) == [0.0, 0.0, np.inf, 0.0, np.inf]
