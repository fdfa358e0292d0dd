"""Grids and waves in coarse formats: what rounding moves, where it is attained, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import hardmax as hm
from hardmax.lowering.approximants._universal import grid_for, moved_by_rounding


def mean(x, anchors, coldness, off):
    logits = coldness * (x * anchors - anchors**2 / 2) + off
    weights = np.exp(logits - logits.max())
    return float(weights @ anchors / weights.sum())


def test_two_anchors_that_tie_move_by_all_that_is_charged():
    """At a tie half of the weight stands against the other half: d D/2 to first order."""
    spacing, theta, d = 0.25, 40.0, 1e-4
    anchors, coldness = spacing * np.arange(-3.5, 4.0), theta / spacing**2
    off = np.where(anchors > 0, d, -d)
    attained = mean(0.0, anchors, coldness, off) - mean(0.0, anchors, coldness, 0 * off)
    bound = moved_by_rounding(spacing, coldness, d, 0.0, 0.0)
    assert attained <= bound <= attained * (1 + 1e-6)


@pytest.mark.parametrize("theta", [4.0, 8.0, 16.0])
def test_no_rounding_moves_a_mean_further(theta):
    rng, spacing = np.random.default_rng(0), 0.5
    anchors, coldness = spacing * np.arange(12.0), theta / spacing**2
    for _ in range(300):
        d, a = rng.uniform(0.0, theta / 5.0), rng.uniform(-0.01, 0.01)
        x = rng.uniform(-spacing / 2, anchors[-1] + spacing / 2 - 0.01)
        off = d * rng.choice([-1.0, 1.0], size=len(anchors))
        values = np.cumsum(spacing * rng.choice([-1.0, 1.0], size=len(anchors)))
        logits = coldness * (x * anchors - anchors**2 / 2)
        p, q = (np.exp(v - v.max()) for v in (logits, logits + coldness * a * anchors + off))
        moved = abs(q @ values / q.sum() - p @ values / p.sum())
        assert moved <= moved_by_rounding(spacing, coldness, d, abs(a), 0.0)


def test_a_grid_that_rounds_too_much_says_nothing():
    assert moved_by_rounding(1.0, 8.0, 3.0, 0.0, 0.0) == np.inf
    grid = grid_for([-1.0, 0.0], [1.0, 1.0], [1.0, 0.0], 0.1)
    assert grid.moved(0.01, [0.0, 0.0], 0.0) == pytest.approx(
        moved_by_rounding(grid.axes[0][1], grid.coldness, 0.01, 0.0, 0.0), rel=1e-9
    )


def test_a_grid_of_hundreds_of_anchors_holds_in_float32():
    model = hm.compile("sqrt(x)", on=(0.25, 1), error=2e-3, route="universal", float="float32")
    found = hm.certify(model)
    assert found.verdict is hm.Verdict.PROVED
    assert "float32" in found.asked_holds_in


def test_long_waves_are_refused_with_a_floor_that_holds():
    plan = hm.plan("sin(64*x)", on=(-2, 2), error=1e-3, float="float32")
    with pytest.raises(hm.PrecisionError, match=r"the least .* \(folded\)"):
        plan.choose()
    assert "name the route" in str(plan.offer("direct").refusal)
    reached = plan.offer("folded").reachable
    model = hm.compile("sin(64*x)", on=(-2, 2), error=reached, float="float32")
    assert "float32" in hm.certify(model).asked_holds_in
