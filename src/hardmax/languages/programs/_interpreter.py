"""The meaning of a program: what every position of a word holds, step by step."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import TypeVar

from hardmax._errors import SemanticsError
from hardmax.core import plain
from hardmax.languages.programs._items import Item, exact_number, in_order, item, number_in_mean
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
from hardmax.languages.programs._printing import step_text

Row = list[Item]
_T = TypeVar("_T")


def values_on(
    outputs: Iterable[Value],
    word: Iterable[Item],
    where: Mapping[Value, Mapping[int, Item]] | None = None,
) -> dict[Value, Row]:
    """What every position holds, for the outputs and for all values behind them.

    `where` says what some values hold at some positions instead of what they would.
    """
    symbols = list(word)
    run = _Run(symbols, where or {})
    return {value: run.of(value) for output in outputs for value in values_behind(output)}


def values_behind(*outputs: Value) -> Iterator[Value]:
    """All values that the outputs read, each once, after those that it reads itself."""
    seen: set[Value] = set()
    stack: list[tuple[Value, bool]] = [(value, False) for value in reversed(outputs)]
    while stack:
        value, is_done = stack.pop()
        if is_done:
            yield value
        elif value not in seen:
            seen.add(value)
            stack.append((value, True))
            stack += [(source, False) for source in reversed(sources_of(value))]


def sources_of(value: Value) -> list[Value]:
    """What a value reads."""
    match value:
        case Applied(sources=sources) | Combined(sources=sources):
            return list(sources)
        case Scanned(source=source) | Memorised(source=source):
            return [source]
        case Ranked(selection=selection, value=read, rank=rank):
            return [*values_compared(selection), read, rank]
        case Aggregated(selection=selection, value=read):
            return [*values_compared(selection), *([] if read is None else [read])]
    return []


def values_compared(selection: Selection) -> list[Value]:
    """The keys and queries of a selection."""
    match selection:
        case Related(keys=keys, queries=queries):
            return [*keys, *queries]
        case Joined(parts=parts):
            return [value for part in parts for value in values_compared(part)]
    raise AssertionError(f"unknown selection {selection!r}")


class _Run:
    """One word; every value is worked out once."""

    def __init__(self, symbols: list[Item], where: Mapping[Value, Mapping[int, Item]]) -> None:
        self.symbols, self.where = symbols, where
        self._known: dict[int, tuple[Value, Row]] = {}  # by identity; the value is kept alive

    def of(self, value: Value) -> Row:
        for behind in values_behind(value):
            if id(behind) not in self._known:
                row = self._work_out(behind)
                for place, held in self.where.get(behind, {}).items():
                    row[place] = held
                self._known[id(behind)] = behind, row
        return self._known[id(value)][1]

    def _row(self, value: Value) -> Row:
        return self._known[id(value)][1]

    def _work_out(self, value: Value) -> Row:
        places = range(len(self.symbols))
        match value:
            case Given(what="tokens"):
                return list(self.symbols)
            case Given(what="index"):
                return list(places)
            case Given(what="length"):
                return [len(places)] * len(places)
            case Constant(item=same):
                return [same] * len(places)
            case Applied(sources=sources):
                rows = [self._row(source) for source in sources]
                return [apply_function(value, [row[t] for row in rows]) for t in places]
            case Combined(sources=sources):
                rows = [self._row(source) for source in sources]
                return [combine_numbers(value, [row[t] for row in rows]) for t in places]
            case Scanned(source=source, machine=machine):
                return states_after(machine, self._row(source))
            case Memorised(source=source, rows=rows, otherwise=otherwise):
                return list(rows.get(tuple(self._row(source)), [otherwise] * len(places)))
            case Aggregated():
                return [self._aggregate(value, t) for t in places]
            case Ranked(rank=rank):
                ranks = self._row(rank)
                return [
                    item_of_rank(value, self._items_selected(value, t), ranks[t]) for t in places
                ]
        raise AssertionError(f"unknown value {value!r}")

    def _aggregate(self, value: Aggregated, here: int) -> Item:
        chosen = self._items_selected(value, here)
        if value.check is not None:
            _call_function(value, value.check, chosen)
        return len(chosen) if value.value is None else aggregate_items(value, chosen)

    def _items_selected(self, value: Aggregated | Ranked, here: int) -> Row:
        """What is held at the positions selected."""
        places = [t for t in range(len(self.symbols)) if self._selects(value.selection, t, here)]
        row = self.symbols if value.value is None else self._row(value.value)
        return [row[t] for t in places]

    def _selects(self, selection: Selection, there: int, here: int) -> bool:
        match selection:
            case Related(keys=keys, queries=queries):
                own = [self._row(key)[there] for key in keys]
                return relation_holds(selection, own, [self._row(query)[here] for query in queries])
            case Joined(how=how, parts=parts):
                found = (self._selects(part, there, here) for part in parts)
                return join_verdicts(how, list(found) if selection.is_strict else found)
        raise AssertionError(f"unknown selection {selection!r}")


def apply_function(value: Applied, given: list[Item]) -> Item:
    """A function's answer for one position."""
    if not value.takes_nothing and any(one is None for one in given):
        return None
    return _call_function(value, lambda *held: item(value.function(*held)), given)


