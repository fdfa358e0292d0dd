"""Hard cases: errors below what floats resolve, targets without steps, proofs that contradict."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from flint import fmpq

import hardmax as hm
from hardmax.checker import Verdict, certify
from hardmax.checker._budget import Budget, Clock
from hardmax.checker.boxes._ball_series import Line, bound_by_series
from hardmax.checker.boxes._compile_tape import pose
from hardmax.checker.forms._bodies import ONE
from hardmax.checker.forms._forms import Form, constant
from hardmax.checker.forms._graph import Graph
from hardmax.checker.reals import _methods
from hardmax.core import Claim, Construction, Share
from hardmax.testing import zoo


def on_a_line(low: float, high: float) -> tuple[Graph, Form]:
    graph = Graph()
    return graph, graph.variable(low, high)


def in_balls(graph: Graph, form: Form, enough: float) -> float:
    problem = pose(graph, form, math.inf)
    assert problem.dimension == 1
    line = Line(problem.exact, problem.low[0], problem.high[0])
    return bound_by_series(line, enough, Clock(Budget.of("2e7 work")))


def test_the_bound_is_attained():
    """|x^3| on [-1, 2] is 8 at the end."""
    graph, x = on_a_line(-1.0, 2.0)
    cube = graph.apply("power", x, 3)
    assert 8.0 <= in_balls(graph, cube, 8.0001) <= 8.0001
    assert in_balls(graph, cube, 7.9999) == math.inf


@pytest.mark.parametrize(
    ("name", "low", "high", "largest"),
    [
        ("exp", 0.0, 1.0, math.e),
        ("sin", -1.0, 1.0, math.sin(1)),
        ("cos", -1.0, 1.0, 1.0),
        ("tan", -1.0, 1.0, math.tan(1)),
        ("log", 1.0, 4.0, math.log(4)),
        ("sqrt", 1.0, 4.0, 2.0),
        ("reciprocal", 0.5, 1.0, 2.0),
        ("sigmoid", -4.0, 3.0, 1 / (1 + math.exp(-3))),
        ("tanh", -2.0, 1.0, math.tanh(2)),
        ("relu", -2.0, 1.0, 1.0),
        ("abs", -2.0, 1.0, 2.0),
    ],
)
def test_every_function_is_followed(name, low, high, largest):
    graph, x = on_a_line(low, high)
    found = in_balls(graph, graph.apply(name, x), 1.02 * largest)
    assert largest * (1 - 1e-12) <= found <= 1.02 * largest


def test_what_cancels_is_seen_far_below_the_noise_of_floats():
    """sin(x + t) - sin(x) cos(t) - cos(x) sin(t) with rational stand-ins: 1e-20 and no more."""
    graph, x = on_a_line(-1.0, 1.0)
    tiny = fmpq(1, 10**20)
    shifted = graph.apply("sin", x + constant(tiny))
    found = in_balls(graph, shifted - graph.apply("sin", x), 1.01e-20)
    assert 0.99e-20 <= found <= 1.01e-20


def test_means_and_maxima_are_followed():
    graph, x = on_a_line(-1.0, 1.0)
    mean = graph.mean([x, -x, constant(ONE)], [x, -x, constant(fmpq(1, 2))])
    assert in_balls(graph, mean, 1.0) <= 1.0
    largest = graph.maximum([x, -x, constant(fmpq(1, 2))])
    assert 1.0 <= in_balls(graph, largest, 1.01) <= 1.01


def test_a_claim_of_rounding_alone_is_proved():
    construction = hm.compile("tanh(3*x)", on={"x": (-1, 1)}, error=1e-2, route="direct")
    assert construction.claim.error < 1e-13
    assert certify(construction).verdict is Verdict.PROVED


# ---- targets without steps ---------------------------------------------------------------------


def callable_sine(**bounds: float) -> Construction:
    target = hm.CallableFunction(np.sin, ["x"], **bounds)
    return hm.compile(target, on={"x": (-1, 1)}, error=1e-2)


@pytest.mark.parametrize("bounds", [{"lipschitz": 1.0}, {"second_derivative": 1.0}])
def test_a_python_function_is_proved_from_its_bounds(bounds):
    certificate = certify(callable_sine(**bounds))
    assert certificate.verdict is Verdict.PROVED
    assert 0 < certificate.measured <= certificate.certified <= certificate.claimed
    assert any("user gave" in text for text in certificate.assumptions)


def test_a_python_function_is_refuted_where_it_is_missed():
    construction = callable_sine(lipschitz=1.0)
    claim = construction.claim
    small = Claim(claim.target, claim.domain, [Share("approximation", "x", 1e-3)])
    certificate = certify(replace(construction, claim=small))
    assert certificate.verdict is Verdict.REFUTED
    (x,) = certificate.worst
    assert abs(float(construction([x])[0]) - math.sin(x)) > 1e-3


# ---- what must never happen --------------------------------------------------------------------


def test_a_proof_that_a_measured_error_contradicts_is_no_proof(monkeypatch):
    construction = hm.compile("sin(x)", on={"x": (-1, 1)}, error=1e-2, route="direct")
    monkeypatch.setattr(_methods, "_bound_of", lambda _, found, *__: 0.5 * found.measured)
    certificate = certify(construction)
    assert certificate.verdict is Verdict.UNDECIDED
    assert "report" in certificate.advice


def test_a_row_about_a_coordinate_that_was_seen_before_is_verified_all_the_same():
    """A holding is moved to a coordinate that other rows speak of: false, and rejected."""
    construction = zoo()["maxout 4-16-16-1 (attention, hard)"].construction
    assert construction.witness is not None
    holdings = list(construction.witness.holdings)
    place = max(i for i, h in enumerate(holdings) if h.sublayer >= 0)
    holding = holdings[place]
    others = [h.coordinates for h in holdings if h is not holding and h.token == holding.token]
    pool = set(np.concatenate(others).tolist()) - set(holding.coordinates.tolist())
    coordinates = holding.coordinates.copy()
    coordinates[0] = min(pool)
    holdings[place] = replace(holding, coordinates=coordinates)
    false = replace(construction.witness, holdings=holdings)
    certificate = certify(replace(construction, witness=false), budget="2e6 work")
    assert certificate.method != "steps"


@pytest.mark.parametrize("text", ["x*y", "exp(x)*y", "exp(y)/(exp(x)+exp(y))", "max(x,y)"])
@pytest.mark.parametrize("y", [(0.5, 1.0), (0.5, 0.5)])
def test_a_side_of_the_domain_may_be_a_point(text, y):
    """What is fixed is a number, not a variable: nothing is lost to the rounding of floats."""
    construction = hm.compile(text, on={"x": (0.3, 0.3), "y": y}, error=1e-3)
    assert certify(construction).verdict is Verdict.PROVED
