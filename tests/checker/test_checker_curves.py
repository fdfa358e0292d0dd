"""What the checker's searches read of slopes; the records are on trial in tests/numerics."""

from __future__ import annotations

import numpy as np

from hardmax.checker.boxes._tape import Linear, Step, Tape
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


def test_a_term_without_a_slope_leaves_the_others_theirs():
    """1000 (exp(u) - exp(u + 1)/e) cancels, but not range by range; sqrt is steep at u^2 = 0.

    Bounded term by term the sum would be off by about 2000 times the width of the box.
    """
    square = Step("times", (Linear((0,), (1.0,), 0.0),) * 2)
    root = Step("sqrt", (Linear((1,), (1.0,), 0.0),))
    rise = Step("exp", (Linear((0,), (1.0,), 0.0),))
    fall = Step("exp", (Linear((0,), (1.0,), 1.0),))
    answer = Linear((2, 3, 4), (1.0, 1000.0, -1000.0 / np.e), 0.0)
    tape = Tape(1, (square, root, rise, fall), answer)
    for width in (1e-2, 1e-4, 1e-6):
        low, high = np.array([[-width, 0.0, 0.3]]), np.array([[width, width, 0.3 + width]])
        twin, _ = tape.on(low, high)
        bottom, top = pair_ends(twin.box.value)
        for share in (0.0, 0.25, 0.5, 1.0):
            u = low[0] + share * (high[0] - low[0])
            assert (bottom <= np.abs(u) + 1e-12).all()
            assert (top >= np.abs(u) - 1e-12).all()
        assert (top - bottom <= 4.0 * width + 2000.0 * width**2 + 1e-11).all()
    _, slope = twin.box.slopes
    assert not np.isfinite(slope[0, :2]).any()
