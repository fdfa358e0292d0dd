"""Softmax against its hard skeleton: sharp bounds attained, walls, rounding, models, reports."""

from __future__ import annotations

import json
import math
import tracemalloc
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hardmax as hm
from hardmax.core import Hardmax, Head, Softmax, Transformer, trace
from hardmax.geometry.temperature import (
    Kind,
    PublishedExample,
    Stability,
    StabilityReport,
    _arrays,
    _cloud,
    _streams,
    distance_for_error,
    gradient_bound,
    hessian_bound,
    jacobian_bound,
    output_bound,
    spread_share,
    stability,
    stability_of,
    temperature_for_outputs,
    temperature_for_weights,
    value_bound,
    weight_bound,
)
from hardmax.numerics import FLOAT64
from hardmax.plots import stability_picture

# Bounds are inflated by some 40 roundings and by 4u for each unit of beta gap, which is below 100
# in every test here: 450 units of 2^-53 are 5e-14. What they are compared with has some more.
CLOSE = 1e-13
CASES = [(2, 0.7, 1.0), (3, 2.0, 4.0), (17, 0.05, 1.0), (512, 2.0, 8.0), (5, 0.0, 3.0)]


def softmax(scores: np.ndarray, coldness: float) -> np.ndarray:
    powers = [math.exp(coldness * (s - max(scores))) for s in scores]
    total = math.fsum(powers)
    return np.array([power / total for power in powers])


def at_gap(tokens: int, gap: float) -> np.ndarray:
    """The winner first, all losers at the gap."""
    return np.concatenate([[0.0], np.full(tokens - 1, -gap)])


# ---- lemmas ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("tokens", "gap", "coldness"), CASES)
def test_weights_gradient_and_value_are_attained_with_all_losers_at_the_gap(
    tokens: int, gap: float, coldness: float
) -> None:
    p = softmax(at_gap(tokens, gap), coldness)
    assert weight_bound(gap, tokens, coldness) == pytest.approx(math.fsum(p[1:]), rel=CLOSE)
    hard = np.eye(tokens)[0]
    distance = np.abs(p - hard).sum()
    assert gradient_bound(gap, tokens, coldness) == pytest.approx(distance, rel=1e-12)
    above = math.log1p((tokens - 1) * math.exp(-coldness * gap)) / coldness
    assert value_bound(gap, tokens, coldness) == pytest.approx(above, rel=CLOSE)
    direct = math.log(math.fsum(math.exp(coldness * s) for s in at_gap(tokens, gap))) / coldness
    # the bound allows for 4 ulp of exp and of log1p, and the sum here for its own rounding
    assert value_bound(gap, tokens, coldness) == pytest.approx(direct, rel=CLOSE, abs=1e-14)


def test_no_scores_break_the_bounds() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        tokens, coldness = int(rng.integers(2, 9)), float(rng.uniform(0.2, 5))
        scores = np.sort(rng.normal(size=tokens))[::-1]
        gap = scores[0] - scores[1]
        p = softmax(scores, coldness)
        assert math.fsum(p[1:]) <= weight_bound(gap, tokens, coldness)
        covariance = coldness * (np.diag(p) - np.outer(p, p))
        assert np.linalg.eigvalsh(covariance)[-1] <= hessian_bound(gap, tokens, coldness)


@pytest.mark.parametrize("tokens", [2, 3, 5, 9])
@pytest.mark.parametrize("gap", [0.0, 0.1, 0.8, 1.2, 1.7, 2.2, 6.0])
def test_the_hessian_bound_is_attained(tokens: int, gap: float) -> None:
    """With m losers at the gap and the rest far below, for the best m."""
    norms = []
    for losers in range(1, tokens):
        scores = np.concatenate([at_gap(losers + 1, gap), np.full(tokens - 1 - losers, -800.0)])
        p = softmax(scores, 1.0)
        norms.append(np.linalg.eigvalsh(np.diag(p) - np.outer(p, p))[-1])
    # eigvalsh of a matrix of norm 1/2 is off by some 10 units of 2^-53; the norms are above 1e-3
    assert hessian_bound(gap, tokens, 1.0) == pytest.approx(max(norms), rel=1e-12)
    assert hessian_bound(gap / 7.0, tokens, 7.0) == pytest.approx(7.0 * max(norms), rel=1e-12)


def test_the_best_number_of_losers_is_not_always_all() -> None:
    """At r = 1/5 the best m is 3: four more losers do not raise the norm."""
    gap = math.log(5.0)
    best = 4 * 0.2 / 1.6**2
    assert hessian_bound(gap, 4, 1.0) == pytest.approx(best, rel=CLOSE)
    assert hessian_bound(gap, 8, 1.0) == pytest.approx(best, rel=CLOSE)
    assert hessian_bound(gap, 3, 1.0) == pytest.approx(3 * 0.2 / 1.4**2, rel=CLOSE)


def test_losers_between_the_gap_and_far_below_give_smaller_hessians() -> None:
    """The step of the proof: as a function of one loser's power there is no maximum inside."""
    rng = np.random.default_rng(1)
    for _ in range(200):
        r, others = rng.uniform(0.05, 0.99), rng.uniform(0, 1, size=int(rng.integers(0, 5)))
        norms = []
        for w in np.linspace(0.0, r, 41):
            p = np.concatenate([[1.0, w], r * others])
            p /= p.sum()
            norms.append(np.linalg.eigvalsh(np.diag(p) - np.outer(p, p))[-1])
        assert max(norms) <= max(norms[0], norms[-1]) + 1e-14  # eigvalsh, as above


def test_the_published_hessian_bound_is_false() -> None:
    """(N-1) r beta at N = 2 is nearly half the truth; N r beta is sharp in the limit."""
    for gap in (2.0, 8.0, 30.0):
        r = math.exp(-gap)
        p = softmax(at_gap(2, gap), 1.0)
        true = 2.0 * p[0] * p[1]
        assert hessian_bound(gap, 2, 1.0) == pytest.approx(true, rel=CLOSE)
        assert true > r
        assert true <= 2.0 * r
    assert hessian_bound(30.0, 7, 1.0) == pytest.approx(7 * math.exp(-30.0), rel=1e-11)  # 1 - 12r


def test_example_vi_2_both_readings() -> None:
    example = PublishedExample()
    assert f"{example.published_hessian(1 / 8):.3e}" == "4.600e-04"
    assert f"{example.true_hessian(1 / 8):.3e}" == "4.609e-04"
    assert example.published_hessian(8.0) > 700 * 0.5 / 8.0  # what holds without any gap
    assert example.weights(8.0) > 0.99
    text = str(example)
    assert "4.600e-04" in text
    assert "4.609e-04" in text
    assert "4.975e+01" in text


