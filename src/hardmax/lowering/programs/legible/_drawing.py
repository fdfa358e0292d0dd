"""What components read of blocks, and write into them, while a legible model is drawn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from hardmax._errors import RequestError
from hardmax.core import INDEX, SYMBOL, Words, plain
from hardmax.languages.programs import ClosedSteps, Conjunct
from hardmax.lowering.programs.legible._functions import Exact, Functions
from hardmax.lowering.programs.legible._needs import NUMBER, ONE_HOT, SQUARE, Means
from hardmax.lowering.programs.legible._sheet import (
    ONE,
    START,
    Component,
    DrawnHead,
    Held,
    Row,
    Sheet,
    Unit,
    added,
)
from hardmax.lowering.programs.legible._units import interpolated, staircase

MOST_UNITS = 2**13
# With few digits a share is off by far less than a third of a gap, and edges have few digits, too.
_COARSE_STEEPNESS, _COARSE_FLAT = 16 / 7, 1 / 16
_LONGEST_TO_INTERPOLATE = 24  # symbols: errors grow with the square of the length


class Drawing:
    """The sheet, the means, and the forms in which a component reads a step."""

    def __init__(self, closed: ClosedSteps, words: Words, means: Means) -> None:
        self.closed, self.words, self.means = closed, words, means
        self.sheet = Sheet(closed, words.longest, self._shown, kinds=means.kinds)

    @property
    def functions(self) -> Functions:
        return self.means.functions

    def _shown(self, step: int, form: str) -> tuple:
        if form == SQUARE:
            return tuple(sorted(self.means.squares[step]))
        return self.means.shown(step) if form == ONE_HOT else tuple(self.closed.numbers[step])

    # ---- what is read --------------------------------------------------------------------------

    def numbers(self, step: int) -> list[float]:
        return [float(n) for n in self.closed.numbers[step]]

    def held(self, step: int, *forms: str) -> Held:
        for form in forms:
            held = self.sheet.held(step, form)
            if held is not None:
                return held
        raise AssertionError(f"the step {self.closed.name(step)!r} is not held")

    def number(self, step: int) -> Row:
        """The number of a step; of one that is held one-hot alone, its items' numbers added up."""
        held = self.held(step, NUMBER, ONE_HOT)
        return held.read([1.0] if held.form == NUMBER else [float(n) for n in held.items])

    def square(self, step: int, keys: Sequence[Exact]) -> Row:
        """How far a step's number is from keys, as `core.square_code` says."""
        held = self.held(step, SQUARE, ONE_HOT)
        if held.form == SQUARE:
            return held.read([1.0])
        codes = Held(step, SQUARE, 0, 0, tuple(keys), [0.0])
        return held.read([codes.code(n)[0] for n in held.items])

    def squared_in(self, one: Conjunct) -> list[Held]:
        """The blocks that a parabola reads."""
        found = []
        for side in (one.key, one.query):
            assert side is not None
            found += [self.held(side, NUMBER, ONE_HOT), self.held(side, SQUARE, ONE_HOT)]
        return found

    def items(self, step: int) -> list[Row]:
        """A linear form for each number, 1 where the step holds it; none if nobody looks for it."""
        held = self.held(step, ONE_HOT)
        return [
            held.read([float(n == own) for own in held.items]) for n in self.closed.numbers[step]
        ]

    def places(self, step: int) -> list[Exact]:
        """What a function of the place is at each of them."""
        if step == INDEX:
            return list(self.closed.numbers[INDEX])
        return [plain(one) for _, one in sorted(self.functions.embedded_values(step).items())]

    def ready(self, blocks: Iterable[Held], kind: int) -> int:
        """The first sublayer of a kind (0 attention, 1 feed-forward) after blocks are there."""
        after = max((block.time for block in blocks), default=-1) + 1
        return after + (after % 2 != kind)

    # ---- what is written -----------------------------------------------------------------------

    def forms(self, step: int) -> list[str]:
        """In the order of their blocks."""
        order = (ONE_HOT, NUMBER, SQUARE)
        return [form for form in order if form in self.means.needs[step]]

    def embed(self, step: int) -> None:
        for form in self.forms(step):
            self.sheet.block(step, form, -1)

    def blocks(self, step: int, time: int) -> list[Held]:
        return [self.sheet.block(step, form, time) for form in self.forms(step)]

    def outputs(self, blocks: list[Held], number: Exact) -> Row:
        """What the blocks are to hold for a number, as outputs of a unit."""
        return {
            block.first + k: weight
            for block in blocks
            for k, weight in enumerate(block.code(number))
            if weight
        }

    def looked_up(
        self, step: int, row: Row, numbers: Sequence[Exact], outputs: Sequence[Row]
    ) -> list[Unit]:
        """A function of a number: a staircase, or straight lines where these are fewer units.

        Lines pass errors on, which heads that count would not stand.
        """
        exact = [Fraction(n) for n in numbers]
        stairs = staircase(row, [float(n) for n in exact], outputs)
        if not self.may_interpolate(step):
            return stairs
        lines = interpolated(row, exact, outputs)
        return lines if len(lines) < len(stairs) else stairs

    def sharp_staircase(
        self, row: Row, numbers: Sequence[float], outputs: Sequence[Row]
    ) -> list[Unit]:
        """What is written for shares; with few digits edges have few digits, too."""
        if self.means.few_digits:
            return staircase(row, numbers, outputs, steepness=_COARSE_STEEPNESS, flat=_COARSE_FLAT)
        return staircase(row, numbers, outputs)

    def may_interpolate(self, step: int) -> bool:
        few = self.words.longest <= _LONGEST_TO_INTERPOLATE
        may = self.means.style.numbers and few and step not in self.means.exact
        return may and self.means.is_close(step)

    def add(self, step: int, time: int, made: DrawnHead | list[Unit], writes: list[Held]) -> None:
        if isinstance(made, list) and len(made) > MOST_UNITS:
            raise RequestError(
                f"The step {self.closed.name(step)!r} would take {len(made):,} hidden units in a "
                f"legible model; {MOST_UNITS:,} are allowed. Map its arguments to fewer values."
            )
        shown = self.closed.steps.notes[step].text
        self.sheet.components.append(Component(step, time, made, writes, shown))

    def add_constant(self, step: int, number: Exact) -> None:
        """A step that is the same whatever it reads is written at every symbol."""
        blocks = self.blocks(step, 1)
        self.add(step, 1, [everywhere(self.outputs(blocks, number))], blocks)

    def spell_out(self, step: int) -> None:
        """The other forms of a step whose number is held."""
        number = self.held(step, NUMBER)
        time = self.ready([number], 1)
        blocks = [self.sheet.block(step, f, time) for f in self.forms(step) if f != NUMBER]
        if blocks:
            exact = self.closed.numbers[step]
            outputs = [self.outputs(blocks, n) for n in exact]
            self.add(step, time, self.looked_up(step, number.read([1.0]), exact, outputs), blocks)


def everywhere(outputs: Row) -> Unit:
    return Unit({ONE: 1.0, START: -1.0}, 0.0, outputs)


def symbols_only(weight: float) -> Row:
    """A constant that the start token does not have."""
    return added([(weight, {ONE: 1.0, START: -1.0})])


ORIGINS = (SYMBOL, INDEX)
