"""A zoo of functions, every route each can take, and the laws that hold for all of them."""

from __future__ import annotations

import math
import re
from functools import cache

import numpy as np
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

import hardmax as hm
from hardmax import compile, measure, plan
from hardmax import languages as lang
from hardmax.analysis import rounding_bound
from hardmax.core import Box, fingerprint, reference
from hardmax.languages import Function, parse
from hardmax.numerics import Interval
from hardmax.passes import soften

ERROR = 1e-2
POINTS = 600
MOST_TOKENS = 64
ZOO = {
    "x*y": [(-1, 1), (-1, 1)],
    "x**2": [(-3, 1)],
    "x**3 - x": [(-1, 1.5)],
    "x**-2": [(1, 2)],
    "1/x": [(0.1, 1)],
    "x/y": [(-1, 1), (1, 2)],
    "exp(x)": [(0, 1)],
    "log(x)": [(1, 2)],
    "sqrt(x)": [(0, 1)],
    "sin(3*x)": [(-1, 1)],
    "tan(x)": [(-1, 1)],
    "tanh(2*x - 1)": [(-1, 2)],
    "sigmoid(x)": [(-4, 4)],
    "abs(x - 0.25)": [(-1, 1)],
    "relu(x)": [(-1, 2)],
    "min(x, y)": [(-1, 1), (0, 2)],
    "max(x, y, 2*z, 0.5)": [(-1, 1), (-1, 1), (0, 1)],
    "clip(x, -0.5, 0.5)": [(-1, 1)],
    "3*x - y/3 + 1": [(-1, 1), (0, 1)],
    "x*y, x + y, 7": [(-1, 1), (-1, 1)],
    "exp(x*y) - x": [(-1, 1), (0, 1)],
    "abs(x)*relu(y)": [(-1, 1), (-1, 1)],
    "x*y*z": [(-1, 1), (0, 1), (1, 2)],
    "sin(x)*cos(y)": [(-1, 1), (-1, 1)],
    "exp(x)/(exp(x) + exp(y))": [(-1, 1), (-1, 1)],
    "sqrt(x**2 + y**2)": [(0.5, 1), (0, 1)],
    "x**2*1000 + y": [(-1, 1), (-1, 1)],
}
TEXTS = list(ZOO)
CURVED = "exp(x*y) - x"


def request(text):
    function = Function.parse(text)
    return {"on": dict(zip(function.variables, ZOO[text], strict=True)), "error": ERROR}


@cache
def planned(text):
    return plan(text, **request(text))


@cache
def built(text):
    """The constructions on offer, by route; long prompts are left to another law."""
    offers = planned(text).open
    return {o.route: o.build() for o in offers if o.resources["tokens"] <= MOST_TOKENS}


def assert_in_words(message):
    """A sentence or two with an end: no traceback, no line breaks, no advice to ask for inf."""
    assert message.endswith(".")
    assert "\n" not in message
    assert "Traceback" not in message
    assert not re.search(r"\b(inf|nan)\b", message), message
    assert 20 < len(message) < 500


def sure_error(construction, points, seed=0):
    """How far outputs are from an enclosure of the target's true values, at the least.

    `measure` computes the target in floats, which is no help where rounding is all there is.
    """
    target, domain = construction.claim.target, construction.claim.domain
    sample = domain.sample(points, np.random.default_rng(seed))
    truth, outputs = target(Interval.point(sample.T)), construction(sample).T
    assert np.isfinite(outputs).all()
    return float(np.maximum(np.maximum(truth.lo - outputs, outputs - truth.hi), 0.0).max())


def assert_stated(offer, construction):
    counted = construction.bill.as_dict()
    for name, stated in offer.resources.items():
        if name == "largest_logit":  # the bill follows affine forms, too, and may say less
            assert counted[name] <= stated * (1 + 1e-9), offer.route
            continue
        wanted = stated if isinstance(stated, int) else pytest.approx(stated, rel=1e-9)
        assert counted[name] == wanted, (offer.route, name)


