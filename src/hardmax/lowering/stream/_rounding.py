"""How far floats stray from the program's real numbers, node by node, for a given unit roundoff.

Rounding is charged where it happens and multiplied by what it can do from there:

- *Storing.* A row collects what the embedding and the additions to it round (`stored`).
- *Reading.* A form that is one row times a power of two is read exactly; any other rounds once
  per term, plus once for each weight that the format does not hold.
- *A gate.* Its weight p = sigmoid(l) has slope at most 1/4. The larger of the two exponentials is
  exp(0) = 1, exactly, and an exp with relative error r is the exp of a logit that is off by r: so
  exp costs r/4, an error d of the gate costs coldness d/4, and sum, quotient and product with the
  value cost one unit each, relative to p.
- *A gate that is its own value* computes z p(z), whose slope lies in [-0.1, 1.1], and a logit that
  is off by d moves it by d |z| p (1 - p) <= 0.28 d/coldness, an error relative to the logit by at
  most 0.28 |z|: y^2 e^-y/(1 + e^-y)^2 <= 0.44 and y p (1 - p) <= 0.23.
- *A chooser.* If logits are off by d, the weights move by tanh(d/2) in total variation; if it is a
  contest, the maximum moves by at most 2 d (c_n + d)/coldness (see `core`'s contest lemma).

All orders of summation are covered: k additions in any order are k - 1 partial sums, each at most
the sum of all sizes, and the last one, which is the result.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hardmax.lowering.stream._form import Form
from hardmax.lowering.stream._program import Chooser, Gate, Maker, Program, Row, Unit
from hardmax.lowering.stream._ranges import Pair, RangeTable, read, sigmoid
from hardmax.numerics import LARGEST, UNIT_ROUNDOFF, gamma, softmax_gap

EXP_UNITS = 16  # exp is trusted to 8 ulps: NumPy documents 4
_SECOND_ORDER = 1.001  # products of two roundings
_SMALLEST = {"float64": 5e-324, "float32": 2.0**-149, "float16": 2.0**-24, "bfloat16": 2.0**-133}


@dataclass(eq=False)
class Rounding:
    """What rounding injects into each node, and into each output directly."""

    nodes: dict[int, float]
    outputs: list[float]
    overflows: bool


def rounding(program: Program, ranges: RangeTable, dtype: str = "float64") -> Rounding:
    """Charge every node for the rounding of its makers, in the given float format."""
    return _Pass(program, ranges, dtype).run()


class _Pass:
    def __init__(self, program: Program, ranges: RangeTable, dtype: str) -> None:
        self.program, self.ranges = program, ranges
        self.unit = UNIT_ROUNDOFF[dtype]
        self.bits = 1 - round(math.log2(self.unit))
        self.largest = LARGEST[dtype]
        self.tiny = _SMALLEST[dtype]  # a product may lose this much to underflow
        self.casts = 1 if dtype == "float64" else 2  # a weight is rounded to float64, then again
        self.stored = [self._embedded(r) for r in range(len(program.rows))]
        self.left = [0.0] * len(program.rows)  # on the sink
        self.nodes: dict[int, float] = defaultdict(float)

    def run(self) -> Rounding:
        by_stage: dict[int, list[int]] = defaultdict(list)
        for m, maker in enumerate(self.program.makers):
            by_stage[maker.stage].append(m)
        for stage in sorted(by_stage):
            rows = self.ranges.before[stage]
            for m in by_stage[stage]:
                maker = self.program.makers[m]
                self.nodes[maker.node] += maker.gain * self._made(m, maker, rows)
            self._write(set(by_stage[stage]), rows)
        final = self.ranges.rows
        outputs = [self._read(form, final) for form in self.program.outputs]
        return Rounding(dict(self.nodes), outputs, self._overflows())

    def _exact(self, weight: Fraction) -> bool:
        """Multiplying by it rounds nothing: 0 or a power of two."""
        return _odd_part(weight) <= 1

    def _held(self, weight: Fraction) -> bool:
        """The format holds it."""
        return _odd_part(weight).bit_length() <= self.bits

    def _terms(self, weights: list[Fraction]) -> int:
        """Roundings a term can go through: casting its weight, multiplying, adding."""
        cast = 0 if all(self._held(w) for w in weights) else self.casts
        product = 0 if all(self._exact(w) for w in weights) else 1
        return cast + product + max(len(weights) - 1, 0)

    def _embedded(self, r: int) -> float:
        row, domain = self.program.rows[r], self.program.domain
        weights = [*row.inputs.values(), *([row.offset] if row.offset else [])]
        size = abs(float(row.offset)) + sum(
            abs(float(w)) * max(abs(domain.low[i]), abs(domain.high[i]))
            for i, w in row.inputs.items()
        )
        return float(gamma(self._terms(weights), self.unit)) * size + self.tiny * len(weights)

    def _read(self, form: Form, rows: list[Pair]) -> float:
        weights = [*form.terms.values(), *([form.constant] if form.constant else [])]
        size = abs(float(form.constant)) + sum(
            abs(float(w)) * _size(rows[r]) for r, w in form.terms.items()
        )
        inherited = sum(abs(float(w)) * self.stored[r] for r, w in form.terms.items())
        rounded = float(gamma(self._terms(weights), self.unit)) * size
        return inherited + rounded + self.tiny * len(weights)

    def _made(self, m: int, maker: Maker, rows: list[Pair]) -> float:
        unit = self.unit
        match maker:
            case Gate():
                size, gate = _size(self.ranges.values[m]), self.ranges.gates[m]
                if maker.gate.key == maker.value.key:
                    off = EXP_UNITS * unit / maker.coldness + 4 * unit * size
                    asked = self._read(maker.value, rows)
                    rounded = 0.28 * off + 3 * unit * size
                    return (1.1 * asked + rounded) * _SECOND_ORDER + self.tiny * (size + 4)
                logit = maker.coldness * (self._read(maker.gate, rows) + 4 * unit * _size(gate))
                share = sigmoid(maker.coldness * gate[1])
                weight = (logit + EXP_UNITS * unit) / 4 + 3 * unit * share
                total = size * weight + self._read(maker.value, rows)
                return total * _SECOND_ORDER + self.tiny * (size + 4)
            case Unit():
                return self._read(maker.value, rows)
            case Chooser():
                return self._chosen(m, maker, rows)

    def _chosen(self, m: int, maker: Chooser, rows: list[Pair]) -> float:
        """Tables are rounded like embeddings: relative to |weights| |x| + |constant|."""
        unit, n = self.unit, maker.tokens
        inputs = maker.values.shape[1]
        off = EXP_UNITS * unit
        for form, key in zip(maker.query, maker.keys, strict=True):
            size, asked = self._table_size(key), _size(read(form, rows))
            rounded = float(gamma(inputs + len(maker.keys) + 7, unit)) * asked * size
            off += maker.coldness * (rounded + self._read(form, rows) * size)
        low, high = maker.value_range
        if maker.contest:
            moved = 2 * off * (softmax_gap(n) + off) / maker.coldness
        else:
            moved = math.tanh(min(off, 1e3) / 2) * (high - low)
        size = self._table_size(maker.values)
        rounded = float(gamma(n + inputs + 5, unit)) * size
        return (moved + rounded) * _SECOND_ORDER + self.tiny * (n + 4)

    def _table_size(self, table: np.ndarray) -> float:
        """The largest sum of |terms| of a table's entries over the domain."""
        domain = self.program.domain
        reach = np.maximum(np.abs(domain.low), np.abs(domain.high))
        return float((np.abs(table[:, :-1]) @ reach + np.abs(table[:, -1])).max())

    def _write(self, acting: set[int], rows: list[Pair]) -> None:
        before = list(self.left)
        for r, row in enumerate(self.program.rows):
            writers = [m for m in row.writes if m in acting]
            if not writers:
                continue
            weights = [row.writes[m] for m in writers]
            total = sum(abs(float(row.writes[m])) * _size(self.ranges.made[m]) for m in writers)
            products = self._terms(weights) - (len(weights) - 1)
            inner = (len(writers) - 1) * (total + _size(rows[r]))
            self.stored[r] += float(gamma(products, self.unit)) * total
            self.stored[r] += self.tiny * (len(writers) + 1)
            left = self._left_on_sink(writers, row, before)
            self.left[r] += left
            self.stored[r] += left
            self.stored[r] += self.unit * (inner + self.ranges.largest[r]) * _SECOND_ORDER

    def _left_on_sink(self, writers: list[int], row: Row, before: list[float]) -> float:
        """What is left on the sink, where rows should be 0: charged as if stored on data.

        A chooser leaves its rounding; a gate, which the sink asks too, passes on what is there.
        """
        left = 0.0
        for m in writers:
            maker, weight = self.program.makers[m], abs(float(row.writes[m]))
            match maker:
                case Chooser():
                    terms = maker.tokens + maker.values.shape[1] + 4
                    size = self._table_size(maker.values)
                    left += weight * float(gamma(terms, self.unit)) * size
                case Gate():
                    read = maker.value.terms.items()
                    left += weight * sum(abs(float(w)) * before[r] for r, w in read)
        return left

    def _overflows(self) -> bool:
        """Whether a row, a logit or a table may exceed the format's largest number."""
        logits = [
            maker.coldness * _size(self.ranges.gates[m])
            for m, maker in enumerate(self.program.makers)
            if not isinstance(maker, Unit)
        ]
        tables = [
            self._table_size(table)
            for maker in self.program.makers
            if isinstance(maker, Chooser)
            for table in (*maker.keys, maker.values)
        ]
        return max([*self.ranges.largest, *logits, *tables], default=0.0) > self.largest


def _odd_part(weight: Fraction) -> int:
    """The odd part of a dyadic number's numerator; huge for any other."""
    if weight == 0:
        return 0
    denominator = weight.denominator
    if denominator & (denominator - 1):
        return 1 << 4096
    numerator = abs(weight.numerator)
    return numerator // (numerator & -numerator)


def _size(pair: Pair) -> float:
    return max(abs(pair[0]), abs(pair[1]))
