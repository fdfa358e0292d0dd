"""Each outward step and each look at nan in the approximants: taken away, a test goes red."""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace as Fake

import numpy as np
import pytest
from flint import arb

import hardmax as hm
from hardmax.lowering.approximants import _sigmoids
from hardmax.lowering.approximants._anchors import AnchorFit, _score
from hardmax.lowering.approximants._curve import Curve
from hardmax.lowering.approximants._knots import (
    _needs,
    _refuse_too_many,
    _rough_count,
    _spread,
)
from hardmax.lowering.approximants._knots_given import _fewest, fit_knots_from_bound
from hardmax.lowering.approximants._knots_proof import _guesses, _line, _tangent, _undecided
from hardmax.lowering.approximants._minimax import minimax_step
from hardmax.lowering.approximants._projection_fit import Problem, State, descend
from hardmax.lowering.approximants._sigmoid_starts import _by_curvature
from hardmax.lowering.approximants._sigmoids import SigmoidSum, SigmoidTerm
from hardmax.lowering.approximants._softening import (
    PEAK,
    Softening,
    _cell_bounds,
    _cuts,
    _far,
    softening,
)
from hardmax.lowering.approximants._supremum import _bounded, _polynomial_bounds, supremum
from hardmax.lowering.approximants._universal import grid_for, least_distance, mean_distance
from hardmax.lowering.approximants._waves import turns_beyond
from hardmax.lowering.approximants._zones import Zone, _negligible, convexity_zones, spans
from hardmax.numerics import FLOAT16, FLOAT64, Interval, precision, stray

RNG = np.random.default_rng
U = Fraction(1, 2**53)


def gamma(count):
    return count * U / (1 - count * U)


def lies_just_above(found, exactly, units=100):
    return exactly <= Fraction(found) <= exactly * (1 + units * U) + Fraction(1, 10**320)


def curve_of(value, ball=None, low=0.0, high=1.0, **more):
    return Curve(value, ball or value, low, high, **more)


# ---- suprema -----------------------------------------------------------------------------------

T8 = np.array([1.0, 0.0, -32.0, 0.0, 160.0, 0.0, -256.0, 0.0, 128.0])


def on_the_grid(floats):
    """The largest |P| at the grid, and the bend between its points, exactly."""
    points = [Fraction(k, 64) for k in range(-64, 65)]
    best = max(abs(sum(Fraction(c) * t**k for k, c in enumerate(floats))) for t in points)
    return best, sum(abs(Fraction(c)) * k * (k - 1) for k, c in enumerate(floats)) * Fraction(
        1, 64**2 * 8
    )


def test_polynomials_whose_terms_cancel_are_bounded_with_their_rounding():
    """T_8 is at most 1, though its coefficients add up to 577: slopes and slack are in units."""
    rng = RNG(0)
    below = 0
    with precision(160):
        for _ in range(12):
            floats = T8 * rng.uniform(0.9999, 1.0001) + rng.uniform(-1e-3, 1e-3, 9)
            upper, lower = _polynomial_bounds([arb(float(c)) for c in floats], 0.0)
            best, bend = on_the_grid(floats)
            rounding = gamma(14) * sum(map(Fraction, np.abs(floats)))
            assert best + bend <= Fraction(upper) <= best + bend + 2 * rounding
            assert best - 2 * rounding <= Fraction(lower) <= best
            plain = float(np.abs(np.linspace(-1, 1, 129)[:, None] ** np.arange(9.0) @ floats).max())
            below += Fraction(plain) + bend < best + bend - 60 * U * best
    assert below  # plain floats do fall below


def test_polynomials_of_nothing_are_bounded_by_what_is_beyond_them():
    rng = RNG(1)
    with precision(160):
        for rest, radius in np.abs(rng.uniform(0.5, 2.0, (60, 2))).tolist():
            coefficients = [arb(0, radius)] * 9
            radii = [Fraction(float(c.rad())) for c in coefficients]
            upper, lower = _polynomial_bounds(coefficients, rest)
            assert lies_just_above(upper, Fraction(rest) + sum(radii))
            assert lower == 0.0
        small = 0.1 * 2.0**-53  # nine of them are less than half an ulp of 1
        upper, _ = _polynomial_bounds([arb(0, small)] * 9, 1.0)
        assert lies_just_above(upper, 1 + 9 * Fraction(small))
        faint = [arb(10) ** -400, *[arb(0)] * 8]
        assert arb(_polynomial_bounds(faint, 0.0)[0]) > arb(10) ** -400
        assert 1e-300 <= _polynomial_bounds(faint, 0.0)[0] < 1.1e-300  # whatever underflows
        for bad in (arb("nan"), arb("inf")):
            assert _polynomial_bounds([bad, *[arb(0)] * 8], 0.0) == (math.inf, 0.0)
        assert _polynomial_bounds([arb(1)] * 9, math.inf) == (math.inf, 0.0)


