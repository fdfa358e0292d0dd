"""The stream that the three routes of a rectifier form share: a slot for each unit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from hardmax.core import Head, Holding, ReadOut, Sublayer, Transformer
from hardmax.lowering.gadgets import averaging_head, rectifier_head
from hardmax.lowering.networks._layout import Layout, Prompt
from hardmax.lowering.networks._rectifiers import Held, Input, Rectified, RectifierForm, Sums


@dataclass(frozen=True, eq=False)
class Addend:
    """A term, the units that want it, and their weights as a column of the stream."""

    term: Held | Rectified
    readers: list[int]
    column: np.ndarray


class RectifierStream:
    """Which coordinate holds which unit. Units that continue another one share its coordinate.

    Every slot starts as what the inputs and the bias give its unit. With a sink the prompt is
    (sink, data): the sink holds 0 everywhere but in the flag, -1/2 there and +1/2 on the data.
    Sums that are `unstored` get no slots; the inputs themselves are held instead.
    """

    def __init__(
        self, form: RectifierForm, *, sink: bool = True, unstored: Sequence[Sums] = ()
    ) -> None:
        self.form = form
        self.data = 1 if sink else 0  # the token
        layout = Layout()
        self.x = layout.slots(form.inputs if unstored else 0)
        self.sums = [sums for sums in form.sums if sums not in unstored]
        self.slots = np.full(len(form.levels), -1)
        for sums in self.sums:
            new = sums.continues < 0
            self.slots[sums.units[new]] = layout.slots(int(new.sum()))
            self.slots[sums.units[~new]] = self.slots[sums.continues[~new]]
        self.flag = layout.slot() if sink else -1
        self.width = layout.width

    def transformer(self, sublayers: Iterable[Sublayer]) -> Transformer:
        prompt = Prompt(self.data + 1, self.width, self.form.inputs)
        prompt.place(self.data, self.x, np.eye(len(self.x), self.form.inputs), np.zeros(()))
        for sums in self.sums:
            new = sums.continues < 0
            slots = self.slots[sums.units[new]]
            prompt.offsets[self.data, slots] = sums.bias[new]
            for j, term in enumerate(sums.terms):
                if isinstance(term, Input):
                    prompt.maps[self.data, slots, term.index] = sums.weights[new, j]
        if self.flag >= 0:
            prompt.offsets[:, self.flag] = (-0.5, 0.5)
        answer = self.form.answer
        weights = np.zeros((len(answer.bias), self.width))
        for unit, column in zip(answer.units, answer.weights.T, strict=True):
            weights[:, self.slots[unit]] += column  # two outputs may be one unit
        return Transformer(prompt.input(), sublayers, ReadOut(weights, answer.bias, self.data))

    def addends(self, level: int) -> list[Addend]:
        """All that layer `level` reads, each with its weights into every unit that wants it."""
        addends: dict[Held | Rectified, Addend] = {}
        for sums in self.sums:
            slots = self.slots[sums.units]
            for j, term in self.form.live_terms(sums):
                if isinstance(term, Input) or self.form.level_of(term) != level:
                    continue
                addend = addends.setdefault(term, Addend(term, [], np.zeros(self.width)))
                weights = sums.weights[:, j]
                # a unit that continues another one must not erase what that one wants
                own = (weights != 0.0) | (sums.continues < 0)
                addend.column[slots[own]] = weights[own]
                addend.readers.extend(sums.units[weights != 0.0].tolist())
        return list(addends.values())

    def reading(self, term: Held | Rectified) -> dict[int, float]:
        """The coordinates that a term reads."""
        units = ((term.unit, 1.0),) if isinstance(term, Held) else term.reading
        return {int(self.slots[unit]): coefficient for unit, coefficient in units}

    def heads(self, addends: Iterable[Addend]) -> list[Head]:
        """A head for each rectifier, and one for all units that are read as they are."""
        heads, held = [], []
        for addend in addends:
            if isinstance(addend.term, Held):
                held.append((self.slots[addend.term.unit], addend.column))
            else:
                read = self.reading(addend.term)
                heads.append(
                    rectifier_head(self.width, read=read, flag=self.flag, write=addend.column)
                )
        if held:
            read_slots, columns = zip(*held, strict=True)
            write = np.stack(columns, axis=1)
            heads.append(averaging_head(np.array(read_slots), write, width=self.width))
        return heads

    def holdings(
        self, level: int, *, after: int, rectified: Iterable[int] | None = None
    ) -> list[Holding]:
        """What the units of a level hold after a sublayer: themselves, or some their rectifiers."""
        chosen = np.zeros(len(self.slots), dtype=bool)
        chosen[list(range(len(chosen)) if rectified is None else rectified)] = True
        result = []
        for statement in self.form.statements:
            told = chosen[statement.units] & (self.slots[statement.units] >= 0)
            kind = statement.rectified == (rectified is not None)
            if statement.level == level and kind and told.any():
                slots, rows = self.slots[statement.units[told]], statement.components[told]
                result.append(Holding(after, self.data, slots, statement.value, rows, np.zeros(())))
        return result
