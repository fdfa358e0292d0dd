"""Norms from above: attained where the theorem says, and never below the truth."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from hardmax.numerics import exact, length_up, norm_up, reach_of_balls

RNG = np.random.default_rng


def test_lengths_are_rounded_outward():
    for seed in range(200):
        sizes = RNG(seed).uniform(0.5, 2.0, 7)
        assert Fraction(length_up(sizes)) ** 2 >= (exact(sizes) ** 2).sum()
    assert length_up(np.full(4, 1e-200)) >= 2e-200
    assert length_up(np.zeros(3)) == 0.0
    assert length_up(np.array([math.inf])) == math.inf


def test_the_norm_of_rank_one_is_that_of_frobenius():
    for seed in range(50):
        rng = RNG(seed)
        a, b = rng.normal(size=6), rng.integers(-9, 9, 4).astype(float)
        matrix = np.outer(np.round(a * 64) / 64, b)  # without rounding
        square = (exact(matrix) ** 2).sum()
        assert Fraction(norm_up(matrix)) ** 2 >= square
        assert norm_up(matrix) <= math.sqrt(float(square)) * (1 + 1e-12)


@pytest.mark.parametrize("n", [2, 32])
def test_orthogonal_matrices_attain_the_worst_factor(n):
    """|I|_2 = 1, and all n singular values count in Frobenius' norm: n^(1/2^12)."""
    assert norm_up(np.eye(n) * 3.0) == pytest.approx(3.0 * n ** (1 / 2**12), rel=1e-12)


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1.0, 1e160, 1e300])
def test_norms_scale(scale):
    matrix = RNG(1).normal(size=(5, 9))
    assert norm_up(matrix * scale) == pytest.approx(np.linalg.norm(matrix, 2) * scale, rel=1e-9)
    assert norm_up(matrix.T * scale) >= np.linalg.norm(matrix * scale, 2) * (1 - 1e-12)


def test_norms_of_what_is_not_finite_are_infinite():
    assert norm_up(np.array([[math.nan]])) == math.inf
    assert reach_of_balls([np.array([[math.inf]])], [1.0]) == math.inf
    assert norm_up(np.zeros((2, 3))) == 0.0
    assert reach_of_balls([np.zeros((2, 3))], [1.0]) == 0.0


def test_balls_that_move_the_same_direction_add_up():
    """One direction: the reach is the sum of the norms, times the lengths."""
    one = np.array([[3.0], [4.0]])
    assert reach_of_balls([one, 2 * one], [1.0, 0.5]) == pytest.approx(10.0, rel=1e-9)
    assert reach_of_balls([one, 2 * one], [1.0, 0.5]) >= 10.0


def test_balls_that_move_different_coordinates_reach_like_pythagoras():
    parts = [np.array([[3.0], [0.0]]), np.array([[0.0], [2.0]])]
    found = reach_of_balls(parts, [1.0, 2.0])
    assert 5.0 <= found <= 5.0 * 1.03  # the sum of the norms is 7


def test_no_point_of_random_balls_lies_beyond_their_reach():
    rng = RNG(5)
    for _ in range(20):
        blocks = [rng.normal(size=(4, k)) for k in (1, 3, 5)]
        lengths = rng.uniform(0.1, 2.0, 3).tolist()
        bound = reach_of_balls(blocks, lengths)
        assert bound <= sum(
            r * np.linalg.norm(a, 2) for a, r in zip(blocks, lengths, strict=True)
        ) * (1 + 1e-2)
        direction = rng.normal(size=4)
        for _ in range(30):  # climbs to a point that reaches far
            points = [a.T @ direction for a in blocks]
            points = [r * p / np.linalg.norm(p) for p, r in zip(points, lengths, strict=True)]
            direction = sum(a @ p for a, p in zip(blocks, points, strict=True))
        assert np.linalg.norm(direction) <= bound
        assert bound <= 1.25 * np.linalg.norm(direction)


@pytest.mark.parametrize("shape", [(2, 1), (1, 3), (2, 2), (3, 5)])
def test_norms_hold_among_the_smallest_numbers_and_the_largest(shape):
    """All entries t: the norm is t sqrt(m n), whose square is rational."""
    for exponent in (-1074, -1073, -1060, -1022, 0, 1000, 1022):
        for mantissa in (1.0, 1.25, 1.75):
            matrix = np.full(shape, math.ldexp(mantissa, exponent))
            square = Fraction(float(matrix[0, 0])) ** 2 * matrix.size
            found = norm_up(matrix)
            assert found == math.inf or Fraction(found) ** 2 >= square
            reach = reach_of_balls([matrix], [1.0])
            assert reach == math.inf or Fraction(reach) ** 2 >= square
    assert norm_up(np.full((2, 2), 1.7e308)) == math.inf


def test_balls_whose_products_underflow_still_reach():
    tiny = np.full((2, 1), 5e-324)
    assert reach_of_balls([tiny], [5e-324]) > 0.0
    assert reach_of_balls([tiny, tiny], [5e-324, 1e-10]) > 0.0
    mixed = reach_of_balls([tiny, np.ones((2, 1))], [1e308, 1e-300])
    assert mixed >= 1e-300 * math.sqrt(2.0)


def test_lengths_that_are_nan_say_nothing():
    assert length_up(np.array([math.nan, 1.0])) == math.inf
    assert reach_of_balls([np.ones((1, 1))], [math.nan]) == math.inf


def test_one_ball_is_attained_along_its_form():
    """f u for u = R f/|f| is R |f|."""
    for seed in range(100):
        f = RNG(seed).normal(size=(1, 6))
        found = reach_of_balls([f], [0.3])
        assert Fraction(found) ** 2 >= Fraction(0.3) ** 2 * (exact(f) ** 2).sum()
        assert found == pytest.approx(0.3 * np.linalg.norm(f), rel=1e-12)


def test_what_long_sums_lose_is_counted():
    """Squares of 2^-54 vanish beside 1, one after the other: the norm's square is exact here."""
    column = np.full((2**16, 1), 2.0**-27)
    column[0] = 1.0
    square = 1 + Fraction(2**16 - 1, 2**54)
    assert Fraction(norm_up(column)) ** 2 >= square
    assert Fraction(norm_up(column.T)) ** 2 >= square
    assert Fraction(length_up(column.ravel())) ** 2 >= square
