"""Expressions mean one function in every arithmetic, read back as written, and refuse the rest."""

from __future__ import annotations

import copy
import math
import pickle
from fractions import Fraction

import flint
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hardmax import DomainError, FileError, RequestError, SemanticsError, ShapeError
from hardmax import languages as hm
from hardmax.core import Box, EncodedTarget, Target
from hardmax.languages import (
    Apply,
    CallableFunction,
    Function,
    Number,
    Variable,
    build,
    check_domain,
    decode_target,
    derivative,
    evaluate,
    parse,
    substitute,
)
from hardmax.numerics import Interval, exact

x, y, z = hm.variables("x y z")
SMOOTH = ["exp", "sin", "cos", "tanh", "sigmoid"]
PARTIAL = ["log", "sqrt", "tan"]
NUMBERS = st.sampled_from([0, 1, -1, 2, Fraction(1, 3), 0.1, -0.5, math.pi, 1e-3, Fraction(-7, 2)])


def trees(unary, exponents, extra=()):
    leaves = st.sampled_from([x, y, z]) | NUMBERS.map(Number)

    def grow(inner):
        pairs = st.lists(inner, min_size=2, max_size=3)
        options = [
            pairs.map(lambda a: build("add", a)),
            pairs.map(lambda a: build("multiply", a)),
            inner.map(lambda a: -a),
            st.tuples(inner, st.sampled_from(exponents)).map(lambda a: a[0] ** a[1]),
            *[pairs.map(lambda a, name=name: build(name, a)) for name in extra],
        ]
        if unary:
            options.append(
                st.tuples(st.sampled_from(unary), inner).map(lambda a: build(a[0], a[1:]))
            )
        return st.one_of(options)

    return st.recursive(leaves, grow, max_leaves=8)


KINKS = ("minimum", "maximum")
RATIONAL = trees(["abs", "relu"], [2, 3], KINKS)
TOTAL = trees([*SMOOTH, "abs", "relu"], [2, 3], KINKS)
DIFFERENTIABLE = trees(SMOOTH, [2, 3])


EVERYTHING = trees([*SMOOTH, *PARTIAL, "abs", "relu"], [2, -2, 0.5, Fraction(1, 3), -1.5], KINKS)
POINTS = st.fixed_dictionaries({name: st.floats(-2, 2) for name in "xyz"})


@st.composite
def expressions(draw, strategy=EVERYTHING):
    """Any of the strategy; numbers that fold into a division by 0, which is refused, left out."""
    try:
        e = draw(strategy)
        return e / draw(strategy) if draw(st.booleans()) and strategy is EVERYTHING else e
    except RequestError:
        assume(False)


def inside(interval, ball):
    """Not surely outside: the ball has 200 bits, the interval 53."""
    low, high = (
        flint.arb(float(end)) if math.isfinite(end) else None
        for end in (float(interval.lo), float(interval.hi))
    )
    return not (low is not None and ball < low) and not (high is not None and ball > high)


# ---------------------------------------------------------------- values


@settings(deadline=None, max_examples=150)
@given(expressions())
def test_text_reads_back_as_the_same_expression(e):
    assert parse(str(e)) == (e,)
    assert parse(f"{e}, {e}") == (e, e)


@settings(deadline=None, max_examples=150)
@given(expressions(TOTAL), POINTS)
def test_arithmetics_agree(e, point):
    """The interval holds the ball's value; the float lies in the interval up to the rounding of
    a dozen operations, each within 8 ulp of values that the interval's own width accounts for."""
    enclosure = evaluate(e, point, "interval")
    with flint.ctx.workprec(200):
        ball = evaluate(e, point, "ball")
        assume(ball.is_finite() and abs(ball) < 1e100)
        assert inside(enclosure, ball)
    if np.isfinite(enclosure.magnitude) and enclosure.magnitude < 1e100:
        slack = 4 * (enclosure.hi - enclosure.lo) + 1e-300
        assert enclosure.lo - slack <= evaluate(e, point) <= enclosure.hi + slack


@settings(deadline=None, max_examples=150)
@given(expressions(TOTAL), POINTS, POINTS, st.floats(0, 1))
def test_intervals_enclose_the_values_between(e, start, end, share):
    box = {n: Interval(min(start[n], end[n]), max(start[n], end[n])) for n in "xyz"}
    inner = {n: start[n] + share * (end[n] - start[n]) for n in "xyz"}
    point = {n: float(np.clip(inner[n], box[n].lo, box[n].hi)) for n in "xyz"}
    with flint.ctx.workprec(200):
        assert inside(evaluate(e, box, "interval"), evaluate(e, point, "ball"))


