"""One-dimensional approximation: every error is proved, and attained where that is claimed."""

from __future__ import annotations

from fractions import Fraction
from math import exp, inf, pi

import numpy as np
import pytest

from hardmax import DomainError, PrecisionError, RequestError, ShapeError
from hardmax.languages import parse
from hardmax.lowering import approximants as ap
from hardmax.lowering.approximants._anchors import weights
from hardmax.lowering.approximants._knots_proof import proved_error
from hardmax.lowering.approximants._softening import _one_knot
from hardmax.lowering.approximants._zones import convexity_zones
from hardmax.numerics import FLOAT32, Interval

flint = pytest.importorskip("flint")

PEAK = 0.27846454276107374  # max of y sigmoid(-y)


def curve(text: str, low: float, high: float) -> ap.Curve:
    return ap.Curve.of(parse(text)[0], "x", low, high)


def dense(c: ap.Curve, points: int = 40_001) -> np.ndarray:
    """A grid that crowds at the ends, where singular curves are hard."""
    u = 0.5 - 0.5 * np.cos(np.linspace(0.0, pi, points))
    return np.clip(c.low + (c.high - c.low) * u, c.low, c.high)


def measured(c: ap.Curve, fit, *more: np.ndarray) -> float:
    x = np.concatenate([dense(c), *more])
    return float(np.abs(fit.at(x) - c.at(x)).max())


T5 = "16*x**5 - 20*x**3 + 5*x"


# --- the supremum ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "low", "high", "truth"),
    [
        (lambda x: x * x, -1.0, 0.5, 1.0),
        (lambda x: x.sqrt() - x, 0.0, 1.0, 0.25),
        (lambda x: (1 - x).sqrt() - 1 + x, 0.1, 1.0, 0.25),
        (lambda x: (40 * x).sin() * 1e-9 + x.exp() - x.exp(), 0.0, 1.0, 1e-9),
        (lambda x: 1 / (x + 2), -1.0, 1.0, 1.0),
        (lambda x: (x * x - 2) * x, -1.0, 1.0, (2 / 3) ** 0.5 * 4 / 3),
    ],
)
def test_supremum_is_enclosed_within_its_tolerance(function, low, high, truth):
    found, proved = ap.supremum(function, low, high)
    assert found <= truth * (1 + 1e-15)
    assert truth * (1 - 1e-15) <= proved <= 1.01 * found


def test_supremum_rounds_outward_and_leaves_the_precision_alone():
    before = flint.ctx.prec, flint.ctx.cap
    third = flint.fmpq(1, 3)
    found, proved = ap.supremum(lambda x: x * 0 + third, 0.0, 1.0)
    assert Fraction(found) < Fraction(1, 3) < Fraction(proved)
    assert (flint.ctx.prec, flint.ctx.cap) == before
    with pytest.raises(KeyError):
        ap.supremum(lambda x: {}["no such function"], 0.0, 1.0)
    assert (flint.ctx.prec, flint.ctx.cap) == before


def test_supremum_is_honest_when_the_budget_is_spent():
    found, proved = ap.supremum(lambda x: (300 * x).sin() * x, 0.0, 1.0, boxes=3)
    assert found <= 1.0 <= proved
    assert ap.supremum(lambda x: 1 / x, -1.0, 1.0, boxes=30)[1] == np.inf
    assert ap.supremum(lambda x: x - x, 0.0, 1.0)[1] < 1e-290
    with pytest.raises(DomainError, match="low < high"):
        ap.supremum(lambda x: x, 1.0, 1.0)


# --- free knots -----------------------------------------------------------------------------------

OPTIMUM = [
    ("x**2", 0.0, 1.0, 0.3536, 36),
    ("exp(x)", 0.0, 1.0, 0.3244, 33),
    ("sin(x)", 0.0, pi / 2, 0.2995, 31),
    ("sqrt(x)", 0.0, 1.0, 0.5, 50),
    ("log(x)", 1.0, 2.0, 0.1733, 18),
    ("1/x", 0.1, 1.0, 1.529, 153),
]


