"""Elementary functions of intervals enclose what ball arithmetic says, and little more."""

from __future__ import annotations

import math
from fractions import Fraction

import flint
import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from hardmax import DomainError, SemanticsError, ShapeError, numerics
from hardmax.core import Affine, Steps, Univariate
from hardmax.numerics import Interval, softmax_ranges

INF = math.inf
NUMBERS = st.sampled_from([0.0, 1.0, -1.0, 0.5, math.pi, math.pi / 2, 1e-300, 5e-324]) | st.floats(
    -30, 30
)
FUNCTIONS = {
    "exp": lambda v: v.exp(),
    "log": lambda v: v.log(),
    "sqrt": lambda v: v.sqrt(),
    "sin": lambda v: v.sin(),
    "cos": lambda v: v.cos(),
    "tan": lambda v: v.tan(),
    "tanh": lambda v: v.tanh(),
    "sigmoid": lambda v: 1 / (1 + (-v).exp()),
    "absolute": abs,
    "reciprocal": lambda v: 1 / v,
}
DEFINED = {
    "log": lambda v: v > 0,
    "sqrt": lambda v: v >= 0,
    "reciprocal": lambda v: v != 0,
}


def ball(value):
    exactly = Fraction(value)
    return flint.arb(flint.fmpq(exactly.numerator, exactly.denominator))


def holds(interval, value):
    """Whether the ball is not surely outside; of 200 bits, it is far thinner than an ulp."""
    above = interval.hi != INF and value > ball(float(interval.hi))
    below = interval.lo != -INF and value < ball(float(interval.lo))
    return not (above or below)


@st.composite
def points_of_intervals(draw):
    low, high = sorted([draw(NUMBERS), draw(NUMBERS)])
    share = draw(st.sampled_from([Fraction(0), Fraction(1)]) | st.fractions(0, 1))
    return Interval(low, high), Fraction(low) + share * (Fraction(high) - Fraction(low))


@pytest.mark.parametrize("name", FUNCTIONS)
@settings(deadline=None, max_examples=80)
@given(case=points_of_intervals())
def test_values_are_enclosed(name, case):
    interval, point = case
    assume(DEFINED.get(name, lambda _: True)(point))
    with flint.ctx.workprec(200):
        assert holds(getattr(numerics, name)(interval), FUNCTIONS[name](ball(point)))


@settings(deadline=None, max_examples=200)
@given(points_of_intervals(), st.sampled_from([-3, -2, -1, 0, 1, 2, 3, 7]))
def test_integer_powers_are_enclosed(case, exponent):
    interval, point = case
    assume(point != 0 or exponent >= 0)
    assert numerics.power(interval, exponent).contains(point**exponent)


@settings(deadline=None, max_examples=200)
@given(points_of_intervals(), st.sampled_from([0.5, 1.5, -0.5, -2.5, Fraction(1, 3), math.pi]))
def test_fractional_powers_are_enclosed(case, exponent):
    interval, point = case
    assume(point > 0)
    with flint.ctx.workprec(300):
        power = (ball(exponent) * ball(point).log()).exp()
        assert holds(numerics.power(interval, exponent), power)


@pytest.mark.parametrize("name", [*FUNCTIONS, "power"])
@pytest.mark.parametrize("point", [0.1, 0.7, 1.3, 2.9])
def test_points_stay_narrow(name, point):
    """Two ends of 8 ulp each, and one ulp of rounding: soundness alone would allow the line."""
    exponent = [2.5] if name == "power" else []
    value = getattr(numerics, name)(Interval.point(point), *exponent)
    assert 0.0 <= value.hi - value.lo <= 18 * 2.0**-52 * value.magnitude