@settings(deadline=None, max_examples=150)
@given(expressions(RATIONAL), st.fixed_dictionaries({n: st.fractions(-2, 2) for n in "xyz"}))
def test_fractions_are_exact(e, point):
    """A second opinion: balls around the exact value, 300 bits wide."""
    value = evaluate(e, point, "fraction")
    assert isinstance(value, Fraction)
    with flint.ctx.workprec(300):
        ball = evaluate(e, point, "ball")
        assert ball.overlaps(flint.arb(flint.fmpq(value.numerator, value.denominator)))


@settings(deadline=None, max_examples=100)
@given(expressions(DIFFERENTIABLE), POINTS)
def test_derivatives_are_the_coefficients_of_the_series(e, point):
    with flint.ctx.workprec(300):
        series = {n: flint.arb(v) for n, v in point.items()}
        series["x"] = flint.arb_series([flint.arb(point["x"]), 1], 2)
        expansion = evaluate(e, series, "ball")
        slope = expansion[1] if isinstance(expansion, flint.arb_series) else flint.arb(0)
        value = evaluate(derivative(e, "x"), point, "ball")
        assume(slope.is_finite() and value.is_finite())
        assert slope.overlaps(value)
        assert abs(slope - value) <= 1e-40 * (1 + abs(slope))


@pytest.mark.parametrize("name", [*SMOOTH, *PARTIAL])
def test_every_function_has_its_derivative(name):
    e = build(name, [3 * x])
    series = evaluate(e, {"x": flint.arb_series([flint.arb("0.4"), 1], 2)}, "ball")
    slope = evaluate(derivative(e, "x"), {"x": flint.arb("0.4")}, "ball")
    assert series[1].overlaps(slope)
    assert abs(slope) > 0.1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x**3 + 2*x", "3*x**2 + 2"),
        ("x*y", "y"),
        ("1/x", "-1/x**2"),
        ("log(x)", "1/x"),
        ("sqrt(x)", "1/(2*sqrt(x))"),
        ("tan(x)", "tan(x)**2 + 1"),
        ("exp(2*x)", "2*exp(2*x)"),
        ("x**1.5", "1.5*sqrt(x)"),
        ("sin(y)", "0"),
        ("abs(y)*x", "abs(y)"),
    ],
)
def test_derivatives_are_simplified(text, expected):
    (e,), (wanted,) = parse(text), parse(expected)
    assert derivative(e, "x") == wanted


@pytest.mark.parametrize("text", ["abs(x)", "relu(x - 1)*y", "max(x, y)", "exp(min(x, 1))"])
def test_kinks_have_no_derivative(text):
    with pytest.raises(SemanticsError, match=r"(abs|relu|max|min)\(.*\) has a kink"):
        derivative(parse(text)[0], "x")


def test_series_of_the_functions_without_one_in_flint():
    """tanh' = 1 - tanh**2 and s' = s (1 - s), at balls; kinks away from 0 have series, too."""
    series = flint.arb_series([flint.arb("0.3"), 1], 3)
    for name in ("tanh", "sigmoid"):
        e = build(name, [x])
        value = evaluate(e, {"x": flint.arb("0.3")}, "ball")
        slope = 1 - value**2 if name == "tanh" else value * (1 - value)
        assert evaluate(e, {"x": series}, "ball")[1].overlaps(slope)
    (kinked,) = parse("abs(x) + relu(x) + max(x, 2) + min(x, 0.1, y)")
    assert evaluate(kinked, {"x": series, "y": 1}, "ball")[1] == 2
    with pytest.raises(SemanticsError, match="A kink lies inside the ball"):
        evaluate(abs(x), {"x": flint.arb_series([flint.arb(0, 1), 1], 3)}, "ball")


def test_wide_balls_through_zero():
    wide = {"x": flint.arb(0, 1)}
    for e in (x**2, x**3, x**4, abs(x), hm.relu(x)):
        value = evaluate(e, wide, "ball")
        assert value.is_finite()
        assert value.contains(1)
        assert value.contains(0)
    assert evaluate(x**1.5, {"x": flint.arb(0.5, 0.5)}, "ball").contains(1)
    assert evaluate(x**1.5, {"x": flint.arb(0)}, "ball") == 0


def test_shared_parts_are_evaluated_once():
    """2^200 occurrences of x, and 200 multiplications. The iterated map halves small numbers."""
    e = x
    for _ in range(200):
        e = hm.sin(e) * hm.cos(e) / 2
    assert 0.0 < evaluate(e, {"x": 0.5}) < 2.0**-200
    assert 0.0 < evaluate(derivative(e, "x"), {"x": 0.5}) < 2.0**-200


