"""Guards around the search: what it leaves aside, what it cannot know, and where it stops."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from flint import arb, fmpq

from hardmax.checker._budget import Budget, Clock
from hardmax.checker.boxes import _cuts, _few_variables, _large_mean, _small_box
from hardmax.checker.boxes._bank import FAINT_WEIGHT, AffineRows, Bank
from hardmax.checker.boxes._compile_tape import Problem, pose
from hardmax.checker.boxes._cuts import Cut, _fitted, _through, find_cut
from hardmax.checker.boxes._few_variables import Tidier, tidied
from hardmax.checker.boxes._jets import Jet, Shape
from hardmax.checker.boxes._large_mean import LargeMean
from hardmax.checker.boxes._search import Search, _Frontier
from hardmax.checker.boxes._small_box import SmallBoxes, in_balls
from hardmax.checker.boxes._tape import Linear, Step, Tape, Twin, _widest, run, upper_bound
from hardmax.checker.forms import ONE, Form, Gate, Graph, Mean, Times, constant, rational
from hardmax.numerics import STEP, UNIT, exact, precision

RNG = np.random.default_rng


def mild(rng, *shape):
    """Either sign, all digits, between 1/2 and 2: nothing dwarfs what is rounded."""
    return rng.uniform(0.5, 2.0, shape) * rng.choice([-1.0, 1.0], shape)


def sizes(rng, *shape):
    return np.abs(mild(rng, *shape))


def fraction(value):
    return Fraction(int(value.p), int(value.q))


def clock():
    return Clock(Budget(work=1e8))


# ---- what is left aside ------------------------------------------------------------------------

IDENTITY = Tape(1, (), Linear((0,), (1.0,), 0.0))


def line(slack, tape=IDENTITY, low=0.0, high=1.0, facets=()):
    ends = np.array([low]), np.array([high])
    return Problem(tape, *ends, slack, np.ones((1, 1)), (0,), facets)


def test_slack_is_added_from_above_and_taken_away_from_below():
    """The nearest floats beyond the exact numbers: neither less nor more is charged."""
    for bound, slack in sizes(RNG(0), 300, 2):
        problem = line(slack * 1e-3)
        whole, left = problem.whole(bound), problem.left(bound)
        assert Fraction(whole) >= Fraction(bound) + Fraction(problem.slack)
        assert Fraction(math.nextafter(whole, 0.0)) < Fraction(bound) + Fraction(problem.slack)
        assert Fraction(left) <= Fraction(bound) - Fraction(problem.slack)
        assert Fraction(math.nextafter(left, 9.0)) > Fraction(bound) - Fraction(problem.slack)
        assert problem.whole(left) <= bound
    assert line(0.1).whole(math.inf) == line(0.1).left(math.inf) == math.inf
    assert line(0.0).whole(0.1) == line(0.0).left(0.1) == 0.1


def test_a_search_leaves_room_for_what_was_left_aside():
    problem = line(0.25)
    assert Search(problem, clock(), enough=2.0).enough == 1.75
    assert Search(problem, clock(), enough=2.0, tolerance=0.5, known=1.0).enough == 1.25
    assert Search(problem, clock(), enough=math.inf, tolerance=0.5, known=1.0).enough == 1.25
    told = []
    found = Search(problem, clock(), enough=2.0, watch=lambda *seen: told.append(seen)).run()
    assert found.is_complete
    assert 1.25 <= found.certified <= 1.25 + 1e-12
    assert told[-1][0] == found.certified


def test_certified_bounds_hold_what_is_left_aside_to_the_last_bit():
    for slack in (sizes(RNG(1), 20) * 1e-9).tolist():
        found = Search(line(slack), clock(), enough=2.0).run()
        most = max(leaf.most for leaf in found.leaves)
        assert Fraction(found.certified) >= Fraction(most) + Fraction(slack)


def test_boxes_are_halved_down_to_256_ulps_of_the_domain():
    search = Search(line(0.0, low=1.0, high=2.0), clock(), enough=0.0)
    for ulps, is_hopeless in ((500, True), (520, False)):
        low = np.array([[1.0]])
        frontier = _Frontier(low, low + ulps * STEP, np.ones(1), np.zeros(1, dtype=int))
        assert search._is_hopeless(frontier) is is_hopeless


def test_points_on_a_facet_are_not_said_to_be_inside():
    """Where floats cannot tell on which side a point lies, it is no point of the domain."""
    facet = np.array([1.0]), 1.0, 3.0
    problem = line(0.0, facets=(facet,))
    points = np.array([[1.0, 1.0 + 1e-12, 2.0, 3.0 - 1e-12, 3.0]])
    assert problem.holds(points).tolist() == [False, False, True, False, False]


def test_balls_are_asked_for_what_the_slack_leaves_over(monkeypatch):
    asked = []

    def bound(line, enough, clock):
        asked.append(enough)
        return 0.0625

    monkeypatch.setattr(_small_box, "bound_by_series", bound)
    problem = replace(line(0.25), exact=object())
    assert in_balls(problem, 1.0, None) == 0.3125
    assert asked == [0.75]
    assert in_balls(problem, 0.25, None) == math.inf
    assert in_balls(problem, 0.1, None) == math.inf
    assert len(asked) == 1


def test_small_boxes_are_not_searched_for_less_than_a_256th_of_the_room(monkeypatch):
    class Asked(Exception):
        pass

    def search(problem, clock, *, least, **_):
        raise Asked(least)

    monkeypatch.setattr(_small_box, "Search", search)
    graph = Graph()
    form = graph.variable(-1.0, 1.0)
    for least in (0.0, 1.0):
        with pytest.raises(Asked) as seen:
            SmallBoxes(graph, clock()).at_once(form, 64.0, least=least)
        assert seen.value.args == (max(least, 0.25),)


# ---- posing a problem --------------------------------------------------------------------------


def crumbly(rng, count):
    """One large rectifier, and crumbs of which each is bounded by `size`."""
    graph = Graph()
    x = graph.variable(-1.0, 1.0)
    form = graph.apply("exp", x)
    for c in sizes(rng, count).tolist():
        form = form + graph.apply("exp", x.scaled(rational(c))).scaled(rational(c * 1e-9))
    return graph, form


def test_crumbs_dust_and_what_is_beyond_the_basis_add_up_from_above(monkeypatch):
    """x enters nothing else, is below 2^-20 of the scale, and so are the crumbs."""
    from hardmax.checker.boxes import _compile_tape

    rng = RNG(2)
    for dust, small in (sizes(rng, 40, 2) * 1e-9).tolist():
        graph, form = crumbly(rng, 5)
        form = form + graph.variable(-1.0, 1.0).scaled(rational(small))
        monkeypatch.setattr(_compile_tape, "tidied", lambda _, f, __: (f, dust))  # noqa: B023
        slack = Fraction(pose(graph, form, 1.0).slack)
        ends = [graph.bounds.range(Form({a: form.terms[a]})) for a in form.terms]
        parts = sorted(max(map(abs, pair)) for pair in ends)[:-1]
        total = Fraction(dust) + sum(map(Fraction, parts))
        assert total <= slack <= total * (1 + 40 * Fraction(UNIT))


def test_nothing_is_left_aside_when_the_scale_is_not_known():
    graph, form = crumbly(RNG(3), 3)
    form = form + graph.variable(-1.0, 1.0).scaled(rational(1e-9))
    posed = pose(graph, form, math.inf)
    assert posed.slack == 0.0
    assert posed.dimension == 2
    assert len(posed.tape.steps) == 4
    graph = Graph()
    x, y = graph.variable(0.5, 1.0), graph.variable(0.5, 1.0)
    dusty = graph.apply("exp", x + y.scaled(rational(2.0**-60)))
    assert pose(graph, dusty, math.inf).slack == 0.0
    assert set(pose(graph, dusty, math.inf).variables) == {0, 1}
    assert 0.0 < pose(graph, dusty, 1.0).slack < 1e-15
    assert pose(graph, dusty, 1.0).variables == (0,)


def test_parts_are_not_tidied_when_the_scale_is_not_known(monkeypatch):
    def never(*_):
        raise AssertionError("there is no scale")

    monkeypatch.setattr(_small_box, "tidied", never)
    monkeypatch.setattr(_small_box, "apart", lambda _, answer: [answer])
    assert _small_box.bound_by_parts(None, constant(ONE), math.inf, None) == (math.inf, 0)


def test_ranges_that_were_seen_are_finite():
    graph = Graph()
    graph.variable(-1.0, 1.0)
    tape = Tape(1, (Step("log", (Linear((0,), (1.0,), 0.0),)),), Linear((1,), (1.0,), 0.0))
    low, high = _small_box.seen_range(graph, line(0.0, tape, -1.0, 1.0))
    assert -9.0 < low < high <= 0.1
    assert _small_box.seen_range(graph, line(0.0, tape, -1.0, -0.5)) == (0.0, 0.0)


# ---- enclosures --------------------------------------------------------------------------------


def twin(rng, boxes, k=2):
    one, two = Shape(k, 1), Shape(k, 2)
    centre = Jet(mild(rng, one.components, boxes), sizes(rng, one.components, boxes), one)
    box = Jet(mild(rng, two.components, boxes), sizes(rng, two.components, boxes), two)
    return Twin(centre, box), sizes(rng, k, boxes)


def test_the_second_order_bound_is_its_formula_from_both_sides():
    """Over the box neither the value nor the slopes are known well: the curvatures decide."""
    both, reach = twin(RNG(4), 300)
    centre, box = both.centre, both.box
    box.rad[:3] = 1e9
    mid, rad = exact(centre.mid), exact(centre.rad)
    r = exact(reach)
    turns, radii = exact(box.mid[3:]), exact(box.rad[3:])
    sides = []
    for sign in (1, -1):
        total = sign * mid[0] + (abs(turns[1]) + radii[1]) * r[0] * r[1]
        for i, own in ((0, 0), (1, 2)):
            steep = abs(mid[1 + i]) + rad[1 + i]
            total = total + _tops(steep, sign * turns[own] + radii[own], r[i])
        sides.append(total)
    truth = np.maximum(*sides) + rad[0]
    found = exact(upper_bound(both, reach))
    assert (found >= truth).all()
    assert (found <= truth + Fraction(1, 10**12)).all()


def _tops(steep, bend, reach):
    return np.array(
        [
            g * g / (2 * -h) if h * r < -g else g * r + h * r * r / 2
            for g, h, r in zip(steep, bend, reach, strict=True)
        ],
        dtype=object,
    )


@pytest.mark.parametrize("unknown", [math.inf, math.nan])
def test_a_value_that_is_known_bounds_what_has_no_slope(unknown):
    both, reach = twin(RNG(5), 20)
    both.centre.rad[1:] = unknown
    both.box.rad[1:] = unknown
    value = exact(np.abs(both.box.mid[0])) + exact(both.box.rad[0])
    found = upper_bound(both, reach)
    assert (exact(found) >= value).all()
    assert (found <= value.astype(float) * (1 + 1e-14)).all()


@pytest.mark.parametrize("unknown", [math.inf, math.nan])
def test_a_box_with_an_unknown_slope_is_halved_along_its_longest_side(unknown):
    both, reach = twin(RNG(6), 20)
    reach[0], reach[1] = 1.0, 5.0
    both.box.rad[1] = unknown
    assert (_widest(both, reach) == 1).all()
    both.box.rad[1], both.box.rad[2] = 100.0, 1.0
    assert (_widest(both, reach) == 0).all()


def holds_product(twin_, truth, slopes):
    mid, rad = twin_.centre.value
    assert all(abs(arb(m) - t) < arb(r) for m, r, t in zip(mid, rad, truth, strict=True))
    mid, rad = twin_.centre.slopes
    assert all(abs(arb(m) - t) < arb(r) for m, r, t in zip(mid[0], rad[0], slopes, strict=True))


def test_products_and_gates_hold_their_values_and_slopes():
    x = np.linspace(-2.0, 2.0, 41)[None]
    own, other = Linear((0,), (1.0,), 0.0), Linear((0,), (3.0,), 1.0)
    with precision(200):
        points = [arb(float(v)) for v in x[0]]
        tape = Tape(1, (Step("times", (own, other)),), Linear((1,), (1.0,), 0.0))
        truth = [v * (3 * v + 1) for v in points]
        holds_product(run(tape, x, x)[0], truth, [6 * v + 1 for v in points])
        gates = [1 / (1 + (-v).exp()) for v in points]
        tape = Tape(1, (Step("gate", (own, other)),), Linear((1,), (1.0,), 0.0))
        truth = [g * (3 * v + 1) for g, v in zip(gates, points, strict=True)]
        slopes = [3 * g + g * (1 - g) * (3 * v + 1) for g, v in zip(gates, points, strict=True)]
        holds_product(run(tape, x, x)[0], truth, slopes)
        rows = np.ones((4, 1)), np.zeros(4)
        bank = Bank(AffineRows(*rows), AffineRows(3 * rows[0], rows[1] + 1.0), False)
        tape = Tape(1, (bank,), Linear((1,), (0.25,), 0.0))
        holds_product(run(tape, x, x)[0], truth, slopes)


def test_values_of_many_tokens_were_rounded_to_nearest(monkeypatch):
    """Half an ulp, no less and hardly more, of each value that is read."""
    rng = RNG(7)
    seen = []

    def mean(share, logits, values, shape):
        seen.append(values)
        return Jet(np.zeros((2, 1)), np.zeros((2, 1)), shape)

    monkeypatch.setattr(_large_mean, "mean_of", mean)
    large = LargeMean(mild(rng, 9, 1), mild(rng, 9), mild(rng, 9))
    close = np.arange(9)[:, None]
    large._jet(close, np.array([0]), np.ones((1, 1)), np.zeros((1, 1)), 1)
    ((mid, rad),) = seen
    assert (mid[:, 0, 0] == large.values).all()
    assert (exact(rad[:, 0, 0]) == abs(exact(large.values)) * Fraction(UNIT)).all()


def test_leaks_of_tokens_are_added_to_what_was_known():
    rng = RNG(8)
    for _ in range(60):
        mean = LargeMean(mild(rng, 7, 2), mild(rng, 7), mild(rng, 7) * 1e33)
        known = Jet(np.zeros((6, 30)), sizes(rng, 6, 30), Shape(2, 2))
        found = exact(mean._leaking(known, 2).rad)
        share, spread = 55 * Fraction(FAINT_WEIGHT), 2 * Fraction(np.abs(mean.values).max())
        steep = 2 * Fraction(np.abs(mean.slopes).max())
        leaks = [share * spread * f for f in (1, *[4 * steep] * 2, *[16 * steep**2] * 3)]
        truth = exact(known.rad) + np.array(leaks, dtype=object)[:, None]
        assert (found >= truth).all()
        assert (found <= truth * (1 + 20 * Fraction(UNIT))).all()


# ---- dust --------------------------------------------------------------------------------------

DUST = 2.0**-40


def dusty(rng, graph, dust):
    """y + dust x for a new y, and by how much it changes if the middle stands for x."""
    low, high = graph.bounds[0]
    middle = Fraction(0.5 * (low + high))
    c = float(sizes(rng, 1)[0] * dust)
    half = max(Fraction(high) - middle, middle - Fraction(low))
    return graph.variable(0.5, 4.0) + Form({0: rational(c)}), Fraction(c) * half


def begun(rng):
    graph = Graph()
    graph.variable(*np.sort(mild(rng, 2)).tolist())
    return graph


def is_close_above(found, truth):
    """Not below the exact number, and only roundings above it."""
    return truth <= Fraction(found) <= truth * (1 + 50 * Fraction(UNIT))


def size_of(graph, form):
    return max(map(Fraction, map(abs, graph.range(form))))


def test_sums_without_dust_are_charged_for_all_of_it():
    rng = RNG(9)
    for _ in range(60):
        graph = begun(rng)
        (first, moved), (second, shift) = (dusty(rng, graph, DUST) for _ in range(2))
        apart = graph.apply("exp", first) + graph.apply("exp", second).scaled(fmpq(1, 3))
        tidier = Tidier(graph)
        assert is_close_above(tidier.form(first)[1], moved)
        scale = fmpq(int(rng.integers(1, 10**6)), 10**6 + 3)
        assert is_close_above(tidier.form(first.scaled(scale))[1], moved * fraction(scale))
        changes = [Fraction(tidier.form(Form({a: ONE}))[1]) for a in apart.terms]
        total = sum(fraction(c) * m for c, m in zip(apart.terms.values(), changes, strict=True))
        assert is_close_above(tidier.form(apart)[1], total)
        assert shift > 0


def charge_of(graph, tidier, number):
    """What the theorems say of an atom, over the rationals, from what its forms are charged."""
    atom = graph.atoms[number]
    if isinstance(atom, Gate):
        moved, shift = (Fraction(tidier.form(f)[1]) for f in (atom.logit, atom.value))
        return shift + size_of(graph, atom.value) * moved / 4
    if isinstance(atom, Times):
        first, second = tidier.form(atom.first), tidier.form(atom.second)
        moved, shift = Fraction(first[1]), Fraction(second[1])
        return size_of(graph, first[0]) * shift + size_of(graph, atom.second) * moved
    moved, shift = (
        max(Fraction(tidier.form(f)[1]) for f in forms) for forms in (atom.logits, atom.values)
    )
    ends = [(0.0, 0.0), *map(graph.range, atom.values)]
    spread = max(Fraction(b) for _, b in ends) - min(Fraction(a) for a, _ in ends)
    return shift + 2 * spread * moved


@pytest.mark.parametrize("kind", [Gate, Times, Mean])
def test_atoms_without_dust_are_charged_by_their_theorem(kind):
    """Both terms of each sum are of one size: neither can be left out."""
    rng = RNG(10)
    for _ in range(60):
        graph = begun(rng)
        forms = [dusty(rng, graph, DUST)[0] for _ in range(4)]
        if kind is Gate:
            made = graph.gate(forms[0], forms[1])
        elif kind is Times:
            made = graph.unwritten(forms[0], forms[1])
        else:
            nothing = constant(fmpq(0))
            made = graph.mean([nothing, *forms[:2]], [nothing, *forms[2:]])
        number = max(made.terms)
        assert isinstance(graph.atoms[number], kind)
        tidier = Tidier(graph)
        truth = charge_of(graph, tidier, number)
        assert is_close_above(tidier.form(Form({number: ONE}))[1], truth)


def test_functions_are_as_steep_as_where_tidying_may_take_them(monkeypatch):
    rng = RNG(11)
    seen = []

    def curve(low, high):
        slope = sizes(rng, 2)
        seen.append((low, high, slope))
        return None, (np.array(-slope[0]), np.array(slope[1])), None

    monkeypatch.setattr(
        _few_variables, "record_of", lambda name, exponent: SimpleNamespace(curve=curve)
    )
    for _ in range(60):
        graph = begun(rng)
        form, _ = dusty(rng, graph, DUST)
        made, tidier = graph.apply("exp", form), Tidier(graph)
        moved, found = Fraction(tidier.form(form)[1]), tidier.form(made)[1]
        low, high, slope = seen.pop()
        ends = graph.range(form)
        assert Fraction(float(low)) <= Fraction(ends[0]) - moved
        assert Fraction(float(high)) >= Fraction(ends[1]) + moved
        assert is_close_above(found, (Fraction(slope[0]) + Fraction(slope[1])) * moved)


def test_functions_of_unbounded_slope_keep_their_dust():
    graph = Graph()
    x, y = graph.variable(0.0, 1.0), graph.variable(0.0, 1.0)
    root = graph.apply("sqrt", y + x.scaled(rational(DUST)))
    assert Tidier(graph).form(root) == (root, 0.0)
    tidy, change = tidied(graph, root + graph.apply("exp", y + x.scaled(rational(DUST))), 1.0)
    assert 0.0 < change < 1e-11
    assert max(root.terms) in tidy.atoms


# ---- cuts --------------------------------------------------------------------------------------


def test_a_cut_searches_within_what_it_leaves_over(monkeypatch):
    monkeypatch.setattr(_cuts, "_fitted", lambda *_: {})
    monkeypatch.setattr(_cuts, "_written", lambda *_: constant(ONE))
    monkeypatch.setattr(_cuts, "_factored", lambda *_: constant(ONE))
    asked = []

    class Bounding:
        graph = None

        def bound(self, form, room):
            return 0.25

        def bound_sum(self, forms, room):
            asked.append(room)
            return 0.0

    cut = Cut((), (), constant(ONE), 0.5)
    assert 0.75 <= _through(Bounding(), cut, constant(ONE), 1.0, ()) <= 0.75 + 1e-12
    assert asked == [0.25]
    for room in (0.75, 0.6, 0.3):
        assert _through(Bounding(), cut, constant(ONE), room, ()) == math.inf
    assert asked == [0.25]


@pytest.mark.parametrize(("weight", "functionals"), [(0.5, 2), (1e-9, 1)])
def test_what_a_cut_does_not_read_is_dust_only_if_it_is_small(weight, functionals):
    """exp of one first atom, plus a second one that nothing else reads."""
    graph = Graph()
    x, y = graph.variable(0.0, 1.0), graph.variable(0.0, 1.0)
    read, other = graph.apply("sin", x), graph.apply("sin", y)
    form = graph.apply("exp", read) + other.scaled(rational(weight))
    cut = find_cut(SmallBoxes(graph, clock()), form, 1.0, 1)
    assert len(cut.functionals) == functionals
    if functionals == 2:
        assert cut.dust == 0.0
    else:
        assert 0.8e-9 <= cut.dust <= 1e-9


@pytest.mark.parametrize("unknown", [math.inf, math.nan, 1e200])
def test_nothing_is_fitted_to_what_is_not_finite(monkeypatch, unknown):
    """1e200 is finite, but its square is not, and a line is not good enough."""
    table = np.tile(np.linspace(-1.0, 1.0, _cuts._POINTS), (2, 1))
    table[1] = table[0] ** 2
    names = Graph().variable(-1.0, 1.0)
    cut = Cut((names,), (names,), names, 0.0)
    monkeypatch.setattr(_cuts, "_sample", lambda *_: table)
    assert _fitted(None, cut, names, 0.1, ()) is not None
    table[0, 0] = unknown
    assert _fitted(None, cut, names, 0.1, ()) is None


@pytest.mark.parametrize("unknown", [math.inf, math.nan])
def test_nothing_is_fitted_beside_what_is_not_finite(monkeypatch, unknown):
    line = np.linspace(-1.0, 1.0, _cuts._POINTS)
    names = Graph().variable(-1.0, 1.0)
    cut = Cut((names,), (names,), names, 0.0)
    beside = np.full_like(line, 0.01)

    def sample(graph, forms):
        return np.stack([line, line**2, beside][: len(forms)])

    monkeypatch.setattr(_cuts, "_sample", sample)
    assert _fitted(None, cut, names, 0.1, (names,)) is not None
    beside[0] = unknown
    assert _fitted(None, cut, names, 0.1, (names,)) is None
