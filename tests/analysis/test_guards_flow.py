"""Each outward step of the flow through a Transformer: taken away, one of these tests goes red."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from flint import arb

import hardmax as hm
from hardmax.analysis import follow, rounding_bound
from hardmax.analysis._contests import _divided, _product_error, _residual
from hardmax.analysis._deviations import Deviation, NoiseCounter, deviation_of_maximum
from hardmax.analysis._places import Place, scaled_in_place
from hardmax.core import (
    Attention,
    FeedForward,
    Hardmax,
    Head,
    ReadOut,
    Softmax,
    Transformer,
    VectorInput,
)
from hardmax.numerics import FLOAT16, FLOAT32, FLOAT64, REALS, UNIT, Interval, exact, precision

RNG = np.random.default_rng


def mild(rng, *shape):
    return rng.uniform(0.5, 2.0, shape) * rng.choice([-1.0, 1.0], shape)


def deviation(rng, *shape, noises=4, wide=True):
    radius = np.abs(mild(rng, *shape)) if wide else np.zeros(shape)
    middle = mild(rng, *shape)
    return Deviation(Interval(middle - radius, middle + radius), mild(rng, *shape, noises))


def missing(found, lo, hi, forms):
    """By how much the exact rest, with what the forms were rounded by, exceeds the one found."""
    off = abs(exact(found.forms) - forms).sum(axis=-1)
    below, above = exact(found.rest.lo) - (lo - off), (hi + off) - exact(found.rest.hi)
    return max(below.max(), above.max())


def test_spreads_of_noises_are_added_up_from_above():
    d = deviation(RNG(0), 300, noises=7)
    assert (exact(d.spread) >= abs(exact(d.forms)).sum(axis=-1)).all()


@pytest.mark.parametrize("wide", [True, False])
def test_sums_products_and_matrices_of_deviations_hold_the_exact_ones(wide):
    rng = RNG(1)
    a, b = deviation(rng, 200, wide=wide), deviation(rng, 200, wide=wide)
    lo, hi = exact(a.rest.lo), exact(a.rest.hi)
    assert (
        missing(
            a + b, lo + exact(b.rest.lo), hi + exact(b.rest.hi), exact(a.forms) + exact(b.forms)
        )
        <= 0
    )
    factor = np.abs(mild(rng, 200))
    exactly = exact(factor)
    assert (
        missing(a.scaled(factor), lo * exactly, hi * exactly, exact(a.forms) * exactly[:, None])
        <= 0
    )
    away = np.full(200, 0.01)
    far = a.scaled(factor, away)
    over = abs(exact(a.forms)).sum(axis=-1) * Fraction(0.01)
    least, most = exactly - Fraction(0.01), exactly + Fraction(0.01)
    ends = [e * f for e in (lo, hi) for f in (least, most)]
    assert (
        missing(
            far,
            np.min(ends, axis=0) - over,
            np.max(ends, axis=0) + over,
            exact(a.forms) * exactly[:, None],
        )
        <= 0
    )
    matrix = np.abs(mild(rng, 50, 200))
    m = exact(matrix)
    assert missing(matrix @ a, m @ lo, m @ hi, m @ exact(a.forms)) <= 0
    rows = deviation(rng, 60, 9, wide=wide)
    exactly = exact(rows.rest.lo).sum(axis=-1), exact(rows.rest.hi).sum(axis=-1)
    assert missing(rows.total(), *exactly, exact(rows.forms).sum(axis=-2)) <= 0


def test_noises_reach_to_both_ends_of_the_rest():
    d = deviation(RNG(2), 300, noises=0)
    found = d.with_noises(np.ones(300, bool), NoiseCounter(300))
    reach = abs(exact(found.forms)).sum(axis=-1)
    assert (exact(found.rest.hi) + reach >= exact(d.rest.hi)).all()
    assert (exact(found.rest.lo) - reach <= exact(d.rest.lo)).all()


def test_maxima_of_deviations_hold_each_contender():
    d = deviation(RNG(3), 200, 2)
    found = deviation_of_maximum(d, np.ones((200, 2), bool))
    for j in range(2):
        one = d[:, j]
        assert missing(found, exact(one.rest.lo), exact(one.rest.hi), exact(one.forms)) <= 0


def test_handicaps_are_divided_outward_unless_the_slope_is_a_power_of_two():
    rng = RNG(4)
    ends = np.sort(mild(rng, 2, 300, 1), axis=0)
    slope = np.abs(mild(rng, 300))
    found = _divided(Interval(*ends), slope)
    assert (exact(found.lo[:, 0]) <= exact(ends[0][:, 0]) / exact(slope)).all()
    assert (exact(found.hi[:, 0]) >= exact(ends[1][:, 0]) / exact(slope)).all()
    halves = _divided(Interval(*ends), np.full(300, 2.0))
    assert np.array_equal(halves.lo, 0.5 * ends[0])


def test_residuals_and_products_are_rounded_by_no_more_than_said():
    rng = RNG(5)
    scored, slope, valued = mild(rng, 3, 400)
    rest, slack = _residual(scored, slope, valued)
    assert (abs(exact(scored) - exact(slope) * exact(valued) - exact(rest)) <= exact(slack)).all()
    matrix, known, other = mild(rng, 30, 2, 5), mild(rng, 5), mild(rng, 30, 2, 6)
    factor = np.einsum("hkw,w->hk", matrix, known)
    product = np.einsum("hk,hkw->hw", factor, other)
    truth = ((exact(matrix) @ exact(known))[:, :, None] * exact(other)).sum(axis=1)
    wrong = _product_error(factor[:, :, None], matrix, known, other)
    assert (abs(truth - exact(product)) <= exact(wrong)).all()
    assert (wrong <= 64 * 16 * UNIT * 8).all()


def test_a_coordinate_scaled_in_place_keeps_what_is_left():
    rng = RNG(6)
    x, factor = np.abs(mild(rng, 1, 300)), -np.abs(mild(rng, 1, 300))
    zero = Deviation.of(Interval.point(np.zeros((1, 300))))
    change = Interval.point(x) * Interval.point(factor)
    rest = np.abs(mild(rng, 1, 300)) * 1e-3
    whole = change + Interval.point(rest)
    found = scaled_in_place(
        Place(Interval.point(x), zero),
        Place(whole, zero),
        Interval.point(factor),
        (change, change),
    )
    assert found.range.contains(exact(x) * (1 + exact(factor)) + exact(rest)).all()


# ---- whole Transformers ------------------------------------------------------------------------


def one_head(value, *, coldness, keys, width=2):
    """A token that holds x, and others that hold constants; scores are the given constants."""
    tokens = len(keys)
    maps, offsets = np.zeros((tokens, 4, 1)), np.zeros((tokens, 4))
    maps[0, 0, 0] = 1.0
    offsets[:, 1], offsets[:, 2] = keys, value
    offsets[:, 3] = 1.0
    eye = np.eye(4)
    head = Head(
        query=eye[[3]],
        key=eye[[1]],
        value=eye[[2]],
        output=eye[:, [0]],
        weighting=Hardmax() if np.isinf(coldness) else Softmax(coldness),
    )
    return Transformer(
        VectorInput(maps, offsets), [Attention([head])], ReadOut(eye[[0]], np.zeros(1), 0)
    )


BOX = hm.Box([-1.0], [1.0])


@pytest.mark.parametrize("tokens", [2, 3, 7])
def test_constant_weights_enclose_balls(tokens):
    """Ranges of a head with constant scores, against the same softmax in balls."""
    rng = RNG(7)
    for _ in range(20):
        keys, values = rng.uniform(-3.0, 0.0, tokens), mild(rng, tokens)
        model = one_head(values, coldness=5.0, keys=keys)
        flow = follow(model, hm.Box([0.0], [0.0]), format=REALS)
        with precision(200):
            powers = [(5 * arb(float(k))).exp() for k in keys]
            mean = sum(p * arb(float(v)) for p, v in zip(powers, values, strict=True)) / sum(powers)
            answer = flow.answer.range
            assert arb(float(answer.lo.min())) < mean < arb(float(answer.hi.max()))
            assert float(answer.hi.max() - answer.lo.min()) < 1e-12


def test_equal_shares_are_thirds_from_both_sides():
    model = one_head(np.array([0.1, 0.7, 0.4]), coldness=np.inf, keys=np.zeros(3))
    answer = follow(model, hm.Box([0.0], [0.0]), format=REALS).answer.range
    truth = sum(map(Fraction, (0.1, 0.7, 0.4))) / 3
    assert Fraction(float(answer.lo.min())) <= truth <= Fraction(float(answer.hi.max()))


@pytest.mark.parametrize(("format", "kind"), [(FLOAT32, np.float32), (FLOAT16, np.float16)])
def test_rounding_of_a_sum_is_attained_and_not_much_overcharged(format, kind):
    """1 + u + u + ... in a hidden layer: each addition is a tie, and loses a whole u."""
    n = 6
    maps, offsets = np.zeros((1, n + 1, 1)), np.zeros((1, n + 1))
    maps[0, 0, 0] = 1.0
    offsets[0, 1:] = format.unit
    model = Transformer(
        VectorInput(maps, offsets),
        [FeedForward(np.ones((1, n + 1)), np.zeros(1), np.eye(n + 1)[:, [0]], np.zeros(n + 1))],
        ReadOut(np.eye(n + 1)[[0]], np.zeros(1), 0),
    )
    total = kind(1.0)
    for _ in range(n):
        total = kind(total + kind(format.unit))
    lost = n * format.unit - (float(total) - 1.0)
    assert lost == n * format.unit
    (bound,) = rounding_bound(model, hm.Box([1.0], [1.0]), format.name)
    assert lost <= bound <= 12 * lost
    (finer,) = rounding_bound(model, hm.Box([1.0], [1.0]), "float64")
    assert finer < 1e-12


def test_every_format_is_charged_by_its_own_unit():
    model = one_head(np.array([0.3, 0.7]), coldness=1.0, keys=np.array([0.1, 0.2]))
    bounds = [
        rounding_bound(model, BOX, name)[0]
        for name in ("float64", "float32", "bfloat16", "float16")
    ]
    units = [FLOAT64.unit, FLOAT32.unit, 2.0**-8, FLOAT16.unit]
    for bound, unit in zip(bounds, units, strict=True):
        assert 8 * unit < bound < 400 * unit


def test_exponentials_that_vanish_are_charged():
    """A token 80 behind is worth e^-80 of 2^120: more than all rounding, and it may be lost."""
    keys = np.array([0.0, -86.5])
    model = one_head(np.array([0.0, 2.0**120]), coldness=1.0, keys=keys)
    (bound,) = rounding_bound(model, hm.Box([0.0], [0.0]), "float32")
    assert bound >= 2.0**120 * np.exp(-86.5)


def test_the_accuracy_of_exp_is_charged():
    """Two tokens that nearly tie, far apart in value: a relative error r of exp moves r/4 of it."""
    for format in (FLOAT32, FLOAT16, FLOAT64):
        values = np.array([-1.0, 1.0])
        model = one_head(values, coldness=1.0, keys=np.array([0.0, 0.0]))
        (tied,) = rounding_bound(model, hm.Box([0.0], [0.0]), format.name)
        model = one_head(values, coldness=1.0, keys=np.array([0.0, -0.5]))
        (apart,) = rounding_bound(model, hm.Box([0.0], [0.0]), format.name)
        assert apart >= format.exp_units * format.unit * 0.4 > 0.0
        assert tied < apart


def test_numbers_that_a_format_does_not_hold_are_rounded_when_stored():
    exactly = one_head(np.array([0.5, 0.5]), coldness=np.inf, keys=np.array([1.0, 0.0]))
    rounded = one_head(np.array([0.5001, 0.5001]), coldness=np.inf, keys=np.array([1.0, 0.0]))
    box = hm.Box([0.0], [0.0])
    assert rounding_bound(rounded, box, "float16")[0] > rounding_bound(exactly, box, "float16")[0]
    assert rounding_bound(rounded, box, "float16")[0] >= abs(0.5001 - float(np.float16(0.5001)))


def test_a_number_beyond_the_format_means_nothing_is_promised():
    model = one_head(np.array([1e6, 1e6]), coldness=1.0, keys=np.array([0.0, 0.0]))
    assert rounding_bound(model, BOX, "float16")[0] == np.inf
    assert rounding_bound(model, BOX, "float32")[0] < 100.0


@pytest.mark.parametrize("name", ["float32", "float16"])
def test_random_heads_stay_within_their_bound(name):
    """NumPy in the narrow format, in several orders, against balls."""
    kind = {"float32": np.float32, "float16": np.float16}[name]
    rng = RNG(8)
    for _ in range(40):
        tokens = int(rng.integers(2, 9))
        keys, values = (
            rng.uniform(-3, 0, tokens).astype(kind),
            rng.uniform(-2, 2, tokens).astype(kind),
        )
        model = one_head(values.astype(float), coldness=1.0, keys=keys.astype(float))
        (bound,) = rounding_bound(model, hm.Box([0.0], [0.0]), name)
        with precision(100):
            powers = [arb(float(k)).exp() for k in keys]
            truth = sum(p * arb(float(v)) for p, v in zip(powers, values, strict=True)) / sum(
                powers
            )
            for _ in range(3):
                order = rng.permutation(tokens)
                e = np.exp(keys - keys.max())[order]
                total, mixed = kind(0), kind(0)
                for w in e:
                    total = kind(total + w)
                for w, v in zip(e, values[order], strict=True):
                    mixed = kind(mixed + kind(kind(w / total) * v))
                assert abs(arb(float(mixed)) - truth) <= arb(float(bound))
