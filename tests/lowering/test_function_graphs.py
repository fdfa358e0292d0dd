"""Graphs of functions: what becomes one node, how errors add up, what planners say."""

from __future__ import annotations

import math

import numpy as np
import pytest

import hardmax as hm
from hardmax import HardmaxError, PrecisionError, RequestError
from hardmax.core import trace
from hardmax.languages import CallableFunction, Function, evaluate, sorting_network
from hardmax.lowering.functions import ROUTE_GADGETS, RouteGadgets, differing_routes
from hardmax.lowering.functions._route_gadgets import direct
from hardmax.lowering.graph import (
    CurveNode,
    InputNode,
    LinearNode,
    MaximumNode,
    MinimumNode,
    ProductNode,
    QuotientNode,
    SoftmaxNode,
    analyse,
    build_graph,
    with_quotients,
)


def graph_of(text, **options):
    function = Function.parse(text)
    return build_graph(function.expressions, function.variables, **options)


def kinds(graph):
    return [type(node) for node in graph.nodes if not isinstance(node, InputNode)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2*x + 3*y - 1", [LinearNode]),
        ("x*y", [ProductNode]),
        ("16*x**5 - 20*x**3 + 5*x", [CurveNode]),
        ("sin(x)*exp(-y)/(1 + x**2)", [CurveNode, CurveNode, ProductNode]),
        ("exp(sin(x + y))", [LinearNode, CurveNode]),
        ("(x + y)**2 + sin(x + y)", [LinearNode, CurveNode]),
        ("max(x, y) + min(x, y)", [MaximumNode, MinimumNode, LinearNode]),
        ("max(max(x, y), z)", [MaximumNode]),
        ("max(max(x, y), z) + max(x, y)", [MaximumNode, MaximumNode, LinearNode]),
        ("x*y + exp(x*y)", [ProductNode, CurveNode]),
    ],
)
def test_what_becomes_a_node(text, expected):
    assert kinds(graph_of(text)) == expected


def test_common_subexpressions_are_built_once():
    model = hm.compile("x*y + max(x*y, 0), exp(x*y)", on={"x": (0, 1), "y": (0, 1)}, error=1e-2)
    products = list(graph_of("x*y + max(x*y, 0), exp(x*y)").nodes)
    assert sum(isinstance(n, ProductNode) for n in products) == 1
    assert model.bill.layers == 2


def test_independent_parts_share_layers():
    model = hm.compile("x*y + u*v", on=dict.fromkeys("xyuv", (-1, 1)), error=1e-2, route="direct")
    assert (model.bill.layers, model.bill.heads) == (1, 2)


def test_a_quotient_takes_one_layer_and_no_product():
    assert kinds(with_quotients(graph_of("x/y"))) == [QuotientNode]
    model = hm.compile("x/y", on={"x": (-1, 1), "y": (0.5, 2)}, error=1e-3, route="direct")
    assert model.bill.layers == 1
    x = model.claim.domain.sample(5000, np.random.default_rng(0))
    assert np.abs(model(x)[:, 0] - x[:, 0] / x[:, 1]).max() <= model.claim.error


@pytest.mark.parametrize(
    "text",
    [
        "exp(x)/(exp(x) + exp(y) + exp(z))",
        "(2*exp(x) - exp(y - z))/(exp(x) + 3*exp(y - z) + 1)",
        "1/(1 + exp(-2*x + y))",
    ],
)
def test_a_softmax_is_one_head_without_error(text):
    assert SoftmaxNode in kinds(graph_of(text, native=True))
    domain = dict.fromkeys(Function.parse(text).variables, (-2, 2))
    model = hm.compile(text, on=domain, error=1e-9, route="direct")
    assert (model.bill.layers, model.bill.heads) == (1, 1)
    x = model.claim.domain.sample(2000, np.random.default_rng(0))
    assert np.abs(model(x) - model.claim.target(x)).max() <= model.claim.error <= 1e-12


@pytest.mark.parametrize("text", ["sigmoid(3*x - 1)", "tanh(x/2)"])
def test_sigmoid_and_tanh_are_native(text):
    model = hm.compile(text, on={"x": (-3, 3)}, error=1e-6, route="direct")
    assert (model.bill.layers, model.bill.heads) == (1, 1)
    assert model.claim.error < 1e-13


def perturbed(graph, point, errors):
    """The graph at one point, every node off by its error."""
    values = []
    for i, node in enumerate(graph.nodes):
        arguments = [values[a] for a in node.arguments]
        match node:
            case InputNode(variable=v):
                value = point[v]
            case LinearNode():
                parts = zip(node.coefficients, arguments, strict=True)
                value = float(node.constant) + sum(float(c) * a for c, a in parts)
            case CurveNode(curve=curve):
                value = float(evaluate(curve, {"t": np.array(arguments[0])}, "float"))
            case ProductNode():
                value = arguments[0] * arguments[1]
            case MaximumNode():
                value = max(arguments)
            case MinimumNode():
                value = min(arguments[:2])
        values.append(value + errors.get(i, 0.0))
    return [values[end] for end in graph.outputs]