# ---------------------------------------------------------------- laws


@pytest.mark.parametrize("text", TEXTS)
def test_the_planner_offers_or_says_why_not(text):
    offers = planned(text).offers
    assert {"direct", "recipe", "feedforward"} <= {offer.route for offer in offers}
    for offer in offers:
        assert (offer.proposal is None) == (offer.refusal is not None)
        if offer.refusal is not None:
            assert_in_words(offer.refusal)
    assert {"direct", "recipe", "feedforward"} <= built(text).keys()


@pytest.mark.parametrize("text", TEXTS)
def test_measured_is_at_most_claimed_is_at_most_asked(text):
    for route, construction in built(text).items():
        assert construction.route == route
        assert sure_error(construction, POINTS) <= construction.claim.error <= ERROR, route


@pytest.mark.parametrize("text", TEXTS)
def test_the_bill_stated_is_the_bill_counted(text):
    """Integers are equal; the logit is bounded in two ways, and that of the bill is no larger."""
    for route, construction in built(text).items():
        offer = planned(text).offer(route)
        assert_stated(offer, construction)
        assert construction.claim.error == offer.error


@pytest.mark.parametrize("text", TEXTS)
def test_the_ledger_adds_up_and_names_its_nodes(text):
    """Approximation and softening belong to parts of the function, written as expressions."""
    for construction in built(text).values():
        claim = construction.claim
        assert claim.error == math.fsum(share.amount for share in claim.ledger)
        assert all(share.where and share.amount > 0 for share in claim.ledger)
        for share in claim.ledger:
            assert share.cause in ("approximation", "softening", "routing", "rounding", "margin")
            if share.cause in ("approximation", "softening"):
                (named,) = parse(share.where)
                assert set(named.variables()) <= set(claim.target.variables)
        proved = claim.error - claim.margin
        assert claim.margin == pytest.approx(0.02 * proved, rel=1e-12)


@pytest.mark.parametrize("text", TEXTS)
def test_files_keep_everything(text, tmp_path):
    """Functions are stored by their text, and values are those of the same floats."""
    for route, construction in built(text).items():
        path = tmp_path / f"{route}.safetensors"
        hm.save(construction, path)
        read = hm.load(path)
        assert fingerprint(read.transformer) == fingerprint(construction.transformer)
        assert read.route == route
        assert str(read.claim.target) == str(construction.claim.target)
        assert read.claim.target == construction.claim.target
        assert read.claim.domain == construction.claim.domain
        assert read.claim.ledger == construction.claim.ledger
        x = construction.claim.domain.sample(20, np.random.default_rng(5))
        assert np.array_equal(read(x), construction(x))


@pytest.mark.parametrize("text", TEXTS)
def test_nothing_that_is_done_with_a_construction_changes_it(text, tmp_path):
    for route, construction in built(text).items():
        before = fingerprint(construction.transformer), construction.claim.ledger
        hm.save(construction, tmp_path / "model.safetensors")
        measure(construction, 10)
        try:
            soften(construction, error=2 * ERROR)
        except hm.HardmaxError as refusal:
            assert_in_words(str(refusal))
        assert (fingerprint(construction.transformer), construction.claim.ledger) == before, route


@pytest.mark.parametrize("text", TEXTS)
def test_inputs_are_left_alone(text):
    for construction in built(text).values():
        x = construction.claim.domain.sample(5, np.random.default_rng(6))
        copy = x.copy()
        construction(x)
        construction.claim.target(x)
        assert np.array_equal(x, copy)


@pytest.mark.parametrize("text", ["1/x", "x*y"])
def test_every_route_keeps_its_word_also_with_long_prompts(text):
    for offer in planned(text).open:
        construction = offer.build()
        assert sure_error(construction, 100) <= construction.claim.error <= ERROR, offer.route
        assert_stated(offer, construction)


