"""The steps of a target, run on the same slots as the Transformer.

Every value is a table of codes over slots, with the list of numbers that the codes stand for: its
finite value set. Functions and relations are called once for each combination of numbers that can
occur, and never for words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from math import gcd
from typing import Generic, TypeVar

import numpy as np

from hardmax.checker._budget import CALL, ENTRY, FUNCTION, SORTED, charge
from hardmax.checker.sequences._axes import Axes, aligned, merged_axes, without_idle
from hardmax.checker.sequences._stream import LARGEST_TABLE, Number, TooLarge
from hardmax.checker.sequences.slots._choices import LARGEST_CHOICE
from hardmax.checker.sequences.slots._slots import LARGEST_SLOT, OWN_SYMBOL, Slots, Total, Whole
from hardmax.core import (
    GIVEN,
    INDEX,
    LENGTH,
    SYMBOL,
    Aggregate,
    Combination,
    Picked,
    Pointwise,
    Recalled,
    Selection,
    SequenceStep,
    SequenceSteps,
    plain,
)

_LARGEST_CODE = 2.0**62  # of several values together, in int64

T = TypeVar("T")
Given = tuple[Number, ...]


@dataclass(frozen=True, eq=False)
class SlotMemory:
    """What functions and relations said, by the number of their step, from length to length."""

    functions: dict[int, dict[Given, Number]] = field(default_factory=dict)
    relations: dict[int, dict[tuple[Given, Given], bool]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Coded(Generic[T]):
    """At every token a number, given by the slots `axes`: numbers[codes[token, slots]]."""

    axes: Axes
    codes: np.ndarray
    numbers: tuple[T, ...]


@dataclass(frozen=True, eq=False)
class Summed:
    """constant + sum of weight * value: a sum of tables where one would be too large."""

    constant: Fraction
    terms: tuple[tuple[Fraction, Coded[Number]], ...]


Value = Coded[Number] | Summed


class Run:
    """The values of the steps, worked out when they are asked for.

    `memory` keeps what functions said, from length to length. The target says nothing about the
    start token, so that slots are looked for loosely while it runs.
    """

    def __init__(self, steps: SequenceSteps, slots: Slots, memory: SlotMemory) -> None:
        self.steps, self.slots, self.memory = steps, slots, memory
        self.tokens, self.first = slots.tokens, slots.first
        length = self.tokens - self.first
        index = np.maximum(np.arange(self.tokens) - self.first, 0)
        symbols = slots.slots[OWN_SYMBOL].size
        own = np.tile(np.arange(symbols), (self.tokens, 1))
        self._known: dict[int, Value] = {
            SYMBOL: Coded((OWN_SYMBOL,), own, tuple(range(symbols))),
            INDEX: Coded((), index, tuple(range(length))),
            LENGTH: Coded((), np.zeros(self.tokens, dtype=np.int64), (length,)),
        }

    def outputs(self) -> list[Value]:
        return [self.value(output) for output in self.steps.outputs]

    def value(self, number: int) -> Value:
        """A value by its number among the steps."""
        if number not in self._known:
            loose, self.slots.loose = self.slots.loose, True
            try:
                self._known[number] = self._made(number - GIVEN, self.steps.steps[number - GIVEN])
            finally:
                self.slots.loose = loose
        return self._known[number]

    def cut(self, number: int, slot: int, numbers: tuple[Number, ...]) -> None:
        """From now on a value is what a slot of its own says, whatever the word."""
        codes = np.tile(np.arange(len(numbers)), (self.tokens, 1))  # by the slot's own numbers
        self._known[number] = Coded((slot,), codes, numbers)

    def _made(self, number: int, step: SequenceStep) -> Value:
        charge(40 * CALL)
        match step:
            case Pointwise():
                return self._pointwise(number, step)
            case Picked():
                return self._picked(step)
            case Recalled():
                return self._recalled(step)
            case Combination():
                return self._combination(step)
            case Aggregate():
                return self._aggregate(number, step)

    def _coded(self, number: int) -> Coded[Number]:
        value = self.value(number)
        return value if isinstance(value, Coded) else self._added(value)

    def _added(self, value: Summed) -> Coded[Number]:
        """A sum as one table."""
        start = np.zeros(self.tokens, dtype=np.int64)
        total: Coded[Number] = Coded((), start, (value.constant,))
        for weight, term in value.terms:
            total = self._apply(_adder(weight), [total, term], None)
        return total

    def _pointwise(self, number: int, step: Pointwise) -> Coded[Number]:
        memory = self.memory.functions.setdefault(number, {})
        return self._apply(step.function, [self._coded(s) for s in step.sources], memory)

    def _apply(
        self,
        function: Callable[..., T],
        sources: list[Coded[Number]],
        memory: dict[Given, T] | None,
    ) -> Coded[T]:
        """A function of several values, called once for each combination of their numbers."""
        axes = tuple(sorted({axis for source in sources for axis in source.axes}))
        joint = self._joint(sources, axes)
        charge(16 * CALL + SORTED * joint.size)
        kinds, codes = np.unique(joint, return_inverse=True)
        charge(FUNCTION, len(kinds))
        sizes = [len(source.numbers) for source in sources]
        memory = {} if memory is None else memory
        numbers = []
        picked = np.stack(np.unravel_index(kinds, sizes), axis=1).tolist() if sizes else [()]
        for places in picked:
            given = tuple(s.numbers[i] for s, i in zip(sources, places, strict=True))
            if given not in memory:
                memory[given] = _called(function, given)
            numbers.append(memory[given])
        return _merged(axes, codes.reshape(joint.shape), numbers)

    def _joint(self, sources: list[Coded[Number]], axes: Axes) -> np.ndarray:
        """One code for all sources; what cannot happen repeats what can."""
        shape = (self.tokens, *self.slots.sizes(axes))
        codes = np.prod([len(source.numbers) for source in sources], dtype=float)
        if np.prod(shape, dtype=float) > LARGEST_TABLE or codes > _LARGEST_CODE:
            raise TooLarge("A step of the target depends on too much at once.")
        joint = np.zeros(shape, dtype=np.int64)
        for source in sources:
            joint = joint * len(source.numbers) + aligned(source.codes, source.axes, axes)
        possible = self.slots.possible(axes)
        possible[: self.first] = False
        return np.where(possible, joint, joint[possible][0] if possible.any() else 0)

    def _recalled(self, step: Recalled) -> Coded[Number]:
        """Which row the word is, a slot of its own, if the value is another name of the symbol."""
        length = self.tokens - self.first
        own = self._coded(step.value)
        numbers = list(own.numbers)
        shown = own.codes.reshape(self.tokens, -1)[self.first :]
        is_name = own.axes == (OWN_SYMBOL,) and len(set(shown[-1].tolist())) == shown.shape[1]
        if not is_name or not (shown == shown[-1:]).all():
            raise TooLarge("A table of words is about more than their symbols.")
        symbol = {numbers[code]: k for k, code in enumerate(shown[-1].tolist())}
        rows = [row for row in step.rows if len(row) == length and all(n in symbol for n in row)]
        if not rows:
            nothing = np.zeros(self.tokens, dtype=np.int64)
            return Coded((), nothing, (step.otherwise,))
        words = np.array([[symbol[n] for n in row] for row in rows], dtype=np.int64)
        slot = self.slots.word(words)
        order = np.lexsort(words.T[::-1])
        answers = [step.rows[rows[k]] for k in order]
        found: dict[Number, int] = {}
        codes = np.zeros((self.tokens, len(rows) + 1), dtype=np.int64)
        for t in range(length):
            said = [answer[t] for answer in answers] + [step.otherwise]
            codes[self.first + t] = [found.setdefault(number, len(found)) for number in said]
        return _merged((slot,), codes, list(found))

    def _picked(self, step: Picked) -> Value:
        """sum over t of options[t] where the number is t: each term depends on two values only."""
        number, options = self._coded(step.number), [self._coded(o) for o in step.options]
        axes = {axis for value in (number, *options) for axis in value.axes}
        if np.prod(self.slots.sizes(tuple(axes)), dtype=float) <= LARGEST_SLOT:
            return self._apply(lambda t, *given: given[t], [number, *options], None)
        terms = [
            (Fraction(1), self._apply(_option(t), [number, option], None))
            for t, option in enumerate(options)
            if t in number.numbers
        ]
        return Summed(Fraction(0), tuple(terms))

    def _combination(self, step: Combination) -> Value:
        constant, terms = Fraction(step.constant), []
        for weight, source in zip(step.weights, step.sources, strict=True):
            value = self.value(source)
            if isinstance(value, Coded):
                value = Summed(Fraction(0), ((Fraction(1), value),))
            constant += Fraction(weight) * value.constant
            terms += [(Fraction(weight) * w, term) for w, term in value.terms]
        total = Summed(constant, tuple(terms))
        axes = {axis for _, term in terms for axis in term.axes}
        small = np.prod(self.slots.sizes(tuple(axes)), dtype=float) <= LARGEST_SLOT
        return self._added(total) if small else total

    # --- aggregates -------------------------------------------------------------------------

    def _aggregate(self, number: int, step: Aggregate) -> Coded[Number]:
        chosen = self._selected(number, step.selection)
        if step.kind == "count":
            return self._count(chosen)
        value = self._coded(step.value if step.value is not None else 0)
        count = chosen.by_token.sum(axis=-1)
        if (count <= 1).all() and (chosen.by_token == chosen.always).all():
            nothing = 0 if step.kind == "sum" else step.default
            return self._value_at(chosen.asking, count, chosen.by_token, value, nothing)
        if step.kind == "sum":
            unit, total = self._sum(chosen, value, Fraction(0))
            return self._value_of(total, unit)
        if step.kind == "mean":
            return self._mean(chosen, value, step.default)
        return self._extreme(chosen, value, step)

    def _selected(self, number: int, selection: Selection) -> _Selected:
        """Which tokens are selected: asking token x slots x token asked x slots."""
        keys = [self._coded(key) for key in selection.keys]
        queries = [self._coded(query) for query in selection.queries]
        memory = self.memory.relations.setdefault(number, {})
        own, key = self._grouped(queries), self._grouped(keys)
        table = np.zeros((len(key.numbers), len(own.numbers)), dtype=bool)
        charge(FUNCTION, table.size)
        for i, a in enumerate(key.numbers):
            for j, b in enumerate(own.numbers):
                if (a, b) not in memory:
                    memory[a, b] = bool(_called(selection.relation, (*a, *b)))
                table[i, j] = memory[a, b]
        if float(own.codes.size) * key.codes.size > LARGEST_CHOICE:
            raise TooLarge("A selection of the target compares too many cases.")
        charge(4 * ENTRY * own.codes.size, key.codes.size)
        shape = (*own.codes.shape, *key.codes.shape)
        holds = table[key.codes.reshape(1, -1), own.codes.reshape(-1, 1)].reshape(shape)
        return _Selected(own.axes, key.axes, holds & self._seen(selection.causal, own, key))

    def _grouped(self, sources: list[Coded[Number]]) -> Coded[Given]:
        """Several values as one, whose numbers are tuples."""
        return self._apply(lambda *given: given, sources, None)

    def _seen(self, causal: bool, own: Coded[Given], key: Coded[Given]) -> np.ndarray:
        n = self.tokens
        seen = np.tri(n, dtype=bool) if causal else np.ones((n, n), dtype=bool)
        seen[: self.first], seen[:, : self.first] = False, False
        return seen.reshape(n, *[1] * len(own.axes), n, *[1] * len(key.axes))

    def _count(self, chosen: _Selected) -> Coded[Number]:
        total = self.slots.sum(chosen.asking, chosen.asked, chosen.holds.astype(Whole))
        return self._value_of(total, Fraction(1))

    def _sum(
        self, chosen: _Selected, value: Coded[Number], base: Fraction
    ) -> tuple[Fraction, Total]:
        """The sum over the selection of value - base is unit * total."""
        unit, whole = _whole(value.numbers, base)
        holds, every = self._over(chosen, value)
        numbers = np.asarray(whole, dtype=Whole)[value.codes]
        given = aligned(numbers, value.axes, every)
        return unit, self.slots.sum(chosen.asking, every, holds * given)

    def _over(self, chosen: _Selected, value: Coded[Number]) -> tuple[np.ndarray, Axes]:
        """The selection over the value's slots, too."""
        every = tuple(dict.fromkeys((*chosen.asked, *value.axes)))
        outer = chosen.holds.shape[: 2 + len(chosen.asking)]
        sizes = self.slots.sizes(every)
        if np.prod(outer, dtype=float) * np.prod(sizes, dtype=float) > LARGEST_CHOICE:
            raise TooLarge("An aggregate of the target has too many cases.")
        flat = chosen.holds.reshape(-1, *chosen.holds.shape[len(outer) :])
        shown = aligned(flat, chosen.asked, every)
        shown = shown.reshape(*outer, *shown.shape[1:])
        return np.broadcast_to(shown, (*outer, *sizes)), every

    def _value_of(self, total: Total, unit: Fraction) -> Coded[Number]:
        """unit * total as a value."""
        charge(16 * CALL + SORTED * total.numbers.size)
        kinds, codes = np.unique(total.numbers, return_inverse=True)
        codes = codes.reshape(total.numbers.shape)
        return _merged(total.axes, codes, [plain(unit * int(kind)) for kind in kinds])

    def _mean(self, chosen: _Selected, value: Coded[Number], default: Number) -> Coded[Number]:
        base = Fraction(value.numbers[0])
        unit, total = self._sum(chosen, value, base)
        many, rest = self._count(chosen), self._value_of(total, unit)

        def quotient(m: Number, s: Number) -> Number:
            return plain(base + Fraction(s) / Fraction(m)) if m > 0 else default

        return self._apply(quotient, [many, rest], None)

    def _value_at(
        self,
        asking: Axes,
        count: np.ndarray,
        by_token: np.ndarray,
        value: Coded[Number],
        default: Number,
    ) -> Coded[Number]:
        """The value of the one token selected, or the default."""
        places = np.where(count == 1, by_token.argmax(axis=-1), -1)
        learnt = tuple(self.slots.at(axis, asking, places) for axis in value.axes)
        empty = (places < 0).reshape(*places.shape, *[1] * len(value.axes))
        codes = np.where(empty, len(value.numbers), value.codes[places])
        axes, codes = merged_axes((*asking, *learnt), codes)
        return _merged(axes, codes, [*value.numbers, default])

    def _extreme(self, chosen: _Selected, value: Coded[Number], step: Aggregate) -> Coded[Number]:
        """min and max: the rank that wins among the numbers, lowest of all that nothing does."""
        sign = 1 if step.kind == "max" else -1
        order = sorted(range(len(value.numbers)), key=lambda i: sign * Fraction(value.numbers[i]))
        rank = np.empty(len(order))
        rank[order] = np.arange(len(order))
        holds, every = self._over(chosen, value)
        given = aligned(rank[value.codes], value.axes, every)
        scores = np.where(holds, given, -np.inf)
        top = self.slots.max(chosen.asking, every, scores)
        outer = 1 + len(chosen.asking)
        scores = self.slots.settled(scores, chosen.asking, every)
        floor = scores.min(axis=tuple(range(outer + 1, scores.ndim))).max(axis=-1)
        flat = np.maximum(scores.reshape(*scores.shape[:outer], -1), floor[..., None])
        ranks = top.ranks.reshape(flat.shape)
        count = int(ranks.max()) + 1
        best = [np.where(ranks == rank, flat, -np.inf).max(axis=-1) for rank in range(count)]
        table = aligned(np.stack(best, axis=-1), chosen.asking, top.axes)
        table = np.broadcast_to(table, (*top.winning.shape, count))
        winning = np.minimum(top.winning, count - 1)[..., None]
        won = np.take_along_axis(table, winning, axis=-1)[..., 0]
        codes = np.where(np.isneginf(won), len(order), won).astype(np.int64)
        return _merged(top.axes, codes, [value.numbers[i] for i in order] + [step.default])


