"""The operations of numerics at their extremal points: equality where a bound is attained."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from flint import arb

from hardmax import ShapeError, numerics
from hardmax.numerics import (
    FEW,
    FLOAT32,
    FLOAT64,
    FORMATS,
    STEP,
    TINY,
    UNIT,
    Interval,
    MidRadius,
    ball_around,
    ball_between,
    ball_ends,
    ball_size_down,
    ball_size_up,
    down,
    elementary_ends,
    exact,
    finite_array,
    gamma,
    grown,
    inflate,
    matmul_up,
    pair_ends,
    pair_product,
    pair_radius,
    pair_square,
    pair_sum,
    precision,
    product_up,
    softmax_gap,
    stray,
    up,
)

U = Fraction(UNIT)
RNG = np.random.default_rng


def both(function, x):
    """A function of a number and of an array, which take different ways: the same, and found so."""
    alone, beside = function(x), function(np.array([x, 1.0]))[0]
    assert alone == beside
    return float(alone)


# ---- outward operations ------------------------------------------------------------------------


def test_the_units_are_those_of_float64():
    assert (UNIT, STEP, TINY) == (2.0**-53, 2.0**-52, 2.0**-1074)
    assert both(up, 1.0) == 1.0 + 2.0**-52
    assert both(down, 1.0) == 1.0 - 2.0**-52


@pytest.mark.parametrize("k", [1, 2, 3, 1000])
def test_subnormal_numbers_move_by_the_smallest(k):
    """Where |x| 2^-52 vanishes; 0 stays, because sums that are 0 are so exactly."""
    assert both(up, k * TINY) == (k + 1) * TINY
    assert both(down, k * TINY) == (k - 1) * TINY
    assert both(up, -k * TINY) == -(k - 1) * TINY
    assert both(down, -k * TINY) == -(k + 1) * TINY
    assert both(up, 0.0) == both(down, 0.0) == 0.0


def test_overflow_means_huge_and_nan_means_nothing():
    assert both(up, math.nan) == both(up, math.inf) == math.inf
    assert both(down, math.nan) == both(down, -math.inf) == -math.inf
    assert both(down, math.inf) == down(FLOAT64.largest) < FLOAT64.largest
    assert both(up, FLOAT64.largest) == math.inf


@pytest.mark.parametrize("name", FORMATS)
def test_gamma_lies_above_its_formula_by_a_few_units(name):
    format = FORMATS[name]
    counts = np.array([1, 2, 3, 7, 10, 49, 100, 101, 127])
    for n, found in zip(counts.tolist(), gamma(counts, format), strict=True):
        truth = n * Fraction(format.unit) / (1 - n * Fraction(format.unit))
        assert found == gamma(n, format)
        assert truth <= Fraction(found) <= truth * (1 + 16 * U)


@pytest.mark.parametrize("k", [1, 2, 8, 100])
def test_inflating_undoes_the_worst_roundings_and_as_much_again(k):
    """1 - u at each step; an underflow each; no more than twice of it."""
    most = 1 / (1 - U) ** (k + 1)
    found = Fraction(both(lambda x: inflate(x, k), 1.0))
    assert most * (1 + (k - 1) * U) <= found <= 1 + (2 * k + 4) * U
    assert both(lambda x: inflate(x, k), 5 * TINY) == (5 + k) * TINY
    assert both(inflate, math.nan) == math.inf
    assert both(inflate, 0.0) == 0.0


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("terms", [1, 4, 60])
def test_a_sum_strays_by_a_unit_a_term_and_the_smallest_number(name, terms):
    format = FORMATS[name]
    truth = terms * Fraction(format.unit) / (1 - terms * Fraction(format.unit))
    for size in (1.0, 3.0, 1e-3):
        found = Fraction(both(lambda x: stray(terms, x, format), size))
        least = truth * Fraction(size) + (terms + 1) * Fraction(format.smallest)
        room = 1 + 16 * U  # for roundings of what is made of it
        assert least * room <= found * (1 + U)
        assert found <= least * (1 + 64 * U)
    tiny = both(lambda x: stray(terms, x, format), format.smallest)
    assert format.smallest * (terms + 1) <= tiny <= format.smallest * (terms + 2)
    assert both(lambda x: stray(terms, x, format), math.nan) == math.inf
    assert both(lambda x: stray(terms, x, format), 0.0) == 0.0
    many = stray(np.array([terms, 2 * terms]), 1.0, format)
    assert many.tolist() == [stray(terms, 1.0, format), stray(2 * terms, 1.0, format)]


def test_products_and_matrices_from_above_at_the_edges():
    assert both(lambda x: product_up(x, 1.0), 1.0) == 1.0 + 2 * STEP
    assert both(lambda x: product_up(x, TINY), TINY) == TINY
    assert both(lambda x: product_up(x, 1.0), math.nan) == math.inf
    for n in (1, 5, 64):
        ones = np.ones(n)
        found = Fraction(matmul_up(ones[None, :], ones)[0])
        assert n / (1 - (n + 1) * U) <= found <= n * (1 + (2 * n + 8) * U)
        tiny = np.full(n, TINY)
        assert matmul_up(tiny[None, :], tiny)[0] == n * TINY
    assert matmul_up(np.array([[0.0, 1.0]]), np.array([math.inf, 1.0]))[0] == math.inf


# ---- quick pairs -------------------------------------------------------------------------------


def test_ends_of_elementary_functions_have_an_underflow_each():
    low, high = elementary_ends(np.array([3 * TINY]), np.array([3 * TINY]))
    assert (low[0], high[0]) == (2 * TINY, 4 * TINY)
    low, high = elementary_ends(1.0, 1.0)
    units = (FLOAT64.exp_units + 6) * UNIT
    assert (low, high) == (1.0 - units, 1.0 + units)


@pytest.mark.parametrize("k", [1, 3, 50])
def test_radii_and_bounds_undo_so_many_roundings(k):
    least = 1 / ((1 - U) ** (k + 4) * (1 - k * U))
    assert least <= Fraction(pair_radius(1.0, 0.0, k)) <= 1 + (2 * k + 8) * U
    lost = Fraction(pair_radius(0.0, 1.0, k))
    assert k * U * least <= lost * (1 + 2 * U)
    assert lost <= k * U * (1 + (2 * k + 10) * U)
    assert pair_radius(0.0, 0.0, k) == grown(0.0, k) == k * TINY
    assert 1 / (1 - U) ** (k + 2) <= Fraction(grown(1.0, k)) <= 1 + (2 * k + 4) * U


def test_pairs_are_as_wide_as_written_down():
    none, one, big = np.zeros(1), np.ones(1), np.full(1, 2.0)
    assert pair_sum((one, none), (none, none))[1][0] == UNIT * FEW
    assert pair_product((one, none), (one, none))[1][0] == UNIT * FEW
    assert pair_product((big, one), (big, one))[1][0] == (5.0 + 4 * UNIT) * FEW
    assert pair_product((none, none), (none, none))[1][0] == 3 * TINY
    low, high = pair_ends((one, none))
    assert (low[0], high[0]) == (1.0 - UNIT, 1.0 + 2 * UNIT)
    low, high = pair_ends((none, one))
    assert (low[0], high[0]) == (-FEW, FEW)


@pytest.mark.parametrize("k", [1, 3, 5, 7])
def test_squares_that_underflow_stay_inside(k):
    """sqrt(k / 2) times 2^-537, whose square is just beside k halves of the smallest number."""
    root = math.ldexp(math.sqrt(k / 2), -537)
    for x in (root, math.nextafter(root, 0.0), math.nextafter(root, 1.0)):
        middle, radius = pair_square((np.array([x]), np.zeros(1)))
        assert abs(Fraction(x) ** 2 - exact(middle)[0]) <= exact(radius)[0]
        assert radius[0] <= 3 * TINY


# ---- mid-radius arrays -------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1.0, 2.0**-1073, 2.0**1000])
def test_the_middle_of_two_neighbours_reaches_both(scale):
    low = np.sort(RNG(0).uniform(0.5, 1.0, 200) * scale)
    for high in (np.nextafter(low, np.inf), low + 3 * np.spacing(low), low[::-1]):
        ends = np.minimum(low, high), np.maximum(low, high)
        ball = MidRadius.between(*ends)
        middle, radius = exact(ball.middle), exact(ball.radius)
        assert (middle - radius <= exact(ends[0])).all()
        assert (middle + radius >= exact(ends[1])).all()
        least = (exact(ends[1]) - exact(ends[0])) / 2
        assert (radius <= least + (exact(ends[1]) * 6 * U + 6 * Fraction(TINY))).all()


def test_sums_of_mid_radius_arrays_hold_each_part():
    """Radii of one size, so that their sum is rounded, too."""
    rng = RNG(1)
    a = MidRadius(rng.uniform(1.0, 2.0, 300), rng.uniform(1.0, 2.0, 300))
    b = MidRadius(rng.uniform(1.0, 2.0, 300), rng.uniform(1.0, 2.0, 300))
    total = a.plus(b)
    away = abs(exact(a.middle) + exact(b.middle) - exact(total.middle))
    assert (exact(total.radius) >= exact(a.radius) + exact(b.radius) + away).all()
    points = MidRadius.point(a.middle).plus(MidRadius.point(b.middle))
    assert (exact(points.radius) >= away).all()
    assert (exact(a.high) >= exact(a.middle) + exact(a.radius)).all()
    assert (exact(a.low) <= exact(a.middle) - exact(a.radius)).all()
    assert MidRadius(np.array([math.nan]), np.array([1.0])).size[0] == math.inf


# ---- intervals ---------------------------------------------------------------------------------


def test_products_that_underflow_are_not_zero():
    tiny, half = Interval.point(np.array([TINY])), Interval.point(np.array([0.25]))
    assert (tiny * half).hi[0] == TINY
    assert (tiny * -half).lo[0] == -TINY
    ray, segment = Interval(np.array([-1.0]), np.array([math.inf])), Interval([0.0], [2.0])
    assert (ray * segment).lo[0] == -2.0 - 2 * STEP  # 0 times an infinite end is 0
    one = Interval.point(np.array([1.0]))
    assert ((one * one).lo[0], (one * one).hi[0]) == (1.0 - STEP, 1.0 + STEP)


def test_reciprocals_beyond_all_floats_are_huge_and_no_more():
    """1 over the smallest number is 2^1074; powers of two are exact where floats hold them."""
    for x in (TINY, 2.0**-1024, 3 * TINY):
        found = Interval.point(np.array([x])).reciprocal()
        assert Fraction(float(found.lo[0])) <= 1 / Fraction(x)
        assert found.hi[0] == math.inf
        found = Interval.point(np.array([-x])).reciprocal()
        assert Fraction(float(found.hi[0])) >= -1 / Fraction(x)
        assert found.lo[0] == -math.inf
    exactly = Interval.point(np.array([4.0])).reciprocal()
    assert exactly.lo[0] == exactly.hi[0] == 0.25
    x = RNG(2).uniform(1.0, 2.0, 200) * np.ldexp(1.0, RNG(2).choice([0, 1023, -1022], 200))
    for sign in (1.0, -1.0):
        found = Interval.point(sign * x).reciprocal()
        assert (exact(found.lo) <= 1 / exact(sign * x)).all()
        assert (exact(found.hi) >= 1 / exact(sign * x)).all()
        assert (exact(found.hi) - exact(found.lo) <= 8 * U / exact(x) + 4 * Fraction(TINY)).all()
    ray = Interval(np.array([1.0]), np.array([math.inf])).reciprocal()
    assert (ray.lo[0], ray.hi[0]) == (0.0, 1.0)


@pytest.mark.parametrize("n", [2, 5, 40])
def test_matrix_products_are_widened_by_two_roundings_an_entry(n):
    found = np.ones((1, n)) @ Interval.point(np.ones(n))
    by = gamma(2 * n + 4) * n
    assert found.lo[0] == n - by
    assert found.hi[0] == n + by
    tiny = np.full((1, n), 0.25) @ Interval.point(np.full(n, TINY))
    assert (tiny.lo[0], tiny.hi[0]) == (-(2 * n + 4) * TINY, (2 * n + 4) * TINY)


def test_matrix_products_of_infinite_ends_claim_nothing():
    """A copy rounds nothing, and still multiplies the others' infinite ends by 0."""
    everything = Interval(np.array([-math.inf, 0.0]), np.array([math.inf, 1.0]))
    copied = np.array([[0.0, 1.0]]) @ everything
    assert (copied.lo[0], copied.hi[0]) == (-math.inf, math.inf)
    huge = Interval.point(np.array([1.5e308, 1.5e308]))
    over = np.array([[1.0, 1.0]]) @ huge
    assert (over.lo[0], over.hi[0]) == (-math.inf, math.inf)
    cancels = np.array([[1.0, -1.0, 1.0]]) @ Interval.point(np.full(3, 1.5e308))
    assert (cancels.lo[0], cancels.hi[0]) == (-math.inf, math.inf)


