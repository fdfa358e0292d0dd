"""Derivatives and substitution of forms, and deviations carried at the target's own values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import fmpq

from hardmax.checker._budget import Budget, Clock
from hardmax.checker.boxes import SmallBoxes
from hardmax.checker.boxes._compile_tape import pose
from hardmax.checker.boxes._tape import run
from hardmax.checker.boxes._tidy import tidied
from hardmax.checker.forms import (
    ONE,
    Form,
    Gradient,
    Graph,
    NoGradient,
    Substituted,
    constant,
    rational,
)
from hardmax.checker.steps._carried import carried_at_truth


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


def test_substitution_reaches_into_atoms():
    graph = Graph()
    x, h = graph.variable(0.0, 1.0), graph.variable(1.0, 3.0)
    form = graph.times(h, graph.apply("reciprocal", h + constant(ONE)))
    ex = graph.apply("exp", x)
    expected = graph.times(ex, graph.apply("reciprocal", ex + constant(ONE)))
    assert Substituted(graph, {1: ex}).form(form) == expected


def small(graph: Graph) -> SmallBoxes:
    return SmallBoxes(graph, Clock(Budget.of("20s")))


def test_values_that_hang_together_move_a_quotient_less():
    """h/(h + k) at h = e^x, k = e^y: slopes are at most 1/(4 h), not those of a free h and k."""
    graph = Graph()
    x, y = graph.variable(-2.0, 2.0), graph.variable(-2.0, 2.0)
    low, high = math.exp(-2) - 1e-5, math.exp(2) + 1e-5
    h, k = graph.variable(low, high), graph.variable(low, high)
    quotient = graph.times(h, graph.apply("reciprocal", h + k))
    truths = {2: graph.apply("exp", x), 3: graph.apply("exp", y)}
    off = {2: 1e-5, 3: 1e-5}
    found = carried_at_truth(small(graph), quotient, off, truths, 1e-4)
    # at x = y = -2: |V_h| = |V_k| = 1/(4 e^-2), the supremum of (h + k)/(h + k)^2
    exact = 2 * 1e-5 / (4 * math.exp(-2))
    assert exact <= found <= 1.02 * exact


def test_without_truths_or_room_nothing_is_carried():
    graph = Graph()
    x = graph.variable(0.0, 1.0)
    h = graph.variable(0.0, 1.0)
    square = graph.times(h, h)
    assert carried_at_truth(small(graph), square, {1: 0.1}, {}, 1.0) == math.inf
    assert carried_at_truth(small(graph), square, {1: 0.1}, {1: x}, 0.1) == math.inf
    assert 0.2 <= carried_at_truth(small(graph), square, {1: 0.1}, {1: x}, 1.0) <= 0.22


def test_dust_is_swept_where_it_cannot_matter():
    """sigmoid(x + 1e-15 y) is sigmoid(x), up to a quarter of 1e-15."""
    graph = Graph()
    x, y = graph.variable(-1.0, 1.0), graph.variable(-1.0, 1.0)
    form = graph.gate(x + y.scaled(rational(1e-15)), constant(ONE))
    clean, change = tidied(graph, form, 1e-3)
    assert clean == graph.gate(x, constant(ONE))
    assert 0.25e-15 * (1 - 1e-9) <= change <= 0.26e-15
    assert tidied(graph, form, 1e-13)[0] == form
