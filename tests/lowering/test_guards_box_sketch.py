"""Each charge for rounding in a stream of rows, beside the same formula over the rationals."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from hardmax.lowering.sketch import (
    BoxRegister,
    BoxSketch,
    Chooser,
    Form,
    _ranges,
    _rounding,
    register_ranges,
)
from hardmax.numerics import FORMATS, softmax_gap

RNG = np.random.default_rng
CLOSE = 1 + Fraction(1, 10**11)  # what roundings of the bound itself may add to it


def lies_just_above(found, exactly):
    return exactly <= Fraction(found) <= exactly * CLOSE + Fraction(1, 10**320)


def size_of(pair):
    return Fraction(max(abs(pair[0]), abs(pair[1])))


def gamma(count, format):
    return count * Fraction(format.unit) / (1 - count * Fraction(format.unit))


def odd(rng):
    """A number of 53 digits, near 1."""
    return float(rng.uniform(0.5, 2.0))


def passing(sketch, name, stored=None):
    found = _rounding._Pass(sketch, register_ranges(sketch), FORMATS[name])
    if stored is not None:
        found.stored = dict(zip(sketch.registers, stored, strict=True))
    return found


def form_of(sketch, weights, constant=Fraction(0)):
    """Numbers of rows with their weights, as a form."""
    return Form({sketch.registers[r]: w for r, w in weights.items()}, constant)


def sum_strays(p, terms, inherited=Fraction(0)):
    """The formula of `_summed`: casts, products, sums; underflow; weights that underflow."""
    terms = [(w, x) for w, x in terms if w]
    roundings = p._terms([w for w, _ in terms])
    size = sum((abs(w) * x for w, x in terms), Fraction(0))
    smallest = Fraction(p.format.smallest)
    own = gamma(roundings, p.format) * size + smallest * (roundings + 1)
    return inherited + own + smallest * sum((x for _, x in terms), Fraction(0))


def rows_of(rng, count, scale=1.0):
    """A sketch of so many inputs, each with a range of its own."""
    ends = scale * rng.uniform(0.5, 2.0, (2, count))
    return BoxSketch(hm.Box(-ends[0], ends[1]))


@pytest.mark.parametrize("name", FORMATS)
def test_reading_a_form_is_charged_for_what_it_reads_and_for_its_own_sums(name):
    rng = RNG(0)
    for case in range(40):
        sketch = rows_of(rng, 3, 1e-6 if case % 2 else 1.0)
        stored = [odd(rng) * 2.0 ** -int(rng.integers(0, 60)) for _ in range(3)]
        p = passing(sketch, name, stored)
        terms = {r: Fraction(odd(rng)) for r in range(1 + case % 3)}
        constant = Fraction(odd(rng)) * (case % 4 == 0)
        inherited = sum((w * Fraction(stored[r]) for r, w in terms.items()), Fraction(0))
        sizes = [
            (w, size_of(p.ranges.registers[sketch.registers[r]]) + Fraction(stored[r]))
            for r, w in terms.items()
        ]
        exactly = sum_strays(p, [*sizes, (constant, Fraction(1))], inherited)
        assert lies_just_above(
            p._read(form_of(sketch, terms, constant), p.ranges.registers), exactly
        )


@pytest.mark.parametrize("name", FORMATS)
def test_embedding_is_charged_for_its_sums(name):
    rng = RNG(1)
    for scale in (1.0, 1e-7, 1e3):
        sketch = rows_of(rng, 3, scale)
        sketch.registers.append(
            BoxRegister(
                inputs={i: Fraction(odd(rng)) for i in range(3)},
                offset=Fraction(odd(rng)) * Fraction(scale),
            )
        )
        p = passing(sketch, name)
        reach = np.maximum(np.abs(sketch.domain.low), np.abs(sketch.domain.high))
        row = sketch.registers[-1]
        terms = [(w, Fraction(reach[i])) for i, w in row.inputs.items()]
        found = p._embedded(row)
        assert lies_just_above(found, sum_strays(p, [*terms, (row.offset, Fraction(1))]))


def test_many_terms_that_vanish_beside_the_first_are_charged():
    """1 and 200 times a little less than half an ulp: plain sums do not see them."""
    little = 0.49 * 2.0**-52
    ends = np.array([1.0, *[little] * 200])
    sketch = BoxSketch(hm.Box(-ends, ends))
    stored = [1.0, *[little] * 200]
    p = passing(sketch, "float64", stored)
    form = form_of(sketch, {r: Fraction(1) for r in range(201)})
    sizes = [
        (Fraction(1), size_of(p.ranges.registers[sketch.registers[r]]) + Fraction(stored[r]))
        for r in range(201)
    ]
    exactly = sum_strays(p, sizes, sum((Fraction(s) for s in stored), Fraction(0)))
    assert lies_just_above(p._read(form, p.ranges.registers), exactly)


def test_a_weight_that_float16_does_not_hold_is_charged():
    """1e-9 is 0 in float16; times 10^4 that is 10^-5, of which relative roundings know nothing."""
    sketch = BoxSketch(hm.Box([-1e4], [1e4]))
    sketch.outputs.append(form_of(sketch, {0: Fraction(1e-9)}))
    found = _rounding.rounding(sketch, register_ranges(sketch), "float16").outputs[0]
    assert found >= abs(float(np.float16(1e-9)) * 1e4 - 1e-9 * 1e4) == 1e-5
    table = np.array([[1e-9, 0.0], [0.0, 0.0]])
    p = passing(sketch, "float16")
    assert p._table_size(table) * FORMATS["float16"].unit >= 0.99e-5 / 40


# ---- gates, choosers ---------------------------------------------------------------------------


def gated(rng, coldness, same, scale):
    sketch = rows_of(rng, 2, scale)
    value = form_of(sketch, {0 if same else 1: Fraction(odd(rng))})
    gate = value if same else form_of(sketch, {0: Fraction(odd(rng))})
    maker = sketch.gate(gate, value, coldness=coldness, node=0, gain=odd(rng))
    sketch.write(sketch.register(), maker, Fraction(odd(rng)))
    return sketch, maker


def gate_strays(p, m):
    """A gate's charge, in the words of the module, from what it reads."""
    maker, rows, format = p.sketch.makers[m], p.ranges.before[0], p.format
    asked, value = Fraction(p._read(maker.gate, rows)), Fraction(p._read(maker.value, rows))
    size, reach = size_of(p.ranges.values[m]) + value, size_of(p.ranges.gates[m]) + asked
    cold, exp = Fraction(maker.coldness), gamma(format.exp_units, format)
    lost = (
        Fraction(format.vanished) if cold * reach > -Fraction(format.exp_vanishes) else Fraction(0)
    )
    if maker.gate.key == maker.value.key:
        own = Fraction(28, 100) * (exp / cold + gamma(4, format) * size)
        total = Fraction(11, 10) * value + own + (gamma(3, format) + lost) * size
    else:
        moved = (cold * (asked + gamma(4, format) * reach) + exp) / 4 + lost
        share = Fraction(_ranges.sigmoid(float(cold * Fraction(p.ranges.gates[m][1])))) + moved
        total = size * (moved + gamma(3, format) * share) + value
    return total + Fraction(format.smallest) * (size + 4)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("same", [True, False])
