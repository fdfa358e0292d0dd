"""Models and forms at which the checker once fell over, gave up or contradicted itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import fmpq

import hardmax as hm
from hardmax.checker import Verdict, certify
from hardmax.checker._budget import Budget, Clock
from hardmax.checker.boxes import SmallBoxes, bound_by_cut, bound_by_parts
from hardmax.checker.forms import Graph, constant, rational, total
from hardmax.core import (
    Claim,
    Construction,
    FeedForward,
    ReadOut,
    Share,
    Transformer,
    VectorInput,
    Witness,
)
from hardmax.languages import Function


def layer(inner: np.ndarray, bias: np.ndarray, outer: np.ndarray) -> FeedForward:
    return FeedForward(inner, bias, outer, np.zeros(len(outer)))


def claimed(layers, read, target, inputs: int, error: float) -> Construction:
    """One token that starts as the input, claimed on [-1, 1]^inputs."""
    width = len(read)
    maps = np.zeros((1, width, inputs))
    maps[0, :inputs] = np.eye(inputs)
    source = VectorInput(maps, np.zeros((1, width)))
    model = Transformer(source, layers, ReadOut(np.array([read]), np.zeros(1), 0))
    box = hm.Box([-1.0] * inputs, [1.0] * inputs)
    claim = Claim(target, box, [Share("approximation", "by hand", error)])
    return Construction(model, claim, Witness([]), "by hand")


def small(graph: Graph) -> SmallBoxes:
    return SmallBoxes(graph, Clock(Budget.of("2e7 work")))


@pytest.mark.parametrize("tolerance", [None, 0.1])
def test_a_side_may_have_more_dimensions_than_the_error(tolerance):
    """Six inputs, and an error that depends on two of them: no cut is made through all six."""
    d, teeth = 6, 8
    width = d + 12
    names = [f"x{i}" for i in range(d)]
    inner = "+".join(f"relu({name})" for name in names)
    text = "+".join(f"relu({inner}-{k + 1}/2)" for k in range(teeth))
    first = np.zeros((d + 3, width))
    first[:d, :d] = np.eye(d)
    first[d:, :2] = [[1, 1], [1, -2], [3, 1]]
    outer = np.zeros((width, d + 3))
    outer[d, :d], outer[d + 1, d:] = 1, [1, -1, 0.5]
    second, last = np.zeros((teeth, width)), np.zeros((width, teeth))
    second[:, d], last[d + 2] = 1, 1
    layers = [
        layer(first, np.array([0.0] * d + [0.1, 0.2, -0.3]), outer),
        layer(second, -np.arange(1, teeth + 1) / 2, last),
    ]
    read = np.zeros(width)
    read[d + 2], read[d + 1] = 1, 1e-3
    model = claimed(layers, read, Function.parse(text, names), d, 8e-3)
    found = certify(model, budget="2e7 work", tolerance=tolerance)
    assert found.verdict is not Verdict.REFUTED
    assert found.measured == pytest.approx(3.95e-3, rel=1e-2)


@pytest.mark.parametrize("tolerance", [None, 0.1])
def test_a_weight_that_floats_cannot_follow_ends_nothing(tolerance):
    """1e-290 is dust beside everything else; where it is not swept, that way is left."""
    width, teeth = 6, 8
    inner = "relu(x)+relu(y)+relu(x+2*y)/4"
    target = Function.parse(f"relu({inner}-1/2)+relu({inner}-1/4)", ["x", "y"])
    first = np.zeros((4, width))
    first[:, :2] = [[1, 1e-290], [0, 1], [1, 0], [1, 2]]
    outer = np.zeros((width, 4))
    outer[2] = [0.5, 1, 0.5, 0.25]
    bias = -np.linspace(0.1, 1, teeth)
    bias[:2] = -0.5, -0.25
    second, last = np.zeros((teeth, width)), np.zeros((width, teeth))
    second[:, 2], last[3], last[3, :2] = 1, 1e-3, 1
    layers = [layer(first, np.zeros(4), outer), layer(second, bias, last)]
    read = np.zeros(width)
    read[3] = 1
    found = certify(
        claimed(layers, read, target, 2, 0.0162), budget="2e7 work", tolerance=tolerance
    )
    assert found.verdict is not Verdict.REFUTED
    assert found.measured <= 0.0125


@pytest.mark.parametrize("side", [0.25, 1e-300, 0.0, -0.0, 5e-324])
def test_a_fixed_side_of_any_size(side):
    target = hm.CallableFunction(lambda x, y: x + y * 0.5, ["x", "y"], lipschitz=2.0)
    maps = np.zeros((1, 2, 2))
    maps[0] = np.eye(2)
    source = VectorInput(maps, np.zeros((1, 2)))
    model = Transformer(source, [], ReadOut(np.array([[1.0, 0.5]]), np.zeros(1), 0))
    claim = Claim(target, hm.Box([side, -1.0], [side, 1.0]), [Share("approximation", "", 0.2)])
    found = certify(Construction(model, claim, Witness([]), "by hand"), budget="2e7 work")
    assert found.verdict is Verdict.PROVED


def test_a_range_that_is_attained_is_found_at_once():
    """Nothing can be below what is attained: the search must not try."""
    graph = Graph()
    x, y = graph.variable(-1.0, 1.0), graph.variable(-1.0, 1.0)
    parts = [(fmpq(1), graph.relu(x)), (fmpq(1), graph.relu(y))]
    wide = graph.relu(x + y.scaled(fmpq(2)))
    boxes = small(graph)
    low, high = boxes.reach(total([*parts, (fmpq(1, 4), wide)]))
    assert -1e-12 <= low <= 0.0
    assert 2.75 <= high <= 2.76
    assert boxes.boxes < 50_000


def test_balls_do_not_contradict_what_a_shift_rounds():
    """C + small, with a C that no float is: what that rounds is in the slack."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        graph = Graph()
        x, y = graph.variable(0.0, 1.0), graph.variable(0.0, 1.0)
        large = fmpq(int(rng.integers(1, 10**9)), 3) * int(10 ** rng.integers(0, 4))
        size = rational(float(10 ** rng.uniform(-5, -1)))
        kinks = [graph.relu(v - constant(fmpq(1, 2))).scaled(size) for v in (x, y)]
        form = kinks[0] + kinks[1] + constant(large)
        clock = Clock(Budget.of("5e6 work"))
        found, _ = bound_by_parts(graph, form, float(large) + 1.0, clock)
        assert float(large) <= found <= (float(large) + 1.0) * (1 + 1e-9)


def test_squares_that_overflow_make_no_cut():
    graph = Graph()
    x, y = graph.variable(300.0, 400.0), graph.variable(300.0, 400.0)
    sums = graph.apply("exp", x) + graph.apply("exp", y)
    scale = math.exp(400)
    teeth = [graph.relu(sums - constant(rational(scale * k / 4))) for k in range(8)]
    ours = total([(rational(1 / scale / 8), tooth) for tooth in teeth])
    theirs = graph.apply("exp", x - constant(rational(400.0)))
    assert bound_by_cut(small(graph), ours, theirs, 0.1) == math.inf
