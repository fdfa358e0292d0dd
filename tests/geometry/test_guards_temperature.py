"""The guarantees of temperature against exact numbers: never on the wrong side, and close to it.

Truth comes from balls of 300 bits around the exact rationals. Bounds are compared with it at their
extremal points, where they are equalities: what lies between them is rounding alone, which must be
on the safe side and small.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, fmpq

from hardmax import ShapeError
from hardmax.geometry.temperature._arrays import _divided_down, _stray, stability_of
from hardmax.geometry.temperature._cloud import Cloud
from hardmax.geometry.temperature._curvature import _deviation, hessian_bound, jacobian_bound
from hardmax.geometry.temperature._lemmas import (
    _log_up,
    distance_for_error,
    from_above,
    output_bound,
    temperature_for_outputs,
    temperature_for_weights,
    value_bound,
    vanishing,
    weight_bound,
)
from hardmax.geometry.temperature._table import at_most
from hardmax.numerics import FLOAT64, TINY, UNIT, precision


def ball(x: float | Fraction) -> arb:
    exact = Fraction(x)
    return arb(fmpq(exact.numerator, exact.denominator))


def cases(seed: int, count: int = 300):
    """Gaps, numbers of tokens and coldnesses with all their digits, exponents up to 400."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        exponent = rng.choice([rng.random(), 40.0 * rng.random(), 400.0 * rng.random()])
        coldness = 2.0 ** float(rng.uniform(-20.0, 20.0))
        yield exponent / coldness, int(rng.integers(2, 1000)), coldness


def check(bound: float, truth: arb, roundings: float) -> bool:
    """At least the truth, and above it by at most so many roundings; whether by more than half."""
    assert ball(bound) >= truth
    assert ball(bound) <= truth * (1 + ball(UNIT) * ball(float(roundings)))
    return bool(ball(bound) > truth)


@pytest.mark.parametrize("name", ["weight", "value", "hessian"])
def test_guarantees_lie_above_what_the_losers_at_the_gap_attain(name: str) -> None:
    with precision(300):
        for gap, tokens, coldness in cases(len(name)):
            x = ball(gap) * ball(coldness)
            r = (-x).exp()
            roundings = 80.0 + 8.0 * gap * coldness
            if name == "weight":
                share = (tokens - 1) * r / (1 + (tokens - 1) * r)
                check(float(weight_bound(gap, tokens, coldness)), share, roundings)
            elif name == "value":
                truth = ((tokens - 1) * r).log1p() / ball(coldness)
                check(float(value_bound(gap, tokens, coldness)), truth, roundings + 32.0)
            else:
                losers = tokens - 1
                truth = ball(coldness) * (losers + 1) * r / (1 + losers * r) ** 2
                assert ball(float(hessian_bound(gap, tokens, coldness))) >= truth


def test_exponents_are_charged_for_their_rounding() -> None:
    """gap times coldness is off by u of 700: that is 700 units of the exponential."""
    seen = 0.0
    with precision(300):
        rng = np.random.default_rng(1)
        for _ in range(400):
            gap, coldness = 1.0 + rng.random(2) * 2.0**-4 * (1.0, 1.0)
            gap *= 480.0
            bound, plain = float(weight_bound(gap, 2, coldness)), math.exp(-gap * coldness)
            truth = (-(ball(gap) * ball(coldness))).exp()
            truth = truth / (1 + truth)
            assert ball(bound) >= truth
            above = (truth / ball(plain) - 1) / ball(UNIT)
            seen = max(seen, float(above.mid()) / 480.0)
    assert seen > 0.4  # of the units that a plain exponential is below the truth


def test_exponentials_that_vanish_are_counted() -> None:
    far, near = np.array([600.0]), np.array([400.0])
    assert vanishing(far, 3.0)[0] >= 3.0 * math.exp(FLOAT64.exp_vanishes)
    assert vanishing(near, 3.0)[0] == 0.0
    assert vanishing(np.array([math.inf]), 3.0)[0] == 0.0
    with precision(300):
        for gap in (501.0, 700.0, 1e4):
            r = (-ball(gap)).exp()
            assert ball(float(weight_bound(gap, 5, 1.0))) >= 4 * r / (1 + 4 * r)
            assert float(weight_bound(gap, 5, 1.0)) >= 4.0 * FLOAT64.vanished
            assert float(value_bound(gap, 5, 2.0)) >= 2.0 * FLOAT64.vanished
            assert float(hessian_bound(gap, 5, 2.0)) >= 2.0 * FLOAT64.vanished


def test_one_exponential_from_above() -> None:
    """exp may be 4 ulp below its value, and a bound made of it so many roundings more."""
    down = 1.0 - FLOAT64.exp_units * UNIT
    for exponent in (0.0, 1.0, 300.0):
        lowest = down * (1.0 - UNIT) ** 3 * (1.0 - UNIT * exponent)
        assert from_above(np.array(lowest), np.array(exponent), 3) >= 1.0
        assert (
            from_above(np.array(1.0), np.array(exponent), 3) <= 1.0 + (64.0 + 3 * exponent) * UNIT
        )


