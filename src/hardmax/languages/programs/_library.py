"""Programs that people ask for by name; each reads like the thought behind it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TypeVar, cast

from hardmax._errors import RequestError
from hardmax.languages.programs._items import Item
from hardmax.languages.programs._machines import Machine, machine_of_regex
from hardmax.languages.programs._nodes import (
    Memorised,
    Scanned,
    Sequence,
    Value,
    apply,
    as_value,
    combination,
    or_else,
    there,
    where,
)
from hardmax.languages.programs._program import Program

_Key = TypeVar("_Key", bound=Hashable)
_Word = TypeVar("_Word", bound=Iterable[Item])
_s = Sequence()
_same = there(_s.tokens) == _s.tokens
_before = there(_s.index) < _s.index
_so_far = there(_s.index) <= _s.index


# ---- moving tokens -----------------------------------------------------------------------------

copy = Program(_s.tokens, "copy")
reverse = Program(_s.tokens.at(_s.length - 1 - _s.index), "reverse")


def shift(by: int = 1, default: Item = None) -> Program:
    """Every token moves `by` positions to the right (to the left if negative).

    >>> shift(1, default="-")("abc")
    ['-', 'a', 'b']
    """
    return Program(_s.tokens.shifted(by, default), f"shift by {by}")


def sorted_by(key: Value, value: Value | None = None) -> Value:
    """The value (the tokens) in the order of a key; equal keys keep their order.

    >>> program(lambda s: sorted_by(-s.index))("abc")
    ['c', 'b', 'a']
    """
    earlier = (there(key) < key) | ((there(key) == key) & _before)
    rank = earlier.count()
    return (there(rank) == _s.index).only(_s.tokens if value is None else value)


# equal tokens cannot be told apart, so that no order of theirs has to be kept
sort = Program(_s.everywhere.ranked(_s.tokens, _s.index), "sort")


def sort_by(key: Callable[..., Item] | Mapping[_Key, Item], name: str = "sort by key") -> Program:
    """Tokens in the order of key(token), a function or a table; equal keys keep their order.

    >>> sort_by({"a": 2, "b": 1})("abab")
    ['b', 'b', 'a', 'a']
    """
    return Program(sorted_by(_s.tokens.map(key)), name)


# ---- counting ----------------------------------------------------------------------------------

length = Program(_s.length, "length")
_often = _same.count()
histogram = Program(_often, "histogram")
duplicates = Program(_often > 1, "duplicates")
seen_before = Program((_same & _before).any(), "seen before")
most_frequent = Program(
    # among the most frequent tokens, the one that comes first in the word
    (there(_often) == _s.everywhere.max(_often)).first(_s.tokens),
    "most frequent",
)
sort_by_frequency = Program(sorted_by(-_often), "sort by frequency")


def count_of(symbol: Item) -> Program:
    """How often a symbol occurs in the word, at every position.

    >>> count_of("a")("aba")
    [2, 2, 2]
    """
    return Program((there(_s.tokens) == symbol).count(), f"count of {symbol!r}")


def fraction_so_far(symbol: Item) -> Program:
    """Which share of the tokens up to here is the symbol.

    >>> fraction_so_far("a")("ab")
    [1, Fraction(1, 2)]
    """
    return Program(_so_far.mean(_s.tokens == symbol), f"fraction of {symbol!r} so far")


def prefix_count(symbol: Item) -> Program:
    """How often a symbol occurred up to here.

    >>> prefix_count("a")("aba")
    [1, 1, 2]
    """
    return Program(_so_far.sum(_s.tokens == symbol), f"count of {symbol!r} so far")


prefix_sum = Program(_so_far.sum(_s.tokens), "prefix sum")  # of tokens that are numbers


def counter(symbol: Item, modulus: int) -> Program:
    """The number of occurrences up to here, modulo some number.

    >>> counter("a", 2)("aaa")
    [1, 0, 1]
    """
    if not isinstance(modulus, int) or modulus < 1:
        raise RequestError(f"A counter needs a whole modulus of at least 1, not {modulus!r}.")
    counted = _so_far.sum(_s.tokens == symbol)
    return Program(counted % modulus, f"count of {symbol!r} so far, modulo {modulus}")


def detect(pattern: Iterable[Item]) -> Program:
    """Whether the pattern ends here.

    >>> detect("ab")("cab")
    [0, 0, 1]
    """
    symbols = list(pattern)
    found: Value = as_value(True)
    for back, symbol in enumerate(reversed(symbols)):
        token = _s.tokens.shifted(back) if back else _s.tokens
        found = found & or_else(token == symbol, False)
    return Program(found, f"detect {symbols}")


# ---- brackets ----------------------------------------------------------------------------------


def _kinds(brackets: str | Iterable[str]) -> list[tuple[str, str]]:
    if not isinstance(brackets, Iterable):
        raise RequestError('Brackets are given as pairs, for example "()" or ["()", "[]"].')
    pairs = [brackets] if isinstance(brackets, str) and len(brackets) == 2 else list(brackets)
    if not pairs or not all(len(pair) == 2 for pair in pairs):
        raise RequestError('Brackets are given as pairs, for example "()" or ["()", "[]"].')
    symbols = [symbol for pair in pairs for symbol in pair]
    if len(set(symbols)) != len(symbols):
        raise RequestError("No symbol may be a bracket twice.")
    return [(pair[0], pair[1]) for pair in pairs]


def _rises(opening: Iterable[str], closing: Iterable[str]) -> Value:
    """1 for a bracket that opens, -1 for one that closes."""
    rises, falls = frozenset(opening), frozenset(closing)
    return _s.tokens.map(lambda t: (t in rises) - (t in falls))


def _faults(brackets: list[tuple[str, str]]) -> tuple[Value, Value]:
    """For each kind by itself: whether the height is below 0 here, and what the word leaves open.

    Both are added up over the kinds: the brackets are balanced if they are 0 everywhere.
    """
    below, left_open = [], []
    for left, right in brackets:
        rises = _rises([left], [right])
        below.append((1, _so_far.sum(rises) < 0))
        left_open.append((1, apply(abs, _s.everywhere.sum(rises))))
    return combination(below), combination(left_open)


def shuffle_dyck(brackets: str | Iterable[str] = "()") -> Program:
    """Whether every kind of bracket is balanced by itself, whatever the others do.

    >>> shuffle_dyck(["()", "[]"])("([)]")
    [1, 1, 1, 1]
    """
    kinds = _kinds(brackets)
    below, left_open = _faults(kinds)
    return Program(_s.everywhere.sum(below) + left_open == 0, f"shuffle-Dyck-{len(kinds)}")


def dyck(brackets: str | Iterable[str] = "()") -> Program:
    """Whether the brackets are balanced and nested.

    A bracket that closes is matched with the last one that opened at its height: they must be of
    one kind.

    >>> dyck(["()", "[]"])("([)]")
    [0, 0, 0, 0]
    """
    kinds = _kinds(brackets)
    lefts, rights = zip(*kinds, strict=True)
    rises = _rises(lefts, rights)
    height = _so_far.sum(rises)
    level = height + _s.tokens.map(lambda t: t in rights)  # of a pair, the same on both sides
    kind = {**{left: i for i, left in enumerate(lefts)}, **{r: i for i, r in enumerate(rights)}}
    if len(kinds) == 1:
        return Program(shuffle_dyck(brackets).outputs, "Dyck-1")
    opens = _s.tokens.map(lambda t: t in lefts)
    where_opened = (there(where(opens, level, None)) == level) & _before
    partner = where_opened.last(_s.tokens.map(lambda t: kind.get(t, -1)))
    wrong = apply(
        lambda t, other: t in rights and other != kind[t],
        _s.tokens,
        partner,
        text="{} does not close {}",
        nothing=True,
    )
    faults = _s.everywhere.sum((height < 0) + wrong) + apply(abs, _s.everywhere.sum(rises))
    return Program(faults == 0, f"Dyck-{len(kinds)}")


# ---- machines and tables -----------------------------------------------------------------------


def fsm(
    transitions: Mapping[tuple[Hashable, Item], Hashable] | str,
    start: Hashable = None,
    accepting: Iterable[Hashable] | None = None,
    *,
    alphabet: Iterable[Item] | None = None,
    name: str | None = None,
) -> Program:
    """A finite-state machine: its state after each symbol, or whether that state is accepting.

    From a complete table {(state, symbol): state} with its start; or from a regular expression and
    an alphabet, where it says at each position whether the word up to here matches.

    >>> fsm("(ab)*", alphabet="ab")("abab")
    [0, 1, 0, 1]
    """
    if isinstance(transitions, str):
        if alphabet is None:
            raise RequestError("A regular expression needs the alphabet that it is about.")
        machine = machine_of_regex(transitions, cast(Iterable[str], alphabet))
        called = f"matches {transitions}"
    elif not isinstance(transitions, Mapping):
        raise RequestError(
            f"A machine is given by a table {{(state, symbol): state}} or a regular expression, "
            f"not by a {type(transitions).__name__}."
        )
    else:
        machine = Machine.of(transitions, start, accepting or (), alphabet)
        called = f"machine of {machine.states} states"
    if isinstance(transitions, str) or accepting is not None:
        machine = machine.by_answer()
        answer = Scanned(_s.tokens, machine).map(lambda number: number in machine.accepting)
    else:
        answer = Scanned(_s.tokens, machine).map(lambda number: cast(Item, machine.labels[number]))
    return Program(answer, called if name is None else name)


def table(
    rows: Mapping[str | tuple[Item, ...], Iterable[Item]],
    otherwise: Item = None,
    name: str = "table",
) -> Program:
    """A finite table from words to words, memorised; off its rows the stated answer everywhere.

    The answer to a word has as many items as the word has symbols.

    >>> table({"ab": "ba"}, otherwise="?")("ab")
    ['b', 'a']
    """
    if not isinstance(rows, Mapping) or not rows:
        raise RequestError('A table needs at least one row, as in {"ab": "ba"}.')
    known: dict[tuple[Item, ...], tuple[Item, ...]] = {}
    for word, answer in rows.items():
        key, items = tuple(word), tuple(answer)
        if len(key) != len(items):
            raise RequestError(
                f"The table answers {len(items)} items to the {len(key)} symbols of {word!r}: "
                f"each position needs one."
            )
        known[key] = items
    return Program(Memorised(_s.tokens, known, otherwise), name)
