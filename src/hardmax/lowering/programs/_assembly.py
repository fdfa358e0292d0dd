"""From a sketch to weights: registers get coordinates, forms become rows of matrices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from hardmax.core import (
    Attention,
    FeedForward,
    Head,
    Holding,
    Legend,
    ReadOut,
    SequenceInput,
    Transformer,
)
from hardmax.lowering.programs._sketch import Form, HeadSketch, Register, Sketch, Unit

_SMALLEST_HEIR = 2.0**-10


class Assembly:
    """The Transformer of a sketch that reads out some forms."""

    def __init__(self, sketch: Sketch, answers: Iterable[Form]) -> None:
        self.sketch = sketch
        self.first = int(sketch.needs_start)
        used = _used(sketch, answers)
        heir = heir_of(sketch, answers) if sketch.token_register in used else None
        self.place = {register: i for i, register in enumerate(r for r in used if r is not heir)}
        self.width = max(1, len(self.place))
        self.above: dict[Register, float] = {}
        if heir is not None and sketch.token_register is not None:
            self.place[heir] = self.place[sketch.token_register]
            self.above[heir] = 1.0

    def transformer(self, answers: Sequence[Form], at: int | None) -> Transformer:
        sublayers: list[Attention | FeedForward] = []
        for number in self.sketch.sublayers:
            if number % 2:
                sublayers.append(self._feed_forward(self.sketch.units[number]))
            else:
                sublayers.append(Attention(map(self._head, self.sketch.heads[number])))
        weights = self._rows(answers)
        bias = self._constants(answers)
        token = None if at is None else at + self.first if at >= 0 else at
        return Transformer(self._input(), sublayers, ReadOut(weights, bias, token))

    def holding(self, form: Form, sublayer: int, value: int) -> Holding | None:
        """That a form holds a value of the steps after a sublayer; None if it was not kept."""
        if not form.terms or not all(register in self.place for register in form.terms):
            return None
        places = sorted((self.place[r], w) for r, w in form.terms.items())
        number = sum(other <= sublayer for other in self.sketch.sublayers) - 1
        return Holding(
            sublayer=number,
            token=-1,
            coordinates=np.array([place for place, _ in places]),
            value=value,
            components=np.array([0]),
            errors=np.array([0.0]),
            weights=np.array([[weight for _, weight in places]]),
            constants=self._constants([form]),
        )

    def legend(self) -> Legend:
        steps = []
        for number in self.sketch.sublayers:
            parts = self.sketch.units[number] if number % 2 else self.sketch.heads[number]
            steps.append([part.step for part in parts])
        names = [""] * self.width
        for register, place in self.place.items():
            names[place] = (
                f"{names[place]}, then {register.name}" if names[place] else register.name
            )
        return Legend(names, steps)

    def _input(self) -> SequenceInput:
        words = self.sketch.words
        embedding = np.zeros((len(words.alphabet), self.width))
        positions = np.zeros((words.longest + self.first, self.width))
        start = np.zeros(self.width)
        for register, place in self.place.items():
            embedding[:, place] += register.symbols
            positions[self.first :, place] += register.places
            start[place] += register.start
        return SequenceInput(words.alphabet, embedding, positions, start if self.first else None)

    def _rows(self, forms: Sequence[Form]) -> np.ndarray:
        rows = np.zeros((len(forms), self.width))
        for row, form in zip(rows, forms, strict=True):
            for register, weight in form.terms.items():
                row[self.place[register]] += weight
        return rows

    def _constants(self, forms: Sequence[Form]) -> np.ndarray:
        """What is added to the rows: less what a coordinate holds beyond its register."""
        return np.array(
            [
                form.constant - sum(w * self.above.get(r, 0.0) for r, w in form.terms.items())
                for form in forms
            ]
        )

    def _head(self, head: HeadSketch) -> Head:
        query, key, value = (
            self._rows([self.sketch.linear(form) for form in forms])
            for forms in (head.query, head.key, head.value)
        )
        output = np.zeros((self.width, len(head.value)))
        for row, (register, weight) in enumerate(head.output):
            output[self.place[register], row] = weight
        bias = head.bias
        if bias is not None and self.first:
            bias = np.pad(bias, ((1, 0), (1, 0)))
        return Head(query, key, value, output, head.weighting, head.causal, bias)

    def _feed_forward(self, units: list[Unit]) -> FeedForward:
        inner = self._rows([unit.inner for unit in units])
        bias = self._constants([unit.inner for unit in units])
        outer = np.zeros((self.width, len(units)))
        for column, unit in enumerate(units):
            for register, weight in unit.outer.items():
                outer[self.place[register], column] += weight
        return FeedForward(inner, bias, outer, np.zeros(self.width))


def heir_of(sketch: Sketch, answers: Iterable[Form]) -> Register | None:
    """A register that can take the token register's coordinate: 1 at every symbol until then.

    Nothing may read the token register after the heir is written, and no head the heir: it is 1 too
    much, which only biases can take off. It is 0 at the start token, as the heir is. Beside that 1
    numbers that are much smaller would lose their digits: they are no heirs.
    """
    token = sketch.token_register
    if token is None:
        return None
    last = max(
        (n for n in sketch.sublayers for form in _read(sketch, n) if token in form.terms),
        default=-1,
    )
    if any(token in form.terms for form in answers):
        return None
    by_heads = {
        register for n in sketch.heads for form in _read(sketch, n) for register in form.terms
    }
    for register in sketch.registers:
        empty = not (register.symbols.any() or register.places.any() or register.start)
        fits = empty and register.bound >= _SMALLEST_HEIR and register not in by_heads
        if fits and _first_written(sketch, register) >= last:
            return register
    return None


def _read(sketch: Sketch, sublayer: int) -> list[Form]:
    """What a sublayer reads."""
    found = [unit.inner for unit in sketch.units.get(sublayer, [])]
    for head in sketch.heads.get(sublayer, []):
        found += [sketch.linear(f) for f in (*head.query, *head.key, *head.value)]
    return found


def _first_written(sketch: Sketch, register: Register) -> int:
    """The first sublayer that writes to a register; -1 if none does."""
    for number in sketch.sublayers:
        written = [r for head in sketch.heads.get(number, []) for r, _ in head.output]
        written += [r for unit in sketch.units.get(number, []) for r in unit.outer]
        if register in written:
            return number
    return -1


def _used(sketch: Sketch, answers: Iterable[Form]) -> list[Register]:
    """The registers that something reads or writes, in the order in which they were made."""
    for head in [head for heads in sketch.heads.values() for head in heads]:
        for form in (*head.query, *head.key, *head.value):
            sketch.linear(form)  # may call for the token register
    seen = {register for form in answers for register in form.terms}
    for heads in sketch.heads.values():
        for head in heads:
            forms = (sketch.linear(f) for f in (*head.query, *head.key, *head.value))
            seen |= {register for form in forms for register in form.terms}
            seen |= {register for register, _ in head.output}
    for units in sketch.units.values():
        for unit in units:
            seen |= {*unit.inner.terms, *unit.outer}
    return [register for register in sketch.registers if register in seen]
