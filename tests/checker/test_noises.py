"""Noises in balls, and what maxima leave over: each lemma as an equality where it is sharp."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from hardmax.checker.forms import NOTHING, Graph
from hardmax.checker.steps._contests import Contest
from hardmax.checker.steps._deviations import Deviations, of_maximum
from hardmax.checker.steps._noises import NONE, Noises
from hardmax.checker.steps._verified import Verified
from hardmax.numerics import exact

RNG = np.random.default_rng


def rectified(noise, noises=NONE, mean=0.0, radius=0.0) -> Deviations:
    """max(Q + d, 0) - max(Q, 0) for rows d of noises."""
    rows = len(noise)
    d = Deviations(np.full(rows, mean), noise, np.full(rows, radius), noises)
    still = Deviations(np.zeros(rows), np.zeros_like(noise), np.zeros(rows), noises)
    return of_maximum([d, still], np.ones((2, rows), bool))


def orthogonal(n: int) -> np.ndarray:
    return np.linalg.qr(RNG(n).normal(size=(n, n)))[0]


def test_a_form_of_a_ball_reaches_its_length_times_the_radius():
    """u = R f/|f| attains it; where the box is nearer, a corner of the box does."""
    noises = Noises().joined(4, 0.75).joined(2, math.sqrt(2.0))
    f = np.array([[1.0, -2.0, 2.0, 4.0, 0.0, 0.0], [0.0, 0.0, 0.0, 3.0, 0.0, 0.0]])
    u = 0.75 * f[0, :4] / 5.0
    found = noises.reach(f)
    assert f[0, :4] @ u == pytest.approx(found[0], rel=1e-13)
    assert found[0] >= 3.75
    assert found[1] == pytest.approx(0.75 * 3.0, rel=1e-13)
    assert noises.reach(np.array([[0, 0, 0, 0, 3.0, -1.0]]))[0] == pytest.approx(4.0, rel=1e-13)


def test_reaches_are_rounded_outward():
    rng = RNG(1)
    for _ in range(200):
        noises = Noises().joined(5, 0.3)
        f = rng.normal(size=(1, 7))
        square = (exact(f[0, :5]) ** 2).sum() * Fraction(0.3) ** 2
        lonely = abs(exact(f[0, 5:])).sum()
        assert (Fraction(noises.reach(f)[0]) - lonely) ** 2 >= square
        wide = Noises().joined(5, 5.0).reach(f)
        assert Fraction(wide[0]) >= abs(exact(f[0])).sum()
    assert Noises().joined(2, 1.0).reach(np.full((1, 2), 1e-200))[0] >= 1e-200 * math.sqrt(2.0)


def test_rows_that_know_fewer_noises_reach_as_far_with_those():
    noises = Noises().joined(3, 1.0).joined(2, 0.5)
    assert noises.reach(np.array([[3.0, 4.0]]))[0] == pytest.approx(5.0, rel=1e-13)
    assert noises.length(np.array([[3.0, 4.0]])) == pytest.approx(5.0, rel=1e-3)
    assert [noises.group_of(k) for k in range(5)] == [0, 0, 0, 1, 1]


def test_many_lonely_noises_are_one_ball():
    rows = np.eye(20)
    assert Noises().length(rows) == pytest.approx(math.sqrt(20.0), rel=1e-3)
    assert Noises().length(rows) >= math.sqrt(20.0)


def test_a_rectifier_leaves_over_half_a_deviation():
    """relu(Q + e) - relu(Q) - e/2 is e/2 for Q >> 0: the square of what is left over is e^2/4."""
    for seed in range(50):
        noise = np.abs(RNG(seed).normal(size=(1, 1)))
        found = rectified(noise)
        assert found.noise[0, 0] == noise[0, 0] / 2
        assert Fraction(found.radius[0]) >= Fraction(noise[0, 0]) / 2
        assert found.radius[0] <= noise[0, 0] / 2 * (1 + 1e-12)
        assert found.left is not None
        assert np.square(found.left.parts).sum() == pytest.approx(noise[0, 0] ** 2 / 4, rel=1e-12)


@pytest.mark.parametrize("k", [2, 3, 5])
def test_what_sums_to_nothing_is_largest_where_one_stands_against_the_others(k):
    """x_1 = (k-1)/k, the others -1/k: max x^2 is (k-1)/k times the sum of the squares."""
    parts = [Deviations(np.zeros(1), np.full((1, 1), float(t == 0)), np.zeros(1)) for t in range(k)]
    found = of_maximum(parts, np.ones((k, 1), bool))
    assert found.left is not None
    assert found.noise[0, 0] == pytest.approx(1 / k)
    bound = math.sqrt(np.square(found.left.parts).sum())
    assert bound == pytest.approx((k - 1) / k, rel=1e-12)
    assert bound + found.left.radius[0] >= (k - 1) / k


def test_without_the_mean_all_of_the_noise_is_left_over():
    """Parts of opposite noises share nothing: their hull is kept, or what they are themselves."""
    parts = [Deviations(np.zeros(1), np.full((1, 1), sign), np.zeros(1)) for sign in (1.0, -1.0)]
    found = of_maximum(parts, np.ones((2, 1), bool))
    assert found.reach[0] >= 1.0
    assert found.left is not None
    assert np.square(found.left.parts).sum() + found.left.radius[0] >= 1.0


def test_what_is_left_over_by_rectifiers_of_a_ball_is_a_ball():
    """An orthogonal map of a ball, rectified: rests in a ball of half the length, attained."""
    n, noises = 8, Noises().joined(8, 1.0)
    turned = orthogonal(n)
    found = rectified(turned, noises)
    settled, known = found.settled(noises)
    assert known.count == 2 * n
    v = RNG(3).normal(size=n)
    e = v / np.linalg.norm(v)
    for rests in (0.5 * turned @ e, -0.5 * turned @ e):  # all Q_i >> 0, or all << 0
        units = rests / found.radius
        assert np.linalg.norm(units) <= known.lengths[-1]
    longest = np.linalg.norm(0.5 * turned / found.radius[:, None], 2)
    assert longest <= known.lengths[-1] <= longest * (1 + 1e-2)
    assert known.lengths[-1] < 0.9 * math.sqrt(n)
    assert settled.reach == pytest.approx(found.reach, rel=1e-12)


def test_rests_beside_the_noises_lengthen_the_ball():
    """Each row strays by r on its own besides: in the worst case all rests point along the ball."""
    n, r, noises = 16, 0.01, Noises().joined(16, 1.0)
    turned = orthogonal(n)
    moved = rectified(turned, noises).shifted(np.full(n, 0.25), np.full(n, r))
    _, known = moved.settled(noises)
    signs = np.ones(n)
    e = turned.T @ signs / math.sqrt(n)  # |e| = 1, and all rows move alike
    rests = 0.5 * turned @ e + r * signs
    worst = np.linalg.norm(rests / moved.radius)
    assert worst <= known.lengths[-1] <= worst * (1 + 1e-2)
    assert known.lengths[-1] < 0.5 * math.sqrt(n)


@pytest.mark.parametrize("seed", range(4))
def test_no_maxima_leave_over_more_than_their_ball(seed):
    """Random parts, noises as far out as they go, maxima by definition."""
    rng = RNG(seed)
    for _ in range(15):
        noises = Noises().joined(3, float(rng.uniform(0.3, 1.7))).joined(1, 1.0)
        rows, k = 5, int(rng.integers(2, 4))
        shared = rng.normal(size=(rows, 4))
        parts = [
            Deviations(
                rng.normal(size=rows) * 1e-2,
                shared + rng.normal(size=(rows, 4)) * rng.choice([0.0, 1.0]),
                np.abs(rng.normal(size=rows)) * 1e-2,
                noises,
            )
            for _ in range(k)
        ]
        found = of_maximum(parts, np.ones((k, rows), bool))
        settled, known = found.settled(noises)
        for _ in range(20):
            e = rng.normal(size=3)
            e = np.clip(e / np.linalg.norm(e) * noises.lengths[0], -1, 1)
            e = np.append(e, rng.choice([-1.0, 1.0]))
            moved = np.stack([p.mean + p.noise @ e + p.radius * rng.choice([-1, 1]) for p in parts])
            q = rng.normal(size=(k, rows)) * rng.choice([0.0, 0.1, 10.0])
            rests = (q + moved).max(axis=0) - q.max(axis=0) - settled.mean - found.noise @ e
            assert (np.abs(rests) <= found.radius + 1e-12).all()
            assert np.linalg.norm(rests / found.radius) <= known.lengths[-1] + 1e-9


def test_a_row_that_is_taken_twice_has_no_ball():
    found = rectified(orthogonal(4), Noises().joined(4, 1.0))
    assert found[np.array([0, 0])].left is None
    assert found.joined(found).left is None
    some = found.only(np.array([2, 0]))
    assert some.left is not None
    assert (some.left.parts == found.left.parts[:, [2, 0]]).all()


def test_copies_have_noises_of_their_own_in_balls_as_long():
    """relu(M + s) = M + c s: as far off as M + s, but another number."""
    verified = Verified(Graph())
    noises = verified.known = Noises().joined(3, 1.0)
    found = rectified(orthogonal(3), noises)
    assert found.left is not None
    found.left.rises[:] = [True, False, True]
    settled = verified.settled(found)
    assert settled.copied.tolist() == [3, -1, 5]
    names = [verified.variable((0.0, 1.0), settled[np.array([i])], settle=False) for i in range(3)]
    (first,), (last,) = names[0].atoms, names[2].atoms
    assert set(verified.copied) == {first, last}
    copies = verified.copies([last, first])
    assert verified.known.count == 8
    assert verified.known.lengths[-1] == verified.known.lengths[1]
    for row, original, own, new in ((0, 2, 5, 7), (1, 0, 3, 6)):
        assert copies.noise[row, own] == 0.0
        assert copies.noise[row, new] == settled.noise[original, own] > 0.0
        assert (copies.noise[row, :3] == settled.noise[original, :3]).all()
        assert copies.mean[row] == settled.mean[original]


def test_only_maxima_that_are_never_negative_have_copies():
    """One functional of [1/2, 1] or 0 is enough; [-1, 1] is not, nor is a minimum."""
    verified = Verified(Graph())
    high, low = verified.graph.variable(0.5, 1.0), verified.graph.variable(-1.0, 1.0)

    def contest(*forms, minimum=False) -> Contest:
        return Contest(forms, ((0.0, 0.0),) * len(forms), 0.0, 0.0, minimum)

    assert verified._rises(contest(low, high))
    assert verified._rises(contest(low, NOTHING))
    assert not verified._rises(contest(low))
    assert not verified._rises(contest(low, high, minimum=True))
