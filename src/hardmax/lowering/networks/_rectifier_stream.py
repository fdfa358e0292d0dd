"""The sketch that the three routes of a rectifier form share: a register for each unit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from hardmax.core import Holding, Transformer
from hardmax.lowering.gadgets import averaging_head, rectifier_head
from hardmax.lowering.networks._rectifiers import Held, Input, Rectified, RectifierForm, Sums
from hardmax.lowering.sketch import (
    Column,
    Form,
    PromptForm,
    PromptHead,
    PromptRegister,
    PromptSketch,
)


@dataclass(frozen=True, eq=False)
class Addend:
    """A term, the units that want it, and their weights as a column of the stream."""

    term: Held | Rectified
    readers: list[int]
    column: Column


class RectifierStream:
    """Which register holds which unit. Units that continue another one share its register.

    Every register starts as what the inputs and the bias give its unit. With a sink the prompt is
    (sink, data): the sink holds 0 everywhere but in the flag, -1/2 there and +1/2 on the data.
    Sums that are `unstored` get no registers; the inputs themselves are held instead.
    """

    def __init__(
        self, form: RectifierForm, *, sink: bool = True, unstored: Sequence[Sums] = ()
    ) -> None:
        self.form = form
        self.data = 1 if sink else 0  # the token
        self.sketch = PromptSketch(self.data + 1, form.inputs)
        self.x = [self._input(i) for i in range(form.inputs if unstored else 0)]
        self.sums = [sums for sums in form.sums if sums not in unstored]
        self.held: dict[int, PromptRegister] = {}  # by unit
        for sums in self.sums:
            self._hold(sums)
        self._flag = self.sketch.register("flag", (-0.5, 0.5)) if sink else None

    def _input(self, index: int) -> PromptRegister:
        register = self.sketch.register(f"input {index}")
        register.start[self.data, index] = 1.0
        return register

    def _hold(self, sums: Sums) -> None:
        inputs = [(j, term.index) for j, term in enumerate(sums.terms) if isinstance(term, Input)]
        columns, places = (list(part) for part in zip(*inputs, strict=True)) if inputs else ([], [])
        for row, unit in enumerate(sums.units.tolist()):
            if sums.continues[row] >= 0:
                self.held[unit] = self.held[int(sums.continues[row])]
                continue
            self.held[unit] = register = self.sketch.register(f"unit {unit}")
            register.start[self.data, places] = sums.weights[row, columns]
            register.start[self.data, -1] = sums.bias[row]

    @property
    def flag(self) -> PromptRegister:
        assert self._flag is not None, "a stream without a sink has no heads"
        return self._flag

    def transformer(self) -> Transformer:
        answer = self.form.answer
        rows: list[Column] = [{} for _ in answer.bias]
        for unit, column in zip(answer.units.tolist(), answer.weights.T.tolist(), strict=True):
            for row, weight in zip(rows, column, strict=True):
                if weight:  # two outputs may be one unit
                    row[self.held[unit]] = row.get(self.held[unit], 0.0) + weight
        answers: list[PromptForm] = list(map(Form, rows, answer.bias.tolist()))
        return self.sketch.transformer(answers, self.data)

    def addends(self, level: int) -> list[Addend]:
        """All that layer `level` reads, each with its weights into every unit that wants it."""
        addends: dict[Held | Rectified, Addend] = {}
        for sums in self.sums:
            for j, term in self.form.live_terms(sums):
                if isinstance(term, Input) or self.form.level_of(term) != level:
                    continue
                addend = addends.setdefault(term, Addend(term, [], {}))
                wanting = np.flatnonzero(sums.weights[:, j])
                readers = sums.units[wanting].tolist()
                addend.readers.extend(readers)
                weights = sums.weights[wanting, j].tolist()
                addend.column.update(zip(map(self.held.__getitem__, readers), weights, strict=True))
        return list(addends.values())

    def reading(self, term: Held | Rectified) -> PromptForm:
        """The form that a term reads."""
        units = ((term.unit, 1.0),) if isinstance(term, Held) else term.reading
        return Form({self.held[unit]: coefficient for unit, coefficient in units})

    def heads(self, addends: Iterable[Addend]) -> list[PromptHead]:
        """A head for each rectifier, and one for all units that are read as they are."""
        heads, passing = [], []
        for addend in addends:
            if isinstance(addend.term, Held):
                passing.append((self.held[addend.term.unit], addend.column))
            else:
                read = self.reading(addend.term)
                heads.append(rectifier_head(read, addend.column, flag=self.flag))
        if passing:
            heads.append(averaging_head(*zip(*passing, strict=True)))
        return heads

    def holdings(self, level: int, *, rectified: Iterable[int] | None = None) -> list[Holding]:
        """What the units of a level hold by now: themselves, or some their rectifiers."""
        told = set(self.held) if rectified is None else self.held.keys() & set(rectified)
        result = []
        for statement in self.form.statements:
            rows = [row for row, unit in enumerate(statement.units.tolist()) if unit in told]
            kind = statement.rectified == (rectified is not None)
            if statement.level == level and kind and rows:
                registers = [self.held[unit] for unit in statement.units[rows].tolist()]
                result.append(
                    self.sketch.holding(
                        self.data, registers, statement.value, statement.components[rows]
                    )
                )
        return result
