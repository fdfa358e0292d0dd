"""Derivatives of the checker's functions against power series of balls, which know none of them."""

from __future__ import annotations

from fractions import Fraction

import flint
import numpy as np
import pytest

from hardmax.checker.boxes._curves import _DERIVATIVES, named_curve, rectifier_curve
from hardmax.numerics import pair_ends, precision

POSITIVE = {"log", "sqrt", "reciprocal"}
CURVES = [
    *((name, 0) for name in sorted({*_DERIVATIVES, "sigmoid"} - {"power"})),
    *(("power", p) for p in (-2, 2, 3, 5, Fraction(3, 2), Fraction(-1, 3))),
]


def series_of(name, exponent, x):
    """f, f' and f'' at a number, from the first coefficients of f(x + t)."""
    t = flint.arb_series([flint.arb(x), 1], 3)
    match name:
        case "reciprocal":
            found = 1 / t
        case "power":
            found = flint.arb_series.exp(
                t.log() * flint.arb(flint.fmpq(exponent.numerator, exponent.denominator))
            )
        case "sigmoid":
            found = 1 / (1 + (-t).exp())
        case "tanh":
            double = (2 * t).exp()
            found = (double - 1) / (double + 1)
        case _:
            found = getattr(t, name)()
    return [found[0], found[1], 2 * found[2]]


def places(name, exponent):
    positive = name in POSITIVE or (name == "power" and Fraction(exponent).denominator > 1)
    rng = np.random.default_rng(0)
    x = rng.uniform(0.1, 3.0, 40) if positive or name == "power" else rng.uniform(-3.0, 3.0, 40)
    return x[np.abs(np.cos(x)) > 0.1] if name == "tan" else x


@pytest.mark.parametrize(("name", "exponent"), CURVES)
def test_value_and_derivatives_enclose_those_of_the_series(name, exponent):
    """At a point the enclosure is as narrow as floats allow: a wrong factor cannot hide in it."""
    x = places(name, exponent)
    with precision(200, 3):
        for order, pair in enumerate(named_curve(name, exponent, x, x)):
            low, high = pair_ends(pair)
            for i, number in enumerate(x):
                truth = series_of(name, Fraction(exponent), float(number))[order]
                assert flint.arb(float(low[i])) <= truth <= flint.arb(float(high[i]))
                assert high[i] - low[i] <= 1e-13 * (1.0 + abs(float(truth)))


@pytest.mark.parametrize(("name", "exponent"), CURVES)
def test_intervals_enclose_all_their_points(name, exponent):
    x = places(name, exponent)
    wide = np.minimum(0.05, 0.05 * np.abs(np.cos(x))) if name == "tan" else 0.05
    found = [pair_ends(pair) for pair in named_curve(name, exponent, x - wide, x + wide)]
    for share in (-1.0, -0.3, 0.4, 1.0):
        inside = named_curve(name, exponent, x + share * wide, x + share * wide)
        for (low, high), pair in zip(found, inside, strict=True):
            some_low, some_high = pair_ends(pair)
            assert (low <= some_high).all()
            assert (some_low <= high).all()


def test_the_sigmoid_is_steepest_at_0():
    low, high = np.array([-0.5, 0.0, -0.5, 0.5]), np.array([0.25, 0.5, 0.0, 1.0])
    _, first, _ = named_curve("sigmoid", 0, low, high)
    top = pair_ends(first)[1]
    assert (top[:3] >= 0.25).all()
    assert (top[:3] <= 0.25 * (1 + 1e-14)).all()
    assert top[3] < 0.24


def test_a_rectifier_has_one_slope_on_each_side_and_any_between():
    low, high = np.array([-2.0, 1.0, -1.0, 0.0, np.nan]), np.array([-1.0, 3.0, 2.0, 1.0, 1.0])
    value, slope, bend = rectifier_curve(low, high)
    bottom, top = pair_ends(value)
    assert (bottom[:4] <= [0.0, 1.0, 0.0, 0.0]).all()
    assert (top[:4] >= [0.0, 3.0, 2.0, 1.0]).all()
    assert (top[:4] - bottom[:4] <= np.array([0.0, 2.0, 2.0, 1.0]) * (1 + 1e-14)).all()
    assert list(slope[0] - slope[1]) == [0.0, 1.0, 0.0, 1.0, 0.0]
    assert list(slope[0] + slope[1]) == [0.0, 1.0, 1.0, 1.0, 1.0]
    assert list(bend[1]) == [0.0, 0.0, np.inf, 0.0, np.inf]
