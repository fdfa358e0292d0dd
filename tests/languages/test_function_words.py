"""Functions of one variable as words, and sign, softmax and norm, which are composed of them."""

from __future__ import annotations

import inspect
import math
from fractions import Fraction

import flint
import numpy as np
import pytest

import hardmax as hm
from hardmax import DomainError, RequestError, SemanticsError, languages
from hardmax.languages import Function, Number, build, derivative, evaluate, parse
from hardmax.languages.expressions import words
from hardmax.numerics import FUNCTION_WORDS, FUNCTIONS, Interval, precision

x, y, z = hm.variables("x y z")
PYTHON_HAS = {"abs"}  # a word of Python itself, which expressions answer


@pytest.mark.parametrize("name", sorted(set(FUNCTION_WORDS) - PYTHON_HAS))
def test_every_record_is_a_word_of_python_and_says_what_it_means(name):
    word = getattr(hm, name)
    assert word is getattr(languages, name)
    assert name in words.__all__
    assert inspect.getdoc(word).split("\n\n")[0] == FUNCTIONS[name].meaning
    assert word(x) is build(name, [x])


@pytest.mark.parametrize("name", FUNCTION_WORDS)
def test_every_record_is_a_word_of_the_text(name):
    (made,) = parse(f"{name}(2*x + 1)")
    assert made is build(name, [2 * x + 1])
    assert parse(str(made)) == (made,)
    assert Function.decode(Function(made).encode().text) == Function(made)
    with pytest.raises(RequestError, match=f"{name} has a meaning already"):
        hm.variable(name)


@pytest.mark.parametrize("name", FUNCTION_WORDS)
def test_every_function_has_values_in_every_arithmetic(name):
    made, at = build(name, [x / 2 + 1]), {"x": 0.25}
    enclosure = evaluate(made, at, "interval")
    assert enclosure.contains(evaluate(made, at))
    with precision(100, 3):
        ball = evaluate(made, at, "ball")
        series = evaluate(made, {"x": flint.arb_series([flint.arb(0.25), 1], 3)}, "ball")
        assert series[0].overlaps(ball)
        assert enclosure.lo <= float(ball.mid()) <= enclosure.hi
        if not FUNCTIONS[name].has_kinks:
            assert evaluate(derivative(made, "x"), at, "ball").overlaps(series[1])
            second = derivative(derivative(made, "x"), "x")
            assert evaluate(second, at, "ball").overlaps(2 * series[2])


@pytest.mark.parametrize(
    ("elsewhere", "name"), [(o, name) for name, r in FUNCTIONS.items() for o in r.elsewhere]
)
def test_names_of_elsewhere_lead_to_ours(elsewhere, name):
    with pytest.raises(RequestError, match=f"no function {elsewhere}; did you mean {name}"):
        parse(f"{elsewhere}(x)")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("gello(x)", "did you mean gelu"),
        ("sigmoyd(x)", "did you mean sigmoid"),
        ("sgn(x)", "did you mean sign"),
        ("hypot(x, y)", "did you mean norm"),
        ("sofmax(x, y)", "did you mean softmax"),
        ("sign(x)", "sign takes 1 argument and gap=..., but it was given something else"),
        ("sign(x, gap=y)", "gap must be a number, not y"),
        ("sign(x, gap=-1)", "sign needs a gap > 0, but it is -1"),
        ("sign(x, step=1)", "sign takes 1 argument and gap"),
        ("gelu(x, gap=1)", "gelu takes 1 argument, but it was given something else"),
        ("1 + softmax(x, y)", "has several values, which can only stand at the outermost level"),
        ("softmax()", "softmax takes at least one argument"),
        ("norm()", "norm takes at least one argument"),
        ("x + gelu", r"gelu is a function; write gelu\(...\)"),
        ("x + softmax", r"softmax is a function; write softmax\(...\)"),
    ],
)
def test_refusals_say_what_was_needed(text, complaint):
    with pytest.raises(RequestError, match=complaint):
        parse(text)


