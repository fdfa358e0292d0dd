"""Every outward operation against exact rationals, with equality where its bound is attained."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from hardmax.numerics import (
    BFLOAT16,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    FORMATS,
    GROWN,
    REALS,
    STEP,
    TINY,
    UNIT,
    Interval,
    MidRadius,
    above_float,
    below_float,
    down,
    exact,
    gamma,
    inflate,
    lowest_bit,
    matmul_up,
    product_up,
    stray,
    sum_up,
    up,
)
from hardmax.testing import falls_below, full_floats

DTYPES = {"float64": np.float64, "float32": np.float32, "float16": np.float16}


@pytest.mark.parametrize("name", DTYPES)
def test_formats_are_those_of_ieee(name):
    """digits, the smallest, the normal and the largest number, and the tie above 1."""
    format, info = FORMATS[name], np.finfo(DTYPES[name])
    assert format.unit == float(info.eps) / 2
    assert format.smallest == float(info.smallest_subnormal)
    assert format.normal == float(info.tiny)
    assert format.largest == float(info.max)
    one, kind = DTYPES[name](1.0), DTYPES[name]
    if name != "float64":
        assert kind(1.0 + format.unit) == one  # attained: an error of exactly u
        assert kind(1.0 + 1.001 * format.unit) > one


def test_bfloat16_is_float32_cut_to_eight_digits():
    assert (BFLOAT16.unit, BFLOAT16.normal) == (2.0**-8, FLOAT32.normal)
    assert BFLOAT16.smallest == BFLOAT16.flushed == BFLOAT16.normal  # subnormals may be 0
    assert BFLOAT16.holds(np.array([2.0**-126, 2.0**-127, 0.0])).tolist() == [True, False, True]
    assert BFLOAT16.is_exact(2.0**-120, np.array([-126, -127])).tolist() == [True, False]
    least = np.array([2.0**-126, 2.0**-127, -(2.0**-126) * (1 - 2.0**-12)])
    assert BFLOAT16.stored(least).tolist() == [2.0**-126, 0.0, -(2.0**-126)]
    assert BFLOAT16.largest == float.fromhex("0x1.fep127")
    assert REALS.unit == REALS.smallest == 0.0


@pytest.mark.parametrize("name", ["float32", "float16"])
def test_stored_is_what_numpy_stores(name):
    rng = np.random.default_rng(0)
    values = rng.choice([-1.0, 1.0], 4000) * np.ldexp(
        rng.uniform(0.5, 1.0, 4000), rng.integers(-30, 15, 4000)
    )
    ties = 1.0 + FORMATS[name].unit * np.arange(1, 40, 2)  # to even
    for given in (values, ties, -ties):
        stored = FORMATS[name].stored(given)
        assert np.array_equal(stored, given.astype(DTYPES[name]).astype(np.float64))
        assert FORMATS[name].holds(stored).all()
        assert np.array_equal(FORMATS[name].holds(given), stored == given)


def test_what_a_format_holds_ends_with_its_range():
    assert not FLOAT16.holds(np.array([65536.0, 2.0**-25, 1.0 + 2.0**-11])).any()
    assert FLOAT16.holds(np.array([65504.0, 2.0**-24, 1.0 + 2.0**-10])).all()
    assert FLOAT16.fits(np.array([65504.0]))
    assert not FLOAT16.fits(np.array([65505.0]))
    assert not FLOAT16.fits(np.array([math.nan]))


def test_sums_on_a_grid_are_exact_up_to_the_last_digit():
    """2^24 is the last whole number before float32 skips one."""
    assert FLOAT32.is_exact(2.0**24, 0.0)
    assert not FLOAT32.is_exact(2.0**24 + 2.0, 0.0)
    assert np.float32(2.0**24) + np.float32(1.0) == np.float32(2.0**24)
    assert not FLOAT32.is_exact(1e-44, -150.0)
    assert lowest_bit(np.array([1.5, 0.0, 2.0**-1074])).tolist() == [-1.0, math.inf, -1074.0]


def test_up_and_down_move_by_at_least_an_ulp_and_at_most_two():
    x = full_floats(np.random.default_rng(1), 2000)
    for sign in (1.0, -1.0):
        assert (up(sign * x) >= np.nextafter(sign * x, np.inf)).all()
        assert (down(sign * x) <= np.nextafter(sign * x, -np.inf)).all()
        assert (up(sign * x) - sign * x <= 2 * np.spacing(x)).all()
    assert up(1.0) == 1.0 + STEP  # just one ulp at a power of two
    assert up(TINY) == 2 * TINY
    assert up(0.0) == 0.0
    assert -math.inf < up(-math.inf) < -1e308  # an overflow means huge, and no more
    assert up(math.nan) == math.inf
    assert up(math.inf) == math.inf


def test_gamma_is_attained_to_first_order():
    """1 + u + u + ... in this order: each addition is a tie, and loses a whole u."""
    for format, kind in ((FLOAT32, np.float32), (FLOAT16, np.float16)):
        n, unit = 5, kind(format.unit)
        total = kind(1.0)
        for _ in range(n):
            total = kind(total + unit)
        lost = n * format.unit
        size = 1.0 + n * format.unit
        assert float(total) == 1.0
        assert lost <= gamma(n, format) * size <= lost * (1 + 3 * n * format.unit) + 1e-18
    assert gamma(2**53) == math.inf
    assert gamma(2**24, FLOAT32) == math.inf
    n = 1000
    real = Fraction(n) * Fraction(UNIT) / (1 - n * Fraction(UNIT))
    assert real <= Fraction(gamma(n)) <= real * (1 + 32 * Fraction(UNIT))


def test_stray_counts_what_underflows():
    assert stray(1, 1.0) >= UNIT
    assert stray(1, 1.0) <= UNIT * (1 + 64 * UNIT) + 3 * TINY
    assert stray(3, FLOAT32.smallest, FLOAT32) >= 4 * FLOAT32.smallest
    assert stray(3, 0.0, FLOAT32) == 0.0
    assert stray(3, math.nan) == math.inf
    assert stray(5, 1.0, REALS) == 0.0


def test_inflate_undoes_so_many_roundings_down():
    """(1 - u)^k is the most that k roundings take; 0 stays, nan is nothing known."""
    for k in (1, 2, 8, 100):
        worst = Fraction(1) * (1 - Fraction(UNIT)) ** k
        assert Fraction(inflate(below_float(worst), k)) >= 1
        assert inflate(1.0, k) <= 1.0 + (2 * k + 4) * STEP
    assert inflate(0.0) == 0.0
    assert inflate(math.nan) == math.inf
    assert inflate(np.array([math.nan, 0.0]))[0] == math.inf
    assert inflate(5 * TINY, 3) >= 8 * TINY
    assert inflate(Fraction(1, 3)) == Fraction(1, 3)


def test_a_kernels_factor_covers_a_million_roundings():
    """(1 - u)^n >= 1 - n u (Bernoulli); 2^23 are the most it covers, to first order."""
    assert (1 - 2**20 * Fraction(UNIT)) * Fraction(GROWN) > 1
    assert GROWN == 1.0 + 2**23 * UNIT


@pytest.mark.parametrize("seed", range(3))
def test_floats_lie_above_rationals(seed):
    rng = np.random.default_rng(seed)
    a, b = full_floats(rng, 40), full_floats(rng, 40)
    A = full_floats(rng, 30, 7) * rng.integers(0, 2, (30, 7))
    assert falls_below(sum_up, [a]) == 0
    assert falls_below(lambda x: sum_up(x, axis=1), [A]) == 0
    assert falls_below(product_up, [a, b]) == 0
    assert falls_below(matmul_up, [A, full_floats(rng, 7)]) == 0
    assert falls_below(lambda x, y: inflate(x * y + x, 2), [a, b]) == 0
    assert falls_below(lambda x, y: up(x - y), [a, b]) == 0
    assert falls_below(lambda x, y: x - y, [a, b]) > 0  # not outward, and seen


def test_products_and_sums_at_the_edges():
    assert product_up(0.0, math.inf) == 0.0
    assert product_up(TINY, TINY) == TINY
    assert product_up(np.array([math.nan]), np.array([1.0]))[0] == math.inf
    assert matmul_up(np.array([[TINY, 0.0]]), np.array([TINY, math.inf]))[0] > 0.0
    assert matmul_up(np.array([[0.0]]), np.array([1.0]))[0] == 0.0
    assert matmul_up(np.array([[math.inf, 1.0]]), np.array([0.0, math.nan]))[0] == math.inf
    assert above_float(Fraction(1, 3)) == math.nextafter(below_float(Fraction(1, 3)), 1.0)
    assert above_float(Fraction(1, 4)) == below_float(Fraction(1, 4)) == 0.25
    assert below_float(10**400) == FLOAT64.largest
    assert above_float(10**400) == math.inf


def test_sums_of_intervals_enclose_any_order():
    """1 and many ties: one order keeps them all, another loses them all."""
    terms = np.array([1.0, *[UNIT] * 9])
    total = Interval.point(terms).sum(axis=0)
    assert total.contains(exact(terms).sum())
    assert total.lo < 1.0 + 9 * UNIT
    single = Interval.point(np.array([0.0, 0.1, 0.0])).sum(axis=0)
    assert float(single.lo) == float(single.hi) == 0.1
    assert Interval.point(np.array([0.1])).widened(0.0).lo == 0.1
    wide = Interval.point(np.array([0.1])).widened(np.array([0.2]))
    assert wide.contains([Fraction(0.1) + Fraction(0.2)]).all()
    assert wide.contains([Fraction(0.1) - Fraction(0.2)]).all()


def test_meets_of_intervals_never_empty():
    a, b = Interval(np.array([0.0]), np.array([1.0])), Interval(np.array([2.0]), np.array([3.0]))
    assert a.meet(b).hi == 1.0
    assert a.meet(Interval(np.array([0.5]), np.array([3.0]))).lo == 0.5


def test_mid_radius_arrays_hold_their_ends_and_their_sums():
    rng = np.random.default_rng(2)
    low = rng.normal(size=300)
    high = low + np.abs(rng.normal(size=300)) * np.ldexp(1.0, rng.integers(-60, 1, 300))
    ball = MidRadius.between(low, high)
    assert (exact(ball.middle) - exact(ball.radius) <= exact(low)).all()
    assert (exact(ball.middle) + exact(ball.radius) >= exact(high)).all()
    assert (exact(ball.high) >= exact(ball.middle) + exact(ball.radius)).all()
    assert (exact(ball.low) <= exact(ball.middle) - exact(ball.radius)).all()
    other = MidRadius.between(-high[::-1], -low[::-1])
    total = ball.plus(other)
    away = abs(exact(ball.middle) + exact(other.middle) - exact(total.middle))
    assert (exact(total.radius) >= exact(ball.radius) + exact(other.radius) + away).all()
    assert not MidRadius.point(low).plus(MidRadius.point(np.zeros(300))).radius.any()
