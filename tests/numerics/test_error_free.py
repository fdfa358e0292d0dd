"""Sums and products without error, against fractions, from the smallest floats to large ones."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardmax.numerics import (
    are_moderate,
    exact_product,
    exact_sum,
    nearest_products,
    product_of_double_doubles,
    sum_of_double_doubles,
)

SMALLEST = 5e-324
any_float = st.floats(-1e300, 1e300) | st.sampled_from([SMALLEST, -SMALLEST, 2.0**1000, 2.0**-1060])
moderate = st.builds(
    lambda m, e, s: s * m * 2.0**e,
    st.floats(1.0, 2.0, exclude_max=True),
    st.integers(-399, 398),
    st.sampled_from([1.0, -1.0]),
) | st.just(0.0)


def array(*values: float) -> np.ndarray:
    return np.array(values)


def value(double) -> Fraction:
    return Fraction(float(double[0][0])) + Fraction(float(double[1][0]))


def is_nearest(double) -> bool:
    return float(double[0][0]) == float(value(double))


@settings(deadline=None)
@given(any_float, any_float)
def test_sums_are_exact_for_all_floats(a, b):
    """Subnormal ones, too; only sums that overflow are excluded."""
    found = exact_sum(array(a), array(b))
    assert value(found) == Fraction(a) + Fraction(b)
    assert is_nearest(found)


@settings(deadline=None)
@given(moderate, moderate)
def test_products_of_moderate_floats_are_exact(a, b):
    found = exact_product(array(a), array(b))
    assert value(found) == Fraction(a) * Fraction(b)
    assert is_nearest(found)
    assert value(exact_product(array(a), b)) == Fraction(a) * Fraction(b)


def test_products_of_the_longest_mantissas_at_both_ends_are_exact():
    """Beyond the ends they need not be: the low part underflows."""
    long = 2.0 - 2.0**-52
    for a, b in [(long * 2.0**-400, long * 2.0**-400), (long * 2.0**399, long * 2.0**399)]:
        assert are_moderate(array(a, b))
        assert value(exact_product(array(a), array(b))) == Fraction(a) * Fraction(b)
    a = long * 2.0**-530
    assert not are_moderate(array(a))
    assert value(exact_product(array(a), array(a))) != Fraction(a) ** 2


@pytest.mark.parametrize(
    ("values", "is_so"),
    [
        ([0.0, 1.0, -(2.0**400)], True),
        ([-0.0], True),
        ([], True),
        ([np.nextafter(2.0**400, np.inf)], False),
        ([2.0**-400], True),
        ([0.0, np.nextafter(2.0**-400, 0.0)], False),
        ([SMALLEST], False),
        ([np.nan, 1.0], False),
        ([1.0, -np.inf], False),
    ],
)
def test_what_is_moderate(values, is_so):
    assert are_moderate(np.array(values)) is is_so
    if len(values) == 1:
        assert are_moderate(float(values[0])) is is_so


@settings(deadline=None)
@given(moderate, moderate, moderate, moderate)
def test_sums_of_double_doubles_are_exact_or_none(a, b, c, d):
    first, second = exact_sum(array(a), array(b)), exact_sum(array(c), array(d))
    found = sum_of_double_doubles(first, second)
    if found is not None:
        assert value(found) == value(first) + value(second)
        assert is_nearest(found)


def test_a_sum_of_double_doubles_that_fits_is_found_and_one_that_does_not_is_not():
    one = exact_product(array(1.0 + 2.0**-40), array(1.0 + 2.0**-41))
    assert one[1][0] != 0.0
    assert value(sum_of_double_doubles(one, one)) == 2 * value(one)
    far = exact_sum(array(2.0**90), array(2.0**-90))
    assert sum_of_double_doubles(far, one) is None


@settings(deadline=None)
@given(moderate, moderate, moderate)
def test_products_of_double_doubles_are_exact_or_none(a, b, c):
    first = exact_product(array(a), array(b))
    if not (are_moderate(first[0]) and are_moderate(first[1])):
        return
    found = product_of_double_doubles(first, c)
    if found is not None:
        assert value(found) == value(first) * Fraction(c)
        assert is_nearest(found)


@settings(deadline=None)
@given(st.floats(0.5, 2.0), st.floats(0.5, 2.0), st.integers(1, 10**30), st.integers(1, 10**30))
def test_the_nearest_floats_of_products_are_those_of_the_fractions(a, b, p, q):
    high, low = exact_product(array(a), array(b))
    factor = Fraction(p, q)
    top = float(factor)
    near = top, float(factor - Fraction(top))
    found, is_sure = nearest_products((high, low), near)
    if is_sure[0]:
        assert float(found[0]) == float((Fraction(a) * Fraction(b)) * factor)


def test_a_product_in_the_middle_of_two_floats_is_in_doubt():
    """(1 + 2^-52) * 3/2 is such a middle: whoever asks has to look at the rationals."""
    tie = array(1.0 + 2.0**-52), array(0.0)
    assert not nearest_products(tie, (1.5, 0.0))[1][0]
    assert nearest_products(tie, (1.0, 0.0))[1][0]
