"""Steps that are true of a word and that no answer reads: drawn at random, beside a program.

They are total: whatever is overwritten, they have a value. So an intervention that the program
answers is answered with them, too, and overwriting them changes no answer.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hardmax._errors import RequestError
from hardmax.core import Words
from hardmax.languages.programs._naming import free_name
from hardmax.languages.programs._nodes import (
    Combined,
    Selection,
    Sequence,
    Value,
    apply,
    there,
)
from hardmax.languages.programs._program import Program
from hardmax.languages.programs._value_sets import value_sets

MOST = 64
_FEW = 12  # items of a value that distractors look at
_CLASSES = 3  # of symbols, by a random function


def with_distractors(
    program: Program, words: Words, many: int, chance: np.random.Generator
) -> Program:
    """The program with so many more steps beside it, which have names of their own."""
    if isinstance(many, bool) or not isinstance(many, int) or not 0 <= many <= MOST:
        raise RequestError(f"A model has 0 to {MOST} distractors, not {many!r}.")
    drawing = _Drawing(program, words, chance)
    taken = set(program.values_by_name)
    beside = []
    for _ in range(many):
        made = drawing.draw().named(free_name("aside", taken))
        beside.append(made)
        drawing.keep(made)
    return replace(program, beside=(*program.beside, *beside))


class _Drawing:
    """Selections by what is there already: kinds of symbols, places, steps of the program.

    Sums without a name are left alone: they may be parts of others, and no steps.
    """

    def __init__(self, program: Program, words: Words, chance: np.random.Generator) -> None:
        self.words, self.chance = words, chance
        self.given = Sequence()
        sets = value_sets(program.outputs, words, closed=True)
        self.seen = [
            value
            for value in program.values
            if 1 < len(sets[value]) <= _FEW
            and all(map(_is_whole, sets[value]))
            and (value.given_name is not None or not isinstance(value, Combined))
        ]

    def keep(self, value: Value) -> None:
        """One that later ones can look at, if it has few items."""
        if len(value_sets([value], self.words, closed=True)[value]) <= _FEW:
            self.seen.append(value)

    def draw(self) -> Value:
        kind = self.chance.integers(6)
        if kind == 0:
            return self._rest_of(self._selection().count())
        if kind == 1:
            return self._selection().max(self._classes(), default=0)
        if kind == 2:
            return apply(lambda a, b: (a + 2 * b) % 3, self._classes(), self._looked_at())
        return self._selection().count()

    def _selection(self) -> Selection:
        """Positions that compare in some way with the own one."""
        value = self._looked_at()
        kinds = [there(value) == value, there(value) < value, there(value) != value]
        chosen = kinds[self.chance.integers(len(kinds))]
        index = self.given.index
        if self.chance.random() < 0.5:
            before = there(index) < index if self.chance.random() < 0.5 else there(index) > index
            return chosen & before
        return chosen

    def _looked_at(self) -> Value:
        if self.seen and self.chance.random() < 0.6:
            return self.seen[self.chance.integers(len(self.seen))]
        return self._classes()

    def _classes(self) -> Value:
        """A random function of the token that tells some apart, or the place if there is one."""
        many = len(self.words.alphabet)
        if many == 1:
            return self.given.index
        kinds = [0, 1, *self.chance.integers(0, _CLASSES, many - 2).tolist()]
        self.chance.shuffle(kinds)
        return self.given.tokens.map(dict(zip(self.words.alphabet, kinds, strict=True)))

    def _rest_of(self, count: Value) -> Value:
        size = int(self.chance.integers(2, 4))
        return count.map(lambda n: n % size)


def _is_whole(one: object) -> bool:
    return isinstance(one, int)
