"""Guards of contests, names and rows, each against its own law over the rationals."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from flint import arb, fmpq

from hardmax.checker.boxes import SmallBoxes, pose
from hardmax.checker.forms import ONE, Gradient, Graph, constant, excess, is_defined, rational
from hardmax.checker.steps import _contests, _rows, _validate
from hardmax.checker.steps._contests import (
    Contest,
    Tokens,
    _contenders,
    _handicapped,
    _soft,
    _weights_of,
    flattened,
    hold_contest,
)
from hardmax.checker.steps._deviations import Deviations, of_maximum
from hardmax.checker.steps._partners import Partners
from hardmax.checker.steps._rows import Rejected, Row, RowBoxes, movement, slopes_of
from hardmax.checker.steps._validate import Validation
from hardmax.checker.steps._verified import Verified
from hardmax.numerics import STEP, UNIT, Interval, exact, precision

RNG = np.random.default_rng
ALMOST = 1 + 50 * Fraction(UNIT)


def mild(rng, *shape):
    """Either sign, all digits, between 1/2 and 2."""
    return rng.uniform(0.5, 2.0, shape) * rng.choice([-1.0, 1.0], shape)


def sizes(rng, *shape):
    return np.abs(mild(rng, *shape))


def is_close_above(found, truth):
    """Not below the exact number, and only roundings above it."""
    return truth <= Fraction(found) <= truth * ALMOST


# ---- deviations --------------------------------------------------------------------------------


def test_ends_are_rounded_outward_where_the_mean_dwarfs_the_radius():
    rng = RNG(0)
    d = Deviations(mild(rng, 300), np.zeros((300, 0)), sizes(rng, 300) * 1e-6)
    assert (exact(d.low) <= exact(d.mean) - exact(d.radius)).all()
    assert (exact(d.high) >= exact(d.mean) + exact(d.radius)).all()


def test_a_rectifier_passes_half_of_the_noise_on():
    """Of d and 0 both hulls are equally wide: rounding must not decide against the noise."""
    rng = RNG(1)
    d = Deviations(np.zeros(300), mild(rng, 300, 5), np.zeros(300))
    found = of_maximum([d, Deviations.none(300)], np.ones((2, 300), bool))
    assert (found.noise == d.noise / 2).all()


def test_a_maximum_of_one_passes_a_small_noise_on():
    """The hull is a little narrower, because less was rounded: not for that is noise given up."""
    rng = RNG(12)
    d = Deviations(mild(rng, 100), mild(rng, 100, 5) * 1e-3, sizes(rng, 100))
    assert (of_maximum([d], np.ones((1, 100), bool)).noise == d.noise).all()


def test_names_reach_as_far_as_the_ends_of_their_deviations():
    rng = RNG(2)
    for low, high, mean in zip(*np.sort(mild(rng, 3, 200), axis=0), strict=True):
        verified = Verified(Graph())
        deviation = Deviations(np.array([mean]), np.zeros((1, 0)), np.array([0.3]))
        (atom,) = verified.variable((float(low), float(high)), deviation).atoms
        ends = verified.graph.bounds[atom]
        reach = Fraction(float(deviation.low[0])), Fraction(float(deviation.high[0]))
        assert Fraction(ends[0]) <= Fraction(low) + min(reach[0], 0)
        assert Fraction(ends[1]) >= Fraction(high) + max(reach[1], 0)


def test_what_a_contest_falls_short_of_is_halved_about_its_middle(monkeypatch):
    rng = RNG(3)
    asked = []
    plain = Deviations.shifted

    def spying(self, middle, radius):
        asked.append((middle, radius))
        return plain(self, middle, radius)

    monkeypatch.setattr(Deviations, "shifted", spying)
    for gap, stray in sizes(rng, 200, 2).tolist():
        contest = Contest((constant(ONE),), ((0.0, 0.0),), gap, stray, False)
        Verified(Graph()).of_contests([contest])
        middle, radius = asked[-1]
        assert middle[0] == -0.5 * gap
        assert is_close_above(float(radius[0]), Fraction(stray) + Fraction(gap) / 2)


# ---- contests ----------------------------------------------------------------------------------


def weighing(monkeypatch, weight):
    monkeypatch.setattr(_contests, "_weights_of", lambda behind: weight if behind else 0.0)


def test_leaks_are_products_rounded_up(monkeypatch):
    """Whatever the beaten tokens weigh: that times the spread of all, and the factor."""
    rng = RNG(4)
    for weight, c, low, high in sizes(rng, 200, 4).tolist():
        weighing(monkeypatch, weight)
        graph = Graph()
        x, held = graph.variable(-low, high), graph.variable(0.0, 3.0 * high)
        values = (x, held)
        far = x - constant(fmpq(50))
        factor = fmpq(rational(c).p, 3 * rational(c).q)
        found = _soft(graph, constant(ONE), factor, (x, far), values)
        ends = [graph.range(v) for v in values]
        wide = max(Fraction(b) for _, b in ends) - min(Fraction(a) for a, _ in ends)
        exactly = Fraction(weight) * wide * Fraction(c) / 3
        assert is_close_above(found.leak, exactly)
        ranges = [(0.1, high), (-60.0 - low, -60.0)]
        alive, leak = _contenders(ranges, Tokens((), 2.0, 0.0))
        assert alive == [0]
        assert is_close_above(leak, Fraction(weight) * (Fraction(high) - Fraction(ranges[1][0])))


def test_weights_are_added_up_from_above(monkeypatch):
    rng = RNG(5)
    for count in (2, 5, 20):
        monkeypatch.setattr(_contests, "exp", lambda x: Interval(x.lo, -x.hi))
        for _ in range(20):
            weights = sizes(rng, count)
            assert is_close_above(_weights_of(weights), sum(exact(weights).tolist()))


def test_handicaps_lose_nothing_of_what_logits_are_off_by(monkeypatch):
    """How far behind they are is asked with 4 d less, and the stray is d and half a leak."""
    rng = RNG(6)
    asked = []

    def behind(best, other, cold, less):
        asked.append(Fraction(less))
        return 50.0

    monkeypatch.setattr(_contests, "_behind", behind)
    cases = sizes(rng, 300, 4)
    cases[:, 0] *= np.where(np.arange(300) % 2, 1e-3, 1e-15)  # a leak, or next to none
    for weight, cold, top, off in cases.tolist():
        weighing(monkeypatch, weight)
        graph = Graph()
        x, low = graph.variable(1.0, 2.0), graph.variable(-3.0, -2.0)
        middle = float(-60.0 - sizes(rng, 1)[0])
        strays = [
            (top * 1e-4 - off * 1e-5, top * 1e-4 + off * 1e-5),
            (middle - off * 1e-4, middle + off * 1e-4),
        ]
        found = _handicapped(graph, x, (x + x, low), strays, cold)
        middles = [0.5 * (a + b) for a, b in strays]
        best = max(middles)
        shift = middles[1] - best
        ends = [(0.0, 0.0, min(-best, 0.0)), (*strays[0], 0.0), (*strays[1], shift)]
        exactly = max(
            abs(Fraction(end) - Fraction(best) - Fraction(s)) for a, b, s in ends for end in (a, b)
        )
        assert Fraction(shift) + 4 * exactly <= asked[-1]
        assert asked[-1] <= Fraction(shift) + 4 * exactly + 64 * Fraction(UNIT)  # one ulp
        spread = [graph.range(form) for form in (x, x + x, low)]
        wide = max(Fraction(b) for _, b in spread) - min(Fraction(a) for a, _ in spread)
        leaks = Fraction(cold) * Fraction(weight) * wide / 2
        assert is_close_above(found.stray, exactly + leaks)


def test_what_has_no_bounds_is_no_handicap():
    graph = Graph()
    x, low = graph.variable(1.0, 2.0), graph.variable(-3.0, -2.0)
    assert _handicapped(graph, x, (low,), [(-60.0, -60.0)], 1.0) is not None
    for unknown in (math.inf, math.nan):
        assert _handicapped(graph, x, (low,), [(-60.0, unknown)], 1.0) is None
    wide = graph.variable(-math.inf, -2.0)
    assert _handicapped(graph, x, (wide,), [(-60.0, -60.0)], 1.0) is None
    assert _handicapped(graph, x, (low, wide), [(-60.0, -60.0), (0.0, 0.0)], 1.0) is None


def test_leaves_of_three_maxima_fall_short_by_both_inner_ones(monkeypatch):
    """The two maxima inside of the outermost add up, for the leaves of the innermost."""
    rng = RNG(7)
    for inner, outer in sizes(rng, 100, 2).tolist():
        graph = Graph()
        x, y, z = (graph.variable(-1.0, 1.0) for _ in range(3))
        first = graph.relu(x)
        second = graph.relu(first + y)
        third = graph.relu(second + z)
        ((atom, c),) = third.terms.items()

        def gap(tokens, count):
            if count == 1:
                return 0.0, 0.0
            return (outer if tokens.falls else inner), 0.0  # noqa: B023

        monkeypatch.setattr(_contests, "_gap", gap)
        found = flattened(graph, constant(fmpq(0)), [(atom, c)])
        falls = dict(zip(found.forms, found.falls, strict=True))
        assert is_close_above(falls[x + y + z], Fraction(inner) + Fraction(outer))
        assert is_close_above(falls[y + z], Fraction(inner) + Fraction(outer))
        assert is_close_above(falls[z], Fraction(outer))


class Plainly:
    """The target's values: its own variables, in the graph's own ranges."""

    def __init__(self, graph):
        self.graph = graph

    def form(self, form):
        return form

    def range(self, form):
        return self.graph.range(form)


def test_a_contest_charges_strays_leaks_and_an_excess(monkeypatch):
    """max(x, -x) against max(x, -x, e): the constant leads by e where x = 0."""
    rng = RNG(8)
    for stray, leak, over in sizes(rng, 200, 3).tolist():
        graph = Graph()
        x = graph.variable(-1.0, 1.0)
        ours, theirs = Tokens((x, -x)), Tokens((x, -x, constant(rational(1e-12))))
        monkeypatch.setattr(_contests, "_contenders", lambda *_: ([0, 1], leak))  # noqa: B023
        monkeypatch.setattr(_contests, "_gap", lambda *_: (0.0, stray))  # noqa: B023
        with monkeypatch.context() as patch:
            patch.setattr(_contests, "excess", lambda *_: over * 1e-10)  # noqa: B023
            found = hold_contest(graph, ours, theirs, Plainly(graph))
        exactly = Fraction(stray) + Fraction(leak) + Fraction(over * 1e-10)
        assert is_close_above(found.stray, exactly)
    assert hold_contest(graph, ours, theirs, Plainly(graph)).stray >= stray + leak
    large = replace(theirs, forms=(x, -x, constant(rational(1e-3))))
    assert hold_contest(graph, ours, large, Plainly(graph)) is None


def test_rectifiers_go_to_all_that_are_equally_close():
    """Distances that differ by rounding alone are equal; others are not."""
    for near, far in ((0.0, 1e-13), (0.5, 0.5 + 2e-10)):
        for apart, both in ((far, True), (far + 1e-6, False)):
            graph = Graph()
            x = graph.variable(-1.0, 1.0)
            (partner,) = graph.relu(x).atoms
            ours = [
                graph.gate(x + constant(rational(d)), x + constant(rational(d)))
                for d in (near, apart)
            ]
            atoms = [max(form.atoms) for form in ours]
            found = Partners(graph, [partner]).matches(atoms, Plainly(graph))
            assert found[atoms[0]].partner == partner
            match = found.get(atoms[1])
            assert (match is not None and match.partner == partner) is both


# ---- rows --------------------------------------------------------------------------------------


def test_second_order_terms_are_added_up_from_above(monkeypatch):
    rng = RNG(9)
    for d, e, *ends in sizes(rng, 100, 6).tolist():
        graph = Graph()
        x, y = graph.variable(-1.0, 1.0), graph.variable(-1.0, 1.0)
        form = graph.apply("exp", x + y.scaled(fmpq(2)))
        given = iter(ends)
        monkeypatch.setattr(graph, "range", lambda _: (-0.1, next(given)))  # noqa: B023
        shares, second = movement(graph, form, {0: d, 1: e})
        pairs = [(d, d), (d, e), (e, d), (e, e)]
        exactly = sum(
            Fraction(end) * Fraction(a) * Fraction(b) / 2
            for end, (a, b) in zip(ends, pairs, strict=True)
        )
        assert is_close_above(second, exactly)
        assert len(shares) == 2


def on_boxes(**methods):
    graph = Graph()
    boxes = RowBoxes(SmallBoxes(graph, None), Verified(graph))
    return SimpleNamespace(**{"small": boxes.small, "verified": boxes.verified} | methods)


ROW = Row(constant(ONE), constant(ONE), 1.0, "A row", lambda: None)


def test_both_orders_of_what_moves_are_added_up_from_above(monkeypatch):
    rng = RNG(10)
    for first, second in sizes(rng, 100, 2).tolist():
        monkeypatch.setattr(_rows, "movement", lambda *_: ([constant(ONE)], second))  # noqa: B023
        monkeypatch.setattr(_rows, "bound_by_cut", lambda *_, **__: first)  # noqa: B023
        found = RowBoxes._jointly(on_boxes(), replace(ROW, error=8.0))
        assert is_close_above(found, Fraction(first) + Fraction(second))


def test_a_row_may_lose_its_own_rounding_and_no_more():
    none = Deviations.none(1)

    def shown(found):
        return on_boxes(
            _carried=lambda _: none, _searched=lambda *_: found, _jointly=lambda _: found
        )

    assert RowBoxes.deviation(shown(1.0), ROW).size[0] >= 1.0
    with pytest.raises(Rejected, match="could be shown only within"):
        RowBoxes.deviation(shown(1.0 + 2.0**-39), ROW)


@pytest.mark.parametrize(("size", "is_fine"), [(1e-310, True), (1e-290, False)])
def test_a_row_without_error_may_lose_underflows_and_no_more(monkeypatch, size, is_fine):
    monkeypatch.setattr(_validate, "row_of", lambda *_: replace(ROW, error=0.0))
    found = Deviations(np.zeros(1), np.zeros((1, 0)), np.array([size]))
    state = SimpleNamespace(
        sides=None,
        _written_out=None,
        deviation=lambda _: found,
        _renamed=lambda row: row,
        _is_plain=lambda row: True,
        verified=Verified(Graph()),
    )
    holding = SimpleNamespace(errors=np.zeros(1))
    if is_fine:
        Validation.check(state, holding)
    else:
        with pytest.raises(Rejected, match="The witness says that A row within 0"):
            Validation.check(state, holding)


def test_a_step_of_unbounded_slope_is_rejected():
    graph = Graph()
    root = graph.apply("sqrt", graph.variable(0.0, 1.0))
    with pytest.raises(Rejected, match="unbounded"):
        slopes_of(pose(graph, root, math.inf))


def validating(graph):
    verified = Verified(graph)
    state = SimpleNamespace(graph=graph, verified=verified, truth=verified.truth, our_names={})
    state._call_ours = lambda atom, form: state.our_names.__setitem__(atom, form)
    return state


def test_crumbs_below_256_ulps_of_the_largest_term_are_swept_together():
    graph = Graph()
    state = validating(graph)
    names = [graph.variable(-1.0, 1.0) for _ in range(5)]
    crumbs = sum((name.scaled(rational(200.0 * STEP)) for name in names[2:]), names[0])
    swept = Validation._swept(state, crumbs)
    assert len(swept.atoms) == 2
    assert 0 in swept.atoms
    low, high = graph.range(swept - names[0])
    assert low <= -600.0 * STEP
    assert high >= 600.0 * STEP
    larger = sum((name.scaled(rational(300.0 * STEP)) for name in names[2:]), names[0])
    assert Validation._swept(state, larger) is larger


def test_crumbs_without_bounds_are_not_swept():
    graph = Graph()
    state = validating(graph)
    wide = sum((graph.variable(-math.inf, math.inf) for _ in range(3)), graph.variable(0.0, 1.0))
    assert Validation._swept(state, wide) is wide


def test_leaks_below_a_billionth_of_a_row_s_error_are_crumbs():
    graph = Graph()
    x = graph.variable(0.0, 1.0)
    large, small = graph.apply("exp", x), graph.apply("sin", x)
    row = replace(ROW, ours=large + small.scaled(rational(2.0**-31)) + x.scaled(rational(2.0**-40)))
    assert Validation._crumbs_of(validating(graph), row) == list(small.atoms)


def test_what_is_cut_off_at_0_reaches_up_by_what_its_argument_lacked(monkeypatch):
    """relu(P), P's true value being -over at least: from 0 to what P has, and over."""
    rng = RNG(11)
    asked = []
    plain = _validate.pair_between

    def spying(low, high):
        asked.append((low, high))
        return plain(low, high)

    monkeypatch.setattr(_validate, "pair_between", spying)
    for over, mean in zip((sizes(rng, 100) * 1e-13).tolist(), mild(rng, 100).tolist(), strict=True):
        graph = Graph()
        state = validating(graph)
        deviation = Deviations(np.array([mean]), np.zeros((1, 0)), np.array([0.3]))
        name = state.verified.variable((-1.0, 1.0), deviation)
        (atom,) = graph.relu(name).atoms
        state.truth = SimpleNamespace(range=lambda _: (-over, 1.0), set=lambda *_: None)  # noqa: B023
        old = state.verified.combined(graph.atoms[atom].argument)
        assert Validation._copy(state, atom)
        low, high = asked[-1]
        assert low[0] == min(old.low[0], 0.0)
        top = max(Fraction(float(old.high[0])), 0)
        assert is_close_above(float(high[0]), top + Fraction(over))


