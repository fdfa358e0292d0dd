"""Bounds of rounding by 2-norms: sharp at their extremal points, and never beaten by floats."""

from __future__ import annotations

import math

import numpy as np
import pytest

import hardmax as hm
from hardmax.checker.rounding import _bounds, float_bounds
from hardmax.checker.rounding._bounds import _bound
from hardmax.checker.rounding._gates import Factor, Factors
from hardmax.checker.rounding._two_norms import Known, Norms
from hardmax.core import evaluate
from hardmax.numerics import FLOAT32, FORMATS, Interval, length_up, norm_up
from hardmax.testing import random_relu, run_in_format


@pytest.mark.parametrize("shape", [(1, 7), (6, 6), (9, 4)])
def test_norms_lie_just_above_those_of_singular_values(shape):
    matrix = np.random.default_rng(sum(shape)).normal(size=shape)
    truth = float(np.linalg.svd(matrix, compute_uv=False)[0])
    assert truth * (1 - 1e-12) <= norm_up(matrix) <= truth * (1 + 1e-3)
    assert norm_up(np.eye(4)) == pytest.approx(1.0, rel=1e-3)
    assert norm_up(matrix * 2.0**-900) == pytest.approx(truth * 2.0**-900, rel=1e-3)
    assert norm_up(np.full((2, 2), np.inf)) == math.inf
    assert length_up(np.array([3.0, 4.0])) == pytest.approx(5.0)


def test_products_of_known_matrices_hold_their_rounding():
    """Exact products in Fractions lie within `off` of the computed ones."""
    from fractions import Fraction

    rng = np.random.default_rng(5)
    first, second = rng.normal(size=(3, 4)), rng.normal(size=(4, 3))
    known = Known.point(first).times(Factor(second)).times(Factor(first))
    exactly = np.vectorize(Fraction)(first) @ np.vectorize(Fraction)(second)
    exactly = exactly @ np.vectorize(Fraction)(first)
    away = (exactly - np.vectorize(Fraction)(known.middle)).ravel()
    assert 0 < sum(x * x for x in away) <= Fraction(known.off) ** 2


def test_factors_cover_their_ends():
    factors = Factors.of(Interval(np.array([-0.1, 0.0, 1.0]), np.array([1.1, 0.25, 1.0])))
    assert factors.centre.tolist() == [0.5, 0.0, 1.0]
    assert (factors.radius >= [0.6, 0.25, 0.0]).all()
    assert factors.radius[2] == 0.0


def network(seed: int, *widths: int, route: str = "attention-only"):
    size = widths[0]
    box = hm.Box([-1.0] * size, [1.0] * size)
    return hm.compile(random_relu(seed, *widths), on=box, error=1e-2, route=route)


@pytest.mark.parametrize("route", ["attention-only", "attention", "feedforward"])
def test_bounds_by_norms_are_smaller_and_hold(route):
    """Floats of each format, at corners and inside, stay within both bounds."""
    model = network(3, 6, 16, 16, 16, 2, route=route)
    box, transformer = model.claim.domain, model.transformer
    rng = np.random.default_rng(1)
    points = np.concatenate([rng.choice([-1.0, 1.0], size=(12, 6)), rng.uniform(-1, 1, (12, 6))])
    bounds = float_bounds(transformer, box)
    for name in ("float32", "float16"):
        format = FORMATS[name]
        inside = np.array([format.stored(point) for point in points])
        truth = evaluate(transformer, inside)
        with np.errstate(all="ignore"):
            computed = run_in_format(transformer, inside, format, rng)
            by_intervals = _bound(transformer, box, format, Norms(), (np.inf, np.inf))
        off = np.abs(computed.reshape(truth.shape) - truth).max(axis=0)
        slack = bounds["float64"]
        assert (off <= bounds[name] + slack).all()
        assert (bounds[name] <= by_intervals).all()
    if route == "attention-only":
        assert bounds["float32"].max() < 0.8 * by_intervals_in_float32(transformer, box)


def by_intervals_in_float32(transformer, box) -> float:
    with np.errstate(all="ignore"):
        return float(_bound(transformer, box, FLOAT32, Norms(), (np.inf, np.inf)).max())


def test_what_is_enough_is_not_bounded_more_closely(monkeypatch):
    model = network(3, 2, 4, 1)
    calls = []
    monkeypatch.setattr(
        _bounds, "two_norm_bound", lambda *given: calls.append(given) or np.full(1, np.inf)
    )
    float_bounds(model.transformer, model.claim.domain, ("float32",), worthwhile=(1.0, np.inf))
    float_bounds(model.transformer, model.claim.domain, ("float32",), worthwhile=(0.0, 1e-12))
    assert not calls
    float_bounds(model.transformer, model.claim.domain, ("float32",))
    assert len(calls) == 1
