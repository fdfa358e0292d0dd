"""Claims about float formats: what is promised is kept in them, and what cannot be is refused."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

sys.path.append(str(Path(__file__).resolve().parents[2]))  # benchmarks/ is not installed

from benchmarks.formats import disagreements

import hardmax as hm
from hardmax.cli import main
from hardmax.core import Claim, Share, weight_arrays
from hardmax.languages import Function
from hardmax.lowering.approximants import Curve, fit_sigmoids
from hardmax.lowering.approximants._sigmoids_in_format import rounded_to
from hardmax.lowering.approximants._universal import mean_difference
from hardmax.lowering.functions._stored import stored_in
from hardmax.lowering.gadgets._pieces import _bends
from hardmax.lowering.sketch import BoxSketch
from hardmax.numerics import FORMATS
from hardmax.testing import random_relu, run_in_format, zoo

RECIPROCAL = {"text": "1/x", "on": {"x": (0.1, 1.0)}}
PRODUCT = {"text": "x*y", "on": {"x": (-1.0, 1.0), "y": (-1.0, 1.0)}}
PLAIN = {"text": "3*x - y/3 + 1", "on": {"x": (-1.0, 1.0), "y": (0.0, 1.0)}}
CASES = {  # function, format, error
    "1/x": (RECIPROCAL, "float32", 1e-3),
    "x*y": (PRODUCT, "float32", 1e-3),
    "3*x - y/3 + 1": (PLAIN, "float32", 1e-5),
    "sin(4*x)": ({"text": "sin(4*x)", "on": {"x": (-2.0, 2.0)}}, "float32", 1e-3),
    "3*x - y/3 + 1 in bfloat16": (PLAIN, "bfloat16", 0.5),
    "exp(x) in float16": ({"text": "exp(x)", "on": {"x": (0.0, 1.0)}}, "float16", 0.1),
}


def compiled(function: dict, error: float, **options: str) -> hm.Construction:
    return hm.compile(function["text"], on=function["on"], error=error, **options)


# ---- functions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_a_claim_about_a_format_is_kept_in_it(name):
    """Proved by the checker's own analysis, and kept by an adversary who rounds as he may."""
    function, format, error = CASES[name]
    model = compiled(function, error, float=format)
    found = hm.certify(model)
    assert model.claim.format == found.format == format
    assert model.claim.error <= model.claim.asked == found.asked == error
    assert [s.where for s in model.claim.ledger if s.cause == "rounding"] == [
        f"{format} evaluation"
    ]
    assert found.verdict is hm.Verdict.PROVED
    assert {"float64", format} <= set(found.holds_in) <= set(found.asked_holds_in)
    assert all(FORMATS[format].holds(array).all() for array in weight_arrays(model.transformer))
    rng = np.random.default_rng(0)
    points = FORMATS[format].stored(model.claim.domain.sample(100, rng))
    points = points[model.claim.domain.contains(points)]
    for _ in range(3):
        outputs = run_in_format(model.transformer, points, FORMATS[format], rng)
        assert np.abs(outputs - model.claim.target(points)).max() <= found.certified


def test_fits_are_made_for_the_format():
    """1/x was refused in float32 at 1e-3: coefficients that cancel cost more than they gain."""
    assert compiled(RECIPROCAL, 1e-3, float="float32").bill.heads == 4
    exponential = {"text": "exp(x)", "on": {"x": (0.0, 3.0)}}
    assert compiled(exponential, 1e-3, float="float32").bill.heads == 2
    root = {"text": "sqrt(x)", "on": {"x": (0.01, 1.0)}}
    assert compiled(root, 1e-3, float="float32").bill.heads == 3


def test_a_preference_for_float32_is_another_word():
    ours = compiled(PRODUCT, 1e-3, prefer="float32")
    assert ours.claim.format == "float32"
    assert ours.claim.error == compiled(PRODUCT, 1e-3, float="float32").claim.error
    with pytest.raises(hm.RequestError, match="another word"):
        compiled(PRODUCT, 1e-3, prefer="float32", float="float16")


