"""Each outward step of the lowerings: taken away, one of these tests goes red."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb

import hardmax as hm
from hardmax.lowering.approximants._supremum import _polynomial_bounds
from hardmax.lowering.gadgets import Site, relu_by_gate
from hardmax.lowering.networks._max_layers import leads_of_pieces
from hardmax.lowering.sketch import (
    BoxRegister,
    BoxSketch,
    Form,
    _ranges,
    _rounding,
    exact_form,
    register_ranges,
)
from hardmax.lowering.sketch._ranges import _add, _in_place, _of_number, _times
from hardmax.numerics import (
    FLOAT16,
    FLOAT32,
    FLOAT64,
    FORMATS,
    Interval,
    exact,
    precision,
    softmax_gap,
)

RNG = np.random.default_rng


def mild(rng, *shape):
    return rng.uniform(0.5, 2.0, shape) * rng.choice([-1.0, 1.0], shape)


# ---- ranges of rows ----------------------------------------------------------------------------


def test_sums_and_products_of_ranges_are_rounded_outward():
    rng = RNG(0)
    for a, b, c, d in mild(rng, 400, 4).tolist():
        one, two = tuple(sorted((a, b))), tuple(sorted((c, d)))
        low, high = _add(one, two)
        assert Fraction(low) <= Fraction(one[0]) + Fraction(two[0])
        assert Fraction(high) >= Fraction(one[1]) + Fraction(two[1])
        low, high = _times(one, two)
        products = [Fraction(x) * Fraction(y) for x in one for y in two]
        assert Fraction(low) <= min(products) <= max(products) <= Fraction(high)
    third = _of_number(Fraction(1, 3))
    assert third[0] < Fraction(1, 3) < third[1]
    assert _times((0.0, 0.0), (1.0, 2.0)) == (0.0, 0.0)
    tiny = 2.0**-600
    assert _times((tiny, tiny), (tiny, tiny))[1] > 0.0


def gated(coldness, gate=(1, 0), value=(0, 1), ends=((0.25, 0.75), (0.5, 2.0))):
    """A sketch with two inputs in two rows, and a gate of one times the other."""
    sketch = BoxSketch(hm.Box(*zip(*ends, strict=True)))
    rows = []
    for i in range(2):
        row = sketch.register()
        row.inputs[i] = Fraction(1)
        rows.append(row)
    forms = [
        Form({r: Fraction(c) for r, c in zip(rows, weights, strict=True) if c}, Fraction(0))
        for weights in (gate, value)
    ]
    maker = sketch.gate(*forms, coldness=coldness, node=0, gain=1.0)
    row = sketch.register()
    sketch.write(row, maker, 1)
    sketch.outputs.append(exact_form(0, row))
    return sketch, maker


@pytest.mark.parametrize("coldness", [1.0, 7.3, 400.7])
def test_weights_of_gates_enclose_balls(coldness):
    """The logit is rounded before the sigmoid: 300 u of it where it is small."""
    rng = RNG(1)
    for low, high in np.sort(-np.abs(mild(rng, 60, 2)), axis=1).tolist():
        sketch, maker = gated(coldness, ends=((low, high), (0.5, 2.0)))
        table = register_ranges(sketch)
        found = _ranges._weight(sketch.makers[maker], table.gates[maker])
        with precision(300):
            for x in (low, high):
                exactly = 1 / (1 + (-arb(coldness) * arb(x)).exp())
                assert arb(found[0]) < exactly < arb(found[1])
        assert found[1] - found[0] < 1e-10 + abs(high - low) * coldness


def test_rows_replaced_in_place_take_their_extremes_at_the_kink():
    """row + w max(a row + b, 0), with a kink that no float hits, over the rationals."""
    rng = RNG(2)
    for slope, constant, weight in mild(rng, 300, 3).tolist():
        sketch = BoxSketch(hm.Box([-4.0], [4.0]))
        row = sketch.register()
        row.inputs[0] = Fraction(1)
        value = Form({row: Fraction(slope)}, Fraction(constant))
        maker = sketch.makers[sketch.unit(value, node=0, gain=1.0)]
        table = register_ranges(sketch)
        low, high = _in_place(maker, row, Fraction(weight), table)
        at = [Fraction(-4), Fraction(4), -Fraction(constant) / Fraction(slope)]
        values = [
            x + Fraction(weight) * max(Fraction(slope) * x + Fraction(constant), 0) for x in at
        ]
        assert Fraction(low) <= min(values)
        assert Fraction(high) >= max(values)
        assert high - low <= float(max(values) - min(values)) * (1 + 1e-12) + 1e-12


@pytest.fixture
def writ_large(monkeypatch):
    """Steps so large that no charge of `_ranges` hides behind another."""
    steps = {
        "up": lambda x: x + 0.25,
        "down": lambda x: x - 0.25,
        "inflate": lambda bound, k=8: bound * (1.0 + k / 16.0),
        "stray": lambda k, size: k * 2.0**-6 * size,
        "elementary_ends": lambda low, high: (low, high),
        "TINY": 1.0,
    }
    for name, step in steps.items():
        monkeypatch.setattr(_ranges, name, step)


def one_row(make, ends=(-4.0, 4.0)):
    """A row that holds the input, what `make` makes of it, and their ranges, made in fine steps."""
    sketch = BoxSketch(hm.Box([ends[0]], [ends[1]]))
    row = sketch.register()
    row.inputs[0] = Fraction(1)
    maker = sketch.makers[make(sketch, Form({row: Fraction(1, 2)}, Fraction(3, 4)))]
    table = _ranges.RangeTable({row: ends}, {}, {}, {}, {row: 4.0}, {})
    return row, maker, table


def test_numbers_become_ranges_that_hold_them():
    """1/10 lies below its float, 1/3 above."""
    for number in (Fraction(1, 10), Fraction(1, 3)):
        low, high = _of_number(number)
        assert Fraction(low) < number < Fraction(high)


def test_charges_of_rows_replaced_in_place(writ_large):
    """max(x/2 + 3/4, 0) has its kink at -3/2; three roundings of 3/4 move it."""
    for weight in (Fraction(2), Fraction(-2)):
        row, unit, table = one_row(lambda p, v: p.unit(v, node=0, gain=1.0))
        low, high = _in_place(unit, row, weight, table)
        slack = (2.0 + 2.0) * 3 * 2.0**-6 * 0.75 * (1 + 4 / 16)
        values = [x + float(weight) * max(x / 2 + 0.75, 0.0) for x in (-4.0, -1.5, 4.0)]
        assert low == pytest.approx(min(values) - slack - 0.5, rel=1e-9)
        assert high == pytest.approx(max(values) + slack + 0.5, rel=1e-9)
        row, gate, table = one_row(lambda p, v: p.gate(v, v, coldness=8.0, node=0, gain=1.0))
        short = 2.0 * (softmax_gap(2) / 8.0 + 0.25) * (1 + 1 / 16)
        soft = _in_place(gate, row, weight, table)
        moved = (-short, 0.0) if weight > 0 else (0.0, short)
        assert soft == pytest.approx((low + moved[0], high + moved[1]), rel=1e-9)


def test_charges_of_a_row_and_another_line(writ_large):
    """x + w max(y/2 + 3/4, 0), y being another row: the shortfall is charged on one side."""
    _, gate, table = one_row(lambda p, v: p.gate(v, v, coldness=8.0, node=0, gain=1.0))
    value, other = gate.value, BoxRegister()
    table.registers[other] = (1.0, 2.0)
    short = softmax_gap(2) / 8.0 + 0.25
    for weight in (Fraction(2), Fraction(-2)):
        joined = _ranges.read(exact_form(0, other) + value * weight, table.registers)
        low, high = _ranges._of_two(gate, other, weight, table)
        charge = 2.0 * short * (1 + 2 / 16) + 0.25
        if weight > 0:
            expected = max(1.0, joined[0]) - charge, max(2.0, joined[1])
        else:
            expected = min(1.0, joined[0]), min(2.0, joined[1]) + charge
        assert (low, high) == pytest.approx(expected, rel=1e-9)


def test_charges_of_gates(writ_large):
    row, gate, _ = one_row(lambda p, v: p.gate(v, v, coldness=8.0, node=0, gain=1.0))
    found = _ranges._weight(gate, (-0.25, 0.125))
    assert found == pytest.approx((1 / (1 + math.exp(2.25)), 1 / (1 + math.exp(-1.25))), rel=1e-12)
    settled = _ranges._shortfall(gate, 6.0, 8.0)
    assert settled == pytest.approx(math.exp(-47.75) * 8.0 * (1 + 1 / 16), rel=1e-9, abs=0.0)
    assert _ranges._shortfall(gate, 5.02, 8.0) == pytest.approx(softmax_gap(2) / 8.0 + 0.25)
    made = _ranges.RangeTable({row: (1.0, 2.0)}, {}, {}, {}, {row: 4.0}, {})
    _ranges._make(0, gate, made)
    value = _ranges.read(gate.value, made.registers)
    low = max(value[0], 0.0) - (softmax_gap(2) / 8.0 + 0.25) - 0.25
    plain = _ranges._times(_ranges._weight(gate, value), value)
    assert made.made[0] == pytest.approx((max(plain[0], low), min(plain[1], value[1])), rel=1e-9)
    assert low > plain[0]


def test_a_soft_maximum_falls_short_by_its_gap_at_most():
    for coldness in np.abs(mild(RNG(3), 200)).tolist():
        sketch, maker = gated(coldness, gate=(1, 0), value=(1, 0), ends=((-1.0, 1.0), (0.5, 2.0)))
        short = _ranges._shortfall(sketch.makers[maker], -1.0, 1.0)
        assert Fraction(short) >= Fraction(softmax_gap(2)) / Fraction(coldness)
        settled = _ranges._shortfall(sketch.makers[maker], 50.0 / coldness, 60.0 / coldness)
        with precision(200):
            assert arb(settled) > (-arb(50.0 / coldness) * arb(coldness)).exp() * arb(
                60.0 / coldness
            )


# ---- rounding of programs ----------------------------------------------------------------------


def charge(sketch, name):
    return _rounding.rounding(sketch, register_ranges(sketch), name)


@pytest.mark.parametrize(("name", "kind"), [("float32", np.float32), ("float16", np.float16)])
def test_gates_in_narrow_formats_stay_within_their_charge(name, kind):
    """NumPy at random points, against the exact product with a sigmoid in balls."""
    rng = RNG(4)
    for coldness in (1.0, 8.0):
        sketch, _ = gated(coldness, ends=((-1.0, 1.0), (0.5, 2.0)))
        found = charge(sketch, name)
        bound = found.nodes[0] + found.outputs[0]
        worst = 0.0
        for x, y in zip(
            rng.uniform(-1, 1, 400).astype(kind), rng.uniform(0.5, 2, 400).astype(kind), strict=True
        ):
            e = np.exp(-abs(kind(coldness) * x))
            share = kind(kind(1) if x >= 0 else e) / kind(kind(1) + e)
            with precision(100):
                truth = arb(float(y)) / (1 + (-arb(coldness) * arb(float(x))).exp())
                worst = max(worst, float(abs(arb(float(kind(share * y))) - truth)))
        assert worst <= bound <= 60 * worst


@pytest.mark.parametrize("name", FORMATS)
def test_each_charge_is_that_of_its_format(name):
    """exp, the logit, the sum, the quotient and the product, all by the unit of the format."""
    format = FORMATS[name]
    sketch, _ = gated(1.0, ends=((-1.0, 1.0), (0.5, 2.0)))
    found = charge(sketch, name).nodes[0]
    least = 2.0 * (format.exp_units / 4 + 1 + 3 * 0.73) * format.unit
    assert least <= found <= 1.3 * least
    same, _ = gated(1.0, value=(1, 0), ends=((-1.0, 1.0), (0.5, 2.0)))
    own = charge(same, name).nodes[0]
    least = (0.28 * (format.exp_units + 4) + 3) * format.unit
    assert least <= own <= 1.3 * least + 1e-300


def test_vanishing_exponentials_are_charged_to_the_gate():
    for format, coldness in ((FLOAT32, 60.0), (FLOAT64, 600.0), (FLOAT16, 8.0)):
        calm, _ = gated(-0.4 * format.exp_vanishes, ends=((-1.0, 1.0), (0.5, 2.0)))
        found = charge(calm, format.name).nodes[0]
        wild, _ = gated(-1.5 * format.exp_vanishes, ends=((-1.0, 1.0), (0.5, 2.0)))
        more = charge(wild, format.name).nodes[0]
        assert more >= format.vanished * 2.0
        assert found < math.inf
        assert coldness > 0


def test_weights_of_54_digits_are_rounded_to_float64():
    sketch = BoxSketch(hm.Box([1.0], [1.0]))
    row = sketch.register()
    row.inputs[0] = Fraction(1)
    for weight, is_held in ((2**53 - 1, True), (2**53 + 1, False), (2**53, True)):
        sketch.outputs[:] = [exact_form(0, row) * weight]
        charged = charge(sketch, "float64").outputs[0]
        product = (weight & (weight - 1)) != 0
        assert charged >= (product + (not is_held)) * 2.0**53 * FLOAT64.unit
        assert charged <= (product + (not is_held)) * 2.0**53 * FLOAT64.unit * 1.01 + 1e-300


def test_sums_of_rows_are_charged_once_per_rounding():
    """Three inputs in one row: two sums; in float16 they are seen to be rounded twice."""
    sketch = BoxSketch(hm.Box([1.0] * 3, [1.0] * 3))
    row = sketch.register()
    for i in range(3):
        row.inputs[i] = Fraction(1)
    sketch.outputs.append(exact_form(0, row))
    for format in (FLOAT64, FLOAT32, FLOAT16):
        charged = charge(sketch, format.name).outputs[0]
        assert 2 * 3 * format.unit <= charged <= 2.01 * 3 * format.unit


# ---- approximants, kinks, leads ----------------------------------------------------------------


def test_polynomials_are_bounded_with_the_radii_of_their_coefficients():
    rng = RNG(5)
    for _ in range(60):
        numbers = [int(n) for n in rng.integers(1, 10**6, 9)]
        with precision(160):
            coefficients = [arb(n) / 7 for n in numbers]
            upper, lower = _polynomial_bounds(coefficients, 0.1)
            top = sum(coefficients, arb(0)) + arb(0.1)
            assert arb(upper) > top
            assert arb(lower) < top
            wide = [arb(c.mid(), 0.5) for c in coefficients]
            assert arb(_polynomial_bounds(wide, 0.1)[0]) > top + 9 * arb(0.5)
            assert _polynomial_bounds(wide, 0.1)[1] < float(top) - 4.0
    assert _polynomial_bounds([arb("nan")], 0.0) == (math.inf, 0.0)


def test_a_centred_rectifier_errs_by_half_its_shortfall():
    for error in np.abs(mild(RNG(6), 200)).tolist():
        sketch = BoxSketch(hm.Box([-1.0], [1.0]))
        row = sketch.register()
        row.inputs[0] = Fraction(1)
        made = relu_by_gate(Site(sketch, 0, (), ()), exact_form(0, row), error)
        coldness = Fraction(sketch.makers[0].coldness)
        short = Fraction(softmax_gap(2)) / coldness
        middle = Fraction(made.form.constant)
        assert Fraction(made.error) >= max(short - middle, middle)


def test_leads_of_pieces_are_exact_from_below_and_0_for_equal_pieces():
    rng = RNG(7)
    weights, biases = mild(rng, 12, 3), mild(rng, 12)
    box = Interval(-np.abs(mild(rng, 3)), np.abs(mild(rng, 3)))
    leads = leads_of_pieces(weights, biases, box)
    low, high = exact(box.lo), exact(box.hi)
    for a in range(12):
        for b in range(12):
            steps = exact(weights[a]) - exact(weights[b])
            least = sum(min(s * x, s * y) for s, x, y in zip(steps, low, high, strict=True))
            assert Fraction(leads[a, b]) <= least + Fraction(biases[a]) - Fraction(biases[b])
    assert (np.diag(leads) == 0.0).all()
