"""A program as straight-line steps over numbers, for words over an alphabet.

Every value is held as a number: itself, where its value set consists of numbers that floats tell
apart, else its place in the value set (nothing first, then numbers, then symbols, each in order).
Functions are called with items and answer with numbers; what may be nothing is never selected.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import NamedTuple, cast

from hardmax.core import (
    INDEX,
    LENGTH,
    SYMBOL,
    Aggregate,
    Combination,
    Picked,
    Pointwise,
    Recalled,
    SequenceStep,
    SequenceSteps,
    Words,
    plain,
)
from hardmax.core import Selection as Chosen
from hardmax.languages.programs._interpreter import (
    apply_function,
    combine_numbers,
    join_verdicts,
    relation_holds,
)
from hardmax.languages.programs._items import Exact, Item, exact_number, number_in_mean
from hardmax.languages.programs._machines import Machine
from hardmax.languages.programs._nodes import (
    Aggregated,
    Applied,
    Combined,
    Constant,
    Given,
    Joined,
    Memorised,
    Ranked,
    Related,
    Scanned,
    Selection,
    Value,
)
from hardmax.languages.programs._program import Program
from hardmax.languages.programs._value_sets import Items

Number = int | float | Fraction
Round = tuple[tuple[int, ...], tuple[int, ...]]  # the maps held earlier, and all composed
_GIVEN = {"index": INDEX, "length": LENGTH}
_CLOSEST = Fraction(1, 2**40)  # of the largest number: closer ones stand for too little in floats


class Code:
    """The numbers that stand for the items of a value set.

    Numbers that are apart stand for themselves, with nothing below them. If symbols are among the
    items, an item's place stands for it, unless they are means of numbers or a symbol: then the
    symbols are above the numbers. The numbers add up if means of them are the right ones: they do
    if one item at a time is selected, too, whatever stands for it.
    """

    def __init__(self, items: Items, *, are_means: bool = False) -> None:
        self.items = items
        symbols = [one for one in items if isinstance(one, str)]
        numbers = [
            cast(Exact, one) for one in items if one is not None and not isinstance(one, str)
        ]
        top = max(numbers, default=0)
        above: dict[Item, Exact] = {one: top + 1 + k for k, one in enumerate(symbols)}
        above[None] = min(numbers, default=1) - 1
        held = [above.get(one, cast(Exact, one)) for one in items]
        self.keeps_numbers = (are_means or not symbols) and _are_apart(held)
        self.adds_up = self.keeps_numbers or bool(symbols and not are_means)
        self.is_numeric = self.keeps_numbers and not symbols
        self.is_plain = self.is_numeric and None not in items
        self._number: dict[Item, Exact] = {
            one: plain(Fraction(held[k])) if self.keeps_numbers else k
            for k, one in enumerate(items)
        }
        self._item = {number: one for one, number in self._number.items()}

    def number(self, one: Item) -> Exact:
        return self._number[one]

    def number_or(self, one: Item, otherwise: float | Fraction) -> float | Fraction:
        """The number of an item, or something else if it never occurs."""
        return self._number.get(one, otherwise)

    def item(self, number: Exact) -> Item:
        return self._item[number]

    def nearest(self, value: float) -> Item:
        """The item whose number is nearest to what a Transformer says."""
        return min(self._number, key=lambda one: abs(float(self._number[one]) - value))


def _are_apart(numbers: Iterable[Exact]) -> bool:
    """Whether float64 tells numbers apart, with digits to spare, and none is beyond it."""
    exact = sorted(map(Fraction, numbers))
    largest = max(map(abs, exact), default=Fraction(0))
    near = largest * _CLOSEST
    return largest < 2**1000 and all(b - a >= near for a, b in itertools.pairwise(exact))


def codes_of(sets: Mapping[Value, Items]) -> dict[Value, Code]:
    """The numbers that stand for the items of every value."""
    return {value: Code(items, are_means=_are_new(value, sets)) for value, items in sets.items()}


def _are_new(value: Value, sets: Mapping[Value, Items]) -> bool:
    """Whether a value's items are means of those that it reads, and not only some of them."""
    if not (isinstance(value, Aggregated) and value.kind == "mean" and value.value is not None):
        return False
    return bool({*sets[value]} - {*sets[value.value], value.default})


