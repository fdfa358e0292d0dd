"""Real roots of quadratics, compared exactly."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from hardmax.geometry.counting.line._quadratic import between, rational, roots


def test_roots_are_told_apart_and_recognised():
    """sqrt(2) - 1 comes from two polynomials; a rational 2^-300 beside it is another number."""
    (low, high), (same_low, same_high) = roots(1, 2, -1), roots(-6, -12, 6)
    assert (low, high) == (same_low, same_high)
    assert hash(high) == hash(same_high)
    assert low < high
    below, above = high.enclosed(300)
    assert rational(below) < high < rational(above)
    assert not rational(above) < high
    assert below < between(rational(below), high) < above
    assert roots(4, -4, 1) == (rational(Fraction(1, 2)),)
    assert roots(1, 0, 1) == () == roots(0, 0, 3)
    assert str(high) == "(-2 + sqrt(8))/2"
    with pytest.raises(ValueError, match="irrational"):
        high.fraction  # noqa: B018


def test_roots_that_almost_agree():
    """x^2 - 2 and its neighbour with a root 2^-200 away: ordered as their polynomials say."""
    scale = 2**200
    one, other = roots(scale, 0, -2 * scale)[1], roots(scale, 0, -2 * scale - 1)[1]
    assert one < other
    assert not other < one
    assert float(one) == float(other) == math.sqrt(2)


def test_floats_of_small_roots_are_the_nearest():
    """x^2 - x + e has the small root e + e^2 + ..., of which cancellation must leave no digit."""
    tiny = 2**80
    low, high = roots(tiny, -tiny, 1)
    assert float(low) == 2.0**-80
    assert float(high) == 1.0
    assert low < rational(Fraction(1, tiny - 2))
    assert rational(Fraction(1, tiny)) < low


@pytest.mark.parametrize("value", [1, -1])
def test_floats_of_roots_beside_the_middle_of_two_floats(value):
    """a p^2 + b p q + c q^2 = +-1 with p/q halfway: the root is 2^-160 away and rounds there."""
    p, q = 2**53 + 12345, 2**54
    a = value * pow(p, -2, q) % q
    rest = (value - a * p * p) // q
    b = rest * pow(p, -1, q) % q
    c = (rest - b * p) // q
    assert a * p * p + b * p * q + c * q * q == value
    (root,) = (x for x in roots(a, b, c) if abs(float(x) - p / q) < 2.0**-50)
    above = rational(Fraction(p, q)) < root
    assert float(root) == float(Fraction(p + 1 if above else p - 1, q))
