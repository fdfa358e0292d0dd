"""A program becomes a Transformer."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from hardmax._errors import RequestError
from hardmax.core import (
    Claim,
    Construction,
    Holding,
    Legend,
    Share,
    Witness,
    Words,
    padded_parameters,
)
from hardmax.languages.programs import (
    Aggregated,
    Applied,
    Combined,
    Given,
    Memorised,
    Program,
    ProgramTarget,
    Ranked,
    Scanned,
    Value,
    exact_number,
)
from hardmax.lowering.gadgets import Scores, hard_head, soft_sum, spare_start
from hardmax.lowering.programs._aggregates import Aggregates
from hardmax.lowering.programs._codes import Codes, largest_rounding
from hardmax.lowering.programs._names import Names
from hardmax.lowering.programs._order import check_positions
from hardmax.lowering.programs._placing import Made, Placing
from hardmax.lowering.programs._questions import compares_jointly
from hardmax.lowering.programs._relations import Relations
from hardmax.lowering.programs._scans import Scans
from hardmax.lowering.programs._tables import Tables
from hardmax.lowering.programs._totals import counted_by_values
from hardmax.lowering.programs.legible import ROUTE as LEGIBLE
from hardmax.lowering.programs.legible import lower_legibly
from hardmax.lowering.sketch import (
    Care,
    NeedsSaneStart,
    Placed,
    Rename,
    Strays,
    WordAssembly,
    WordForm,
    WordSaying,
    WordSketch,
    merge_registers,
    strays_of,
)
from hardmax.numerics import FLOAT64, Format

_SHARES_HOLD = 16  # tokens: the shares of longer ranks, w/(1 + w), are too close for float32
_TRIED, _TRIED_LENGTH = 40, 6  # words that are tried by the interpreter, and how long they are
_TRIED_LONG = 4  # of the longest words: constant ones, and in order
ROUTES = ("shallow", "parallel")  # machines in one layer where they allow it, or never
_KEPT = 0.9  # of the room for decoding may be used up by what strays


@dataclass(frozen=True)
class Choices:
    """The choices that a compilation leaves open."""

    length: str = "sum"  # of ones; or "last": the largest index
    fuse: bool = True  # functions of functions are looked up at once, from their roots
    by_values: bool = False  # ranks are sums of values, not shares of heads
    parallel: bool = False  # machines are composed, even where one layer would do
    joint: bool = False  # several equalities are several parabolas, not one of joint classes
    care: Care = field(default_factory=Care)
    flat: bool = False  # look-ups end errors, at the price of more units
    format: Format = FLOAT64  # in which claims are to be kept


Built = tuple[Construction, Callable[[], Legend]]  # with its legend, made for one that is taken


class Unkept(RequestError):
    """What some choices would build strays further than its answers are apart."""


_CARES = (
    (Care(), False),
    (Care(20, 30.0), False),
    (Care(24, 30.0), False),
    (Care(40, 30.0), False),
    (Care(40, 40.0), False),
    (Care(40, 36.0), True),
)


def lower_program(
    program: Program,
    words: Words,
    *,
    positions: str | None = None,
    route: str | None = None,
    format: Format = FLOAT64,
) -> Construction:
    """The smallest Transformer for a program on words, of all that it can choose between.

    On the route "legible" it is one that can be read instead, with positions one-hot by default.

    Claims of programs are distances to codes, which leave room for decoding: in a coarse format
    they are kept where what it rounds fits that room, and refused elsewhere.
    """
    legible = route == LEGIBLE
    positions = ("one-hot" if legible else "scalar") if positions is None else positions
    check_positions(program, words, positions)
    if route not in (None, *ROUTES, LEGIBLE):
        raise RequestError(
            f"There is no route {route!r} for a program; choose one of "
            f"{', '.join((*ROUTES, LEGIBLE))}."
        )
    _try(program, words)
    if legible:
        return lower_legibly(program, words, positions=positions, format=format)
    program = replace(program, beside=())  # compact models hold what their answers need
    target = ProgramTarget(program, words)
    open_choices = [
        replace(choices, parallel=route == "parallel") for choices in _open_choices(program)
    ]
    made = _build_all(target, [replace(one, format=format) for one in open_choices], positions)
    if words.longest > _SHARES_HOLD and any(choices.by_values for choices, _ in made):
        made = [one for one in made if one[0].by_values]
    built = min((one for _, one in made), key=lambda one: padded_parameters(one[0].transformer))
    return replace(built[0], legend=built[1]())


def _build_all(
    target: ProgramTarget, open_choices: list[Choices], positions: str
) -> list[tuple[Choices, Built]]:
    """What all choices build, with as little care as can be kept; the first refusal if none can.

    What has failed for want of care is tried with more: sums with more bits cost nothing, and what
    costs more is tried if all else has failed.
    """
    codes = Codes(target)
    refusals: list[RequestError] = []
    made: list[tuple[Choices, Built]] = []
    for care, flat in _CARES:
        hopeful = []
        for choices in (replace(choices, care=care, flat=flat) for choices in open_choices):
            try:
                made.append((choices, _build(target, codes, choices, positions)))
            except Unkept as reason:
                refusals.append(reason)
                hopeful.append(choices)
            except RequestError as reason:
                refusals.append(reason)
            except OverflowError:
                name = target.program.name
                refusals.append(RequestError(f"{name} has numbers too large for floats."))
        if made and care != _CARES[0][0]:
            break
        open_choices = hopeful
    if not made:
        raise refusals[0]
    return made


def _try(program: Program, words: Words) -> None:
    """A program that fails on some words is refused: its meaning is to be known for all of them."""
    longest = min(words.longest, _TRIED_LENGTH)
    if longest >= words.shortest:
        few = Words(words.alphabet, longest, words.shortest)
        for word in few.sample(_TRIED, np.random.default_rng(0)):
            program(word)
    for word in words.sample(_TRIED_LONG, np.random.default_rng(0)):
        program(word)


def _open_choices(program: Program) -> list[Choices]:
    """The choices that can make a difference."""
    values = program.values
    lengths = ["sum"]
    if any(isinstance(value, Given) and value.what == "length" for value in values):
        lengths.append("last")
    depth = sum(isinstance(value, Applied | Combined) for value in values)
    fusing = [True, False] if depth > 1 else [True]
    counting = [False, True] if counted_by_values(values) else [False]
    joining = [False, True] if any(map(compares_jointly, values)) else [False]
    return [
        Choices(length=length, fuse=fuse, by_values=by_values, joint=joint)
        for length, fuse, by_values, joint in itertools.product(lengths, fusing, counting, joining)
    ]


def _build(target: ProgramTarget, codes: Codes, choices: Choices, positions: str) -> Built:
    try:
        return _ProgramCompiler(target, codes, choices, positions, sane_start=False).built()
    except NeedsSaneStart:
        return _ProgramCompiler(target, codes, choices, positions, sane_start=True).built()


class _ProgramCompiler:
    def __init__(
        self,
        target: ProgramTarget,
        codes: Codes,
        choices: Choices,
        positions: str,
        sane_start: bool,
    ) -> None:
        self.target, self.choices = target, choices
        self.sketch = WordSketch(target.words, positions, choices.care)
        self.sketch.sane_start = sane_start
        names = Names(target, codes)
        self.placing = Placing(codes, names, self.sketch, self._make, choices.fuse, choices.flat)
        by_values = counted_by_values(target.program.values) if choices.by_values else frozenset()
        relations = Relations(self.placing, choices.joint)
        self.aggregates = Aggregates(self.placing, relations, by_values)
        self.scans = Scans(self.placing, relations, choices.parallel)
        self.tables = Tables(self.placing)
        self.rooms: dict[Value, float] = {}  # of the answers' spacing, where it is not a quarter
        self.aside: dict[Value, float] = {}  # how far answers are from their codes on purpose

    def built(self) -> Built:
        target, outputs = self.target, self.target.program.outputs
        answers = [self._answer(output) for output in outputs]
        if self.sketch.needs_start:
            spare_start(self.sketch)
        answers, rename = merge_registers(self.sketch, answers)
        format = self.choices.format
        ledger = self._ledger(strays_of(self.sketch, answers, format))
        claim = Claim(target, target.words, ledger, format=format.name)
        assembly = WordAssembly(self.sketch, answers)
        witness = Witness(self._holdings(assembly, rename))
        transformer = assembly.transformer(target.program.at)
        construction = Construction(transformer, claim, witness, "program")
        return construction, lambda: assembly.legend(self._sayings(rename))

    def _sayings(self, rename: Rename) -> Iterator[WordSaying]:
        """What forms say, in registers that are left."""
        said = itertools.chain(self.sketch.sayings(), self.scans.sayings, self.placing.sayings())
        for saying in said:
            form = rename(saying.form)
            if form is not None:
                yield replace(saying, form=form)

    def _ledger(self, strays: list[Strays]) -> list[Share]:
        """All of the room is claimed: what the answers stray by, and what is left for decoding."""
        outputs, target = self.target.program.outputs, self.target
        room = min(target.spacing(one) * self.rooms.get(one, 0.25) for one in outputs)
        aside = max(self.aside.get(one, 0.0) for one in outputs)
        softening, rounding = (max(column) for column in zip(*strays, strict=True))
        rounding += max(
            largest_rounding(map(target.codes[one].number, target.codes[one].items))
            for one in outputs
        )
        used = aside + softening + rounding
        if not used <= aside + _KEPT * (room - aside):
            apart = min(map(target.spacing, outputs))
            raise Unkept(
                f"The answers of {target.program.name} are {apart:.3g} apart, but what is built "
                f"to give them may stray by {used:.3g} in {self.choices.format.name}. Shorten the "
                f"words, or map what it compares to fewer values first."
            )
        shares = [
            Share("approximation", "answers by the size of a state", aside),
            Share("softening", "heads and sums", softening),
            Share("rounding", self.choices.format.name, rounding),
            Share("margin", "room for decoding", room - used),
        ]
        return [share for share in shares if share.amount > 0.0]

    def _holdings(self, assembly: WordAssembly, rename: Rename) -> Iterator[Holding]:
        """Where the program's own values are held, sublayer by sublayer."""
        held = [*self.scans.held]
        for value, placed in self.placing.holds.items():
            step = self.target.step_of(value)
            if step is not None:
                held.append((placed.ready - 1, placed.form, step))
        for sublayer, form, step in sorted(held, key=lambda one: one[0]):
            kept = rename(form)
            holding = None if kept is None else assembly.holding(kept, sublayer, step)
            if holding is not None:
                yield holding

    def _answer(self, output: Value) -> WordForm:
        code = self.target.codes[output]
        numbers = [float(code.number(one)) for one in code.items]
        return self._by_size(output) or self.placing.place(output, numbers).form

    def _by_size(self, output: Value) -> WordForm | None:
        """Two answers that are told apart by the size of a composed state need no look-up.

        Let the states below K answer lo, those from K on hi. The form
        (lo + hi)/2 + (hi - lo) (state - K + 1/2) / (2 r), where |state - K + 1/2| <= r, is on the
        right side of the middle, (hi - lo)/(4 r) away from it at least; so it is at most
        1/2 - 1/(4 r) of the spacing from its code, and decoded rightly. A feed-forward layer less.
        """
        if not (isinstance(output, Applied) and len(output.sources) == 1):
            return None
        (source,) = output.sources
        if not (isinstance(source, Scanned) and self.scans.is_composed(source)):
            return None
        code = self.target.codes[output]
        states = np.array([float(exact_number(one)) for one in self.placing.items(source)])
        answers = [float(code.number(output.function(one))) for one in self.placing.items(source)]
        low, high = answers[int(states.argmin())], answers[int(states.argmax())]
        last = max(s for s, one in zip(states, answers, strict=True) if one == low)
        if low == high or answers != [low if s <= last else high for s in states]:
            return None
        away = states - (last + 0.5)
        reach = float(np.abs(away).max())
        self.rooms[output] = 0.5 - 1.0 / (8.0 * reach)
        self.aside[output] = self.target.spacing(output) * (0.5 - 1.0 / (4.0 * reach))
        return self.placing.place(source, (low + high) / 2 + (high - low) * away / (2 * reach)).form

    def _make(self, value: Value) -> Made:
        match value:
            case Given(what="length"):
                return self._length(value)
            case Aggregated():
                return self.aggregates.make(value)
            case Ranked():
                return self.aggregates.make_ranked(value)
            case Scanned():
                return self.scans.make(value, self.target.rounds_of(value))
            case Memorised():
                return self.tables.make(value)
        raise AssertionError(f"unknown value {type(value).__name__}")

    def _length(self, value: Given) -> Made:
        levels = self.placing.natural(value)
        if self.choices.length == "sum":
            constant = Placed(WordForm({}, 1.0), 0, True)
            return Made(soft_sum(self.sketch, "length", constant, None, False), levels)
        words = self.target.words
        places = np.arange(float(words.longest))
        index = self.sketch.column("index", np.zeros(len(words.alphabet)), places)
        scores = Scores([self.sketch.token], [index], 0, 1.0)
        held = Placed(index, 0, True)
        last_index = hard_head(self.sketch, "length", scores, held, agree=True)
        return Made(last_index.scaled(1.0, 1.0), levels)
