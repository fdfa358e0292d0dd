"""What hostile readings of the function compiler found, kept as tests."""

from __future__ import annotations

import warnings
from contextlib import suppress

import numpy as np
import pytest

import hardmax as hm
from hardmax import HardmaxError
from hardmax.analysis import follow
from hardmax.core import Attention, Head, ReadOut, Softmax, Transformer, VectorInput, trace
from hardmax.languages import CallableFunction
from hardmax.lowering.functions._routes import plan_function


def is_kept(model, points=4000):
    measured = hm.measure(model, points).error
    return measured <= model.claim.error


@pytest.mark.parametrize(
    ("text", "low", "error"),
    [
        ("max(0.1*x-1e8, 0.1*y-1e8, 0.1*z-1e8)", 1e9, 1e-5),
        ("max(0.1*x-10, 0.1*y-10, 0.1*z-10)", 100.0, 1e-12),
    ],
)
def test_tables_that_cancel_are_charged_for_their_terms(text, low, error):
    """A token holds 0.1 x - 1e8 with the rounding of 1e8, however small the difference is."""
    domain = dict.fromkeys("xyz", (low, low + 1))
    assert is_kept(hm.compile(text, on=domain, error=error, route="direct"))
    with pytest.raises(HardmaxError, match="rounding"):
        hm.compile(text, on=domain, error=error * 1e-3, route="direct")


def test_values_at_anchors_are_charged_for_their_rounding():
    """(x + 1e5)^2 - x^2 - 2e5 x - 1e10 is 0, but not in floats."""
    text, domain = "(x+1e5)**2-x**2-2e5*x-1e10", {"x": (0, 1)}
    with pytest.raises(HardmaxError, match="rounding"):
        hm.compile(text, on=domain, error=1e-7, route="universal")
    assert is_kept(hm.compile(text, on=domain, error=1e-3, route="universal"))


@pytest.mark.parametrize(
    ("source", "domain", "error"),
    [
        ("sin(x)", {"x": (-1, 1)}, 2.5e-4),
        ("1/x", {"x": (0.1, 1)}, 1e-2),
        ("exp(x)", {"x": (0, 5)}, 0.05),
        (
            CallableFunction(lambda x: 1e3 + np.sin(x), "x", second_derivative=1),
            {"x": (0, 1)},
            1e-6,
        ),
    ],
)
def test_no_claim_exceeds_what_was_asked(source, domain, error):
    for offer in hm.plan(source, on=domain, error=error).open:
        assert offer.error <= error, offer.route


def test_logarithms_that_cancel_are_taken_together():
    text = "1e-290*exp(x+668)/(1e-290*exp(x+668)+exp(y))"
    model = hm.compile(text, on={"x": (-1, 1), "y": (-1, 1)}, error=1e-12, route="direct")
    assert is_kept(model)


def lonely(width, *, tokens):
    maps = np.zeros((tokens, width, 1))
    maps[0, 0, 0] = 1.0
    return maps, np.zeros((tokens, width))


def test_a_maximum_of_one_token_is_no_relu():
    """With nobody else to ask, x + w max(x) is (1 + w) x: there is no 0 in the contest."""
    maps, offsets = lonely(2, tokens=1)
    offsets[0, 1] = 1.0
    head = Head([[0.0, 1.0]], [[1.0, 0.0]], [[1.0, 0.0]], [[-3.0], [0.0]], Softmax(1.0))
    model = Transformer(
        VectorInput(maps, offsets), [Attention([head])], ReadOut([[1.0, 0.0]], [0.0], 0)
    )
    box = hm.Box([-1.0], [0.1])
    answer = follow(model, box).answer.range
    for x in (-1.0, -0.5, 0.0, 0.1):
        true = trace(model, [x]).outputs[0]
        assert answer.lo.min() <= true <= answer.hi.max()


def test_formats_know_underflow_and_large_weights():
    tiny = {"x": (-1e-22, 1e-22), "y": (-1e-22, 1e-22)}
    for offer in hm.plan("x*y", on=tiny, error=1e-46).open:
        assert offer.float_format == "float64", offer.route
    small = {"x": (-1e-6, 1e-6), "y": (-1e-6, 1e-6)}
    for offer in hm.plan("x/(2+y)", on=small, error=3.7e-9).open:
        assert offer.float_format != "float16", offer.route


@pytest.mark.parametrize("route", ["direct", "recipe", "feedforward", "anchors"])
@pytest.mark.parametrize(
    ("text", "domain"),
    [
        ("relu(x)", {"x": (-1, -0.25)}),
        ("exp(x)", {"x": (0.5, 0.5)}),
        ("abs(x)", {"x": (0, 0)}),
        ("x*relu(y)", {"x": (-1, 1), "y": (-2, -1)}),
        ("x/(1+y)", {"x": (0, 0), "y": (0, 1)}),
        ("exp(x)+y", {"x": (1, 1), "y": (0, 1)}),
        ("x*y", {"x": (0, 0), "y": (0, 0)}),
        ("x+y-exp(1)", {"x": (-1, 1), "y": (0, 1)}),
        ("x*sqrt(2)*y+pi", {"x": (-1, 1), "y": (0, 1)}),
        ("min(x,y)*max(x,y)", {"x": (0, 1), "y": (1, 2)}),
        ("tanh(x)*y+0.1", {"x": (-1000, 1000), "y": (-1000, 1000)}),
        ("log(exp(x)/(exp(x)+exp(y)))*x", {"x": (-1, 1), "y": (-1, 1)}),
    ],
)
def test_corners_of_the_language_are_kept_or_refused(text, domain, route):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            model = hm.compile(text, on=domain, error=1e-2, route=route)
        except HardmaxError as refusal:
            model, words = None, str(refusal).split()
    if model is None:
        assert "inf" not in words
        return
    assert is_kept(model, 500)
    assert model.claim.error <= 1e-2


def test_a_fixed_sign_costs_nothing():
    model = hm.compile(
        "x*relu(y) + max(z, 5)", on={"x": (0, 1), "y": (1, 2), "z": (0, 1)}, error=1e-3
    )
    assert model.bill.heads == 1  # the product alone


@pytest.mark.parametrize("text", ["sin(300*x**2)", "max(sin(300*x**2), x)", "sin(100000*exp(x))"])
def test_absurd_sizes_are_priced_and_not_built(text):
    plan = plan_function(hm.Function.parse(text), hm.Box([0.0], [1.0]), 1e-8)
    assert not plan.open
    assert any("pieces" in (offer.refusal or "") for offer in plan.offers)
    with pytest.raises(HardmaxError):
        plan.choose()


TINY = {"x": (0, 1e-300)}
AT_THE_ENDS = [
    ("(x**2+y**2)**(1/3)", {"x": (-0.3, 0.9), "y": (-8, 8)}, 0.0254),
    ("mish(x)", TINY, 1e-3),
    ("erf(x)", {"x": (1e-310, 2e-310)}, 1e-3),
    ("x*x*x", {"x": (1e-310, 2e-310)}, 1e-3),
    ("norm(x, y)/(1 + x**2)", TINY | {"y": (-1, 1)}, 1e-2),
]


@pytest.mark.parametrize(("text", "on", "error"), AT_THE_ENDS)
def test_tiny_domains_and_rooms_end_in_a_model_or_a_sentence(text, on, error):
    """ZeroDivisionError and "math domain error" came out of these."""
    with suppress(hm.HardmaxError):
        assert hm.compile(text, on=on, error=error).claim.error <= error