def test_boxes_without_a_series_are_enclosed_as_a_whole():
    """sqrt has no series at 0, but it is at most 1 on [0, 1]."""
    with precision(160, 10):
        upper, lower, *_ = _bounded(lambda x: x.sqrt(), arb(0.5), 0.5)
        assert 1.0 <= -upper < 1.5
        assert 0.7 < lower < 0.71


def test_the_supremum_of_nothing_is_found_at_once():
    calls = []

    def nothing(x):
        calls.append(x)
        return x * 0

    found, proved = supremum(nothing, 0.0, 1.0)
    assert found == 0.0 <= proved <= 2e-300
    assert len(calls) < 20


# ---- softening ---------------------------------------------------------------------------------


def test_centred_softenings_cover_both_ends():
    for low, high in RNG(2).uniform(0.1, 1.0, (200, 2)).tolist():
        one = Softening(-low, high)
        shift, centred = Fraction(one.shift), Fraction(one.centred)
        assert max(abs(shift - Fraction(low)), abs(shift + Fraction(high))) <= centred
        assert lies_just_above(one.centred, (Fraction(low) + Fraction(high)) / 2)


@pytest.mark.parametrize("size", [1.0, 1e9])
def test_softening_is_charged_for_slopes_that_were_rounded(size):
    """Kinks of 1 that are differences of slopes of 10^9, and kinks that are exact."""
    rng = RNG(3)
    for _ in range(20):
        knots = np.cumsum(rng.uniform(0.5, 2.0, 6))
        slopes = size + np.cumsum(rng.uniform(0.5, 2.0, 5) * [1.0, 1.0, -1.0, -1.0, 1.0])
        fit = Fake(knots=knots, slopes=slopes, kinks=np.diff(slopes))
        coldness = float(rng.uniform(0.5, 2.0))
        t = knots[1:-1]
        above, below = _cell_bounds(t, fit.kinks, _cuts(t, coldness), coldness)
        sizes = 2 * sum(map(Fraction, np.abs(slopes)))
        sizes -= sum(map(Fraction, np.abs(slopes[[0, -1]])))
        slack = gamma(2) * sizes + gamma(512) * Fraction(float(np.abs(fit.kinks).max()))
        slack = Fraction(PEAK) * slack / Fraction(coldness)
        found = softening(fit, coldness)
        assert lies_just_above(-found.low, Fraction(above) + slack, 40)
        assert lies_just_above(found.high, Fraction(below) + slack, 40)


def test_many_knots_in_one_place_add_up():
    """1 and 6000 times half an ulp of it: together they lose more than the first one alone."""
    little, count = 0.49 * 2.0**-52, 6000
    kinks = np.array([1.0, *[little] * count])
    knots = np.concatenate([[-1.0], np.arange(count + 1) * 1e-12, [1.0]])
    for sign in (1.0, -1.0):
        slopes = sign * np.concatenate([[-1.0], np.arange(count + 1) * little])
        fit = Fake(knots=knots, slopes=slopes, kinks=sign * kinks)
        found = softening(fit, 1.0)
        with precision(120):
            y = arb("1.278464542761073795109358739")
            peak = y / (1 + y.exp())
            # all of them are within 1e-8 of the place where each of them loses most
            least = peak * (1 - arb(1e-15)) * (1 + count * arb(little))
            assert arb(found.size) > least + peak * arb(2e-15)
        assert found.size < 0.2785


def test_what_knots_far_away_add_comes_from_both_sides():
    t, c = np.arange(10.0), np.array([1.0, -2.0] * 5)
    window, low, high = np.array([[4], [6]]), np.array([4.5]), np.array([5.5])
    found = _far(t, c, window, low, high, 2.0)
    lost = [y / (1 + math.exp(y)) for y in (2.0 * 1.5, 2.0 * 0.5)]
    wanted = 6.0 * lost[0] + 6.0 * PEAK
    assert found == pytest.approx([wanted], rel=1e-12)


# ---- grids of anchors --------------------------------------------------------------------------


