"""Each outward step of the validation of witnesses: taken away, one of these tests goes red."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, fmpq

from hardmax.checker import _balls
from hardmax.checker.forms import ONE, Form, Graph, constant, rational
from hardmax.checker.reals import _certify
from hardmax.checker.steps import _contests
from hardmax.checker.steps._contests import (
    Contest,
    Tokens,
    _behind,
    _contenders,
    _gap,
    _handicapped,
    _soft,
    _weights_of,
    flattened,
    hold_contest,
    split,
    with_crumbs,
)
from hardmax.checker.steps._deviations import Deviations, of_maximum
from hardmax.checker.steps._rows import slopes_of
from hardmax.checker.steps._verified import TrueValues, Verified
from hardmax.numerics import UNIT, exact, precision, softmax_gap

RNG = np.random.default_rng


def mild(rng, *shape):
    """Either sign, all digits, between 1/2 and 2."""
    return rng.uniform(0.5, 2.0, shape) * rng.choice([-1.0, 1.0], shape)


def deviations(rng, rows=40, noises=3, *, wide=True):
    radius = np.abs(mild(rng, rows)) if wide else np.zeros(rows)
    return Deviations(mild(rng, rows), mild(rng, rows, noises), radius)


def spread(d):
    return abs(exact(d.noise)).sum(axis=1) + exact(d.radius)


def loss(found, mean, noise, radius):
    """By how much exact means, noises and radii exceed what was found; none if it is 0 or less."""
    off = abs(exact(found.mean) - mean) + abs(exact(found.noise) - noise).sum(axis=1)
    return max((radius + off - exact(found.radius)).tolist())


# ---- deviations --------------------------------------------------------------------------------


def test_ends_of_deviations_are_rounded_outward():
    for seed, noises in ((0, 0), (1, 3), (2, 20)):
        d = deviations(RNG(seed), 300, noises)
        assert (exact(d.reach) >= spread(d)).all()
        assert (exact(d.low) <= exact(d.mean) - spread(d)).all()
        assert (exact(d.high) >= exact(d.mean) + spread(d)).all()
        assert (exact(d.size) >= abs(exact(d.mean)) + spread(d)).all()
    still = Deviations.none(2)
    assert not still.low.any()
    assert not still.high.any()


@pytest.mark.parametrize("wide", [True, False])
def test_combinations_of_deviations_hold_the_exact_ones(wide):
    """Entries of the matrix were rounded up to three times before."""
    rng = RNG(3)
    d, matrix = deviations(rng, 12, wide=wide), mild(rng, 60, 12)
    found, m = d.combined(matrix), exact(matrix)
    assert loss(found, m @ exact(d.mean), m @ exact(d.noise), abs(m) @ exact(d.radius)) <= 0
    m = m * (1 + 3 * Fraction(UNIT))
    assert loss(found, m @ exact(d.mean), m @ exact(d.noise), abs(m) @ exact(d.radius)) <= 0
    total = d.combined_rows()
    sums = exact(d.mean).sum(), exact(d.noise).sum(axis=0), exact(d.radius).sum()
    assert loss(total, *sums) <= 0


def test_sums_shifts_and_multiples_of_deviations_hold_the_exact_ones():
    rng = RNG(4)
    for wide in (True, False):
        a, b = deviations(rng, 200, wide=wide), deviations(rng, 200, wide=wide)
        both = a.plus(b)
        exactly = [
            exact(x) + exact(y)
            for x, y in ((a.mean, b.mean), (a.noise, b.noise), (a.radius, b.radius))
        ]
        assert loss(both, *exactly) <= 0
        moved = a.shifted(b.mean, b.radius)
        assert (
            loss(
                moved,
                exact(a.mean) + exact(b.mean),
                exact(a.noise),
                exact(a.radius) + exact(b.radius),
            )
            <= 0
        )
        scaled = a.scaled(b.mean, b.radius)
        factor = exact(b.mean)
        radius = abs(factor) * exact(a.radius) + exact(b.radius) * (abs(exact(a.mean)) + spread(a))
        assert loss(scaled, exact(a.mean) * factor, exact(a.noise) * factor[:, None], radius) <= 0


def test_maxima_of_deviations_hold_those_of_their_parts():
    """With one part everything passes; with two the hull, shared noise apart or not."""
    rng = RNG(5)
    parts = [deviations(rng, 200), deviations(rng, 200)]
    alone = of_maximum(parts[:1], np.ones((1, 200), bool))
    d = parts[0]
    assert loss(alone, exact(d.mean), exact(d.noise), exact(d.radius)) <= 0
    found = of_maximum(parts, np.ones((2, 200), bool))
    for d in parts:
        away = abs(exact(d.noise) - exact(found.noise)).sum(axis=1) + exact(d.radius)
        assert (abs(exact(d.mean) - exact(found.mean)) + away <= exact(found.radius)).all()


# ---- names -------------------------------------------------------------------------------------


def test_names_reach_as_far_as_their_deviations():
    rng = RNG(6)
    for low, high, mean in zip(*np.sort(mild(rng, 3, 200), axis=0), strict=True):
        verified = Verified(Graph())
        deviation = Deviations(np.array([mean]), np.zeros((1, 0)), np.array([0.3]))
        name = verified.variable((float(low), float(high)), deviation)
        found = verified.graph.range(name)
        assert Fraction(found[0]) <= Fraction(low) + min(Fraction(mean) - Fraction(0.3), 0)
        assert Fraction(found[1]) >= Fraction(high) + max(Fraction(mean) + Fraction(0.3), 0)
        leak = verified.leak(float(low), float(high))
        row = verified.combined(leak)
        assert Fraction(row.low[0]) <= Fraction(low)
        assert Fraction(row.high[0]) >= Fraction(high)


def test_contests_carry_their_residuals_gaps_and_strays():
    rng = RNG(7)
    for low, high, gap in zip(*np.sort(np.abs(mild(rng, 3, 200)), axis=0), strict=True):
        for minimum in (False, True):
            verified = Verified(Graph())
            contest = Contest(
                (constant(ONE),), ((float(low), float(high)),), float(gap), 0.1, minimum
            )
            found = verified.of_contests([contest])
            least = Fraction(low) - Fraction(gap) - Fraction(0.1)
            most = Fraction(high) + Fraction(0.1)
            ends = (-most, -least) if minimum else (least, most)
            assert Fraction(found.low[0]) <= ends[0]
            assert Fraction(found.high[0]) >= ends[1]


def test_ranges_known_by_direction_are_rounded_outward():
    rng = RNG(8)
    for scale, shift, end in mild(rng, 300, 3).tolist():
        truth = TrueValues()
        truth.bounds.append(-9.0, 9.0)
        truth.known = {Form({0: ONE}): (end, end)}
        form = Form({0: rational(scale)}, rational(shift))
        low, high = truth.range(form)
        exactly = Fraction(scale) * Fraction(end) + Fraction(shift)
        assert Fraction(low) <= exactly <= Fraction(high)
    truth.known = {Form({0: ONE}): (1.0, 1.0)}
    assert truth.range(Form({0: fmpq(1, 10**300)}))[0] < 0.0  # too small to be followed


def test_slopes_of_a_step_hold_those_of_its_pieces():
    from hardmax.checker.boxes import pose

    graph = Graph()
    rng = RNG(9)
    for _ in range(30):
        low, high = np.sort(np.abs(mild(rng, 2)))
        form = graph.apply("exp", graph.variable(float(low), float(high)), ONE)
        middle, radius = slopes_of(pose(graph, form, math.inf))
        with precision(200):
            for end in (low, high):
                assert abs(arb(float(end)).exp() - arb(middle[0])) < arb(radius[0])


# ---- contests ----------------------------------------------------------------------------------


def test_gaps_and_strays_of_soft_maxima_are_rounded_up():
    """The coldness was rounded, too: to nearest, so by half an ulp."""
    rng = RNG(10)
    for cold, off, leak in np.abs(mild(rng, 300, 3)).tolist():
        gap, stray = _gap(Tokens((), cold, off, leak), 5)
        truth = Fraction(cold) * (1 - Fraction(UNIT))
        assert Fraction(gap) >= Fraction(softmax_gap(5)) / truth
        assert Fraction(stray) >= 2 * Fraction(off) / truth + Fraction(leak)
    assert _gap(Tokens((), math.inf, 0.3, 0.1), 5) == (0.0, 0.1)


def test_what_is_behind_is_not_further_behind_in_floats():
    rng = RNG(11)
    for best, other, cold, less in mild(rng, 400, 4).tolist():
        found = _behind(best, other, abs(cold), less)
        for off in (-1, 1):
            truth = Fraction(abs(cold)) * (1 + off * Fraction(UNIT))
            assert Fraction(found) <= (Fraction(best) - Fraction(other)) * truth - Fraction(less)


def test_weights_of_beaten_tokens_are_added_up_from_above():
    rng = RNG(12)
    for count in (1, 2, 50):
        behind = (40.0 + 10.0 * rng.random(count)).tolist()
        with precision(200):
            total = sum((-arb(b)).exp() for b in behind)
            assert arb(_weights_of(behind)) > total
            assert arb(_weights_of(behind)) < total * (1 + arb(1e-12))
    assert _weights_of([]) == 0.0
    assert _weights_of([800.0]) > 0.0  # less than any float, and not nothing


def test_tokens_that_lose_leak_at_most_what_they_weigh():
    rng = RNG(13)
    for top, bottom in zip(np.abs(mild(rng, 200)), -30.0 - np.abs(mild(rng, 200)), strict=True):
        ranges = [(0.0, float(top)), (float(bottom), float(bottom))]
        alive, leak = _contenders(ranges, Tokens((), 2.0, 0.0))
        assert alive == [0]
        with precision(200):
            behind = -arb(float(bottom)) * 2
            assert arb(leak) > (-behind).exp() * (arb(float(top)) - arb(float(bottom)))


def test_a_softmax_leaves_far_tokens_out_from_above():
    """Of the leak of tokens 40 behind the reference, all factors are rounded up."""
    rng = RNG(14)
    for far, weight, wide in np.abs(mild(rng, 100, 3)).tolist():
        graph = Graph()
        x = graph.variable(-1.0, 1.0)
        low = x.scaled(rational(0.001)) - constant(rational(40.0 + far))
        held = graph.variable(0.0, 2.0 + wide)
        found = _soft(graph, constant(ONE), rational(weight), (x, low), (x, held))
        top = graph.range(low)[1]
        ends = graph.range(held)[1], graph.range(x)[0]
        with precision(200):
            least = arb(top).exp() * (arb(ends[0]) - arb(ends[1])) * arb(weight)
            assert arb(found.leak) > least
            assert arb(found.leak) < least * (1 + arb(1e-13))


def test_handicaps_are_compared_exactly():
    """A handicap of 1e5 whose residue is far below its ulp: floats would forget the difference."""
    graph = Graph()
    x = graph.variable(1.0, 2.0)
    low = graph.variable(-3.0, -2.0)
    ends = [(-100.1, -100.1 + 2.0**-46)]
    found = _handicapped(graph, x, (low,), ends, 1.0)
    middle = 0.5 * (ends[0][0] + ends[0][1])
    off = max(abs(Fraction(end) - Fraction(middle)) for end in ends[0])
    assert Fraction(found.stray) >= off
    rng = RNG(15)
    for a in (-60.0 - np.abs(mild(rng, 100))).tolist():
        found = _handicapped(graph, x, (low,), [(a, a)], 1.0)
        with precision(200):
            least = (-(3 - arb(a))).exp() * 5 / 2
            assert arb(found.stray) > least


def test_crumbs_are_bounded_by_their_exact_sum():
    rng = RNG(16)
    for _ in range(100):
        graph = Graph()
        names = [graph.variable(*sorted(pair)) for pair in mild(rng, 6, 2).tolist()]
        form = sum(
            (
                name.scaled(fmpq(int(c), 10**12 + 7))
                for name, c in zip(names[1:], rng.integers(1, 99, 5), strict=True)
            ),
            names[0],
        )
        _, atoms, (low, high) = split(graph, form, 1e-9)
        assert not atoms
        small = [
            (Fraction(int(c.p), int(c.q)), graph.bounds[a]) for a, c in form.terms.items() if a
        ]
        assert Fraction(low) <= sum(c * Fraction(ends[0]) for c, ends in small)
        assert Fraction(high) >= sum(c * Fraction(ends[1]) for c, ends in small)
        contest = Contest((), (), 0.0, 0.1, False)
        sizes = max(map(abs, (low, high)))
        assert Fraction(with_crumbs(contest, (low, high), (0.0, 0.0)).stray) >= Fraction(
            0.1
        ) + Fraction(sizes)


def test_falls_of_maxima_inside_of_maxima_add_up(monkeypatch):
    """softmax of a softmax: a leaf falls short by both gaps, and both strays count."""
    rng = RNG(17)
    for gaps in np.abs(mild(rng, 60, 4)).tolist():
        graph = Graph()
        x, y = graph.variable(-1.0, 1.0), graph.variable(-1.0, 1.0)
        inner = graph.relu(x)
        outer = graph.relu(inner + y)
        ((atom, c),) = outer.terms.items()
        steps = iter([(gaps[0], gaps[1]), (gaps[2], gaps[3])])
        monkeypatch.setattr(_contests, "_gap", lambda *_: next(steps, (0.0, 0.0)))  # noqa: B023
        found = flattened(graph, constant(fmpq(0)), [(atom, c)])
        assert Fraction(found.leak) >= Fraction(gaps[1]) + Fraction(gaps[3])


class Plainly:
    """The target's values: everything lies in one known range."""

    def __init__(self, ends):
        self.ends = ends

    def form(self, form):
        return form

    def range(self, form):
        return self.ends


