"""Roots of computed numbers at 0: built with an honest error, and proved where boxes can."""

from __future__ import annotations

import numpy as np
import pytest

import hardmax as hm
from hardmax.core import Box
from hardmax.languages import evaluate, parse
from hardmax.lowering.graph import analyse, build_graph, softened, softening
from hardmax.lowering.graph._nodes import CurveNode
from hardmax.lowering.graph._on_domain import soft_curve

SQUARE = {"x": (-1, 1), "y": (-1, 1)}
T = hm.variable("t")


@pytest.mark.parametrize("text", ["sqrt(x**2 + y**2)", "exp(-norm(x, y))"])
def test_lipschitz_compositions_at_a_singular_point_are_proved(text):
    model = hm.compile(text, on=SQUARE, error=2e-2)
    assert hm.certify(model).verdict is hm.Verdict.PROVED
    near = np.random.default_rng(0).uniform(-1e-3, 1e-3, (200, 2))
    truth = np.asarray(model.claim.target(near))
    assert np.abs(np.stack([model(p) for p in near]) - truth).max() <= model.claim.error


@pytest.mark.parametrize(
    ("text", "on"),
    [
        ("sqrt(x*y)", {"x": (0, 1), "y": (0, 1)}),
        ("sqrt(x**4 + y**2)", SQUARE),
        ("(x**2 + y**2)**(1/3)", SQUARE),
    ],
)
def test_roots_of_computed_numbers_are_built_within_their_claim(text, on):
    """Also those that are steep indeed: the claim has room for the modulus of continuity."""
    model = hm.compile(text, on=on, error=3e-2)
    assert model.claim.error <= 3e-2
    assert hm.measure(model, 4000).error <= model.claim.error


@pytest.mark.parametrize("allowed", [1e-1, 1e-3, 1e-6])
@pytest.mark.parametrize("curve", ["sqrt(t)", "exp(-sqrt(t))", "t**(1/3)", "2*sqrt(t) + t"])
def test_soft_curves_are_as_far_off_as_they_say(curve, allowed):
    (exactly,) = parse(curve)
    soft, given = soft_curve(exactly, (0.0, 2.0), allowed)
    t = np.concatenate([[0.0], np.geomspace(1e-20, 2.0, 4000)])
    off = np.abs(evaluate(soft, {"t": t}) - evaluate(exactly, {"t": t})).max()
    assert 0.5 * given <= off <= given <= 1.5 * allowed
    assert np.isfinite(evaluate(soft, {"t": np.array([-1e-3])})).all()


def test_a_curve_that_does_not_reach_zero_is_left_alone():
    assert soft_curve(hm.sqrt(T), (0.5, 2.0), 1e-3) is None
    assert soft_curve(hm.exp(T), (-1.0, 2.0), 1e-3) is None


@pytest.mark.parametrize("text", ["sqrt(x)", "sqrt(x + y)", "sqrt(1 + x*y)", "x*y", "sqrt(x)*y"])
def test_graphs_without_such_roots_stay_the_same_object(text):
    graph = build_graph(parse(text), ["x", "y"])
    domain = Box([0.0, 0.0], [1.0, 1.0])
    assert softened(graph, domain, 1e-3) is graph
    assert softening(graph, domain) == 0.0


def test_softening_is_part_of_every_bound():
    """What roots are given off is there when nothing else is, and adds to what else there is."""
    domain = Box([-1.0, -1.0], [1.0, 1.0])
    graph = softened(build_graph(parse("3*norm(x, y)"), ["x", "y"]), domain, 1e-2)
    (given,) = [node.given for node in graph.nodes if isinstance(node, CurveNode) and node.given]
    assert given <= softening(graph, domain) <= 1.01 * given <= 0.6e-2
    analysis = analyse(graph, domain)
    errors = {i: 1e-6 for i in range(len(graph.nodes)) if i > 1}
    assert analysis.total(errors)[0] > softening(graph, domain)
    assert analysis.off_by(np.zeros(len(graph.nodes)))[-1] >= given
    assert all(np.isfinite(size).all() for sizes in analysis.partials for size in sizes)
