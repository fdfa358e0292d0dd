"""Derivatives of forms, how far deviations move a step, and the dust of rounded weights."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from flint import fmpq

import hardmax as hm
from hardmax.checker._budget import Budget, Clock
from hardmax.checker.boxes import SmallBoxes, _search
from hardmax.checker.boxes._compile_tape import pose
from hardmax.checker.boxes._cuts import _factored, _written
from hardmax.checker.boxes._few_variables import tidied
from hardmax.checker.boxes._search import Leaf, contradicted
from hardmax.checker.boxes._tape import enclose, run
from hardmax.checker.forms import (
    ONE,
    ZERO,
    Form,
    Gradient,
    Graph,
    NoGradient,
    constant,
    rational,
    total,
)
from hardmax.checker.steps._contests import split
from hardmax.checker.steps._rows import movement
from hardmax.checker.steps._validate import Validation


def value(graph: Graph, form: Form, **at: float) -> float:
    """A form of variables 0, 1, ... at a point, roughly."""
    problem = pose(graph, form, math.inf)
    point = np.array([[at[f"v{a}"]] for a in problem.variables])
    twin, _ = run(problem.tape, problem.rows @ point, problem.rows @ point)
    return float(twin.centre.mid[0, 0])


NAMES = ("exp", "log", "reciprocal", "sqrt", "sin", "cos", "tan", "sigmoid", "tanh")


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_are_those_of_small_steps(name):
    graph = Graph()
    x, y = graph.variable(0.5, 1.0), graph.variable(-1.0, 1.0)
    inner = x.scaled(fmpq(1, 2)) + constant(fmpq(1, 3))
    form = graph.times(graph.apply(name, inner), y + graph.apply("power", x, 3))
    slope = Gradient(graph, 0).form(form)
    for a, b in ((0.6, 0.3), (0.9, -0.8)):
        h = 1e-6
        steps = [value(graph, form, v0=a + s, v1=b) for s in (h, -h)]
        assert value(graph, slope, v0=a, v1=b) == pytest.approx(
            (steps[0] - steps[1]) / (2 * h), 1e-7
        )
    assert Gradient(graph, 1).form(form) == graph.apply(name, inner)


def test_what_bends_has_no_gradient():
    graph = Graph()
    x = graph.variable(-1.0, 1.0)
    with pytest.raises(NoGradient):
        Gradient(graph, 0).form(graph.relu(x))


def small(graph: Graph) -> SmallBoxes:
    return SmallBoxes(graph, Clock(Budget.of("2e7 work")))


def test_a_square_is_moved_by_exactly_what_is_said():
    """h^2 - (h - d)^2 at d = -D is -(2 h D + D^2): both terms of the bound, added."""
    graph = Graph()
    h = graph.variable(0.0, 1.0)
    (share,), second = movement(graph, graph.times(h, h), {0: 0.125})
    assert share == h.scaled(rational(0.25))
    assert 0.125**2 <= second <= 0.125**2 * (1 + 1e-8)


def test_variables_with_one_slope_move_together():
    graph = Graph()
    h, k = graph.variable(0.0, 1.0), graph.variable(0.0, 1.0)
    shares, second = movement(graph, graph.apply("exp", h + k), {0: 0.25, 1: 0.5})
    assert shares == [graph.apply("exp", h + k).scaled(rational(0.75))]
    assert second >= 0.5 * math.exp(2.0) * 0.75**2


def test_a_quotient_is_moved_as_much_as_its_slopes_say_at_one_point():
    """h/(h + k): |V_h| + |V_k| = 1/(h + k), largest in the lower corner."""
    graph = Graph()
    low, high = math.exp(-2), math.exp(2)
    h, k = graph.variable(low, high), graph.variable(low, high)
    quotient = graph.times(h, graph.apply("reciprocal", h + k))
    shares, second = movement(graph, quotient, {0: 1e-5, 1: 1e-5})
    found = small(graph).bound_sum(shares, 1e-4)
    exact = 1e-5 / (2 * low)
    assert exact <= found <= 1.11 * exact  # sums are bounded roughly
    assert second <= 1e-2 * exact


def test_too_many_slopes_are_not_followed():
    graph = Graph()
    names = [graph.variable(1.0, 2.0) for _ in range(5)]
    form = total([(ONE, graph.times(name, name)) for name in names])
    assert movement(graph, form, dict.fromkeys(range(5), 0.1)) == ([], math.inf)


def test_absolute_values_are_added_before_they_are_searched():
    """|x| + |1 - x| on [0, 2] is 3 at most; apart, 2 + 1; |x| + |2 - x| is 2, apart 4."""
    graph = Graph()
    x = graph.variable(0.0, 2.0)
    one, two = (constant(rational(v)) - x for v in (1.0, 2.0))
    boxes = small(graph)
    assert boxes.bound_sum([x, one], 5.0) == pytest.approx(3.0)
    assert boxes.bound_sum([x, two], 5.0) == pytest.approx(2.0)
    assert boxes.bound_sum([x, two], 1.9) == math.inf


@pytest.mark.parametrize("mixed", [False, True])
def test_factors_are_the_quadratic(mixed):
    """a u^2 + b v^2 + ... and a u v + ..., as products: the same numbers."""
    graph = Graph()
    u, v = graph.variable(-1.0, 2.0), graph.variable(0.5, 3.0)
    guess = {(): 0.7, (0,): -42.0, (1,): 47.0} | (
        {(0, 1): -3.25} if mixed else {(0, 0): 24.5, (1, 1): -30.55}
    )
    exact = {m: rational(c) for m, c in guess.items()}
    factored, written = (make(graph, exact, (u, v)) for make in (_factored, _written))
    for at in np.random.default_rng(0).uniform((-1.0, 0.5), (2.0, 3.0), size=(20, 2)):
        here = {"v0": at[0], "v1": at[1]}
        assert value(graph, factored, **here) == pytest.approx(value(graph, written, **here))


def test_dust_is_swept_where_it_cannot_matter():
    """sigmoid(x + 1e-15 y) is sigmoid(x), up to a quarter of 1e-15."""
    graph = Graph()
    x, y = graph.variable(-1.0, 1.0), graph.variable(-1.0, 1.0)
    form = graph.gate(x + y.scaled(rational(1e-15)), constant(ONE))
    clean, change = tidied(graph, form, 1e-3)
    assert clean == graph.gate(x, constant(ONE))
    assert 0.25e-15 * (1 - 1e-9) <= change <= 0.26e-15
    assert tidied(graph, form, 1e-13)[0] == form


def test_crumbs_of_a_coordinate_become_one_variable():
    """x + 2^-50 (three sines) is x + a leak, and the leak's range is theirs."""
    construction = hm.compile("x*y", on={"x": (-1, 1), "y": (-1, 1)}, error=1e-2, route="recipe")
    state = Validation(construction, Clock(Budget.of("2e7 work")))
    x, y = state.inputs
    sines = [state.graph.apply("sin", y.scaled(fmpq(k))) for k in (1, 2, 3)]
    crumb = fmpq(1, 2**50)
    swept = state._swept(x + total([(crumb, sine) for sine in sines]))
    (name,) = set(swept.atoms) - set(x.atoms)
    low, high = state.graph.bounds[name]
    width = 2.0**-50 * (math.sin(1.0) + 1.0 + 1.0)
    assert high >= width
    assert low <= -width
    assert high - low <= 6.01 * 2.0**-50
    known = state.verified
    deviation = known.deviations[np.array([known.index[name]])]
    assert deviation.high[0] >= width
    assert deviation.low[0] <= -width
    two = x + total([(crumb, sine) for sine in sines[:2]])
    assert state._swept(two) == two
    large = x + total([(fmpq(1, 2**20), sine) for sine in sines])
    assert state._swept(large) == large


