"""The checker: proofs of what is true, refutations of what is not, and never the other way."""

from __future__ import annotations

import itertools
import math
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from distributed import Client
from flint import arb, fmpq

import hardmax as hm
from hardmax.checker import Verdict, certify
from hardmax.checker._balls import error_at_point
from hardmax.checker._budget import Budget, Clock
from hardmax.checker.boxes import _search
from hardmax.checker.boxes._compile_tape import pose
from hardmax.checker.boxes._search import Search
from hardmax.checker.boxes._tape import enclose
from hardmax.checker.forms._graph import Graph
from hardmax.checker.forms._written_out import TargetForms, Unrolled
from hardmax.checker.steps._deviations import Deviations, of_maximum
from hardmax.checker.steps._validate import Rejected, validate
from hardmax.core import Claim, Construction, Holding, Share, Witness
from hardmax.numerics import softmax_gap

SQUARE = {"x": (-1, 1), "y": (-1, 1)}


def whole(construction: Construction) -> tuple[Graph, list]:
    """The error of every output, written out."""
    claim, graph = construction.claim, Graph()
    ends = zip(claim.domain.low, claim.domain.high, strict=True)
    inputs = [graph.variable(float(a), float(b)) for a, b in ends]
    steps = claim.target.steps()
    goals = TargetForms(steps, graph, inputs).outputs()
    ours = Unrolled(construction.transformer, graph, inputs).outputs()
    return graph, [a - b for a, b in zip(ours, goals, strict=True)]


def network(*widths: int, seed: int = 0) -> hm.ReluNetwork:
    rng = np.random.default_rng(seed)
    pairs = list(itertools.pairwise(widths))
    return hm.ReluNetwork(
        [rng.normal(size=(b, a)) / np.sqrt(a) for a, b in pairs],
        [0.3 * rng.normal(size=b) for _, b in pairs],
    )


def maxout(*widths: int, seed: int = 0) -> hm.MaxoutNetwork:
    rng = np.random.default_rng(seed)
    pairs = list(itertools.pairwise(widths))
    return hm.MaxoutNetwork(
        [rng.normal(size=(3, b, a)) / np.sqrt(a) for a, b in pairs],
        [0.3 * rng.normal(size=(3, b)) for _, b in pairs],
    )


def with_claim(construction: Construction, error: float) -> Construction:
    claim = construction.claim
    return replace(
        construction, claim=Claim(claim.target, claim.domain, [Share("approximation", "x", error)])
    )


CASES = [
    ("x*y", SQUARE, ("direct", "direct-2", "recipe", "feedforward")),
    ("max(x,y)", SQUARE, ("direct", "feedforward")),
    ("sin(x)", {"x": (-1, 1)}, ("direct", "anchors", "recipe", "feedforward")),
    ("1/x", {"x": (0.25, 1)}, ("direct", "recipe")),
    ("exp(x*y) + abs(z)", {**SQUARE, "z": (-1, 1)}, ("direct",)),
    ("max(x,y)*min(x,z)", {**SQUARE, "z": (-1, 1)}, ("direct", "feedforward")),
]


@pytest.mark.parametrize(
    ("text", "on", "route"), [(text, on, route) for text, on, routes in CASES for route in routes]
)
def test_functions_are_proved_and_the_numbers_keep_their_order(text, on, route):
    construction = hm.compile(text, on=on, error=1e-2, route=route)
    certificate = certify(construction)
    assert certificate.verdict is Verdict.PROVED, certificate.advice
    assert certificate.measured <= certificate.certified <= certificate.claimed
    rng = np.random.default_rng(1)
    points = construction.claim.domain.sample(2000, rng)
    seen = np.abs(construction(points) - construction.claim.target(points)).max()
    assert seen <= certificate.certified * (1 + 1e-9) + 1e-15


@pytest.mark.parametrize("route", ["attention", "attention-only", "feedforward"])
@pytest.mark.parametrize("error", [1e-3, None])
def test_relu_networks_are_proved_from_their_witness(route, error):
    construction = hm.compile(network(10, 12, 12, 2), on=(-1, 1), error=error, route=route)
    certificate = certify(construction)
    assert certificate.verdict is Verdict.PROVED, certificate.advice
    assert certificate.method == "steps"