@pytest.mark.parametrize(("tokens", "gap", "coldness"), CASES)
def test_outputs_are_attained(tokens: int, gap: float, coldness: float) -> None:
    """Losers with one key and one value, through the arrays: the bound is the actual distance."""
    keys = np.tile([[0.0, 1.0]], (tokens, 1))
    keys[0] = [1.0, 1.0]
    values = np.tile([[3.0, 4.0]], (tokens, 1))
    values[0] = 0.0
    found = stability_of([[gap, 2.0]], keys, values, temperature=1.0 / coldness)
    eps = weight_bound(gap, tokens, coldness)
    assert found.winner.tolist() == [0]
    assert found.value_radius[0] == pytest.approx(5.0, rel=CLOSE)
    assert found.output_bound[0] == pytest.approx(found.output_actual[0], rel=1e-12)
    assert found.output_bound[0] == pytest.approx(5.0 * eps, rel=1e-12)
    assert output_bound(gap, tokens, coldness, 5.0) == pytest.approx(5.0 * eps, rel=CLOSE)


def test_outputs_count_the_distance_to_the_winner_not_the_diameter() -> None:
    """The winner's value in the middle: the radius is half the diameter."""
    found = stability_of([[1.0]], [[2.0], [0.0], [0.0]], [[0.0], [1.0], [-1.0]])
    assert found.value_diameter[0] == pytest.approx(2.0, rel=CLOSE)
    assert found.output_bound[0] == pytest.approx(weight_bound(2.0, 3, 1.0), rel=CLOSE)


def covariance_norm(p: np.ndarray, values: np.ndarray, keys: np.ndarray) -> float:
    v, k = values - p @ values, keys - p @ keys
    return float(np.linalg.norm((v * p[:, None]).T @ k, 2))


@pytest.mark.parametrize(("tokens", "gap", "coldness"), CASES)
def test_the_jacobian_is_attained_with_one_losing_place(
    tokens: int, gap: float, coldness: float
) -> None:
    """e(1-e) diam V diam K where e <= 1/2; beyond, with losers that share half, a quarter."""
    lowered = max(gap, math.log(max(tokens - 1, 1)) / coldness)
    p = softmax(at_gap(tokens, lowered), coldness)
    keys = np.tile([[0.0, 1.0, 0.0]], (tokens, 1))
    keys[0] = [2.0, 1.0, 0.0]
    values = np.tile([[1.0, 0.0]], (tokens, 1))
    values[0] = [1.0, 3.0]
    truth = coldness * 1.5 * covariance_norm(p, values, keys)
    e = weight_bound(gap, tokens, coldness)
    found = jacobian_bound(e, coldness, values=(3.0, 3.0), keys=(2.0, 2.0), scale=1.5)
    assert found == pytest.approx(truth, rel=1e-12)
    assert (
        found == pytest.approx(coldness * 1.5 * 6.0 * min(e * (1 - e), 0.25), rel=1e-12) or e > 0.5
    )


def test_the_jacobian_is_attained_with_losers_on_both_sides() -> None:
    """e radius V radius K: the winner in the middle, half of e on either side."""
    for gap in (0.5, 3.0, 10.0):
        p = softmax(np.array([0.0, -gap, -gap]), 1.0)
        line = np.array([[0.0], [1.0], [-1.0]])
        truth = covariance_norm(p, 2.0 * line, 3.0 * line)
        e = weight_bound(gap, 3, 1.0)
        found = jacobian_bound(e, 1.0, values=(2.0, 4.0), keys=(3.0, 6.0))
        assert found == pytest.approx(min(e, 4 * spread_share(e)) * 6.0, rel=1e-12)
        if e <= 0.75:  # e <= 4 e(1-e): the radius is the better one
            assert found == pytest.approx(truth, rel=1e-12)


def test_the_jacobian_is_the_covariance_and_below_its_bounds() -> None:
    rng = np.random.default_rng(2)
    for _ in range(40):
        tokens, scale, tau = int(rng.integers(2, 7)), 0.5, float(rng.uniform(0.1, 3))
        q, k, v = rng.normal(size=3), rng.normal(size=(tokens, 3)), rng.normal(size=(tokens, 2))

        def output(
            query: np.ndarray, k: Any = k, v: Any = v, beta: float = scale / tau
        ) -> np.ndarray:
            return softmax(k @ query, beta) @ v

        p = softmax(scale * k @ q, 1.0 / tau)
        norm = scale / tau * covariance_norm(p, v, k)
        h = 1e-5  # central differences: h^2 from the third derivative, 1e-16/h from rounding
        slopes = [(output(q + h * e) - output(q - h * e)) / (2 * h) for e in np.eye(3)]
        assert np.linalg.norm(slopes, 2) == pytest.approx(norm, rel=1e-6, abs=1e-9)
        found = stability_of(q[None], k, v, scale=scale, temperature=tau)
        assert norm <= found.jacobian_from_weights[0] <= found.jacobian_bound[0]


def test_the_largest_spread_with_a_heavy_point() -> None:
    """Two ends carry the largest variance: found by search over three-point distributions."""
    grid = np.linspace(0.0, 1.0, 21)
    for e in (0.1, 0.3, 0.5, 0.8):
        x, a, b, s = np.meshgrid(grid, grid, grid, grid, indexing="ij")
        weights = np.stack([np.full_like(x, 1 - e), e * s, e * (1 - s)])
        points = np.stack([x, a, b])
        mean = (weights * points).sum(axis=0)
        largest = (weights * (points - mean) ** 2).sum(axis=0).max()
        assert largest <= spread_share(e) + 1e-15  # some roundings of numbers up to 1
        if e <= 0.5:
            assert largest == pytest.approx(float(spread_share(e)), abs=1e-15)
    assert spread_share(0.8) == 0.25


# ---- temperatures ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tolerance", "gap", "tokens"), [(0.01, 2.0, 2), (1e-6, 0.3, 1024), (0.3, 1.0, 3)]
)
def test_temperatures_invert_the_guarantees(tolerance: float, gap: float, tokens: int) -> None:
    found = float(temperature_for_weights(tolerance, gap, tokens))
    exact = gap / math.log((tokens - 1) * (1 - tolerance) / tolerance)
    assert found == pytest.approx(exact, rel=CLOSE)
    assert weight_bound(gap, tokens, 1 / found) == pytest.approx(tolerance, rel=1e-12)
    assert weight_bound(gap, tokens, 1 / (1.001 * found)) > tolerance
    warm = float(temperature_for_outputs(5.0 * tolerance, gap, tokens, 5.0))
    assert warm == pytest.approx(found, rel=CLOSE)
    assert output_bound(gap, tokens, 1 / warm, 5.0) == pytest.approx(5 * tolerance, rel=1e-12)


