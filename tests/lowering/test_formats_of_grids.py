"""Grids and waves in coarse formats: what rounding moves, where it is attained, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import hardmax as hm
from hardmax.lowering.approximants._grid_means import (
    closest_mean_difference,
    closest_mean_distance,
    furthest_move,
)
from hardmax.lowering.approximants._universal import grid_for, moved_by_rounding
from hardmax.numerics import BFLOAT16, FLOAT16, FLOAT32, FLOAT64


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
    for _ in range(60):
        d, a = rng.uniform(0.0, theta / 5.0), rng.uniform(-0.01, 0.01)
        x = rng.uniform(-spacing / 2, anchors[-1] + spacing / 2 - 0.01)
        off = d * rng.choice([-1.0, 1.0], size=len(anchors))
        values = np.cumsum(spacing * rng.choice([-1.0, 1.0], size=len(anchors)))
        logits = coldness * (x * anchors - anchors**2 / 2)
        p, q = (np.exp(v - v.max()) for v in (logits, logits + coldness * a * anchors + off))
        moved = abs(q @ values / q.sum() - p @ values / p.sum())
        assert moved <= moved_by_rounding(spacing, coldness, d, abs(a), 0.0)


def test_a_question_that_is_off_moves_a_tie_by_all_that_is_charged():
    spacing, theta, a = 0.25, 60.0, 1e-6
    anchors, coldness = spacing * np.arange(-3.5, 4.0), theta / spacing**2
    attained = mean(a, anchors, coldness, 0.0) - mean(0.0, anchors, coldness, 0.0)
    bound = moved_by_rounding(spacing, coldness, 0.0, a, 0.0)
    assert attained <= bound <= attained * (1 + 1e-6)


@pytest.mark.parametrize("theta", [4.0, 6.0, 30.0])
def test_mean_distances_and_differences_are_attained_between_two_anchors(theta):
    """Over all places, and with anchors missing: half way between two of them it is equality."""
    distances, differences = [], []
    for left in (0, 1, 7):
        anchors = np.arange(-left, 8.0)
        for x in np.linspace(-0.5, 0.5, 101):
            away = np.abs(anchors - x)
            p = np.exp(-theta * away**2 / 2)
            p /= p.sum()
            distances.append(p @ away)
            differences.append(p @ np.abs(anchors[:, None] - anchors) @ p)
    assert max(distances) <= closest_mean_distance(theta) <= max(distances) + 2e-3
    assert max(differences) <= closest_mean_difference(theta) <= 1.05 * max(differences)
    slope = furthest_move(theta, 1e-6) / 1e-6
    assert slope == pytest.approx(closest_mean_difference(theta), rel=1e-4)


@pytest.mark.parametrize("format", [FLOAT32, FLOAT16, BFLOAT16])
def test_keys_of_grids_are_numbers_of_the_format_where_it_has_room_for_them(format):
    rng = np.random.default_rng(1)
    for _ in range(50):
        low = rng.uniform(-2, 2)
        ends, error = ([low], [low + rng.uniform(0.5, 3.0)]), rng.uniform(0.005, 0.2)
        grid = grid_for(*ends, [1.0], error, format=format)
        plain = grid_for(*ends, [1.0], error, format=FLOAT64)
        (first, spacing, number), (_, wide, usual) = grid.axes[0], plain.axes[0]
        room = format.digits - (number // 2 + 2).bit_length() >= 9
        assert format.holds(grid.places()).all() or not room
        assert spacing <= wide
        assert number <= usual * (1 + 2.0**-8) + 1
        assert first - spacing / 2 <= low + 1e-12
        assert first + (number - 0.5) * spacing >= ends[1][0] - 1e-12
        assert np.allclose(grid.points() - grid.middle, grid.places(), atol=1e-14)


@pytest.mark.parametrize("format", [FLOAT32, FLOAT16])
def test_anchors_that_are_not_heavy_weigh_less_than_a_rounding(format):
    grid = grid_for([0.0], [1.0], [1.0], 0.01, flatness=4.0)
    heavy = grid.heavy(format)
    assert heavy < grid.count
    anchors = grid.points()[:, 0]
    for x in np.linspace(0.0, 1.0, 101):
        away = grid.coldness * (x - anchors) ** 2 / 2
        off = np.where(away <= np.sort(away)[heavy - 1], -1.0, 1.0)  # as far as it is reckoned with
        p = np.exp(off - away)
        assert np.sort(p / p.sum())[:-heavy].sum() < format.unit


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
