"""Each outward step of the boxes and forms: taken away, one of these tests goes red."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, fmpq

from hardmax.checker._budget import Budget, Clock
from hardmax.checker.boxes import _cuts, _small_box
from hardmax.checker.boxes._bank import FAINT_WEIGHT, FAR, AffineRows, Bank, hull
from hardmax.checker.boxes._compile_tape import Problem, _facets
from hardmax.checker.boxes._few_variables import Tidier
from hardmax.checker.boxes._jets import Jet, Shape
from hardmax.checker.boxes._large_mean import LargeMean
from hardmax.checker.boxes._search import Search
from hardmax.checker.boxes._tape import (
    Linear,
    Step,
    Tape,
    Twin,
    _chunk,
    _parabola,
    run,
    tightened,
    upper_bound,
)
from hardmax.checker.forms import ONE, Bounds, Form, Graph, constant, rational
from hardmax.checker.forms._atoms import mean_range
from hardmax.checker.forms._written_out import TargetForms
from hardmax.numerics import UNIT, Interval, exact, precision, up
from hardmax.testing import full_floats

RNG = np.random.default_rng


def signed(rng, *shape):
    return full_floats(rng, *shape) * rng.choice([-1.0, 1.0], shape)


def mild(rng, *shape):
    """Either sign, all digits, between 1/2 and 2: nothing dwarfs what is rounded."""
    return rng.uniform(0.5, 2.0, shape) * rng.choice([-1.0, 1.0], shape)


def outside(middle, radius, *values):
    """How many exact values lie further from the middle than the radius."""
    middle, radius = exact(middle), exact(radius)
    return sum(int((abs(value - middle) > radius).sum()) for value in values)


# ---- forms over slots --------------------------------------------------------------------------


def test_the_reach_of_a_box_is_measured_from_its_float_middle():
    rng = RNG(0)
    low = mild(rng, 2, 500)
    high = low + full_floats(rng, 2, 500) * 1e-3
    tape = Tape(2, (), Linear((0,), (1.0,), 0.0))
    twin, reach = run(tape, low, high)
    middle = exact(0.5 * low + 0.5 * high)
    assert (exact(reach) >= exact(high) - middle).all()
    assert (exact(reach) >= middle - exact(low)).all()
    assert not outside(*twin.box.value, exact(low[0]), exact(high[0]))


@pytest.mark.parametrize("terms", [1, 2, 7])
def test_sums_of_jets_hold_the_exact_sum(terms):
    """Coefficients are floats near the exact ones: the worst is half an ulp away, each."""
    rng = RNG(1)
    low = mild(rng, terms, 400)
    tape = Tape(
        terms, (), Linear(tuple(range(terms)), tuple(mild(rng, terms)), float(mild(rng, 1)[0]))
    )
    for sign in (-1, 1):
        twin, _ = run(tape, low, low)
        total = Fraction(tape.answer.constant) * (1 + sign * Fraction(UNIT))
        for c, row in zip(tape.answer.coefficients, low, strict=True):
            total = total + Fraction(c) * (1 + sign * Fraction(UNIT)) * exact(row)
        assert not outside(*twin.centre.value, total)


def test_a_rounded_sum_is_widened_by_its_own_roundings_and_little_more():
    tape = Tape(1, (), Linear((0,), (1.0,), 0.0))
    _, radius = run(tape, np.ones((1, 1)), np.ones((1, 1)))[0].centre.value
    assert 3 * UNIT <= radius[0] <= 3.01 * UNIT


def _twin(rng, boxes, k=2):
    one, two = Shape(k, 1), Shape(k, 2)
    centre = Jet(mild(rng, one.components, boxes), np.abs(mild(rng, one.components, boxes)), one)
    box = Jet(mild(rng, two.components, boxes), np.abs(mild(rng, two.components, boxes)), two)
    return Twin(centre, box), np.abs(mild(rng, k, boxes))


def _first_order(jet, reach, start):
    slopes = abs(exact(jet.slopes[0])) + exact(jet.slopes[1])
    return start + (slopes * exact(reach)).sum(axis=0)


def _second_order(twin, reach, start):
    total = _first_order(twin.centre, reach, start)
    i, j = twin.box.shape.pairs
    share = np.where(i == j, Fraction(1, 2), Fraction(1))[:, None]
    turns = abs(exact(twin.box.curvatures[0])) + exact(twin.box.curvatures[1])
    return total + (turns * share * exact(reach[i]) * exact(reach[j])).sum(axis=0)


def test_values_from_slopes_are_not_narrower_than_over_the_rationals():
    twin, reach = _twin(RNG(2), 600)
    wide = Jet(twin.box.mid, twin.box.rad.copy(), twin.box.shape)
    wide.rad[0] = 1e6
    found = tightened(twin.centre, wide, reach).rad[0]
    start = exact(twin.centre.rad[0])
    best = np.minimum(
        _first_order(wide, reach, start), _second_order(Twin(twin.centre, wide), reach, start)
    )
    assert (exact(found) >= best).all()
    wide.rad[0] = np.nan
    assert np.isinf(tightened(twin.centre, wide, reach).rad[0]).all()
    nothing = Jet(twin.box.mid, np.full_like(twin.box.rad, np.nan), twin.box.shape)
    unknown = Jet(twin.centre.mid, np.full_like(twin.centre.rad, np.nan), twin.centre.shape)
    assert np.isinf(tightened(unknown, nothing, reach).rad[0]).all()


def test_the_upper_bound_is_not_below_its_formula_over_the_rationals():
    twin, reach = _twin(RNG(3), 600)
    bound = exact(upper_bound(twin, reach))
    value = abs(exact(twin.box.mid[0])) + exact(twin.box.rad[0])
    start = abs(exact(twin.centre.mid[0])) + exact(twin.centre.rad[0])
    sloped = _first_order(twin.box, reach, start)
    i, j = twin.box.shape.pairs
    own, off = i == j, i != j
    turns = exact(twin.box.curvatures[0]), exact(twin.box.curvatures[1])
    steep = abs(exact(twin.centre.slopes[0])) + exact(twin.centre.slopes[1])
    crossed = ((abs(turns[0]) + turns[1])[off] * (exact(reach[i]) * exact(reach[j]))[off]).sum(
        axis=0
    )
    sides = []
    for sign in (1, -1):
        bend = sign * turns[0][own] + turns[1][own]
        rises = [
            _parabola_exactly(*v)
            for v in zip(steep.ravel(), bend.ravel(), exact(reach).ravel(), strict=True)
        ]
        total = np.array(rises, dtype=object).reshape(steep.shape).sum(axis=0)
        sides.append(sign * exact(twin.centre.mid[0]) + total + crossed)
    curved = np.maximum(*sides) + exact(twin.centre.rad[0])
    assert (bound >= np.minimum(np.minimum(value, sloped), curved)).all()


def _parabola_exactly(steep, bend, reach):
    if bend * reach < -steep:
        return steep * steep / (2 * -bend)
    return steep * reach + bend * reach * reach / 2


def test_a_parabola_that_turns_inside_is_bounded_by_its_top():
    assert _parabola(np.array([2.0]), np.array([-4.0]), np.array([9.0]))[0] == 0.5
    assert _parabola(np.array([2.0]), np.array([4.0]), np.array([3.0]))[0] == 24.0


def test_what_is_said_of_a_point_is_not_above_the_exact_value():
    """|f| at the middle, from below: a point whose sum is rounded up must not be believed."""
    rng = RNG(4)
    low = mild(rng, 3, 500)
    tape = Tape(3, (), Linear((0, 1, 2), (1.0, 1.0, 1.0), 0.0))
    seen = _chunk(tape, low, low)
    truth = abs(exact(low).sum(axis=0))
    assert (exact(seen.least) <= truth).all()
    assert (exact(seen.most) >= truth).all()
    square = Tape(3, (), Linear((0,), (1.0,), 0.0))
    assert (exact(_chunk(square, low, low).least) <= abs(exact(low[0]))).all()


def test_unknown_jets_are_bounded_by_nothing():
    tape = Tape(1, (Step("log", (Linear((0,), (1.0,), 0.0),)),), Linear((1,), (1.0,), 0.0))
    seen = _chunk(tape, np.array([[-1.0]]), np.array([[1.0]]))
    assert seen.most[0] == math.inf
    assert seen.least[0] == 0.0


# ---- many atoms at once ------------------------------------------------------------------------


def _wide(rng, rows, k):
    return (
        AffineRows(mild(rng, rows, k), mild(rng, rows)),
        mild(rng, k, 60),
        np.abs(mild(rng, k, 60)),
    )


@pytest.mark.parametrize("k", [1, 3])
def test_rows_of_affine_maps_hold_the_exact_ends(k):
    affine, middle, reach = _wide(RNG(5), 40, k)
    mid, rad = affine.on(np.arange(40)[:, None], middle, reach)
    worst = 1 + Fraction(UNIT)
    at = exact(affine.slopes) @ exact(middle) + exact(affine.offsets)[:, None]
    wide = abs(exact(affine.slopes)) @ exact(reach) * worst
    assert not outside(mid, rad, at + wide, at - wide)
    none = 0.0 * reach
    mid, rad = affine.on(np.arange(40)[:, None], middle, none)
    assert not outside(mid, rad, at * worst, at)
    far = max(
        (
            abs(exact(affine.slopes)) @ (abs(exact(middle)) + exact(reach)).max(axis=1)
            + abs(exact(affine.offsets))
        ).tolist()
    )
    lost = 1 + (k + 3) * Fraction(UNIT)
    assert far / lost <= Fraction(affine.largest(middle, reach)) <= far * lost


def test_slopes_of_rounded_rows_are_off_by_half_an_ulp():
    affine, middle, reach = _wide(RNG(6), 20, 2)
    jet = affine.jet(np.arange(20)[:, None] + np.zeros((1, 60), int), middle, reach, 1)
    slopes = exact(jet.slopes[0])
    assert not outside(*jet.slopes, slopes * (1 + Fraction(UNIT)), slopes * (1 - Fraction(UNIT)))


def test_a_hull_of_boxes_holds_them_all():
    _, middle, reach = _wide(RNG(7), 1, 3)
    for count in range(1, 60):
        centre, around = hull(middle[:, :count], reach[:, :count])
        ends = (
            exact(middle[:, :count]) - exact(reach[:, :count]),
            exact(middle[:, :count]) + exact(reach[:, :count]),
        )
        assert not outside(centre, around, *ends)


@pytest.mark.parametrize("is_hard", [True, False])
def test_banks_of_open_gates_hold_the_exact_sum(is_hard):
    """All gates open: the bank is a sum of its values, and of what leaks if it is soft."""
    rng = RNG(8)
    values = AffineRows(mild(rng, 30, 2), mild(rng, 30))
    logits = AffineRows(np.zeros((30, 2)), np.full(30, 200.0))
    if is_hard:
        logits = AffineRows(values.slopes.copy(), np.full(30, 200.0))
        values = AffineRows(values.slopes, np.full(30, 200.0))
    low = rng.uniform(-1.0, 1.0, (2, 50))
    tape = Tape(2, (Bank(logits, values, is_hard),), Linear((2,), (1.0,), 0.0))
    twin, _ = run(tape, low, low)
    total = (exact(values.slopes) @ exact(low) + exact(values.offsets)[:, None]).sum(axis=0)
    mid, rad = twin.centre.value
    assert not outside(mid, rad, total)
    one = Fraction(UNIT) * sum(abs(exact(values.offsets)).tolist())
    assert not outside(mid, rad, total + one, total - one)
    slopes = exact(values.slopes).sum(axis=0)[:, None] + 0 * exact(low)
    assert not outside(*twin.centre.slopes, slopes)


def test_what_leaks_from_settled_gates_and_tokens_is_charged_from_above():
    with precision(200):
        left = (-arb(FAR)).exp()
        assert arb(FAINT_WEIGHT) > left
        assert arb(FAINT_WEIGHT) < left * (1 + arb(1e-14))
    rng = RNG(9)
    seen = 0
    for _ in range(60):
        logits, values = (
            AffineRows(mild(rng, 7, 2), mild(rng, 7)),
            AffineRows(mild(rng, 7, 2), mild(rng, 7)),
        )
        middle, reach = mild(rng, 2, 5), np.abs(mild(rng, 2, 5))
        leak = Bank(logits, values, False)._leak(middle, reach, Shape(2, 2))
        share = 7 * Fraction(FAINT_WEIGHT)
        far = exact(np.abs(middle)).max(axis=1) * 0 + (exact(np.abs(middle)) + exact(reach)).max(
            axis=1
        )
        size = max((abs(exact(values.slopes)) @ far + abs(exact(values.offsets))).tolist())
        steep, rises = (
            2 * Fraction(np.abs(logits.slopes).max()),
            2 * Fraction(np.abs(values.slopes).max()),
        )
        assert Fraction(leak[0]) >= share * size
        assert Fraction(leak[1]) >= share * (steep * size + rises)
        assert Fraction(leak[3]) >= share * (steep**2 * size + 2 * steep * rises)
        seen += Fraction(leak[3]) > share * (steep**2 * size + 2 * steep * rises)
        mean = LargeMean(logits.slopes, logits.offsets, values.offsets)
        none = Jet(np.zeros((6, 1)), np.zeros((6, 1)), Shape(2, 2))
        found = mean._leaking(none, 2).rad[:, 0]
        share, spread = 55 * Fraction(FAINT_WEIGHT), 2 * Fraction(np.abs(values.offsets).max())
        assert Fraction(found[0]) >= share * spread
        assert Fraction(found[1]) >= 4 * share * spread * steep
        assert Fraction(found[3]) >= 16 * share * spread * steep**2
    assert seen


def test_logits_relative_to_the_winner_hold_the_exact_ones():
    rng = RNG(10)
    mean = LargeMean(mild(rng, 20, 2), mild(rng, 20), mild(rng, 20))
    middle, reach = mild(rng, 2, 50), np.abs(mild(rng, 2, 50))
    winner = rng.integers(0, 20, 50)
    for width in (reach, 0.0 * reach):
        mid, rad = mean._logits(np.arange(20)[:, None], winner, middle, width)
        slopes = exact(mean.slopes)[:, None, :] - exact(mean.slopes)[winner][None]
        at = (slopes * exact(middle).T[None]).sum(axis=2)
        at = at + exact(mean.offsets)[:, None] - exact(mean.offsets)[winner][None]
        wide = (abs(slopes) * exact(width).T[None]).sum(axis=2)
        assert not outside(mid, rad, at + wide, at - wide)


def test_a_mean_of_which_nothing_is_known_lies_between_its_rounded_values():
    rng = RNG(11)
    for _ in range(50):
        mean = LargeMean(mild(rng, 5, 1), mild(rng, 5), mild(rng, 5))
        jet = mean._unknown(np.zeros((1, 1)), 2)
        low, high = exact(mean.values).min(), exact(mean.values).max()
        worst = Fraction(UNIT) * max(abs(low), abs(high))
        assert not outside(jet.mid[0], jet.rad[0], low - worst, high + worst)


# ---- what a search leaves out ------------------------------------------------------------------


def test_no_box_that_meets_the_domain_s_image_is_left_out():
    """The zonotope's own vertices, as boxes between two floats, lie on its facets."""
    rng = RNG(12)
    for _ in range(20):
        graph = Graph()
        low, high = np.sort(mild(rng, 2, 4), axis=0)
        for a, b in zip(low, high, strict=True):
            graph.variable(float(a), float(b))
        rows = mild(rng, 2, 4)
        facets = _facets(rows, graph, [0, 1, 2, 3])
        assert facets
        corners = exact(np.where(rng.integers(0, 2, (64, 4)), low, high))
        image = corners @ exact(rows).T
        for normal, bottom, top in facets:
            along = image @ exact(normal)
            assert (along >= Fraction(bottom)).all()
            assert (along <= Fraction(top)).all()
        ends = np.array([[[float(v) for v in p]] * 2 for p in image]).transpose(1, 2, 0)
        ends = np.nextafter(ends[0], -np.inf), np.nextafter(ends[1], np.inf)
        keeping = _Keeping(facets)
        assert Search._inside(keeping, *ends)[0].shape[1] == 64


