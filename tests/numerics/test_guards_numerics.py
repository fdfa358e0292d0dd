"""Each guard of the elementary functions, of softmax and of the quick pairs goes red without it."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb

from hardmax import numerics
from hardmax.numerics import (
    ELEMENTARY_ULPS,
    FEW,
    FLOAT64,
    STEP,
    TINY,
    UNIT,
    Interval,
    above_float,
    below_float,
    exact,
    pair_between,
    pair_ends,
    pair_of_values,
    pair_product,
    pair_radius,
    pair_square,
    pair_sum,
    pair_total,
    precision,
    softmax_ends,
    softmax_gap,
    softmax_ranges,
    up,
)
from hardmax.testing import coarse_steps

MONOTONE = {
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "tanh": np.tanh,
    "tan": np.tan,
}


def signed(rng, *shape):
    """Floats of either sign with all their digits, of sizes from 2^-8 to 2^8."""
    size = np.ldexp(rng.uniform(0.5, 1.0, shape), rng.integers(-8, 9, shape))
    return size * rng.choice([-1.0, 1.0], shape)


# ---- elementary functions ----------------------------------------------------------------------


@pytest.mark.parametrize("name", MONOTONE)
def test_every_value_within_the_assumed_ulps_is_enclosed(name):
    """A kernel may be off by so many ulp, and by no more: equality, up to the step's rounding."""
    x = np.random.default_rng(0).uniform(0.1, 1.4, 500)
    value, found = MONOTONE[name](x), getattr(numerics, name)(Interval.point(x))
    for end, sign in ((found.hi, 1), (found.lo, -1)):
        allowed = exact(value) + sign * ELEMENTARY_ULPS * exact(np.spacing(np.abs(value)))
        assert (sign * (exact(end) - allowed) >= 0).all()
        most = (2 * ELEMENTARY_ULPS + 3) * exact(np.spacing(np.abs(value)))
        assert (sign * (exact(end) - exact(value)) <= most).all()


def test_the_sigmoid_passes_the_error_of_exp_on():
    """Far to the left nothing of it is lost, and two roundings come on top."""
    x = np.random.default_rng(1).uniform(-30.0, -20.0, 500)
    found, value = numerics.sigmoid(Interval.point(x)), exact(numerics.sigmoid_of_floats(x))
    units = (FLOAT64.exp_units + 2) * Fraction(UNIT)
    assert (exact(found.hi) >= value * (1 + units)).all()
    assert (exact(found.lo) <= value * (1 - units)).all()


def test_tiny_values_have_their_own_ulps():
    """Subnormal results: an ulp is the smallest number."""
    x = np.array([-744.0, -740.5, -735.25])
    found = numerics.exp(Interval.point(x))
    assert (found.hi >= np.exp(x) + ELEMENTARY_ULPS * TINY).all()
    assert (found.lo <= np.maximum(np.exp(x) - ELEMENTARY_ULPS * TINY, 0.0)).all()


def whole_numbers(rng):
    """Up to 2^37 on either side, powers of two and their neighbours among them."""
    near = [2**e + d for e in (3, 20, 36) for d in (-1, 0, 1)]
    return [*near, *(-k for k in near), *rng.integers(-(2**37), 2**37, 200).tolist()]


def between_neighbours(number):
    exactly = _fraction(number)
    return Interval(np.array([below_float(exactly)]), np.array([above_float(exactly)]))


@pytest.mark.parametrize(("function", "offset"), [("sin", 0.25), ("cos", 0.0)])
def test_crests_between_two_neighbours_are_seen(function, offset):
    """Every crest lies between two floats, and is found whichever way the quotient is rounded."""
    with precision(200):
        for k in whole_numbers(np.random.default_rng(2)):
            wave = getattr(numerics, function)
            assert wave(between_neighbours(2 * arb.pi() * (k + arb(offset)))).hi[0] == 1.0
            assert wave(between_neighbours(2 * arb.pi() * (k + arb(offset + 0.5)))).lo[0] == -1.0


def test_poles_between_two_neighbours_are_seen():
    with precision(200):
        for k in whole_numbers(np.random.default_rng(3)):
            assert numerics.tan(between_neighbours(arb.pi() * (k + arb(0.5)))).hi[0] == math.inf


def test_the_float_periods_lie_below_the_real_ones():
    """By less than 0.4 u of them: what the search for crests and poles rests on."""
    with precision(200):
        for period, real in ((np.pi, arb.pi()), (2.0 * np.pi, 2 * arb.pi())):
            assert 0 < (real - arb(period)) / real < 0.4 * UNIT


def _fraction(ball):
    mantissa, exponent = ball.mid().man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