@pytest.mark.parametrize(("text", "low", "high", "rate", "count"), OPTIMUM)
def test_knots_are_as_few_as_the_greedy_optimum(text, low, high, rate, count):
    c = curve(text, low, high)
    assert ap.fit_knots(c, 1e-4).pieces == count
    for error in (1e-2, 1e-3, 1e-6):
        fit = ap.fit_knots(c, error)
        assert fit.pieces <= rate / error**0.5 * 1.002 + 1.05
        assert measured(c, fit, fit.knots) <= fit.error <= error


WIGGLY = [
    (T5, -1.0, 1.0),
    ("sin(x)", -pi, pi),
    ("sin(x)/(1 + x**2)", -2.0, 2.0),
    ("tanh(3*x)", -1.0, 1.0),
    ("x**4", -1.0, 1.0),
    ("x**(1/3)", 0.0, 1.0),
    ("sqrt(1 - x**2)", -1.0, 1.0),
    ("sqrt(x - 0.1)", 0.1, 0.9),
    ("exp(abs(x - 1/3))", -1.0, 1.0),
    ("max(x, x**2)", -1.0, 2.0),
]


@pytest.mark.parametrize(("text", "low", "high"), WIGGLY)
@pytest.mark.parametrize("error", [1e-2, 1e-4])
def test_knots_across_inflections_and_kinks(text, low, high, error):
    c = curve(text, low, high)
    fit = ap.fit_knots(c, error)
    found = measured(c, fit, fit.knots)
    assert found <= fit.error * (1 + 1e-9)  # floats on the left
    assert fit.error <= min(error, 1.001 * found)
    assert fit.error > 0.5 * error  # pieces are not wasted


@pytest.mark.parametrize("error", [1e-2, 1e-4, 1e-6])
def test_the_square_attains_its_bound(error):
    """On N equal pieces x^2 is 1/(8 N^2) away at every knot and every middle: nothing is closer."""
    fit = ap.fit_knots(curve("x**2", 0.0, 1.0), error)
    n = fit.pieces
    assert fit.error == pytest.approx(1 / (8 * n**2), rel=1e-4)
    middles = 0.5 * (fit.knots[1:] + fit.knots[:-1])
    assert np.abs(fit.at(middles) - middles**2).min() >= fit.error * (1 - 1e-3)
    assert np.abs(fit.values - fit.knots**2).min() >= fit.error * (1 - 1e-3)


def test_a_line_and_a_kink_are_exact():
    assert ap.fit_knots(curve("3*x + 1", -1.0, 1.0), 1e-3).pieces == 1
    kink = ap.fit_knots(curve("abs(x)", -1.0, 1.0), 1e-3)
    assert kink.pieces == 2
    assert kink.error < 1e-5 * 1e-3  # the kink is located that well


def test_a_cusp_is_no_inflection_and_no_concave_point():
    """f'' < 0 on both sides of the cusp of |x - 0.3|^(2/3), which is not concave."""
    c = curve("((x - 0.3)**2)**(1/3)", -1.0, 1.0)
    outer = lambda x: -2 / 9 * np.abs(x - 0.3) ** (-4 / 3)  # noqa: E731

    def second(x: Interval) -> Interval:
        far, inside = outer(np.stack([x.lo, x.hi])), (x.lo <= 0.3) & (x.hi >= 0.3)
        low = np.where(inside, -np.inf, far.min(axis=0) * (1 + 1e-12))
        return Interval(low, far.max(axis=0) * (1 - 1e-12))

    for one in (c, ap.Curve(c.value, c.ball, -1.0, 1.0, second)):
        fit = ap.fit_knots(one, 1e-2)
        x = 0.3 + np.linspace(-1e-3, 1e-3, 4001)
        assert measured(c, fit, fit.knots, x) <= fit.error <= 1e-2
        assert fit.pieces <= 20


def test_the_proof_sees_a_wrong_value_and_a_missing_knot():
    c = curve("exp(x)", 0.0, 1.0)
    fit, zones = ap.fit_knots(c, 1e-3), convexity_zones(c, 1e-7)
    off = fit.values.copy()
    off[3] -= 1e-4
    assert proved_error(c, zones, fit.knots, off) >= fit.error + 0.99e-4
    fewer = np.delete(fit.knots, 3), np.delete(fit.values, 3)
    assert proved_error(c, zones, *fewer) > 2 * fit.error