def test_mean_distances_are_rounded_up():
    for spacing, more in RNG(4).uniform(0.5, 2.0, (200, 2)).tolist():
        coldness = (4.0 + more) / spacing**2
        found = mean_distance(spacing, coldness)
        with precision(200):
            theta = arb(coldness) * arb(spacing) ** 2
            exactly = arb(spacing) * (arb(0.5) + arb(1.15) * (-theta / 2).exp())
            assert exactly < arb(found) < exactly * arb(1 + 1e-14)


def test_grids_are_charged_for_anchors_that_are_rounded():
    rng = RNG(5)
    for case in range(60):
        dims = 1 + case % 3
        low = rng.uniform(0.5, 2.0, dims) * (1e6 if case % 2 else 1.0)
        width, slopes = rng.uniform(0.5, 2.0, (2, dims))
        grid = grid_for(low, low + width, slopes, 0.3)
        exactly = Fraction(0)
        for (_, spacing, n), slope in zip(grid.axes, slopes, strict=True):
            mean = least_distance(spacing, grid.coldness) if n > 1 else 0.5 * spacing
            exactly += Fraction(slope) * Fraction(mean)
        reach = sum(
            Fraction(s) * Fraction(float(a + w)) for s, a, w in zip(slopes, low, width, strict=True)
        )
        exactly += gamma(8) * 2 * reach
        assert lies_just_above(grid.error, exactly)


def test_grids_keep_to_the_error_that_was_asked():
    """Loads that are whole numbers up to rounding, near the origin and far from it."""
    for number in range(1, 120):
        for low in (0.0, 1e5, 1e9):
            for slope in (1.0, 0.7):
                even = slope * least_distance(1.0, 16.0) / number
                rounding = float(stray(8, 2.0 * slope * (low + 1.0)))
                for error in (even, even + rounding, even * (1 + 1.01e-9)):
                    assert grid_for([low], [low + 1.0], [slope], error).error <= error


# ---- sums of sigmoids --------------------------------------------------------------------------

SUM = SigmoidSum(
    0.5, -0.25, (SigmoidTerm(1.5, 0.3, 2.0, 0.75), SigmoidTerm(-1.0, 0.2, 3.0, -1.0)), 0.0
)


def test_sums_of_sigmoids_are_evaluated_with_their_shifts():
    for x in (-1.0, 0.3, 2.0):
        wanted = 0.5 - 0.25 * x
        wanted += (1.5 + 0.3 * x) / (1 + math.exp(-2.0 * x - 0.75))
        wanted += (-1.0 + 0.2 * x) / (1 + math.exp(-3.0 * x + 1.0))
        assert float(SUM.at(x)) == pytest.approx(wanted, rel=1e-12)
        assert float(SUM.ball(arb(x))) == pytest.approx(wanted, rel=1e-12)


def test_rounding_of_sums_of_sigmoids_goes_by_the_unit_of_the_format():
    size = (1.5 + 0.6) * (10.0 + 2.0) + (1.0 + 0.4) * (10.0 + 3.0) + 0.5 + 0.5
    assert SUM.rounding(2.0) == pytest.approx(size * 2.0**-53, rel=1e-12, abs=0.0)
    assert SUM.rounding(2.0, FLOAT16) == pytest.approx(size * 2.0**-11, rel=1e-12)


def test_coefficients_are_held_down_for_the_format(monkeypatch):
    """The ridge is 1000 units, in the fit, in the one with a head less, and in the polish."""
    ridges = []

    def recorded(problem, state, steps):
        ridges.append(problem.ridge)
        return descend(problem, state, min(steps, 3))

    monkeypatch.setattr(_sigmoids, "descend", recorded)
    monkeypatch.setattr(_sigmoids, "levelled", lambda problem, state, _: state)
    monkeypatch.setattr(_sigmoids, "_proved", lambda curve, one: one)
    curve = curve_of(np.exp)
    _sigmoids.fit_sigmoids(curve, 2, format=FLOAT16)
    assert len(ridges) > 8
    assert {*ridges} == {1e3 * FLOAT16.unit}


