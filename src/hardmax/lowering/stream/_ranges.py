"""Where every row can be, stage by stage: the largest logit is read off here, before any weight.

The same lemmas as in `core.follow`, on the data token alone:

- a gate's weight lies in sigmoid(coldness * range of the gate), its output in that times the value;
- a gate that is its own value is a soft maximum with 0: at most softmax_gap(2)/coldness short;
- a row that heads scale in place, row <- row * (1 + sum_i w_i p_i), keeps that product;
- a row that a soft maximum replaces in place, row <- row + w max(v, 0), is a maximum of two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hardmax.lowering.stream._form import Form
from hardmax.lowering.stream._program import Chooser, Gate, Maker, Program, Unit
from hardmax.numerics import Interval, softmax_gap, softmax_ranges

Pair = tuple[float, float]
_SETTLED = 40.0  # logits apart, as in `core`'s contest lemma
_OUT = 2.0**-40  # covers the floats of this file, relative to the size of what is added


@dataclass(eq=False)
class RangeTable:
    """Row ranges before each stage, and what the makers read and make."""

    rows: list[Pair]
    gates: dict[int, Pair]  # maker -> range of its gate
    values: dict[int, Pair]  # maker -> range of its value
    made: dict[int, Pair]  # maker -> range of its output
    largest: list[float]  # row -> the largest magnitude it ever has
    before: dict[int, list[Pair]]  # stage -> the rows as that stage reads them


def row_ranges(program: Program) -> RangeTable:
    """Propagate ranges through all stages."""
    low, high = program.domain.low, program.domain.high
    rows = []
    for row in program.rows:
        start = (float(row.offset), float(row.offset))
        for i, weight in row.inputs.items():
            start = _add(start, _scaled((float(low[i]), float(high[i])), float(weight)))
        rows.append(start)
    table = RangeTable(rows, {}, {}, {}, [_size(r) for r in rows], {})
    for stage in sorted({maker.stage for maker in program.makers}):
        table.before[stage] = list(table.rows)
        _run_stage(program, stage, table)
    return table


def read(form: Form, rows: list[Pair]) -> Pair:
    """The range of a form."""
    result = (float(form.constant), float(form.constant))
    for row, weight in form.terms.items():
        result = _add(result, _scaled(rows[row], float(weight)))
    return result


def sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x)) if x > -700 else 0.0


def _run_stage(program: Program, stage: int, table: RangeTable) -> None:
    active = [m for m, maker in enumerate(program.makers) if maker.stage == stage]
    for m in active:
        _make(m, program.makers[m], table)
    changed = {}
    acting = set(active)
    for r, row in enumerate(program.rows):
        writers = [m for m in row.writes if m in acting]
        if writers:
            changed[r] = _after(program, r, writers, table)
    for r, after in changed.items():
        table.rows[r] = after
        table.largest[r] = max(table.largest[r], _size(after))


def _make(m: int, maker: Maker, table: RangeTable) -> None:
    rows = table.rows
    match maker:
        case Gate():
            gate, value = read(maker.gate, rows), read(maker.value, rows)
            weight = _weight(maker, gate)
            made = _times(weight, value)
            if maker.gate.key == maker.value.key:
                short = softmax_gap(2) / maker.coldness
                made = (max(made[0], max(value[0], 0.0) - short), min(made[1], max(value[1], 0.0)))
        case Unit():
            gate = value = read(maker.value, rows)
            made = (max(value[0], 0.0), max(value[1], 0.0))
        case Chooser():
            low, high = _scores(maker, rows)
            bound = float(max(np.abs(low).max(), np.abs(high).max()))
            gate, value = (-bound, bound), maker.value_range
            made = _meet(value, _mean(maker, low, high))
    table.gates[m], table.values[m], table.made[m] = gate, value, made


def _scores(maker: Chooser, rows: list[Pair]) -> tuple[np.ndarray, np.ndarray]:
    """Every token's score: from what is asked where keys are constants, from them elsewhere."""
    if any(key[:, :-1].any() for key in maker.keys):
        return maker.score_ends
    low = high = np.zeros(maker.tokens)
    for form, key in zip(maker.query, maker.keys, strict=True):
        asked, at = read(form, rows), key[:, -1]
        low = low + np.minimum(at * asked[0], at * asked[1])
        high = high + np.maximum(at * asked[0], at * asked[1])
    return low, high