def test_undecided_convexity_is_bounded_by_curvature():
    """With f'' known only to lie in [-1, 1], chords on equal steps are what is left."""

    def unsure(x: Interval) -> Interval:
        return Interval(np.full(x.shape, -1.0), np.ones(x.shape))

    c = ap.Curve(np.sin, lambda x: x.sin(), 0.0, 1.0, unsure, "sin")
    fit = ap.fit_knots(c, 1e-3)
    assert fit.pieces == 12  # sqrt(1 / 8e-3) = 11.2
    assert measured(c, fit) <= fit.error <= 1e-3


def test_knots_refuse_what_they_cannot_do():
    with pytest.raises(RequestError, match="positive"):
        ap.fit_knots(curve("x**2", 0.0, 1.0), 0.0)
    with pytest.raises(PrecisionError, match="pieces"):
        ap.fit_knots(curve("x**2", 0.0, 1.0), 1e-14)
    with pytest.raises(PrecisionError, match="singular"):
        ap.fit_knots(curve("x*log(x)", 0.0, 1.0), 1e-3)
    with pytest.raises(DomainError, match="bounded"):
        curve("x", 1.0, 1.0)
    with pytest.raises(ShapeError, match="increasing"):
        ap.PiecewiseFit([0.0, 0.0], [1.0, 1.0], 0.0)


@pytest.mark.parametrize(
    ("function", "low", "high", "bound", "most"),
    [(np.exp, 0.0, 1.0, np.e, 38), (np.sin, -3.0, 3.0, 1.0, 140), (np.square, 0.0, 1.0, 2.0, 42)],
)
def test_knots_from_a_bound_of_the_second_derivative(function, low, high, bound, most):
    fit = ap.fit_knots_from_bound(function, low, high, bound, 1e-4)
    x = np.linspace(low, high, 100_001)
    assert np.abs(fit.at(x) - function(x)).max() <= fit.error <= 1e-4
    assert fit.pieces <= most < (high - low) * (bound / 8e-4) ** 0.5


def test_equal_knots_cannot_promise_more_than_the_chord():
    """f'' = 2 and -2 in turn on unit steps: odd about every knot, and 1/4 away in between."""
    f = lambda x: (x % 1) * (1 - x % 1) * (-1.0) ** np.floor(x)  # noqa: E731
    fit = ap.fit_knots_from_bound(f, 0.0, 8.0, 2.0, 0.25)
    x = np.linspace(0.0, 8.0, 10_001)
    assert np.abs(fit.at(x) - f(x)).max() <= fit.error <= 0.25
    assert fit.pieces <= 8


def test_knots_from_a_slope():
    zigzag = lambda x: np.abs((4 * x) % 2 - 1)  # noqa: E731
    fit = ap.fit_knots_lipschitz(zigzag, -1.0, 1.0, 4.0, 1e-2)
    x = np.linspace(-1.0, 1.0, 100_001)
    assert np.abs(fit.at(x) - zigzag(x)).max() <= fit.error <= 1e-2
    assert fit.pieces <= 9
    with pytest.raises(PrecisionError, match="samples"):
        ap.fit_knots_lipschitz(zigzag, -1.0, 1.0, 4.0, 1e-9)
    with pytest.raises(RequestError, match="finite"):
        ap.fit_knots_lipschitz(zigzag, -1.0, 1.0, np.inf, 1e-2)


# --- softening ------------------------------------------------------------------------------------


def soft_minus_hard(fit: ap.PiecewiseFit, coldness: float) -> np.ndarray:
    t, c = fit.knots[1:-1], fit.kinks
    spread = np.linspace(-6.0, 6.0, 241) / coldness
    x = (t[:, None] + spread).ravel()
    z = np.abs(x[:, None] - t)
    return -(z / (1 + np.exp(np.minimum(coldness * z, 700.0)))) @ c


@pytest.mark.parametrize("coldness", [0.5, 10.0, 1e6])
def test_a_single_kink_attains_its_softening(coldness):
    found = ap.softening(ap.PiecewiseFit([-1.0, 0.0, 1.0], [1.0, 0.0, 1.0], 0.0), coldness)
    assert found.low == pytest.approx(-2 * PEAK / coldness, rel=1e-12)
    assert found.size >= 2 * PEAK / coldness * (1 - 1e-15)
    assert found.high <= 1e-12 / coldness
    assert found.centred == pytest.approx(PEAK / coldness, rel=1e-9)