@pytest.mark.parametrize("route", ["attention", "attention-only"])
@pytest.mark.parametrize("error", [1e-3, None])
def test_maxout_networks_are_proved_from_their_witness(route, error):
    construction = hm.compile(maxout(10, 6, 6, 2), on=(-1, 1), error=error, route=route)
    certificate = certify(construction)
    assert certificate.verdict is Verdict.PROVED, certificate.advice
    assert certificate.method == "steps"


@pytest.mark.parametrize("route", ["direct", "recipe", "feedforward"])
def test_the_maximum_of_sixteen_is_proved(route):
    names = [f"x{i}" for i in range(16)]
    on = dict.fromkeys(names, (-1, 1))
    construction = hm.compile(f"max({','.join(names)})", on=on, error=1e-3, route=route)
    assert certify(construction).verdict is Verdict.PROVED


def test_a_product_of_six_is_proved_step_by_step():
    on = dict.fromkeys("abcdxy", (-1, 1))
    construction = hm.compile("a*b*c*d*x*y", on=on, error=1e-2, route="direct")
    certificate = certify(construction)
    assert certificate.verdict is Verdict.PROVED, certificate.advice
    assert certificate.method == "steps"


def test_hard_networks_are_the_target_as_forms():
    """Exactly: the difference of model and target is the form 0, whatever the weights are."""
    for route in ("attention", "attention-only", "feedforward"):
        construction = hm.compile(network(2, 3, 2), on=(-1, 1), error=None, route=route)
        _, errors = whole(construction)
        assert all(error.is_zero for error in errors)


def test_a_broken_weight_is_refuted_with_a_true_counterexample():
    construction = hm.compile("x*y", on=SQUARE, error=1e-3, route="direct")
    readout = construction.transformer.readout
    broken = replace(
        construction,
        transformer=replace_readout(construction, replace(readout, weights=readout.weights * 1.01)),
    )
    certificate = certify(broken)
    assert certificate.verdict is Verdict.REFUTED
    steps = broken.claim.target.steps()
    low, _ = error_at_point(broken.transformer, steps, certificate.counterexample)
    assert low > broken.claim.error
    assert certificate.measured == low


def replace_readout(construction: Construction, readout: hm.ReadOut) -> hm.Transformer:
    t = construction.transformer
    return hm.Transformer(t.input, t.sublayers, readout)


def test_a_claim_below_the_error_is_never_proved():
    construction = hm.compile("sin(x)", on={"x": (-1, 1)}, error=1e-3, route="recipe")
    sup = certify(construction, tolerance=0.001).measured
    assert certify(with_claim(construction, 0.999 * sup)).verdict is Verdict.REFUTED
    assert certify(with_claim(construction, 1.01 * sup)).verdict is Verdict.PROVED


def test_undecided_is_never_success():
    construction = hm.compile("x*y", on=SQUARE, error=1e-3, route="direct")
    sup = certify(construction, tolerance=0.001).measured
    certificate = certify(with_claim(construction, sup * (1 + 1e-13)), budget="2000 boxes")
    assert certificate.verdict is Verdict.UNDECIDED
    assert certificate.advice


@pytest.mark.parametrize("field", ["errors", "components", "coordinates", "value"])
def test_a_false_witness_is_rejected(field):
    construction = hm.compile(network(10, 12, 12, 2), on=(-1, 1), error=1e-3)
    holdings = list(construction.witness.holdings)
    index = next(i for i, h in enumerate(holdings) if h.sublayer == 1)
    holding = holdings[index]
    changed: dict = {
        "errors": holding.errors * 0.5,
        "components": np.roll(holding.components, 1, axis=0),
        "coordinates": np.roll(holding.coordinates, 1),
        "value": holding.value - 1,
    }
    holdings[index] = replace(holding, **{field: changed[field]})
    broken = replace(construction, witness=Witness(holdings))
    with pytest.raises(Rejected):
        validate(broken, Clock(Budget(work=20e6)))
    assert certify(broken).verdict is not Verdict.PROVED