def test_values_need_values_and_a_known_arithmetic():
    with pytest.raises(RequestError, match="The variable y has no value"):
        evaluate(x + y, {"x": 1.0})
    with pytest.raises(RequestError, match="no arithmetic 'decimal'; there are float, interval"):
        evaluate(x, {"x": 1.0}, "decimal")
    with pytest.raises(SemanticsError, match="exp has irrational values"):
        evaluate(hm.exp(x), {"x": Fraction(1)}, "fraction")
    with pytest.raises(SemanticsError, match="exponent 3/2 has irrational values"):
        evaluate(x**1.5, {"x": Fraction(1)}, "fraction")
    with pytest.raises(DomainError, match="1/x divides by 0"):
        evaluate(1 / x, {"x": Fraction(0)}, "fraction")


# ---------------------------------------------------------------- building


def test_equal_expressions_are_one_object():
    assert x * y + 1 is 1 + x * y
    assert Variable("x") is x
    assert pickle.loads(pickle.dumps(x * hm.exp(y))) is x * hm.exp(y)
    assert copy.deepcopy(x**2) is x**2
    with pytest.raises(AttributeError, match="never change"):
        x.name = "y"


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (lambda: x * 1 + 0, "x"),
        (lambda: x * x, "x**2"),
        (lambda: x * x**2 * y, "x**3*y"),
        (lambda: x + x - 3 * x, "-x"),
        (lambda: -1 * -x, "x"),
        (lambda: 1 - x, "1 - x"),
        (lambda: x - x, "0"),
        (lambda: hm.log(x) - hm.log(x), "0*log(x)"),
        (lambda: x / x, "x/x"),
        (lambda: x * x**-1, "x*(1/x)"),
        (lambda: x / 3, "x/3"),
        (lambda: 2 * x / 3 / y, "2*x/y/3"),
        (lambda: x / 0.1, "x/0.1"),
        (lambda: (x + 1) / -y, "-(x + 1)/y"),
        (lambda: x**0.5, "sqrt(x)"),
        (lambda: x**-1, "1/x"),
        (lambda: (-x) ** 3, "-x**3"),
        (lambda: hm.sqrt(9), "3"),
        (lambda: hm.sqrt(2) * x, "sqrt(2)*x"),
        (lambda: hm.exp(0) + hm.sigmoid(0) * x, "0.5*x + 1"),
        (lambda: hm.maximum(x, 1, hm.maximum(y, 2), x), "max(x, max(y, 2), 1)"),
        (lambda: hm.minimum(x), "x"),
        (lambda: hm.clip(x, -1, 1), "min(max(x, -1), 1)"),
        (lambda: np.float64(2.0) * x + np.int64(1), "2*x + 1"),
        (lambda: math.pi * x, "pi*x"),
        (lambda: 1e300 * x, "1e+300*x"),
        (lambda: hm.relu(-3) + abs(Number(-3)) + x, "x + 3"),
        (lambda: 3 * (x + 1) - 2 * (x + 1) + y, "x + y + 1"),
        (lambda: +x, "x"),
    ],
)
def test_light_simplification(made, text):
    assert str(made()) == text
    assert parse(text) == (made(),)


def test_literals_mean_floats_and_quotients_are_exact():
    assert parse("0.1")[0].value == Fraction(0.1) != Fraction(1, 10)
    assert parse("1/3")[0].value == Fraction(1, 3)
    assert parse("1/3 + 1/6")[0].value == Fraction(1, 2)
    assert parse("pi")[0].value == Fraction(math.pi)
    assert parse("2**10")[0].value == 1024
    assert parse("0.1**50")[0].operation == "power"  # too many bits to be one number


def test_variables_are_found_in_order():
    assert (y * x + y + hm.exp(z)).variables() == ("y", "x", "z")
    assert Number(3).variables() == ()


def test_substitution():
    assert substitute(x * y + hm.exp(x * y), {x * y: z}) is z + hm.exp(z)
    assert substitute(x + y, {x: y, y: x}) is y + x
    assert substitute(x**2, {x: 3}) is Number(9)
    assert substitute(hm.sin(x), {y: z}) is hm.sin(x)


@pytest.mark.parametrize(
    ("made", "error", "complaint"),
    [
        (lambda: x**y, RequestError, r"exponent y is not a constant; write exp\(\(y\)\*log\(x\)\)"),
        (lambda: x / 0, RequestError, "x is divided by 0"),
        (lambda: Number(0) ** -2, RequestError, "0 to the power -2 is not defined"),
        (lambda: Number(math.inf), RequestError, "inf is not a finite real number"),
        (lambda: Number(10**400), RequestError, "beyond 1e307"),
        (lambda: x**10**7, RequestError, "exponent 10000000 is too large"),
        (lambda: x < y, SemanticsError, r"no order; use minimum"),
        (lambda: bool(x), SemanticsError, "neither true nor false"),
        (lambda: Variable("2x"), RequestError, "'2x' cannot name a variable"),
        (lambda: Variable("sin"), RequestError, "sin has a meaning already"),
        (lambda: Variable("lambda"), RequestError, "cannot name a variable"),
        (lambda: hm.variables(["x"]), RequestError, "as one text"),
        (lambda: hm.clip(x, 2, 1), RequestError, "clip needs low <= high"),
        (lambda: hm.minimum(), RequestError, "at least one argument"),
        (lambda: hm.exp("x"), RequestError, "'x' is not a finite real number"),
        (lambda: Apply("foo", (x,)), RequestError, "no operation 'foo'"),
        (lambda: Apply("exp", (x, y)), RequestError, "exp takes 1 arguments, not 2"),
        (lambda: Apply("add", (x, 1)), RequestError, "must be expressions"),
        (lambda: Apply("exp", (x,), Fraction(2)), RequestError, "only a power has one"),
        (lambda: x + "1", TypeError, "unsupported operand"),
        (lambda: build("foo", [x]), RequestError, "no operation 'foo'"),
    ],
)
def test_expressions_check_themselves_at_birth(made, error, complaint):
    with pytest.raises(error, match=complaint):
        made()