def test_what_is_left_aside_of_a_row_is_counted():
    """x + 2^-30 (e^y + z): atoms and variables below the crumb, and exactly the sum of them."""
    graph = Graph()
    x, y, z = graph.variable(-1.0, 1.0), graph.variable(-1.0, 1.0), graph.variable(0.0, 2.0)
    tiny = fmpq(1, 2**30)
    form = x + total([(tiny, graph.apply("exp", y)), (tiny, z)])
    rest, atoms, (low, high) = split(graph, form, 2.0**-20)
    assert (rest, atoms) == (x, [])
    assert 2.0**-30 * math.exp(-1) * (1 - 1e-9) <= low <= 2.0**-30 * math.exp(-1)
    assert 2.0**-30 * (math.e + 2) <= high <= 2.0**-30 * (math.e + 2) * (1 + 1e-9)
    assert split(graph, form, 0.0)[2] == (0.0, 0.0)


# ---- leaves confirmed in balls -----------------------------------------------------------------


def posed(form: Form, graph: Graph):
    return pose(graph, form, 1.0)


def test_balls_agree_with_the_tape_everywhere():
    """All kinds of atoms at points: the tape's enclosure holds the ball."""
    graph = Graph()
    x, y = graph.variable(0.25, 2.0), graph.variable(-1.0, 1.5)
    one = constant(ONE)
    forms = [
        graph.gate(x - y, x + one),
        graph.mean([constant(ZERO), x, y.scaled(fmpq(3))], [one, x, y]),
        graph.relu(x - y),
        graph.maximum([constant(ZERO), x - y, y]),
        graph.times(x, graph.apply("reciprocal", x + one)),
        *(graph.apply(name, x) for name in NAMES),
    ]
    rng = np.random.default_rng(0)
    for form in forms:
        problem = posed(form, graph)
        share = rng.random((problem.dimension, 20))
        points = problem.low[:, None] * (1 - share) + problem.high[:, None] * share
        seen = enclose(problem.tape, points, points)
        for i in range(20):
            ball = problem.exact.at(points[:, i])
            assert seen.least[i] <= float(abs(ball).upper()) * (1 + 1e-15)
            assert float(abs(ball).lower()) <= seen.most[i] * (1 + 1e-15)


def test_a_leaf_that_says_too_little_is_contradicted():
    graph = Graph()
    x = graph.variable(0.0, 1.0)
    problem = posed(graph.apply("exp", x), graph)
    low, high = np.array([0.25]), np.array([0.5])
    assert not contradicted(problem, [Leaf(math.exp(0.5) * (1 + 1e-15), low, high)])
    assert contradicted(problem, [Leaf(math.exp(0.5) * (1 - 1e-9), low, high)])
    assert contradicted(problem, [Leaf(math.exp(0.25), low, high)])


def test_a_search_whose_arithmetic_went_wrong_has_no_bound(monkeypatch):
    """Bounds that are a hundredth of what they should be: balls notice."""
    graph = Graph()
    x, y = graph.variable(-1.0, 1.0), graph.variable(-1.0, 1.0)
    form = graph.times(x, graph.apply("exp", y))
    right = small(graph).at_once(form, 10.0)
    assert math.e <= right <= 1.01 * math.e

    def wrong(tape, low, high):
        seen = enclose(tape, low, high)
        return replace(seen, most=0.01 * seen.most, least=0.0 * seen.least)

    monkeypatch.setattr(_search, "enclose", wrong)
    assert small(graph).at_once(form, 10.0) == math.inf
    apart = graph.apply("exp", x) - graph.apply("sin", y)
    assert small(graph).by_parts(apart, 10.0) == math.inf