def test_a_witness_about_nothing_is_rejected():
    construction = hm.compile(network(10, 4, 2), on=(-1, 1), error=1e-3)
    for strange in (
        Holding(99, 0, [0], 0, [0], [1.0]),
        Holding(0, 0, [999], 0, [0], [1.0]),
        Holding(0, 0, [0], 99, [0], [1.0]),
        Holding(0, 0, [0], 0, [999], [1.0]),
    ):
        with pytest.raises(Rejected, match="does not exist"):
            validate(replace(construction, witness=Witness([strange])), Clock(Budget(work=5e6)))


@pytest.mark.parametrize("n", [2, 3, 5])
def test_the_gap_of_a_soft_maximum_is_attained(n):
    """All losers at (1 + c_n)/k behind: the mean is c_n/k below, exactly what the lemma allows."""
    cold, c = 7.0, softmax_gap(n)
    losers = np.full(n - 1, -(1 + c) / cold)
    weights = np.exp(cold * np.concatenate([[0.0], losers]))
    mean = (weights[1:] * losers).sum() / weights.sum()
    assert mean == pytest.approx(-c / cold, rel=1e-12)


def test_deviations_of_a_maximum_keep_what_is_shared():
    """max(q + e, r + e) moves by e: the shared noise passes through, nothing is added."""
    part = Deviations(np.zeros(1), np.array([[0.5]]), np.zeros(1))
    moved = of_maximum([part, part], np.ones((2, 1), dtype=bool))
    assert moved.noise[0, 0] == 0.5
    assert moved.radius[0] <= 1e-14
    lone = of_maximum(
        [part, Deviations(np.zeros(1), np.zeros((1, 1)), np.zeros(1))], np.ones((2, 1), bool)
    )
    assert lone.high[0] == pytest.approx(0.5, rel=1e-12)  # a rectifier: between 0 and d


def test_enclosures_hold_at_random_points_of_random_boxes():
    """Second-order bounds against balls, at corners and inside."""
    rng = np.random.default_rng(3)
    for text, route in (("x*y", "direct-2"), ("x*exp(y)", "direct"), ("max(x,y)", "direct")):
        construction = hm.compile(text, on=SQUARE, error=1e-2, route=route)
        graph, (error,) = whole(construction)
        problem = pose(graph, error, construction.claim.error)
        ends = np.sort(
            rng.uniform(problem.low[0], problem.high[0], (2, problem.dimension, 40)), axis=0
        )
        seen = enclose(problem.tape, ends[0], ends[1])
        steps = construction.claim.target.steps()
        if problem.dimension != 2:
            continue
        for box in range(40):
            share = rng.random((8, 2)).round()
            for s in [*share, *rng.random((4, 2))]:
                u = np.clip(ends[0, :, box] * (1 - s) + ends[1, :, box] * s, -1, 1)
                x = np.linalg.solve(problem.rows, u)
                low, _ = error_at_point(construction.transformer, steps, np.clip(x, -1, 1))
                assert low <= (seen.most[box] + problem.slack) * (1 + 1e-9)


def test_the_search_closes_in_on_the_supremum():
    """x y by one head errs most at a known place: 1.01 of what is attained is certified."""
    construction = hm.compile("x*y", on=SQUARE, error=1e-3, route="direct")
    graph, (error,) = whole(construction)
    problem = pose(graph, error, construction.claim.error)
    found = Search(problem, Clock(Budget(work=20e6)), enough=1.0, tolerance=0.01).run()
    assert found.is_complete
    assert found.measured <= found.certified <= 1.01 * found.measured * (1 + 1e-9)


def test_the_maximum_of_two_is_a_problem_in_one_dimension():
    construction = hm.compile("max(x,y)", on=SQUARE, error=1e-3, route="direct")
    graph, (error,) = whole(construction)
    problem = pose(graph, error, construction.claim.error)
    assert problem.dimension == 1
    assert (problem.low[0], problem.high[0]) == pytest.approx((-2.0, 2.0))