@pytest.mark.parametrize("text", TEXTS)
def test_batches_agree_with_the_reference_within_rounding(text):
    """On one point: the reference computes a head at a time, without arrays."""
    for route in ("direct", "feedforward"):
        construction = built(text)[route]
        transformer, domain = construction.transformer, construction.claim.domain
        x = domain.sample(1, np.random.default_rng(7))
        one_by_one = np.array([reference(transformer, row) for row in x])
        bound = 2 * rounding_bound(transformer, domain)
        assert (np.abs(construction(x) - one_by_one) <= bound).all()


@pytest.mark.parametrize("text", ["x*y", "max(x, y, 2*z, 0.5)", CURVED])
def test_a_route_by_name_is_the_planners_offer(text):
    """Built a second time, from the request: the same bytes."""
    for route, construction in built(text).items():
        again = compile(text, **request(text), route=route)
        assert fingerprint(again.transformer) == fingerprint(construction.transformer), route
        assert again.claim.ledger == construction.claim.ledger


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    ("text", "route"),
    [("x*y", "direct"), ("max(x, y, 2*z, 0.5)", "recipe"), (CURVED, "feedforward")],
)
def test_torch_agrees_within_the_rounding_bound(text, route, dtype):
    torch = pytest.importorskip("torch")
    construction = built(text)[route]
    transformer, domain = construction.transformer, construction.claim.domain
    module = hm.interop.write_torch(construction, dtype)
    bound = rounding_bound(transformer, domain, dtype) + rounding_bound(transformer, domain)
    x = domain.sample(50, np.random.default_rng(8)).astype(dtype)
    with torch.no_grad():
        outputs = module(torch.from_numpy(x)).numpy().astype(float)
    assert (np.abs(outputs - construction(x.astype(float))) <= bound).all()
    assert bound.max() < ERROR  # it says something


@pytest.mark.parametrize("prefer", ["parameters", "layers", "heads", "logit", "float32"])
@pytest.mark.parametrize("text", ["x*y", CURVED])
def test_what_is_preferred_is_least(text, prefer):
    offered = plan(text, **request(text), prefer=prefer)
    chosen = offered.choose(prefer)
    field = {"logit": "largest_logit", "float32": "heads"}.get(prefer, prefer)
    others = [offer for offer in offered.open if offer.route not in ("feedforward", "gated")]
    if prefer == "float32":
        others = [offer for offer in others if offer.float_format in ("float16", "float32")]
        assert chosen in others
    assert chosen.resources[field] == min(offer.resources[field] for offer in others)


@pytest.mark.parametrize("route", ["direct", "recipe", "feedforward"])
def test_a_smaller_error_is_claimed_when_it_is_asked(route):
    on = {"x": (-1, 1), "y": (-1, 1)}
    for error in (1e-1, 1e-2, 1e-3, 1e-4):
        construction = compile("x*y", on=on, error=error, route=route)
        assert measure(construction, 200).error <= construction.claim.error <= error


AWKWARD = [
    ("x*y", (0.5, 0.5), (-1, 1)),
    ("exp(x) + y", (0.5, 0.5), (-1, 1)),
    ("tanh(x) + y", (0.75, 0.75), (-1, 1)),
    ("abs(x) + y", (0, 0), (-1, 1)),
    ("sin(abs(x)) + y", (0, 0), (0, 0)),
    ("relu(x) + y", (-1, -0.25), (-1, 1)),
    ("relu(x) + y", (0.25, 1), (-1, 1)),
    ("max(x, y)", (-1, 0), (0.5, 1)),
    ("sin(relu(min(x, 2*x + y)))", (-1.25, -0.75), (-0.25, 0.25)),
    ("x*relu(y)", (-1, 1), (-2, -1)),
    ("relu(x)*relu(0.75*y - 2)", (0.25, 0.75), (0.25, 0.75)),
    ("x + y - exp(1)", (0, 1), (0, 1)),
    ("x - 1.5*y - (x - 1.5*y + 1) + 1", (0.5, 1), (0.5, 1)),
]