def test_sums_of_opposite_infinite_ends_claim_nothing():
    low = Interval(np.array([-math.inf, math.inf]), np.array([0.0, math.inf])).sum(axis=0)
    assert (low.lo, low.hi) == (-math.inf, math.inf)
    high = Interval(np.array([-math.inf, 0.0]), np.array([-math.inf, math.inf])).sum(axis=0)
    assert (high.lo, high.hi) == (-math.inf, math.inf)


@pytest.mark.parametrize("n", [2, 9])
def test_sums_are_widened_by_two_roundings_a_term(n):
    total = Interval.point(np.ones(n)).sum(axis=0)
    by = stray(2 * n, float(n))
    assert (total.lo, total.hi) == (down(n - by), up(n + by))


def test_widening_is_rounded_outward():
    a, by = RNG(3).uniform(1.0, 2.0, 200), RNG(4).uniform(1.0, 2.0, 200)
    wide = Interval.point(a).widened(by)
    assert (exact(wide.lo) <= exact(a) - exact(by)).all()
    assert (exact(wide.hi) >= exact(a) + exact(by)).all()


def test_numbers_between_floats_get_their_neighbours():
    for number in (Fraction(1, 3), Fraction(2, 3), 2**53 + 1, -(2**53) - 1, 10**400, -(10**400)):
        found = Interval.point(np.array([number], dtype=object))
        assert float(found.lo[0]) < number < float(found.hi[0])
        assert math.nextafter(float(found.lo[0]), math.inf) == found.hi[0]


