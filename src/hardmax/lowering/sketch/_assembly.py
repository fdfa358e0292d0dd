"""From registers, forms, heads and units to weights, witness and legend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic

import numpy as np

from hardmax.core import (
    Attention,
    FeedForward,
    GatedFeedForward,
    Head,
    Holding,
    Legend,
    Reading,
    ReadOut,
    SequenceInput,
    Sublayer,
    Transformer,
    VectorInput,
)
from hardmax.lowering.sketch._layers import Form, HeadSketch, Layers, N, R, Saying


@dataclass(frozen=True, eq=False)
class Assembly(Generic[R, N]):
    """Layers whose registers have coordinates; every number is rounded once, to float64.

    Two registers may share a coordinate one after the other. The later one finds there what the
    earlier one left: `above` says how much, and whoever reads it takes that off.

    What heads read has no constants: these are held by some register, which every kind of sketch
    chooses for itself, because a constant must not reach a sink or a start token.
    """

    layers: Layers[R, N]
    place: Mapping[R, int]
    width: int
    above: Mapping[R, float] = field(default_factory=dict)

    def transformer(
        self, source: VectorInput | SequenceInput, answers: Sequence[Form[R, N]], token: int | None
    ) -> Transformer:
        """The weights; answers are read at a token, or at every symbol."""
        sublayers: list[Sublayer] = []
        for number in self.layers.sublayers:
            if number % 2:
                sublayers.append(self._feed_forward(number))
            else:
                sublayers.append(Attention(map(self._head, self.layers.heads[number])))
        readout = ReadOut(self._rows(answers), self._constants(answers), token)
        return Transformer(source, sublayers, readout)

    def holding(
        self,
        form: Form[R, N],
        value: int,
        component: int = 0,
        *,
        after: int,
        token: int = -1,
        error: float = 0.0,
    ) -> Holding | None:
        """That a form holds a value of the steps after a sublayer; None if it was not kept."""
        if not all(register in self.place for register in form.terms):
            return None
        places = sorted((self.place[r], float(w)) for r, w in form.terms.items())
        return Holding(
            sublayer=sum(other <= after for other in self.layers.sublayers) - 1,
            token=token,
            coordinates=np.array([place for place, _ in places], dtype=np.int64),
            value=value,
            components=np.array([[component]]),
            errors=np.array([error]),
            weights=np.array([[weight for _, weight in places]]),
            constants=self._constants([form]),
        )

    def legend(self, readings: Iterable[Reading] = ()) -> Legend:
        """What the coordinates hold, and which step each head and unit does."""
        steps = [[part.told for part in self.layers.parts(n)] for n in self.layers.sublayers]
        names = [""] * self.width
        for register, place in self.place.items():
            earlier = f"{names[place]}, then " if names[place] else ""
            names[place] = earlier + register.name
        sums = [
            (number, place)
            for number, layer in enumerate(self.layers.sublayers)
            for place, head in enumerate(self.layers.heads.get(layer, []))
            if head.does == "sum"
        ]
        named = [name or f"unused {place}" for place, name in enumerate(names)]
        return Legend(named, steps, readings, sums)

    def reading(self, saying: Saying[R, N]) -> Reading | None:
        """What is said of a form, said of its coordinates; None if it was not kept.

        Of one coordinate it is what that holds itself, with what was left there before.
        """
        form = saying.form
        if not form.terms or not all(register in self.place for register in form.terms):
            return None
        registers = sorted(form.terms, key=lambda register: self.place[register])
        places = tuple(self.place[register] for register in registers)
        weights = tuple(float(form.terms[register]) for register in registers)
        constant, numbers, carried = float(self._constants([form])[0]), saying.numbers, 0.0
        if len(places) == 1:
            carried = self.above.get(registers[0], 0.0)
            numbers = tuple((number - constant) / weights[0] for number in numbers)
            weights, constant = (1.0,), 0.0
        after = sum(other <= saying.sublayer for other in self.layers.sublayers) - 1
        return Reading(
            saying.name, after, places, weights, constant, numbers, saying.labels, carried,
            saying.at_start,
        )  # fmt: skip

    def _rows(self, forms: Sequence[Form[R, N]]) -> np.ndarray:
        return np.ascontiguousarray(self._columns([form.terms for form in forms]).T)

    def _columns(self, weights: Sequence[Mapping[R, N]]) -> np.ndarray:
        columns = np.zeros((self.width, len(weights)))
        for column, own in enumerate(weights):
            for register, weight in own.items():
                columns[self.place[register], column] += float(weight)
        return columns

    def _constants(self, forms: Sequence[Form[R, N]]) -> np.ndarray:
        """What is added to the rows: less what a coordinate holds beyond its register."""
        return np.array(
            [
                float(form.constant)
                - sum(float(w) * self.above[r] for r, w in form.terms.items() if r in self.above)
                for form in forms
            ]
        )

    def _head(self, head: HeadSketch[R, N]) -> Head:
        query, key, value = (self._rows(forms) for forms in (head.query, head.key, head.value))
        output = self._columns(head.output)
        return Head(query, key, value, output, head.weighting, head.causal, head.bias)

    def _feed_forward(self, number: int) -> FeedForward | GatedFeedForward:
        """Gated as soon as one unit is: the others' second factor is the constant 1 then."""
        units = self.layers.units[number]
        inner = [unit.inner for unit in units]
        gated = any(unit.factor is not None for unit in units)
        outer = self._columns([unit.outer for unit in units])
        (added,) = self._columns([self.layers.offsets.get(number, {})]).T
        read = self._rows(inner), self._constants(inner)
        if not gated:
            return FeedForward(*read, outer, added)
        factors: list[Form[R, N]] = [unit.factor or unit.inner * 0 + 1 for unit in units]
        return GatedFeedForward(*read, self._rows(factors), self._constants(factors), outer, added)
