"""Banks, large means, cuts, forms that never lead: how wide and deep models are searched."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import arb, ctx, fmpq
from hypothesis import given, settings
from hypothesis import strategies as st

import hardmax as hm
from hardmax.checker import Verdict, certify
from hardmax.checker._budget import Budget, Clock
from hardmax.checker.boxes._bank import AffineRows, Bank
from hardmax.checker.boxes._compile_tape import pose
from hardmax.checker.boxes._cuts import bound_by_cut
from hardmax.checker.boxes._jets import Jet, Shape
from hardmax.checker.boxes._large_mean import LargeMean
from hardmax.checker.boxes._search import Search
from hardmax.checker.boxes._small_box import SmallBoxes
from hardmax.checker.boxes._tape import enclose
from hardmax.checker.forms._bodies import ONE, rational
from hardmax.checker.forms._dominance import excess
from hardmax.checker.forms._forms import Form, constant
from hardmax.checker.forms._graph import Graph
from hardmax.core import Claim, Construction, ReadOut, Share, Transformer, VectorInput
from hardmax.languages import Function

SEEDS = range(6)


def boxes(rng: np.random.Generator, k: int, size: float) -> list[tuple[Jet, Jet]]:
    """Neighbouring boxes as jets of their variables."""
    middle = rng.uniform(-1, 1, size=(k, 1)) + rng.uniform(-0.2, 0.2, size=(k, 40))
    reach = rng.uniform(0, size, size=(k, 40))
    pairs = []
    for i in range(k):
        jets = []
        for order, radius in ((1, 0.0 * reach[i]), (2, reach[i])):
            shape = Shape(k, order)
            mid, rad = np.zeros((shape.components, 40)), np.zeros((shape.components, 40))
            mid[0], mid[1 + i], rad[0] = middle[i], 1.0, radius
            jets.append(Jet(mid, rad, shape))
        pairs.append((jets[0], jets[1]))
    return pairs


def inside(value: arb, jet: Jet, component: int, box: int) -> bool:
    mid, rad = float(jet.mid[component, box]), float(jet.rad[component, box])
    return math.isinf(rad) or bool(abs(value - arb(mid)) <= arb(rad))


def sampled(rng: np.random.Generator, pairs: list[tuple[Jet, Jet]], box: int) -> list[arb]:
    """A point of a box; a corner as often as not."""
    shares = rng.choice([-1.0, 1.0, 0.3], size=len(pairs))
    return [
        arb(float(j.mid[0, box])) + arb(float(s)) * arb(float(j.rad[0, box]))
        for s, (_, j) in zip(shares, pairs, strict=True)
    ]


def affine(rows: AffineRows, i: int, point: list[arb]) -> arb:
    slopes = [arb(float(s)) * x for s, x in zip(rows.slopes[i], point, strict=True)]
    return sum(slopes, arb(float(rows.offsets[i])))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("is_hard", [False, True])
def test_a_bank_encloses_value_slopes_and_curvatures(seed, is_hard):
    rng = np.random.default_rng(seed)
    k, n = 1 + seed % 2, 60
    cold = 10.0 ** rng.uniform(0, 3)
    logits = AffineRows(cold * rng.normal(size=(n, k)), cold * rng.normal(size=n))
    factors = rng.normal(size=n) / cold
    values = AffineRows(rng.normal(size=(n, k)), rng.normal(size=n))
    if is_hard:
        values = AffineRows(logits.slopes * factors[:, None], logits.offsets * factors)
    pairs = boxes(rng, k, 0.05)
    centre, box = Bank(logits, values, is_hard).twin(pairs)
    before, ctx.prec = ctx.prec, 120
    try:
        for b in range(0, 40, 3):
            for jet, point in (
                (centre, [arb(float(j.mid[0, b])) for _, j in pairs]),
                (box, sampled(rng, pairs, b)),
            ):
                value, slope, bend = arb(0), arb(0), arb(0)
                for i in range(n):
                    logit, height = affine(logits, i, point), affine(values, i, point)
                    g, s = arb(float(logits.slopes[i, 0])), arb(float(values.slopes[i, 0]))
                    if is_hard:
                        on = int(bool(logit > 0))
                        value, slope = value + on * height, slope + on * s
                        continue
                    gate = 1 / (1 + (-logit).exp())
                    steep = gate * (1 - gate)
                    value += gate * height
                    slope += gate * s + steep * g * height
                    bend += steep * (1 - 2 * gate) * g * g * height + 2 * steep * g * s
                assert inside(value, jet, 0, b)
                assert inside(slope, jet, 1, b)
                if jet is box:
                    assert inside(bend, jet, 1 + k, b)
    finally:
        ctx.prec = before


@pytest.mark.parametrize("seed", SEEDS)
def test_a_large_mean_encloses_value_slope_and_curvature(seed):
    """Nearest points on a line, whose logits grow without bound and share nearly all of it."""
    rng = np.random.default_rng(seed)
    n, cold = 300, 10.0 ** rng.uniform(4.5, 6)
    points = np.sort(rng.uniform(-1.3, 1.3, size=n))
    slopes, offsets = cold * (points - points[0]), -cold * (points**2 - points[0] ** 2) / 2
    values = rng.normal(size=n)
    mean = LargeMean.beside(slopes[1:, None], offsets[1:], values[1:] - values[0])
    pairs = boxes(rng, 1, 1e-3)
    centre, box = mean.twin(pairs)
    assert np.isfinite(box.rad).all()
    before, ctx.prec = ctx.prec, 200
    try:
        for b in range(0, 40, 3):
            for jet, (x,) in (
                (centre, [arb(float(pairs[0][1].mid[0, b]))]),
                (box, sampled(rng, pairs, b)),
            ):
                logits = [
                    arb(float(s)) * x + arb(float(o))
                    for s, o in zip(mean.slopes[:, 0], mean.offsets, strict=True)
                ]
                top = max(logits, key=lambda v: float(v.mid()))
                powers = [(v - top).exp() for v in logits]
                whole = sum(powers, arb(0))
                w = [p / whole for p in powers]
                g, v = (
                    [arb(float(s)) for s in mean.slopes[:, 0]],
                    [arb(float(h)) for h in mean.values],
                )
                m = sum((a * b for a, b in zip(w, g, strict=True)), arb(0))
                o = sum((a * b for a, b in zip(w, v, strict=True)), arb(0))
                slope = sum(
                    (a * (c - o) * (d - m) for a, c, d in zip(w, v, g, strict=True)), arb(0)
                )
                bend = sum(
                    (a * (c - o) * (d - m) * (d - m) for a, c, d in zip(w, v, g, strict=True)),
                    arb(0),
                )
                assert inside(o, jet, 0, b)
                assert inside(slope, jet, 1, b)
                if jet is box:
                    assert inside(bend, jet, 2, b)
    finally:
        ctx.prec = before


def test_a_large_mean_is_as_narrow_as_its_neighbours_allow():
    """2,000 points: a box between two of them sees these, not the slope that all logits share."""
    points = np.linspace(-1, 1, 2001)
    slopes, offsets = 4e7 * (points + 1), -4e7 * (points**2 - 1) / 2
    mean = LargeMean.beside(slopes[1:, None], offsets[1:], points[1:] ** 2 - 1)
    shape = Shape(1, 2)
    middle = np.array([[0.3003]])
    mid, rad = np.zeros((3, 1)), np.zeros((3, 1))
    mid[0], mid[1], rad[0] = middle, 1.0, 1e-5
    variable = Jet(mid[:2], 0.0 * rad[:2], Shape(1, 1)), Jet(mid, rad, shape)
    _, box = mean.twin([variable])
    assert abs(box.mid[0, 0] - (0.3**2 - 1)) < 1e-6
    assert box.rad[0, 0] < 1e-6


def test_a_variable_that_is_merely_added_is_searched_with_its_factor():
    """|3 x| on [-1, 1] is 3: a functional of one variable is that variable only if it says so."""
    graph = Graph()
    x, y = graph.variable(-1.0, 1.0), graph.variable(-1.0, 1.0)
    for form in (x.scaled(fmpq(3)), x.scaled(fmpq(3)) + graph.relu(y)):
        problem = pose(graph, form, 10.0)
        found = Search(problem, Clock(Budget.of("5e6 work")), enough=math.inf, tolerance=0.01).run()
        exact = 3.0 if form.atoms.keys() == x.atoms.keys() else 4.0
        assert exact <= found.certified <= 1.02 * exact
        assert SmallBoxes(graph, Clock(Budget.of("5e6 work"))).bound(form, 10.0) >= exact


def test_a_wrong_slope_is_not_proved():
    """3 z for z, claimed to within 1: the error is 2 at the ends."""
    target = Function.parse("z")
    domain = hm.Box([-1.0], [1.0])
    source = VectorInput([[[3.0]]], [[0.0]])
    model = Transformer(source, [], ReadOut([[1.0]], [0.0]))
    claim = Claim(target, domain, [Share("approximation", "z", 1.0)])
    assert certify(Construction(model, claim, None, "by hand")).verdict is Verdict.REFUTED


# ---- cuts --------------------------------------------------------------------------------------


def small(graph: Graph) -> SmallBoxes:
    return SmallBoxes(graph, Clock(Budget.of("2e7 work")))


def bottleneck(graph: Graph, x: Form, y: Form) -> tuple[Form, Form]:
    """(x + r)^2/4 - (x - r)^2/4 by two gates each, where r is a sum of gates of y; and x r(y)."""
    r = graph.gate(y.scaled(fmpq(2)), constant(ONE)) + graph.gate(y.scaled(fmpq(5)), constant(ONE))
    deep = constant(fmpq(0))
    for side in (ONE, -ONE):
        u = x + r.scaled(side)
        for knot in (-2, -1, 0, 1):
            gate = graph.gate((u - constant(fmpq(knot))).scaled(fmpq(8)), u)
            deep = deep + gate.scaled(side * fmpq(1, 40))
    exact = graph.times(x, r)
    return deep, exact


def test_a_cut_bounds_what_a_search_bounds():
    graph = Graph()
    x, y = graph.variable(-1.0, 1.0), graph.variable(-1.0, 1.0)
    deep, exact = bottleneck(graph, x, y)
    by_search = small(graph).at_once(deep - exact, 10.0)
    by_cut = bound_by_cut(small(graph), deep, exact, 10.0)
    points = np.random.default_rng(0).uniform(-1, 1, size=(2, 4000))
    tape = pose(graph, deep - exact, math.inf)
    seen = enclose(tape.tape, tape.rows @ points, tape.rows @ points).least.max()
    assert seen <= by_search * (1 + 1e-9)
    assert seen <= by_cut <= 4 * by_search


def test_a_cut_that_cannot_do_gives_up():
    graph = Graph()
    x, y = graph.variable(-1.0, 1.0), graph.variable(-1.0, 1.0)
    deep, exact = bottleneck(graph, x, y)
    assert bound_by_cut(small(graph), deep, exact, 1e-6) == math.inf


# ---- forms that never lead ---------------------------------------------------------------------

numbers = st.integers(-8, 8).map(lambda n: fmpq(n, 4))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(numbers, numbers, numbers), min_size=2, max_size=5))
def test_the_excess_bounds_how_far_a_form_leads(rows):
    graph = Graph()
    x, y = graph.variable(-1.0, 1.0), graph.variable(-1.0, 2.0)
    forms = [x.scaled(a) + y.scaled(b) + constant(c) for a, b, c in rows]
    found = excess(forms[0], forms[1:], graph.range)
    grid = np.stack(np.meshgrid(np.linspace(-1, 1, 9), np.linspace(-1, 2, 13)), -1).reshape(-1, 2)
    values = np.array([[float(a), float(b)] for a, b, _ in rows]) @ grid.T
    values += np.array([[float(c)] for *_, c in rows])
    leads = float((values[0] - values[1:].max(axis=0)).max())
    assert found >= leads - 1e-9


def test_a_form_below_a_mixture_never_leads():
    """0 lies below max(x, -x) + 0.1, though below neither: half of each shows it."""
    graph = Graph()
    x = graph.variable(-1.0, 1.0)
    others = [x + constant(rational(0.1)), -x + constant(rational(0.1))]
    assert excess(constant(fmpq(0)), others, graph.range) == 0.0
    assert excess(constant(rational(0.2)), others, graph.range) == pytest.approx(0.1)


def test_a_softmax_is_recognised_in_its_exponentials():
    graph = Graph()
    x, y = graph.variable(-1.0, 1.0), graph.variable(-1.0, 1.0)
    ex, ey = graph.apply("exp", x), graph.apply("exp", y)
    share = graph.times(ex, graph.apply("reciprocal", ex + ey))
    assert share == graph.mean([x, y], [constant(ONE), constant(fmpq(0))])
    twice = graph.times(ex.scaled(fmpq(2)), graph.apply("reciprocal", ex + ey))
    assert twice == share.scaled(fmpq(2))
    sigmoid = graph.apply("reciprocal", constant(ONE) + graph.apply("exp", -x))
    assert sigmoid == graph.apply("sigmoid", x)
    other = graph.times(ex, graph.apply("reciprocal", ex + ey.scaled(fmpq(2))))
    assert other != share