@pytest.mark.parametrize("door", [hm.compile, hm.plan])
@pytest.mark.parametrize("name", ["float8", "", "FLOAT32", 32])
def test_a_format_that_does_not_exist_is_refused(door, name):
    with pytest.raises(hm.RequestError, match="one of float64, float32, float16, bfloat16"):
        door("x*y", on="[-1,1]^2", float=name)


def test_an_error_below_the_floor_is_refused_with_the_floor():
    with pytest.raises(
        hm.PrecisionError, match=r"in bfloat16 on .* can promise there is"
    ) as refusal:
        hm.compile("sigmoid(x)", on={"x": (-1, 1)}, error=1e-3, float="bfloat16")
    floor = float(str(refusal.value).split("there is ")[1].split(" ")[0])
    reached = hm.compile("sigmoid(x)", on={"x": (-1, 1)}, error=floor, float="bfloat16")
    assert hm.certify(reached).verdict is hm.Verdict.PROVED
    with pytest.raises(hm.PrecisionError, match="in bfloat16"):
        hm.compile("x**2", on={"x": (-1, 1)}, error=1e-2, route="universal", float="bfloat16")


# ---- the checker -------------------------------------------------------------------------------


def test_the_checker_does_not_trust_the_format_of_a_claim():
    """What it says of formats is the same, whatever is claimed; a false format is not proved."""
    model = compiled(PRODUCT, 1e-3)
    honest = hm.certify(model)
    claim = model.claim
    for format in ("float16", "bfloat16"):
        forged = Claim(claim.target, claim.domain, claim.ledger, format=format, asked=claim.asked)
        found = hm.certify(replace(model, claim=forged))
        assert found.verdict is hm.Verdict.UNDECIDED
        assert format in found.advice
        assert found.holds_in == found.asked_holds_in == ()
        assert found.certified >= found.formats[format] > claim.error
        assert honest.altered(replace(model, claim=forged)) == ("claim",)


def test_a_claim_holds_in_its_format_and_an_error_where_it_was_asked():
    """A claim at float64's level holds there alone; the error that was asked holds elsewhere."""
    found = hm.certify(compiled(PLAIN, 1e-2))
    assert found.holds_in == ("float64",)
    assert found.asked_holds_in == ("float64", "float32", "float16")
    looser = replace(found, asked=found.formats["bfloat16"])
    assert looser.asked_holds_in == ("float64", "float32", "float16", "bfloat16")
    assert replace(found, verdict=hm.Verdict.UNDECIDED).asked_holds_in == ()


def test_claims_check_what_they_are_about():
    target, domain = Function.parse("x"), hm.Box([0.0], [1.0])
    shares = [Share("rounding", "somewhere", 0.5)]
    assert Claim(target, domain, shares).asked == 0.5
    assert "in float16" in repr(Claim(target, domain, shares, format="float16"))
    with pytest.raises(hm.RequestError, match="There is no float format 'float8'"):
        Claim(target, domain, shares, format="float8")
    for asked in (-1.0, float("inf"), float("nan")):
        with pytest.raises(hm.RequestError, match="asked for must be a number"):
            Claim(target, domain, shares, asked=asked)


# ---- plans -------------------------------------------------------------------------------------

SAMPLE = ["x*y (direct, 0.01)", "x**2 (anchors, 0.001)", "max(x, y) (recipe, 0.01)"]
SAMPLE += ["clip(x, -0.5, 0.5) (universal, 0.01)", "ReLU 2-8-1 (attention-only, 0.001)"]


@pytest.mark.parametrize("format", ["float64", "float32"])
@pytest.mark.parametrize("name", SAMPLE)
def test_plans_and_certificates_agree(name, format):
    """`python -m benchmarks.formats --only agreement` goes through all of the zoo."""
    assert disagreements(zoo()[name], format) == []