@pytest.mark.parametrize(("text", "low", "high"), [("x**2", 0, 1), ("1/x", 0.1, 1), (T5, -1, 1)])
@pytest.mark.parametrize("factor", [0.3, 1.0, 20.0])
def test_softening_bounds_the_sum_over_all_kinks(text, low, high, factor):
    fit = ap.fit_knots(curve(text, low, high), 1e-3)
    coldness = factor * 4 * fit.pieces / (high - low)
    found, truth = ap.softening(fit, coldness), soft_minus_hard(fit, coldness)
    assert found.low <= truth.min()
    assert truth.max() <= found.high
    assert found.centred <= 1.03 * 0.5 * np.ptp(np.append(truth, 0.0))


def test_softening_does_not_grow_with_the_number_of_knots():
    """At coldness 4/h the loss is a fixed share of h^2, however many knots there are."""
    c = curve("x**2", 0.0, 1.0)
    shares = []
    for error in (1e-2, 1e-4, 1e-6):
        fit = ap.fit_knots(c, error)
        shares.append(ap.softening(fit, 4.0 * fit.pieces).centred * fit.pieces**2)
    assert max(shares) < 1.05 * min(shares)


def test_softening_counts_the_knots_it_does_not_look_at():
    """301 knots within reach of each other, and of every x: far more than the window holds."""
    t = np.linspace(0.0, 1.0, 301)
    fit = ap.PiecewiseFit(t, t**2, 0.0)
    assert ap.softening(fit, 1.0).low <= soft_minus_hard(fit, 1.0).min()


def test_one_knot_on_a_cell_is_enclosed():
    a = np.linspace(-3.0, 3.0, 121)
    b = a + 0.75
    y = np.linspace(a, b, 400)
    e = np.abs(y) / (1 + np.exp(np.abs(y)))
    _, _, most, least, bend = _one_knot(np.ones(121), a, b)
    assert (e.max(axis=0) <= most).all()
    assert (least <= e.min(axis=0)).all()
    apart = np.where(a * b > 0, np.abs(np.diff(e, 2, axis=0)).max(axis=0) * (399 / 0.75) ** 2, 0.0)
    assert (apart <= bend + 1e-6).all()


@pytest.mark.parametrize(
    ("text", "low", "high"), [("exp(x)", 0, 1), ("sqrt(x)", 0, 1), (T5, -1, 1)]
)
def test_coldness_for_is_enough_and_hardly_more(text, low, high):
    fit = ap.fit_knots(curve(text, low, high), 1e-3)
    coldness = ap.coldness_for(fit, 1e-3)
    assert ap.softening(fit, coldness).centred <= 1e-3
    assert ap.softening(fit, coldness / 1.02).centred > 1e-3


# --- sums of sigmoids -----------------------------------------------------------------------------

ALL, BARE = {}, {"affine_values": False, "linear_term": False}
SIGMOIDS = [
    ("1/x", 0.1, 1.0, 4, ALL, 1e-5),
    ("1/x", 0.1, 1.0, 6, BARE, 1e-5),
    ("1/x", 0.5, 1.0, 4, BARE, 1e-7),
    ("exp(x)", 0.0, 1.0, 1, ALL, 4e-5),
    ("exp(x)", 0.0, 1.0, 2, ALL, 1e-8),
    ("log(x)", 1.0, 2.0, 2, ALL, 1e-7),
    ("sqrt(x)", 0.0, 1.0, 4, ALL, 3e-3),
    ("sin(x)", -pi, pi, 2, ALL, 1e-5),
    ("tanh(x)", -3.0, 3.0, 1, BARE, 1e-14),
    ("x**2", 0.0, 1.0, 1, ALL, 1e-6),
    (T5, -1.0, 1.0, 3, ALL, 1e-6),
    ("sin(x)/(1 + x**2)", -2.0, 2.0, 2, ALL, 1e-4),
]


@pytest.mark.parametrize(("text", "low", "high", "heads", "options", "target"), SIGMOIDS)
def test_few_sigmoids_reach_the_target(text, low, high, heads, options, target):
    c = curve(text, low, high)
    fit = ap.fit_sigmoids(c, heads, **options)
    assert fit.heads == heads
    assert fit.error <= target
    noise = 4 * fit.rounding(c.reach)  # the measurement is in floats
    found = measured(c, fit)
    assert found - noise <= fit.error <= 1.03 * (found + noise)
    assert noise <= 0.1 * fit.error or fit.error < 1e-14
    if options is BARE:
        assert fit.slope == 0.0
        assert all(term.slope == 0.0 for term in fit.terms)


