"""From registers and makers to layers, prompt and bill: which coordinate holds what."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from hardmax.core import Bill, Holding, Softmax, Transformer, VectorInput, count_bill
from hardmax.lowering.sketch._assembly import Assembly
from hardmax.lowering.sketch._box_sketch import (
    BoxForm,
    BoxRegister,
    BoxSketch,
    Chooser,
    Gate,
    Unit,
    exact_form,
)
from hardmax.lowering.sketch._ranges import RangeTable
from hardmax.lowering.sketch._vocabulary import Form, HeadSketch, Layers, UnitSketch

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
        used = {
            register for part in layers.all_heads for form in part.forms for register in form.terms
        }
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
                    unit = UnitSketch("", maker.value, self._written(m))
                    layers.units.setdefault(maker.sublayer, []).append(unit)
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
    last = max((maker.sublayer for maker in makers if not isinstance(maker, Unit)), default=0)
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