def test_arrays_name_the_entry_that_is_not_finite():
    for bad in (math.nan, math.inf):
        with pytest.raises(ShapeError, match=r"entry \(1, 0\) is (nan|inf)"):
            finite_array([[0.0], [bad]], "The weights")


# ---- balls -------------------------------------------------------------------------------------


def test_balls_of_powers_of_two_are_snug():
    for k in (-40, -1, 0, 7):
        ball = ball_around(1.0, 2.0**k)
        assert ball.rad() == arb(2.0**k)
        assert ball_between(0.0, 2.0**k).rad() == arb(2.0 ** (k - 1))
    for radius in RNG(5).uniform(0.1, 1.0, 50).tolist():
        assert ball_around(1.0, radius).rad() >= arb(radius)


def test_balls_between_floats_hold_both():
    rng = RNG(6)
    with precision(200):
        for low in rng.uniform(0.5, 1.0, 100).tolist():
            high = low + float(rng.uniform(1.0, 2.0)) * 2.0 ** int(rng.integers(-30, 30))
            ball = ball_between(low, high)
            assert ball.contains(arb(low))
            assert ball.contains(arb(high))
        hair = ball_between(-(2.0**-60), 1.0)  # half a width that is just no float
        assert hair.contains(arb(-(2.0**-60)))
        assert hair.contains(arb(1))