# ---- softmax -----------------------------------------------------------------------------------


@pytest.mark.parametrize("contenders", [*range(2, 40), 100, 12345, 10**9])
def test_the_softmax_gap_lies_a_few_ulp_above(contenders):
    with precision(200):
        truth = (arb(contenders - 1) / arb(1).exp()).lambertw()
        assert arb(softmax_gap(contenders)) > truth
        assert arb(softmax_gap(contenders)) < truth * (1 + 16 * STEP)


def weight_of(own, others):
    return 1 / (1 + sum((arb(v) - arb(own)).exp() for v in others))


@pytest.mark.parametrize("scale", [1.0, 60.0, 300.0])
@pytest.mark.parametrize("tokens", [2, 5])
def test_softmax_weights_of_points_enclose_balls(scale, tokens):
    """Differences of logits near 300 are off by 256 u: more than exp and the sums."""
    rng = np.random.default_rng(4)
    logits = rng.uniform(-1.0, 1.0, (200, tokens)) * np.where(np.arange(tokens), 1e-3, scale)
    found = softmax_ranges(logits, logits)
    with precision(200):
        for row, low, high in zip(logits, found.lo, found.hi, strict=True):
            for j in range(tokens):
                truth = weight_of(row[j], [v for i, v in enumerate(row) if i != j])
                assert not arb(low[j]) > truth
                assert not arb(high[j]) < truth
                units = 2 * scale + 2 * FLOAT64.exp_units + tokens + 16
                assert arb(high[j]) <= truth * (1 + 2 * units * arb(UNIT)) + arb(1e-200)


def test_softmax_weights_count_as_many_roundings_as_they_may_take():
    """Any exp within its ulps, and any order of the sum, stays inside: charged, none forgotten."""
    tokens = 4000
    logits = np.random.default_rng(5).uniform(-1.0, 1.0, (1, tokens))
    found = softmax_ranges(logits, logits)
    with precision(100):
        total = sum(arb(v).exp() for v in logits[0])
        truth = arb(logits[0][0]).exp() / total
        apart = float(logits.max() - logits.min())
        charged = 2 * apart + 2 * FLOAT64.exp_units + tokens
        assert arb(found.hi[0][0]) >= truth * (1 + charged * arb(UNIT) * arb(0.9))
        assert arb(found.lo[0][0]) <= truth * (1 - charged * arb(UNIT) * arb(0.9))


def test_softmax_weights_where_exponentials_vanish():
    """Below exp(-500) a weight is not said to be less, and not said to be more than 0."""
    logits = np.array([[0.0, -600.0, -900.0]])
    found = softmax_ranges(logits, logits)
    assert found.lo[0, 1:].tolist() == [0.0, 0.0]
    assert (found.hi[0, 1:] >= np.exp(FLOAT64.exp_vanishes) * (1 - 1e-9)).all()
    near = softmax_ranges(np.array([[-495.0, -900.0]]), np.array([[0.0, -900.0]]))
    assert near.lo[0, 0] <= 1 / (1 + 0.99 * math.exp(-5.0))  # the other may be exp(-500)
    wide = softmax_ranges(np.array([[0.0, -2000.0]]), np.array([[0.0, 2000.0]]))
    assert (wide.lo[0, 1], wide.hi[0, 1]) == (0.0, 1.0)
    least, most = softmax_ends(np.array([[math.nan], [0.0]]), np.array([[math.nan], [0.0]]))
    assert (least == 0.0).all()
    assert (most == 1.0).all()


# ---- quick pairs -------------------------------------------------------------------------------


def inside(pair, *values):
    """How many of the exact values lie outside the pair: 0."""
    middle, radius = exact(pair[0]), exact(pair[1])
    return sum(int((abs(value - middle) > radius).sum()) for value in values)


def corners(rng, count, *, wide):
    middle = signed(rng, count)
    radius = np.abs(signed(rng, count)) if wide else np.zeros(count)
    ends = exact(middle) - exact(radius), exact(middle) + exact(radius)
    return (middle, radius), ends


@pytest.mark.parametrize("wide", [True, False])
def test_pairs_enclose_sums_products_and_squares(wide):
    rng = np.random.default_rng(6)
    a, ends_a = corners(rng, 800, wide=wide)
    b, ends_b = corners(rng, 800, wide=wide)
    assert inside(pair_sum(a, b), *(x + y for x in ends_a for y in ends_b)) == 0
    assert inside(pair_product(a, b), *(x * y for x in ends_a for y in ends_b)) == 0
    assert inside(pair_square(a), *(x * x for x in ends_a)) == 0
    zero = np.zeros(800)
    assert inside(pair_product((zero, a[1]), b), *(exact(a[1]) * y for y in ends_b)) == 0
    assert inside(pair_sum((zero, a[1]), (zero, b[1])), exact(a[1]) + exact(b[1])) == 0
    low, high = pair_ends(a)
    assert (exact(low) <= ends_a[0]).all()
    assert (exact(high) >= ends_a[1]).all()


