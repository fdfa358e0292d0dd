"""The lemmas that sketches and weights share: attained, and never exceeded."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from hardmax.numerics import Interval, line_with_kink, weights_moved


def softmax(logits):
    powers = np.exp(logits - np.max(logits))
    return powers / powers.sum()


@pytest.mark.parametrize("off", [1e-6, 0.3, 2.0, 30.0])
def test_two_tokens_that_change_places_move_as_much_weight_as_any(off):
    """Logits -d/2 and d/2, each off by d: they change places, and tanh(d/2) changes hands."""
    logits = np.array([-off / 2, off / 2])
    moved = softmax(logits[::-1])[0] - softmax(logits)[0]
    assert moved == pytest.approx(weights_moved(off), rel=1e-9)


def test_no_logits_move_more_weight():
    rng = np.random.default_rng(0)
    for _ in range(500):
        off = float(rng.uniform(0.0, 3.0))
        logits = rng.normal(size=int(rng.integers(2, 7))) * 3.0
        moved = softmax(logits + rng.uniform(-off, off, len(logits))) - softmax(logits)
        assert np.abs(moved).sum() / 2 <= weights_moved(off) * (1 + 1e-12)
    assert weights_moved(math.inf) == 1.0


def test_a_line_with_a_kink_is_extreme_at_its_ends_or_at_its_kink():
    rng = np.random.default_rng(1)
    for a, b, w in rng.integers(-5, 6, (300, 3)).tolist():
        kink = [float(np.clip(-b / a, -2, 2))] if a else []
        points = Interval.point(np.array([-2.0, 2.0, *kink]))
        slope, constant, weight = (Interval.point(float(n)) for n in (a, b, w))
        found = line_with_kink(points, slope * points + constant, weight)
        grid = [Fraction(k, 64) for k in range(-128, 129)]
        values = [x + w * max(a * x + b, 0) for x in grid]
        assert found.lo.min() <= min(values)
        assert max(values) <= found.hi.max()
        assert found.hi.max() - found.lo.min() <= max(values) - min(values) + 1.0