def test_the_hardest_reciprocal():
    c = curve("1/x", 0.01, 1.0)
    assert ap.sigmoids_for(c, 1e-4).heads <= 7
    assert ap.sigmoids_for(c, 1e-4, **BARE).heads <= 9


def test_short_formats_get_small_coefficients():
    c = curve("1/x", 0.1, 1.0)
    fit = ap.fit_sigmoids(c, 3, format=FLOAT32)
    assert fit.error <= 0.01
    assert fit.rounding(c.reach, FLOAT32) <= 0.1 * fit.error
    assert fit.rounding(c.reach, FLOAT32) < ap.fit_sigmoids(c, 3).rounding(c.reach, FLOAT32)


def test_sigmoids_are_remembered_and_repeatable():
    one, two = curve("log(x)", 1.0, 2.0), curve("log(x)", 1.0, 2.0)
    assert one == two
    assert ap.fit_sigmoids(one, 2) is ap.fit_sigmoids(two, 2)
    fresh = ap.Curve(one.value, one.ball, 1.0, 2.0)
    assert fresh != one
    assert ap.fit_sigmoids(fresh, 2) == ap.fit_sigmoids(one, 2)


def test_sigmoids_for_takes_the_fewest_or_says_what_was_reached():
    c = curve("exp(x)", 0.0, 1.0)
    assert ap.sigmoids_for(c, 0.2).heads == 0
    assert ap.sigmoids_for(c, 1e-6).heads == 2
    with pytest.raises(PrecisionError, match=r"2 heads bring .* within .*e-10"):
        ap.sigmoids_for(c, 1e-12, most=2)
    with pytest.raises(RequestError, match="positive"):
        ap.sigmoids_for(c, -1.0)


# --- anchors --------------------------------------------------------------------------------------

ANCHORS = [
    ("exp(x)", 0.0, 1.0, 8, 1e-8),
    (T5, -1.0, 1.0, 12, 8.7e-7),
    ("sin(x)/(1 + x**2)", -2.0, 2.0, 17, 1e-5),
    ("1/x", 0.1, 1.0, 25, 1e-5),
    ("sqrt(x)", 0.0, 1.0, 8, 2e-2),
]


@pytest.mark.parametrize(("text", "low", "high", "count", "target"), ANCHORS)
def test_one_head_over_anchors(text, low, high, count, target):
    c = curve(text, low, high)
    fit = ap.fit_anchors(c, count)
    assert len(fit.anchors) == count
    spacing = np.diff([Fraction(e) for e in fit.anchors])
    assert (spacing == spacing[0]).all()
    found, noise = measured(c, fit), 1e-14 * np.abs(fit.values).max()
    assert found - noise <= fit.error <= min(target, 1.03 * found + noise)


def test_anchors_for_an_error():
    c = curve("exp(x)", 0.0, 1.0)
    fit = ap.anchors_for(c, 1e-6)
    assert fit.error <= 1e-6
    assert len(fit.anchors) <= 8
    with pytest.raises(PrecisionError, match="anchors"):
        ap.anchors_for(curve("sqrt(x)", 0.0, 1.0), 1e-6, most=8)
    with pytest.raises(RequestError, match="two or more"):
        ap.fit_anchors(c, 1)


# --- universality ---------------------------------------------------------------------------------


@pytest.mark.parametrize("theta", [4.0, 9.0, 16.0])
def test_the_mean_distance_is_bounded_and_nearly_attained(theta):
    """Half-way between two anchors the nearest are at D/2, and all others are farther."""
    anchors, spacing = np.arange(-20.0, 21.0) * 0.25, 0.25
    coldness = theta / spacing**2
    x = np.linspace(anchors[0] - spacing / 2, anchors[-1] + spacing / 2, 20_001)
    mean = (weights(x, anchors, coldness) * np.abs(x[:, None] - anchors)).sum(axis=1)
    bound = ap.mean_distance(spacing, coldness)
    assert mean.max() <= bound * (1 + 1e-14)
    assert mean.max() >= spacing / 2
    assert bound <= spacing * (0.5 + 1.15 * exp(-theta / 2)) * (1 + 1e-12)
    with pytest.raises(RequestError, match="4 or more"):
        ap.mean_distance(1.0, 3.9)


