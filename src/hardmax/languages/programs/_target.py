"""A program on words over an alphabet, as a target: rows of numbers that stand for its answers."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from hardmax._errors import RequestError
from hardmax.core import EncodedTarget, SequenceSteps, Words
from hardmax.languages.programs._closed_steps import ClosedSteps, closed_steps_of
from hardmax.languages.programs._encoding import decode_program, encode_program
from hardmax.languages.programs._items import Exact, Item
from hardmax.languages.programs._nodes import Value
from hardmax.languages.programs._program import Answer, Program
from hardmax.languages.programs._steps import Code, ProgramSteps, Round, codes_of, steps_of
from hardmax.languages.programs._value_sets import value_sets


@dataclass(frozen=True, eq=False)
class ProgramTarget:
    """A program on the words of a domain.

    An output whose items are all numbers that floats tell apart answers with them; otherwise with
    the item's place in its value set. `decode` reads numbers that are near enough back. A `closed`
    target numbers what steps can hold under interventions, too, as legible models do.
    """

    program: Program
    words: Words
    closed: bool = False

    @cached_property
    def codes(self) -> dict[Value, Code]:
        """How the items of every value are numbered."""
        roots = (*self.program.outputs, *self.program.beside)
        return codes_of(value_sets(roots, self.words, closed=self.closed))

    def spacing(self, output: Value) -> float:
        """The smallest distance between the numbers of two items of an output."""
        code = self.codes[output]
        numbers = sorted(float(code.number(one)) for one in code.items)
        return min((b - a for a, b in itertools.pairwise(numbers)), default=1.0)

    @property
    def outputs(self) -> int:
        return len(self.program.outputs)

    @property
    def each_symbol(self) -> bool:
        return self.program.at is None

    @property
    def parameters(self) -> int | None:
        return None

    def __call__(self, word: Sequence[Item], /) -> list[list[Exact]]:
        return [self._numbers(row) for row in self.program.rows(self.symbols_of(word))]

    def symbols_of(self, word: Iterable[Item]) -> list[Item]:
        """Longer words and foreign symbols are refused, not guessed at."""
        if not isinstance(word, Iterable):
            raise RequestError(f"A program reads a text or a list of symbols, not {word!r}.")
        symbols = list(word)
        if len(symbols) not in self.words.lengths:
            raise RequestError(
                f"The program is about words of {self.words.shortest} to {self.words.longest} "
                f"symbols, but this one has {len(symbols)}."
            )
        for place, symbol in enumerate(symbols):
            if symbol not in self.words.alphabet:
                raise RequestError(
                    f"The symbol {symbol!r} at place {place} is not in the alphabet "
                    f"{list(self.words.alphabet)}."
                )
        return symbols

    def _numbers(self, row: Sequence[Item]) -> list[Exact]:
        sides = zip(self.program.outputs, row, strict=True)
        return [self.codes[output].number(one) for output, one in sides]

    def decode(self, rows: Sequence[Sequence[float]]) -> Answer:
        """The items whose numbers are nearest: a list, or one item for the word."""
        items = [
            tuple(
                self.codes[output].nearest(one)
                for output, one in zip(self.program.outputs, row, strict=True)
            )
            for row in rows
        ]
        return self.program.answer(items)

    def steps(self) -> SequenceSteps | None:
        return self._steps.steps

    def step_of(self, value: Value) -> int | None:
        """The number of a value among the steps, if it is there."""
        return self._steps.place.get(value)

    def rounds_of(self, value: Value) -> list[Round]:
        """How a machine's maps are composed: the numbers of the steps, round by round."""
        return self._steps.scans.get(value, [])

    @cached_property
    def closed_steps(self) -> ClosedSteps:
        """The steps with sets of numbers that are closed under interventions."""
        if not self.closed:
            raise RequestError("The target is not closed: ProgramTarget(program, words, True) is.")
        return closed_steps_of(self.program, self.words, self.codes)

    @cached_property
    def _steps(self) -> ProgramSteps:
        if self.closed:
            return ProgramSteps(self.closed_steps.steps, self.closed_steps.place, {})
        return steps_of(self.program, self.words, self.codes)

    def encode(self) -> EncodedTarget | None:
        """The program with its functions as tables; None if these would be too long."""
        sets = {value: code.items for value, code in self.codes.items()}
        return encode_program(self.program, self.words, sets, closed=self.closed)

    @classmethod
    def decode_text(cls, text: str) -> ProgramTarget:
        """The target behind the text of an encoding."""
        return cls(*decode_program(text))
