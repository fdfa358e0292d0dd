"""In which forms the steps are held, and by which means each is made: decided from the end.

Readers decide: tables, and functions of several values, need one-hots; combinations, means and
numeric answers need numbers; parabolas need a number and its square, which a one-hot says as well.
Where positions are one-hot, the one-hot of a count, a sum or a mean is made without any error
(`_units.py`), and a number is not: where both are needed of a count, its items' numbers are added
up. What keys depend on is to be exact there, too, for the scores of all positions that are selected
are to be the same.
A relabelling that an aggregate reads is no block of its own: the head reads the one-hot of its
source by other numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

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
from hardmax.languages.programs import ClosedSteps, Conjunct
from hardmax.lowering.programs.legible._functions import Exact, Functions
from hardmax.lowering.programs.legible._fusing import fuse
from hardmax.lowering.programs.legible._styles import (
    Style,
    is_equality,
    is_worth_a_parabola,
)

NUMBER, SQUARE, ONE_HOT = "number", "square", "one-hot"
_SHORT = 8  # symbols of a word
_LONG = 24


@dataclass(eq=False)
class Means:
    """How steps are held, and which heads say what of their selections."""

    closed: ClosedSteps
    style: Style
    coarse: bool = False  # whether the claim is about a format coarser than float64
    few_digits: bool = False  # of that format: numbers that add up many jumps are too far off
    functions: Functions = field(init=False)
    needs: dict[int, set[str]] = field(default_factory=dict)
    items: dict[int, set[Exact]] = field(default_factory=dict)  # of one-hots, that are looked for
    squares: dict[int, set[Exact]] = field(default_factory=dict)  # keys that numbers are held to
    by_cases: set[int] = field(default_factory=set)
    views: dict[int, int] = field(default_factory=dict)  # relabellings, by whose one-hot is read
    exact: set[int] = field(default_factory=set)  # compared by heads that count or add up
    keyed: set[int] = field(default_factory=set)  # keys and what they are made of

    def __post_init__(self) -> None:
        self.functions = Functions(self.closed)
        fuse(self.functions, exact_keys=self.exact_keys, shares=not self.few_digits)
        for out in (*self.closed.steps.outputs, *self.closed.beside):
            if out not in self.functions.constants:
                uneven = self.functions.is_uneven(out)
                symbolic = self.functions.is_symbolic(out) and not uneven
                self.need(out, ONE_HOT if symbolic else NUMBER)
        for step in reversed(list(self.functions.numbered())):
            if step in self.needs:
                self._ask_sources(step)
        for step, forms in self.needs.items():
            spelled = ONE_HOT in forms or self.few_digits
            if self.exact_keys and spelled and self._is_looked_up(step):
                self.needs[step] = {ONE_HOT}
        for step in (SYMBOL, INDEX):
            self._settle(step)
        for step in self.functions.numbered():
            self._square_as_sent(step)

    @property
    def exact_keys(self) -> bool:
        """Whether keys are one-hots that are drawn without any error."""
        return not self.style.numbers

    def _is_looked_up(self, step: int) -> bool:
        """Whether it is a count that one share tells, and not always the same."""
        if step < GIVEN:
            return False
        made = self.step(step)
        is_count = isinstance(made, Aggregate) and made.kind in ("count", "sum")
        many = len(self.closed.numbers[step]) > 1 and step not in self.functions.shared
        return is_count and many and len(self.closed.scored[step]) == 1

    def strays(self, step: int) -> bool:
        """Whether its one-hot may be off: gathered, or worked out from what is."""
        if step in (SYMBOL, INDEX) or step in self.kinds or step in self.functions.constants:
            return False
        made = self.step(step)
        if isinstance(made, Aggregate):
            told = made.kind in ("count", "sum") or self.functions.is_uneven(step)
            return not told or ONE_HOT not in self.needs[step]
        count = self.functions.share_of(step)
        if count is not None:
            return not self.functions.is_sharp_in_share(step, count)
        return any(map(self.strays, self._made_of(step)))

    def _made_of(self, step: int) -> list[int]:
        """The steps that are held, of which a function is made."""
        return self.functions.sources(self.functions.sums.get(step, step))

    def loose(self, step: int, sources: list[int]) -> int | None:
        """The only source that strays, the others being embedded, of a step that must not."""
        found = [s for s in sources if self.strays(s)]
        wanted = self.few_digits or (self.exact_keys and step in self.keyed)
        if not wanted or len(found) != 1:
            return None
        return found[0] if all(s in self.kinds for s in sources if s not in found) else None

    def step(self, number: int) -> SequenceStep:
        return self.functions.step(number)

    @property
    def kinds(self) -> dict[int, str]:
        return self.functions.kinds

    def need(self, step: int, form: str, items: Iterable[Exact] | None = None) -> None:
        """A form that is read; of a one-hot, some items alone may make a difference."""
        self.needs.setdefault(step, set()).add(form)
        if form == ONE_HOT:
            every = self.closed.numbers[step] if items is None else items
            self.items.setdefault(step, set()).update(every)
        if form == SQUARE:
            self.squares.setdefault(step, set()).update(items or ())

    def shown(self, step: int) -> tuple[Exact, ...]:
        """The items that a one-hot has coordinates for: all, or those that a selection looks for.

        What is worked out, and only selects, may hold more numbers than anybody looks for.
        """
        numbers = self.closed.numbers[step]
        if step in self.kinds or not isinstance(self.step(step), Combination | Pointwise):
            return numbers
        return tuple(n for n in numbers if n in self.items[step])

    def _is_whole(self, step: int) -> bool:
        """Whether a one-hot would light for every number."""
        return step < GIVEN or self.shown(step) == self.closed.numbers[step]

    def _settle(self, step: int) -> None:
        """A whole one-hot says the square, too; without one, the square goes with its number."""
        needs = self.needs.get(step, set())
        if SQUARE in needs:
            if ONE_HOT in needs and self._is_whole(step):
                needs.discard(SQUARE)
            else:
                needs.add(NUMBER)

    def _square_as_sent(self, step: int) -> None:
        """What is gathered by its number and square is held to the keys of where it comes from."""
        made = self.step(step)
        source = made.value if isinstance(made, Aggregate) else None
        if source is not None and all(SQUARE in self.needs.get(s, set()) for s in (step, source)):
            self.squares[step] = set(self.squares[source])

    # ---- what heads say ------------------------------------------------------------------------

    def is_masked(self, one: Conjunct) -> bool:
        """Whether a comparison of two places is said by a mask."""
        sides = [side for side in (one.key, one.query) if side is not None]
        if self.style.masks == "none" or any(self.functions.kind(s) != "place" for s in sides):
            return False
        if self.style.masks == "order":
            return len(sides) == 2 and not is_equality(one, self.closed)
        return bool(sides)

    def is_parabola(self, step: int, one: Conjunct) -> bool:
        """Whether a head of a step says an equality of two numbers by scores of numbers.

        Where scores have to be equal, or are multiplied, the numbers have to be sharp. What comes
        from heads of heads is too far off in float32, unless words are short; and in long words
        what comes from any head, which matters if the claim is about such a format.
        """
        sides = [side for side in (one.key, one.query) if side is not None]
        longest = len(self.closed.numbers[INDEX])
        near = longest <= _SHORT or all(map(self.is_close, sides))
        near = near and (longest <= _LONG or not self.coarse or all(map(self._is_sharp, sides)))
        return (
            self.style.numbers
            and is_equality(one, self.closed)
            and is_worth_a_parabola(one)
            and near
            and not any(self.functions.is_uneven(side) for side in sides)
            and (not self.is_delicate(step) or all(map(self._is_sharp, sides)))
        )

    def is_delicate(self, step: int) -> bool:
        """Whether a head counts, takes a mean of what differs, or adds ranks to its scores."""
        made = self.step(step)
        assert isinstance(made, Aggregate)
        return made.kind != "mean" or not made.agree

    def is_pristine(self, step: int) -> bool:
        """Whether a count compares embedded steps alone, so that its shares are off by rounding."""
        return all(
            side is None or side < GIVEN or side in self.kinds
            for scored in self.closed.scored[step]
            for one in scored.conjuncts
            for side in (one.key, one.query)
        )

    def is_close(self, step: int) -> bool:
        """Whether a step comes from embedded ones, through nothing but shares as good as that."""
        functions = self.functions
        if step < GIVEN or step in self.kinds or step in functions.constants:
            return True
        made = self.step(step)
        if not isinstance(made, Aggregate):
            return all(map(self.is_close, made.sources))
        if made.kind in ("count", "sum") or functions.is_uneven(step):
            return self.is_pristine(step)
        return made.value is not None and self.is_close(made.value)

    def _is_sharp(self, step: int) -> bool:
        """Whether a step's number does not come from a share with nothing that rounds it since."""
        functions = self.functions
        if step < GIVEN or step in self.kinds or step in functions.constants:
            return True
        made = self.step(step)
        if isinstance(made, Aggregate):
            counts = made.kind in ("count", "sum") or functions.is_uneven(step)
            return not counts and made.value is not None and self._is_sharp(made.value)
        if isinstance(made, Combination):
            return all(map(self._is_sharp, made.sources))
        return functions.share_of(step) is None

    # ---- what is read --------------------------------------------------------------------------

    def _ask_sources(self, step: int) -> None:
        self._settle(step)
        made, functions = self.step(step), self.functions
        if step in self.kinds or step in functions.constants:
            return
        if step in self.exact and not self._rounds(step):
            self.exact.update(made.sources)
        count = functions.share_of(step)
        if count is not None:
            self.needs.setdefault(count, set())
        elif step in functions.sums:
            for source in functions.sources(functions.sums[step]):
                self._ask(source, NUMBER)
        elif isinstance(made, Aggregate):
            self._ask_aggregate(step, made)
        elif isinstance(made, Combination) and functions.direct(step) == functions.sources(step):
            self._clean(step)
            for source in functions.sources(step):
                self._ask(source, ONE_HOT if step in self.by_cases else NUMBER)
        elif isinstance(made, Picked):
            for source in functions.sources(step):
                self._ask(source, ONE_HOT)
        else:
            self._clean(step)
            form = ONE_HOT if functions.signs_of(step) is None else NUMBER
            for source in functions.sources(step):
                self._ask(source, form)
        if step in self.keyed and not isinstance(made, Aggregate) and not self._ends_straying(step):
            self.keyed.update(self._made_of(step))

    def _ends_straying(self, step: int) -> bool:
        """Whether its cases can be drawn as jumps: one of what they ask is not embedded."""
        by_sums = self._rounds(step)
        computed = [source for source in self._made_of(step) if source not in self.kinds]
        return len(computed) == 1 and (step in self.by_cases or not by_sums)

    def _rounds(self, step: int) -> bool:
        """Whether a step is looked up by a number, so that errors of the number end there."""
        made = self.step(step)
        by_number = isinstance(made, Combination) or step in self.functions.sums
        if isinstance(made, Pointwise) and not by_number:
            by_number = self.functions.signs_of(step) is not None
        return by_number

    def _clean(self, step: int) -> None:
        """A one-hot that is made of a count alone is made case by case.

        What is not lit is 0 then; and of many jumps nothing is added up, which few digits forbid.
        """
        sources = self.functions.sources(step)
        clean = self.needs[step] == {ONE_HOT} or self.few_digits
        if len(sources) != 1 or not clean or sources[0] < GIVEN:
            return
        read = self.step(sources[0])
        is_count = isinstance(read, Aggregate) and read.kind in ("count", "sum")
        delicate = step in self.exact or not self.style.numbers
        if is_count and len(self.closed.scored[sources[0]]) == 1 and delicate:
            self.by_cases.add(step)
            self.functions.signs[step] = None

    def _ask(self, step: int, form: str, items: Iterable[Exact] | None = None) -> None:
        """A raw token or place is a step, too, if somebody reads it."""
        if step in (SYMBOL, INDEX):
            self.kinds[step] = self.functions.kind(step) or ""
        self.need(step, form, items)

    def _ask_aggregate(self, step: int, made: Aggregate) -> None:
        uneven = self.functions.is_uneven(step)
        for scored in self.closed.scored[step]:
            for one in scored.conjuncts:
                self._ask_sides(step, one)
        if made.kind in ("count", "sum"):
            return
        assert made.value is not None
        if made.value in self.functions.constants:
            return
        read = self.viewed(made.value)
        extreme = made.kind in ("min", "max")
        plain = read == made.value and ONE_HOT not in self.needs[step]
        if plain and (not extreme or (self.style.numbers and self.is_a_range(read))):
            self._ask(read, NUMBER)
            if SQUARE in self.needs[step]:
                self._ask(read, SQUARE, self.squares[step])
        else:
            self._ask(read, NUMBER if uneven and read == made.value else ONE_HOT)

    def is_a_range(self, step: int) -> bool:
        """Whether a step holds whole numbers without a gap: then they are ranks themselves."""
        numbers = [Fraction(n) for n in self.closed.numbers[step]]
        return all(b - a == 1 for a, b in itertools.pairwise(numbers))

    def _ask_sides(self, step: int, one: Conjunct) -> None:
        """What a head compares by mask, by numbers, or one-hot, some items alone."""
        sides = [side for side in (one.key, one.query) if side is not None]
        if self.is_masked(one):
            return
        if self.is_delicate(step):
            self.exact.update(sides)
        if one.key is not None:
            self.keyed.add(one.key)
        if self.is_parabola(step, one):
            assert one.key is not None
            for side in sides:
                self._ask(side, SQUARE, self.closed.numbers[one.key])
            return
        for chosen, told in ((one.key, one.table.any(axis=1)), (one.query, one.table.any(axis=0))):
            if chosen is not None:
                numbers = zip(self.closed.numbers[chosen], np.asarray(told).tolist(), strict=True)
                self._ask(chosen, ONE_HOT, [n for n, some in numbers if some])

    def add_masked(self, step: int, found: set[int]) -> None:
        """A step that a mask stands for, and all steps of the place that it is made of."""
        if self.functions.kind(step) == "place" and step >= GIVEN and step not in found:
            found.add(step)
            for source in self.step(step).sources:
                self.add_masked(source, found)

    def viewed(self, step: int) -> int:
        """Whose one-hot is read in place of a relabelling that nobody else needs."""
        own = step < GIVEN or step in self.closed.place.values()
        if not own and self.functions.share_of(step) is None and step not in self.functions.sums:
            made = self.step(step)
            if isinstance(made, Pointwise) and len(self.functions.sources(step)) == 1:
                (source,) = self.functions.sources(step)
                if source < GIVEN:
                    return step
                self.views[step] = source
                return source
        return step
