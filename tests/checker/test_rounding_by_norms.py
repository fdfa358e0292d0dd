"""Bounds of rounding by 2-norms: sharp at their extremal points, and never beaten by floats."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

import hardmax as hm
from hardmax.checker.rounding import _bounds, float_bounds
from hardmax.checker.rounding._bounds import _bound
from hardmax.checker.rounding._gates import Factor, Factors, Places
from hardmax.checker.rounding._two_norms import Backward, Known, Norms, TwoNorms
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
    ends = {"worthwhile": (0.0, 1e-12)}
    float_bounds(model.transformer, model.claim.domain, ("float32",), **ends, claimed=())
    assert not calls
    float_bounds(model.transformer, model.claim.domain, ("float32",), **ends)
    assert len(calls) == 1
    calls.clear()
    float_bounds(model.transformer, model.claim.domain, ("float32",))
    assert len(calls) == 1


def gates_of_a_network(monkeypatch, seed: int, *widths: int) -> tuple[TwoNorms, np.ndarray]:
    """All sublayers as gates, in float32, and the rows that are read off."""
    given = []
    monkeypatch.setattr(
        _bounds, "two_norm_bound", lambda *args: given.append(args) or np.full(1, np.inf)
    )
    model = network(seed, *widths, route="feedforward")
    float_bounds(model.transformer, model.claim.domain, ("float32",))
    flow, source, domain, readout, read, _, norms = given[0]
    places = Places(flow, readout, [read])
    known = TwoNorms(flow, source, domain, places, norms)
    return known, places.columns(readout.weights, read)


def jacobians(gates):
    """I + O D V for all ends of the slopes."""
    loose = np.flatnonzero(gates.slopes.radius)
    for signs in product((-1.0, 1.0), repeat=len(loose)):
        slopes = gates.slopes.centre.copy()
        slopes[loose] += np.array(signs) * gates.slopes.radius[loose]
        yield np.eye(len(gates.drift)) + (gates.gated.matrix * slopes) @ gates.reads.matrix


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_effects_of_errors_hold_whatever_the_slopes(seed, monkeypatch):
    """An error after the embedding, through all ends of the slopes of three layers."""
    known, answer = gates_of_a_network(monkeypatch, seed, 2, 3, 3, 3, 1)
    rng = np.random.default_rng(seed)
    errors = [np.append(rng.normal(size=answer.shape[1] - 1), 0.0) for _ in range(40)]
    rows = [answer]
    for gates in reversed(known.gates):
        rows = [row @ jacobian for row in rows for jacobian in jacobians(gates)]
    rows = np.concatenate(rows)
    for e in errors:
        backward = Backward(Norms(), answer)
        for gates in reversed(known.gates):
            backward.pass_gates(gates)

        def through(rows: Known, doubt: np.ndarray, e=e) -> np.ndarray:
            return np.abs(rows.middle @ e) + doubt @ np.abs(e)

        backward.add(through, lambda read, closely, e=e: float(np.linalg.norm(read.middle @ e)))
        assert np.abs(rows @ e).max() <= backward.total[0] * (1 + 1e-12)
        by_entries = through(backward.direct, backward.doubt)
        later = [reach * np.linalg.norm(read.middle @ e) for read, reach, _ in backward.later]
        by_norms = np.abs(backward.direct.middle @ e) + sum(later)
        assert backward.total[0] == pytest.approx(min(by_entries[0], by_norms[0]), rel=1e-9)
        assert np.abs(rows @ e).max() <= by_norms[0] * (1 + 1e-12)


@pytest.mark.parametrize("seed", [3, 4])
def test_streams_stay_within_their_norms(seed, monkeypatch):
    """|V_k s_k| for inputs of the box, exactly as gates compute it."""
    known, _ = gates_of_a_network(monkeypatch, seed, 2, 4, 4, 1)
    corners = np.array(list(product((-1.0, -0.3, 0.4, 1.0), repeat=2)))
    found, summed = np.zeros(len(known.gates)), np.zeros(len(known.gates))
    for x in corners:
        stream = known.offset.matrix[:, 0] + known.map.matrix @ x
        for k, gates in enumerate(known.gates):
            read = gates.reads.matrix @ stream
            found[k] = max(found[k], np.linalg.norm(read))
            summed[k] = max(summed[k], np.maximum(read, 0.0).sum())
            stream = stream + gates.gated.matrix @ np.maximum(read, 0.0) + gates.drift
    assert (found <= known.read).all()
    assert (np.array(known.read) <= 10.0 * found).all()
    means = [known.means(k, np.ones((1, len(g.owner)))) for k, g in enumerate(known.gates)]
    assert (summed <= means).all()


def test_norms_of_what_is_known_nearly_are_larger_by_that():
    assert Norms().of(Known(np.eye(2), 0.25)) >= 1.25
    assert Norms.roughly(Known(np.eye(2), 0.25)) >= 1.25