def test_sizes_and_ends_of_balls_are_rounded_outward():
    with precision(200):
        for k in range(3, 120, 2):
            ball = arb(1) / k
            assert arb(ball_size_up(ball)) >= ball
            assert arb(ball_size_down(ball)) <= ball
            assert ball_size_up(ball) - ball_size_down(ball) <= 4 * math.ulp(1 / k)
            for one in (ball, -ball):
                low, high = ball_ends(one)
                assert arb(low) <= one
                assert one <= arb(high)
                assert high == math.nextafter(low, math.inf)
    assert ball_ends(arb(0.25)) == (0.25, 0.25)


def test_balls_of_which_nothing_is_known():
    for ball in (arb("nan"), arb(0, arb("inf"))):
        assert ball_ends(ball) == (-math.inf, math.inf)
        assert ball_size_up(ball) == math.inf
        assert ball_size_down(ball) == 0.0
    assert ball_size_down(arb(10) ** 400) == FLOAT64.largest
    assert ball_size_up(arb(10) ** 400) == math.inf


# ---- exp and the softmax -----------------------------------------------------------------------


def test_what_vanishes_is_bounded_from_above():
    """exp of any edge, rounded up; some floats that are taken for it lie below."""
    fell = 0
    with precision(200):
        for format in (*FORMATS.values(), *(replace(FLOAT32, exp_vanishes=-k) for k in range(90))):
            truth = arb(format.exp_vanishes).exp()
            assert arb(format.vanished) > truth
            assert arb(format.vanished) < truth * (1 + arb(2.0**-39))
            fell += bool(arb(math.exp(format.exp_vanishes)) < truth)
    assert fell > 0


def test_the_softmax_gap_of_one_and_two():
    assert softmax_gap(1) == 0.0
    with precision(200):
        assert arb(softmax_gap(2)) * arb(softmax_gap(2)).exp() >= arb(-1).exp()


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_waves_are_moved_outward_at_both_ends(name):
    """By the ulps that are trusted, and one more; 0 is exact, and so are crests."""
    x = RNG(7).uniform(0.2, 1.2, 200)
    value, found = getattr(np, name)(x), getattr(numerics, name)(Interval.point(x))
    step = (numerics.ELEMENTARY_ULPS + 1) * (np.abs(value) * STEP + TINY)
    assert np.array_equal(found.hi, np.minimum(value + step, 1.0))
    assert np.array_equal(found.lo, value - step)
