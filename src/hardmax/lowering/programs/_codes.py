"""The numbers that stand for the items of a program's values, shared by all ways to compile it."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from hardmax.languages.programs import Aggregated, Code, Item, ProgramTarget, Value, value_sets
from hardmax.lowering.programs._questions import Question, ask
from hardmax.numerics import up


class Codes(dict[Value, Code]):
    """The codes of a program's values, and of others when they are asked for; all ways share them.

    So do they the questions that its aggregates ask.
    """

    def __init__(self, target: ProgramTarget) -> None:
        super().__init__(target.codes)
        self._words = target.words
        self._questions: dict[Value, Question] = {}

    def asked_by(self, value: Aggregated) -> Question:
        if value not in self._questions:
            self._questions[value] = ask(value, self._words, self)
        return self._questions[value]

    def __missing__(self, value: Value) -> Code:
        for one, items in value_sets([value], self._words).items():
            self.setdefault(one, Code(items))
        return self[value]


def _is_long(one: Item) -> bool:
    """Whether a whole number has more digits than a float."""
    return isinstance(one, int) and one.bit_length() > 53


def lost(items: Iterable[Item]) -> float:
    """How far floats are from numbers, at most."""
    exact = [Fraction(one) for one in items if isinstance(one, Fraction) or _is_long(one)]
    worst = max((abs(one - Fraction(float(one))) for one in exact), default=Fraction(0))
    return up(float(worst))