def combine_numbers(value: Combined, given: list[Item]) -> Item:
    """A combination's number for one position."""
    if any(one is None for one in given):
        return None
    try:
        terms = [w * exact_number(one) for w, one in zip(value.weights, given, strict=True)]
    except Exception as reason:
        held = ", ".join(map(repr, given))
        raise SemanticsError(
            f"The step {step_text(value)} adds numbers, but it was given {held}."
        ) from reason
    return plain(sum(terms, value.constant))


def relation_holds(selection: Related, keys: list[Item], queries: list[Item]) -> bool:
    """Whether the relation holds; nothing stands in no relation, unless it says so itself."""
    given = [*keys, *queries]
    if not selection.takes_nothing and any(one is None for one in given):
        return False
    return bool(_call_function(selection, selection.relation, given))


def _call_function(node: Value | Selection, function: Callable[..., _T], given: list[Item]) -> _T:
    """A user's function, which may fail: then the step and what it was given are named."""
    try:
        return function(*given)
    except Exception as reason:
        held = ", ".join(map(repr, given))
        kind = "step" if isinstance(node, Value) else "selection"
        raise SemanticsError(
            f"The {kind} {step_text(node)} fails on {held}: {type(reason).__name__}: {reason}"
        ) from reason


def states_after(machine: Machine, row: Row) -> Row:
    """The states after each symbol; the machine's start comes before the first."""
    states: Row = []
    state = 0
    for symbol in row:
        state = machine.step(state, symbol)
        states.append(state)
    return states


def join_verdicts(how: str, parts: Iterable[bool]) -> bool:
    if how == "and":
        return all(parts)
    return any(parts) if how == "or" else not any(parts)


def aggregate_items(value: Aggregated, selected: list[Item]) -> Item:
    """What becomes of the values selected; nothing there counts as not selected."""
    held: list[Item] = [one for one in selected if one is not None]
    if value.kind == "sum":
        return plain(sum(_numbers(value, held), Fraction(0)))
    if value.kind == "mean":
        held = [number_in_mean(one) for one in held]
    if not held:
        return value.default
    if all(operator.eq(one, held[0]) for one in held):
        return held[0]
    if value.kind == "only":
        raise SemanticsError(
            f"{step_text(value)} is about one position, but several were selected that hold "
            f"{sorted(map(str, set(held)))}. Use mean, min or max, or first and last."
        )
    numbers = _numbers(value, held)
    if value.kind == "mean":
        return plain(sum(numbers, Fraction(0)) / len(numbers))
    return plain(min(numbers) if value.kind == "min" else max(numbers))


def item_of_rank(value: Ranked, selected: list[Item], rank: Item) -> Item:
    """The item of a rank among those selected, numbers before symbols."""
    held = sorted((one for one in selected if one is not None), key=in_order)
    if rank is None or isinstance(rank, str):
        return value.default
    return held[int(rank)] if rank in range(len(held)) else value.default


def _numbers(value: Aggregated, held: list[Item]) -> list[Fraction]:
    if any(isinstance(one, str) for one in held):
        raise SemanticsError(
            f"The {value.kind} in {step_text(value)} is of the symbols {sorted(map(str, held))}: "
            f"symbols can be told apart, but not be added or ordered. Map them to numbers first."
        )
    return [exact_number(one) for one in held]