def test_contests_add_up_what_they_leak_and_what_they_fall_short():
    rng = RNG(18)
    for leak, fall, low in np.abs(mild(rng, 200, 3)).tolist():
        graph = Graph()
        x = graph.variable(-1.0, 1.0)
        ours = Tokens((x, x + constant(ONE)), 3.0, 0.3, leak, (fall, fall), 2)
        theirs = Tokens((x, x + constant(ONE)))
        found = hold_contest(graph, ours, theirs, Plainly((-low, low)))
        assert Fraction(found.residuals[0][0]) <= -Fraction(low) - Fraction(fall)
        assert Fraction(found.stray) >= 2 * Fraction(0.3) / 3 + Fraction(leak)


# ---- balls and sums ----------------------------------------------------------------------------


def test_magnitudes_of_balls_lie_outside_them():
    with precision(160):
        for ball in (arb(1) / 3, -arb(2).sqrt(), arb(fmpq(7, 11))):
            low, high = _balls._magnitude(ball)
            assert arb(low) < abs(ball) < arb(high)
        with pytest.raises(_balls.Undefined, match="not finite"):
            _balls._magnitude(arb("nan"))


def test_certified_sums_are_rounded_up():
    rng = RNG(19)
    for a, b in np.abs(mild(rng, 300, 2)).tolist():
        assert Fraction(_certify._sum(a, b)) >= Fraction(a) + Fraction(b)
    assert _certify._sum(0.1, 0.0) == 0.1