# ---------------------------------------------------------------- text


@pytest.mark.parametrize(
    ("text", "complaint", "caret"),
    [
        ("x y", "could not be read: invalid syntax", 2),
        ("x +", "could not be read", 3),
        ("x + fin(x)", "no function fin; did you mean sin?", 4),
        ("ln(x)", "no function ln; did you mean log?", 0),
        ("x + sin", r"sin is a function; write sin\(...\)", 4),
        ("sin(x, y)", "sin takes 1 argument, but it was given 2", 0),
        ("clip(x)", "clip takes 3 arguments, but it was given 1", 0),
        ("max()", "max takes at least one argument", 0),
        ("sin(x=1)", "sin takes 1 argument", 0),
        ("max(*x)", "max takes at least one argument", 0),
        ("2 + x**y", r"exponent y is not a constant; write exp\(\(y\)\*log\(x\)\)", 7),
        ("x^2", r"use \*\* for powers", 1),
        ("x // 2", "Only [+] - [*] / and [*][*] may stand between", 2),
        ("x/0", "x is divided by 0", 2),
        ("1e999*x", "inf is not a finite real number", 0),
        ("(x, y), z", "Several outputs can only stand at the outermost level", 0),
        ("()", "There is no output", 0),
        ("  é + fin(x)", "no function fin", 6),
        ("x +\n fin(y)", "no function fin", 5),
    ],
)
def test_refusals_point_at_the_place(text, complaint, caret):
    with pytest.raises(RequestError, match=complaint) as caught:
        parse(text)
    _, line, mark = str(caught.value).split("\n")
    assert line == "  " + text.replace("\n", " ")
    assert mark == "  " + " " * caret + "^"


def test_unknown_variables_are_named_with_the_nearest_known_one():
    with pytest.raises(RequestError, match="no variable lenght; did you mean length"):
        Function.parse("2*lenght", variables=["length", "width"])


def test_a_caret_far_out_stays_in_sight():
    with pytest.raises(RequestError, match="no function fin") as caught:
        parse("x + " * 200 + "fin(x)")
    _, line, mark = str(caught.value).split("\n")
    assert line[len(mark) - 1 :].startswith("fin(x)")
    assert len(line) < 80


HOSTILE = [
    "__import__('os').system('touch harm')",
    "x.__class__",
    "lambda: x",
    "[x for x in y]",
    "{x}",
    "{x: y}",
    "f'{x}'",
    "'x'",
    "(x := 1)",
    "x if y else z",
    "x and y",
    "not x",
    "x == y",
    "x < y < z",
    "x[0]",
    "x @ y",
    "x % y",
    "~x",
    "x << 2",
    "True",
    "None",
    "...",
    "1j",
    "b'x'",
    "await x",
    "yield x",
    "*x, y",
    "exec('1')",
    "open('harm', 'w')",
    "sin.__globals__",
    "x; y",
    "import os",
    "x = 1",
    "",
    "   ",
    "# nothing",
    "x\0",
    "x\ud800",
    "sin(x)(y)",
    "9" * 5000,
]


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_but_arithmetic_is_read(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RequestError):
        parse(text)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("x" * 100_001, "100,001 characters; at most 100,000 are read"),
        ("(" * 300 + "x" + ")" * 300, "too many nested parentheses"),
        ("-" * 50_000 + "x", "nested too deeply"),
        ("x**" * 10_000 + "2", "nested too deeply"),
        ("-" * 250 + "x", "nested deeper than 200 levels"),
        ("+".join(["x"] * 40_000), "nested too deeply, or has thousands of terms"),
    ],
)
def test_absurd_sizes_are_refused_in_one_sentence(text, complaint):
    with pytest.raises(RequestError, match=complaint):
        parse(text)
    with pytest.raises(RequestError, match="a text, not int"):
        parse(3)


def test_long_sums_are_no_deep_nests():
    (e,) = parse("+".join(f"x{i}*{i}" for i in range(2, 900)))
    assert e.depth == 2
    assert len(e.arguments) == 898