def test_a_plan_is_about_its_format():
    plan = hm.plan("x*y", on=PRODUCT["on"], error=1e-2, float="float32")
    assert plan.format == plan.as_dict()["float"] == "float32"
    offer = plan.choose()
    assert offer.float_format == "float32"
    assert offer.build().claim.format == "float32"
    assert {"float32", "float64"} <= set(offer.formats)


# ---- networks and programs ---------------------------------------------------------------------


def test_networks_are_softened_for_a_format():
    network = random_relu(2, 2, 8, 8, 1)
    model = hm.compile(network, on="[-1,1]^2", error=1e-2, float="float32")
    found = hm.certify(model)
    assert model.claim.format == "float32"
    assert found.verdict is hm.Verdict.PROVED
    hard = hm.compile(network, on="[-1,1]^2", error=None, float="float32")
    assert hm.certify(hard).holds_in == ("float64", "float32")
    with pytest.raises(hm.PrecisionError, match="what float16 can promise"):
        hm.compile(network, on="[-1,1]^2", error=1e-6, float="float16")


def test_programs_keep_their_claims_in_a_format_or_are_refused():
    reverse = hm.compile(hm.programs.reverse, alphabet="abc", length=6, float="float32")
    assert reverse.claim.format == "float32"
    assert hm.certify(reverse).verdict is hm.Verdict.PROVED
    with pytest.raises(hm.RequestError, match=r"apart, but .* in bfloat16"):
        hm.compile(hm.programs.reverse, alphabet="abc", length=6, float="bfloat16")


# ---- files and the command line ----------------------------------------------------------------


def test_files_keep_the_format(tmp_path):
    from hardmax.interop import read_safetensors

    model = compiled(RECIPROCAL, 1e-2, float="float32")
    hm.save(model, tmp_path / "model", hm.certify(model))
    again = hm.load(tmp_path / "model")
    assert (again.claim.format, again.claim.asked) == ("float32", 1e-2)
    assert set(hm.load_certificate(tmp_path / "model").asked_holds_in) == {"float64", "float32"}
    assert read_safetensors(tmp_path / "model").format == "float32"


def test_the_command_line_takes_a_format(tmp_path):
    place = str(tmp_path / "model.safetensors")
    asked = ["1/x", "--on", "x=0.1:1", "--error", "1e-2", "--float", "float32"]
    made = CliRunner().invoke(main, ["compile", *asked, "--certify", "-o", place, "--json"])
    record = json.loads(made.stdout)
    assert made.exit_code == 0
    assert record["claim"]["float"] == record["certificate"]["format"] == "float32"
    assert record["claim"]["asked"] == record["certificate"]["asked"] == 1e-2
    assert record["certificate"]["asked_holds_in"] == ["float64", "float32"]
    shown = CliRunner().invoke(main, ["verify", place], env={"COLUMNS": "80"})
    assert "in float32 on [0.1,1]" in shown.stdout
    assert "claimed in float32: proved" in shown.stdout
    plan = CliRunner().invoke(main, ["plan", *asked, "--json"])
    assert json.loads(plan.stdout)["float"] == "float32"
    wrong = CliRunner().invoke(main, ["plan", "x", "--on", "x=0:1", "--float", "float8"])
    assert wrong.exit_code == 2
    assert "There is no float format 'float8'" in wrong.stderr
    curve = CliRunner().invoke(
        main, ["plan", "x", "--on", "x=0:1", "--float", "float32", "--curve"]
    )
    assert "leave out --curve" in curve.stderr


# ---- lemmas ------------------------------------------------------------------------------------


