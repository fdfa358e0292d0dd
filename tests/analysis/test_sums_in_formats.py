"""What sums err by in coarse formats: lengths, partial sums, factors; at their extremal points."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

import hardmax as hm
from hardmax.analysis import follow
from hardmax.analysis._affine_rounding import sum_stray
from hardmax.analysis._contests import find_contest
from hardmax.analysis._deviations import Deviation
from hardmax.analysis._noises import NoiseCounter
from hardmax.analysis._outlines import (
    Outline,
    Reach,
    SizesOfSums,
    outline_of,
    outline_of_relu,
    with_own_noises,
)
from hardmax.analysis._places import Place
from hardmax.analysis._question import Projected
from hardmax.analysis._routing import selection
from hardmax.core import Box, VectorInput, evaluate
from hardmax.numerics import FLOAT32, FLOAT64, Interval
from hardmax.testing import run_in_format

RNG = np.random.default_rng
UNIT = Fraction(FLOAT32.unit)


def added_up(terms):
    """In the order given, every addition and, 4 times, every term rounded up by a whole unit."""
    total, up = Fraction(0), 1 + UNIT
    for number, term in enumerate(terms):
        term = Fraction(term) * (up**4 if term > 0 else (1 - UNIT) ** 4)
        total = (total + term) * (up if number else 1)
    return total


@pytest.mark.parametrize("many", [2, 30, 400])
def test_a_sum_of_positive_terms_errs_by_every_unit_of_what_is_charged(many):
    """The first term is all there is: each partial sum is the whole."""
    terms = [1.0] + [0.0] * many
    own, rest = sum_stray(many, 1.0, 1.0, FLOAT32)
    attained = float(added_up(terms) - 1)
    assert attained <= own + rest <= attained * (1 + 1e-4)


@pytest.mark.parametrize("many", [30, 400])
def test_where_terms_cancel_partial_sums_are_half_of_them(many):
    """1/2, nothing for long, and -1/2 at the end: n partial sums of half the terms' sizes."""
    terms = [0.5] + [0.0] * (many - 1) + [-0.5]
    own, rest = sum_stray(many, 1.0, 0.0, FLOAT32)
    attained = float(added_up(terms))
    assert rest == 0.0
    assert attained <= own <= attained * (1 + 2.0 / many)  # the last one adds up to nothing


def test_no_order_errs_by_more():
    rng = RNG(0)
    for _ in range(20):
        terms = FLOAT32.stored(rng.normal(size=40))
        own, rest = sum_stray(39, np.abs(terms).sum(), abs(terms.sum()), FLOAT32)
        rng.shuffle(terms)
        computed = np.float32(0.0)
        for term in terms.astype(np.float32):
            computed += term
        assert abs(float(computed) - math.fsum(terms)) <= own + rest


def test_strays_in_a_ball_reach_as_far_as_they_are_long():
    """n errors of at most 1, no longer than 1 together: their sum is sqrt(n) at most."""
    counter = NoiseCounter(16)
    nothing = Deviation.of(Interval.point(np.zeros(16)))
    found = np.ones((1, 16)) @ nothing.strayed_together(np.ones(16), 1.0, counter)
    assert 4.0 <= found.magnitude[0] <= 4.0 * (1 + 1e-9)
    every = nothing.strayed_together(np.arange(16.0), 1e9, NoiseCounter(16))
    assert (every.magnitude >= np.arange(16.0)).all()


def test_strays_without_room_for_noises_go_into_the_rest():
    counter = NoiseCounter(1)
    counter.taken = counter.most
    found = Deviation.of(Interval.point(np.zeros(2))).strayed_together(np.ones(2), 1.0, counter)
    assert not found.noises
    assert (found.magnitude == 1.0).all()


def inputs(rows, offsets):
    rows, offsets = np.atleast_2d(rows), np.atleast_1d(offsets)
    source = VectorInput(rows[None], offsets[None])
    return outline_of(source, Box([-1.0] * rows.shape[1], [1.0] * rows.shape[1]), round=True)


def test_the_sizes_of_a_rectifiers_two_sides_are_never_added_up():
    """relu(x) + relu(-x) = |x| <= 1; their largest values add up to 2."""
    before = inputs([[1.0], [-1.0]], [0.0, 0.0])
    own = outline_of_relu(before, Interval(-np.ones((1, 2)), np.ones((1, 2))))
    hidden = with_own_noises(own)[0]
    sizes = SizesOfSums.of(np.array([[1.0, -1.0]]), hidden, Interval(np.zeros(2), np.ones(2)))
    assert 1.0 <= sizes.entries[0] <= 1.0 + 1e-6
    signed = SizesOfSums.of(np.array([[1.0, -1.0]]), hidden, Interval(-np.ones(2), np.ones(2)))
    assert signed.entries[0] == pytest.approx(2.0)


def test_an_outline_is_as_long_as_the_vector_can_be():
    """An orthogonal map of the box [-1, 1]^n, and a constant: sqrt(n) and its own length."""
    q, _ = np.linalg.qr(RNG(0).normal(size=(9, 9)))
    assert 3.0 <= inputs(q, np.zeros(9)).length <= 3.0 * (1 + 1e-3)
    away = inputs(np.eye(9), 4.0 * np.ones(9))
    assert 15.0 <= away.length <= 15.0 * (1 + 1e-3)  # all inputs 1: 9 times 5
    assert Outline.of(Interval(np.zeros(2), np.array([3.0, 4.0]))).length == pytest.approx(5.0)