@pytest.mark.parametrize("route", ["direct", "recipe", "feedforward"])
@pytest.mark.parametrize(
    ("text", "first", "second"), [pytest.param(*a, id=f"{a[0]} on {a[1:]}") for a in AWKWARD]
)
def test_constant_parts_and_domains_without_width_are_no_obstacle(text, first, second, route):
    construction = compile(text, on={"x": first, "y": second}, error=1e-3, route=route)
    assert sure_error(construction, 200) <= construction.claim.error <= 1e-3


@pytest.mark.parametrize(
    ("text", "on", "error"),
    [
        ("1/x", {"x": (-1, 1)}, 1e-2),
        ("log(x)", {"x": (0, 1)}, 1e-2),
        ("exp(exp(exp(x)))", {"x": (0, 9)}, 1e-2),
        ("x*y", {"x": (-1, 1), "y": (-1, 1)}, 1e-30),
        ("x*y", {"x": (-1, 1), "y": (-1, 1)}, 0.0),
        ("x*y", {"x": (-1, 1)}, 1e-2),
        ("x +", {"x": (-1, 1)}, 1e-2),
    ],
)
@pytest.mark.parametrize("route", ["direct", "recipe", "feedforward", None])
def test_what_cannot_be_is_refused_in_words(text, on, error, route):
    with pytest.raises(hm.HardmaxError) as refusal:
        compile(text, on=on, error=error, route=route)
    assert str(refusal.value).split("\n")[0]


# ---------------------------------------------------------------- anything at all

x, y = lang.variables("x y")
QUARTERS = st.integers(-8, 8).map(lambda k: k / 4)
ENDS = st.tuples(st.integers(-8, 8), st.sampled_from([0, 1, 2, 3, 8])).map(
    lambda a: (a[0] / 4, (a[0] + a[1]) / 4)
)


def expressions(depth):
    """x, y and affine ones, then up to `depth` levels of operations."""
    affine = st.tuples(QUARTERS, QUARTERS, QUARTERS).map(lambda a: a[0] * x + a[1] * y + a[2])
    leaves = st.sampled_from([x, y]) | affine
    if depth == 0:
        return leaves
    inner = expressions(depth - 1)
    unary = st.sampled_from([abs, lang.exp, lang.sin, lang.tanh, lang.relu])
    binary = st.sampled_from(
        [
            lambda a, b: a + b,
            lambda a, b: a - b,
            lambda a, b: a * b,
            lang.maximum,
            lang.minimum,
        ]
    )
    grown = st.tuples(unary, inner).map(lambda a: a[0](a[1])) | st.tuples(binary, inner, inner).map(
        lambda a: a[0](a[1], a[2])
    )
    return grown | leaves


@settings(max_examples=25, deadline=None, phases=[Phase.explicit, Phase.generate])
@example(x * y, (-1.0, 1.0), (-1.0, 1.0))
@example(lang.exp(lang.exp(lang.exp(x))), (-2.0, 0.0), (0.0, 1.0))
@example(lang.maximum(x, y) * lang.relu(x - y), (-2.0, 0.0), (-1.0, 1.0))
@given(expressions(3), ENDS, ENDS)
def test_any_small_expression_keeps_its_claim_or_is_refused(expression, first, second):
    function = Function(expression, "x y")
    box = Box(*zip(first, second, strict=True))
    for route in ("direct", "feedforward"):
        try:
            construction = compile(function, on=box, error=ERROR, route=route)
        except hm.HardmaxError as refusal:
            assert_in_words(str(refusal))
            continue
        claim = construction.claim
        assert sure_error(construction, 500) <= claim.error <= ERROR, (str(function), route)