# ---- forms -------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [-math.inf, math.inf, math.nan])
def test_values_with_an_infinite_end_are_not_defined(end):
    fine = SimpleNamespace(lo=np.zeros(2), hi=np.ones(2))
    assert is_defined([fine, fine])
    for lo, hi in (([0.0, end], [1.0, 1.0]), ([0.0, 0.0], [end, 1.0])):
        assert not is_defined([fine, SimpleNamespace(lo=np.array(lo), hi=np.array(hi))])


def test_a_form_without_bounds_exceeds_by_what_its_difference_says():
    """No weights are sought where a variable is unbounded."""
    graph = Graph()
    x = graph.variable(-math.inf, math.inf)
    ranges = {1: (-1.0, 0.5), 0: (-math.inf, math.inf)}
    found = excess(x, [x - constant(ONE)], lambda form: ranges[int(form.is_constant)])
    assert found == 0.5


def test_the_slope_of_a_gate_has_both_of_its_terms():
    """(s(x) (2 x + 1))' = 2 s(x) + s(x) (1 - s(x)) (2 x + 1), at points that are ranges."""
    for at in (-1.5, 0.25, 2.0):
        graph = Graph()
        x = graph.variable(at, at)
        gate = graph.gate(x, x.scaled(fmpq(2)) + constant(ONE))
        low, high = graph.range(Gradient(graph, 0).form(gate))
        with precision(200):
            share = 1 / (1 + (-arb(at)).exp())
            slope = 2 * share + share * (1 - share) * (2 * arb(at) + 1)
            assert arb(low) < slope < arb(high)
        assert high - low < 1e-12


def test_leaks_of_a_coordinate_are_one_variable_and_equal_leaks_stay_equal():
    graph = Graph()
    state = validating(graph)
    state.leak, state._leaks = 1e-9, {}
    x = graph.variable(0.0, 1.0)
    small = [graph.apply("exp", x.scaled(rational(float(k)))) for k in range(1, 5)]
    leaks = sum(
        (atom.scaled(rational(1e-12)) for atom in small[1:]), small[0].scaled(rational(1e-12))
    )
    joined = Validation._without_leaks(state, x + leaks)
    assert len(joined.atoms) == 2
    low, high = graph.range(joined - x)
    assert low <= 0.0
    assert high >= 1e-12 * sum(math.exp(k) for k in range(1, 5))
    assert Validation._without_leaks(state, x + leaks) == joined
    larger = x + leaks.scaled(rational(1e6))
    assert Validation._without_leaks(state, larger) is larger
    state.leak = 0.0
    assert Validation._without_leaks(state, x + leaks) == x + leaks