def rectifier(format, coldness=1e9, keys=(-0.5, 0.5), low=-3.0):
    """A head that takes max(z, 0) of coordinate 0, keys being coordinate 1; asked by token 1."""
    place = Place(
        Interval(
            np.array([[0.0, keys[0]], [low, keys[1]]]), np.array([[0.0, keys[0]], [3.0, keys[1]]])
        ),
        Deviation.of(Interval.point(np.zeros((2, 2)))),
    )
    head = hm.core.Head(
        query=np.array([[1.0, 0.0]]),
        key=np.array([[0.0, 1.0]]),
        value=np.array([[1.0, 0.0]]),
        output=np.zeros((2, 1)),
    )
    (group,) = hm.core.Attention([head]).groups
    return Projected(place, group, np.array([coldness]), format).asked_by(1, True)


def test_logits_with_one_factor_only_fade():
    """The shortfall is that of a head colder by gamma_6: attained where y is the worst logit."""
    asking = rectifier(FLOAT32, 1.0)
    contest = find_contest(asking)
    assert contest.holds.all()
    cold = 1.0 - 6 * float(UNIT)
    y = np.linspace(1.0, 1.6, 100001)
    attained = (y / (1.0 + np.exp(y))).max() / cold  # z - z sigmoid(z), at that coldness
    assert attained <= contest.shortfall[0] <= attained * (1 + 1e-6)
    # and logits as large as they like are rounded at no cost
    assert find_contest(rectifier(FLOAT32, 1e12)).stray[0] < 1e-15


def test_an_evaluation_may_write_where_the_reference_does_not():
    narrow = Interval.point(np.array([[3.0, 4.0, 12.0]]))
    written = Outline.of(Interval.point(np.array([3.0, 4.0])))
    reach = Reach(narrow, written, None, np.array([[True, True, False]]))
    assert reach.length_in(np.array([[True, True, False]])) == pytest.approx(5.0)
    leaked = reach.length_in(np.array([[True, True, True]]))
    assert 13.0 <= leaked <= 17.0 * (1 + 1e-9)


def test_a_selection_leaks_as_a_head_does_whose_logits_have_faded():
    """The loser is 2 behind at the least, 6 in logits, of which gamma_6 may be gone."""
    holds, taken = selection(rectifier(FLOAT32, 3.0, low=2.0))
    assert holds.all()
    odds = math.exp(-6.0 * (1.0 - 6 * float(UNIT)))
    attained = 3.0 * odds / (1.0 + odds)
    assert attained <= taken.deviation.magnitude[0, 0] <= attained * (1 + 1e-5)


def test_constant_logits_are_rounded_one_by_one():
    asking = rectifier(FLOAT32, 3.0, low=3.0)
    assert asking.constant.all()
    assert asking.fading[0] == 0.0
    assert asking.logit_stray[0] > 2 * 9.0 * float(UNIT)


def test_keys_that_round_do_not_share_a_factor():
    assert rectifier(FLOAT32).fading[0] > 0.0
    assert rectifier(FLOAT32, keys=(-0.3, 0.3)).fading[0] == 0.0
    assert find_contest(rectifier(FLOAT32, 1e12, keys=(-0.3, 0.3))).stray[0] > 1e-8


def test_rounded_logits_take_no_mean_above_the_maximum():
    """They may lower it by 2 d, of which nothing is charged upwards."""
    contest = find_contest(rectifier(FLOAT32, 1e3, keys=(-0.3, 0.3)))
    assert contest.stray[0] > 1e-6
    assert contest.lift[0] == pytest.approx(contest.blur[0], rel=1e-9)


def he(widths, seed=0):
    rng, sizes = RNG(seed), pairwise(widths)
    weights = [rng.normal(0.0, np.sqrt(2 / a), size=(b, a)) for a, b in sizes]
    return hm.ReluNetwork(weights, [0.3 * rng.normal(size=len(w)) for w in weights])


@pytest.mark.parametrize("route", ["attention", "attention-only", "feedforward"])
def test_networks_stray_less_in_float32_than_is_said(route):
    network, domain = he([8, 32, 32, 1]), Box([-1.0] * 8, [1.0] * 8)
    model = hm.compile(network, on=domain, error=1e-2, route=route, float="float32")
    hard = hm.compile(network, on=domain, error=None, route=route, float="float32")
    flow = follow(model.transformer, domain, skeleton=hard.transformer, format=FLOAT32)
    finer = follow(model.transformer, domain, skeleton=hard.transformer, format=FLOAT64)
    assert finer.error < flow.error <= model.claim.error
    x = FLOAT32.stored(RNG(1).uniform(-1.0, 1.0, size=(100, 8)))
    computed = run_in_format(model.transformer, x, FLOAT32, RNG(2))
    assert np.abs(computed - evaluate(hard.transformer, x)).max() <= flow.error


def test_four_hidden_layers_hold_in_float32():
    model = hm.compile(
        he([8, 32, 32, 32, 32, 1]),
        on="[-1,1]^8",
        error=1e-2,
        route="attention-only",
        float="float32",
    )
    found = hm.certify(model)
    assert found.verdict is hm.Verdict.PROVED
    assert "float32" in found.asked_holds_in
