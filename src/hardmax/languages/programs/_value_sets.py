"""Which items a value can take on words over an alphabet: finitely many, or a refusal.

What depends on the token, the index and the length of a position alone is worked out for all of
them, exactly. What depends on other positions is enclosed: an aggregate by the sets of what it
aggregates, a function by all combinations of its arguments. The sets may hold items that never
occur; none that occurs is missing.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable
from fractions import Fraction

from hardmax._errors import RequestError, SemanticsError
from hardmax.core import Words, plain
from hardmax.languages.programs._interpreter import (
    apply_function,
    combine_numbers,
    relation_holds,
    sources_of,
    values_behind,
)
from hardmax.languages.programs._items import Item, exact_number, in_order, number_in_mean
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
from hardmax.languages.programs._printing import step_text

LARGEST = 2**14  # items of one value
_MOST_CASES = 2**20  # combinations of arguments that are tried
_MOST_SUMS = 2**17  # of one number more that are tried

Case = tuple[int, int, int]  # token, index, length; 0 for what does not matter
Reads = tuple[bool, bool, bool]  # whether they matter
Items = tuple[Item, ...]


class TooLarge(RequestError):
    """A step has too many values to be compiled; says which, and how many.

    >>> power = program(lambda s: apply(lambda i, j: i * 10**4 + j, s.index, s.length))
    >>> hm.compile(power, alphabet="a", length=300)
    Traceback (most recent call last):
    hardmax.languages.programs._value_sets.TooLarge: The step ...
    """


def value_sets(
    outputs: Iterable[Value], words: Words, *, closed: bool = False
) -> dict[Value, Items]:
    """The items of every value behind the outputs, in an order of their own.

    Closed sets are closed under interventions: whatever items the sources of a step are given,
    each of its own set and together or not, what the step makes of them is in its set. So they are
    images of products, and `length - 1 - index` can be -5.
    """
    return _Sets(words, closed).of(list(values_behind(*outputs)))


class _Sets:
    def __init__(self, words: Words, closed: bool = False) -> None:
        self.words, self.closed = words, closed
        self.sets: dict[Value, Items] = {}
        self.local: dict[Value, dict[Case, Item]] = {}  # values of the own position alone
        self.reads: dict[Value, Reads] = {}  # which of token, index and length they depend on

    def of(self, values: list[Value]) -> dict[Value, Items]:
        for value in values:
            table = self._table(value)
            if table is not None:
                self.local[value] = table
            items = self._items(value) if table is None else table.values()
            self.sets[value] = _sort_items(items)
            if len(self.sets[value]) > LARGEST:
                raise _too_large(value, len(self.sets[value]))
        return self.sets

    # ---- what a position knows by itself -----------------------------------------------------

    def _cases(self, reads: Reads) -> Iterable[Case]:
        """All tokens, indices and lengths that come together; 0 for what is not read."""
        symbols = range(len(self.words.alphabet)) if reads[0] else range(1)
        lengths = [n for n in self.words.lengths if n]
        if reads[1] and not reads[2]:
            lengths = lengths[-1:]  # the longest words have all indices
        places = ((i, n) for n in lengths for i in range(n if reads[1] else 1))
        pairs = {(i if reads[1] else 0, n if reads[2] else 0) for i, n in places}
        return ((a, i, n) for i, n in sorted(pairs) for a in symbols)

    def _table(self, value: Value) -> dict[Case, Item] | None:
        """The item for each token, index and length that it depends on, if these decide it."""
        match value:
            case Given(what=what):
                place = ("tokens", "index", "length").index(what)
                reads = self.reads[value] = (place == 0, place == 1, place == 2)
                named = self.words.alphabet if place == 0 else None
                cases = self._cases(reads)
                return {case: named[case[0]] if named else case[place] for case in cases}
            case Constant(item=same):
                self.reads[value] = (False, False, False)
                return {(0, 0, 0): same}
            case Applied(sources=sources) | Combined(sources=sources):
                if not self.closed and all(source in self.local for source in sources):
                    return self._compute_cases(value, sources)
        return None

    def _compute_cases(
        self, value: Applied | Combined, sources: tuple[Value, ...]
    ) -> dict[Case, Item]:
        parts = [(self.reads[source], self.local[source]) for source in sources]
        joint = [any(reads[k] for reads, _ in parts) for k in range(3)]
        reads = self.reads[value] = (joint[0], joint[1], joint[2])
        memory: dict[Items, Item] = {}
        return {
            case: self._once(
                memory, value, tuple(table[_part_read(case, own)] for own, table in parts)
            )
            for case in self._cases(reads)
        }

    def _once(self, memory: dict[Items, Item], value: Applied | Combined, given: Items) -> Item:
        if given not in memory:
            memory[given] = _answer_for(value, given)
        return memory[given]

    # ---- what it learns of others ------------------------------------------------------------

    def _items(self, value: Value) -> Iterable[Item]:
        match value:
            case Applied() | Combined():
                return self._combinations(value)
            case Scanned(machine=machine):
                return range(machine.states)
            case Memorised(rows=rows, otherwise=otherwise):
                return itertools.chain([otherwise], *rows.values())
            case Ranked(value=read, default=default):
                held = {one for one in self.sets[read] if one is not None}
                return held if self._has_rank(value, self.sets[read]) else {*held, default}
            case Aggregated(kind="count"):
                return range(self.words.longest + 1)
            case Aggregated(value=read) if read is not None:
                return self._aggregates(value, self.sets[read])
        raise AssertionError(f"unknown value {type(value).__name__}")

    def _combinations(self, value: Applied | Combined) -> set[Item]:
        """All arguments that may come together, and some that never do."""
        if isinstance(value, Combined):
            return self._sums(value)
        distinct = list(dict.fromkeys(sources_of(value)))
        cases = math.prod(len(self.sets[source]) for source in distinct)
        if cases > _MOST_CASES:
            raise _too_large(value, cases)
        answers: set[Item] = set()
        for items in itertools.product(*(self.sets[source] for source in distinct)):
            held = dict(zip(distinct, items, strict=True))
            try:
                answers.add(_answer_for(value, tuple(held[source] for source in value.sources)))
            except SemanticsError:
                continue  # these may never come together; if they do, the interpreter says so
        return answers

    def _sums(self, value: Combined) -> set[Item]:
        """All sums of multiples of the sources' numbers; nothing, where one may be nothing."""
        weights: dict[Value, Fraction] = {}
        for source, weight in zip(value.sources, value.weights, strict=True):
            weights[source] = weights.get(source, Fraction(0)) + weight
        total = {value.constant}
        for source, weight in weights.items():
            numbers = [
                weight * exact_number(one)
                for one in self.sets[source]
                if one is not None and not isinstance(one, str)
            ]
            total = {a + b for a in total for b in numbers}
            if len(total) > LARGEST:
                raise _too_large(value, len(total))
        nothing = {None} if any(None in self.sets[source] for source in weights) else set()
        return {plain(one) for one in total} | nothing

    def _aggregates(self, value: Aggregated, items: Items) -> set[Item]:
        held: set[Item] = {one for one in items if one is not None}
        nothing = set() if self._finds_some(value, items) else {value.default}
        if value.kind in ("only", "min", "max"):
            return held | nothing
        held = {number_in_mean(one) for one in held} if value.kind == "mean" else held
        symbols = {one for one in held if isinstance(one, str)}
        if value.kind == "mean" and symbols:
            return held | nothing | self._means_beside_symbols(value, held - symbols)
        numbers = sorted(map(exact_number, held)) or [Fraction(0)]
        unit = _unit(numbers)
        longest = self.words.longest
        low, high = min(numbers[0], Fraction(0)), max(numbers[-1], Fraction(0))
        steps = int((high - low) * longest / unit)
        if value.kind == "sum":
            if steps > LARGEST:
                return {
                    plain(one) for sums in self._sums_of_many(value, numbers, steps) for one in sums
                }
            return {plain(low * longest + k * unit) for k in range(steps + 1)}
        return self._means(value, numbers, unit) | nothing

    def _means_beside_symbols(self, value: Aggregated, held: set[Item]) -> set[Item]:
        """The means of the numbers beside symbols, if several of them may be selected."""
        if len(held) < 2 or self._selects_one_at_most(value.selection):
            return set()
        numbers = sorted(map(exact_number, held))
        return self._means(value, numbers, _unit(numbers))

    def _selects_one_at_most(self, selection: Selection) -> bool:
        """Whether no query selects two indices; False where that is not plain to see."""
        if isinstance(selection, Joined):
            some = any(map(self._selects_one_at_most, selection.parts))
            return selection.how == "and" and some
        assert isinstance(selection, Related)
        if self.closed:
            return False  # an index may be given to two positions
        is_index = [isinstance(key, Given) and key.what == "index" for key in selection.keys]
        asked = [self.sets[query] for query in selection.queries]
        if is_index != [True] or math.prod(map(len, asked)) * self.words.longest > _MOST_CASES:
            return False
        return all(
            sum(_may_select(selection, k, here) for k in range(self.words.longest)) <= 1
            for here in itertools.product(*asked)
        )

    def _finds_some(self, value: Aggregated, items: Items) -> bool:
        """Whether the selection is never empty; False where that is not plain to see."""
        if None in items:
            return False
        selection = value.selection
        if self._selects_itself(selection):
            return True
        if self.closed or not isinstance(selection, Related) or len(selection.queries) != 1:
            return False
        is_index = [isinstance(key, Given) and key.what == "index" for key in selection.keys]
        query = selection.queries[0]
        if is_index != [True] or query not in self.local:
            return False
        reads = self.reads[query]
        both = self._cases((reads[0], True, True))
        asked = {(self.local[query][_part_read(case, reads)], case[2]) for case in both}
        return all(_selects_some(selection, one, length) for one, length in asked)

    def _has_rank(self, value: Ranked, items: Items) -> bool:
        """Whether there is always an item of that rank, as there is for the index everywhere."""
        if self.closed:
            return False
        everybody = isinstance(value.selection, Related) and not value.selection.keys
        rank = value.rank
        return None not in items and everybody and isinstance(rank, Given) and rank.what == "index"

    def _selects_itself(self, selection: Selection) -> bool:
        """Whether every position selects itself."""
        match selection:
            case Joined(how="and", parts=parts):
                return all(self._selects_itself(part) for part in parts)
            case Joined(how="or", parts=parts):
                return any(self._selects_itself(part) for part in parts)
            case Related(keys=keys, queries=queries) if len(keys) == len(queries) <= 1:
                if any(key is not query for key, query in zip(keys, queries, strict=True)):
                    return False
                held = [[one] for key in keys for one in self.sets[key]] or [[]]
                return all(relation_holds(selection, one, one) for one in held)
        return False

    def _means(self, value: Aggregated, numbers: list[Fraction], unit: Fraction) -> set[Item]:
        """n numbers between the least and the largest add up to a multiple of the unit."""
        means: set[Item] = set()
        spread = int((numbers[-1] - numbers[0]) / unit)
        total = spread * self.words.longest * (self.words.longest + 1) // 2
        if total > _MOST_CASES:
            sums = enumerate(self._sums_of_many(value, numbers, total))
            return {plain(one / count) for count, added in sums if count for one in added}
        for count in range(1, self.words.longest + 1):
            shares = range(spread * count + 1)
            means |= {plain(numbers[0] + unit * Fraction(k, count)) for k in shares}
        return means

    def _sums_of_many(
        self, value: Aggregated, numbers: list[Fraction], size: int
    ) -> list[set[Fraction]]:
        """The sums of 0, 1, 2, ... of the numbers: few, if the numbers are, however close."""
        found = [{Fraction(0)}]
        for _ in range(self.words.longest):
            if len(found[-1]) * len(numbers) > _MOST_SUMS:
                raise _too_large(value, size)
            found.append({a + b for a in found[-1] for b in numbers})
        return found