def test_logarithms_are_rounded_up() -> None:
    with precision(300):
        for x in (1.0 + np.random.default_rng(2).random(300)) ** 40:
            lowest = x * (1.0 - UNIT) ** 4  # x took four roundings
            assert ball(float(_log_up(lowest))) >= ball(float(x)).log()
            assert _log_up(x) >= math.log(x) * (1.0 + FLOAT64.exp_units * UNIT)
    assert _log_up(0.0) == -math.inf
    assert _log_up(math.inf) == math.inf


def test_temperatures_are_rounded_down() -> None:
    """At the temperature that is given the exact guarantee holds, and not far above it."""
    with precision(300):
        rng = np.random.default_rng(3)
        for _ in range(300):
            gap, tokens = float(rng.random() + 0.1), int(rng.integers(2, 50))
            eta = float(rng.random() * 0.4)
            found = float(temperature_for_weights(eta, gap, tokens))
            odds = (tokens - 1) * (1 - ball(eta)) / ball(eta)
            if not found < math.inf:
                continue
            truth = ball(gap) / odds.log()
            assert ball(found) <= truth
            assert ball(found) >= truth * (1 - ball(200 * UNIT) - ball(200 * UNIT) / odds.log())
            radius = 1.0 + float(rng.random())
            error = radius * eta
            found = float(temperature_for_outputs(error, gap, tokens, radius))
            odds = (tokens - 1) * (ball(radius) / ball(error) - 1)
            if found < math.inf:
                assert ball(found) <= ball(gap) / odds.log()


def test_distances_are_rounded_up() -> None:
    with precision(300):
        for error in 0.01 + 0.1 * np.random.default_rng(4).random(300):
            given = {"diameter": 1.0, "tokens": 7, "temperature": 0.7, "separation": 0.3}
            found = distance_for_error(float(error), **given)
            truth = (6 * (1 / ball(float(error)) - 1)).log() * ball(0.7) / ball(0.3)
            assert truth <= ball(found) <= truth * (1 + ball(64 * UNIT))
    tiny = distance_for_error(0.1, diameter=1.0, tokens=7, temperature=TINY, separation=1e300)
    assert tiny >= TINY  # what underflows is not 0


def test_outputs_and_jacobians_are_rounded_up() -> None:
    with precision(300):
        for gap, tokens, coldness in cases(9, 200):
            share = float(weight_bound(gap, tokens, coldness))
            radius = gap + 0.1
            bound = float(output_bound(gap, tokens, coldness, radius))
            check(bound, ball(share) * ball(radius), 16.0)
            e = min(share, 0.5)
            turned = float(jacobian_bound(e, coldness, values=(1e30, radius), keys=(1e30, 0.7)))
            truth = ball(coldness) * ball(e) * (1 - ball(e)) * ball(radius) * ball(0.7)
            check(turned, truth, 64.0)
            straight = float(jacobian_bound(e, coldness, values=(radius, 1e30), keys=(0.7, 1e30)))
            check(straight, ball(coldness) * ball(e) * ball(radius) * ball(0.7), 64.0)
    assert output_bound(800.0, 2, 1.0, 1e-300) >= TINY
    assert jacobian_bound(1e-300, 1.0, values=(1e-200, 1e-200), keys=(1e-200, 1e-200)) > 0.0
    assert jacobian_bound(0.0, math.inf, values=(1.0, 1.0), keys=(1.0, 1.0)) == 0.0
    assert jacobian_bound(0.1, math.inf, values=(1.0, 1.0), keys=(1.0, 1.0)) == math.inf
    assert _deviation(np.array(1e-320), 1.0, 0.0) == 0.0


# ---- distances and gaps --------------------------------------------------------------------------