def test_gates_are_charged_for_each_of_their_roundings(name, same):
    rng, format = RNG(2), FORMATS[name]
    for scale in (1.0, 1.0, 1e-3, 1e-9, 1e-300):
        for logit in (1.0, 8.3, -1.5 * format.exp_vanishes):
            sketch, m = gated(rng, logit / scale * odd(rng), same, scale)
            for stored in (None, rng.uniform(0.0, scale, 3), rng.uniform(0.0, 1e-9 * scale, 3)):
                p = passing(sketch, name, stored)
                found = p._gated(m, sketch.makers[m], p.ranges.before[0])
                assert lies_just_above(found, gate_strays(p, m))


def chosen(rng, coldness, contest, tokens=3, scale=1.0):
    sketch = rows_of(rng, 2)
    tables = [scale * rng.uniform(-2.0, 2.0, (tokens, 3)) for _ in range(3)]
    ends = np.full(tokens, -9.0), np.full(tokens, 9.0)
    chooser = Chooser(
        sublayer=0,
        query=(
            form_of(sketch, {0: Fraction(odd(rng))}),
            form_of(sketch, {1: Fraction(odd(rng))}, Fraction(odd(rng))),
        ),
        keys=tuple(tables[:2]),
        values=tables[2],
        coldness=coldness,
        node=0,
        gain=odd(rng),
        score_ends=ends,
        value_range=(-odd(rng), odd(rng)),
        contest=contest,
    )
    maker = sketch.choose(chooser)
    sketch.write(sketch.register(), maker, Fraction(odd(rng)))
    return sketch, maker


