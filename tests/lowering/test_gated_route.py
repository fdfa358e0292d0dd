"""The gated route: products, polynomials and maxima by hidden units, without any error."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from hardmax.core import GatedFeedForward, trace
from hardmax.languages import Function
from hardmax.lowering._growth import CONSTANT, function_growth
from hardmax.lowering.functions import ROUTE_GADGETS, differing_routes
from hardmax.lowering.gadgets import Site, polynomial_by_pairs, product_by_pair
from hardmax.lowering.sketch import BoxSketch, Form, Multiplier, _rounding, register_ranges
from hardmax.numerics import FLOAT64, FORMATS
from hardmax.testing import run_in_format

UNIT = (-1.0, 1.0)
EXACT = {
    "x*y": "xy",
    "x**2": "x",
    "x**16": "x",
    "16*x**5 - 20*x**3 + 5*x": "x",
    "(x + 3)*(y - 1/2)*x": "xy",
    "max(x, y, z)*min(x, y)": "xyz",
    "abs(x)*x**2 + relu(y)": "xy",
    "x*y, x + y, 7": "xy",
}


def compiled(text, error=1e-3, **options):
    names = Function.parse(text).variables
    return hm.compile(text, on=dict.fromkeys(names, UNIT), error=error, route="gated", **options)


def products_of(model):
    layers = [x for x in model.transformer.sublayers if isinstance(x, GatedFeedForward)]
    return sum(len(layer.products) for layer in layers)


# ---- exact ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", list(EXACT))
def test_fractions_come_out_as_the_function_has_them(text):
    model = compiled(text)
    rng = np.random.default_rng(0)
    for _ in range(5):
        x = [Fraction(int(k), 7) for k in rng.integers(-7, 8, len(EXACT[text]))]
        assert list(model(x)) == list(np.atleast_1d(model.claim.target(x)))


@pytest.mark.parametrize("text", list(EXACT))
def test_all_that_is_claimed_is_rounding_and_it_is_proved(text):
    model = compiled(text)
    assert {share.cause for share in model.claim.ledger} <= {"rounding", "margin"}
    found = hm.certify(model)
    assert found.verdict is hm.Verdict.PROVED
    assert found.method in ("identity", "steps")
    assert found.certified <= model.claim.error < 1e-12
    assert found.asked_holds_in[:2] == ("float64", "float32")


def test_the_numbers_of_the_docstrings():
    product = compiled("x*y", 1e-6)
    bill = product.bill
    assert (bill.layers, bill.heads, bill.width, bill.hidden_width) == (1, 0, 3, 2)
    assert (bill.parameters, f"{product.claim.error:.2g}") == (38, "9.1e-16")
    assert products_of(compiled("x**16")) == compiled("x**16").bill.layers == 4
    cheap = compiled("16*x**5 - 20*x**3 + 5*x")
    assert (products_of(cheap), cheap.bill.layers) == (3, 3)
    assert products_of(compiled("u*v*w*x*y*z")) == 5


def test_gains_are_what_the_result_moves_by():
    """t^3 on [0, 2] is (t^2) t: it moves by 2 with t^2 and by 1 with itself."""
    sketch = BoxSketch(hm.Box([0.0], [2.0]))
    site = Site(sketch, 0, (sketch.input(0),), ((0.0, 2.0),))
    (node,) = [
        node for node in ROUTE_GADGETS["gated"]().graph(
            Function.parse("x**3").expressions, ["x"], hm.Box([0.0], [2.0])
        ).nodes if hasattr(node, "curve")
    ]  # fmt: skip
    made = polynomial_by_pairs(site, node.curve)
    assert made is not None
    assert made.error == 0.0
    gains = [maker.gain for maker in sketch.makers if isinstance(maker, Multiplier)]
    assert gains == pytest.approx([2.0, 1.0], rel=1e-13)
    assert gains[0] >= 2.0


# ---- rounding ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(FORMATS))
def test_the_rounding_of_a_product_is_the_formula_over_the_rationals(name):
    """d (|b| + e) + (|a| + 2 d) e + u (|a| + 2 d)(|b| + e), and what is lost of tiny ones."""
    format = FORMATS[name]
    sketch = BoxSketch(hm.Box([-1.5, 0.25], [0.75, 1.25]))
    x, y = sketch.input(0), sketch.input(1)
    a, b = x * Fraction(1, 3) + y, y * Fraction(5, 7)
    maker = sketch.multiply(a, b, node=0, gain=1.0)
    sketch.outputs = [sketch.written(maker)]
    ranges = register_ranges(sketch)
    found = _rounding._Pass(sketch, ranges, format)
    made = found._made(maker, sketch.makers[maker], ranges.before[1])
    d, e = (Fraction(found._read(form, ranges.before[1])) for form in (a, b))
    size_a, size_b = (Fraction(max(map(abs, r[maker]))) for r in (ranges.gates, ranges.values))
    one = Fraction(format.unit) / (1 - Fraction(format.unit))
    most_a, most_b = size_a + 2 * d, size_b + e
    lost = 2 * Fraction(format.smallest) * (most_a + most_b + 2)
    exactly = d * most_b + most_a * e + one * most_a * most_b + lost
    assert exactly <= Fraction(made) <= exactly * (1 + Fraction(1, 10**11))


@pytest.mark.parametrize("name", ["float32", "float16"])
@pytest.mark.parametrize("text", ["x*y", "x**3", "(x + 3)*(y - 1/2)*x", "max(x, y, z)*min(x, y)"])
def test_no_evaluation_in_a_format_breaks_the_claim(text, name):
    """Any order of summation, fused or not: against Fractions, at the corners and inside."""
    model = compiled(text, 0.2, float=name)
    rng, format = np.random.default_rng(3), FORMATS[name]
    points = format.stored(model.claim.domain.sample(8, rng))
    points = np.concatenate([points, np.ones((1, points.shape[1])), -np.ones((1, points.shape[1]))])
    wanted = [np.atleast_1d(model.claim.target([Fraction(v) for v in x])) for x in points]
    for _ in range(3):
        found = run_in_format(model.transformer, points, format, rng)
        for row, truth in zip(found, wanted, strict=True):
            assert all(
                abs(Fraction(float(a)) - b) <= Fraction(model.claim.error)
                for a, b in zip(row, truth, strict=True)
            )
    assert hm.certify(model).verdict is hm.Verdict.PROVED


# ---- beside heads --------------------------------------------------------------------------------


def test_units_leave_the_sink_empty():
    """Constants that units read are 0 on the sink: a gate there would spoil what heads see."""
    model = compiled("(x + 3)*(y + 2)*exp(x*y)", 1e-3)
    assert model.bill.heads > 0
    x = [0.3, -0.7]
    streams = trace(model.transformer, x).streams
    for stream in streams[1:]:
        moved = [a - b for a, b in zip(stream[0], streams[0][0], strict=True)]
        assert moved == [0.0] * model.transformer.width
    assert hm.certify(model).verdict is hm.Verdict.PROVED


# ---- on offer ------------------------------------------------------------------------------------


def test_it_is_taken_by_name_only_and_offered_where_something_multiplies():
    """Attention is the subject: nobody gets a model without any because it is cheaper."""
    for prefer in (None, "parameters", "heads", "logit", "float32"):
        on = {"x": UNIT}
        assert hm.compile("x**2", on=on, error=1e-5, prefer=prefer).route != "gated"
    plan = hm.plan("x*y", on="[-1,1]^2", error=1e-9)
    assert plan.offer("gated").resources["parameters"] == 38
    assert "gated" in plan.best
    for text in ("exp(x)", "max(x, y)", "x + 2*y", "1/x"):
        expressions = Function.parse(text).expressions
        names = Function.parse(text).variables
        assert "gated" not in differing_routes(
            expressions, names, hm.Box([1.0] * len(names), [2.0] * len(names))
        )


def test_nothing_grows_as_the_error_shrinks():
    box = hm.Box([-1.0, -1.0], [1.0, 1.0])
    growth = function_growth(Function.parse("max(x, x*y**3)"), box, "gated")
    assert set(growth.values()) == {CONSTANT}


def test_a_constant_factor_takes_no_unit():
    sketch = BoxSketch(hm.Box([-1.0], [1.0]))
    site = Site(sketch, 0, (sketch.input(0), Form({}, Fraction(3))), (UNIT, (3.0, 3.0)))
    made = product_by_pair(site, 0.0, FLOAT64)
    assert sketch.makers == []
    assert list(made.form.terms.values()) == [3]