EXACT = [
    ("power", (0.0, 1.0), (1.0, INF), -1.5),
    ("power", (0.0, 1.0), (1.0, INF), -2),
    ("power", (-1.0, 1.0), (1.0, INF), -2),
    ("power", (-1.0, 1.0), (-INF, INF), -3),
    ("power", (-1.0, 1.0), (0.0, 1.0), 2),
    ("power", (-1.0, 0.0), (-1.0, 0.0), 3),
    ("power", (-2.0, -1.0), (-INF, INF), 0.5),
    ("power", (-1.0, 1.0), (-INF, INF), -0.5),
    ("power", (-3.0, 5.0), (1.0, 1.0), 0),
    ("log", (0.0, 1.0), (-INF, 0.0)),
    ("log", (-1.0, 1.0), (-INF, INF)),
    ("log", (0.0, 0.0), (-INF, INF)),
    ("log", (1.0, INF), (0.0, INF)),
    ("reciprocal", (-1.0, 1.0), (-INF, INF)),
    ("reciprocal", (0.0, 0.0), (-INF, INF)),
    ("reciprocal", (0.0, 4.0), (0.25, INF)),
    ("reciprocal", (-4.0, 0.0), (-INF, -0.25)),
    ("reciprocal", (2.0, INF), (0.0, 0.5)),
    ("sqrt", (0.0, 1.0), (0.0, 1.0)),
    ("sqrt", (-1.0, 1.0), (0.0, 1.0)),
    ("sqrt", (-2.0, -1.0), (-INF, INF)),
    ("sin", (0.0, 0.0), (0.0, 0.0)),
    ("sin", (-INF, 0.0), (-1.0, 1.0)),
    ("sin", (0.0, 2.0), (0.0, 1.0)),
    ("cos", (0.0, 0.0), (1.0, 1.0)),
    ("cos", (0.0, 7.0), (-1.0, 1.0)),
    ("tan", (0.0, 2.0), (-INF, INF)),
    ("tan", (1.5, 1.6), (-INF, INF)),
    ("tan", (-1.6, -1.5), (-INF, INF)),
    ("tan", (0.0, 0.0), (0.0, 0.0)),
    ("tan", (1e200, 1e200), (-INF, INF)),
    ("tanh", (-INF, INF), (-1.0, 1.0)),
    ("sigmoid", (-INF, INF), (0.0, 1.0)),
    ("sigmoid", (0.0, 0.0), (0.5, 0.5)),
    ("exp", (-INF, 0.0), (0.0, 1.0)),
    ("absolute", (-3.0, 2.0), (0.0, 3.0)),
    ("absolute", (-INF, -2.0), (2.0, INF)),
]


@pytest.mark.parametrize(("name", "ends", "expected", "exponent"), [(*c, None)[:4] for c in EXACT])
def test_infinite_ends_and_exact_values(name, ends, expected, exponent):
    """A pole at an end is an infinite end, leaving the domain is everything; 0 and 1 are exact.

    The least subnormals that guard an underflow are allowed for.
    """
    exponents = [] if exponent is None else [exponent]
    value = getattr(numerics, name)(Interval(*ends), *exponents)
    assert (float(value.lo), float(value.hi)) == pytest.approx(expected, rel=0, abs=1e-300)


def test_overflow_is_an_infinite_end_and_no_warning():
    value = numerics.exp(Interval(0.0, 1000.0))
    assert (value.lo, value.hi) == (1.0, INF)
    assert numerics.exp(Interval(1000.0, 1000.0)).lo <= 1.8e308
    assert 0.0 <= numerics.sigmoid(Interval.point(-709.9)).lo <= 5e-309


@given(st.sampled_from([0.0, 1.0, -2.0, INF, -INF]), st.sampled_from([0.0, 3.0, INF, -INF]))
@example(0.0, INF)
def test_no_operation_on_infinite_ends_gives_nan(a, b):
    first, second = Interval(min(a, 0.0), max(a, 0.0)), Interval(min(b, 1.0), max(b, 1.0))
    for value in (first * second, first + second, first - second, first / second, second / first):
        assert not np.isnan(value.lo)
        assert not np.isnan(value.hi)


def test_products_of_one_sign_keep_it():
    """sqrt(x*y) on [0, 1]^2 must not see a negative number that only rounding made."""
    unit = Interval(0.0, 1.0)
    assert (unit * unit).lo == 0.0
    assert (-unit * unit).hi == 0.0
    assert (-unit * -unit).lo == 0.0