# ---------------------------------------------------------------- functions as targets


@settings(deadline=None, max_examples=100)
@given(
    st.lists(expressions(RATIONAL), min_size=1, max_size=3),
    st.lists(st.fractions(-2, 2, max_denominator=50), min_size=3, max_size=3),
)
def test_steps_compute_the_function_exactly(outputs, point):
    f = Function(outputs, "x y z")
    at = np.array(point, dtype=object)
    values = f.steps().values(at)
    assert list(values[-1]) == list(f(at))
    for part, (value, component) in f.places().items():
        assert values[value][component] == evaluate(
            part, dict(zip("xyz", point, strict=True)), "fraction"
        )


@settings(deadline=None, max_examples=60)
@given(st.lists(expressions(TOTAL), min_size=1, max_size=3), POINTS)
def test_steps_enclose_the_function(outputs, point):
    f = Function(outputs, "x y z")
    enclosure = f.steps().values(Interval.point([point[name] for name in "xyz"]))[-1]
    with flint.ctx.workprec(200):
        for i, e in enumerate(outputs):
            assert inside(enclosure[i], evaluate(e, point, "ball"))


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("x*y", ["Product"]),
        ("2*x - y + 1", ["Affine"]),
        ("x*y, x + y", ["Product", "Affine"]),
        ("1/x", ["Univariate"]),
        ("y/x", ["Affine", "Univariate", "Product"]),
        ("min(x, y)", ["Affine", "Maximum", "Affine"]),
        ("max(2*x, y - 1, 3)", ["Affine", "Maximum"]),
        ("exp(x + y)*(x + y)", ["Affine", "Univariate", "Product"]),
        ("x**3", ["Univariate"]),
        ("x/3", ["Affine", "Univariate", "Product"]),
        ("sin(x) + sin(x)**2", ["Univariate", "Univariate", "Affine"]),
    ],
)
def test_steps_have_the_promised_form(text, steps):
    f = Function.parse(text)
    assert [type(step).__name__ for step in f.steps().steps] == steps
    assert f.steps().steps[-1].size == f.outputs


@pytest.mark.parametrize(
    "text",
    [
        "x/3",
        "x + 1/7",
        "(0.1 + 0.2)*x",
        "0.1*0.3*x + 1/3",
        "0.1*(x + 1) + x",
        "(0.1*(0.3*x + 1) + x)**2",
        "min(x/3, 1/7)/0.1",
    ],
)
def test_numbers_that_float64_does_not_hold_stay_exact_in_steps(text):
    f = Function.parse(text)
    at = np.array([Fraction(5, 7)], dtype=object)
    assert list(f.steps().values(at)[-1]) == list(f(at))


def test_a_function_is_called_like_a_network():
    f = Function.parse("x*y, x + y, 3")
    assert isinstance(f, Target)
    assert (f.inputs, f.outputs, f.parameters) == (2, 3, None)
    assert f([2.0, 5.0]).tolist() == [10.0, 7.0, 3.0]
    assert f(x=2, y=5).tolist() == [10.0, 7.0, 3.0]
    assert f(np.ones((4, 3, 2))).shape == (4, 3, 3)
    assert f(np.ones((0, 2))).shape == (0, 3)
    assert f(x=[1, 2], y=3).tolist() == [[3, 4, 3], [6, 5, 3]]
    assert list(f(exact([0.5, 0.25]))) == [Fraction(1, 8), Fraction(3, 4), 3]
    box = f(Interval(np.zeros((2, 5)), np.ones((2, 5))))
    assert box.shape == (3, 5)
    assert f(x=Interval(0.0, 1.0), y=2.0).contains([1.0, 2.5, 3.0]).all()
    with pytest.raises(ShapeError, match="takes 2 numbers along the last axis"):
        f([1.0])
    with pytest.raises(ShapeError, match="all by name: x, y"):
        f(x=1.0)
    with pytest.raises(ShapeError, match="all by name"):
        f([1.0, 2.0], x=1.0)


def test_eight_variables():
    names = [f"x{i}" for i in range(1, 9)]
    f = Function.parse(" + ".join(f"sin({n})**2/{i}" for i, n in enumerate(names, 1)))
    assert f.variables == tuple(names)
    at = np.linspace(0, 1, 8)
    assert f(at) == pytest.approx(sum(math.sin(v) ** 2 / i for i, v in enumerate(at, 1)))
    assert f.steps().values(at)[-1] == pytest.approx(f(at))
    assert f.check_domain((-1, 1)).dimension == 8


@pytest.mark.parametrize(
    "text", ["x*y", "y, x -> x*y, sin(x)", "x, unused -> x**(1/3)", "[x, y/3]"]
)
def test_files_hold_functions_as_text(text):
    f = Function.parse(text)
    encoded = f.encode()
    assert (encoded.kind, encoded.tensors) == ("function", {})
    assert decode_target(encoded) == f
    assert str(Function.parse(str(f))) == encoded.text == str(f)