def chooser_strays(p, m):
    """(without the softmax's move, how far logits are off)."""
    maker, rows, format = p.sketch.makers[m], p.ranges.before[0], p.format
    n, inputs = maker.values.shape[0], maker.values.shape[1]
    units = gamma(inputs + len(maker.keys) + 7, format)
    off = gamma(format.exp_units, format)
    for form, key in zip(maker.query, maker.keys, strict=True):
        read = Fraction(p._read(form, rows))
        asked = size_of(_ranges.read(form, rows)) + read
        off += Fraction(maker.coldness) * (units * asked + read) * Fraction(p._table_size(key))
    low, high = map(Fraction, maker.value_range)
    far = 2 * Fraction(maker.coldness) * size_of(p.ranges.gates[m]) > -Fraction(format.exp_vanishes)
    lost = n * Fraction(format.vanished) if far else Fraction(0)
    own = lost * (high - low) + gamma(n + inputs + 5, format) * Fraction(
        p._table_size(maker.values)
    )
    return own + Fraction(format.smallest) * (n + 4), off


@pytest.mark.parametrize("name", FORMATS)
def test_choosers_are_charged_for_each_of_their_roundings(name):
    rng = RNG(3)
    for case in range(60):
        coldness, contest = odd(rng) * (1e-6, 1.0, 30.0)[case % 3], bool(case % 2)
        sketch, m = chosen(rng, coldness, contest, scale=1e-7 if case % 5 == 0 else 1.0)
        p = passing(sketch, name, rng.uniform(0.0, 1.0, 3) * 10.0 ** -float(rng.integers(18)))
        maker = sketch.makers[m]
        own, off = chooser_strays(p, m)
        found = p._chosen(m, maker, p.ranges.before[0])
        low, high = map(Fraction, maker.value_range)
        if contest:
            moved = 2 * off * (Fraction(softmax_gap(3)) + off) / Fraction(maker.coldness)
            assert lies_just_above(found, own + moved)
        else:
            moved = Fraction(math.tanh(min(float(off), 1e3) / 2)) * (high - low)
            assert (
                (own + moved) * (1 - Fraction(1, 10**15))
                <= Fraction(found)
                <= (own + moved) * CLOSE
            )


def test_choosers_of_many_tokens_sum_up_from_above():
    """Roundings of the charge itself that all go the wrong way: tables of hundreds of columns."""
    rng = RNG(4)
    for _ in range(40):
        table = np.abs(rng.uniform(0.5, 2.0, (1, 40)))
        sketch = rows_of(rng, 39)
        p = passing(sketch, "float64")
        reach = np.maximum(np.abs(sketch.domain.low), np.abs(sketch.domain.high))
        exactly = sum(
            Fraction(a) * Fraction(b) for a, b in zip(table[0], [*reach, 1.0], strict=True)
        )
        assert lies_just_above(p._table_size(table), exactly)