def _mean(maker: Chooser, low: np.ndarray, high: np.ndarray) -> Pair | None:
    """sum_j p_j v_j with p_j = 1/(1 + sum_i exp(coldness (s_i - s_j))) in its range."""
    if maker.values[:, :-1].any():
        return None
    weights = softmax_ranges(maker.coldness * low, maker.coldness * high)
    mean = weights * Interval.point(maker.values[:, -1])
    return float(mean.lo.sum()), float(mean.hi.sum())


def _weight(maker: Gate, gate: Pair) -> Pair:
    return sigmoid(maker.coldness * gate[0]), sigmoid(maker.coldness * gate[1])


def _after(program: Program, r: int, writers: list[int], table: RangeTable) -> Pair:
    row = program.rows[r]
    before = table.rows[r]
    scale: Pair = (1.0, 1.0)
    added: Pair = (0.0, 0.0)
    for m in writers:
        maker, weight = program.makers[m], float(row.writes[m])
        own = _own_share(maker, r)
        if own is not None and isinstance(maker, Gate):
            scale = _add(scale, _scaled(_weight(maker, table.gates[m]), weight * own))
        else:
            added = _add(added, _scaled(table.made[m], weight))
    plain = _add(_times(before, scale), added)
    if len(writers) == 1:
        return _meet(plain, _in_place(program.makers[writers[0]], r, row.writes[writers[0]], table))
    return plain


def _own_share(maker: Maker, r: int) -> float | None:
    """The factor if the maker's value is a multiple of row r itself, and no soft maximum."""
    if not isinstance(maker, Gate) or maker.value.constant or set(maker.value.terms) != {r}:
        return None
    return None if maker.gate.key == maker.value.key else float(maker.value.terms[r])


def _in_place(maker: Maker, r: int, weight: Fraction, table: RangeTable) -> Pair | None:
    """row + w max(v, 0) with v = a row + b: the larger (w > 0) or smaller of two lines in the row.

    Such a function takes its extremes at the ends of the row's range or where v = 0.
    """
    if isinstance(maker, Chooser):
        return None
    if isinstance(maker, Gate) and maker.gate.key != maker.value.key:
        return None
    if set(maker.value.terms) != {r}:
        return _of_two(maker, r, weight, table)
    low, high = table.rows[r]
    slope, constant = float(maker.value.terms[r]), float(maker.value.constant)
    points = [low, high, *([-constant / slope] if low < -constant / slope < high else [])]
    ends = [x + float(weight) * max(slope * x + constant, 0.0) for x in points]
    values = [slope * x + constant for x in points]
    short = abs(float(weight)) * _shortfall(maker, min(values), max(values))
    slack = _OUT * 2.0**-8 * (max(map(abs, ends)) + abs(float(weight) * constant))
    below, above = (short, 0.0) if weight > 0 else (0.0, short)
    return min(ends) - below - slack, max(ends) + above + slack


def _of_two(maker: Gate | Unit, r: int, weight: Fraction, table: RangeTable) -> Pair:
    """row + w max(v, 0) is the larger (w > 0) or smaller of row and row + w v."""
    joined = Form.combination([(1, Form.of_row(r)), (weight, maker.value)])
    one, other = table.rows[r], read(joined, table.rows)
    short = abs(float(weight)) * _shortfall(maker, *read(maker.value, table.rows))
    if weight > 0:
        return max(one[0], other[0]) - short, max(one[1], other[1])
    return min(one[0], other[0]), min(one[1], other[1]) + short


def _shortfall(maker: Gate | Unit, low: float, high: float) -> float:
    """How far a soft maximum with 0 stays below; nothing to speak of where its sign is settled."""
    if isinstance(maker, Unit):
        return 0.0
    settled = max(low, -high) * maker.coldness
    gap = softmax_gap(2) / maker.coldness
    return gap if settled < _SETTLED else min(gap, math.exp(-settled) * max(abs(low), abs(high)))


def _meet(a: Pair, b: Pair | None) -> Pair:
    return a if b is None else (max(a[0], b[0]), min(a[1], b[1]))


def _size(pair: Pair) -> float:
    return max(abs(pair[0]), abs(pair[1]))


def _add(a: Pair, b: Pair) -> Pair:
    slack = _OUT * 2.0**-10 * (_size(a) + _size(b))
    return a[0] + b[0] - slack, a[1] + b[1] + slack


def _scaled(a: Pair, factor: float) -> Pair:
    return (a[0] * factor, a[1] * factor) if factor >= 0 else (a[1] * factor, a[0] * factor)


def _times(a: Pair, b: Pair) -> Pair:
    products = [x * y for x in a for y in b]
    return min(products), max(products)