def test_what_was_left_aside_is_added_upwards():
    """|x| on a box around 1e-20, and 1 besides: more than 1; and all digits, either larger."""
    rng = RNG(14)
    for end, slack in [(1e-20, 1.0), *rng.uniform(0.5, 2.0, (100, 2))]:
        tape, low, high = Tape(1, (), Linear((0,), (1.0,), 0.0)), np.array([0.0]), np.array([end])
        problem = Problem(tape, low, high, float(slack), np.eye(1), (0,))
        found = Search(problem, Clock(Budget(boxes=100)), enough=4.0).run()
        assert Fraction(found.certified) >= Fraction(float(end)) + Fraction(float(slack))
        enough = up(end + slack)  # or a little more, which must be enough
        search = Search(problem, Clock(Budget(boxes=100)), enough=enough * (1.0 + 1e-12))
        assert search.run().certified <= enough * (1.0 + 1e-12)
        assert exact(np.array(search.enough)) + Fraction(float(slack)) <= Fraction(search.limit)


@dataclass
class _Problem:
    facets: tuple


class _Keeping:
    def __init__(self, facets):
        self.problem = _Problem(facets)


def test_boxes_that_touch_a_facet_are_kept():
    """A box whose best corner lies just on the facet, up to its own rounding."""
    rng = RNG(13)
    normal = mild(rng, 3)
    corner = mild(rng, 3, 400)
    along = exact(normal) @ exact(corner)
    for column, value in zip(corner.T, along, strict=True):
        bottom = (
            float(value) if Fraction(float(value)) <= value else math.nextafter(float(value), -9e99)
        )
        top = (
            float(value) if Fraction(float(value)) >= value else math.nextafter(float(value), 9e99)
        )
        for facet in ((normal, bottom, 1e9), (normal, -1e9, top)):
            assert Search._inside(_Keeping((facet,)), column[:, None], column[:, None])[0].size