@pytest.mark.parametrize(
    "text",
    ["x*y*z + exp(x*y)", "max(x*y, z)*min(x, y)", "sin(x + y*z)/(2 + x*z), x*y", "abs(x*y)*z"],
)
def test_errors_add_up_as_the_theorem_says(text):
    """Random errors at all nodes never move an output by more than `total`."""
    function = Function.parse(text)
    graph = build_graph(function.expressions, function.variables)
    domain = hm.Box([-1.0] * function.inputs, [1.0] * function.inputs)
    rng = np.random.default_rng(0)
    sizes = {
        i: float(rng.uniform(0, 0.05))
        for i, n in enumerate(graph.nodes)
        if not isinstance(n, InputNode | LinearNode)
    }
    bound, shares = analyse(graph, domain, sizes).total(sizes)
    assert math.fsum(shares.values()) <= bound * (1 + 1e-9)
    worst = 0.0
    for point in domain.sample(400, rng):
        errors = {i: s * rng.choice([-1, 1, rng.uniform(-1, 1)]) for i, s in sizes.items()}
        moved = np.subtract(perturbed(graph, point, errors), perturbed(graph, point, {}))
        worst = max(worst, np.abs(moved).max())
    assert worst <= bound <= 60 * worst


def test_a_single_error_with_slope_one_is_the_bound_itself():
    graph = graph_of("x*y + z")
    bound, shares = analyse(graph, hm.Box([-1.0] * 3, [1.0] * 3), {3: 0.1}).total({3: 0.1})
    assert bound == pytest.approx(0.1, rel=1e-12)
    assert shares == pytest.approx({3: 0.1})


def test_outputs_that_are_one_are_analysed_once():
    """5,000 outputs of a hostile file, all the same, took minutes and gigabytes."""
    domain = hm.Box([0.0, 0.0], [1.0, 2.0])
    once, often = graph_of("exp(x)*y"), graph_of(", ".join(["exp(x)*y"] * 500))
    errors = dict.fromkeys(range(2, len(once.nodes)), 0.01)
    single, repeated = analyse(once, domain, errors), analyse(often, domain, errors)
    assert np.array_equal(single.sensitivities, repeated.sensitivities)
    assert single.total(errors) == repeated.total(errors)


def test_many_outputs_are_analysed_on_larger_boxes():
    """Memory is bounded, and ranges still enclose."""
    graph = graph_of(", ".join(f"x*y + {k}*x" for k in range(1, 151)))
    found = analyse(graph, hm.Box([0.0, 0.0], [1.0, 1.0]), {})
    assert found.sensitivities.shape[:2] == (150, len(graph.nodes))
    assert found.sensitivities.size <= 2**26
    assert found.range(graph.outputs[-1])[1] >= 151.0


def test_maxima_do_not_expand_errors():
    """A sorting network of six rounds errs by six comparators, not by two to the sixth."""
    function = sorting_network(8)
    graph = build_graph(function.expressions, function.variables)
    comparators = [i for i, n in enumerate(graph.nodes) if isinstance(n, MaximumNode)]
    assert len(comparators) == 19
    errors = {i: 1e-3 for i, n in enumerate(graph.nodes) if not isinstance(n, InputNode)}
    bound, _ = analyse(graph, hm.Box([-1.0] * 8, [1.0] * 8), errors).total(errors)
    assert 5.9e-3 <= bound <= 6.1e-3


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6, 7, 9])
def test_sorting_networks_sort(count):
    x = np.random.default_rng(count).integers(-3, 4, size=(300, count)).astype(float)
    assert np.array_equal(sorting_network(count)(x), np.sort(x, axis=1))


@pytest.mark.parametrize("route", ["direct", "recipe", "feedforward"])
def test_a_sorting_network_becomes_a_transformer(route):
    """One head a comparator. Nested maxima under a minimum must not be merged: 5 inputs do that."""
    function = sorting_network(5)
    model = hm.compile(function, on={f"x{i}": (-1, 1) for i in range(5)}, error=1e-2, route=route)
    rng = np.random.default_rng(0)
    x = model.claim.domain.sample(20_000, rng)
    x[::3, 1] = x[::3, 0] + rng.normal(size=len(x[::3])) * 1e-2
    x = np.clip(x, -1, 1)
    assert np.abs(model(x) - np.sort(x, axis=1)).max() <= model.claim.error <= 1e-2
    assert model.bill.layers == 5
    assert model.bill.heads == (0 if route == "feedforward" else 9)