def test_temperatures_at_the_edges() -> None:
    assert temperature_for_weights(0.01, 0.0, 2) == 0.0  # a tie: none will do
    assert temperature_for_weights(0.01, -1e-9, 2) == 0.0
    assert temperature_for_weights(0.7, 0.0, 3) == math.inf  # uniform weights keep 2/3
    assert temperature_for_weights(0.01, math.inf, 1) == math.inf  # alone
    assert temperature_for_outputs(1.0, 0.0, 9, 1.0) == math.inf  # no value is farther
    assert temperature_for_outputs(1.0, 0.0, 9, 2.0) == 0.0


def test_the_distance_from_a_wall_is_attained() -> None:
    """Losers of one key and one value: at that distance the error is exactly the one asked."""
    error, tokens, temperature = 0.02, 6, 0.3
    keys = np.tile([[0.0, 0.0]], (tokens, 1))
    keys[0] = [3.0, 4.0]
    values = np.tile([[0.0]], (tokens, 1))
    values[0] = 2.0
    given = {"diameter": 2.0, "tokens": tokens, "temperature": temperature, "separation": 5.0}
    distance = distance_for_error(error, **given)
    assert distance == pytest.approx(0.3 * math.log(5 * (2.0 / error - 1)) / 5.0, rel=CLOSE)
    query = distance * np.array([[0.6, 0.8]])  # the wall passes through 0
    found = stability_of(query, keys, values, temperature=temperature)
    assert found.wall[0] == pytest.approx(distance, rel=1e-12)
    assert found.output_actual[0] == pytest.approx(error, rel=1e-12)
    assert distance_for_error(2.0, **given) == 0.0
    with pytest.raises(hm.RequestError, match="error must be a finite number > 0"):
        distance_for_error(0.0, **given)


# ---- walls -------------------------------------------------------------------------------------


def exact_wall(query: list[Fraction], keys: list[list[Fraction]], scores: list[Fraction]) -> float:
    winner = scores.index(max(scores))
    squares = []
    for j, key in enumerate(keys):
        apart = sum((a - b) ** 2 for a, b in zip(key, keys[winner], strict=True))
        if apart:
            squares.append((scores[winner] - scores[j]) ** 2 / apart)
    return math.sqrt(min(squares)) if squares else math.inf


@pytest.mark.parametrize("width", [1, 2, 5])
def test_walls_agree_with_rationals(width: int) -> None:
    rng = np.random.default_rng(width)
    q, k = rng.normal(size=(20, width)), rng.normal(size=(12, width))
    k[7] = k[3]
    bias = rng.normal(size=12)
    found = stability_of(q, k, k, bias=bias)
    keys = [[Fraction(x) for x in row] for row in k]
    for number, row in enumerate(q):
        query = [Fraction(x) for x in row]
        scores = [
            sum(a * b for a, b in zip(query, key, strict=True)) + Fraction(s)
            for key, s in zip(keys, bias, strict=True)
        ]
        exact = exact_wall(query, keys, scores)
        assert found.wall[number] <= exact
        assert found.wall[number] == pytest.approx(exact, rel=1e-10)  # 2^13 gamma, and the error


def test_the_nearest_wall_is_a_true_one() -> None:
    """Within the distance nobody else wins; at the foot on the wall the neighbour ties."""
    rng = np.random.default_rng(3)
    k, q = rng.normal(size=(9, 3)), rng.normal(size=(50, 3))
    found = stability_of(q, k, k, scale=0.5)
    for number, row in enumerate(q):
        i, j, t = found.winner[number], found.neighbour[number], found.wall[number]
        step = (k[j] - k[i]) / np.linalg.norm(k[j] - k[i])
        foot = k @ (row + t * step)
        assert foot[i] == pytest.approx(foot.max(), abs=1e-12)
        assert foot[j] == pytest.approx(foot[i], abs=1e-12)
        directions = rng.normal(size=(200, 3))
        directions *= 0.999 * t / np.linalg.norm(directions, axis=1, keepdims=True)
        assert ((row + directions) @ k.T).argmax(axis=1).tolist() == [i] * 200
        assert np.argmax(k @ (row + 1.001 * t * step)) == j


def test_walls_do_not_depend_on_the_scale_but_gaps_do() -> None:
    rng = np.random.default_rng(4)
    q, k = rng.normal(size=(8, 4)), rng.normal(size=(6, 4))
    one, half = stability_of(q, k, k), stability_of(q, k, k, scale=0.5)
    np.testing.assert_allclose(one.wall, half.wall, rtol=1e-12)
    np.testing.assert_array_equal(half.gap, one.gap / 2)  # a power of two is exact


def test_repeated_and_nearly_repeated_keys() -> None:
    """A repeated key has no wall of its own; one that is 1e-9 away has, and it is sharp."""
    k = np.array([[1.0, 2.0], [1.0, 2.0], [0.0, 0.0]])
    found = stability_of([[1.0, 1.0]], k, k)
    assert (found.gap[0], found.winner[0], found.neighbour[0]) == (0.0, 0, 2)
    assert found.wall[0] == pytest.approx(3.0 / math.sqrt(5.0), rel=1e-12)
    alone = stability_of([[1.0, 1.0]], k[:2], k[:2])
    assert (alone.wall[0], alone.neighbour[0]) == (math.inf, -1)
    near = np.array([[1.0, 0.0], [1.0 - 2.0**-30, 0.0], [-100.0, 7.0]])
    found = stability_of([[0.5, -10.0]], near, near)
    assert found.neighbour.tolist() == [1]
    # twice gamma_10 |q||k| = 1e-15 * 1000 is taken off the lead of 2^-31
    assert found.wall[0] == pytest.approx(0.5, rel=1e-2)
    assert found.wall[0] <= 0.5


# ---- arrays ------------------------------------------------------------------------------------


