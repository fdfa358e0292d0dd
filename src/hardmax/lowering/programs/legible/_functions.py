"""What functions of the own position depend on, and how: through steps that are not held.

A step that is a function of the token alone, or of the place alone, is embedded. The others are
made of constants, of steps that are held, and of steps that are made at once with them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

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
    plain,
)
from hardmax.languages.programs import ClosedSteps

Exact = int | Fraction
SHARP_TURNS = 2  # of a coordinate along the counts that a share tells
FEW = 2  # numbers of a step that is told by them, be it a symbol's or not
_MOST_CASES = 2**20  # that are gone through for one function
_SIGNS = (1, -1)


@dataclass(eq=False)
class Functions:
    """Steps by their sources; `inner` ones, `sums` and `shared` counts are not held themselves."""

    closed: ClosedSteps
    kinds: dict[int, str] = field(default_factory=dict)  # token or place, of what is embedded
    signs: dict[int, tuple[int, ...] | None] = field(default_factory=dict)  # of pointwise steps
    constants: dict[int, Fraction] = field(default_factory=dict)
    inner: set[int] = field(default_factory=set)  # functions that are a part of their reader
    sums: dict[int, int] = field(default_factory=dict)  # functions of a sum, and this sum
    shared: set[int] = field(default_factory=set)  # counts whose shares are looked up elsewhere

    def __post_init__(self) -> None:
        for step in self.numbered():
            self._classify(step)

    def numbered(self) -> range:
        return range(GIVEN, GIVEN + len(self.closed.steps.steps))

    def step(self, number: int) -> SequenceStep:
        return self.closed.steps.steps[number - GIVEN]

    def direct(self, step: int) -> list[int]:
        """The different steps that the program says a function reads, constants left out."""
        made = self.step(step)
        return [s for s in dict.fromkeys(made.sources) if s not in self.constants]

    def sources(self, step: int) -> list[int]:
        """The different steps that a function is made of, where only inner ones are in between."""
        found: dict[int, None] = {}
        for one in self.direct(step):
            found.update(dict.fromkeys(self.sources(one) if one in self.inner else [one]))
        return list(found)

    def share_of(self, step: int) -> int | None:
        """The count that a function is looked up in directly, if any."""
        sources = self.sources(step) if step in self._of_shares else []
        return sources[0] if sources else None

    _of_shares: set[int] = field(default_factory=set)

    def look_up_in_share(self, step: int, count: int) -> None:
        self._of_shares.add(step)
        self.shared.add(count)

    def is_sharp_in_share(self, step: int, count: int) -> bool:
        """Whether no item of its one-hot turns on and off more often than is exact: `_units.py`."""
        turns: dict[Fraction, int] = {}
        for (_, before), (_, after) in itertools.pairwise(self._answered(step, [count])):
            for one in {before, after} if before != after else ():
                turns[one] = turns.get(one, 0) + 1
        return all(many <= SHARP_TURNS for many in turns.values())

    def _classify(self, step: int) -> None:
        made = self.step(step)
        if not isinstance(made, Pointwise | Combination | Picked):
            return
        sources = self.direct(step)
        kinds = {self.kind(source) for source in sources}
        if not sources:
            self.constants[step] = Fraction(self.value(step, {}))
        elif len(kinds) == 1 and None not in kinds and isinstance(made, Pointwise | Combination):
            self.kinds[step] = str(kinds.pop())

    def kind(self, step: int) -> str | None:
        return {SYMBOL: "token", INDEX: "place"}.get(step, self.kinds.get(step))

    def is_symbolic(self, step: int) -> bool:
        labels = self.closed.steps.notes[step].labels
        return any(label != str(number) for number, label in labels.items())

    def is_uneven(self, step: int) -> bool:
        """Whether a step is a mean of values that may differ."""
        if step < GIVEN:
            return False
        made = self.step(step)
        return isinstance(made, Aggregate) and made.kind == "mean" and not made.agree

    # ---- values --------------------------------------------------------------------------------

    def value(self, step: int, held: Mapping[int, Exact]) -> Fraction:
        """A function's number, for numbers of its sources, or of steps on the way to them."""
        made = self.step(step)
        given = [plain(self._given(s, held)) for s in made.sources]
        if isinstance(made, Pointwise):
            return Fraction(made.function(*given))
        if isinstance(made, Picked):
            return Fraction(given[1 + int(given[0])])
        assert isinstance(made, Combination)
        terms = (Fraction(w) * Fraction(g) for w, g in zip(made.weights, given, strict=True))
        return sum(terms, Fraction(made.constant))

    def _given(self, step: int, held: Mapping[int, Exact]) -> Fraction:
        if step in held:
            return Fraction(held[step])
        if step in self.constants:
            return self.constants[step]
        return self.value(step, held)

    def embedded_values(self, step: int) -> dict[int, Fraction]:
        """What an embedded step is for each symbol, or each place."""
        origin = SYMBOL if self.kinds[step] == "token" else INDEX
        return {int(n): self._from_origin(step, origin, n) for n in self.closed.numbers[origin]}

    def _from_origin(self, step: int, origin: int, number: Exact) -> Fraction:
        if step == origin:
            return Fraction(number)
        held = {s: self._from_origin(s, origin, number) for s in self.direct(step)}
        return self.value(step, held)

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
        return self._answered(step, sources)

    def sum_rows(self, step: int) -> Iterator[tuple[tuple, Fraction]]:
        """The same for a function of a sum: the sum's numbers with the answer."""
        return self._answered(step, [self.sums[step]])

    def _answered(self, step: int, sources: list[int]) -> Iterator[tuple[tuple, Fraction]]:
        for given in itertools.product(*(self.closed.numbers[s] for s in sources)):
            try:
                yield given, self.value(step, dict(zip(sources, given, strict=True)))
            except HardmaxError:
                continue

    # ---- how functions depend on numbers -------------------------------------------------------

    def signs_of(self, step: int) -> tuple[int, ...] | None:
        """Signs with which the sources' numbers add up to what the function depends on, if any."""
        if step not in self.signs:
            self.signs[step] = self._find_signs(step)
        return self.signs[step]

    def _find_signs(self, step: int) -> tuple[int, ...] | None:
        sources = self.sources(step)
        if not all(self.is_numeric(source) for source in sources):
            return None
        if len(sources) <= 1:
            return (1,) * len(sources)
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

    def is_numeric(self, step: int) -> bool:
        """Whether a number says it as well as a one-hot: not for gathered or embedded symbols."""
        if len(self.closed.numbers[step]) <= FEW:
            return True
        if step in (SYMBOL, INDEX) or step in self.kinds:
            return not self.is_symbolic(step) and step != SYMBOL
        made = self.step(step)
        if isinstance(made, Aggregate):
            return made.kind in ("count", "sum") or (made.kind == "mean" and not made.agree)
        if isinstance(made, Pointwise):
            return step in self.sums or self.signs_of(step) is not None
        return isinstance(made, Combination)


def _signed(signs: tuple[int, ...], given: tuple) -> Fraction:
    return sum((sign * Fraction(n) for sign, n in zip(signs, given, strict=True)), Fraction(0))