def test_parts_add_up_exactly(monkeypatch):
    """Shifts of the parts that cancel: 1 and -1 + 2^-53 leave 2^-53, which floats forget."""

    @dataclass
    class Found:
        certified: float
        boxes: int = 1
        is_complete: bool = True

    class Always:
        def __init__(self, *_, **__):
            pass

        def run(self):
            return Found(0.1)

    ranges = iter([(1.0, 1.0), (-1.0 + UNIT, -1.0 + UNIT), (1e-3, 1e-3)])
    monkeypatch.setattr(_small_box, "apart", lambda *_: [None] * 3)
    monkeypatch.setattr(_small_box, "pose", lambda *_: None)
    monkeypatch.setattr(_small_box, "seen_range", lambda *_: next(ranges))
    monkeypatch.setattr(_small_box, "_shifted", lambda problem, _: problem)
    monkeypatch.setattr(_small_box, "Search", Always)
    monkeypatch.setattr(_small_box, "tidied", lambda _, answer, __: (answer, 0.3))
    found, boxes = _small_box.bound_by_parts(None, None, 1.0, None)
    exactly = Fraction(UNIT) + Fraction(1e-3) + 3 * Fraction(0.1) + Fraction(0.3)
    assert Fraction(found) >= exactly
    assert found <= float(exactly) * (1 + 4 * UNIT)
    assert boxes == 3