def test_a_grid_keeps_its_promise_for_a_zigzag():
    """A zigzag that vanishes at all anchors of an axis loses L D/2 there: close to the bound."""
    fit = ap.grid_for([0.0, -1.0], [1.0, 1.0], [2.0, 1.0], 0.2)
    points = fit.points()
    assert len(points) == fit.count == np.prod([n for _, _, n in fit.axes])
    assert fit.error <= 0.2

    def f(p: np.ndarray) -> np.ndarray:
        total = np.zeros(len(p))
        for i, slope in enumerate((2.0, 1.0)):
            first, spacing, _ = fit.axes[i]
            phase = (p[:, i] - first) / spacing
            total = total + slope * spacing * np.abs(phase - np.round(phase))
        return total

    x = np.random.default_rng(0).uniform([0.0, -1.0], [1.0, 1.0], (4000, 2))
    corner = np.array([first + 0.5 * spacing for first, spacing, _ in fit.axes])
    x = np.concatenate([x, corner[None]])
    scores = fit.coldness * (x @ points.T - 0.5 * (points**2).sum(axis=1))
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    error = np.abs(p @ f(points) / p.sum(axis=1) - f(x))
    assert 0.98 * fit.error <= error.max() <= fit.error


@pytest.mark.parametrize("loads", [(3.3, 7.1), (0.4, 5.0), (2.2, 0.0), (1.3, 1.7, 2.9)])
def test_grids_are_as_small_as_integers_allow(loads):
    """Against all grids up to 40 to a side."""
    error = 0.01
    unit = ap.mean_distance(1.0, 16.0)
    fit = ap.grid_for(
        [0.0] * len(loads), [1.0] * len(loads), [x * error / unit for x in loads], error
    )
    sizes = np.meshgrid(*[np.arange(1, 41)] * len(loads))
    fits = sum(load / size for load, size in zip(loads, sizes, strict=True)) <= 1 - 1e-6
    assert fit.count == np.prod(sizes, axis=0)[fits].min()


def test_absurd_grids_cost_nothing():
    fit = ap.grid_for([0.0] * 3, [1.0] * 3, [1.0] * 3, 1e-9)
    assert fit.count > 10**27
    with pytest.raises(PrecisionError, match="float64"):
        ap.grid_for([1e6], [1e6 + 1], [1.0], 1e-12)
    with pytest.raises(DomainError, match="one to three"):
        ap.grid_for([0.0] * 4, [1.0] * 4, [1.0] * 4, 0.1)


# --- curves ---------------------------------------------------------------------------------------


def test_a_curve_of_an_expression_agrees_with_itself():
    c = curve("exp(x)*sin(x) + 2", -1.0, 1.0)
    x = 0.375
    ball = c.ball(flint.arb(x))
    assert abs(float(ball.mid()) - c.at(x)) < 1e-14
    series = c.ball(flint.arb_series([flint.arb(x), 1], prec=3))
    second = c.second(Interval(np.array([x]), np.array([x])))
    assert second.lo[0] - 1e-12 <= 2 * float(series[2].mid()) <= second.hi[0] + 1e-12
    constant = curve("2", 0.0, 1.0)
    assert constant.at(np.zeros(3)).tolist() == [2.0] * 3
    assert ap.fit_knots(constant, 1e-3).pieces == 1
    assert curve("abs(x)", -1.0, 1.0).second is None


def test_a_curve_without_a_bound_at_its_end_is_given_up_at_once():
    """Rounded outward, [1, 3] reaches below 1, where log is negative and no box has a bound."""
    root, looked_at = curve("sqrt(log(x))", 1.0 - 2.0**-50, 3.0), []

    def noted(x):
        looked_at.append(x)
        return root.ball(x)

    found, proved = ap.supremum(noted, root.low, root.high)
    assert (found > 1.0, proved) == (True, inf)
    assert len(looked_at) < 1000
    with pytest.raises(PrecisionError, match="no bound up to an end"):
        ap.sigmoids_for(root, 1e-3)