@pytest.mark.parametrize("route", ["direct", "recipe", "feedforward", "anchors"])
@pytest.mark.parametrize(
    ("text", "domain", "error"),
    [
        ("max(x, y, z)*min(x, y)", dict.fromkeys("xyz", (-1, 1)), 1e-2),
        ("a*b*c*d*g*h", dict.fromkeys("abcdgh", (-1, 1)), 1e-2),
        ("exp(x*y) + abs(x - y)", {"x": (-1, 1), "y": (0, 1)}, 1e-2),
    ],
)
def test_witnesses_of_functions_are_true(route, text, domain, error):
    """Every step of a product of six variables is somewhere in the stream."""
    model = hm.compile(text, on=domain, error=error, route=route)
    steps = model.claim.target.steps()
    held = {holding.value for holding in model.witness.holdings}
    if text.startswith("a*b"):
        assert held == set(range(len(steps.steps) + 1))
    for x in model.claim.domain.sample(25, np.random.default_rng(0)):
        streams = trace(model.transformer, x).streams
        values = steps.values(np.array(x))
        for holding in model.witness.holdings:
            stream = np.array(streams[holding.sublayer + 1][holding.token], dtype=float)
            true = values[holding.value][holding.components[:, 0]]
            assert (np.abs(holding.read(stream) - true) <= holding.errors).all(), holding


def test_the_ledger_names_every_node():
    model = hm.compile("x*y + exp(x)", on={"x": (0, 1), "y": (0, 1)}, error=1e-3, route="recipe")
    places = {share.where for share in model.claim.ledger if share.cause == "approximation"}
    assert places == {"x*y", "exp(x)"}
    assert {"softening", "rounding", "margin"} <= {s.cause for s in model.claim.ledger}


def test_universality_counts_before_it_builds():
    plan = hm.plan("x*y", on={"x": (-1, 1), "y": (-1, 1)}, error=1e-6)
    refusal = plan.offer("universal").refusal
    assert "anchors would do it" in refusal
    assert "parameters" in refusal
    model = hm.compile("x*y", on={"x": (-1, 1), "y": (-1, 1)}, error=0.2, route="universal")
    assert (model.bill.layers, model.bill.heads) == (1, 1)
    x = model.claim.domain.sample(3000, np.random.default_rng(0))
    seen = np.abs(model(x)[:, 0] - x.prod(axis=1)).max()
    assert 0.8 * model.claim.error <= seen <= model.claim.error <= 0.2


@pytest.mark.parametrize(
    ("function", "domain", "error"),
    [
        (CallableFunction(lambda x: np.abs(np.sin(3 * x)), "x", lipschitz=3), {"x": (0, 1)}, 0.02),
        (
            CallableFunction(lambda x: np.sin(3 * x), "x", second_derivative=9),
            {"x": (0, 1)},
            1e-3,
        ),
        (
            CallableFunction(
                lambda x, y: np.sqrt(np.abs(x - y)), "x y", modulus=lambda d: math.sqrt(d)
            ),
            {"x": (0, 1), "y": (0, 1)},
            0.3,
        ),
        (
            CallableFunction(lambda x, y, z: (x * y * z, x + y), "x y z", outputs=2, lipschitz=1.0),
            dict.fromkeys("xyz", (0, 0.5)),
            0.2,
        ),
    ],
)
def test_callables_become_transformers(function, domain, error):
    plan = hm.plan(function, on=domain, error=error)
    assert plan.open
    for offer in plan.open:
        model = offer.build()
        assert model.bill.parameters == offer.resources["parameters"]
        x = model.claim.domain.sample(1000, np.random.default_rng(0))
        assert np.abs(model(x) - function(x)).max() <= model.claim.error <= error, offer.route


def test_four_variables_are_too_many_for_a_grid():
    with pytest.raises(RequestError, match="up to 3 variables"):
        hm.compile("a*b*c*d", on=dict.fromkeys("abcd", (0, 1)), error=0.5, route="universal")


def test_the_plan_compares_and_picks():
    plan = hm.plan("x*y", on={"x": (-1, 1), "y": (-1, 1)}, error=1e-3)
    assert [offer.route for offer in plan.offers][:4] == [
        "direct",
        "direct-2",
        "direct-3",
        "recipe",
    ]
    assert plan.choose().route == plan.choose("layers").route == "direct"
    assert "direct" in plan.best
    assert "recipe" not in plan.best
    assert plan.offer("direct").resources["parameters"] == 28
    for offer in plan.open:
        bill = offer.build().bill
        for name in ("layers", "heads", "width", "tokens", "parameters", "hidden_width"):
            assert getattr(bill, name) == offer.resources[name], (offer.route, name)
    with pytest.raises(RequestError, match="no preference 'size'"):
        plan.choose("size")