@dataclass(frozen=True)
class _Posed:
    tape: Tape
    slack: float = 0.0
    exact: None = None


def test_a_shifted_constant_is_charged_for_both_of_its_roundings():
    rng = RNG(14)
    for before, by in zip(mild(rng, 300), mild(rng, 300), strict=True):
        posed = _Posed(Tape(1, (), Linear((0,), (1.0,), float(before))), 0.0)
        after = _small_box._shifted(posed, float(by))
        off = abs(
            Fraction(before) * (1 + Fraction(UNIT))
            - Fraction(by)
            - Fraction(after.tape.answer.constant)
        )
        assert Fraction(after.slack) >= off
        again = _small_box._shifted(_Posed(posed.tape, 0.1), float(by))
        assert (
            Fraction(again.slack) >= Fraction(0.1) + Fraction(after.slack) - Fraction(UNIT) / 2**20
        )


def test_sums_of_bounds_are_rounded_up(monkeypatch):
    rng = RNG(15)
    monkeypatch.setattr(_cuts, "_fitted", lambda *_: {})
    monkeypatch.setattr(_cuts, "_written", lambda *_: constant(ONE))
    monkeypatch.setattr(_cuts, "_factored", lambda *_: constant(ONE))
    for beyond, before, dust in np.abs(mild(rng, 200, 3)).tolist():

        class Bounding:
            graph = None

            def bound(self, *_):
                return beyond  # noqa: B023

            def bound_sum(self, *_):
                return before  # noqa: B023

        cut = _cuts.Cut((), (), constant(ONE), dust)
        total = _cuts._through(Bounding(), cut, constant(ONE), 100.0, ())
        assert Fraction(total) >= Fraction(beyond) + Fraction(before) + Fraction(dust)