def test_a_pair_of_points_is_as_wide_as_one_rounding():
    """Half an ulp of the middle, which ties attain, and hardly more."""
    one, tie = np.array([1.0]), np.array([UNIT])
    none = np.zeros(1)
    middle, radius = pair_sum((one, none), (tie, none))
    assert middle[0] == 1.0
    assert UNIT <= radius[0] <= UNIT * (1 + 16 * UNIT)
    third = np.array([1.0 + STEP])
    middle, radius = pair_product((third, none), (third, none))
    assert exact(radius)[0] >= abs(exact(third)[0] ** 2 - exact(middle)[0])
    assert radius[0] <= UNIT * (1 + 16 * UNIT)


def test_pairs_between_ends_reach_both():
    rng = np.random.default_rng(7)
    low = signed(rng, 500)
    high = low + np.abs(signed(rng, 500))
    assert inside(pair_between(low, high), exact(low), exact(high)) == 0
    assert inside(pair_between(np.array([1.0]), np.array([1.0 + STEP])), exact(1.0 + STEP)) == 0
    same = pair_between(low, low)
    assert not same[1].any()


def test_pairs_of_tiny_numbers_count_what_underflows():
    rng = np.random.default_rng(8)
    a, b = (np.ldexp(rng.uniform(0.5, 1.0, 300), rng.integers(-538, -534, 300)) for _ in range(2))
    none = np.zeros(300)
    assert inside(pair_product((a, none), (b, none)), exact(a) * exact(b)) == 0
    assert inside(pair_product((none, a), (none, b)), exact(a) * exact(b)) == 0
    assert inside(pair_square((a, none)), exact(a) ** 2) == 0
    most = (exact(a) + exact(b)) * (exact(b) + exact(a))
    assert inside(pair_product((a, b), (b, a)), most) == 0


def test_pairs_of_values_allow_for_the_assumed_ulps_and_four_roundings():
    value = np.random.default_rng(9).uniform(0.5, 1.0, 300)
    units = Fraction(UNIT) * (FLOAT64.exp_units + 4)
    middle, radius = pair_of_values(value, value)
    assert inside((middle, radius), exact(value) * (1 + units), exact(value) * (1 - units)) == 0
    assert (radius <= value * (FLOAT64.exp_units + 8) * UNIT).all()
    tiny = np.array([3 * TINY])
    assert inside(pair_of_values(tiny, tiny), exact(tiny) + Fraction(TINY)) == 0


def test_the_kernels_factor_covers_seven_roundings():
    """(1 - u)^7 (1 + 8 u) > 1; without it six random roundings fall below about half the time."""
    assert (1 - Fraction(UNIT)) ** 7 * Fraction(FEW) > 1
    assert (1 - Fraction(UNIT)) ** 8 * Fraction(FEW) < 1


@pytest.mark.parametrize("terms", [2, 9, 40])
def test_sums_of_pairs_enclose_any_order_of_summation(terms):
    """Ties that lose u each, all in one direction, and full mantissas."""
    rng = np.random.default_rng(10)
    middle, radius = signed(rng, terms, 200), np.abs(signed(rng, terms, 200))
    total = pair_total((middle, radius))
    sums = [exact(middle).sum(axis=0) + s * exact(radius).sum(axis=0) for s in (-1, 1)]
    assert inside(total, *sums) == 0
    none = np.zeros((terms, 200))
    assert inside(pair_total((middle, none)), exact(middle).sum(axis=0)) == 0
    assert inside(pair_total((none, radius)), exact(radius).sum(axis=0)) == 0
    lost = pair_radius(np.zeros(1), np.ones(1), terms)[0]
    assert Fraction(terms) * Fraction(UNIT) / (1 - terms * Fraction(UNIT)) <= Fraction(lost)
    assert lost <= terms * UNIT * (1 + 8 * (terms + 4) * UNIT)
    assert pair_radius(np.zeros(1), np.zeros(1), terms)[0] == terms * TINY


def test_coarse_steps_are_taken_back():
    """What a test made coarse is as fine as before, for whoever comes next."""
    with coarse_steps():
        assert up(1.0) > 1.0 + 2.0**-21
    assert FLOAT64.unit == 2.0**-53
    assert up(1.0) == 1.0 + 2.0**-52
