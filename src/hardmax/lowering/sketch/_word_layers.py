"""From registers of words to layers and embedding: which coordinate holds what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from hardmax.core import Holding, Legend, Reading, SequenceInput, Transformer
from hardmax.lowering.sketch._layers import Assembly, Layers
from hardmax.lowering.sketch._word_sketch import (
    WordForm,
    WordHead,
    WordRegister,
    WordSaying,
    WordSketch,
)

_SMALLEST_HEIR = 2.0**-10


class WordAssembly:
    """Coordinates for the registers that something reads or writes, in the order of their making.

    The token register's coordinate passes on to an heir, if there is one.
    """

    def __init__(self, sketch: WordSketch, answers: Sequence[WordForm]) -> None:
        self.sketch, self.answers = sketch, answers
        self.first = int(sketch.needs_start)
        heads = {n: list(map(self._linear, own)) for n, own in sketch.layers.heads.items()}
        layers = Layers(heads, sketch.layers.units)
        token, used = sketch.token_register, _used(layers, answers)
        heir = heir_of(sketch, answers) if token in used else None
        kept = [register for register in sketch.registers if register in used]
        place = {register: i for i, register in enumerate(r for r in kept if r is not heir)}
        width = max(1, len(place))
        above = {}
        if heir is not None and token is not None:
            place[heir], above[heir] = place[token], 1.0
        self.assembly = Assembly(layers, place, width, above)

    def transformer(self, at: int | None) -> Transformer:
        """The weights; answers are read at an index, or at every symbol."""
        token = None if at is None else at + self.first if at >= 0 else at
        return self.assembly.transformer(self._input(), self.answers, token)

    def holding(self, form: WordForm, sublayer: int, value: int) -> Holding | None:
        """That a form holds a value of the steps after a sublayer; None if it was not kept."""
        return self.assembly.holding(form, value, after=sublayer) if form.terms else None

    def legend(self, sayings: Iterable[WordSaying]) -> Legend:
        """What coordinates hold and say; the first that is said of the same ones counts."""
        found: dict[object, Reading] = {}
        for saying in sayings:
            reading = self._reading(saying)
            if reading is not None:
                found.setdefault((reading.sublayer, reading.coordinates), reading)
        layers, names = self.assembly.layers, [""] * self.assembly.width
        for register, place in self.assembly.place.items():
            earlier = f"{names[place]}, then " if names[place] else ""
            names[place] = earlier + register.name
        sums = [
            (number, place)
            for number, layer in enumerate(layers.sublayers)
            for place, head in enumerate(layers.heads.get(layer, []))
            if head.does == "sum"
        ]
        return Legend(
            [name or "unused" for name in names],  # of a model that reads nothing
            [[part.told for part in layers.parts(number)] for number in layers.sublayers],
            sorted(found.values(), key=lambda one: one.sublayer),
            sums,
        )

    def _reading(self, saying: WordSaying) -> Reading | None:
        """What is said of a form, said of its coordinates; None if it was not kept.

        Of one coordinate it is what that holds itself, with what was left there before.
        """
        form, own = saying.form, self.assembly
        if not form.terms or not all(register in own.place for register in form.terms):
            return None
        registers = sorted(form.terms, key=lambda register: own.place[register])
        weights = tuple(form.terms[register] for register in registers)
        constant, numbers, carried = float(own.constants([form])[0]), saying.numbers, 0.0
        if len(registers) == 1:
            carried = own.above.get(registers[0], 0.0)
            numbers = tuple((number - constant) / weights[0] for number in numbers)
            weights, constant = (1.0,), 0.0
        return Reading(
            saying.name,
            sum(other <= saying.sublayer for other in own.layers.sublayers) - 1,
            tuple(own.place[register] for register in registers),
            weights,
            constant,
            numbers,
            saying.labels,
            carried,
            saying.at_start,
        )

    def _linear(self, head: WordHead) -> WordHead:
        """Without constants, and with a start token, if there is one, in the bias."""
        query, key, value = (
            [self.sketch.linear(form) for form in forms]
            for forms in (head.query, head.key, head.value)
        )
        bias = head.bias
        if bias is not None and self.first:
            bias = np.pad(bias, ((1, 0), (1, 0)))
        return replace(head, query=query, key=key, value=value, bias=bias)

    def _input(self) -> SequenceInput:
        words, width = self.sketch.words, self.assembly.width
        embedding = np.zeros((len(words.alphabet), width))
        positions = np.zeros((words.longest + self.first, width))
        start = np.zeros(width)
        for register, place in self.assembly.place.items():
            embedding[:, place] += register.symbols
            positions[self.first :, place] += register.places
            start[place] += register.start
        return SequenceInput(words.alphabet, embedding, positions, start if self.first else None)


def heir_of(sketch: WordSketch, answers: Iterable[WordForm]) -> WordRegister | None:
    """A register that can take the token register's coordinate: 1 at every symbol until then.

    Nothing may read the token register after the heir is written, and no head the heir: it is 1 too
    much, which only biases can take off. It is 0 at the start token, as the heir is. Beside that 1
    numbers that are much smaller would lose their digits: they are no heirs.
    """
    token = sketch.token_register
    if token is None:
        return None
    last = max(
        (n for n in sketch.layers.sublayers for form in _read(sketch, n) if token in form.terms),
        default=-1,
    )
    if any(token in form.terms for form in answers):
        return None
    by_heads = {
        register
        for n in sketch.layers.heads
        for form in _read(sketch, n)
        for register in form.terms
    }
    for register in sketch.registers:
        empty = not (register.symbols.any() or register.places.any() or register.start)
        fits = empty and register.bound >= _SMALLEST_HEIR and register not in by_heads
        if fits and _first_written(sketch, register) >= last:
            return register
    return None


def _read(sketch: WordSketch, sublayer: int) -> list[WordForm]:
    """What a sublayer reads."""
    found = [unit.inner for unit in sketch.layers.units.get(sublayer, [])]
    for head in sketch.layers.heads.get(sublayer, []):
        found += [sketch.linear(form) for form in head.forms]
    return found


def _first_written(sketch: WordSketch, register: WordRegister) -> int:
    """The first sublayer that writes to a register; -1 if none does."""
    for number in sketch.layers.sublayers:
        if any(register in column for column in sketch.layers.written(number)):
            return number
    return -1


def _used(layers: Layers[WordRegister, float], answers: Iterable[WordForm]) -> set[WordRegister]:
    """The registers that something reads or writes."""
    read = [*layers.forms, *answers]
    found = {register for form in read for register in form.terms}
    for number in layers.sublayers:
        found |= {register for column in layers.written(number) for register in column}
    return found