def test_the_polish_is_for_the_format(monkeypatch):
    curve, one = curve_of(np.exp), 1e3 * FLOAT64.unit
    ridges = []
    state = State(np.zeros((1, 1)), np.zeros((1, 1)), np.full((1, 4), 1e9), np.zeros(1))
    problem = Problem(np.linspace(-1, 1, 9), np.zeros(9), True, True, 1e-10)

    def polished(problem, state, steps):
        ridges.append(problem.ridge)
        return state

    monkeypatch.setattr(_sigmoids, "_searched", lambda *_: (state, problem, 1.0))
    monkeypatch.setattr(Problem, "worst", lambda *_: 0.0)
    monkeypatch.setattr(_sigmoids, "descend", polished)
    monkeypatch.setattr(_sigmoids, "levelled", lambda problem, state, _: state)
    monkeypatch.setattr(_sigmoids, "_proved", lambda curve, one: one)
    for format, ridge in ((FLOAT64, max(1e-13, one)), (FLOAT16, 1e3 * FLOAT16.unit)):
        ridges.clear()
        _sigmoids._fitted.__wrapped__(curve, 1, True, True, 1, format)
        assert ridges == [ridge]


@pytest.mark.parametrize(("format", "wins"), [(FLOAT64, 0), (FLOAT16, 1)])
def test_of_two_sums_the_better_one_in_the_format_is_taken(monkeypatch, format, wins):
    """Large coefficients and a small error, or the other way round."""
    sums = [
        SigmoidSum(0.0, 0.0, (SigmoidTerm(1e3, 0.0, 1.0, 0.0),), 1e-6),
        SigmoidSum(0.0, 0.0, (SigmoidTerm(1.0, 0.0, 1.0, 0.0),), 1e-3),
    ]
    state = State(np.zeros((1, 1)), np.zeros((1, 1)), np.full((1, 4), 1e9), np.zeros(1))
    problem = Problem(np.linspace(-1, 1, 9), np.zeros(9), True, True, 1e-10)
    left = iter(sums)
    monkeypatch.setattr(_sigmoids, "_searched", lambda *_: (state, problem, 1.0))
    monkeypatch.setattr(Problem, "worst", lambda *_: 0.0)
    monkeypatch.setattr(_sigmoids, "descend", lambda problem, state, _: state)
    monkeypatch.setattr(_sigmoids, "levelled", lambda problem, state, _: state)
    monkeypatch.setattr(_sigmoids, "_in_x", lambda *_: next(left))
    monkeypatch.setattr(_sigmoids, "_proved", lambda curve, one: one)
    found = _sigmoids._fitted.__wrapped__(curve_of(np.exp), 1, True, True, 1, format)
    assert found is sums[wins]


def test_a_sum_with_the_smaller_error_wins_among_equals(monkeypatch):
    sums = [SigmoidSum(0.0, 0.0, SUM.terms, 1e-3), SigmoidSum(0.0, 0.0, SUM.terms, 1e-6)]
    state = State(np.zeros((1, 1)), np.zeros((1, 1)), np.full((1, 4), 1e9), np.zeros(1))
    problem = Problem(np.linspace(-1, 1, 9), np.zeros(9), True, True, 1e-10)
    left = iter(sums)
    monkeypatch.setattr(_sigmoids, "_searched", lambda *_: (state, problem, 1.0))
    monkeypatch.setattr(Problem, "worst", lambda *_: 0.0)
    monkeypatch.setattr(_sigmoids, "descend", lambda problem, state, _: state)
    monkeypatch.setattr(_sigmoids, "levelled", lambda problem, state, _: state)
    monkeypatch.setattr(_sigmoids, "_in_x", lambda *_: next(left))
    monkeypatch.setattr(_sigmoids, "_proved", lambda curve, one: one)
    found = _sigmoids._fitted.__wrapped__(curve_of(np.exp), 1, True, True, 1, FLOAT64)
    assert found is sums[1]


def test_searches_for_a_format_fit_for_it(monkeypatch):
    formats = []

    def fitted(curve, heads, *, format, **_):
        formats.append(format)
        return SigmoidSum(0.0, 0.0, (), 0.0)

    monkeypatch.setattr(_sigmoids, "fit_sigmoids", fitted)
    _sigmoids.sigmoids_for(curve_of(np.exp), 1e-3, format=FLOAT16)
    assert formats == [FLOAT16]


def test_points_where_a_curve_is_not_defined_are_no_waves():
    def gappy(x):
        return np.where(np.arange(x.size) % 2, np.nan, x)

    assert turns_beyond(curve_of(gappy), 0.0) == 0
    assert turns_beyond(curve_of(lambda x: np.full(x.shape, np.nan)), 0.0) == 0
    with pytest.raises(hm.PrecisionError, match="turns 159 times"):
        _sigmoids.sigmoids_for(curve_of(lambda x: np.sin(500.0 * x)), 1e-3)