def test_damaged_texts_are_the_files_fault():
    with pytest.raises(FileError, match="no function that can be read"):
        decode_target(EncodedTarget("function", "x -> fin(x)", {}))


def test_functions_print_what_they_are():
    assert repr(Function.parse("x*y")) == "Function(x, y -> x*y)"
    assert len(repr(Function.parse("+".join(f"x{i}**2" for i in range(40))))) < 95


@pytest.mark.parametrize(
    ("made", "complaint"),
    [
        (lambda: Function([]), "at least one output"),
        (lambda: Function.parse("1 + 2"), "has no variables"),
        (lambda: Function(x + y, "x"), "y is not among the variables x"),
        (lambda: Function(x, "x x"), "are not different"),
        (lambda: Function(x, ["1"]), "cannot name a variable"),
        (lambda: Function.parse("x -> x", variables="y"), "given twice"),
        (lambda: Function(deep(201)), "deeper than 200 levels"),
        (lambda: Function(wide(40)), "longer than 100,000 characters"),
    ],
)
def test_functions_check_themselves_at_birth(made, complaint):
    with pytest.raises(RequestError, match=complaint):
        made()


def deep(levels):
    e = x
    for _ in range(levels):
        e = hm.sin(e)
    return e


def wide(levels):
    e = x
    for _ in range(levels):
        e = hm.sin(e) + hm.cos(e)
    return e


def test_the_deepest_function_can_be_stored():
    f = Function(deep(200))
    assert decode_target(f.encode()) == f


# ---------------------------------------------------------------- domains


def test_domains_are_read_in_the_order_of_the_variables():
    f = Function.parse("y*x")
    assert f.variables == ("y", "x")
    wanted = Box(np.array([0.0, -1.0]), np.array([1e-3, 1.0]))
    for on in (
        {"x": (-1, 1), "y": (0, 1e-3)},
        ["x=-1:1", "y=0:1e-3"],
        wanted,
        "[0,0.001] x [-1,1]",
    ):
        assert f.domain(on) == wanted
    assert f.domain((-1, 1)) == Box(-np.ones(2), np.ones(2))
    assert Function.parse("x").domain("x=-1:1") == Box(np.array([-1.0]), np.array([1.0]))


@pytest.mark.parametrize(
    ("on", "complaint"),
    [
        ({"x": (0, 1)}, r"No domain was given for y; add --on y=LOW:HIGH"),
        ({}, "No domain was given for x, y"),
        ({"x": (0, 1), "y": (0, 1), "z": (0, 1)}, "given for z, which the function does not use"),
        ({"x": (0, 1), "Y": (0, 1)}, "given for Y, which the function does not use"),
        ({"x": (1, 0), "y": (0, 1)}, r"domain of x is inverted, \[1, 0\]"),
        ({"x": (math.nan, 0), "y": (0, 1)}, "domain of x is .*; give finite numbers"),
        ({"x": (-math.inf, 0), "y": (0, 1)}, "give finite numbers for both ends"),
        ({"x": 3, "y": (0, 1)}, "domain of x must be a pair"),
        ({"x": "ab", "y": (0, 1)}, "domain of x must be a pair"),
        (["x=0:1", "y=-inf:1"], "give finite numbers for both ends"),
        (["x=0:1", "x=0:1"], "domain of x is given twice"),
        (["x=0-1", "y=0:1"], '"x=0-1" could not be read; write it as x=-1:1'),
        (["x=a:b"], "its ends must be numbers"),
        (["x=:1"], "its ends must be numbers"),
        (["x"], "could not be read"),
        ("[0,1]^3", "2 inputs, but the domain has 3"),
        ([], "domain must be"),
    ],
)
def test_domains_that_say_too_little_or_too_much(on, complaint):
    with pytest.raises(DomainError, match=complaint):
        Function.parse("x*y").domain(on)


GOOD = [
    ("1/x", {"x": (0.1, 1)}),
    ("log(x)", {"x": (1e-9, 1)}),
    ("sqrt(x)", {"x": (0, 1)}),
    ("sqrt(1 - x**2)", {"x": (-1, 1)}),
    ("sqrt(4 - x**2) + sqrt(x + 2)", {"x": (-2, 2)}),
    ("sqrt(x*(1 - x))", {"x": (0, 1)}),
    ("sqrt(x*y)", {"x": (0, 1), "y": (0, 1)}),
    ("1/(x**2 + y**2 + 0.01)", {"x": (-1, 1), "y": (-1, 1)}),
    ("1/(x**2 - 2*x + 1.001)", {"x": (-3, 3)}),
    ("tan(x)", {"x": (-1.5, 1.5)}),
    ("log(sin(x))", {"x": (0.1, 3)}),
    ("x**1.5 + x**(1/3)", {"x": (0, 2)}),
    ("exp(600*x)", {"x": (0, 1)}),
    ("1/(a + b + c + d + f + g + h + k - 20)", dict.fromkeys("abcdfghk", (0, 1))),
]