@pytest.mark.parametrize("distance", [1e-6, 0.01, 0.3])
def test_means_of_values_that_lie_close_move_little(distance):
    """(e^(4d) - 1) s/4 holds for all logits, and is attained by two tokens as d vanishes."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        logits, values = rng.normal(size=8) * 3.0, rng.normal(size=8) * 10.0 ** rng.normal(size=8)
        off = distance * rng.choice([-1.0, 1.0], size=8)
        p, q = (np.exp(x) / np.exp(x).sum() for x in (logits, logits + off))
        spread = p @ np.abs(values[:, None] - values) @ p
        assert abs((q - p) @ values) <= np.expm1(4.0 * distance) / 4.0 * spread * (1.0 + 1e-9)
    moved, spread = np.tanh(distance), 1.0  # p = 1/2, values +1 and -1, logits off by +d and -d
    assert moved <= np.expm1(4.0 * distance) / 4.0 * spread
    if distance < 1e-5:
        assert moved == pytest.approx(np.expm1(4.0 * distance) / 4.0 * spread, rel=1e-4)


@pytest.mark.parametrize("flatness", [4.0, 8.0, 16.0])
def test_two_draws_from_a_grid_are_half_a_spacing_apart(flatness):
    """The bound holds at every x; half-way between two anchors it is nearly attained."""
    e, x = np.arange(-30.0, 31.0), np.linspace(0.0, 0.5, 401)
    p = np.exp(-0.5 * flatness * (x[:, None] - e) ** 2)
    p /= p.sum(axis=1, keepdims=True)
    apart = np.einsum("xj,xk,jk->x", p, p, np.abs(e[:, None] - e))
    assert apart.max() <= mean_difference(1.0, flatness)
    if flatness == 16.0:
        assert mean_difference(1.0, flatness) <= 1.01 * apart.max()


def test_coefficients_of_the_format_make_up_for_each_other():
    """Rounded one by one, the others fitted anew, a sum is closer than rounded all at once."""
    format = FORMATS["bfloat16"]
    curve = Curve.of(Function.parse("exp(t)").expressions[0], "t", 0.0, 1.0)
    fit = fit_sigmoids(curve, 1, format=format)
    ours = rounded_to(format, curve, fit, affine=True)
    numbers = [ours.offset, ours.slope, *(n for t in ours.terms for n in vars(t).values())]
    assert format.holds(np.array(numbers)).all()
    x = np.linspace(0.0, 1.0, 1000)
    plain = replace(
        fit,
        offset=float(format.stored(np.array(fit.offset))),
        slope=float(format.stored(np.array(fit.slope))),
        terms=tuple(
            replace(t, **{k: float(format.stored(np.array(v))) for k, v in vars(t).items()})
            for t in fit.terms
        ),
    )
    assert np.abs(ours.at(x) - np.exp(x)).max() <= ours.error
    assert ours.error < np.abs(plain.at(x) - np.exp(x)).max()


def test_pieces_that_are_turned_round_are_the_same_function():
    from hardmax.lowering.approximants import fit_knots

    curve = Curve.of(Function.parse("1/t").expressions[0], "t", 0.1, 1.0)
    fit, sketch = fit_knots(curve, 1e-2), BoxSketch(hm.Box([0.1], [1.0]))
    x = sketch.input(0)
    sizes, values = [], []
    for balanced in (False, True):
        line, bends = _bends(fit, x, balanced)
        sizes.append(sum(abs(float(c)) for z, c in bends if z.terms[sketch.registers[0]] > 0))
        at = [Fraction(k, 37) for k in range(4, 38)]
        values.append([_read(line, t) + sum(c * max(_read(z, t), 0) for z, c in bends) for t in at])
    assert values[0] == values[1]
    assert sizes[1] < 0.2 * sizes[0]


def _read(form, number):
    return sum(weight * number for weight in form.terms.values()) + form.constant


def test_weights_of_a_format_are_stored_once():
    model = compiled(PRODUCT, 1e-3)
    once = stored_in(model.transformer, FORMATS["float16"])
    twice = stored_in(once, FORMATS["float16"])
    pairs = zip(weight_arrays(once), weight_arrays(twice), strict=True)
    assert all(np.array_equal(a, b) for a, b in pairs)
    assert stored_in(model.transformer, FORMATS["float64"]) is model.transformer