# ---- rows, nodes -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMATS)
def test_rows_keep_what_they_gain_and_what_is_left_on_the_sink(name):
    rng = RNG(5)
    for case in range(40):
        sketch, m = chosen(rng, odd(rng), contest=False)
        row = sketch.registers[-1]
        makers = [m]
        for _ in range(case % 3):
            value = form_of(sketch, {0: Fraction(odd(rng)), 1: Fraction(odd(rng))})
            makers.append(sketch.gate(sketch.input(0), value, coldness=1.0, node=0, gain=1.0))
            sketch.write(row, makers[-1], Fraction(odd(rng)))
        scale = 10.0 ** -float(rng.integers(20))
        p = passing(sketch, name, rng.uniform(0.0, scale, 3))
        before = dict(
            zip(sketch.registers, (rng.uniform(0.0, 1.0, 3) * scale).tolist(), strict=True)
        )
        p.left = dict(before)
        rows, format = p.ranges.before[0], p.format
        left = Fraction(0)
        for one in makers:
            weight, maker = row.writes[one], sketch.makers[one]
            if isinstance(maker, Chooser):
                left += weight * gamma(3 + 3 + 4, format) * Fraction(p._table_size(maker.values))
            else:
                left += weight * sum(w * Fraction(before[r]) for r, w in maker.value.terms.items())
        assert lies_just_above(p._left_on_sink(makers, row, before), left)
        left = Fraction(p._left_on_sink(makers, row, before))
        sizes = [size_of(p.ranges.made[one]) for one in makers]
        weights = [row.writes[one] for one in makers]
        total = sum(w * x for w, x in zip(weights, sizes, strict=True))
        inner = (len(makers) - 1) * (total + size_of(rows[row]))
        sums = inner + Fraction(p.ranges.largest[row]) + len(makers) * Fraction(p.stored[row])
        lost = Fraction(format.smallest) * (len(makers) + 1 + sum(sizes))
        products = gamma(p._terms(weights) - (len(makers) - 1), format)
        stored = Fraction(p.stored[row]) + left + products * total + gamma(1, format) * sums + lost
        p._write(set(makers), rows)
        assert lies_just_above(p.left[row], Fraction(before[row]) + left)
        assert lies_just_above(p.stored[row], stored)


def test_what_rows_lose_to_underflow_is_stored():
    """Sizes of 1e-9 in float16: what is lost is not relative to them."""
    sketch, m = gated(RNG(6), 1.0, False, 1e-9)
    p = passing(sketch, "float16", [0.0, 0.0, 0.0])
    p._write({m}, p.ranges.before[0])
    least = 2 * FORMATS["float16"].smallest
    assert least <= p.stored[sketch.registers[2]] <= 1.001 * least


def test_nodes_add_up_what_their_makers_stray():
    """The first maker's charge hides the others': they add up all the same."""
    sketch = BoxSketch(hm.Box([1.0], [1.0]))
    gains = [1.0, *[0.49 * 2.0**-52] * 80]
    for gain in gains:
        sketch.unit(sketch.input(0), node=0, gain=gain)
    p = passing(sketch, "float64", [1.0])
    made = Fraction(p._made(0, sketch.makers[0], p.ranges.registers))
    assert lies_just_above(p.run().nodes[0], made * sum(map(Fraction, gains)))


# ---- ranges ------------------------------------------------------------------------------------


def test_numbers_and_products_lie_between_their_ends():
    for k in range(1, 60):
        low, high = _ranges._of_number(Fraction(k, 61))
        assert Fraction(low) < Fraction(k, 61) < Fraction(high)
    tiny = 2.0**-600
    assert _ranges._times((-tiny, -tiny), (tiny, tiny))[0] < 0.0


@pytest.mark.parametrize("sign", [1, -1])
def test_a_soft_maximum_of_two_is_short_by_its_weight_times_its_gap(sign):
    rng = RNG(8)
    for _ in range(400):
        sketch = rows_of(rng, 2, 0.2)
        value = form_of(sketch, {1: Fraction(odd(rng))})
        maker = sketch.makers[sketch.gate(value, value, coldness=odd(rng), node=0, gain=1.0)]
        table, weight = register_ranges(sketch), sign * Fraction(odd(rng))
        joined = sketch.input(0) + value * weight
        row = sketch.registers[0]
        one, other = table.registers[row], _ranges.read(joined, table.registers)
        short = Fraction(_ranges._shortfall(maker, *_ranges.read(value, table.registers)))
        low, high = _ranges._of_two(maker, row, weight, table)
        if sign > 0:
            least = max(Fraction(one[0]), Fraction(other[0])) - weight * short
            assert least - Fraction(1, 10**14) <= Fraction(low) <= least
        else:
            most = min(Fraction(one[1]), Fraction(other[1])) - weight * short
            assert most <= Fraction(high) <= most + Fraction(1, 10**14)
