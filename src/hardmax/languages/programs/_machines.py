"""Finite-state machines: from a transition table, or from a regular expression."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hardmax._errors import RequestError
from hardmax.languages.programs._items import Item

State = Hashable


@dataclass(frozen=True, eq=False)
class Machine:
    """States 0, 1, ... with 0 the start; `moves[state][k]` is where symbol k leads.

    `labels` are the states as the user named them.

    >>> turn = Machine.of({("off", "t"): "on", ("on", "t"): "off"}, "off", ["on"])
    >>> turn.states, turn.step(0, "t")
    (2, 1)
    """

    alphabet: tuple[Item, ...]
    labels: tuple[State, ...]
    moves: tuple[tuple[int, ...], ...]
    accepting: frozenset[int]

    @classmethod
    def of(
        cls,
        transitions: Mapping[tuple[State, Item], State],
        start: State,
        accepting: Iterable[State] = (),
        alphabet: Iterable[Item] | None = None,
    ) -> Machine:
        """From a table {(state, symbol): state}, which must be complete."""
        table = dict(transitions)
        if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in table):
            raise RequestError("A transition table is {(state, symbol): state, ...}.")
        symbols = list(dict.fromkeys(s for _, s in table) if alphabet is None else alphabet)
        if len(set(symbols)) != len(symbols) or not symbols:
            raise RequestError("A machine's alphabet needs at least one symbol, and none twice.")
        states = list(dict.fromkeys([start, *(s for s, _ in table), *table.values()]))
        missing = [(s, a) for s in states for a in symbols if (s, a) not in table]
        if missing:
            shown = ", ".join(map(repr, missing[:3])) + ", ..." * (len(missing) > 3)
            raise RequestError(
                f"The transition table is incomplete: {len(missing)} of "
                f"{len(states) * len(symbols)} entries are missing, among them {shown}."
            )
        foreign = [s for s in accepting if s not in states]
        if foreign:
            raise RequestError(f"The accepting state {foreign[0]!r} is no state of the machine.")
        place = {state: i for i, state in enumerate(states)}
        moves = tuple(tuple(place[table[s, a]] for a in symbols) for s in states)
        return cls(tuple(symbols), tuple(states), moves, frozenset(place[s] for s in accepting))

    def step(self, state: int, symbol: Item) -> int:
        return self.moves[state][self.number(symbol)]

    def number(self, symbol: Item) -> int:
        if symbol not in self.alphabet:
            raise RequestError(
                f"The machine reads {list(self.alphabet)}, but the word holds {symbol!r}."
            )
        return self.alphabet.index(symbol)

    def by_answer(self) -> Machine:
        """The same machine; states that answer as the start does have the first numbers."""
        own = 0 in self.accepting
        order = sorted(range(self.states), key=lambda s: ((s in self.accepting) != own, s))
        place = {state: i for i, state in enumerate(order)}
        moves = tuple(tuple(place[one] for one in self.moves[state]) for state in order)
        labels = tuple(self.labels[state] for state in order)
        return Machine(self.alphabet, labels, moves, frozenset(place[s] for s in self.accepting))

    @property
    def states(self) -> int:
        return len(self.moves)

    def map_of(self, symbol: Item) -> tuple[int, ...]:
        """Where a symbol leads from each state."""
        number = self.number(symbol)
        return tuple(row[number] for row in self.moves)

    @cached_property
    def counter(self) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """States in a circle, and how far each symbol goes on it, if that is all the machine does.

        The circle is that of a symbol which leads through all states; every other symbol must be a
        rotation of it.
        """
        maps = [tuple(row[k] for row in self.moves) for k in range(len(self.alphabet))]
        for leads in maps:
            circle = [0]
            while leads[circle[-1]] != 0 and len(circle) < self.states:
                circle.append(leads[circle[-1]])
            if len(set(circle)) < self.states or leads[circle[-1]] != 0:
                continue
            place = {state: i for i, state in enumerate(circle)}
            shifts = [{(place[m[s]] - i) % self.states for i, s in enumerate(circle)} for m in maps]
            if all(len(found) == 1 for found in shifts):
                return tuple(circle), tuple(found.pop() for found in shifts)
        return None

    @cached_property
    def resets(self) -> bool:
        """Whether each symbol leads from everywhere to one state, or changes nothing."""
        itself = tuple(range(self.states))
        maps = [tuple(row[k] for row in self.moves) for k in range(len(self.alphabet))]
        return all(leads == itself or len(set(leads)) == 1 for leads in maps)

    def __repr__(self) -> str:
        return f"Machine({self.states} states, {len(self.alphabet)} symbols)"


# ---- regular expressions -----------------------------------------------------------------------
#
# Brzozowski's derivatives: after reading a, what is left to match of r is another expression, and
# up to the laws below there are finitely many of them. They are the states of the machine.

Regex = tuple[Any, ...]  # empty, word, symbol chars, then r s, or r s ..., star r
_NOTHING: Regex = ("empty",)
_END: Regex = ("word",)
_MOST_STATES = 10_000


def machine_of_regex(pattern: str, alphabet: Iterable[str]) -> Machine:
    """The machine that accepts exactly the words over the alphabet that match as a whole.

    Written with | * + ? . ( ) [abc] [a-c] [^abc] and a backslash before a character that is meant
    as itself.

    >>> machine_of_regex("(ab)*", "ab")
    Machine(3 states, 2 symbols)
    """
    symbols = tuple(alphabet)
    if not all(isinstance(symbol, str) and len(symbol) == 1 for symbol in symbols):
        raise RequestError("A regular expression reads symbols of one character each.")
    start = _Parser(pattern, symbols).parse_all()
    states, moves = {start: 0}, []
    todo = [start]
    while todo:
        state = todo.pop(0)
        row = []
        for symbol in symbols:
            after = _derivative(state, symbol)
            if after not in states:
                states[after] = len(states)
                todo.append(after)
            row.append(states[after])
        moves.append(tuple(row))
        if len(states) > _MOST_STATES:
            raise RequestError(f"The expression {pattern!r} needs more than {_MOST_STATES} states.")
    accepting = frozenset(i for r, i in states.items() if _takes_nothing(r))
    return minimal(Machine(symbols, tuple(range(len(moves))), tuple(moves), accepting))


def minimal(machine: Machine) -> Machine:
    """The same language with the fewest states: those that no word tells apart are one."""
    blocks = [int(state in machine.accepting) for state in range(machine.states)]
    while True:
        seen: dict[tuple[int, ...], int] = {}
        finer = [
            seen.setdefault((blocks[s], *(blocks[t] for t in machine.moves[s])), len(seen))
            for s in range(machine.states)
        ]
        if len(seen) == len(set(blocks)):
            break
        blocks = finer
    first = {block: finer.index(block) for block in sorted(set(finer))}
    moves = tuple(tuple(finer[t] for t in machine.moves[s]) for s in first.values())
    accepting = frozenset(block for block, s in first.items() if s in machine.accepting)
    return Machine(machine.alphabet, tuple(range(len(moves))), moves, accepting)


def _takes_nothing(r: Regex) -> bool:
    match r:
        case ("word",) | ("star", _):
            return True
        case ("then", first, second):
            return _takes_nothing(first) and _takes_nothing(second)
        case ("or", *parts):
            return any(map(_takes_nothing, parts))
    return False


def _derivative(r: Regex, symbol: str) -> Regex:
    match r:
        case ("symbol", chars):
            return _END if symbol in chars else _NOTHING
        case ("then", first, second):
            rest = _then(_derivative(first, symbol), second)
            return _or(rest, _derivative(second, symbol)) if _takes_nothing(first) else rest
        case ("or", *parts):
            return _or(*(_derivative(part, symbol) for part in parts))
        case ("star", inner):
            return _then(_derivative(inner, symbol), r)
    return _NOTHING


def _then(first: Regex, second: Regex) -> Regex:
    if _NOTHING in (first, second):
        return _NOTHING
    if first == _END:
        return second
    if second == _END:
        return first
    if first[0] == "then":
        return _then(first[1], _then(first[2], second))
    return ("then", first, second)


def _or(*parts: Regex) -> Regex:
    flat = {p for part in parts for p in (part[1:] if part[0] == "or" else (part,))} - {_NOTHING}
    if not flat:
        return _NOTHING
    return next(iter(flat)) if len(flat) == 1 else ("or", *sorted(flat, key=repr))


def _star(inner: Regex) -> Regex:
    return _END if inner in (_NOTHING, _END) else inner if inner[0] == "star" else ("star", inner)


class _Parser:
    """The usual grammar: alternatives of sequences of repeated atoms."""

    def __init__(self, pattern: str, alphabet: tuple[str, ...]) -> None:
        self.pattern, self.alphabet, self.place = pattern, alphabet, 0

    def parse_all(self) -> Regex:
        found = self._alternatives()
        if self.place < len(self.pattern):
            raise self._error("an unmatched )")
        return found

    def _alternatives(self) -> Regex:
        parts = [self._sequence()]
        while self._took("|"):
            parts.append(self._sequence())
        return _or(*parts)

    def _sequence(self) -> Regex:
        found = _END
        while self.place < len(self.pattern) and self.pattern[self.place] not in "|)":
            found = _then(found, self._repetition())
        return found

    def _repetition(self) -> Regex:
        found = self._atom()
        while self.place < len(self.pattern) and self.pattern[self.place] in "*+?":
            sign = self._next()
            if sign == "?":
                found = _or(found, _END)
            else:
                found = _star(found) if sign == "*" else _then(found, _star(found))
        return found

    def _atom(self) -> Regex:
        sign = self._next()
        match sign:
            case "(":
                inner = self._alternatives()
                if not self._took(")"):
                    raise self._error("a ( that is not closed")
                return inner
            case "[":
                return self._class()
            case ".":
                return ("symbol", frozenset(self.alphabet))
            case "*" | "+" | "?":
                raise self._error(f"a {sign} with nothing to repeat")
            case "\\":
                return self._symbol(self._next())
        return self._symbol(sign)

    def _symbol(self, symbol: str) -> Regex:
        if symbol not in self.alphabet:
            raise self._error(f"{symbol!r}, which is not in the alphabet {list(self.alphabet)}")
        return ("symbol", frozenset(symbol))

    def _class(self) -> Regex:
        negated = self._took("^")
        chars: set[str] = set()
        while not self._took("]"):
            low = self._next()
            if self._took("-"):
                high = self._next()
                chars |= {s for s in self.alphabet if low <= s <= high}
            else:
                chars.add(low)
        return ("symbol", frozenset(set(self.alphabet) - chars if negated else chars))

    def _took(self, sign: str) -> bool:
        there = self.pattern[self.place : self.place + 1] == sign
        self.place += there
        return there

    def _next(self) -> str:
        if self.place >= len(self.pattern):
            raise self._error("an end where something has to follow")
        self.place += 1
        return self.pattern[self.place - 1]

    def _error(self, what: str) -> RequestError:
        return RequestError(f"The expression {self.pattern!r} has {what}, at place {self.place}.")