def plainly(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    seen: np.ndarray,
    bias: np.ndarray,
    scale: float,
    coldness: float,
) -> dict[str, float]:
    """One query by the definitions."""
    places = np.flatnonzero(seen)
    scores = scale * (k[places] @ q) + bias[places]
    order = np.argsort(-scores, kind="stable")
    i = places[order[0]]
    p = softmax(scores, coldness)
    own = {"key": k[places], "value": v[places]}
    found = {
        "winner": i,
        "visible": len(places),
        "gap": scores[order[0]] - scores[order[1]] if len(places) > 1 else np.inf,
        "weight_actual": math.fsum(np.delete(p, order[0])),
        "output_actual": np.linalg.norm(p @ v[places] - v[i]),
        "from_uniform": np.abs(p - 1 / len(places)).sum() / 2,
    }
    for name, points in own.items():
        apart = np.linalg.norm(points[:, None] - points[None], axis=2)
        found[f"{name}_radius"] = apart[order[0]].max()
        found[f"{name}_diameter"] = apart.max()
    return found


def check_against_definitions(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: Any, bias: Any, irregular: bool
) -> None:
    scale, temperature = 0.7, 0.4
    found = stability_of(q, k, v, mask, scale, temperature, bias=bias)
    grid = (*q.shape[:-1], k.shape[-2])
    seen = np.tri(grid[-1], dtype=bool) if isinstance(mask, str) else mask
    seen = np.broadcast_to(True if seen is None else seen, grid)
    added = np.broadcast_to(0.0 if bias is None else bias, grid)
    for place in np.ndindex(*q.shape[:-1]):
        visible = seen[place] & (added[place] > -np.inf)
        lead = place[:-1]
        wanted = plainly(q[place], k[lead], v[lead], visible, added[place], scale, 1 / temperature)
        for name, number in wanted.items():
            ours = getattr(found, name)[place]
            if irregular and name.endswith("diameter"):
                assert (
                    number * (1 - 1e-12)
                    <= ours
                    <= 2 * wanted[name.replace("diameter", "radius")] + 1e-9
                )
            else:
                assert ours == pytest.approx(number, rel=1e-11, abs=1e-13), name
    assert (found.weight_actual <= found.weight_bound).all()
    assert (found.output_actual <= found.output_bound * (1 + 1e-12)).all()
    assert (found.certain_gap <= found.gap).all()


@pytest.mark.parametrize("cells", [1, 40, 2**17])
def test_arrays_agree_with_the_definitions_however_they_are_cut(
    cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_arrays, "_CELLS", cells)
    monkeypatch.setattr(_cloud, "_CELLS", cells)
    rng = np.random.default_rng(5)
    q, k = rng.normal(size=(2, 2, 3, 7, 4))
    v = rng.normal(size=(2, 3, 7, 2))
    bias = rng.normal(size=(3, 7, 7))
    hiding = np.where(rng.random((3, 7, 7)) < 0.3, -np.inf, bias)
    hiding[..., 0] = 0.0
    mask = rng.random((2, 1, 7, 7)) < 0.6
    mask[..., 2] = True
    row = np.array([True, False, True, True, True, False, True])
    check_against_definitions(q, k, v, None, None, irregular=False)
    check_against_definitions(q, k, v, "causal", bias, irregular=False)
    check_against_definitions(q, k, v, mask, None, irregular=True)
    check_against_definitions(q, k, v, None, hiding, irregular=True)
    check_against_definitions(q, k, v, row, bias, irregular=True)
    check_against_definitions(q[..., :5, :], k, v, None, bias[:, :5], irregular=False)


def test_a_causal_mask_is_recognised_and_shared_keys_are_broadcast() -> None:
    rng = np.random.default_rng(6)
    q, k, v = rng.normal(size=(4, 5, 3)), rng.normal(size=(1, 5, 3)), rng.normal(size=(1, 5, 2))
    named = stability_of(q, k, v, mask="causal")
    typed = stability_of(q, k, v, mask=np.tri(5, dtype=bool)[None])
    wide = stability_of(q, np.repeat(k, 4, axis=0), np.repeat(v, 4, axis=0), mask="causal")
    for name in ("winner", "gap", "wall", "value_diameter", "weight_actual"):
        np.testing.assert_array_equal(getattr(named, name), getattr(typed, name))
        np.testing.assert_array_equal(getattr(named, name), getattr(wide, name))
    assert named.shape == (4, 5)
    assert stability_of(q[0], k[0], v[0]).shape == (5,)


def test_one_temperature_per_head() -> None:
    rng = np.random.default_rng(7)
    q, k, v = rng.normal(size=(3, 2, 3, 4, 2))
    both = stability_of(q, k, v, temperature=[1.0, 0.5, 0.1])
    alone = stability_of(q[:, 2], k[:, 2], v[:, 2], temperature=0.1)
    np.testing.assert_array_equal(both.weight_actual[:, 2], alone.weight_actual)
    np.testing.assert_allclose(both.temperature[0, :, 0], [1.0, 0.5, 0.1], rtol=1e-15)


def test_one_visible_key_leaves_nothing_to_guarantee() -> None:
    rng = np.random.default_rng(8)
    q, k, v = rng.normal(size=(3, 3, 4))
    found = stability_of(q, k, v, mask="causal")
    assert found.gap[0] == math.inf
    names = ("weight_bound", "output_bound", "jacobian_bound", "weight_actual", "output_actual")
    assert [getattr(found, name)[0] for name in names] == [0.0] * 5
    assert found.temperature_needed()[0] == found.wall[0] == math.inf
    assert not found.tied[0]


def test_a_tie_has_no_hard_limit() -> None:
    """The first maximiser wins; the bound is (N-1)/N, attained, at every temperature."""
    k = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    for temperature in (1.0, 1e-6):
        found = stability_of([[2.0, 5.0]], k, np.eye(4), temperature=temperature)
        assert (found.winner[0], found.gap[0], found.tied[0]) == (0, 0.0, True)
        assert found.weight_bound[0] == pytest.approx(0.75, rel=CLOSE)
        assert found.weight_actual[0] == 0.75
        assert found.temperature_needed(0.1)[0] == 0.0
        assert found.critical_coldness(0.1) == math.inf


def test_padding_does_not_disturb() -> None:
    """Hidden keys may hold anything: the seen ones are measured as if they were alone."""
    rng = np.random.default_rng(9)
    q, k, v = rng.normal(size=(3, 6, 4))
    k[[0, 5]], v[[0, 5]] = 1e150, -1e150
    mask = np.array([False, True, True, True, True, False])
    found, alone = stability_of(q, k, v, mask), stability_of(q, k[1:5], v[1:5])
    np.testing.assert_array_equal(found.winner, alone.winner + 1)
    for name in ("gap", "wall", "value_radius", "output_actual", "jacobian_bound"):
        np.testing.assert_allclose(getattr(found, name), getattr(alone, name), rtol=1e-12)