@pytest.mark.parametrize(("swing", "turns"), [(0.0, 10), (1.9999, 8), (2.0001, 0)])
def test_only_turns_that_swing_further_are_counted(swing, turns):
    """sin goes from -1 to 1 and back, by 2 and no more; from its ends here to the first and last
    turn it goes by less."""
    assert turns_beyond(curve_of(lambda x: np.sin(32.0 * x)), swing) == turns


def test_starts_for_a_line_are_finite():
    u = np.linspace(-1.0, 1.0, 9)
    for steep, centre in _by_curvature(2, u, np.zeros(9)):
        assert np.isfinite(steep).all()
        assert np.isfinite(centre).all()


def test_a_search_among_sums_of_nothing_ends():
    problem = Problem(np.linspace(-1.0, 1.0, 9), np.zeros(9), True, True, 1e-10)
    state = descend(problem, State.begin(np.zeros((1, 2)), np.array([[0.0, 0.5]])), 3)
    assert np.isfinite(state.linear).all()


def test_directions_below_the_floor_are_left_alone():
    matrix = np.array([[1.0, 0.0], [0.0, 1e-6], [1.0, 1e-6]])
    residual = np.array([1.0, 1.0, 0.5])
    assert minimax_step(matrix, residual, 1e-3)[1] == 0.0
    assert abs(minimax_step(matrix, residual, 1e-9)[1]) > 1e3


def test_anchors_with_large_values_are_charged_for_them():
    fit = AnchorFit(np.array([0.0, 1.0]), np.array([-3.0, 2.0]), 1.0, 1e-13)
    assert _score(fit) == pytest.approx(1e-13 + 3e3 * 2.0**-53, rel=1e-12, abs=0.0)


# ---- knots -------------------------------------------------------------------------------------


@pytest.mark.parametrize("ends", [(-math.inf, 1.0), (0.0, math.inf), (math.nan, 1.0)])
def test_ends_that_are_not_finite_are_refused(ends):
    with pytest.raises(hm.DomainError, match="bounded"):
        curve_of(np.exp, low=ends[0], high=ends[1])
    with pytest.raises(hm.DomainError, match="finite ends"):
        fit_knots_from_bound(np.exp, *ends, 1.0, 0.1)


def test_pieces_that_cannot_be_counted_are_refused():
    curve = curve_of(np.exp)
    for pieces in (math.nan, math.inf):
        with pytest.raises(hm.PrecisionError, match="undefined"):
            _refuse_too_many(curve, pieces, 0.1, 100)


def test_pieces_are_counted_where_the_bend_is_finite():
    def second(x):
        bend = np.where(x.lo < 0.5, np.inf, 4.0)
        return Interval(bend, bend)

    curve = curve_of(np.exp, second=second)
    assert _rough_count(curve, 0.01) == pytest.approx(2.0 / 0.4, rel=1e-9)


def test_flat_pieces_get_a_billionth_of_the_steepest():
    t = np.array([0.0, 1.0, 2.0])
    assert _spread(t, np.array([4.0, 0.0]), 2)[1] == pytest.approx(0.5 + 5e-10, abs=1e-14)
    assert _spread(t, np.zeros(2), 4) == pytest.approx([0.0, 0.5, 1.0, 1.5, 2.0])


def test_lines_need_no_error_and_are_searched_all_the_same():
    line = curve_of(lambda x: 0.25 * x)
    t = np.array([0.0, 0.5, 1.0])
    assert _needs(line, t, 1, (1.0, 1.0)).tolist() == [0.0, 0.0]
    guesses = _guesses(line, t, np.array([1, 1]), t, 0.25 * t)
    assert ((t[:-1] < guesses) & (guesses < t[1:])).all()


def test_a_tangent_at_the_maximum_needs_no_better_one():
    square = curve_of(lambda x: x * x)
    with precision(96, 3):
        line = _line(np.array([0.0, 1.0]), np.array([0.0, 1.0]), 0)
        bound, better = _tangent(square, line, 0.0, 1.0, 1, 0.5 + 1e-10)
        assert bound == pytest.approx(0.25, rel=1e-8)
        assert better is None
        assert _tangent(square, line, 0.0, 1.0, 1, 0.4)[1] == pytest.approx(0.5)