def test_a_reach_found_about_a_middle_is_rounded_outward(monkeypatch):
    rng = RNG(16)
    monkeypatch.setattr(_small_box, "pose", lambda *_: type("P", (), {"facets": ()}))
    for about, radius in zip(mild(rng, 200).tolist(), np.abs(mild(rng, 200)).tolist(), strict=True):
        monkeypatch.setattr(_small_box, "seen_range", lambda *_: (about, about))  # noqa: B023
        boxes = _small_box.SmallBoxes.__new__(_small_box.SmallBoxes)
        object.__setattr__(
            boxes,
            "graph",
            type("G", (), {"range": lambda *_: (-9.0, 9.0), "is_plain": lambda *_: False})(),
        )
        monkeypatch.setattr(_small_box.SmallBoxes, "bound", lambda *_, **__: radius)  # noqa: B023
        low, high = boxes.reach(constant(ONE))
        assert Fraction(low) <= Fraction(about) - Fraction(radius)
        assert Fraction(high) >= Fraction(about) + Fraction(radius)


# ---- forms -------------------------------------------------------------------------------------


@pytest.mark.parametrize("terms", [1, 3, 12])
def test_ranges_of_forms_hold_the_exact_ends(terms):
    """Coefficients such as 1/3 are rounded, too; sums cancel."""
    rng = RNG(17)
    for _ in range(60):
        bounds = Bounds()
        low, high = np.sort(mild(rng, 2, terms), axis=0)
        for a, b in zip(low, high, strict=True):
            bounds.append(float(a), float(b))
        coefficients = [fmpq(int(p), int(q)) for p, q in rng.integers(1, 10**6, (terms, 2))]
        shift = fmpq(int(rng.integers(-9, 9)), 7)
        form = Form(dict(enumerate(coefficients)), shift)
        found = bounds.range(form)
        c = [Fraction(int(v.p), int(v.q)) for v in coefficients]
        start = Fraction(int(shift.p), int(shift.q))
        assert Fraction(found[0]) <= start + sum(
            v * Fraction(a) for v, a in zip(c, low, strict=True)
        )
        assert Fraction(found[1]) >= start + sum(
            v * Fraction(b) for v, b in zip(c, high, strict=True)
        )
    assert Bounds().range(Form({}, fmpq(0))) == (0.0, 0.0)


