"""From registers and makers to layers, prompt and bill: which coordinate holds what, and when.

Coordinates whose old content is dead take the new one (`reuse_registers`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from hardmax.core import Bill, Holding, Softmax, Transformer, VectorInput, count_bill
from hardmax.lowering.sketch._box_sketch import (
    BoxForm,
    BoxRegister,
    BoxSketch,
    Chooser,
    Gate,
    Multiplier,
    Unit,
    exact_form,
)
from hardmax.lowering.sketch._layers import Assembly, Form, HeadSketch, Layers, UnitSketch
from hardmax.lowering.sketch._ranges import RangeTable

SINK = 0


@dataclass(frozen=True)
class Statement:
    """What the bill will say, field by field under the same names."""

    layers: int
    heads: int
    width: int
    tokens: int
    hidden_width: int
    parameters: int
    largest_logit: float
    largest_weight: float

    def as_dict(self) -> dict[str, int | float]:
        return asdict(self)


class BoxAssembly:
    """Coordinates for the registers that somebody reads; those that nobody reads do not exist.

    After them come the tables of choosers, equal ones once, and up to two registers for constants:
    a *flag*, -1/2 on the sink and +1/2 on the data token, which gates look at, and a *one*, 0 on
    the sink and 1 on the data token, for constants that must be 0 on the sink.
    """

    def __init__(self, sketch: BoxSketch) -> None:
        self.sketch = sketch
        read = {register for _, form in sketch.reads() for register in form.terms}
        self.registers = [register for register in sketch.registers if register in read]
        self._flag, self._one = BoxRegister("flag"), BoxRegister("one")
        self._tables: list[BoxRegister] = []
        layers = self._layers()
        used = {register for form in layers.forms for register in form.terms}
        held = [*self.registers, *self._tables, *(r for r in (self._flag, self._one) if r in used)]
        place = {register: coordinate for coordinate, register in enumerate(held)}
        self.assembly = Assembly(layers, place, len(held))

    @cached_property
    def transformer(self) -> Transformer:
        """Every number of the sketch as a weight."""
        return self.assembly.transformer(self._prompt(), self.sketch.outputs, self.sketch.data)

    def holding(
        self, forms: Sequence[BoxForm], value: int, component: int, *, after: int, error: float
    ) -> Holding | None:
        """Where a value is held, by the first of some forms that can still be read."""
        for form in forms:
            found = self.assembly.holding(
                form, value, component, after=after, token=self.sketch.data, error=error
            )
            if found is not None:
                return found
        return None

    def statement(self, ranges: RangeTable) -> Statement:
        """The bill of the weights; the largest logit is read off the ranges of the sketch.

        `core`'s own bound of it follows the weights, which takes longer and says the same but for
        the last digits.
        """
        bill: Bill = count_bill(
            self.transformer, None, largest_logit=_largest_logit(self.sketch, ranges)
        )
        return Statement(**{name: getattr(bill, name) for name in Statement.__dataclass_fields__})

    # ---- layers --------------------------------------------------------------------------------

    def _layers(self) -> Layers[BoxRegister, Fraction]:
        layers: Layers[BoxRegister, Fraction] = Layers()
        heads: defaultdict[int, list[HeadSketch[BoxRegister, Fraction]]] = defaultdict(list)
        shared: dict[object, list[int]] = {}
        for m, maker in enumerate(self.sketch.makers):
            match maker:
                case Unit():
                    unit = UnitSketch("", self._read_by_units(maker.value), self._written(m))
                    layers.units.setdefault(maker.sublayer, []).append(unit)
                case Multiplier():
                    layers.units.setdefault(maker.sublayer, []).extend(self._pair(m, maker))
                case Gate():
                    key = (maker.sublayer, maker.gate.key, maker.coldness)
                    shared.setdefault(key, []).append(m)
                case Chooser():
                    heads[maker.sublayer].append(self._chooser(m, maker))
        for members in shared.values():
            gates = [g for m in members if isinstance(g := self.sketch.makers[m], Gate)]
            heads[gates[0].sublayer].append(self._gates(members, gates))
        layers.heads = dict(heads)
        return layers

    def _read_by_units(self, form: BoxForm) -> BoxForm:
        """Constants are biases; beside a sink, where units must stay 0, a register of data."""
        return form if self.sketch.tokens == 1 else _held_by(self._one, form, form.constant)

    def _pair(self, m: int, maker: Multiplier) -> Iterator[UnitSketch[BoxRegister, Fraction]]:
        """relu(a) b - relu(-a) b = a b."""
        first, second = self._read_by_units(maker.first), self._read_by_units(maker.second)
        written = self._written(m)
        for sign in (1, -1):
            outer = {register: weight * sign for register, weight in written.items()}
            yield UnitSketch("", first * sign, outer, factor=second)

    def _gates(self, members: list[int], gates: list[Gate]) -> HeadSketch[BoxRegister, Fraction]:
        """Gates with one question share a head, one value register each."""
        asked = gates[0].gate
        return HeadSketch(
            "",
            query=[_held_by(self._flag, asked, 2 * asked.constant)],  # 1/2 on the data token
            key=[exact_form(0, self._flag)],
            value=[_held_by(self._one, gate.value, gate.value.constant) for gate in gates],
            output=[self._written(m) for m in members],
            weighting=Softmax(gates[0].coldness),
            causal=True,
        )

    def _chooser(self, m: int, chooser: Chooser) -> HeadSketch[BoxRegister, Fraction]:
        keys = [self._table(key) for key in chooser.keys]
        return HeadSketch(
            "",
            query=[_held_by(self._one, form, form.constant) for form in chooser.query],
            key=[exact_form(0, register) for register in keys],
            value=[exact_form(0, self._table(chooser.values))],
            output=[self._written(m)],
            weighting=Softmax(chooser.coldness),
        )

    def _table(self, table: np.ndarray) -> BoxRegister:
        """The register of an equal table, or a new one."""
        for register in self._tables:
            if register.table is not None and np.array_equal(register.table, table):
                return register
        self._tables.append(BoxRegister("table", table=table))
        return self._tables[-1]

    def _written(self, maker: int) -> dict[BoxRegister, Fraction]:
        return {
            register: register.writes[maker]
            for register in self.registers
            if maker in register.writes
        }

    # ---- prompt --------------------------------------------------------------------------------

    def _prompt(self) -> VectorInput:
        place, data = self.assembly.place, self.sketch.data
        tokens, inputs = self.sketch.tokens, self.sketch.domain.dimension
        start = np.zeros((tokens, self.assembly.width, inputs + 1))
        for register in self.registers:
            for i, weight in register.inputs.items():
                start[data, place[register], i] = float(weight)
            start[data, place[register], -1] = float(register.offset)
        for register in self._tables:
            assert register.table is not None
            start[:, place[register]] = register.table[
                np.minimum(np.arange(tokens), len(register.table) - 1)
            ]
        if self._flag in place:
            start[[SINK, data], place[self._flag], -1] = -0.5, 0.5
            for register, mean in self._sink_means().items():
                start[SINK, place[register]] = -mean
        if self._one in place:
            start[data, place[self._one], -1] = 1.0
        return VectorInput(start[:, :, :-1], start[:, :, -1])

    def _sink_means(self) -> dict[BoxRegister, np.ndarray]:
        """What choosers will add to the sink's registers, which must stay 0 for the gates.

        The sink asks a chooser nothing (its registers and its `one` are 0), so every score is 0 and
        it receives the plain mean of the values: an affine function of the input, known beforehand.
        """
        means: dict[BoxRegister, np.ndarray] = {}
        for register in self.registers:
            for m, weight in register.writes.items():
                maker = self.sketch.makers[m]
                if isinstance(maker, Chooser):
                    share = float(weight) * maker.values.mean(axis=0)
                    means[register] = means.get(register, np.zeros_like(share)) + share
        return means


def _held_by(register: BoxRegister, form: BoxForm, constant: Fraction) -> BoxForm:
    """A form whose constant is so many times a register instead."""
    return Form({**form.terms, register: constant}, Fraction(0)) if constant else form


def _largest_logit(sketch: BoxSketch, ranges: RangeTable) -> float:
    """The sink asks too (flag -1/2, registers 0), and it matters if somebody looks at it later."""
    makers = sketch.makers
    heads = [maker for maker in makers if isinstance(maker, Gate | Chooser)]
    last = max((maker.sublayer for maker in heads), default=0)
    largest = 0.0
    for m, maker in enumerate(makers):
        size = max(map(abs, ranges.gates[m]))
        match maker:
            case Gate():
                at_sink = abs(float(maker.gate.constant)) if maker.sublayer < last else 0.0
                largest = max(largest, maker.coldness * max(size, at_sink) / 2)
            case Chooser():
                largest = max(largest, maker.coldness * size)
    return largest


# ---- registers that others can stand in for -----------------------------------------------------

Terms = Mapping[BoxRegister, Fraction]


def reuse_registers(sketch: BoxSketch) -> dict[BoxRegister, Terms]:
    """Let other registers stand in for as many as possible; says which do for each that is gone.

    Theorem. Let register p receive all that it ever holds, X, at sublayer s, and let c be
    numbers such that every form f read after s has coefficient f_p = sum_r c_r f_r, with r over
    registers that are there at s. Then p can go: whoever writes X to p writes c_r X to each
    register r instead, and p is left out of all later forms. Proof: a later form reads sum_r
    f_r (r + c_r X) = sum_r f_r r + f_p X, as before; what is read up to sublayer s is read
    before anything is written. QED

    This is what a register allocator does, said of sums: a comparator's ReLU s turns the
    registers of a and b, which nobody reads again, into a - s = min(a, b) and b + s = max(a,
    b); a match of a tournament takes the place of one of its players. Residual layers only add,
    so nothing can be erased, and the condition is also necessary for linear reading without an
    extra head.
    """
    gone: dict[BoxRegister, Terms] = {}
    for register in sketch.registers:
        sublayer = _only_sublayer(sketch, register)
        if sublayer is None:
            continue
        later = _later_forms(sketch, sublayer)
        if not any(register in form for form in later):
            continue
        stand_in = _solve(later, register, _present(sketch, sublayer, register))
        if stand_in is not None:
            _stand_in_for(sketch, register, stand_in)
            sketch.drop(register, sublayer)
            gone[register] = stand_in
    return gone


def without(form: BoxForm, gone: Mapping[BoxRegister, Terms]) -> BoxForm | None:
    """A form without the registers that are gone; None if it cannot be read without them."""
    terms = dict(form.terms)
    for register, stand_in in gone.items():
        own = terms.pop(register, Fraction(0))
        if own != sum((c * terms.get(r, Fraction(0)) for r, c in stand_in.items()), Fraction(0)):
            return None
    return Form(terms, form.constant)


def _only_sublayer(sketch: BoxSketch, register: BoxRegister) -> int | None:
    """The one sublayer at which a register that starts empty is written.

    Not by a chooser: what it adds to the sink is taken back by the embedding, so its register must
    not be read before.
    """
    writers = [sketch.makers[m] for m in register.writes]
    if any(isinstance(maker, Chooser) for maker in writers):
        return None
    sublayers = {maker.sublayer for maker in writers}
    starts_empty = not register.inputs and not register.offset
    return sublayers.pop() if len(sublayers) == 1 and starts_empty else None


def _present(sketch: BoxSketch, sublayer: int, register: BoxRegister) -> list[BoxRegister]:
    """Rows that hold something by the end of a sublayer, other than one of them."""
    present = []
    for other in sketch.registers:
        first = min((sketch.makers[m].sublayer for m in other.writes), default=sublayer + 1)
        if other is not register and (other.inputs or other.offset or first <= sublayer):
            present.append(other)
    return present


def _later_forms(sketch: BoxSketch, sublayer: int) -> list[Terms]:
    """What is read after a sublayer, constants and repetitions aside."""
    forms = [form.terms for at, form in sketch.reads() if at > sublayer and form.terms]
    return list({frozenset(terms.items()): terms for terms in forms}.values())


def _solve(later: list[Terms], register: BoxRegister, present: list[BoxRegister]) -> Terms | None:
    """Short c with f_row = sum_r c_r f_r for all later forms, or None.

    Gauss over the rationals; the free numbers are 0. Only halves, ones and twos are worth it:
    other weights would round.
    """
    unknowns = [r for r in present if any(r in form for form in later)]
    rows = [
        [*(form.get(r, Fraction(0)) for r in unknowns), form.get(register, Fraction(0))]
        for form in later
    ]
    pivots: list[int] = []
    for column in range(len(unknowns)):
        done = len(pivots)
        at = next((i for i in range(done, len(rows)) if rows[i][column]), None)
        if at is None:
            continue
        rows[done], rows[at] = rows[at], rows[done]
        factor = rows[done][column]
        rows[done] = [entry / factor for entry in rows[done]]
        for i in range(len(rows)):
            if i != done and rows[i][column]:
                scale = rows[i][column]
                rows[i] = [x - scale * y for x, y in zip(rows[i], rows[done], strict=True)]
        pivots.append(column)
    if any(entries[-1] for entries in rows[len(pivots) :]):
        return None
    found = {unknowns[column]: rows[i][-1] for i, column in enumerate(pivots) if rows[i][-1]}
    short = all(abs(c) in (Fraction(1, 2), 1, 2) for c in found.values())
    return found if found and short else None


def _stand_in_for(sketch: BoxSketch, register: BoxRegister, stand_in: Terms) -> None:
    for r, c in stand_in.items():
        for writer, weight in register.writes.items():
            sketch.write(r, writer, c * weight)
    register.writes.clear()