def test_memory_is_bounded() -> None:
    """4,096 tokens: one table of scores would be 134 MB."""
    rng = np.random.default_rng(10)
    q, k, v = rng.normal(size=(3, 1, 4096, 4))
    tracemalloc.start()
    stability_of(q, k, v)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6


# ---- rounding ----------------------------------------------------------------------------------


def cancelling(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores of size 1e16 that cancel, values far from 0, keys nearly equal."""
    q = rng.normal(size=(6, 5)) * 10.0 ** rng.integers(-3, 9, size=(6, 5))
    k = rng.normal(size=5) * 1e8 + rng.normal(size=(7, 5)) * 10.0 ** rng.integers(-7, 1)
    v = 1e9 + rng.normal(size=(7, 3)) * 10.0 ** rng.integers(-6, 3)
    return q, k, v


def exact_leads(query: np.ndarray, keys: np.ndarray, winner: int) -> list[Fraction]:
    exact = [
        sum(Fraction(a) * Fraction(b) for a, b in zip(query, key, strict=True)) for key in keys
    ]
    return [exact[winner] - s for j, s in enumerate(exact) if j != winner]


def test_no_guarantee_is_broken_by_rounding() -> None:
    """Against rationals, and exponentials with proved digits."""
    import flint

    rng = np.random.default_rng(11)
    uncertain = 0
    for _ in range(25):
        q, k, v = cancelling(rng)
        found = stability_of(q, k, v, temperature=1e6)
        for number, query in enumerate(q):
            i = int(found.winner[number])
            leads = exact_leads(query, k, i)
            assert min(leads) >= Fraction(found.certain_gap[number])
            uncertain += bool(found.tied[number])
            with flint.ctx.workprec(200):
                beta = flint.arb(flint.fmpq(1, 10**6))
                powers = [(-beta * flint.arb(_fmpq(lead))).exp() for lead in leads]
                others = sum(powers, flint.arb(0))
                bound = flint.arb(_fmpq(Fraction(found.weight_bound[number])))
                assert others / (1 + others) <= bound
            squares = [
                sum((Fraction(a) - Fraction(b)) ** 2 for a, b in zip(row, v[i], strict=True))
                for row in v
            ]
            assert max(squares) <= Fraction(found.value_radius[number]) ** 2
            assert float(max(squares)) == pytest.approx(found.value_radius[number] ** 2, rel=1e-12)
    assert uncertain > 0  # else the scores were too easy


def _fmpq(number: Fraction) -> Any:
    import flint

    return flint.fmpq(number.numerator, number.denominator)


def exact_square(a: np.ndarray, b: np.ndarray) -> Fraction:
    return sum((Fraction(x) - Fraction(y)) ** 2 for x, y in zip(a, b, strict=True))


def test_radius_and_diameter_are_never_below_the_truth() -> None:
    """A thousand equal coordinates: the roundings of a long sum all go one way."""
    for number in range(30):
        v = np.zeros((3, 1000))
        v[1], v[2] = 0.1 + 0.013 * number, -0.07 * number
        found = stability_of(np.ones((1, 1)), np.ones((3, 1)), v)
        squares = [[exact_square(a, b) for a in v] for b in v]
        widest = max(map(max, squares))
        assert Fraction(found.value_radius[0]) ** 2 >= max(squares[0])
        assert Fraction(found.value_diameter[0]) ** 2 >= widest
        # 16 gamma_1012 is 1.8e-12
        assert found.value_diameter[0] == pytest.approx(math.sqrt(widest), rel=1.8e-12)


def test_walls_are_never_beyond_the_truth() -> None:
    """Where scores cancel, the rounding of each lead is taken off."""
    rng = np.random.default_rng(21)
    reached = 0
    for _ in range(40):
        q, k, v = cancelling(rng)
        found = stability_of(q, k, v)
        for number, query in enumerate(q):
            i = int(found.winner[number])
            others = [j for j in range(len(k)) if j != i]
            leads = exact_leads(query, k, i)
            for j, lead in zip(others, leads, strict=True):
                exact = max(lead, Fraction(0)) ** 2
                assert Fraction(found.wall[number]) ** 2 * exact_square(k[i], k[j]) <= exact
            reached += found.wall[number] > 0.0
    assert reached > 0


def test_a_near_tie_is_told() -> None:
    """Two scores whose float difference has the wrong sign."""
    q = np.array([[1e16, 1.0, -1e16, 3.0]])
    k = np.array([[1.0, 1.0, 1.0, 0.25], [1.0, 0.5, 1.0, 0.5]])
    found = stability_of(q, k, k)
    assert exact_leads(q[0], k, 1) == [Fraction(1, 4)]
    assert found.tied[0]
    assert found.weight_bound[0] >= 0.5
    assert min(exact_leads(q[0], k, int(found.winner[0]))) >= found.certain_gap[0]


def test_tiny_and_large_numbers_are_scaled() -> None:
    """Squares of 1e-200 underflow and of 1e200 overflow: lengths do not."""
    points = np.array([[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]])
    for size in (1e-200, 1e200):
        found = stability_of([[1.0, 0.0]], np.eye(3)[:, :2], size * points, temperature=0.5)
        assert found.value_radius[0] == pytest.approx(5.0 * size, rel=1e-12)
        assert found.value_diameter[0] == pytest.approx(5.0 * size, rel=1e-12)
        assert found.output_actual[0] <= found.output_bound[0] * (1 + 1e-12)
        assert found.output_actual[0] > 0.0
    tiny = stability_of([[1e-200, 0.0]], 1e-200 * np.eye(2), points[:2])
    assert tiny.tied.all()  # the gap of 1e-400 is no float


def test_a_guarantee_never_underflows_to_nothing() -> None:
    found = stability_of([[1.0]], [[1e4], [0.0]], [[0.0], [1.0]])
    assert found.weight_actual[0] == 0.0
    assert 0.0 < found.weight_bound[0] <= 2.0 * FLOAT64.vanished  # exp may be 0 from there on


# ---- refusals ----------------------------------------------------------------------------------

GOOD = np.ones((2, 3, 4))


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        ({"k": np.ones((2, 3, 5))}, hm.ShapeError, "Queries and keys need one width, but q has"),
        ({"v": np.ones((2, 4, 4))}, hm.ShapeError, "Every key needs one value"),
        ({"k": np.ones((3, 3, 4))}, hm.ShapeError, "in front do not fit together"),
        (
            {"q": np.full((2, 3, 4), np.nan)},
            hm.ShapeError,
            r"q must be finite, but entry \(0, 0, 0\)",
        ),
        ({"q": [[1.0], [1.0, 2.0]]}, hm.ShapeError, "q must be a rectangular array"),
        ({"q": np.ones(4)}, hm.ShapeError, r"q must have shape \(tokens, width\)"),
        ({"k": np.ones((2, 0, 4)), "v": np.ones((2, 0, 4))}, hm.ShapeError, "k is empty"),
        ({"mask": np.tri(3, k=-1, dtype=bool)}, hm.ShapeError, r"The query at \(0,\) sees no key"),
        ({"mask": np.tri(3)}, hm.ShapeError, "mask must hold booleans"),
        ({"mask": np.ones((3, 2), dtype=bool)}, hm.ShapeError, r"mask must fit into \(2, 3, 3\)"),
        ({"mask": "future"}, hm.ShapeError, 'The mask is None, "causal"'),
        ({"mask": "causal", "q": np.ones((2, 2, 4))}, hm.ShapeError, "for 2 queries and 3 keys"),
        (
            {"bias": np.full((3, 3), np.nan)},
            hm.ShapeError,
            "bias must hold finite numbers, or -inf",
        ),
        ({"bias": np.full((3, 3), -np.inf)}, hm.ShapeError, "Query 0 of head 0 sees no key"),
        ({"bias": [[0.0], [0.0], [-np.inf]]}, hm.ShapeError, "Query 2 of head 0 sees no key"),
        (
            {"temperature": 0.0},
            hm.RequestError,
            "temperature must be a finite number > 0, but it is 0",
        ),
        ({"temperature": -1.0}, hm.RequestError, "but it is -1"),
        ({"temperature": np.nan}, hm.RequestError, "but it is nan"),
        ({"temperature": [1.0, 2.0, 3.0]}, hm.ShapeError, "One temperature for all"),
        ({"temperature": "warm"}, hm.RequestError, "temperature must be a number"),
        ({"temperature": 1e-320}, hm.RequestError, "too small for float64"),
        ({"scale": 0.0}, hm.RequestError, "scale must be a finite number > 0"),
        ({"q": 1e200 * GOOD, "k": 1e200 * GOOD}, hm.ShapeError, "scores are too large"),
        (
            {"v": 1.7e308 * np.array([[1.0], [-1.0], [1.0]])},
            hm.ShapeError,
            "values are too far apart",
        ),
    ],
)
def test_refusals(change: dict[str, Any], error: type, sentence: str) -> None:
    given: dict[str, Any] = {"q": GOOD, "k": GOOD, "v": GOOD}
    with pytest.raises(error, match=sentence):
        stability_of(**(given | change))


def test_refusals_of_tolerances_errors_and_shares() -> None:
    found = stability_of(GOOD, GOOD, GOOD)
    with pytest.raises(hm.RequestError, match=r"between 0 and 1, but it is 1\.5"):
        found.report(1.5)
    with pytest.raises(hm.RequestError, match="error must be a finite number > 0"):
        found.critical_coldness(0.0)
    with pytest.raises(hm.RequestError, match="share lies above 0"):
        found.critical_coldness(0.1, share=0.0)
    with pytest.raises(hm.ShapeError, match="gap must have shape"):
        Stability(**{n: getattr(found, n) for n in found.__dataclass_fields__} | {"gap": [1.0]})
    with pytest.raises(hm.ShapeError, match="at least one head"):
        StabilityReport(())


# ---- models ------------------------------------------------------------------------------------


def small_model(weighting: Any, *, causal: bool = False, bias: Any = None) -> Transformer:
    rng = np.random.default_rng(12)
    width, tokens = 4, 3

    def head() -> Head:
        query, key = rng.normal(size=(2, 2, width))
        value, output = rng.normal(size=(2, width)), rng.normal(size=(width, 2))
        return Head(query, key, value, output, weighting, causal, bias)

    hidden = rng.normal(size=(5, width)), rng.normal(size=5)
    outer = rng.normal(size=(width, 5)), rng.normal(size=width)
    layers = [hm.Attention([head(), head()]), hm.FeedForward(*hidden, *outer)]
    layers.append(hm.Attention([head()]))
    source = hm.VectorInput(rng.normal(size=(tokens, width, 2)), rng.normal(size=(tokens, width)))
    return Transformer(source, layers, hm.ReadOut(rng.normal(size=(1, width)), np.zeros(1)))


@pytest.mark.parametrize("weighting", [Softmax(0.3), Hardmax()])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_models_see_their_own_stream(weighting: Any, causal: bool, biased: bool) -> None:
    """Every head agrees with bare arrays made from the reference evaluator's streams."""
    bias = np.arange(9.0).reshape(3, 3) / 7 if biased else None
    model = small_model(weighting, causal=causal, bias=bias)
    points = np.random.default_rng(13).normal(size=(5, 2))
    report = stability(model, points, temperature=0.5)
    assert [(head.sublayer, head.head) for head in report.heads] == [(0, 0), (0, 1), (2, 0)]
    for head in report.heads:
        layer = model.sublayers[head.sublayer]
        assert isinstance(layer, hm.Attention)
        own = layer.heads[head.head]
        for number, point in enumerate(points):
            stream = np.array(trace(model, point).streams[head.sublayer])
            q, k = stream @ own.query.T, stream @ own.key.T
            v = stream @ (own.output @ own.value).T
            mask = "causal" if causal else None
            alone = stability_of(q, k, v, mask, temperature=0.5, bias=bias)
            rows = head.inputs == number
            assert head.tokens[rows].tolist() == [0, 1, 2]
            for name in (
                "winner",
                "gap",
                "wall",
                "output_bound",
                "output_actual",
                "jacobian_bound",
            ):
                # streams of size 100 in another order of summation
                ours, theirs = getattr(head.table, name)[rows], getattr(alone, name)
                np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-10, err_msg=name)