@pytest.mark.parametrize(("text", "on"), GOOD)
def test_defined_functions_are_let_through(text, on):
    f = Function.parse(text)
    assert f.check_domain(on) == f.domain(on)


BAD = [
    (
        *("1/x", {"x": (-1, 1)}),
        "1/x is not defined at x = 0, which lies in the domain x in [-1, 1]. Give a domain that "
        "excludes 0, for example x in [0.1, 1].",
    ),
    (
        *("log(x - 1)", {"x": (-1, 1)}),
        "log(x - 1) needs a positive argument, but x - 1 ranges over [-2, 0] on x in [-1, 1].",
    ),
    ("1/x", {"x": (0, 1)}, "not defined at x = 0"),
    ("1/x", {"x": (-1, 2)}, "for example x in [0.2, 2]"),
    ("1/(x - 0.3)", {"x": (0, 1)}, "not defined at x = 0.3, which"),
    ("1/sin(x)", {"x": (1, 7)}, "not defined at x = 3.14159"),
    ("x**-2", {"x": (-3, 1)}, "x**-2 is not defined at x = 0"),
    ("1/(x - y)", {"x": (0, 1), "y": (0.5, 2)}, "where x - y is 0"),
    ("log(x)", {"x": (0, 1)}, "log(x) needs a positive argument, but x ranges over [0, 1]"),
    ("log(sin(x))", {"x": (0.1, 4)}, "sin(x) ranges over [-0.7568"),
    (
        "sqrt(x)",
        {"x": (-1e-9, 1)},
        "sqrt(x) needs a nonnegative argument, but x ranges over [-1e-09",
    ),
    ("x**1.5", {"x": (-1, 1)}, "x**1.5 needs a nonnegative argument"),
    ("x**-0.5", {"x": (0, 1)}, "x**-0.5 needs a positive argument"),
    ("tan(2*x)", {"x": (0, 1)}, "tan(2*x) has a pole"),
    (
        "tan(2*x)",
        {"x": (0, 1)},
        "2*x ranges over [0, 2] on x in [0, 1], with a pole at x = 0.785398",
    ),
    ("exp(1000*x)", {"x": (0, 1)}, "exp(1000*x) overflows: it is 1.970e+434 at x = 1"),
    ("exp(exp(exp(x)))", {"x": (0, 10)}, "exp(exp(x)) overflows"),
    ("1/x", {"x": (1e-305, 1)}, "1/x overflows"),
    ("x*log(-2)", {"x": (0, 1)}, "log(-2) needs a positive argument"),
    ("x + 1/(exp(1) - exp(1) + 0*log(2))", {"x": (0, 1)}, "not defined, because"),
    ("0*log(x)", {"x": (-2, -1)}, "log(x) needs a positive argument"),
    ("sqrt(x**2 - 2*x*y + y**2)", {"x": (0, 1), "y": (0, 1)}, "could not be proved that sqrt"),
]


@pytest.mark.parametrize(("text", "on", "complaint"), BAD)
def test_undefined_functions_are_refused(text, on, complaint):
    with pytest.raises(DomainError) as caught:
        Function.parse(text).check_domain(on)
    assert complaint in str(caught.value)


def test_the_innermost_offender_is_named():
    e = parse("sqrt(log(x) + 10)")[0]
    with pytest.raises(DomainError, match=r"^log\(x\) needs"):
        check_domain([e], {"x": (-1.0, 1.0)})


# ---------------------------------------------------------------- Python functions


def test_callables_take_arrays_or_points():
    by_array = CallableFunction(lambda x, y: x * y, "x y", lipschitz=1.0)
    by_point = CallableFunction(lambda x, y: math.fabs(x) * y, 2, lipschitz=1.0)
    constant = CallableFunction(lambda x: 3.0, ["x"], lipschitz=0.0)
    several = CallableFunction(lambda x: (x, x**2), "x", outputs=2, lipschitz=2.0)
    points = np.array([[0.5, 0.5], [1.0, 0.25], [0.0, 1.0]])
    assert by_array(points).tolist() == by_point(points).tolist() == [[0.25], [0.25], [0.0]]
    assert constant(np.zeros((4, 1))).tolist() == [[3.0]] * 4
    assert several([3.0]).tolist() == [3.0, 9.0]
    assert by_point.variables == ("x0", "x1")
    assert by_array(np.zeros((0, 2))).shape == (0, 1)
    assert by_array.domain({"y": (0, 1), "x": (2, 3)}).low.tolist() == [2.0, 0.0]
    assert isinstance(by_array, Target)
    assert by_array.steps() is None
    assert by_array.encode() is None
    assert repr(CallableFunction(math.sin, "x", lipschitz=1)) == "CallableFunction(sin(x))"


