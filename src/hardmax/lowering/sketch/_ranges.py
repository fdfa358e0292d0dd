"""Where every register can be, sublayer by sublayer: the largest logit, before any weight.

The same lemmas as in `analysis.follow`, on the data token alone:

- a gate's weight lies in sigmoid(coldness * range of the gate), its output in that times the value;
- a gate that is its own value is a soft maximum with 0: at most softmax_gap(2)/coldness short;
- a register r that heads scale in place, r <- r * (1 + sum_i w_i p_i), keeps that product;
- a register r that a soft maximum replaces in place, r <- r + w max(v, 0), is a maximum of two.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hardmax.analysis import NEGLIGIBLE
from hardmax.lowering.sketch._box_sketch import (
    BoxForm,
    BoxRegister,
    BoxSketch,
    Chooser,
    Gate,
    Maker,
    Multiplier,
    Pair,
    Unit,
    exact_form,
)
from hardmax.numerics import (
    TINY,
    Interval,
    above_float,
    below_float,
    down,
    elementary_ends,
    exp,
    inflate,
    line_with_kink,
    sigmoid_of_floats,
    softmax_gap,
    softmax_ranges,
    stray,
    up,
)


@dataclass(eq=False)
class RangeTable:
    """BoxRegister ranges before each sublayer, and what the makers read and make."""

    registers: dict[BoxRegister, Pair]
    gates: dict[int, Pair]  # maker -> range of its gate
    values: dict[int, Pair]  # maker -> range of its value
    made: dict[int, Pair]  # maker -> range of its output
    largest: dict[BoxRegister, float]  # the largest magnitude a register ever has
    before: dict[int, dict[BoxRegister, Pair]]  # sublayer -> as it reads them


def register_ranges(sketch: BoxSketch) -> RangeTable:
    """Propagate ranges through all sublayers."""
    low, high = sketch.domain.low, sketch.domain.high
    registers = {}
    for register in sketch.registers:
        start = _of_number(register.offset)
        for i, weight in register.inputs.items():
            start = _add(start, _times((float(low[i]), float(high[i])), _of_number(weight)))
        registers[register] = start
    table = RangeTable(
        registers,
        {},
        {},
        {},
        {register: size_of(registers[register]) for register in registers},
        {},
    )
    for sublayer in sorted({maker.sublayer for maker in sketch.makers}):
        table.before[sublayer] = dict(table.registers)
        _run_sublayer(sketch, sublayer, table)
    return table


def read(form: BoxForm, registers: dict[BoxRegister, Pair]) -> Pair:
    """The range of a form."""
    result = _of_number(form.constant)
    for register, weight in form.terms.items():
        result = _add(result, _times(registers[register], _of_number(weight)))
    return result


def sigmoid(x: float) -> float:
    return float(sigmoid_of_floats(np.asarray(x)))


def _run_sublayer(sketch: BoxSketch, sublayer: int, table: RangeTable) -> None:
    active = [m for m, maker in enumerate(sketch.makers) if maker.sublayer == sublayer]
    for m in active:
        _make(m, sketch.makers[m], table)
    changed = {}
    acting = set(active)
    for register in sketch.registers:
        writers = [m for m in register.writes if m in acting]
        if writers:
            changed[register] = _after(sketch, register, writers, table)
    for register, after in changed.items():
        table.registers[register] = after
        table.largest[register] = max(table.largest[register], size_of(after))


def _make(m: int, maker: Maker, table: RangeTable) -> None:
    registers = table.registers
    match maker:
        case Gate():
            gate, value = read(maker.gate, registers), read(maker.value, registers)
            weight = _weight(maker, gate)
            made = _times(weight, value)
            if maker.is_soft_maximum:
                short = up(softmax_gap(2) / maker.coldness)
                low = down(max(value[0], 0.0) - short)
                made = (max(made[0], low), min(made[1], max(value[1], 0.0)))
        case Unit():
            gate = value = read(maker.value, registers)
            made = (max(value[0], 0.0), max(value[1], 0.0))
        case Multiplier():
            gate, value = read(maker.first, registers), read(maker.second, registers)
            made = _times(gate, value)
            made = (max(made[0], 0.0), made[1]) if maker.is_square else made
        case Chooser():
            scores = _scores(maker, registers)
            bound = float(scores.magnitude.max())
            gate, value = (-bound, bound), maker.value_range
            made = _meet(value, _mean(maker, scores))
    table.gates[m], table.values[m], table.made[m] = gate, value, made


def _scores(maker: Chooser, registers: dict[BoxRegister, Pair]) -> Interval:
    """Every token's score: from what is asked where keys are constants, from them elsewhere."""
    if any(key[:, :-1].any() for key in maker.keys):
        return Interval(*maker.score_ends)
    scores = Interval.point(np.zeros(maker.tokens))
    for form, key in zip(maker.query, maker.keys, strict=True):
        low, high = read(form, registers)
        scores = scores + Interval(np.asarray(low), np.asarray(high)) * key[:, -1]
    return scores


