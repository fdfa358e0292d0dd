"""A program as steps whose sets of numbers are closed under interventions.

What a word gives for granted becomes a step that can be overwritten: `index` is a copy of the
place, `length` counts everybody. Machines and tables of words go by the place itself, which nobody
overwrites. Every selection is told twice: as one relation, which is its meaning, and as parts that
heads can score, which are for lowerings.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hardmax.core import (
    INDEX,
    SYMBOL,
    Aggregate,
    Combination,
    Picked,
    Pointwise,
    SequenceSteps,
    Words,
)
from hardmax.languages.programs._choosing import (
    MOST_PARTS,
    Part,
    both,
    conjuncts_of,
)
from hardmax.languages.programs._closed_sheet import Scored, StepSheet, labels_of
from hardmax.languages.programs._interpreter import (
    apply_function,
    combine_numbers,
)
from hardmax.languages.programs._items import Exact, Item, number_in_mean
from hardmax.languages.programs._machines import Machine
from hardmax.languages.programs._nodes import (
    Aggregated,
    Applied,
    Combined,
    Constant,
    Given,
    Memorised,
    Ranked,
    Scanned,
    Value,
)
from hardmax.languages.programs._program import Program
from hardmax.languages.programs._steps import Code
from hardmax.languages.programs._value_sets import TooLarge


@dataclass
class ClosedSteps:
    """Steps with the numbers that each can hold, and how selections are scored.

    The steps' own notes have their names, what they do, and how their numbers are shown.
    """

    steps: SequenceSteps
    place: dict[Value, int]
    numbers: dict[int, tuple[Exact, ...]]
    scored: dict[int, tuple[Scored, ...]]
    beside: tuple[int, ...] = ()  # steps that are held although no answer needs them

    def name(self, step: int) -> str:
        return self.steps.notes[step].name


def closed_steps_of(program: Program, words: Words, codes: Mapping[Value, Code]) -> ClosedSteps:
    """The steps of a program on words, by codes of closed sets."""
    writer = _ClosedWriter(program, words, codes)
    for value in program.values:
        if value not in writer.inner:
            writer.write_value(value)
    outputs = [writer.place[out] for out in program.outputs]
    steps = SequenceSteps(writer.steps, outputs, program.at, writer.notes())
    beside = tuple(writer.place[value] for value in program.beside)
    return ClosedSteps(steps, writer.place, writer.numbers, writer.scored, beside)


class _ClosedWriter(StepSheet):
    """A case for each kind of value."""

    def write_value(self, value: Value) -> None:
        self._now = value
        step = self._write(value, self.codes[value])
        if step in self.names and step in self.place.values():
            step = self._add(Combination((step,), (1,)), self.numbers[step])
        self.place[value] = step
        self.numbers[step] = tuple(sorted(self.codes[value].number(i) for i in self._items(value)))
        code = self.codes[value]
        self.labels[step] = labels_of(code)
        self.texts[step] = value
        if value in self.given_names:
            self.taken.discard(self.names.get(step, ""))
            self.names[step] = self.given_names[value]

    # ---- values --------------------------------------------------------------------------------

    def _write(self, value: Value, code: Code) -> int:
        match value:
            case Given(what="tokens"):
                numbers = [code.number(symbol) for symbol in self.words.alphabet]
                return self._look_up((SYMBOL,), numbers.__getitem__)
            case Given(what="index"):
                return self._add(Combination((INDEX,), (1,)), self.numbers[INDEX])
            case Given():
                return self._count_everybody()
            case Constant(item=same):
                return self._add(Combination((), (), code.number(same)), [code.number(same)])
            case Applied(sources=sources):
                return self._pointwise(sources, lambda given: apply_function(value, given), code)
            case Combined():
                return self._combined(value, code)
            case Scanned(source=source, machine=machine):
                return self._scan(self.place[source], self.codes[source], machine)
            case Memorised():
                return self._table(value, code)
            case Aggregated():
                return self._aggregate(value, code)
            case Ranked():
                return self._rank(value, code)
        raise AssertionError(f"unknown value {type(value).__name__}")

    def _pointwise(
        self, sources: tuple[Value, ...], function: Callable[[list[Item]], Item], code: Code
    ) -> int:
        readers = [self.codes[source].item for source in sources]

        def answer(*numbers: Exact) -> Exact:
            given = [read(n) for read, n in zip(readers, numbers, strict=True)]
            return code.number(function(given))

        return self._add(Pointwise(tuple(self.place[source] for source in sources), answer), ())

    def _combined(self, value: Combined, code: Code) -> int:
        if not (code.is_plain and all(self.codes[one].is_plain for one in value.sources)):
            return self._pointwise(value.sources, lambda given: combine_numbers(value, given), code)
        weights: dict[int, Fraction] = {}
        constant = self._collect(value, Fraction(1), weights)
        kept = {place: weight for place, weight in weights.items() if weight}
        return self._add(Combination(tuple(kept), tuple(kept.values()), constant), ())

    def _collect(self, value: Combined, times: Fraction, weights: dict[int, Fraction]) -> Fraction:
        """The weights of steps, through inner sums; the constant is what is left."""
        constant = times * value.constant
        for source, weight in zip(value.sources, value.weights, strict=True):
            if isinstance(source, Constant):
                constant += times * weight * Fraction(self.codes[source].number(source.item))
            elif source in self.inner:
                assert isinstance(source, Combined)
                constant += self._collect(source, times * weight, weights)
            else:
                place = self.place[source]
                weights[place] = weights.get(place, Fraction(0)) + times * weight
        return constant

    # ---- aggregates ----------------------------------------------------------------------------

    def _aggregate(self, value: Aggregated, code: Code) -> int:
        parts = self._parts(value.selection)
        if value.value is None:
            return self._count(parts)
        read = value.value
        there = self._where_held(self.place[read], lambda n: self.codes[read].item(n) is not None)
        parts = both(parts, there)
        if value.kind == "sum":
            return self._sum(parts, read, code)
        if value.kind == "mean" and not self._has_symbols(read):
            return self._mean(value, parts, code)
        recoded = self._recode(read, code, is_mean=value.kind == "mean")
        kind = value.kind if value.kind in ("min", "max") else "mean"
        default = _plain(Fraction(code.number_or(value.default, 0)))
        return self._gathered(parts, kind, recoded, default, kind == "mean")

    def _gathered(
        self, parts: list[Part], kind: str, read: int, default: Exact, agree: bool
    ) -> int:
        nobody: Part = {(None, None): np.zeros((1, 1), dtype=bool)}
        part = self._one_part(parts) if parts else nobody
        chosen = self._chosen([part])
        found = Aggregate(chosen, kind, read, default, agree)
        step = self._add(found, {*self.numbers[read], default})
        self.scored[step] = (Scored(Fraction(1), conjuncts_of(part)),)
        return step

    def _count(self, parts: list[Part]) -> int:
        if len(parts) > MOST_PARTS:
            parts = [self._one_part(parts)]
        if parts == [{}]:
            return self._count_everybody()
        chosen = self._chosen(parts)
        step = self._add(Aggregate(chosen, "count"), range(self.words.longest + 1))
        self.scored[step] = tuple(Scored(Fraction(1), conjuncts_of(part)) for part in parts)
        return step

    def _sum(self, parts: list[Part], read: Value, code: Code) -> int:
        """Of few values: one count for each that is not 0."""
        place = self.place[read]
        plain = self._plain(read)
        if len(parts) > 1:
            parts = [self._one_part(parts)]
        scored = []
        for number in self.numbers[place]:
            worth = _or_zero(self.codes[read].item(number))
            if worth:
                only = both(parts, self._where_held(place, _holding(number)))
                scored += [Scored(Fraction(worth), conjuncts_of(part)) for part in only]
        chosen = self._chosen(parts)
        step = self._add(Aggregate(chosen, "sum", plain), self._sums(plain))
        self.scored[step] = tuple(scored)
        return self._by(code, step)

    def _sums(self, step: int) -> set[Exact]:
        """The sums of up to as many numbers as a word has symbols."""
        found = {Fraction(0)}
        for _ in range(self.words.longest):
            found |= {a + Fraction(b) for a in found for b in self.numbers[step]}
            self._limit(len(found), 2**14)
        return {_plain(one) for one in found}

    def _mean(self, value: Aggregated, parts: list[Part], code: Code) -> int:
        assert value.value is not None
        read = self._plain(value.value)
        if code.keeps_numbers:
            default = _plain(Fraction(code.number_or(value.default, 0)))
            step = self._gathered(parts, "mean", read, default, False)
            self.numbers[step] = tuple(sorted(code.number(one) for one in code.items))
            return step
        raise TooLarge(
            f"The means of the step {self.given_names[value]!r} are too close together, or beside "
            f"symbols, for a legible model. Shorten the words, or map what it reads first."
        )

    def _by(self, code: Code, step: int) -> int:
        return step if code.is_numeric else self._look_up((step,), code.number)

    def _has_symbols(self, value: Value) -> bool:
        return any(isinstance(one, str) for one in self.codes[value].items)

    def _plain(self, value: Value) -> int:
        """A step that holds the value's numbers themselves; 0 where there is nothing."""
        code = self.codes[value]
        if code.is_plain:
            return self.place[value]
        return self._look_up((self.place[value],), lambda n: _or_zero(code.item(n)))

    def _recode(self, value: Value, code: Code, *, is_mean: bool) -> int:
        """The value by the code of what is made of it; nothing, which nobody selects, is 0."""
        own = self.codes[value]
        if own.items == code.items or (own.is_numeric and code.is_numeric):
            return self.place[value]

        def again(number: Exact) -> Exact:
            item = own.item(number)
            return 0 if item is None else code.number(number_in_mean(item) if is_mean else item)

        return self._look_up((self.place[value],), again)

    def _rank(self, value: Ranked, code: Code) -> int:
        """Of the items u_0 < u_1 < ... the one of which more than `rank` selected are not larger.

        At most `rank` are <= u for the items below it: their number says which it is. Past the
        last, and where the rank is none, there is the default.
        """
        read, rank = self.place[value.value], self.place[value.rank]
        items = [one for one in self._items(value.value) if one is not None]
        whole = self.codes[value.rank]
        selected = self._parts(value.selection)
        reached = []
        for last in range(len(items)):
            low = frozenset(self.codes[value.value].number(one) for one in items[: last + 1])
            parts = both(selected, self._where_held(read, low.__contains__))
            count = self._count(parts) if parts else self._nobody()
            reached.append(self._look_up((count, rank), _is_reached_by(whole)))
        number = Combination(tuple(reached), (1,) * len(reached))
        passed = self._add(number, range(len(reached) + 1))
        answers = [*items, value.default]
        return self._look_up((passed,), lambda k: code.number(answers[int(k)]))

    def _nobody(self) -> int:
        return self._add(Combination((), (), 0), [0])

    # ---- machines and tables -------------------------------------------------------------------

    def _scan(self, source: int, code: Code, machine: Machine) -> int:
        """As in `_steps`: a counter by a sum, or maps composed over 1, 2, 4, ... symbols."""
        if machine.counter is not None:
            return self._counter(source, code, machine)

        def move(state: int) -> Callable[[Exact], int]:
            return lambda n: machine.moves[state][machine.number(code.item(n))]

        maps = [self._look_up((source,), move(state)) for state in range(machine.states)]
        stride = 1
        while stride < self.words.longest:
            places = [k - stride for k in self.numbers[INDEX]]
            place = self._add(Combination((INDEX,), (1,), -stride), places)
            table = np.equal.outer(*map(_whole, (self.numbers[INDEX], self.numbers[place])))
            earlier: list[Part] = [{(INDEX, place): table}]
            before = [
                self._gathered(earlier, "mean", own, state, True) for state, own in enumerate(maps)
            ]
            held = set().union(*(self.numbers[one] for one in maps))
            maps = [self._add(Picked(first, tuple(maps)), held) for first in before]
            stride *= 2
        return maps[0]

    def _counter(self, source: int, code: Code, machine: Machine) -> int:
        assert machine.counter is not None
        circle, shifts = machine.counter
        shift = self._look_up((source,), lambda n: shifts[machine.number(code.item(n))])
        places = self.numbers[INDEX]
        so_far: list[Part] = [{(INDEX, INDEX): np.less_equal.outer(_whole(places), _whole(places))}]
        scored = []
        for number in self.numbers[shift]:
            if number:
                only = both(so_far, self._where_held(shift, _holding(number)))
                scored += [Scored(Fraction(number), conjuncts_of(part)) for part in only]
        total = self._add(Aggregate(self._chosen(so_far), "sum", shift), self._sums(shift))
        self.scored[total] = tuple(scored)
        return self._look_up((total,), lambda n: circle[int(n) % len(circle)])

    def _table(self, value: Memorised, code: Code) -> int:
        """Row w is there if as many positions as it has agree with it, and there are no others.

        Positions are told by their place together with what they hold. The sum of the numbers of
        the rows that are there, of which there is one at most, says which it is.
        """
        own, source = self.codes[value.source], self.place[value.source]
        rows = [
            (tuple(own.number(one) for one in word), tuple(code.number(one) for one in answer))
            for word, answer in value.rows.items()
            if word and len(word) <= self.words.longest and all(one in own.items for one in word)
        ]
        length = self._count_everybody()
        joint = self._joint_step((source, INDEX))
        assert joint is not None
        pairs = list(itertools.product(self.numbers[source], self.numbers[INDEX]))
        there = []
        for word, _ in rows:
            fits = [k for k, (n, i) in enumerate(pairs) if i < len(word) and word[int(i)] == n]
            count = self._count(self._where_held(joint, frozenset(fits).__contains__))
            there.append(self._look_up((count, length), _are_all(len(word))))
        weights = tuple(range(1, len(rows) + 1))
        which = self._add(Combination(tuple(there), weights), range(sum(weights) + 1))
        otherwise = code.number(value.otherwise)

        def recalled(number: Exact, place: Exact) -> Exact:
            answer = rows[int(number) - 1][1] if 1 <= number <= len(rows) else ()
            return answer[int(place)] if place < len(answer) else otherwise

        return self._look_up((which, INDEX), recalled)


def _are_all(wanted: int) -> Callable[[Exact, Exact], int]:
    return lambda count, length: int(count == length == wanted)


def _is_reached_by(whole: Code) -> Callable[[Exact, Exact], int]:
    def is_reached(count: Exact, n: Exact) -> int:
        rank = whole.item(n)
        if rank is None or isinstance(rank, str) or rank < 0 or rank != int(rank):
            return 1
        return int(count <= rank)

    return is_reached


def _whole(numbers: Iterable[Exact]) -> np.ndarray:
    return np.array([int(n) for n in numbers])


def _holding(number: Exact) -> Callable[[Exact], bool]:
    return lambda n: n == number


def _or_zero(one: Item) -> Exact:
    return 0 if one is None or isinstance(one, str) else one  # type: ignore[return-value]


def _plain(number: Fraction) -> Exact:
    return number.numerator if number.denominator == 1 else number
