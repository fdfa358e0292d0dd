"""A program becomes a Transformer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hardmax._errors import RequestError
from hardmax.core import Claim, Construction, Holding, Share, Witness, Words
from hardmax.languages.programs import (
    Aggregated,
    Given,
    Program,
    ProgramTarget,
    Ranked,
    Value,
)
from hardmax.lowering.programs._aggregates import Aggregates
from hardmax.lowering.programs._assembly import Assembly
from hardmax.lowering.programs._heads import Heads, Rows
from hardmax.lowering.programs._merging import Rename, merge_registers
from hardmax.lowering.programs._placing import Made, Placed, Placing
from hardmax.lowering.programs._sketch import Form, Sketch


@dataclass(frozen=True)
class Way:
    """The choices that a compilation leaves open."""

    length: str = "sum"  # of ones; or "last": the largest index
    sane_start: bool = False  # the start token, too, gets sums and not their multiples


def lower_program(program: Program, words: Words) -> Construction:
    """The smallest Transformer for a program on words, of the ways that there are."""
    target = ProgramTarget(program, words)
    made = [_Compiler(target, way).construction() for way in (Way(), Way(length="last"))]
    return min(made, key=lambda one: one.bill.padded_parameters)


class _Compiler:
    def __init__(self, target: ProgramTarget, way: Way) -> None:
        self.target, self.way = target, way
        self.sketch = Sketch(target.words)
        self.placing = Placing(target, self.sketch, self._make)
        self.heads = Heads(self.sketch, self.placing, way.sane_start)
        self.aggregates = Aggregates(self.placing, self.heads)

    def construction(self) -> Construction:
        target, outputs = self.target, self.target.program.outputs
        answers = [self._answer(output) for output in outputs]
        answers, rename = merge_registers(self.sketch, answers)
        assembly = Assembly(self.sketch, answers)
        witness = Witness(self._holdings(assembly, rename))
        transformer = assembly.transformer(answers, target.program.at)
        room = min(map(target.spacing, outputs)) / 4
        claim = Claim(target, target.words, [Share("margin", "room for decoding", room)])
        return Construction(transformer, claim, witness, "program", assembly.legend())

    def _holdings(self, assembly: Assembly, rename: Rename) -> Iterator[Holding]:
        """Where the program's own values are held, sublayer by sublayer."""
        held = sorted(self.placing.holds.items(), key=lambda pair: pair[1].ready)
        for value, placed in held:
            step, form = self.target.step_of(value), rename(placed.form)
            if step is not None and form is not None:
                found = assembly.holding(form, placed.ready - 1, step)
                if found is not None:
                    yield found

    def _answer(self, output: Value) -> Form:
        code = self.target.codes[output]
        numbers = [float(code.number(one)) for one in code.items]
        return self.placing.place(output, numbers).form

    def _make(self, value: Value) -> Made:
        match value:
            case Given(what="length"):
                return self._length(value)
            case Aggregated():
                return self.aggregates.make(value)
            case Ranked():
                return self.aggregates.make_ranked(value)
        raise RequestError(f"A {type(value).__name__} cannot be compiled yet.")

    def _length(self, value: Given) -> Made:
        levels = self.placing.natural(value)
        if self.way.length == "sum":
            one = Placed(Form({}, 1.0), 0, True)
            return Made(self.heads.sum("length", one, None, False), levels)
        words = self.target.words
        places = np.arange(float(words.longest))
        index = self.sketch.column("index", np.zeros(len(words.alphabet)), places)
        rows = Rows([self.sketch.token], [index], 0, 1.0)
        found = self.heads.attend("length", rows, Placed(index, 0, True))
        return Made(found.scaled(1.0, 1.0), levels)
