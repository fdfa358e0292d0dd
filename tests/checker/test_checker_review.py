"""Claims that were once called proved and are false, and what they taught."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st

import hardmax as hm
from hardmax.checker import Verdict, certify
from hardmax.checker._balls import error_at_point
from hardmax.checker._budget import Budget, Clock
from hardmax.checker.boxes import SmallBoxes
from hardmax.checker.boxes._compile_tape import pose
from hardmax.checker.boxes._search import Search
from hardmax.checker.boxes._softmean import weights
from hardmax.checker.forms import ONE, Graph, constant, rational
from hardmax.checker.reals import _methods, _question
from hardmax.checker.reals._question import undefined_near
from hardmax.core import (
    Attention,
    Claim,
    Construction,
    Head,
    ReadOut,
    Share,
    Softmax,
    Target,
    Transformer,
    VectorInput,
    Witness,
)
from hardmax.languages import Function
from hardmax.numerics import pair_ends as ends
from hardmax.numerics import softmax_gap


def claimed(model: Transformer, target: Target, domain: hm.Box, error: float) -> Construction:
    claim = Claim(target, domain, [Share("approximation", "by hand", error)])
    return Construction(model, claim, Witness([]), "by hand")


def blind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without samples the proofs themselves are put to the test."""
    monkeypatch.setattr(_methods, "worst_seen", lambda c: c.claim.domain.interval.middle)
    monkeypatch.setattr(_question, "attained_error", lambda *_: 0.0)


# ---- softmax weights over wide boxes -----------------------------------------------------------

logits = st.floats(-3000, 3000)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(logits, logits), min_size=2, max_size=6))
def test_weights_are_enclosed_however_wide_the_logits(rows):
    low = np.array([[min(a, b)] for a, b in rows])
    high = np.array([[max(a, b)] for a, b in rows])
    with np.errstate(all="ignore"):
        bottom, top = ends(weights(low, high))
    pairs = list(zip(low[:, 0].tolist(), high[:, 0].tolist(), strict=True))
    before, ctx.prec = ctx.prec, 100
    try:
        tokens = range(len(rows))
        points = [[arb(pairs[j][j == i]) for j in tokens] for i in tokens]
        points += [[arb(pairs[j][j != i]) for j in tokens] for i in tokens]
        for point in points:
            about = max(point, key=lambda p: float(p.mid()))
            powers = [(p - about).exp() for p in point]
            whole = sum(powers, arb(0))
            for j, power in enumerate(powers):
                share = power / whole
                assert bool(share <= arb(float(top[j, 0])) * (1 + arb(2) ** -60))
                assert bool(share >= arb(float(bottom[j, 0])))
    finally:
        ctx.prec = before


def test_a_weight_is_not_lost_below_a_leader_that_may_fall_behind():
    """Logits 0, 740 x and -5.2 on [0, 1]: at x = 0 the last has a weight of 0.00275."""
    graph = Graph()
    x = graph.variable(0.0, 1.0)
    mean = graph.mean(
        [constant(rational(0.0)), x.scaled(rational(740.0)), constant(rational(-5.2))],
        [constant(rational(0.0)), constant(rational(0.0)), constant(ONE)],
    )
    exact = math.exp(-5.2) / (2 + math.exp(-5.2))
    found = SmallBoxes(graph, Clock(Budget.of("1e7 work"))).bound(mean, 1.0)
    assert exact * (1 - 1e-12) <= found


def test_a_spike_between_steep_logits_is_not_overlooked(monkeypatch):
    """Six tokens rise by 1170 from a point where a seventh has its only chance: error 0.18."""
    point, steep = np.array([0.37, 0.41, 0.57]), 1170.0
    maps, offsets = np.zeros((8, 4, 3)), np.zeros((8, 4))
    offsets[:, 0] = 1.0
    maps[0, 3, 0] = 1.0
    for i in range(3):
        for j, sign in enumerate((1.0, -1.0)):
            token = 1 + 2 * i + j
            maps[token, 1, i], offsets[token, 1] = sign * steep, -sign * steep * point[i]
    offsets[7, 1:3] = -9.0, 1e4
    head = Head(
        [[1.0, 0, 0, 0]], [[0.0, 1, 0, 0]], [[0.0, 0, 1, 0]], [[0.0], [0], [1], [0]], Softmax(1.0)
    )
    model = Transformer(
        VectorInput(maps, offsets), [Attention([head])], ReadOut([[0.0, 0, 1, 0.01]], [0.0], 0)
    )
    target = Function.parse("0.0001*(x+y+z)")
    construction = claimed(model, target, hm.Box([0.0] * 3, [1.0] * 3), 0.05)
    assert error_at_point(model, target.steps(), point.tolist())[0] > 0.17
    blind(monkeypatch)
    assert certify(construction, budget="3e6 work").verdict is not Verdict.PROVED