def steps_of(program: Program, words: Words, codes: Mapping[Value, Code]) -> ProgramSteps:
    """The steps of a program, whose outputs are numbers by their codes."""
    writer = _StepWriter(words, codes)
    for value in program.values:
        writer.place[value] = writer.write(value)
    outputs = [writer.place[out] for out in program.outputs]
    steps = SequenceSteps(writer.steps, outputs, program.at)
    return ProgramSteps(steps, writer.place, writer.scans)


class ProgramSteps(NamedTuple):
    """Steps, the number of each value among them, and the rounds of machines."""

    steps: SequenceSteps
    place: dict[Value, int]
    scans: dict[Value, list[Round]]


class _StepWriter:
    def __init__(self, words: Words, codes: Mapping[Value, Code]) -> None:
        self.words, self.codes = words, codes
        self.steps: list[SequenceStep] = []
        self.place: dict[Value, int] = {}
        self.scans: dict[Value, list[Round]] = {}

    def _add(self, step: SequenceStep) -> int:
        self.steps.append(step)
        return len(self.steps) + 2  # three values are given

    def write(self, value: Value) -> int:
        code = self.codes[value]
        match value:
            case Given(what="tokens"):
                alphabet = self.words.alphabet
                return self._add(Pointwise((SYMBOL,), lambda k: code.number(alphabet[k])))
            case Given(what=what):
                return _GIVEN[what]
            case Constant(item=same):
                return self._add(Combination((), (), code.number(same)))
            case Applied(sources=sources):
                return self._pointwise(sources, lambda given: apply_function(value, given), code)
            case Combined(sources=sources, weights=weights, constant=constant):
                if code.is_plain and all(self.codes[source].is_plain for source in sources):
                    places = tuple(self.place[source] for source in sources)
                    return self._add(Combination(places, weights, constant))
                return self._pointwise(sources, lambda given: combine_numbers(value, given), code)
            case Scanned(source=source, machine=machine):
                return self._scan(value, self.place[source], self.codes[source], machine)
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
            return code.number(
                function([read(n) for read, n in zip(readers, numbers, strict=True)])
            )

        return self._add(Pointwise(tuple(self.place[source] for source in sources), answer))

    # ---- aggregates ----------------------------------------------------------------------------

    def _aggregate(self, value: Aggregated, code: Code) -> int:
        if value.value is None:
            return self._count(value.selection)
        read, chosen = value.value, self._relation_of(value.selection, value.value)
        if value.kind == "sum":
            return self._by(code, self._add(Aggregate(chosen, "sum", self._plain(read))))
        if value.kind == "mean" and not self._has_symbols(read):
            return self._mean(value, chosen, code)
        recoded = self._recode(read, code, is_mean=value.kind == "mean")
        kind = value.kind if value.kind in ("min", "max") else "mean"
        return self._add(Aggregate(chosen, kind, recoded, code.number_or(value.default, 0)))

    def _count(self, selection: Selection) -> int:
        """How many are selected; of two selections joined by "or", those of each, less of both.

        So it is counted by heads, too: each of the two is simpler than their union.
        """
        if not (isinstance(selection, Joined) and selection.how == "or"):
            return self._add(Aggregate(self._relation_of(selection, None), "count"))
        first, *rest = selection.parts
        other = rest[0] if len(rest) == 1 else Joined("or", tuple(rest))
        counts = [self._count(part) for part in (first, other, Joined("and", (first, other)))]
        return self._add(Combination(tuple(counts), (1, 1, -1)))

    def _rank(self, value: Ranked, code: Code) -> int:
        """u_0 + sum over v of (u_(v+1) - u_v) where at most `rank` items are <= u_v.

        The items of a rank are those for which more than `rank` items are not larger: the sum
        stops at the first of them. Past the last item, and below 0, there is the default.
        """
        items = [number for number in self.codes[value.value].items if number is not None]
        if not items:
            return self._add(Combination((), (), code.number(value.default)))
        numbers = [code.number(number) for number in items]
        default = code.number_or(value.default, numbers[-1])
        terms, weights = [], []
        rank = self.place[value.rank]
        whole = self.codes[value.rank]
        for place, (number, after) in enumerate(zip(numbers, [*numbers[1:], default], strict=True)):
            if after == number:
                continue
            below = frozenset(items[: place + 1])
            count = self._add(Aggregate(self._relation_of(_held_in(value, below), None), "count"))
            terms.append(self._add(Pointwise((count, rank), _is_reached_by(whole))))
            weights.append(after - number)
        first = code.number_or(value.default, numbers[0])
        terms.append(self._add(Pointwise((rank,), lambda n: int(not _is_rank(whole.item(n))))))
        weights.append(first - numbers[0])
        return self._add(Combination(tuple(terms), tuple(weights), numbers[0]))

    def _mean(self, value: Aggregated, chosen: Chosen, code: Code) -> int:
        assert value.value is not None
        read = self._plain(value.value)
        if code.keeps_numbers:
            return self._add(Aggregate(chosen, "mean", read, code.number_or(value.default, 0)))
        numbers = [one for one in code.items if one is not None and not isinstance(one, str)]
        apart = min(map(exact_number, numbers), default=Fraction(0)) - 1
        found = self._add(Aggregate(chosen, "mean", read, apart))
        return self._by(code, found, {apart: value.default})

    def _by(self, code: Code, place: int, named: Mapping[Exact, Item] | None = None) -> int:
        """Numbers by a code that may have others; `named` ones stand for items of their own."""
        if code.is_numeric:
            return place
        others = {} if named is None else named
        return self._add(Pointwise((place,), lambda n: code.number(others.get(n, n))))

    def _has_symbols(self, value: Value) -> bool:
        return any(isinstance(one, str) for one in self.codes[value].items)

    def _plain(self, value: Value) -> int:
        """A place that holds the value's numbers themselves; 0 where there is nothing."""
        code = self.codes[value]
        if code.is_plain:
            return self.place[value]
        return self._add(Pointwise((self.place[value],), lambda n: _or_zero(code.item(n))))

    def _recode(self, value: Value, code: Code, *, is_mean: bool) -> int:
        """The value by the code of what is made of it; nothing, which nobody selects, is 0."""
        own = self.codes[value]
        if own.items == code.items or (own.is_numeric and code.is_numeric):
            return self.place[value]

        def again(number: Exact) -> Exact:
            item = own.item(number)
            return 0 if item is None else code.number(number_in_mean(item) if is_mean else item)

        return self._add(Pointwise((self.place[value],), again))

    def _relation_of(self, selection: Selection, read: Value | None) -> Chosen:
        """One relation for a tree of selections; where nothing is read, nothing is selected."""
        keys: dict[Value, int] = {}
        queries: dict[Value, int] = {}
        _collect(selection, keys, queries)
        may_be_nothing = read is not None and None in self.codes[read].items
        if read is not None and may_be_nothing:
            keys.setdefault(read, len(keys))
        own = [self.codes[key].item for key in keys]
        asked = [self.codes[query].item for query in queries]

        def relation(*numbers: Exact) -> bool:
            there = [item(n) for item, n in zip(own, numbers[: len(own)], strict=True)]
            here = [item(n) for item, n in zip(asked, numbers[len(own) :], strict=True)]
            if read is not None and may_be_nothing and there[keys[read]] is None:
                return False
            return _holds(selection, keys, queries, there, here)

        places = self.place
        return Chosen(tuple(places[k] for k in keys), tuple(places[q] for q in queries), relation)

    # ---- machines and tables -------------------------------------------------------------------

    def _scan(self, value: Value, source: int, code: Code, machine: Machine) -> int:
        """A counter by a sum; otherwise where each state leads, composed over 1, 2, 4, ... symbols.

        After the round with stride d the maps are those of the last 2 d symbols (or of all, if
        there are fewer): a map is composed with the one held d positions earlier, if there is one.
        """

        if machine.counter is not None:
            return self._counter(source, code, machine)

        def move(state: int) -> Callable[[Exact], int]:
            return lambda n: machine.moves[state][machine.number(code.item(n))]

        maps = [self._add(Pointwise((source,), move(state))) for state in range(machine.states)]
        stride = 1
        while stride < self.words.longest:
            place = self._add(Combination((INDEX,), (1,), -stride))
            earlier = Chosen((INDEX,), (place,), lambda there, wanted: there == wanted)
            before = [
                self._add(Aggregate(earlier, "mean", own, state)) for state, own in enumerate(maps)
            ]
            maps = [self._add(Picked(first, tuple(maps))) for first in before]
            self.scans.setdefault(value, []).append((tuple(before), tuple(maps)))
            stride *= 2
        return maps[0]

    def _counter(self, source: int, code: Code, machine: Machine) -> int:
        assert machine.counter is not None
        circle, shifts = machine.counter
        shift = Pointwise((source,), lambda n: shifts[machine.number(code.item(n))])
        so_far = Chosen((INDEX,), (INDEX,), lambda there, here: there <= here)
        total = self._add(Aggregate(so_far, "sum", self._add(shift)))
        return self._add(Pointwise((total,), lambda n: circle[int(n) % len(circle)]))

    def _table(self, value: Memorised, code: Code) -> int:
        """The rows in numbers; those with items that the value never takes are left out."""
        own = self.codes[value.source]
        rows: dict[tuple[Number, ...], tuple[Number, ...]] = {
            tuple(own.number(one) for one in word): tuple(code.number(one) for one in answer)
            for word, answer in value.rows.items()
            if all(one in own.items for one in word)
        }
        return self._add(Recalled(self.place[value.source], rows, code.number(value.otherwise)))


