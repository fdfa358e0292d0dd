"""How far floats stray from the sketch's real numbers, node by node, for a given format.

Rounding is charged where it happens and multiplied by what it can do from there:

- *Storing.* A register collects what the embedding and the additions to it round (`stored`).
- *Reading.* A form that is one register times a power of two is read exactly; any other rounds once
  per term, plus once for each weight that the format does not hold. A weight too small for the
  format loses up to its smallest number, whatever it is multiplied with.
- *A gate.* Its weight p = sigmoid(l) has slope at most 1/4. The larger of the two exponentials is
  exp(0) = 1, exactly, and an exp with relative error r is the exp of a logit that is off by r: so
  exp costs r/4, an error d of the gate costs coldness d/4, and sum, quotient and product with the
  value cost one unit each, relative to p. Where exponentials vanish, p loses that much.
- *A gate that is its own value* computes z p(z), whose slope lies in [-0.1, 1.1], and a logit that
  is off by d moves it by d |z| p (1 - p) <= 0.28 d/coldness, an error relative to the logit by at
  most 0.28 |z|: y^2 e^-y/(1 + e^-y)^2 <= 0.44 and y p (1 - p) <= 0.23.
- *A product.* Its two units read a and -a, each within d, and b within e, each for itself. One of
  them is 0, or nearly: relu(a + d1) - relu(d2 - a) is within d of a, and the sum of both at most
  |a| + 2 d. So they err by d |b| + (|a| + 2 d) e and by one rounding of (|a| + 2 d)(|b| + e).
- *A chooser.* If logits are off by d, the weights move by tanh(d/2) in total variation; if it is a
  contest, the maximum moves by at most 2 d (c_n + d)/coldness (see `analysis`'s contest lemma).
  If the values that weigh something lie close together, sum_jk p_j p_k |v_j - v_k| <= s, the mean
  moves by no more than (e^(4d) - 1) s/4. Proof: let logits move by t e_k, |e_k| <= d, t from 0 to
  1. The mean has the derivative sum_k p_k (v_k - mean) e_k = sum_jk p_j p_k (v_k - v_j) e_k =
  1/2 sum_jk p_j p_k (v_k - v_j) (e_k - e_j), which is at most d times the sum in size; and weights
  grow by e^(2 d t) at most. QED

A weight is rounded to float64 first, and by some frameworks to float32 after that. With units
v <= 2^-24 before the format's own u >= v that is a factor (1 + v)^2 (1 + u) at most, which is less
than 1 + gamma_1 = 1 + u + u^2 + ... if v is 2^-53, or 2^-24 and u at least 2^-11: casting is one
rounding in every format.

All orders of summation are covered: k additions in any order are k - 1 partial sums, each at most
the sum of all sizes, and the last one, which is the result.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from math import frexp

import numpy as np

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
)
from hardmax.lowering.sketch._ranges import RangeTable, read, sigmoid, size_of
from hardmax.numerics import (
    BLOCK,
    FORMATS,
    Format,
    gamma,
    inflate,
    softmax_gap,
    stray,
    weights_moved,
)


@dataclass(eq=False)
class Rounding:
    """What rounding injects into each node, and into each output directly."""

    nodes: dict[int, float]
    outputs: list[float]
    overflows: bool


def rounding(sketch: BoxSketch, ranges: RangeTable, dtype: str = "float64") -> Rounding:
    """Charge every node for the rounding of its makers, in the given float format."""
    return _Pass(sketch, ranges, FORMATS[dtype]).run()


class _Pass:
    def __init__(self, sketch: BoxSketch, ranges: RangeTable, format: Format) -> None:
        self.sketch, self.ranges, self.format = sketch, ranges, format
        self.stored = {register: self._embedded(register) for register in sketch.registers}
        self.left = dict.fromkeys(sketch.registers, 0.0)  # on the sink
        self.nodes: dict[int, float] = defaultdict(float)

    def run(self) -> Rounding:
        by_sublayer: dict[int, list[int]] = defaultdict(list)
        for m, maker in enumerate(self.sketch.makers):
            by_sublayer[maker.sublayer].append(m)
        for sublayer in sorted(by_sublayer):
            registers = self.ranges.before[sublayer]
            for m in by_sublayer[sublayer]:
                maker = self.sketch.makers[m]
                added = maker.gain * self._made(m, maker, registers)
                self.nodes[maker.node] = inflate(self.nodes[maker.node] + added, 2)
            self._write(set(by_sublayer[sublayer]), registers)
        final = self.ranges.registers
        outputs = [self._read(form, final) for form in self.sketch.outputs]
        return Rounding(dict(self.nodes), outputs, self._overflows())

    def _exact(self, weight: Fraction) -> bool:
        """Multiplying by it rounds nothing: 0 or a power of two."""
        return _odd_part(weight) <= 1

    def _held(self, weight: Fraction) -> bool:
        """The format holds it."""
        digits = _odd_part(weight).bit_length()
        return digits <= self.format.digits and weight * 2**-self.format.least % 1 == 0

    def _terms(self, weights: list[Fraction]) -> int:
        """Roundings a term can go through: casting its weight, multiplying, adding."""
        cast = 0 if all(self._held(w) for w in weights) else 1
        product = 0 if all(self._exact(w) for w in weights) else 1
        return cast + product + max(len(weights) - 1, 0)

    def _embedded(self, register: BoxRegister) -> float:
        domain = self.sketch.domain
        reach = np.maximum(np.abs(domain.low), np.abs(domain.high)).tolist()
        terms = [(weight, reach[i]) for i, weight in register.inputs.items()]
        return self._summed([*terms, (register.offset, 1.0)])

    def _summed(self, terms: list[tuple[Fraction, float]], inherited: float = 0.0) -> float:
        """How far a sum of weights times numbers of such sizes strays, besides what they did.

        A weight that is rounded to the format may lose half its smallest number, and the term
        that many times the number it is multiplied with.
        """
        terms = [(weight, reach) for weight, reach in terms if weight]
        size = sum(abs(float(weight)) * reach for weight, reach in terms)
        rounded = stray(self._terms([weight for weight, _ in terms]), size, self.format)
        lost = self.format.smallest * sum(reach for _, reach in terms)
        return float(inflate(inherited + rounded + lost, len(terms) + 6))

    def _read(self, form: BoxForm, registers: dict[BoxRegister, Pair]) -> float:
        terms = [
            (weight, size_of(registers[r]) + self.stored[r]) for r, weight in form.terms.items()
        ]
        inherited = sum(abs(float(weight)) * self.stored[r] for r, weight in form.terms.items())
        return self._summed([*terms, (form.constant, 1.0)], inherited)

    def _units(self, count: int) -> float:
        return float(gamma(count, self.format))

    def _vanished(self, logit: float, tokens: int = 1) -> float:
        """What exponentials of logits so far apart may lose altogether."""
        return tokens * self.format.vanished if logit > -self.format.exp_vanishes else 0.0

    def _made(self, m: int, maker: Maker, registers: dict[BoxRegister, Pair]) -> float:
        match maker:
            case Gate():
                return self._gated(m, maker, registers)
            case Unit():
                return self._read(maker.value, registers)
            case Chooser():
                return self._chosen(m, maker, registers)
            case Multiplier():
                return self._multiplied(m, maker, registers)

    def _gated(self, m: int, maker: Gate, registers: dict[BoxRegister, Pair]) -> float:
        asked, value = self._read(maker.gate, registers), self._read(maker.value, registers)
        size, reach = size_of(self.ranges.values[m]) + value, size_of(self.ranges.gates[m]) + asked
        lost = self._vanished(maker.coldness * reach)
        if maker.is_soft_maximum:
            off = self._units(self.format.exp_units) / maker.coldness + self._units(4) * size
            rounded = 0.28 * off + (self._units(3) + lost) * size
            total = 1.1 * value + rounded
        else:
            logit = maker.coldness * (asked + self._units(4) * reach)
            moved = (logit + self._units(self.format.exp_units)) / 4 + lost
            share = sigmoid(maker.coldness * self.ranges.gates[m][1]) + moved
            total = size * (moved + self._units(3) * share) + value
        return float(inflate(total + self.format.smallest * (size + 4), 16))

    def _multiplied(self, m: int, maker: Multiplier, registers: dict[BoxRegister, Pair]) -> float:
        d, e = self._read(maker.first, registers), self._read(maker.second, registers)
        a, b = size_of(self.ranges.gates[m]) + 2.0 * d, size_of(self.ranges.values[m]) + e
        lost = 2.0 * self.format.smallest * (a + b + 2.0)
        return float(inflate(d * b + a * e + self._units(1) * a * b + lost, 12))

    def _chosen(self, m: int, maker: Chooser, registers: dict[BoxRegister, Pair]) -> float:
        """Tables are rounded like embeddings: relative to |weights| |x| + |constant|."""
        n, inputs = maker.tokens, maker.values.shape[1]
        # a key is cast, multiplied with the query and its coldness, added up, less the maximum;
        # one that depends on the input is embedded before that
        embedded = inputs + 3 if any(table[:, :-1].any() for table in maker.keys) else 0
        units = self._units(embedded + len(maker.keys) + 4)
        off = self._units(self.format.exp_units)
        for form, key in zip(maker.query, maker.keys, strict=True):
            inherited = self._read(form, registers)
            asked = size_of(read(form, registers)) + inherited
            off += maker.coldness * (units * asked + inherited) * self._table_size(key)
        low, high = maker.value_range
        if maker.contest:
            moved = 2 * off * (softmax_gap(n) + off) / maker.coldness
        else:
            near = 0.25 * np.expm1(min(4.0 * off, 700.0)) * maker.spread
            moved = min(weights_moved(off) * (high - low), inflate(near, 8))
            moved = min(moved, self._moved(maker, registers))
        lost = self._vanished(2 * maker.coldness * size_of(self.ranges.gates[m]), n)
        # terms are rounded by their own sizes, p_k |v_k|, and partial sums are no larger than all
        size = min(self._table_size(maker.values), maker.weighed * np.exp(min(2.0 * off, 700.0)))
        # an addition errs by no more than its smaller operand: light tokens add what they weigh
        mixed = n if maker.heavy is None else min(n, 2 * maker.heavy(self.format) + 8 + n // BLOCK)
        total = moved + lost * (high - low) + self._units(mixed + inputs + 5) * size
        return float(inflate(total + self.format.smallest * (n + 4), 2 * len(maker.keys) + 32))

    def _moved(self, maker: Chooser, registers: dict[BoxRegister, Pair]) -> float:
        """How far rounding moves the mean of a chooser that says so by itself.

        A key is cast, if it is no number of the format, multiplied, and added to the others: that
        is each logit's own error. The last addition rounds the logit itself: the largest one, and a
        difference. What a query goes through besides, in its weights, the coldness and their
        product, is one factor for all keys: a factor for all logits, and another question. The last
        query is 1: times a coldness that is a power of two its products are exact. Subtracting the
        largest logit rounds a difference.
        """
        if maker.moved is None:
            return np.inf
        read_errors = [self._read(form, registers) for form in maker.query]
        asked = [
            size_of(read(form, registers)) + error
            for form, error in zip(maker.query, read_errors, strict=True)
        ]
        sizes = [q * self._table_size(k) for q, k in zip(asked, maker.keys, strict=True)]
        cast = [
            s for s, key in zip(sizes, maker.keys, strict=True) if not self.format.holds(key).all()
        ]
        products = sizes[:-1] if frexp(maker.coldness)[0] == 0.5 else sizes
        inner = max(len(sizes) - 2, 0) * sum(sizes)
        low, high = (float(ends.max()) for ends in maker.score_ends)
        rounded = sum(cast) + sum(products) + inner + max(high, -low, 0.0)
        twice = self._units(len(sizes) + 2) * (len(sizes) + 1) * sum(sizes)  # of what is rounded
        own = self._units(self.format.power_units(maker.tokens))
        own += maker.coldness * self._units(1) * (rounded + twice)
        common = self._units(8)
        pairs = zip(asked[:-1], read_errors[:-1], strict=True)
        apart = [float(inflate(error + common * size, 2)) for size, error in pairs]
        return maker.moved(float(inflate(own, 8)), apart, common)

    def _table_size(self, table: np.ndarray) -> float:
        """The largest sum of |terms| of a table's entries over the domain.

        Entries below the smallest normal number are rounded as if they were that.
        """
        domain = self.sketch.domain
        reach = np.maximum(np.abs(domain.low), np.abs(domain.high))
        table = np.where(table == 0.0, 0.0, np.maximum(np.abs(table), self.format.normal))
        sizes = table[:, :-1] @ reach + table[:, -1]
        return float(inflate(float(sizes.max()), len(reach) + 1))

    def _write(self, acting: set[int], registers: dict[BoxRegister, Pair]) -> None:
        before = dict(self.left)
        for register in self.sketch.registers:
            writers = [m for m in register.writes if m in acting for _ in range(self._parts(m))]
            if not writers:
                continue
            weights = [register.writes[m] for m in writers]
            sizes = [size_of(self.ranges.made[m]) for m in writers]
            total = sum(abs(float(w)) * size for w, size in zip(weights, sizes, strict=True))
            products = self._terms(weights) - (len(weights) - 1)
            inner = (len(writers) - 1) * (total + size_of(registers[register]))
            sums = inner + self.ranges.largest[register] + len(writers) * self.stored[register]
            left = self._left_on_sink(list(dict.fromkeys(writers)), register, before)
            lost = self.format.smallest * (len(writers) + 1 + sum(sizes))  # weights', too
            rounded = self._units(products) * total + self._units(1) * sums + lost
            self.left[register] = float(inflate(self.left[register] + left, 1))
            self.stored[register] = float(
                inflate(self.stored[register] + left + rounded, len(writers) + 8)
            )

    def _parts(self, maker: int) -> int:
        """How many numbers it writes: a product is two units, each as large as the product."""
        return 2 if isinstance(self.sketch.makers[maker], Multiplier) else 1

    def _left_on_sink(
        self, writers: list[int], register: BoxRegister, before: dict[BoxRegister, float]
    ) -> float:
        """What is left on the sink, where registers should be 0: charged as if stored on data.

        A chooser leaves its rounding; a gate, which the sink asks too, passes on what is there,
        and so do units, whose constants are 0 on the sink.
        """
        left = 0.0
        for m in writers:
            maker, weight = self.sketch.makers[m], abs(float(register.writes[m]))
            match maker:
                case Chooser():
                    terms = maker.tokens + maker.values.shape[1] + 4
                    size = self._table_size(maker.values)
                    left += weight * self._units(terms) * size
                case Gate() | Unit():
                    left += weight * _left_in(maker.value, before)
                case Multiplier():  # each unit at most that, and some roundings
                    both = _left_in(maker.first, before), _left_in(maker.second, before)
                    left += 4.0 * weight * both[0] * both[1]
        return float(inflate(left, len(register.writes) + 8))

    def _overflows(self) -> bool:
        """Whether a register, a logit or a table may exceed the format's largest number."""
        logits = [
            maker.coldness * size_of(self.ranges.gates[m])
            for m, maker in enumerate(self.sketch.makers)
            if isinstance(maker, Gate | Chooser)
        ]
        tables = [
            self._table_size(table)
            for maker in self.sketch.makers
            if isinstance(maker, Chooser)
            for table in (*maker.keys, maker.values)
        ]
        return not self.format.fits([*self.ranges.largest.values(), *logits, *tables])


def _left_in(form: BoxForm, left: dict[BoxRegister, float]) -> float:
    return sum(abs(float(w)) * left.get(r, 0.0) for r, w in form.terms.items())


def _odd_part(weight: Fraction) -> int:
    """The odd part of a dyadic number's numerator; huge for any other."""
    if weight == 0:
        return 0
    denominator = weight.denominator
    if denominator & (denominator - 1):
        return 1 << 4096
    numerator = abs(weight.numerator)
    return numerator // (numerator & -numerator)
