"""Noises that lie in balls, and ranges by outlines: the lemmas, at their extremal points."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

import hardmax as hm
from hardmax.analysis import follow
from hardmax.analysis._deviations import Deviation, deviation_of_maximum, deviation_of_relu
from hardmax.analysis._noises import NoiseCounter
from hardmax.analysis._outlines import close_maximum
from hardmax.numerics import Interval

RNG = np.random.default_rng


def noisy(radii):
    counter = NoiseCounter(len(radii))
    rest = Interval(-np.asarray(radii), np.asarray(radii))
    return Deviation.of(rest).with_noises(np.ones(len(radii), bool), counter), counter


def test_a_ball_is_reached_where_the_form_is_even():
    """Of n noises in a ball of length 1, their sum reaches sqrt(n), one of them 1."""
    counter = NoiseCounter(1)
    counter.take(16, 1.0)
    forms = np.stack([np.ones(16), np.eye(16)[0]])
    assert counter.reach(forms) == pytest.approx([4.0, 1.0], rel=1e-12)
    assert (counter.reach(forms) >= [4.0, 1.0]).all()
    assert counter.joint_reach(np.eye(16)) == pytest.approx(1.0, rel=1e-3)
    assert counter.joint_reach(np.eye(16)) >= 1.0


def test_forms_that_underflow_still_reach():
    counter = NoiseCounter(1)
    counter.take(2, 1.0)
    assert counter.reach(np.array([[1e-200, 1e-200]]))[0] >= 1e-200 * math.sqrt(2)


@pytest.mark.parametrize("k", [2, 3, 5])
def test_what_maxima_leave_over_is_attained(k):
    """One contender deviates by e u, the others by 0: max_j x_j^2 is ((k - 1)/k)^2 e^2."""
    deviation, counter = noisy([1.0] * 8)
    forms = np.zeros((8, k, 8))
    forms[:, 0] = deviation.forms
    many = Deviation(Interval.point(np.zeros((8, k))), forms, counter)
    found = deviation_of_maximum(many, np.ones((8, k), bool))
    assert found.left is not None
    squares = np.square(found.left.forms).sum(axis=(1, 2))
    assert squares == pytest.approx(((k - 1) / k) ** 2, rel=1e-12)


def test_half_of_a_vector_is_left_over_by_rectifiers():
    """An orthogonal map of a ball: the coordinates' boxes are longer than it, the ball is not."""
    n = 16
    counter = NoiseCounter(n)
    counter.take(n, 1.0)
    q, _ = np.linalg.qr(RNG(0).normal(size=(n, n)))
    before = Deviation(Interval.point(np.zeros(n)), q, counter)
    after = deviation_of_relu(before)
    assert np.array_equal(after.forms, q / 2)
    settled = after.with_noises(np.ones(n, bool), counter)
    # each coordinate may be off by 1/2, all of them together by 1/2, not by sqrt(n)/2
    ones = np.ones((1, n)) @ settled
    assert ones.spread[0] == pytest.approx(math.sqrt(n) / 2 + math.sqrt(n) / 2, rel=1e-2)


def test_the_outline_of_a_rectifier_touches_it_at_both_ends():
    low, high = -1.0, 3.0
    counter = NoiseCounter(2)
    counter.take(1, 1.0)
    values = Deviation(Interval.point(np.array([[1.0, 0.0]])), np.array([[[2.0], [0.0]]]), counter)
    ranges = Interval(np.array([[low, 0.0]]), np.array([[high, 0.0]]))
    found = close_maximum(values, ranges, np.ones((1, 2), bool))
    slope = high / (high - low)
    assert found.forms[0, 0] == pytest.approx(2 * slope, rel=1e-5)
    assert found.rest.hi[0] - found.rest.lo[0] == pytest.approx(-low * slope, rel=1e-5)
    for z, end in ((low, found.rest.hi), (0.0, found.rest.lo), (high, found.rest.hi)):
        assert max(z, 0.0) == pytest.approx(slope * (z - 1.0) + end[0], abs=1e-5)


def deep(layers, seed=0, width=8):
    rng = RNG(seed)
    sizes = [4] + [width] * layers + [1]
    weights = [rng.normal(size=(b, a)) * np.sqrt(2 / a) for a, b in pairwise(sizes)]
    return hm.ReluNetwork(weights, [0.3 * rng.normal(size=len(w)) for w in weights])


@pytest.mark.parametrize("route", ["attention", "attention-only"])
def test_outlines_and_deviations_hold_what_runs(route):
    network = deep(5)
    model = hm.compile(network, on=(-1, 1), error=1e-2, route=route)
    hard = hm.compile(network, on=(-1, 1), error=None, route=route)
    flow = follow(model.transformer, model.claim.domain, skeleton=hard.transformer)
    assert flow.reaches is not None
    plain = [place.range.hi - place.range.lo for place in flow.places]
    assert (flow.reaches[-2].narrow.hi - flow.reaches[-2].narrow.lo).max() < 0.8 * plain[-2].max()
    x = RNG(1).uniform(-1, 1, (400, 4))
    assert np.abs(model(x) - hard(x)).max() <= flow.error


@pytest.mark.parametrize("route", ["attention", "attention-only"])
def test_deep_networks_are_proved_and_every_layer_has_its_share(route):
    model = hm.compile(deep(8), on=(-1, 1), error=1e-3, route=route)
    assert hm.certify(model).verdict.name == "PROVED"
    shares = [share.amount for share in model.claim.ledger if share.cause == "softening"]
    assert len(shares) == 8
    assert max(shares) < 0.6 * sum(shares)