def _selects_some(selection: Related, query: Item, length: int) -> bool:
    """Whether a query selects an index of a word of this length."""
    if selection.relation is operator.eq:
        return query in range(length)
    try:
        return any(relation_holds(selection, [index], [query]) for index in range(length))
    except SemanticsError:
        return False


def _may_select(selection: Related, index: int, queries: Items) -> bool:
    """Whether queries select an index; where the relation fails there will be no answer at all."""
    try:
        return relation_holds(selection, [index], list(queries))
    except SemanticsError:
        return False


def _part_read(case: Case, reads: Reads) -> Case:
    """The part of a case that matters."""
    return (case[0] * reads[0], case[1] * reads[1], case[2] * reads[2])


def _answer_for(value: Applied | Combined, given: Items) -> Item:
    held = list(given)
    return (
        apply_function(value, held) if isinstance(value, Applied) else combine_numbers(value, held)
    )


def _unit(numbers: list[Fraction]) -> Fraction:
    """The largest number of which all of them are multiples."""
    below = math.lcm(*(n.denominator for n in numbers))
    above = math.gcd(*(int(n * below) for n in numbers))
    return Fraction(above or 1, below)


def _sort_items(items: Iterable[Item]) -> Items:
    """Nothing first, then numbers, then symbols, each in order."""
    return tuple(sorted(set(items), key=in_order))


def _too_large(value: Value, size: int) -> TooLarge:
    return TooLarge(
        f"The step {step_text(value)} may take {size:,} values or more, which is too many to "
        f"compile. Shorten the words, or map its arguments to fewer values first."
    )