def test_streams_agree_with_the_reference() -> None:
    for weighting in (Softmax(2.0), Hardmax()):
        model = small_model(weighting, causal=True)
        points = np.random.default_rng(14).normal(size=(4, 2))
        ((_, first),) = _streams.embedded_chunks(model, points)
        for sublayer, stream in _streams.seen_by(model, first):
            for number, point in enumerate(points):
                wanted = trace(model, point).streams[sublayer]
                np.testing.assert_allclose(stream[number], wanted, rtol=1e-10, atol=1e-10)


def test_many_inputs_are_cut_into_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_model(Softmax(1.0))
    points = np.random.default_rng(15).normal(size=(9, 2))
    whole = stability(model, points)
    monkeypatch.setattr(_streams, "_NUMBERS", 60)
    cut = stability(model, points)
    for one, other in zip(whole.heads, cut.heads, strict=True):
        np.testing.assert_array_equal(one.inputs, other.inputs)
        np.testing.assert_allclose(one.table.gap, other.table.gap, rtol=1e-10)


def test_a_hard_head_tells_the_temperature_it_could_have() -> None:
    model = small_model(Hardmax())
    report = stability(model, [[0.3, -0.2]])
    for head in report.heads:
        table = head.table
        assert (table.temperature == 0.0).all()
        assert (table.weight_bound == 0.0).all()
        assert (table.jacobian_bound == 0.0).all()
        assert (table.output_actual == 0.0).all()
        needed = table.temperature_needed(0.01)
        assert (needed > 0).all()
        bounds = weight_bound(table.certain_gap, table.visible, 1 / needed)
        np.testing.assert_allclose(bounds, 0.01, rtol=1e-12)
    warmer = stability(model, [[0.3, -0.2]], temperature=1.0)
    np.testing.assert_array_equal(warmer.heads[2].table.gap, report.heads[2].table.gap)
    assert (warmer.heads[2].table.weight_actual > 0).all()