def test_the_argument_of_log1p_is_larger_than_minus_one():
    function = Function.parse("log1p(x)")
    assert function.check_domain({"x": (-0.5, 1)}).low == -0.5
    with pytest.raises(DomainError, match=r"log1p\(x\) needs an argument larger than -1, but x"):
        function.check_domain({"x": (-2, 1)})
    with pytest.raises(DomainError, match="Give a domain on which it is larger than -1"):
        function.check_domain({"x": (-1, 1)})


@pytest.mark.parametrize(
    ("made", "value"),
    [
        (lambda: hm.gelu(0), 0),
        (lambda: hm.erf(0), 0),
        (lambda: hm.cosh(0), 1),
        (lambda: hm.log1p(0), 0),
        (lambda: hm.sqrt(Fraction(9, 4)), Fraction(3, 2)),
        (lambda: hm.sigmoid(0), Fraction(1, 2)),
    ],
)
def test_rational_values_are_folded(made, value):
    assert made() is Number(value)


def test_irrational_values_stay():
    assert str(hm.gelu(1) + hm.softplus(0)) == "gelu(1) + softplus(0)"
    with pytest.raises(SemanticsError, match="gelu has irrational values"):
        evaluate(hm.gelu(x), {"x": Fraction(1)}, "fraction")


# ---------------------------------------------------------------- sign, softmax, norm


@pytest.mark.parametrize("gap", [0.1, 0.5, 1e-3, 3, Fraction(1, 3), 0.3])
def test_a_sign_is_the_sign_outside_its_gap(gap):
    """Exactly, at the very edges of the gap and beyond; between them it is a line through 0."""
    made = hm.sign(x, gap=gap)
    edge = Fraction(gap)
    for at in (edge, edge * 2, Fraction(1000)):
        assert evaluate(made, {"x": at}, "fraction") == 1
        assert evaluate(made, {"x": -at}, "fraction") == -1
    assert evaluate(made, {"x": Fraction(0)}, "fraction") == 0
    assert abs(evaluate(made, {"x": edge * Fraction(99, 100)}, "fraction")) < 1
    assert parse(str(made)) == (made,)


def test_a_sign_reads_as_text():
    assert parse("sign(x - y, gap=0.1)") == (hm.sign(x - y, gap=0.1),)
    assert str(hm.sign(x, gap=0.1)) == "min(max(10*x, -1), 1)"
    with pytest.raises(RequestError, match="gap > 0"):
        hm.sign(x, gap=0)
    with pytest.raises(RequestError, match="not a finite real number"):
        hm.sign(x, gap=math.inf)


def test_a_softmax_has_as_many_values_as_arguments():
    parts = hm.softmax(x, 2 * y, 0)
    assert parse("softmax(x, 2*y, 0)") == parts
    assert parse("x, softmax(x, y)") == (x, *hm.softmax(x, y))
    values = Function(parts)([0.3, -0.2])
    powers = np.exp([0.3, -0.4, 0.0])
    assert np.allclose(values, powers / powers.sum(), rtol=1e-14)
    with pytest.raises(RequestError, match="at least one argument"):
        hm.softmax()


def test_a_norm_is_a_root_of_squares():
    assert str(hm.norm(x, y, 3)) == "sqrt(x**2 + y**2 + 9)"
    assert hm.norm(x) is abs(x)
    assert hm.norm(3, 4) is Number(5)
    (read,) = parse("norm(x, y - 1)")
    assert evaluate(read, {"x": 3.0, "y": 5.0}) == 5.0
    with pytest.raises(RequestError, match="at least one argument"):
        hm.norm()


def test_words_take_intervals_by_their_records():
    found = Function.parse("gelu(x)")(Interval(np.array([-5.0]), np.array([5.0])))
    assert -0.1699 > float(found.lo.min()) > -0.17