def _mean(maker: Chooser, scores: Interval) -> Pair | None:
    """sum_j p_j v_j with p_j = 1/(1 + sum_i exp(coldness (s_i - s_j))) in its range."""
    if maker.values[:, :-1].any():
        return None
    logits = scores * maker.coldness
    mean = (softmax_ranges(logits.lo, logits.hi) * maker.values[:, -1]).sum(axis=0)
    return float(mean.lo), float(mean.hi)


def _weight(maker: Gate, gate: Pair) -> Pair:
    low, high = down(maker.coldness * gate[0]), up(maker.coldness * gate[1])
    ends = elementary_ends(sigmoid(low), sigmoid(high))
    return max(float(ends[0]), 0.0), min(float(ends[1]), 1.0)


def _after(sketch: BoxSketch, register: BoxRegister, writers: list[int], table: RangeTable) -> Pair:
    before = table.registers[register]
    scale: Pair = (1.0, 1.0)
    added: Pair = (0.0, 0.0)
    for m in writers:
        maker, weight = sketch.makers[m], register.writes[m]
        own = _own_share(maker, register)
        if own is not None and isinstance(maker, Gate):
            share = _weight(maker, table.gates[m])
            scale = _add(scale, _times(share, _of_number(weight * own)))
        else:
            added = _add(added, _times(table.made[m], _of_number(weight)))
    plain = _add(_times(before, scale), added)
    if len(writers) == 1:
        (m,) = writers
        return _meet(plain, _in_place(sketch.makers[m], register, register.writes[m], table))
    return plain


def _own_share(maker: Maker, register: BoxRegister) -> Fraction | None:
    """The factor if the maker's value is a multiple of the register itself, and no soft maximum."""
    if not isinstance(maker, Gate) or maker.value.constant or set(maker.value.terms) != {register}:
        return None
    return None if maker.is_soft_maximum else maker.value.terms[register]


def _in_place(
    maker: Maker, register: BoxRegister, weight: Fraction, table: RangeTable
) -> Pair | None:
    """r + w max(v, 0) with v = a r + b: the larger (w > 0) or smaller of two lines in r.

    `line_with_kink` says where such a function is extreme. The float taken for -b/a is off by
    3 u |b/a| at most, and the function moves by 1 + |w a| times that.
    """
    if isinstance(maker, Chooser | Multiplier):
        return None
    if isinstance(maker, Gate) and not maker.is_soft_maximum:
        return None
    if set(maker.value.terms) != {register}:
        return _of_two(maker, register, weight, table)
    low, high = table.registers[register]
    slope, constant = float(maker.value.terms[register]), float(maker.value.constant)
    points = [low, high, *([-constant / slope] if low < -constant / slope < high else [])]
    x, factor = Interval.point(np.array(points)), Interval.point(weight)
    value = Interval.point(maker.value.terms[register]) * x + Interval.point(maker.value.constant)
    ends = line_with_kink(x, value, factor)
    short = _shortfall(maker, float(value.lo.min()), float(value.hi.max()))
    slack = (factor.magnitude + 1.0 / abs(slope)) * stray(3, abs(constant))
    off = inflate(float(short * factor.magnitude), 1), inflate(float(slack), 4)
    below, above = (off[0], 0.0) if weight > 0 else (0.0, off[0])
    return _add(_add((ends.lo.min(), ends.hi.max()), (-below, above)), (-off[1], off[1]))


def _of_two(maker: Gate | Unit, register: BoxRegister, weight: Fraction, table: RangeTable) -> Pair:
    """r + w max(v, 0) is the larger (w > 0) or smaller of r and r + w v."""
    shifted = exact_form(0, register) + maker.value * weight
    one, other = table.registers[register], read(shifted, table.registers)
    short = inflate(abs(float(weight)) * _shortfall(maker, *read(maker.value, table.registers)), 2)
    if weight > 0:
        return down(max(one[0], other[0]) - short), max(one[1], other[1])
    return min(one[0], other[0]), up(min(one[1], other[1]) + short)


def _shortfall(maker: Gate | Unit, low: float, high: float) -> float:
    """How far a soft maximum with 0 stays below; nothing to speak of where its sign is settled."""
    if isinstance(maker, Unit):
        return 0.0
    settled = down(max(low, -high) * maker.coldness)
    gap = up(softmax_gap(2) / maker.coldness)
    if settled < NEGLIGIBLE:
        return float(gap)
    left = float(exp(Interval.point(-settled)).hi)
    return min(float(gap), inflate(left * max(abs(low), abs(high)), 1))


def _meet(a: Pair, b: Pair | None) -> Pair:
    return a if b is None else (max(a[0], b[0]), min(a[1], b[1]))


def size_of(pair: Pair) -> float:
    return max(abs(pair[0]), abs(pair[1]))


def _add(a: Pair, b: Pair) -> Pair:
    return down(float(a[0] + b[0])), up(float(a[1] + b[1]))


def _of_number(number: Fraction | int) -> Pair:
    return below_float(number), above_float(number)


def _times(a: Pair, b: Pair) -> Pair:
    if not (any(a) and any(b)):
        return 0.0, 0.0
    products = [x * y for x in a for y in b]
    return down(float(min(products))) - TINY, up(float(max(products))) + TINY