# ---- one token more than the target has --------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 1.0])
def test_a_token_just_below_another_falls_short_like_any_other(share, monkeypatch):
    """max of n, with x_0 - s gap among the tokens: n + 1 of them may fall short together."""
    n, cold = 4, 2000.0
    gap = softmax_gap(n + 1) / cold
    maps, offsets = np.zeros((n + 1, 3, n)), np.zeros((n + 1, 3))
    offsets[:, 0] = 1.0
    for token in range(n + 1):
        maps[token, 1, token % n] = 1.0
    offsets[n, 1] = -share * gap
    head = Head([[1.0, 0, 0]], [[0.0, 1, 0]], [[0.0, 1, 0]], [[0.0], [0], [1]], Softmax(cold))
    readout = ReadOut([[0.0, 0, 1]], [0.0], 0)
    model = Transformer(VectorInput(maps, offsets), [Attention([head])], readout)
    target = Function.parse(f"max({', '.join(f'x{i}' for i in range(n))})")
    construction = claimed(model, target, hm.Box([-1.0] * n, [1.0] * n), 2 * gap)
    back = np.linspace(0, 3 * gap, 400)[:, None] * np.ones((1, n))
    points = 0.5 - back
    points[:, 1] = 0.5
    seen = float(np.abs(construction(points) - target(points)).max())
    blind(monkeypatch)
    certificate = certify(construction, budget="5e6 work")
    assert certificate.certified >= seen
    assert certificate.certified <= 1.3 * gap


# ---- targets that are not defined everywhere ---------------------------------------------------


@pytest.mark.parametrize(
    "text", ["x + sqrt(y) - sqrt(y)", "x + 0*log(y)", "x + 1/y - 1/y", "max(x, sqrt(y)-sqrt(y)-5)"]
)
def test_what_is_undefined_stays_undefined_though_it_cancels(text):
    target = Function.parse(text)
    maps = np.array([[[1.0, 1e-4]]])
    model = Transformer(VectorInput(maps, [[0.0]]), [], ReadOut([[1.0]], [0.0]))
    construction = claimed(model, target, hm.Box([-1.0, -1.0], [1.0, 1.0]), 0.5)
    certificate = certify(construction, budget="5e6 work")
    assert certificate.verdict is Verdict.UNDECIDED
    assert "undefined" in certificate.advice


def test_a_target_is_defined_though_wide_enclosures_are_not():
    """0.2 + x^2 - x has its first root at 0.276; left of it one large box is too coarse to see."""
    steps = Function.parse("1/(0.2 + x*x - x)").steps()
    assert undefined_near(steps, hm.Box([-3.0], [0.2]), Clock(Budget.of("5e6 work"))) is None
    hole = undefined_near(steps, hm.Box([-3.0], [1.0]), Clock(Budget.of("5e6 work")))
    assert hole is not None
    assert abs(hole[0] ** 2 - hole[0] + 0.2) < 1e-3


# ---- smaller ones ------------------------------------------------------------------------------


def test_an_exponent_that_is_nearly_whole_is_not_whole():
    graph = Graph()
    nearly = Fraction(200000000000000001, 10**17)
    assert not graph.apply("power", constant(rational(3.0)), nearly).is_constant
    assert graph.apply("power", constant(rational(3.0)), Fraction(2)) == constant(rational(9.0))


@pytest.mark.parametrize("bits", [20, 30, 45])
def test_no_part_of_the_domain_is_cut_away(bits):
    """x + y and x + (1 + 2^-bits) y are nearly parallel: the domain's image is a thin strip.

    Smallest boxes around the images of points, on the rim or not, must all be kept.
    """
    graph = Graph()
    x, y = graph.variable(2.0, 3.0), graph.variable(-1.0, 1.0)
    near = y.scaled(rational(1.0 + 2.0**-bits))
    problem = pose(graph, graph.apply("sin", x + near) - graph.apply("sin", x + y), math.inf)
    assert len(problem.facets) > 0
    search = Search(problem, Clock(Budget.of("5e6 work")), enough=1.0)
    rng = np.random.default_rng(0)
    share = np.clip(rng.uniform(-0.5, 1.5, size=(2000, 2)), 0.0, 1.0)
    points = np.array([2.0, -1.0]) + np.array([1.0, 2.0]) * share
    rows = [[Fraction(float(v)) for v in row] for row in problem.rows]
    exact = [[r[0] * Fraction(a) + r[1] * Fraction(b) for a, b in points.tolist()] for r in rows]
    images = np.array([[float(u) for u in row] for row in exact])
    over = np.array([[Fraction(float(u)) > u for u in row] for row in exact])
    low = np.where(over, np.nextafter(images, -np.inf), images)
    high = np.where(over, images, np.nextafter(images, np.inf))
    assert search._inside(low, high)[0].shape == low.shape


def test_a_stored_certificate_may_not_promise_more_formats(tmp_path, capsys):
    from hardmax.cli import main

    construction = hm.compile("x*y", on={"x": (-1, 1), "y": (-1, 1)}, error=1e-2)
    certificate = hm.certify(construction)
    more = replace(certificate, formats=dict.fromkeys(certificate.formats, 0.0))
    place = tmp_path / "model.safetensors"
    hm.save(construction, place, more)
    with pytest.raises(SystemExit) as left:
        main(["verify", str(place)])
    assert left.value.code == 1
    assert "holds in bfloat16" in capsys.readouterr().err