def test_coefficients_that_vanish_are_charged_by_the_bound():
    """1e-330 is no float, but times 1e300 it is."""
    bounds = Bounds()
    bounds.append(0.0, 1e300)
    tiny = fmpq(1, 10**330)
    assert bounds.range(Form({0: tiny}))[1] >= 1e-30
    bounds.append(-math.inf, math.inf)
    assert bounds.range(Form({1: ONE})) == (-math.inf, math.inf)


def test_means_of_tokens_that_hardly_weigh_are_added_up_outward():
    """sum of sigmoid(l_j) v_j over tokens far behind: not below the exact sum of its own parts."""
    rng = RNG(18)
    for _ in range(100):
        logits = [(-9.0, float(v)) for v in -3.0 - np.abs(mild(rng, 20))]
        values = [(0.0, float(v)) for v in np.abs(mild(rng, 20))]
        high = mean_range(logits, values)[1]
        with precision(200):
            total = sum(
                arb(v) / (1 + (-arb(t)).exp())
                for (_, t), (_, v) in zip(logits, values, strict=True)
            )
            assert arb(high) > total or high == max(v for _, v in values)
        low = mean_range(logits, [(-b, 0.0) for _, b in values])[0]
        assert low == -high


def test_directions_remember_ranges_outward():
    rng = RNG(19)
    notes = TargetForms.__new__(TargetForms)
    for scale, shift, end in zip(mild(rng, 200), mild(rng, 200), mild(rng, 200), strict=True):
        notes.known = {}
        form = Form({0: rational(float(scale))}, rational(float(shift)))
        notes._note(form, Interval(np.array(end), np.array(end)))
        ((low, high),) = notes.known.values()
        _, lead = _direction(form)
        exactly = (Fraction(end) - Fraction(shift)) / Fraction(int(lead.p), int(lead.q))
        assert Fraction(low) <= exactly <= Fraction(high)


