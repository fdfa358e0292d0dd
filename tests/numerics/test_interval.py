"""Intervals enclose what is true of the reals; the softmax constant is attained."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hardmax import ShapeError
from hardmax.numerics import Interval, exact, gamma, lambert_w, softmax_gap

TINY = 5e-324
SPECIAL = [0.0, -0.0, TINY, -TINY, 2.0**-1022, 1e-200, -1e-200, 1.0, -1.0, 1 + 2**-52, 1e16, -1e100]
# below 1e150 no product, and no sum of products, leaves the range of float64
NUMBERS = st.sampled_from(SPECIAL) | st.floats(-1e150, 1e150)


@st.composite
def intervals(draw, *shape):
    """An interval array and a point inside it: an end, or a rational in between."""
    size = math.prod(shape)
    ends = [
        sorted(draw(st.tuples(NUMBERS, NUMBERS) | NUMBERS.map(lambda v: (v, v))))
        for _ in range(size)
    ]
    lo, hi = (np.array(side, dtype=float).reshape(shape) for side in zip(*ends, strict=True))
    shares = st.sampled_from([Fraction(0), Fraction(1)]) | st.fractions(0, 1, max_denominator=9)
    share = np.array([draw(shares) for _ in range(size)], dtype=object).reshape(shape)
    return Interval(lo, hi), exact(lo) + share * (exact(hi) - exact(lo))


@settings(deadline=None)
@given(intervals(3), intervals(3))
def test_sums_and_differences_enclose(first, second):
    (X, x), (Y, y) = first, second
    assert (X + Y).contains(x + y).all()
    assert (X - Y).contains(x - y).all()
    assert (-X).contains(-x).all()
    assert (X + 0.1).contains(x + Fraction(0.1)).all()
    assert (np.full(3, 0.1) - X).contains(Fraction(0.1) - x).all()


@settings(deadline=None)
@given(intervals(3), intervals(3))
def test_products_and_maxima_enclose(first, second):
    (X, x), (Y, y) = first, second
    assert (X * Y).contains(x * y).all()
    assert (0.1 * X).contains(Fraction(0.1) * x).all()
    assert X.maximum(Y).contains(np.maximum(x, y)).all()
    assert X.maximum(0.0).contains(np.maximum(x, 0)).all()
    assert X.max().contains(max(x))
    assert (X.magnitude >= abs(x)).all()


@st.composite
def matrices(draw, rows, columns):
    return np.array([[draw(NUMBERS) for _ in range(columns)] for _ in range(rows)])


@settings(deadline=None)
@given(matrices(2, 3), intervals(3, 2))
def test_matrix_products_enclose(W, case):
    X, x = case
    assert (W @ X).contains(exact(W) @ x).all()
    assert (W @ X[:, 0]).contains(exact(W) @ x[:, 0]).all()


def test_matrix_products_enclose_what_underflows():
    """1e-200 squared is below every float, and not zero."""
    product = np.array([[1e-200]]) @ Interval.point([1e-200])
    assert product.contains([Fraction(1e-200) ** 2]).all()


def test_cancellation_is_enclosed():
    """The exact sum of 1e16, 1, -1e16 is 1; floats lose it in one order or another."""
    total = np.ones((1, 3)) @ Interval.point([1e16, 1.0, -1e16])
    assert total.contains([Fraction(1)]).all()
    assert ((Interval.point(1e16) + 1.0) - 1e16).contains(Fraction(1))


@given(st.integers(1, 60), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=30)
def test_long_random_sums_enclose(columns, seed):
    rng = np.random.default_rng(seed)
    W, x = rng.normal(size=(2, columns)), rng.normal(size=columns)
    product = W @ Interval.point(x)
    assert product.contains(exact(W) @ exact(x)).all()
    size = abs(W) @ abs(x)  # soundness alone would allow the whole line
    assert (product.hi - product.lo <= 3 * gamma(2 * columns + 4) * size).all()


def test_what_nothing_writes_to_stays_a_point():
    zero, wide = Interval.point(np.zeros(2)), Interval(np.array([-1.0, 0.0]), np.array([2.0, 3.0]))
    for result in (zero + zero, zero * wide, np.ones((2, 2)) @ zero, np.zeros((2, 2)) @ wide):
        assert not result.lo.any()
        assert not result.hi.any()


@given(intervals(1), st.fractions())
def test_contains_is_exact(case, value):
    X, _ = case
    expected = Fraction(X.lo[0]) <= value <= Fraction(X.hi[0])
    assert X.contains(np.array([value], dtype=object))[0] == expected


def test_contains_sees_less_than_a_float_can():
    third = Interval.point(1 / 3)
    assert third.contains(Fraction(1 / 3))
    assert not third.contains(Fraction(1, 3))


def test_intervals_check_themselves_at_birth():
    with pytest.raises(ShapeError, match="lo <= hi"):
        Interval(np.array([1.0]), np.array([0.0]))
    with pytest.raises(ShapeError, match="no nan"):
        Interval.point([np.nan])
    with pytest.raises(ShapeError, match=r"shapes \(1,\) and \(2,\)"):
        Interval(np.zeros(1), np.zeros(2))


@given(st.floats(0, 1e300, allow_subnormal=False))
@example(0.0)
@example(TINY)
@example(math.e)
@example(math.nextafter(math.e, 3))
@example(1e300)
def test_lambert_w_solves_its_equation(y):
    """w e^w = y. An ulp of w changes w e^w by (1 + w) 2^-52 of itself; four ulp are allowed."""
    w = lambert_w(y)
    slack = 4 * (1 + w) * 2**-52
    assert abs(w * math.exp(w) - y) <= slack * y
    assert w >= 0


def test_lambert_w_refuses_what_has_no_answer():
    for y in (-1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="finite y >= 0"):
            lambert_w(y)


def shortfall(below):
    """max - softmax mean for one winner and losers so far `below` it, at coldness 1."""
    weights = [math.exp(-t) for t in below]
    return math.fsum(t * w for t, w in zip(below, weights, strict=True)) / (1 + math.fsum(weights))


@pytest.mark.parametrize("contenders", [2, 3, 4, 10, 1000, 10**6])
def test_the_softmax_gap_is_attained(contenders):
    """All losers at 1 + c_n below the winner turn the bound into an equality.

    c_n is rounded up by 1e-14; at its maximum the shortfall feels that to second order only.
    """
    gap = softmax_gap(contenders)
    t = 1 + gap
    others = (contenders - 1) * math.exp(-t)
    assert t * others / (1 + others) == pytest.approx(gap, rel=2e-14, abs=0)
    if contenders <= 1000:
        assert shortfall([t] * (contenders - 1)) == pytest.approx(gap, rel=2e-14, abs=0)


@given(st.lists(st.floats(0, 50), max_size=20))
def test_the_softmax_gap_bounds_every_shortfall(below):
    """The shortfall is computed with relative error below 1e-15 times its own few terms."""
    assert shortfall(below) <= softmax_gap(len(below) + 1) * (1 + 1e-14)


def test_the_softmax_gap_of_one_and_of_none():
    assert softmax_gap(1) == 0.0
    assert softmax_gap(2) == pytest.approx(0.2784645427610738, rel=2e-14)
    with pytest.raises(ValueError, match="at least one contender"):
        softmax_gap(0)


def test_points_that_float64_does_not_hold_get_neighbours():
    for number in (Fraction(1, 3), Fraction(-1, 3), 2**53 + 1, Fraction(1, 2)):
        point = Interval.point([number])
        assert point.contains(np.array([number], dtype=object)).all()
        assert (point.lo[0] == point.hi[0]) == (Fraction(float(number)) == number)


def test_overflow_gives_infinite_ends_and_never_nan():
    largest = float(np.finfo(np.float64).max)
    huge = Interval.point([largest])
    for result in (huge + huge, huge * huge, np.array([[2.0]]) @ huge):
        assert result.hi[0] == np.inf
        assert result.lo[0] <= largest
    for result in (-huge - huge, (-huge) * huge, np.array([[-2.0]]) @ huge):
        assert result.lo[0] == -np.inf
        assert result.hi[0] >= -largest
    unbounded = Interval(np.array([0.0]), np.array([np.inf]))
    assert (unbounded * 0.0).hi[0] == 0.0
    assert (unbounded - unbounded).lo[0] == -np.inf