def test_undecided_parts_are_bounded_by_their_bend_or_by_their_range():
    nothing = curve_of(lambda x: x * 0.0, hull=lambda x: x * 0.0)
    with precision(96, 3):
        for height, bend in RNG(6).uniform(0.5, 2.0, (50, 2)).tolist():
            line = _line(np.array([0.0, 1.0]), np.array([height, height]), 0)
            part = (0.0, 1.0, arb(0), arb(0))
            assert lies_just_above(
                _undecided(nothing, line, part, bend), Fraction(height) + Fraction(bend) / 8
            )
            assert lies_just_above(_undecided(nothing, line, part, math.inf), Fraction(height))
        wild = curve_of(lambda x: 1 / x, hull=lambda x: Interval(x.lo * 0 - np.inf, x.hi + np.inf))
        assert _undecided(wild, line, part, math.inf) == math.inf


def test_samples_are_charged_for_steps_joins_and_rounding():
    rng = RNG(7)
    for case in range(40):
        share, steps = (1.0, 0.5)[case % 2], 10.0 - 3.0 * float(rng.uniform())
        error, size = float(rng.uniform(0.5, 2.0)), 10.0 ** (8 * (case % 3 == 0))
        heights = rng.uniform(-0.4, 0.4, 12) + size

        def value(t, heights=heights):
            return heights[: len(t)]

        for order in (1, 2):
            fit = _fewest(value, 0.0, 1.0, [(share, steps)], error * 1.5, order)
            n = math.ceil(steps)
            t, f = np.linspace(0.0, 1.0, n + 1), heights[: n + 1]
            apart = float(np.abs(np.interp(t, fit.knots, fit.values) - f).max())
            spent = Fraction(share) * Fraction(error * 1.5) * (Fraction(steps) / n) ** order
            rounding = Fraction(stray(32, float(np.abs(f).max())))
            assert lies_just_above(fit.error, spent + Fraction(apart) + rounding)


def test_samples_are_joined_within_what_rounding_leaves():
    """A band that is used to its edge: what rounding takes is kept back."""
    for seed in range(5):
        heights = 1e8 + RNG(seed).uniform(-0.5, 0.5, 101)
        steps = 100.0 * (1 - 1.5e-9)
        fit = _fewest(lambda t, h=heights: h, 0.0, 1.0, [(0.5, steps)], 0.2, 1)
        assert fit.error <= 0.2
        assert fit.pieces < 100


def test_whole_steps_are_sampled_once_more():
    """10 steps up to rounding: 10 samples would take all of the error, and rounding is left."""
    fit = _fewest(lambda t: 0.5 + 0.0 * t, 0.0, 1.0, [(1.0, 10.0)], 0.2, 1)
    assert fit.pieces == 11
    assert fit.error <= 0.2


# ---- zones -------------------------------------------------------------------------------------


def test_where_the_bend_is_unbounded_nothing_is_decided():
    """-|x|^(2/3) bends upward on both sides of its cusp, and is not convex."""

    def second(x):
        inside = (x.lo <= 0.0) & (x.hi >= 0.0)
        return Interval(np.full(x.shape, 0.1), np.where(inside, np.inf, 1.0))

    cusp = curve_of(
        lambda x: -(np.abs(x) ** (2 / 3)),
        lambda x: -(abs(x) ** (arb(2) / 3)),
        -1.0,
        1.0,
        second=second,
        hull=lambda x: Interval(-(x.magnitude ** (2 / 3)), x.magnitude * 0.0),
    )
    zones = convexity_zones(cusp, 1e-3)
    assert {zone.sign for zone in zones if math.isfinite(zone.bound)} == {1}
    assert {zone.sign for zone in zones if not math.isfinite(zone.bound)} == {0}
    widths = [zone.high - zone.low for zone in zones if zone.sign == 0]
    assert min(widths) > 1e-12  # where f hardly varies it is enough


def test_a_thin_box_where_f_hardly_varies_is_negligible():
    flat = curve_of(lambda x: x * 0.0, hull=lambda x: x * 0.0)
    low, high = np.array([0.0, 0.0]), np.array([1e-9, 0.5])
    bound = np.array([math.inf, math.inf])
    assert _negligible(flat, low, high, bound, 1e-3).tolist() == [True, False]


def test_a_kink_between_equal_signs_keeps_its_knot():
    for bound, count in ((math.inf, 2), (1.0, 1)):
        zones = (
            Zone(0.0, 0.5, 1, 1.0),
            Zone(0.5, 0.5 + 1e-9, 0, bound),
            Zone(0.5 + 1e-9, 1.0, 1, 1.0),
        )
        assert len(spans(zones, 1e-3)) == count