def test_an_executor_gives_the_same_bounds():
    construction = hm.compile("max(x,y,z)", on={**SQUARE, "z": (-1, 1)}, error=1e-2, route="recipe")
    alone = certify(construction, tolerance=0.05)
    with ThreadPoolExecutor(2) as pool:
        shared = certify(construction, tolerance=0.05, executor=pool)
    assert shared.certified == alone.certified
    assert shared.boxes == alone.boxes


def test_a_cluster_gives_the_same_bounds():
    """Dask's executor is one of `concurrent.futures`, and is used as any other."""
    construction = hm.compile("max(x,y,z)", on={**SQUARE, "z": (-1, 1)}, error=1e-2, route="recipe")
    alone = certify(construction, tolerance=0.1)
    with Client(processes=False, n_workers=1, dashboard_address=None) as client:
        pool = client.get_executor()
        seen: list = []
        submit = pool.submit
        pool.submit = lambda *job: seen.append(job[0]) or submit(*job)
        shared = certify(construction, tolerance=0.1, executor=pool)
    assert seen  # the work did go there
    assert (shared.certified, shared.boxes) == (alone.certified, alone.boxes)


def bowl(x):
    return x**2


@pytest.mark.parametrize("travels", [True, False])
def test_a_callable_is_searched_by_an_executor_if_it_can_be_sent(travels, monkeypatch):
    monkeypatch.setattr(_search, "CHUNK", 4)  # so that a small search has jobs to send
    how = bowl if travels else lambda x: x**2
    target = hm.CallableFunction(how, ("x",), lipschitz=2.0)
    construction = hm.compile(target, on={"x": (-1, 1)}, error=0.1)
    alone = certify(construction)
    with ProcessPoolExecutor(1) as pool:
        sent: list = []
        submit = pool.submit
        pool.submit = lambda *job: sent.append(job) or submit(*job)
        shared = certify(construction, executor=pool)
    assert bool(sent) == travels
    assert shared.verdict is alone.verdict is Verdict.PROVED
    assert (shared.certified, shared.boxes) == (alone.certified, alone.boxes)


def test_progress_comes_down_to_what_is_measured():
    construction = hm.compile("x*y", on=SQUARE, error=1e-2, route="feedforward")
    seen: list = []
    certify(construction, tolerance=0.01, progress=seen.append)
    bounds = [s.certified for s in seen if math.isfinite(s.certified)]
    assert bounds == sorted(bounds, reverse=True)
    assert all(s.measured <= s.certified for s in seen)


def test_progress_counts_the_lines_of_a_witness():
    construction = hm.compile("max(w,x,y,z)", on=dict.fromkeys("wxyz", (-1, 1)), error=1e-2)
    seen: list = []
    assert certify(construction, progress=seen.append).method == "steps"
    lines = len(construction.witness.holdings)
    told = [s.phase for s in seen if "lines" in s.phase]
    counted = [f"boxes, {k} of {lines} lines of the witness verified" for k in range(lines + 1)]
    assert list(dict.fromkeys(told)) == counted


@pytest.mark.parametrize("budget", [0, "0s", "0 boxes", -1, "soon"])
def test_a_budget_of_nothing_is_refused(budget):
    construction = hm.compile("x*y", on=SQUARE, error=1e-2)
    with pytest.raises(hm.RequestError):
        certify(construction, budget=budget)


def test_too_many_dimensions_without_a_witness_are_told_at_once():
    construction = replace(hm.compile(network(10, 6, 1), on=(-1, 1), error=1e-3), witness=None)
    certificate = certify(construction)
    assert certificate.verdict is Verdict.UNDECIDED
    assert "10 dimensions" in certificate.advice
    assert "witness" in certificate.advice


def test_balls_agree_with_exact_rationals():
    construction = hm.compile(network(2, 4, 3, 1), on=(-1, 1), error=None)
    steps = construction.claim.target.steps()
    assert error_at_point(construction.transformer, steps, [0.3, -0.7])[0] == 0.0
    assert arb(fmpq(1, 3)).contains(fmpq(1, 3))