def test_a_route_joins_by_its_line(monkeypatch):
    """It is on offer, in the table's order, compiled by name and proved; what is native to a head,
    tanh here, is no curve of its own."""

    def curve(site, expression, error):
        assert error > 0, f"{expression} got no share of the error"
        return direct().curve(site, expression, error)

    def mine(format):
        own = direct(format, heads=2)
        return RouteGadgets("mine", curve, own.product, own.maximum, by_pieces=False, native=True)

    monkeypatch.setitem(ROUTE_GADGETS, "mine", mine)
    text, request = "x*y + tanh(x) + exp(y)", {"on": {"x": (-1, 1), "y": (-1, 1)}, "error": 1e-2}
    offered = [name for name in ROUTE_GADGETS if name != "folded"]  # there are no waves
    assert [o.route for o in hm.plan(text, **request).offers] == [*offered, "universal"]
    model = hm.compile(text, **request, route="mine")
    assert model.route == "mine"
    assert hm.certify(model).verdict.name == "PROVED"
    line = Function.parse("x + 2")
    left = differing_routes(line.expressions, line.variables, hm.Box([0], [1]))
    assert ROUTE_GADGETS.keys() - left == {"direct-2", "direct-3", "folded", "anchors", "gated"}


def test_compile_takes_what_the_plan_would():
    request = {"on": {"x": (-2, 2), "y": (0, 1)}, "error": 1e-3}
    text = "sin(x)*exp(-y)/(1 + x**2)"
    for prefer in (None, "layers", "logit"):
        chosen = hm.plan(text, **request, prefer=prefer).choose(prefer)
        model = hm.compile(text, **request, prefer=prefer)
        assert model.route == chosen.route
        assert model.bill.parameters == chosen.resources["parameters"]


def test_float32_is_chosen_when_preferred():
    plan = hm.plan("x*y", on={"x": (-1, 1), "y": (-1, 1)}, error=2e-5, prefer="float32")
    offer = plan.choose("float32")
    assert (offer.resources["layers"], offer.resources["heads"]) == (1, 2)
    assert offer.float_format == "float32"


@pytest.mark.parametrize(
    ("text", "domain", "error", "words"),
    [
        ("x*y", {"x": (-1, 1), "y": (-1, 1)}, 1e-18, "rounding|beyond|below"),
        ("sqrt(log(x + y))", {"x": (1, 2), "y": (0, 1)}, 1e-14, "rounding|beyond|below|within"),
    ],
)
def test_what_cannot_be_promised_is_refused(text, domain, error, words):
    with pytest.raises(HardmaxError, match=words):
        hm.compile(text, on=domain, error=error)


def test_a_route_and_a_preference_are_too_much():
    with pytest.raises(RequestError, match="not both"):
        hm.compile("x", on={"x": (0, 1)}, error=0.1, route="direct", prefer="heads")


def test_a_named_route_that_cannot_says_why():
    with pytest.raises(PrecisionError, match="anchors would do it"):
        hm.compile("x*y", on={"x": (-1, 1), "y": (-1, 1)}, error=1e-6, route="universal")


def test_affine_functions_need_no_layer():
    model = hm.compile("2*x - y + 1", on={"x": (-1, 1), "y": (-1, 1)}, error=1e-6)
    assert (model.bill.layers, model.bill.heads) == (0, 0)
    assert model(x=0.5, y=0.25) == pytest.approx(1.75)


@pytest.mark.parametrize("count", [2, 4, 5, 8])
def test_dead_coordinates_are_reused(count):
    """A comparator turns the rows of a and b into min and max: the width does not grow."""
    domain = {f"x{i}": (-1, 1) for i in range(count)}
    model = hm.compile(sorting_network(count), on=domain, error=1e-2, route="recipe")
    assert model.bill.width <= count + 2
    assert model.bill.largest_logit <= 12 * 100  # ranges stay those of the numbers sorted


def test_a_tournament_takes_no_new_coordinates():
    domain = {f"x{i}": (-1, 1) for i in range(16)}
    text = "max(" + ", ".join(domain) + ")"
    assert hm.compile(text, on=domain, error=1e-2, route="recipe").bill.width == 17


def test_a_row_that_a_chooser_writes_is_not_read_before():
    """Its sink is prepared from the start; reuse once let earlier gates see that."""
    domain = {"x": (-1, 1), "y": (0, 1)}
    for route in ("anchors", "direct"):
        model = hm.compile("exp(x*y) + abs(x - y)", on=domain, error=1e-2, route=route)
        assert hm.measure(model, 2000).error <= model.claim.error