def _held_in(value: Ranked, items: frozenset[Item]) -> Selection:
    """The positions selected at which one of the items is held."""
    held = Related((value.value,), (), lambda one: one in items, "{} is low")
    return Joined("and", (value.selection, held))


def _is_rank(one: Item) -> bool:
    return one is not None and not isinstance(one, str) and one >= 0 and one == int(one)


def _is_reached_by(whole: Code) -> Callable[[Exact, Exact], int]:
    def is_reached(count: Exact, n: Exact) -> int:
        rank = whole.item(n)
        return int(_is_rank(rank) and count <= cast(Exact, rank))

    return is_reached


def _or_zero(one: Item) -> Exact:
    return 0 if one is None else cast(Exact, one)  # a symbol among numbers is never selected


def _collect(selection: Selection, keys: dict[Value, int], queries: dict[Value, int]) -> None:
    match selection:
        case Related():
            for key in selection.keys:
                keys.setdefault(key, len(keys))
            for query in selection.queries:
                queries.setdefault(query, len(queries))
        case Joined(parts=parts):
            for part in parts:
                _collect(part, keys, queries)


def _holds(
    selection: Selection,
    keys: Mapping[Value, int],
    queries: Mapping[Value, int],
    there: list[Item],
    here: list[Item],
) -> bool:
    match selection:
        case Related():
            own = [there[keys[key]] for key in selection.keys]
            return relation_holds(
                selection, own, [here[queries[query]] for query in selection.queries]
            )
        case Joined(how=how, parts=parts):
            return join_verdicts(how, (_holds(part, keys, queries, there, here) for part in parts))
    raise AssertionError(f"unknown selection {type(selection).__name__}")
