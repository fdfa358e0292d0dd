"""How far a sketch strays: each charge beside its formula, in float16 so that roundings count.

Bounds of this room take a thousand operations at most, and are made larger by that in the end: in
between they are compared with the lemmas of the module, from both sides.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from hardmax.core import Softmax, Words
from hardmax.lowering.gadgets import polygon
from hardmax.lowering.programs._lookup import affine_map
from hardmax.lowering.sketch import (
    EXCLUDED,
    Bends,
    Care,
    Ladder,
    Levels,
    OneOf,
    WordForm,
    WordHead,
    WordSketch,
    WordUnit,
    misfit,
    strays_of,
)
from hardmax.lowering.sketch._straying import _Straying
from hardmax.numerics import FLOAT16, FLOAT64, REALS

U = FLOAT64.unit


def gamma(terms):
    return terms * FLOAT16.unit / (1.0 - terms * FLOAT16.unit)


def close(number):
    return pytest.approx(number, rel=1e-12, abs=1e-300)


def straying(held, format=FLOAT16, longest=4, needs_start=True):
    """A passage whose registers are as large, stray as far and start as given; no grid."""
    sketch = WordSketch(Words("ab", longest))
    sketch.needs_start = needs_start
    registers = [sketch.register(f"r{i}", 50.0) for i in range(len(held))]
    assert sketch.token.constant == 0.0
    run = _Straying(sketch, [], format)
    for register, (size, stray, start) in zip(registers, held, strict=True):
        run.size[register], run.stray[register], run.start[register] = size, stray, start
        run.grid[register] = -math.inf
    run.heir = None
    return run, registers


TWO = [(2.0, 0.125, 0.75), (0.7, 0.03, 0.2)]


def test_forms_stray_with_their_registers_and_by_their_rounding():
    run, (x, y) = straying(TWO)
    form = WordForm({x: 3.0, y: -0.7}, 0.3, off=0.11)
    drift = 3.0 * 0.125 + 0.7 * 0.03 + 0.11
    whole = 0.3 + 3.0 * 2.125 + 0.7 * 0.73
    assert run._drift(form) == close(drift)
    assert run._rounding(form) == close(gamma(6) * whole + 6 * FLOAT16.normal)
    assert run.form(form).stray == close(run._drift(form) + run._rounding(form))
    assert run.form(form).size == close(0.3 + 6.0 + 0.49)
    soft, (x, y) = straying(TWO, REALS)
    assert soft.form(WordForm({x: 3.0, y: -0.7}, 0.3, off=0.11)).stray == close(drift - 0.11)


def test_deviations_vanish_up_to_a_quarter_of_a_unit_of_the_grid():
    run, (x, _) = straying(TWO)
    for grid in (-3.0, 0.0, 5.0):
        most = 0.25 * FLOAT16.unit * 2.0**grid
        assert run._is_near(grid, most)
        assert not run._is_near(grid, math.nextafter(most, 1.0))
    assert not run._is_near(-math.inf, 0.0)
    run.grid[x], run.size[x], run.stray[x] = 0.0, 1.0, 0.05 * FLOAT16.unit
    assert run._rounding(WordForm({x: 1.0})) == close(gamma(5) * 0.05 * FLOAT16.unit)
    unit = WordUnit("u", WordForm({x: 1.0}), {x: 3.0})
    (passing,) = run._passing([unit]).values()
    assert passing.rounding == close(gamma(3) * 3.0 * 0.05 * FLOAT16.unit * (1.0 + gamma(5)))


def test_registers_keep_what_is_written_to_them():
    run, (x, y) = straying(TWO)
    run._write(x, 1.5, 0.5, 0.3, -math.inf)
    assert run.size[x] == 3.5
    assert run.stray[x] == close(0.625 + gamma(2) * 3.5)
    assert run.start[x] == close((0.75 + 0.3) * (1 + gamma(4)))
    run._write(y, 1.5, 0.5, 100.0, -math.inf, is_shared=True)
    assert run.start[y] == close((0.2 + 2.2 + 0.7 + 0.5) * (1 + gamma(4)))
    run, (x, _) = straying(TWO)
    x.everywhere = True
    run._write(x, 1.5, 0.5, 0.3, -math.inf)
    assert run.start[x] == close(50.0 + 0.625 + gamma(2) * 3.5)


def head_of(does, query=(), key=(), coldness=8.0, gap=1.0, causal=False):
    bias = np.zeros((5, 5))
    return WordHead(
        "step", list(query), list(key), [], [], Softmax(coldness), causal, bias, does, gap
    )


@pytest.mark.parametrize("does", ["mean", "choice", "fetch"])
@pytest.mark.parametrize("start", [0.75, 30.0])
@pytest.mark.parametrize("coldness", [4.0, 60.0])
def test_what_is_received_strays_with_the_value_the_losers_and_the_logits(does, start, coldness):
    run, (x, _) = straying([(2.0, 0.125, start), TWO[1]])
    head, row, logits = head_of(does, coldness=coldness), WordForm({x: 1.5}), 0.4
    value = run.form(row)
    first = 1.5 * start
    most = max(value.size + value.stray, first)
    lost = min(1.0, 5 * math.exp(-(coldness * (1 - gamma(8)) - 0.8)))
    moved = math.tanh(0.2) if does == "mean" else 0.0
    noise = gamma(5 + 8 + 8)
    held = value.stray if does == "fetch" else max(value.stray, first)
    if does == "fetch" and lost <= 0.125 * FLOAT16.unit:
        noise = 2 * lost
    stray = held + 2 * most * (lost + moved) + noise * most
    size, found, at_start = run._received(head, row, 3.0, logits)
    assert (size, found) == (close(3.0 * value.size), close(3.0 * stray))
    assert at_start == close(3.0 * most * (1 + gamma(8)))


@pytest.mark.parametrize("share", [0.01, 0.07, 0.12, 0.13, 0.3])
def test_a_winner_has_all_of_the_weight_while_losers_have_an_eighth_of_a_unit(share):
    run, (x, _) = straying(TWO)
    coldness = (math.log(5 / (share * FLOAT16.unit)) + 0.0) / (1 - gamma(8))
    row = WordForm({x: 1.0})
    value = run.form(row)
    most = value.size + value.stray
    _, found, _ = run._received(head_of("fetch", coldness=coldness), row, 1.0, 0.0)
    noise = 2 * share * FLOAT16.unit if share < 0.125 else gamma(21)
    wanted = value.stray + 2 * most * share * FLOAT16.unit + noise * most
    assert found == close(wanted)
    assert (found - value.stray > 1e-3) == (share > 0.125)


@pytest.mark.parametrize("sane", [True, False])
def test_sums_stray_with_their_shares_and_with_the_start_token(sane):
    run, (x, _) = straying(TWO)
    run.sketch.sane_start = sane
    head = head_of("sum", [run.sketch.token], [run.sketch.token * -3.0])
    value, first = run.form(WordForm({x: 1.5})), 1.5 * 0.75
    most = max(value.size + value.stray, first)
    share, count = math.exp(-3.0), 4.0
    apart = share * count + gamma(21) * 4.0 + math.exp(-EXCLUDED)
    stray = share * count * (value.stray + most * apart) + first
    size, found, at_start = run._received(head, WordForm({x: 1.5}), 2.0, 0.0)
    assert size == close(2.0 * share * count * value.size)
    assert found == close(2.0 * stray)
    asks = share * count * value.size + stray if sane else most * (1 + gamma(8))
    assert at_start == close(2.0 * asks)


@pytest.mark.parametrize("start", [0.0, 90.0])
@pytest.mark.parametrize("does", ["mean", "fetch"])
def test_logits_stray_with_queries_and_keys(start, does):
    run, (x, y) = straying([(2.0, 0.125, 0.75), (0.7, 0.03, start)])
    head = head_of(does, [WordForm({x: 1.5})] * 2, [WordForm({y: 0.5})] * 2)
    query, key = run.form(WordForm({x: 1.5})), run.form(WordForm({y: 0.5}))
    stray = 2 * (query.size * key.stray + key.size * query.stray + key.stray * query.stray)
    if does == "mean":
        stray = max(stray, 2 * (query.size + query.stray) * 0.5 * start)
    whole = 2 * (query.size + query.stray) * (key.size + key.stray)
    assert run._logits(head) == close(8.0 * (stray + gamma(6) * whole))


# ---- hidden units ------------------------------------------------------------------------------


def units_of(x, y, law, count=3):
    return [
        WordUnit("u", WordForm({x: 1.0 + k}, -float(k)), {y: (-1.0) ** k}, law)
        for k in range(count)
    ]


def test_groups_of_units_stray_by_their_law():
    run, (x, y) = straying(TWO)
    law = None
    drifts = [0.125, 0.25, 0.375]
    rounding = [run._rounding(unit.inner) for unit in units_of(x, y, law)]
    worst = drifts[2] + rounding[2]
    assert worst > drifts[2] * 1.01
    for law, wanted in (
        (None, sum(drifts) + sum(rounding)),
        (OneOf(worst), worst),
        (OneOf((worst + drifts[2]) / 2), sum(drifts) + sum(rounding)),
        (Ladder(worst), 3 * drifts[2] + sum(rounding)),
        (Ladder((worst + drifts[2]) / 2), sum(drifts) + sum(rounding)),
    ):
        size, stray = run._gained(units_of(x, y, law), y)
        assert stray == close(wanted)
        assert size == close(2.0 + 5.0 + 8.0)


def test_look_ups_stray_by_slopes_near_their_levels_and_by_the_rounding_of_units():
    run, (x, y) = straying(TWO)
    run.size[x], run.stray[x] = 4.0, 0.125
    law = Levels(np.array([0.0, 1.0, 3.0]))
    units = [
        WordUnit("u", WordForm({x: 1.0}, -k), {y: w}, law) for k, w in ((1.0, 2.0), (3.5, -5.0))
    ]
    own = 2.0 * run._rounding(units[0].inner) + 5.0 * run._rounding(units[1].inner)
    size, stray = run._gained(units, y)
    assert size == 4.0
    assert stray == close(0.125 * 2.0 + own)
    for unit, top in zip(units, (2.0, 0.0), strict=True):
        apart = 0.125 + run._rounding(unit.inner)
        assert run._highest(unit) == close(top + apart)
        plain = WordUnit("u", unit.inner, unit.outer)
        assert run._highest(plain) == close(4.0 + abs(unit.inner.constant) + apart)


def test_knots_within_the_rounding_of_a_level_count():
    """2^7 units of level and knot: 200 units above 1 a slope counts, 300 above it does not."""
    run, (x, y) = straying(TWO)
    law = Levels(np.array([0.0, 1.0]))
    for away, slope in ((200.0, 7.0), (300.0, 0.0)):
        unit = WordUnit("u", WordForm({x: 1.0}, -(1.0 + away * U)), {y: 7.0}, law)
        assert run._looked_up([unit], y, 1e-20)[1] == close(1e-20 * slope)


def test_feeding_forward_writes_what_strays_and_what_is_rounded():
    run, (x, y) = straying(TWO)
    units = units_of(x, y, None, 2)
    size, stray = run._gained(units, y)
    start = run._started(units, y)
    rounding = gamma(4) * sum(run._highest(unit) for unit in units)
    assert run._passing(units)[y].rounding == close(rounding)
    run._feed_forward(units)
    assert run.stray[y] == close(0.03 + stray + rounding + gamma(2) * (0.7 + size))
    assert run.start[y] == close((0.2 + start) * (1 + gamma(4)))


def test_look_ups_at_the_start_token_are_as_large_as_polygons_and_their_rounding():
    run, (x, y) = straying(TWO)
    run.start[x] = 10.0
    for law in (None, Levels(np.array([0.0, 1.0]))):
        units = [
            WordUnit("u", WordForm({x: 1.0}, -k), {y: w}, law) for k, w in ((1.0, 2.0), (1.5, -2.0))
        ]
        slacks = [gamma(5) * (10.0 + k) for k in (1.0, 1.5)]
        total = 2.0 * (9.0 + slacks[0] + 8.5 + slacks[1])
        polygonal = 1.0 + 2.0 * sum(slacks)
        assert run._started(units, y) == pytest.approx(polygonal if law else total, rel=1e-9)


def test_answers_are_charged_for_softening_and_rounding_and_for_a_thousand_operations():
    sketch = WordSketch(Words("ab", 3))
    sketch.needs_start = True
    x, total = sketch.register("x", 1.0), sketch.register("total", 100.0)
    x.symbols = np.array([1 / 3, 0.1])
    sums = WordHead(
        "sum", [sketch.token], [sketch.token * -4.0], [WordForm({x: 1.0})],
        [{total: math.exp(4.0)}], Softmax(1.0), does="sum",
    )  # fmt: skip
    sketch.head(2, sums)
    answer = WordForm({total: 1.0}).looser(0.01)
    (found,) = strays_of(sketch, [answer])
    soft = _Straying(sketch, [answer], REALS).form(answer).stray
    both = _Straying(sketch, [answer], FLOAT64).form(answer).stray
    assert 1 + 1000 * U <= found.softening / soft <= 1 + 3000 * U
    rest = both - found.softening
    assert rest > 0.01
    assert 1 + 1000 * U <= found.rounding / rest <= 1 + 3000 * U


# ---- forms, look-ups, heads --------------------------------------------------------------------


def test_sums_of_forms_are_off_by_both():
    sketch = WordSketch(Words("ab", 3))
    x = sketch.register("x", 1.0)
    one, two = WordForm({x: 1.0}, off=0.25), WordForm({x: 2.0}, off=0.5)
    assert (one + two).off == 0.75
    assert one.looser(0.5).off == 0.75
    assert one.looser(0.0) is one


def test_bends_are_bounded_with_the_rounding_of_their_sums():
    """stray(k + 4) of steepness times reach is added, and nothing else."""
    bends = Bends(np.array([1.0, 2.0]), np.array([3.0, -3.0]))
    found = bends.largest(np.array([5.0]))
    assert 3.0 + 6 * U * 6.0 * 7.0 <= found <= 3.0 + 7 * U * 6.0 * 7.0 + 20 * U * 3.0
    flat = Bends(np.array([2.0]), np.array([3.0])).largest(np.array([1.0]))
    assert 5 * U * 9.0 <= flat <= 5.1 * U * 9.0
    steep = Bends(np.array([0.0]), np.array([2.0**-537])).largest(np.array([2.0**-537]))
    assert 0.0 < steep < 1e-300


def test_bends_are_rounded_outward():
    rng = np.random.default_rng(0)
    for knot, weight in rng.uniform(0.5, 2.0, (200, 2)):
        found = Bends(np.array([knot]), np.array([weight])).largest(np.array([knot * 1e3]))
        least = weight * (knot * 1e3 - knot) + 5 * U * weight * (knot * 1e3 + knot)
        assert found >= least * (1 + 8 * U)


def test_what_floats_explain_is_512_units():
    wanted = np.array([0.0, 4.0])
    for off, is_explained in ((300.0, True), (510.0, True), (514.0, False)):
        found = misfit(wanted + np.array([0.0, 4.0 * off * U]), wanted)
        assert (found is not None) == is_explained
    assert misfit(wanted + 1e-9, wanted, 1e-8) == pytest.approx(1e-9, rel=1e-6)


def test_turns_that_floats_explain_are_left_out_and_others_are_not():
    x = np.arange(4.0)
    for off, knots in ((0.0, 0), (100.0, 0), (400.0, 0), (2000.0, 2)):
        line = polygon(x, np.array([0.0, 1.0, 2.0 + off * U, 3.0 + off * U]))
        assert len(line.knots) == knots


def test_affine_maps_are_found_with_their_shift():
    levels = np.array([1.0, 2.0, 4.0])
    scale, shift, off = affine_map(levels, 3.0 * levels - 7.0)
    assert (scale, shift, off) == (3.0, -7.0, 0.0)


def test_coldness_makes_losers_weigh_less_than_the_leak():
    for leak, gap, tokens in ((30.0, 1.0, 5), (3.0, 0.5, 400), (1.9, 1.0, 9)):
        coldness = Care(leak=leak).coldness(gap, tokens).coldness
        assert tokens * math.exp(-coldness * gap) <= math.exp(-leak)
        assert tokens * math.exp(-coldness * gap / 2) > math.exp(-leak)