def test_a_hard_tie_shares_and_is_not_guaranteed() -> None:
    flat = Head(np.zeros((0, 1)), np.zeros((0, 1)), np.eye(1), np.eye(1), Hardmax())
    source = hm.VectorInput(np.zeros((3, 1, 1)), np.array([[0.0], [3.0], [6.0]]))
    model = Transformer(source, [hm.Attention([flat])], hm.ReadOut(np.eye(1), np.zeros(1)))
    (head,) = stability(model, [[1.0]]).heads
    np.testing.assert_allclose(head.table.weight_actual, 2 / 3, rtol=1e-15)
    np.testing.assert_allclose(head.table.weight_bound, 2 / 3, rtol=CLOSE)
    np.testing.assert_allclose(head.table.output_actual, 3.0, rtol=1e-15)
    assert (head.table.jacobian_bound == 0.0).all()  # keys of width 0 have no derivative
    assert head.kind() is Kind.UNIFORM


def test_words_of_different_lengths() -> None:
    model = hm.compile(hm.programs.reverse, alphabet="abc", length=4)
    report = stability(model, ["abca", "b", "ca"])
    alone = stability(model, "ca")
    first = int(model.transformer.input.start is not None)
    for head, single in zip(report.heads, alone.heads, strict=True):
        lengths = [4 + first, 1 + first, 2 + first]
        assert head.inputs.tolist() == np.repeat([0, 1, 2], lengths).tolist()
        assert head.tokens.tolist() == [t for length in lengths for t in range(length)]
        rows = head.inputs == 2
        np.testing.assert_array_equal(head.table.winner[rows], single.table.winner)
        np.testing.assert_allclose(head.table.gap[rows], single.table.gap, rtol=1e-9)
        assert head.step
    looking = report.heads[-1].table
    assert looking.winner.max() > 0