@dataclass(frozen=True, eq=False)
class _Selected:
    asking: Axes
    asked: Axes
    holds: np.ndarray

    @property
    def _inner(self) -> tuple[int, ...]:
        return tuple(range(2 + len(self.asking), self.holds.ndim))

    @property
    def by_token(self) -> np.ndarray:
        return np.asarray(self.holds.any(axis=self._inner))

    @property
    def always(self) -> np.ndarray:
        return np.asarray(self.holds.all(axis=self._inner))


def _option(t: int) -> Callable[[int, Number], Number]:
    return lambda number, option: option if number == t else 0


def _adder(weight: Fraction) -> Callable[[Fraction, Number], Number]:
    return lambda a, b: plain(a + weight * Fraction(b))


def _called(function: Callable[..., T], given: Given) -> T:
    """A function may fail on values that never come together: then nothing is known."""
    try:
        return function(*given)
    except Exception as reason:
        shown = ", ".join(map(str, given))
        why = "" if isinstance(reason, LookupError) else f": {reason}"  # a key says nothing more
        raise TooLarge(f"A step of the target has no answer for {shown}{why}.") from reason


def _merged(axes: Axes, codes: np.ndarray, numbers: Sequence[T]) -> Coded[T]:
    """Equal numbers get one code, slots that change nothing go."""
    place: dict[T, int] = {}
    renamed = np.array([place.setdefault(number, len(place)) for number in numbers], dtype=np.int64)
    kept, codes = without_idle(axes, renamed[codes])
    return Coded(kept, codes, tuple(place))


def _whole(numbers: Sequence[Number], base: Fraction) -> tuple[Fraction, list[int]]:
    """Numbers as base + unit * whole, exactly."""
    parts = [Fraction(number) - base for number in numbers]
    below = reduce(lambda a, b: a * b // gcd(a, b), (p.denominator for p in parts), 1)
    above = reduce(gcd, (int(p * below) for p in parts), 0) or 1
    unit = Fraction(above, below)
    whole = [int(p / unit) for p in parts]
    if max(map(abs, whole)) > LARGEST_SLOT:
        raise TooLarge("The values of a sum have no common unit.")
    return unit, whole