def _direction(form):
    from hardmax.checker.forms import direction_of

    return direction_of(form)


# ---- dust --------------------------------------------------------------------------------------


def _dusty(rng, graph):
    """y + dust x for two variables."""
    big, small = graph.variable(0.5, 2.0), graph.variable(*np.sort(mild(rng, 2)).tolist())
    return big + small.scaled(rational(float(full_floats(rng, 1)[0] * 1e-13 * 2.0**-20)))


def test_changes_of_tidied_forms_are_not_below_the_exact_ones():
    """A lone form, one that is scaled, a gate, a product, a mean and a function."""
    rng = RNG(20)
    for _ in range(60):
        graph = Graph()
        form = _dusty(rng, graph)
        (dust,) = [v for a, v in form.terms.items() if a == 1]
        low, high = graph.bounds[1]
        tidier = Tidier(graph)
        new, change = tidier.form(form)
        middle = new.constant / dust
        half = max(Fraction(high) - _exactly(middle), _exactly(middle) - Fraction(low))
        exactly = abs(_exactly(dust)) * half
        assert Fraction(change) >= exactly
        scaled = rational(float(mild(rng, 1)[0]))
        assert Fraction(tidier.form(form.scaled(scaled))[1]) >= abs(_exactly(scaled)) * exactly
        value = graph.variable(0.1, 0.7)
        gate = graph.gate(form, value)
        assert Fraction(Tidier(graph).form(gate)[1]) >= Fraction(1, 4) * Fraction(0.7) * exactly
        times = graph.unwritten(form, value)
        assert Fraction(Tidier(graph).form(times)[1]) >= Fraction(0.7) * exactly
        mean = graph.mean([constant(fmpq(0)), form], [constant(fmpq(0)), value])
        assert (
            Fraction(Tidier(graph).form(mean)[1])
            >= min(2 * Fraction(0.7), Fraction(1, 4) * Fraction(0.7)) * exactly
        )
        applied = graph.apply("exp", form, ONE)
        assert Fraction(Tidier(graph).form(applied)[1]) >= Fraction(math.exp(0.5)) * exactly


def _exactly(value):
    return Fraction(int(value.p), int(value.q))