def near_one(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return 1.0 + rng.random(shape) * 2.0**-9


def test_distances_of_points_are_never_below_the_truth() -> None:
    """Far and near pairs, all digits, and distances that underflow or nearly overflow."""
    rng = np.random.default_rng(5)
    for size in (1.0, 2.0**900, 2.0**-1060):
        for _ in range(60):
            given = (rng.standard_normal((1, 4, 2)) * size)[..., :]
            given[0, 3] = given[0, 2] + 2.0**-30 * size * rng.standard_normal(2)
            cloud = Cloud.of(given, "points")
            rows = np.zeros((1, 1), dtype=int) + int(rng.integers(4))
            squares = cloud.squares_from(rows, 4)
            exact = [[Fraction(x) for x in point] for point in given[0].tolist()]
            own = exact[int(rows[0, 0])]
            truth = [sum((a - b) ** 2 for a, b in zip(own, one, strict=True)) for one in exact]
            far = cloud.length(squares[:, :, :].max(axis=2))[0, 0]
            assert Fraction(float(far)) ** 2 >= max(truth)
            cloud.separate(squares, rows, given)
            for j in range(4):
                length = cloud.length(squares[:, :, j])[0, 0]
                assert Fraction(float(length)) ** 2 >= truth[j]
            assert squares[0, 0, int(rows[0, 0])] == 0.0
            widest = max(
                sum((a - b) ** 2 for a, b in zip(p, q, strict=True)) for p in exact for q in exact
            )
            assert Fraction(float(cloud.diameters(False)[0, 0])) ** 2 >= widest


def test_distances_of_near_points_are_sharp() -> None:
    """One coordinate: a square is rounded by its difference twice, and by itself."""
    rng, most = np.random.default_rng(6), Fraction(0)
    for _ in range(500):
        given = np.array([[[0.0], [near_one(rng, 1)[0]], [0.0]]])
        given[0, 2] = given[0, 1] * (1.0 + 2.0**-12 * near_one(rng, 1)[0])
        cloud = Cloud.of(given, "points")
        rows = np.array([[1]])
        squares = cloud.squares_from(rows, 3)
        cloud.separate(squares, rows, given)
        scaled = Fraction(2) ** (-2 * int(cloud.exponent[0]))
        truth = (Fraction(given[0, 2, 0]) - Fraction(given[0, 1, 0])) ** 2 * scaled
        found = Fraction(float(squares[0, 0, 2]))
        assert truth <= found <= truth * (1 + Fraction(12 * UNIT))
        most = max(most, found / truth - 1)
    assert most > Fraction(UNIT)


def test_gaps_are_off_by_no_more_than_they_say() -> None:
    rng, most = np.random.default_rng(7), 0.0
    for _ in range(500):
        q, k = near_one(rng, 1, 1), near_one(rng, 2, 1) * [[1.0], [0.5]]
        bias = near_one(rng, 1, 2) * 2.0**-9 if rng.random() < 0.5 else None
        found = stability_of(q, k, np.ones((2, 1)), scale=0.3, bias=bias)
        shift = Fraction(0)
        if bias is not None:
            shift = Fraction(bias[0, 0]) - Fraction(bias[0, 1])
        keys = Fraction(k[0, 0]) - Fraction(k[1, 0])
        truth = Fraction(q[0, 0]) * Fraction(0.3) * keys + shift
        off = abs(Fraction(float(found.gap[0])) - truth)
        assert off <= Fraction(float(found.gap_error[0]))
        assert Fraction(float(found.certain_gap[0])) <= truth
        most = max(most, float(off / Fraction(float(found.gap_error[0]))))
    assert most > 0.25


def test_scores_that_underflow_are_counted() -> None:
    q, k = np.array([[[1e-200]]]), np.array([[[1e-200]]])
    assert _stray(q, k, None, q, 1.0)[0, 0] >= TINY
    asked = np.array([[[1e-300]]])
    keys = np.array([[[1e150]]])
    assert _stray(asked * 1e-20, keys, None, asked, 1e-20)[0, 0] >= TINY * 1e150
    huge = np.array([[[1e300]]])
    with pytest.raises(ShapeError, match="too large for float64"):
        _stray(asked * 1e-20, huge, None, asked, 1e-20)
    assert _stray(np.zeros((1, 1, 1)), keys, None, np.zeros((1, 1, 1)), 1.0)[0, 0] == 0.0


def test_walls_are_never_beyond_the_truth() -> None:
    rng, least = np.random.default_rng(8), 1.0
    for _ in range(400):
        q, k = near_one(rng, 1, 1), near_one(rng, 2, 1) * [[1.0], [0.5]]
        found = stability_of(q, k, np.ones((2, 1)), scale=0.7)
        truth = Fraction(q[0, 0])  # the wall of two keys without biases goes through 0
        wall = Fraction(float(found.wall[0]))
        assert wall <= truth
        least = min(least, float(1 - wall / truth))
    assert least < 64 * UNIT
    assert _divided_down(np.array([math.inf]), 3.0)[0] == math.inf
    assert _divided_down(np.array([1.0]), 3.0)[0] < 1.0 / 3.0


def test_jacobians_from_weights_lie_above_the_weights() -> None:
    rng = np.random.default_rng(9)
    with precision(300):
        for _ in range(100):
            q, k = near_one(rng, 1, 1), near_one(rng, 2, 1) * [[1.0], [0.5]]
            v = np.array([[0.0], [1.0]])
            found = stability_of(q, k, v, temperature=0.125)
            lead = (ball(k[0, 0]) - ball(k[1, 0])) * ball(q[0, 0])
            r = (-8 * lead).exp()
            p = r / (1 + r)
            truth = 8 * p * (1 - p) * (ball(k[0, 0]) - ball(k[1, 0]))
            assert ball(float(found.jacobian_from_weights[0])) >= truth
            assert ball(float(found.jacobian_bound[0])) >= truth


def test_shares_of_whole_numbers_are_not_one_more() -> None:
    """0.9 of 10 numbers are 9, although the float 0.9 is above nine tenths."""
    assert at_most(np.arange(10.0), 0.9) == 8.0
    assert at_most(np.arange(10.0), 0.91) == 9.0
