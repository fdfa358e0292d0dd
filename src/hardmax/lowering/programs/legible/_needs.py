"""In which forms the steps are held, and by which means each is made: decided from the end.

Readers decide: keys, queries and functions of several values need one-hots; combinations, means and
numeric answers need numbers. A step that is a function of the token alone, or of the place alone,
is embedded. A relabelling that an aggregate reads is no block of its own: the head reads the
one-hot of its source by other numbers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from hardmax._errors import HardmaxError, RequestError
from hardmax.core import (
    GIVEN,
    INDEX,
    SYMBOL,
    Aggregate,
    Combination,
    Picked,
    Pointwise,
    SequenceStep,
)
from hardmax.languages.programs import ClosedSteps

Exact = int | Fraction
NUMBER, ONE_HOT = "number", "one-hot"
_FEW = 2  # numbers of a step that is told by them, be it a symbol's or not
_MOST_CASES = 2**20  # that are gone through for one function
_SIGNS = (1, -1)


@dataclass(eq=False)
class Means:
    """How steps are made: by an embedding, by a sum of numbers, or case by case."""

    closed: ClosedSteps
    kinds: dict[int, str] = field(default_factory=dict)  # token or place, of what is embedded
    needs: dict[int, set[str]] = field(default_factory=dict)
    signs: dict[int, tuple[int, ...] | None] = field(default_factory=dict)  # of pointwise steps
    constants: dict[int, Fraction] = field(default_factory=dict)
    items: dict[int, set[Exact]] = field(default_factory=dict)  # of one-hots, that are looked for
    by_cases: set[int] = field(default_factory=set)
    views: dict[int, int] = field(default_factory=dict)  # relabellings, by whose one-hot is read

    def __post_init__(self) -> None:
        for step in self._numbered():
            self._classify(step)
        for out in (*self.closed.steps.outputs, *self.closed.beside):
            if out not in self.constants:
                self.need(out, ONE_HOT if self._is_symbolic(out) else NUMBER)
        for step in reversed(list(self._numbered())):
            if step in self.needs:
                self._ask_sources(step)

    def _numbered(self) -> range:
        return range(GIVEN, GIVEN + len(self.closed.steps.steps))

    def step(self, number: int) -> SequenceStep:
        return self.closed.steps.steps[number - GIVEN]

    def need(self, step: int, form: str, items: Iterable[Exact] | None = None) -> None:
        """A form that is read; of a one-hot, some items alone may make a difference."""
        self.needs.setdefault(step, set()).add(form)
        if form == ONE_HOT:
            every = self.closed.numbers[step] if items is None else items
            self.items.setdefault(step, set()).update(every)

    def shown(self, step: int) -> tuple[Exact, ...]:
        """The items that a one-hot has coordinates for: all, or those that a selection looks for.

        What is worked out, and only selects, may hold more numbers than anybody looks for.
        """
        numbers = self.closed.numbers[step]
        if step in self.kinds or not isinstance(self.step(step), Combination | Pointwise):
            return numbers
        return tuple(n for n in numbers if n in self.items[step])

    def _is_symbolic(self, step: int) -> bool:
        labels = self.closed.steps.notes[step].labels
        return any(label != str(number) for number, label in labels.items())

    def sources(self, step: int) -> list[int]:
        """The different steps that a function reads, constants left out."""
        made = self.step(step)
        return [s for s in dict.fromkeys(made.sources) if s not in self.constants]

    def _classify(self, step: int) -> None:
        made = self.step(step)
        if not isinstance(made, Pointwise | Combination | Picked):
            return
        sources = self.sources(step)
        kinds = {self.kind(source) for source in sources}
        if not sources:
            self.constants[step] = Fraction(self.value(step, {}))
        elif len(kinds) == 1 and None not in kinds and isinstance(made, Pointwise | Combination):
            self.kinds[step] = str(kinds.pop())

    def kind(self, step: int) -> str | None:
        return {SYMBOL: "token", INDEX: "place"}.get(step, self.kinds.get(step))

    def value(self, step: int, held: Mapping[int, Exact]) -> Fraction:
        """A function's number, for numbers of its sources."""
        made = self.step(step)
        given = [held[s] if s in held else self.constants[s] for s in made.sources]
        plain = [
            g.numerator if isinstance(g, Fraction) and g.denominator == 1 else g for g in given
        ]
        if isinstance(made, Pointwise):
            return Fraction(made.function(*plain))
        if isinstance(made, Picked):
            return Fraction(plain[1 + int(plain[0])])
        assert isinstance(made, Combination)
        terms = (Fraction(w) * Fraction(g) for w, g in zip(made.weights, plain, strict=True))
        return sum(terms, Fraction(made.constant))

    def embedded_values(self, step: int) -> dict[int, Fraction]:
        """What an embedded step is for each symbol, or each place."""
        origin = SYMBOL if self.kinds[step] == "token" else INDEX
        return {int(n): self._from_origin(step, origin, n) for n in self.closed.numbers[origin]}

    def _from_origin(self, step: int, origin: int, number: Exact) -> Fraction:
        if step == origin:
            return Fraction(number)
        held = {s: self._from_origin(s, origin, number) for s in self.sources(step)}
        return self.value(step, held)

    # ---- what is read --------------------------------------------------------------------------

    def _ask_sources(self, step: int) -> None:
        made = self.step(step)
        if step in self.kinds or step in self.constants:
            return
        match made:
            case Aggregate():
                self._ask_aggregate(step, made)
            case Combination():
                self._clean(step)
                for source in self.sources(step):
                    self._ask(source, ONE_HOT if step in self.by_cases else NUMBER)
            case Picked():
                for source in self.sources(step):
                    self._ask(source, ONE_HOT)
            case Pointwise():
                self._clean(step)
                form = ONE_HOT if self.signs_of(step) is None else NUMBER
                for source in self.sources(step):
                    self._ask(source, form)

    def _clean(self, step: int) -> None:
        """A one-hot that is made of a count alone is made case by case.

        A count is looked up in its share with small errors, which cases end: what is not lit is 0.
        """
        sources = self.sources(step)
        if len(sources) != 1 or self.needs[step] != {ONE_HOT} or sources[0] < GIVEN:
            return
        read = self.step(sources[0])
        is_count = isinstance(read, Aggregate) and read.kind in ("count", "sum")
        if is_count and len(self.closed.scored[sources[0]]) == 1:
            self.by_cases.add(step)
            self.signs[step] = None

    def _ask(self, step: int, form: str, items: Iterable[Exact] | None = None) -> None:
        """A raw token or place is a step, too, if somebody reads it."""
        if step in (SYMBOL, INDEX):
            self.kinds[step] = self.kind(step) or ""
        self.need(step, form, items)

    def _ask_aggregate(self, step: int, made: Aggregate) -> None:
        for scored in self.closed.scored[step]:
            for one in scored.conjuncts:
                for side, told in (
                    (one.key, one.table.any(axis=1)),
                    (one.query, one.table.any(axis=0)),
                ):
                    if side is not None:
                        numbers = zip(
                            self.closed.numbers[side], np.asarray(told).tolist(), strict=True
                        )
                        self._ask(side, ONE_HOT, [n for n, some in numbers if some])
        if made.kind in ("count", "sum"):
            return
        assert made.value is not None
        if made.value in self.constants:
            return
        read = self.viewed(made.value)
        extreme = made.kind in ("min", "max")
        only_numbers = read == made.value and self.needs[step] == {NUMBER} and not extreme
        self._ask(
            read,
            NUMBER
            if only_numbers or (made.kind == "mean" and not made.agree and read == made.value)
            else ONE_HOT,
        )

    def viewed(self, step: int) -> int:
        """Whose one-hot is read in place of a relabelling that nobody else needs."""
        if step >= GIVEN and step not in self.closed.place.values():
            made = self.step(step)
            if isinstance(made, Pointwise) and len(self.sources(step)) == 1:
                (source,) = self.sources(step)
                if source < GIVEN:
                    return step
                self.views[step] = source
                return source
        return step

    # ---- functions -----------------------------------------------------------------------------

    def signs_of(self, step: int) -> tuple[int, ...] | None:
        """Signs with which the sources' numbers add up to what the function depends on, if any."""
        if step not in self.signs:
            self.signs[step] = self._find_signs(step)
        return self.signs[step]

    def _find_signs(self, step: int) -> tuple[int, ...] | None:
        sources = self.sources(step)
        if not all(self._is_numeric(source) for source in sources):
            return None
        if len(sources) == 1:
            return (1,)
        if len(sources) > 4 or self.cases(step) > _MOST_CASES:
            return None
        rows = list(self.rows(step))
        for signs in itertools.product(_SIGNS, repeat=len(sources) - 1):
            found: dict[Fraction, Fraction] = {}
            signed = (1, *signs)
            if all(
                found.setdefault(_signed(signed, given), answer) == answer for given, answer in rows
            ):
                return signed
        return None

    def _is_numeric(self, step: int) -> bool:
        """Whether a number says it as well as a one-hot: not for gathered or embedded symbols."""
        if len(self.closed.numbers[step]) <= _FEW:
            return True
        if step in (SYMBOL, INDEX) or step in self.kinds:
            return not self._is_symbolic(step) and step != SYMBOL
        made = self.step(step)
        if isinstance(made, Aggregate):
            return made.kind in ("count", "sum") or (made.kind == "mean" and not made.agree)
        if isinstance(made, Pointwise):
            return self.signs_of(step) is not None
        return isinstance(made, Combination)

    def cases(self, step: int) -> int:
        return math.prod(len(self.closed.numbers[s]) for s in self.sources(step))

    def rows(self, step: int) -> Iterator[tuple[tuple, Fraction]]:
        """Numbers of the sources with the function's answer, where it has one."""
        sources = self.sources(step)
        if self.cases(step) > _MOST_CASES:
            raise RequestError(
                f"The step {self.closed.name(step)!r} is a function of {self.cases(step):,} "
                f"cases, which is too many for a legible model. Map its arguments to fewer values."
            )
        for given in itertools.product(*(self.closed.numbers[s] for s in sources)):
            try:
                yield given, self.value(step, dict(zip(sources, given, strict=True)))
            except HardmaxError:
                continue


def _signed(signs: tuple[int, ...], given: tuple) -> Fraction:
    return sum((sign * Fraction(n) for sign, n in zip(signs, given, strict=True)), Fraction(0))