@settings(deadline=None)
@given(points_of_intervals(), points_of_intervals())
def test_quotients_and_minima_enclose(first, second):
    (X, x), (Y, y) = first, second
    assert X.minimum(Y).contains(min(x, y))
    assert Interval(np.array([X.lo, Y.lo]), np.array([X.hi, Y.hi])).min().contains(min(x, y))
    if y != 0:
        assert (X / Y).contains(x / y)
        assert (3 / Y).contains(3 / y)


NAMES = ["relu", "abs", "exp", "log", "sqrt", "sin", "cos", "tan", "tanh", "sigmoid", "reciprocal"]


@pytest.mark.parametrize("name", NAMES)
def test_a_univariate_step_agrees_with_itself(name):
    steps = Steps(2, [Univariate((0,), name, 2)])
    x = np.array([0.25, 1.25])
    floats, enclosure = steps.values(x)[-1], steps.values(Interval.point(x))[-1]
    assert enclosure.contains(floats).all()
    if name in ("relu", "abs", "reciprocal"):
        exactly = steps.values(np.array([Fraction(1, 4), Fraction(-5, 4)], dtype=object))[-1]
        wanted = {"relu": [Fraction(1, 4), 0], "abs": [Fraction(1, 4), Fraction(5, 4)]}
        assert list(exactly) == wanted.get(name, [4, Fraction(-4, 5)])
        assert all(type(value) is Fraction for value in exactly)


def test_a_power_step_has_an_exponent():
    half = np.array([Fraction(1, 2)], dtype=object)
    (eighth,) = Steps(1, [Univariate((0,), "power", 1, -3.0)]).values(half)[-1]
    assert (eighth, type(eighth)) == (8, Fraction)
    root = Steps(1, [Univariate((0,), "power", 1, Fraction(1, 3))])
    assert root.values(np.array([8.0]))[-1][0] == pytest.approx(2.0)
    assert root.values(Interval.point([8.0]))[-1].contains([2.0]).all()
    with pytest.raises(SemanticsError, match="exponent 1/3 has irrational values"):
        root.values(half)
    with pytest.raises(ShapeError, match="must be finite"):
        Univariate((0,), "power", 1, math.inf)


def test_steps_refuse_fractions_they_cannot_keep():
    with pytest.raises(SemanticsError, match="exp has irrational values"):
        Steps(1, [Univariate((0,), "exp", 1)]).values(np.array([Fraction(1)], dtype=object))
    zero = np.array([Fraction(0)], dtype=object)
    for name, exponent in (("reciprocal", 1.0), ("power", -2.0)):
        with pytest.raises(DomainError, match=f"{name} of 0 is not defined"):
            Steps(1, [Univariate((0,), name, 1, exponent)]).values(zero)


def test_floats_outside_the_domain_are_silent():
    affine = Affine((0,), [[1.0]], [-2.0])
    values = Steps(1, [affine, Univariate((1,), "log", 1)]).values(np.array([1.0]))
    assert np.isnan(values[-1]).all()


def test_softmax_ranges_are_attained():
    """A weight is largest where its own logit is at its upper end and the others at their lower."""
    rng = np.random.default_rng(0)
    low = rng.normal(size=(50, 4)) * 3
    high = low + rng.exponential(size=(50, 4))
    found = softmax_ranges(low, high)
    for j in range(4):
        own = np.arange(4) == j
        for mixed, end in (
            (np.where(own, high, low), found.hi),
            (np.where(own, low, high), found.lo),
        ):
            weights = np.exp(mixed) / np.exp(mixed).sum(axis=1, keepdims=True)
            assert end[:, j] == pytest.approx(weights[:, j], abs=1e-10)
    inside = low + rng.random((50, 4)) * (high - low)
    weights = np.exp(inside) / np.exp(inside).sum(axis=1, keepdims=True)
    assert found.contains(weights).all()