@pytest.mark.parametrize(
    ("inputs", "error", "sentence"),
    [
        ([[1.0, 2.0, 3.0]], hm.ShapeError, r"rows of 2 numbers, but their shape is \(1, 3\)"),
        ([[np.nan, 1.0]], hm.ShapeError, "must be finite"),
        ("ab", hm.ShapeError, "rows of real numbers"),
        (np.zeros((0, 2)), hm.ShapeError, "rows of 2 numbers"),
    ],
)
def test_refusals_of_points(inputs: Any, error: type, sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        stability(small_model(Hardmax()), inputs)


def test_refusals_of_models_and_words() -> None:
    model = hm.compile(hm.programs.reverse, alphabet="abc", length=4)
    with pytest.raises(hm.RequestError, match="at most 4 symbols"):
        stability(model, "abcab")
    with pytest.raises(hm.RequestError, match="'z' at place 1 is not in the alphabet"):
        stability(model, ["az"])
    with pytest.raises(hm.ShapeError, match="sequence of symbols"):
        stability(model, 3.0)
    with pytest.raises(hm.RequestError, match="takes a Construction or a Transformer, but got str"):
        stability("model", "ab")
    with pytest.raises(hm.RequestError, match="temperature must be a finite number > 0"):
        stability(model, "ab", temperature=0.0)
    with pytest.raises(hm.RequestError, match="between 0 and 1"):
        stability(model, "ab", tolerance=0.0)
    bare = small_model(Hardmax())
    headless = Transformer(bare.input, [bare.sublayers[1]], bare.readout)
    with pytest.raises(hm.RequestError, match="no attention heads"):
        stability(headless, [[0.0, 0.0]])


# ---- reports -----------------------------------------------------------------------------------


def three_kinds() -> Stability:
    """A head that is uniform, one that is soft and one that is hard."""
    rng = np.random.default_rng(16)
    q, k, v = rng.normal(size=(3, 3, 40, 8))
    return stability_of(q * np.array([1e-4, 1.0, 1e4])[:, None, None], k, v, mask="causal")


def test_heads_are_hard_soft_or_uniform_by_their_definitions() -> None:
    found = three_kinds()
    report = found.report(0.02)
    assert report.kinds() == {"0": "uniform", "1": "soft", "2": "hard"}
    for name, head in zip(("from_uniform", None, "weight_actual"), report.heads, strict=True):
        contested = head.table.visible > 1
        shares = {
            n: np.mean(getattr(head.table, n)[contested] <= 0.02)
            for n in ("from_uniform", "weight_actual")
        }
        assert {n for n, share in shares.items() if share >= 0.95} == ({name} if name else set())
    single = stability_of(GOOD[:, :1], GOOD[:, :1], GOOD[:, :1]).report()
    assert set(single.kinds().values()) == {"hard"}


def test_queries_with_one_key_do_not_decide_the_kind() -> None:
    """18 of 19 contested queries are hard, which is below 95%; one more sees a single key."""
    q = np.full((20, 1), 50.0)
    q[1] = 0.0
    mask = np.ones((20, 2), dtype=bool)
    mask[0, 1] = False
    found = stability_of(q, [[1.0], [0.0]], [[1.0], [0.0]], mask)
    assert (found.weight_actual <= 0.01).sum() == 19
    assert found.report().heads[0].kind() is Kind.SOFT


def test_kinds_go_by_the_weights_as_they_are() -> None:
    """One runner-up, 98 far below: hard in fact, though the gap alone does not guarantee it."""
    keys = np.concatenate([[5.5, 0.0], np.full(98, -50.0)])[:, None]
    found = stability_of([[1.0]], keys, keys)
    assert found.weight_actual[0] < 0.01 < 0.2 < found.weight_bound[0]
    assert found.report().heads[0].kind() is Kind.HARD


def test_the_table_fits_a_terminal_and_tells_what_holds_for_most() -> None:
    report = three_kinds().report()
    lines = str(report).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("3 heads, 120 queries: 1 hard, 1 uniform, 1 soft at tolerance 0.01")
    assert [line.split()[:2] for line in lines[-3:]] == [
        ["0", "uniform"],
        ["1", "soft"],
        ["2", "hard"],
    ]
    for head in report.heads:
        summary, table = head.summary(0.01), head.table
        for name in ("weight_bound", "weight_actual", "output_bound", "output_actual"):
            numbers = getattr(table, name)
            assert (numbers <= summary[name]).sum() >= 38 > (numbers < summary[name]).sum()  # of 40
            assert summary[name] in numbers
        assert (table.wall >= summary["wall"]).sum() == 38
        assert (table.temperature_needed(0.01) >= summary["temperature_needed"]).sum() == 38
    assert ">uniform</td>" in report._repr_html_()
    assert str(three_kinds()) == str(report)


def test_many_heads_are_cut_short() -> None:
    rng = np.random.default_rng(17)
    q, k, v = rng.normal(size=(3, 45, 2, 2))
    text = str(stability_of(q, k, v))
    assert text.endswith("and 5 more heads; as_dict() has all")


def test_as_dict_is_json() -> None:
    found = three_kinds()
    record = found.report().as_dict()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    head = record["heads"][1]
    assert head["each"]["winner"] == found.winner[1].tolist()
    assert head["each"]["gap"][0] is None  # alone: infinite
    assert head["each"]["gap"][1:] == found.gap[1, 1:].tolist()
    assert head["each"]["weight_bound"] == found.weight_bound[1].tolist()
    assert "each" not in found.report().as_dict(queries=False)["heads"][0]


@pytest.mark.parametrize("share", [1.0, 0.9])
def test_the_critical_coldness_is_the_least(share: float) -> None:
    """There the guarantee holds for the share of queries asked; a little warmer it does not."""
    found = three_kinds()
    for table in (found.heads[1], Stability.joined(found.heads)):
        coldness = table.critical_coldness(0.05, share)
        rank = math.ceil(share * table.winner.size)

        def kept(beta: float, table: Stability = table) -> int:
            bounds = output_bound(table.certain_gap, table.visible, beta, table.value_radius)
            return int((bounds <= 0.05 * (1 + 1e-12)).sum())

        assert kept(coldness) >= rank
        assert kept(0.9999 * coldness) < rank
    assert found.report().critical_coldness(0.05, share) == coldness


def test_the_guaranteed_weight_at_another_temperature() -> None:
    head = three_kinds().report().heads[1]
    warm = head.guaranteed_weight(2.0)
    table = head.table
    bounds = np.sort(weight_bound(table.certain_gap, table.visible, 0.5))
    assert warm == bounds[37]


def test_batches_are_inputs() -> None:
    rng = np.random.default_rng(18)
    q, k, v = rng.normal(size=(3, 2, 3, 4, 2))
    found = stability_of(q, k, v)
    head = found.report().heads[1]
    assert head.inputs.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    np.testing.assert_array_equal(head.table.gap, found.gap[:, 1].ravel())


# ---- pictures ----------------------------------------------------------------------------------


def test_the_picture(tmp_path: Path) -> None:
    place = tmp_path / "heads.svg"
    stability_picture(three_kinds().report(), path=place, title="three heads")
    text = place.read_text()
    for word in ("three heads", "temperature", "uniform", "tolerance 0.01", ">2<"):
        assert word in text
    first = place.read_bytes()
    stability_picture(three_kinds().report(), path=place, title="three heads")
    assert place.read_bytes() == first


def test_the_picture_of_ties_alone_and_of_too_many(tmp_path: Path) -> None:
    tied = stability_of(np.zeros((1, 2, 2)), np.ones((1, 2, 2)), np.ones((1, 2, 2)))
    stability_picture(tied.report(), path=tmp_path / "ties.png")
    assert (tmp_path / "ties.png").stat().st_size > 1000
    many = stability_of(*np.random.default_rng(0).normal(size=(3, 49, 2, 2)))
    with pytest.raises(hm.RequestError, match="up to 48 heads can be drawn, but there are 49"):
        stability_picture(many.report(), path=tmp_path / "many.svg")


# ---- what a hostile reading found ----------------------------------------------------------------


def test_the_rounding_of_the_scale_is_taken_off_the_gap() -> None:
    """1/3 times two neighbouring floats is one float: the gap says nothing, and bounds say so."""
    close = 3.0000000000000004
    found = stability_of(
        [[3, close]], [[1.0, 0], [0, 1]], [[0.0], [1]], scale=1 / 3, temperature=1e-16
    )
    odds = math.exp(float((Fraction(close) - 3) * Fraction(1 / 3)) / 1e-16)
    assert found.tied.all()
    assert found.weight_bound[0] >= odds / (1 + odds)
    assert found.output_bound[0] >= odds / (1 + odds)


def test_bounds_hold_where_powers_underflow() -> None:
    """e^-746 a million times is more than the least float."""
    true = math.exp(math.log(1e6) - 746.0)
    assert hessian_bound(746.0, 10**6, 1.0) >= true
    assert value_bound(746.0, 10**6, 1.0) >= true
    assert hessian_bound(7.46e-298, 2, 1e300) >= 2.0 * 1e300 * math.exp(-746 + 690) * 1e-300


@pytest.mark.parametrize("tolerance", [-1.0, 2.0, math.nan])
def test_tolerances_that_are_no_shares_are_refused(tolerance: float) -> None:
    found = stability_of([[1.0]], [[0.0], [1.0]], [[0.0], [1.0]])
    with pytest.raises(hm.RequestError, match="tolerance"):
        found.temperature_needed(tolerance)


def test_biases_whose_difference_overflows_are_refused() -> None:
    with pytest.raises(hm.ShapeError, match="biases are too large"):
        stability_of([[0.0]], [[1.0], [-1.0]], [[0.0], [1.0]], bias=[[1e308, -1e308]])