def test_the_mean_value_bound_is_attained():
    """2x + 3y changes by exactly its slopes times the radii; only rounding is added."""
    f = CallableFunction(lambda x, y: 2 * x + 3 * y, "x y", lipschitz=[2.0, 3.0])
    box = f(Interval(np.array([-1.0, 0.0]), np.array([1.0, 4.0])))
    assert (box.lo[0], box.hi[0]) == pytest.approx((-2.0, 14.0), rel=1e-14)
    assert box.contains([-2.0]).all()
    assert box.contains([14.0]).all()


def test_the_curvature_bound_is_attained():
    """x**2 on [-1, 1]: corners 1, and 2 * 2**2 / 8 below them lies its minimum 0."""
    f = CallableFunction(lambda x: x**2, "x", second_derivative=2.0)
    box = f(Interval(np.array([-1.0]), np.array([1.0])))
    assert float(box.lo[0]) == pytest.approx(0.0, abs=1e-14)
    assert box.contains([0.0]).all()


@settings(deadline=None, max_examples=60)
@given(st.lists(st.floats(-2, 2), min_size=6, max_size=6))
def test_enclosures_of_callables_hold(numbers):
    """|d/dx sin(x) cos(y)| <= 1, and so are all second derivatives; both bounds at once."""
    f = CallableFunction(lambda x, y: np.sin(x) * np.cos(y), 2, lipschitz=1, second_derivative=1)
    a, b, share = np.array(numbers).reshape(3, 2)
    box = Interval(np.minimum(a, b), np.maximum(a, b))
    inner = np.clip(box.lo + (share + 2) / 4 * (box.hi - box.lo), box.lo, box.hi)
    enclosure = f(box)
    assert enclosure.lo - 1e-15 <= f(inner) <= enclosure.hi + 1e-15  # np.sin rounds, too


@pytest.mark.parametrize(
    ("made", "error", "complaint"),
    [
        (lambda: CallableFunction(3, "x", lipschitz=1), RequestError, "Python function is needed"),
        (
            lambda: CallableFunction(abs, "x"),
            RequestError,
            "give lipschitz=..., second_derivative=... or modulus",
        ),
        (lambda: CallableFunction(abs, "x", lipschitz=-1), RequestError, "finite and at least 0"),
        (lambda: CallableFunction(abs, "x", lipschitz=math.inf), RequestError, "finite and at"),
        (lambda: CallableFunction(abs, "x", lipschitz=[1, 2]), RequestError, "or 1 of them"),
        (lambda: CallableFunction(abs, "x", lipschitz="a"), RequestError, "must be a number"),
        (lambda: CallableFunction(abs, 0, lipschitz=1), RequestError, "needs variables"),
        (lambda: CallableFunction(abs, "x", outputs=0, lipschitz=1), RequestError, "one output"),
        (lambda: CallableFunction(np.log, "x", lipschitz=1)([0.0]), DomainError, r"-inf\] at \[0"),
        (lambda: CallableFunction(str, "x", lipschitz=1)([0.0]), RequestError, "returned '0.0'"),
        (
            lambda: CallableFunction(abs, "x", lipschitz=1)(exact([0.5])),
            SemanticsError,
            "no exact values",
        ),
        (
            lambda: CallableFunction(lambda x: abs(x), "x", lipschitz=0.1, second_derivative=0.0)(
                Interval(np.array([-1.0]), np.array([1.0]))
            ),
            RequestError,
            "contradict the bounds",
        ),
    ],
)
def test_callables_check_what_they_are_told(made, error, complaint):
    with pytest.raises(error, match=complaint):
        made()


@pytest.mark.parametrize("text", ["x + 1 + 1e-310", "x*(1+1e-310)", "x + 1e10 + 1e-305"])
def test_numbers_that_no_text_can_hold_are_refused_at_birth(text):
    """They were taken, proved and saved, and the file could not be read."""
    with pytest.raises(RequestError, match=r"more than a\s+thousand bits"):
        hm.Function.parse(text)


@pytest.mark.parametrize("value", [1e-310, 5e-324, 2.0**-1000 * 3, 1 + 2.0**-52, 1e300])
def test_floats_of_all_sizes_read_back(value):
    made = hm.Function(hm.variable("x") * value + value)
    assert hm.Function.parse(str(made)) == made


def test_nothing_times_a_quotient_keeps_its_parentheses():
    x, y = hm.variables("x y")
    for made in (0 * (x / y), 0 * ((x + 1) / y) + x, 0 * (x / x) + x):
        assert hm.Function.parse(str(hm.Function(made))) == hm.Function(made)
