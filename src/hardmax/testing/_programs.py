"""Random programs of the language of sequences, which reach every construct that it has.

A program is drawn by kinds: whole numbers with their range, flags, symbols and selections. Ranges
are kept small by remainders, so that most programs can be compiled; what cannot is refused by the
compiler, which says why. The same seed gives the same program.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

from hardmax.core import Words
from hardmax.languages import programs as p
from hardmax.languages.programs import Program, Selection, Sequence, Value, there
from hardmax.testing._odd_values import Parts, odd_values
from hardmax.testing._whole_numbers import (
    Whole,
    clipped_of,
    constant_of,
    difference_of,
    over_of,
    product_of,
    scaled_of,
    squared_of,
    sum_of,
)

_S = Sequence()
_WIDEST = 12  # numbers in a range before a remainder is taken
_LENGTHS = (1, 2, 3, 3, 4, 4, 5, 5, 6, 6, 8, 10, 12)
_ORDERS: dict[str, Callable[..., Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

_NAMES = """
    tokens index length constant + - negative multiple product quotient floordiv remainder
    == != < <= > >= and or not map table apply apply-nothing where or_else at shifted
    count sum mean only min max any all first last ranked
    counter resets machine memorised
    everywhere there== there!= there< there<= there> there>= select select-nothing
    both either neither causal
    one-output several-outputs at-position every-position letters numbers
    scalar one-hot sinusoidal relative none shallow parallel
    mixed mixed-mean symbol-default odd-numbers odd-sum several-keys machine-of-values
    memorised-values
"""
CONSTRUCTS = frozenset(_NAMES.split())


@dataclass(frozen=True, eq=False)
class RandomProgram:
    """A program, the words it is for, how it is to be compiled, and what it is made of."""

    program: Program
    words: Words
    positions: str
    route: str | None
    constructs: frozenset[str]


def random_program(seed: int, *, longest: int = 12) -> RandomProgram:
    """The program with this number, on words of at most this length."""
    return _Draw(random.Random(seed), longest).program()


class _Draw:
    def __init__(self, rng: random.Random, longest: int) -> None:
        self.rng = rng
        self.used: set[str] = set()
        length = rng.choice([n for n in _LENGTHS if n <= longest])
        size = rng.choice([1, 2, 2, 3, 3, 4]) if length <= 6 else rng.choice([2, 2, 3])
        self.is_letters = rng.random() < 0.5
        self._use("letters" if self.is_letters else "numbers")
        symbols: str | range = "abcd"[:size] if self.is_letters else range(size)
        shortest = rng.choice([0, 0, 1, length])
        self.words = Words(symbols, length, min(shortest, length))

    def _use(self, construct: str) -> None:
        assert construct in CONSTRUCTS, construct
        self.used.add(construct)

    def _one_of(self, options: dict[str, Callable[[], Any]]) -> Any:
        """One of several constructs, by its name."""
        name = self.rng.choice(list(options))
        self._use(name)
        return options[name]()

    # ---- programs ------------------------------------------------------------------------------

    def program(self) -> RandomProgram:
        depth = self.rng.choice([0, 1, 1, 2, 2, 2, 3, 3])
        outputs = [self._output(depth)]
        if self.rng.random() < 0.1:
            outputs.append(self._output(min(depth, 1)))
        self._use("one-output" if len(outputs) == 1 else "several-outputs")
        at = self.rng.choice([-1, 0]) if self.words.shortest and self.rng.random() < 0.2 else None
        self._use("every-position" if at is None else "at-position")
        rare = self.rng.random()
        kinds = ("one-hot", "sinusoidal", "relative", "none")
        positions = self.rng.choice(kinds) if rare < 0.16 else "scalar"
        self._use(positions)
        route = self.rng.choice(["shallow", "parallel"]) if rare > 0.8 else None
        if route is not None:
            self._use(route)
        program = Program(outputs, "random program", at)
        return RandomProgram(program, self.words, positions, route, frozenset(self.used))

    def _output(self, depth: int) -> Value:
        kind = self.rng.random()
        if kind < 0.5:
            return self._whole(depth).value
        if kind < 0.7:
            return self._symbol(depth)
        if kind < 0.85:
            return self._flag(depth)
        return self._fraction(depth) if kind < 0.93 else self._odd(max(depth - 1, 0))

    def _odd(self, depth: int) -> Value:
        flag, chosen = partial(self._flag, depth), partial(self._selection, depth)
        digit = lambda: self._small(depth).value % 4  # noqa: E731
        found: Value = self._one_of(odd_values(Parts(self.rng, flag, digit, chosen)))
        return found

    def _fraction(self, depth: int) -> Value:
        below = max(depth - 1, 0)
        return self._one_of(
            {
                "mean": lambda: self._selection(below).mean(self._small(below, 4).value, 0),
                "quotient": lambda: self._small(below, 5).value / self._small(below, 5).value,
                "multiple": lambda: self._small(below, 6).value * Fraction(1, 3),
            }
        )

    # ---- whole numbers -------------------------------------------------------------------------

    def _small(self, depth: int, widest: int = _WIDEST) -> Whole:
        """A number in a range of at most this width."""
        found = self._whole(depth)
        if found.width <= widest:
            return found
        self._use("remainder")
        by = self.rng.choice([k for k in (2, 3, 4, 5) if k <= widest])
        return Whole(found.value % by, 0, by - 1)

    def _whole(self, depth: int) -> Whole:
        if depth == 0:
            return self._draw_given()
        options = self._arithmetic(depth - 1) | self._aggregates(depth - 1)
        if self.rng.random() < 0.25:
            options = self._rarer(depth - 1)
        found: Whole = self._one_of(options)
        return found

    def _draw_given(self) -> Whole:
        longest = self.words.longest
        numbers = {symbol: self.rng.randint(-2, 3) for symbol in self.words.alphabet}
        options = {
            "index": lambda: Whole(_S.index, 0, longest - 1),
            "length": lambda: Whole(_S.length, self.words.shortest, longest),
            "constant": lambda: constant_of(self.rng.randint(-2, 4)),
            "table": lambda: Whole(_S.tokens.map(numbers), -2, 3),
        }
        if not self.is_letters:
            options["tokens"] = lambda: Whole(_S.tokens, 0, len(self.words.alphabet) - 1)
        whole: Whole = self._one_of(options)
        return whole

    def _arithmetic(self, depth: int) -> dict[str, Callable[[], Whole]]:
        small = self._small
        return {
            "+": lambda: sum_of(small(depth), small(depth)),
            "-": lambda: difference_of(small(depth), small(depth)),
            "negative": lambda: scaled_of(small(depth), -1),
            "multiple": lambda: scaled_of(small(depth), self.rng.choice([-2, 2, 3])),
            "product": lambda: product_of(small(depth, 5), small(depth, 5)),
            "floordiv": lambda: over_of(small(depth), 2),
            "remainder": lambda: Whole(small(depth).value % 3, 0, 2),
            "map": lambda: squared_of(small(depth, 6)),
            "where": lambda: self._draw_choice(depth),
            "apply": lambda: clipped_of(small(depth, 6), small(depth, 6)),
            "or_else": lambda: self._draw_filled(depth),
        }

    def _draw_choice(self, depth: int) -> Whole:
        one, other = self._small(depth), self._small(depth)
        value = p.where(self._flag(depth), one.value, other.value)
        return Whole(value, min(one.low, other.low), max(one.high, other.high))

    def _draw_filled(self, depth: int) -> Whole:
        """A number of elsewhere, and another where there is none."""
        self._use("shifted")
        found, default = self._small(depth), self.rng.randint(-1, 2)
        by = self.rng.choice([-1, 1, 2])
        value = p.or_else(found.value.shifted(by), default)
        if self.rng.random() < 0.4:
            self._use("apply-nothing")
            value = p.apply(_seen_or(default), found.value.shifted(by), nothing=True)
        return Whole(value, min(found.low, default), max(found.high, default))

    def _aggregates(self, depth: int) -> dict[str, Callable[[], Whole]]:
        longest, chosen = self.words.longest, self._selection
        return {
            "count": lambda: Whole(chosen(depth).count(), 0, longest),
            "sum": lambda: self._draw_sum(depth),
            "min": lambda: self._draw_pick(depth, lambda c, v, d: c.min(v, d)),
            "max": lambda: self._draw_pick(depth, lambda c, v, d: c.max(v, d)),
            "first": lambda: self._draw_pick(depth, lambda c, v, d: c.first(v, d)),
            "last": lambda: self._draw_pick(depth, lambda c, v, d: c.last(v, d)),
            "at": lambda: self._draw_address(depth),
            "only": lambda: self._only(depth),
        }

    def _draw_sum(self, depth: int) -> Whole:
        summand, n = self._small(depth, 4), self.words.longest
        value = self._selection(depth).sum(summand.value)
        return Whole(value, min(summand.low * n, 0), max(summand.high * n, 0))

    def _draw_pick(self, depth: int, pick: Callable[[Selection, Value, int], Value]) -> Whole:
        found, default = self._small(depth), self.rng.randint(-1, 2)
        value = pick(self._selection(depth), found.value, default)
        return Whole(value, min(found.low, default), max(found.high, default))

    def _draw_address(self, depth: int) -> Whole:
        found, default = self._small(depth), self.rng.randint(-1, 2)
        value = found.value.at(self._small(depth).value, default)
        return Whole(value, min(found.low, default), max(found.high, default))

    def _only(self, depth: int) -> Whole:
        """What all that are selected hold: a number that is the same for equal keys."""
        key = self._small(depth, 6)
        chosen = there(key.value) == self._small(depth, 6).value
        return Whole(chosen.only(key.value + 1, 0), min(key.low + 1, 0), max(key.high + 1, 0))

    def _rarer(self, depth: int) -> dict[str, Callable[[], Whole]]:
        return {
            "ranked": lambda: self._draw_rank(depth),
            "counter": lambda: self._draw_scan("counter"),
            "resets": lambda: self._draw_scan("resets"),
            "machine": lambda: self._draw_scan("machine"),
            "memorised": lambda: self._draw_table([0, 1, 5], 0, 5),
        }

    def _draw_rank(self, depth: int) -> Whole:
        found, default = self._small(depth, 4), self.rng.randint(-1, 2)
        rank = self.rng.choice([_S.index, p.Constant(0), p.Constant(1)])
        value = self._selection(min(depth, 1)).ranked(found.value, rank, default)
        return Whole(value, min(found.low, default), max(found.high, default))

    def _draw_scan(self, kind: str) -> Whole:
        """A machine with three states that reads the tokens."""
        rng, states = self.rng, range(3)
        moves: dict[tuple[Hashable, p.Item], Hashable] = {}
        for symbol in self.words.alphabet:
            turn, goal = rng.randrange(3), rng.choice([None, 0, 1, 2])
            for state in states:
                to = rng.randrange(3)
                if kind == "counter":
                    to = (state + turn) % 3
                elif kind == "resets":
                    to = state if goal is None else goal
                moves[state, symbol] = to
        return Whole(p.Scanned(_S.tokens, p.Machine.of(moves, 0, (), self.words.alphabet)), 0, 2)

    def _draw_table(self, answers: list[p.Item], low: int, high: int) -> Whole:
        rows: dict[tuple[p.Item, ...], tuple[p.Item, ...]] = {}
        for _ in range(self.rng.randint(1, 3)):
            length = self.rng.randint(1, min(self.words.longest, 4))
            word = tuple(self.rng.choices(self.words.alphabet, k=length))
            rows[word] = tuple(self.rng.choices(answers, k=length))
        return Whole(p.Memorised(_S.tokens, rows, answers[0]), low, high)

    # ---- flags and symbols ---------------------------------------------------------------------

    def _flag(self, depth: int) -> Value:
        below = max(depth - 1, 0)
        options: dict[str, Callable[[], Value]] = {
            name: partial(self._draw_order, order, below) for name, order in _ORDERS.items()
        }
        if depth > 0:
            options |= {
                "and": lambda: self._flag(below) & self._flag(below),
                "or": lambda: self._flag(below) | self._flag(below),
                "not": lambda: ~self._flag(below),
                "any": lambda: self._selection(below).any(self._flag(below)),
                "all": lambda: self._selection(below).all(self._flag(below)),
            }
        flag: Value = self._one_of(options)
        return flag

    def _draw_order(self, order: Callable[..., Any], depth: int) -> Value:
        found: Value = order(self._small(depth).value, self._small(depth).value)
        return found

    def _symbol(self, depth: int) -> Value:
        symbols = self.words.alphabet
        if depth == 0 or not self.is_letters:
            turned = dict(zip(symbols, "xyzw", strict=False))
            self._use("tokens" if self.is_letters else "table")
            return _S.tokens if self.is_letters else _S.tokens.map(turned)
        below = depth - 1
        symbol: Value = self._one_of(
            {
                "shifted": lambda: self._symbol(below).shifted(self.rng.choice([-1, 1])),
                "at": lambda: self._symbol(below).at(self._small(below).value),
                "where": lambda: p.where(self._flag(below), self._symbol(below), "-"),
                "first": lambda: self._selection(below).first(self._symbol(below), "?"),
                "last": lambda: self._selection(below).last(self._symbol(below)),
                "ranked": lambda: _S.everywhere.ranked(_S.tokens, _S.index),
                "memorised": lambda: self._draw_table(["?", "a", "b"], 0, 0).value,
                "or_else": lambda: p.or_else(self._symbol(below).shifted(1), "{"),
            }
        )
        return symbol

    # ---- selections ----------------------------------------------------------------------------

    def _selection(self, depth: int) -> Selection:
        options: dict[str, Callable[[], Selection]] = {
            f"there{name}": partial(self._draw_comparison, order, depth)
            for name, order in _ORDERS.items()
        }
        options |= {
            "everywhere": lambda: _S.everywhere,
            "causal": lambda: _S.everywhere.causal(),
            "select": lambda: self._draw_relation(depth, False),
            "select-nothing": lambda: self._draw_relation(depth, True),
        }
        if depth > 0:
            below = depth - 1
            options |= {
                "both": lambda: self._selection(below) & self._selection(below),
                "either": lambda: self._selection(below) | self._selection(below),
                "neither": lambda: ~(self._selection(below)),
            }
        selection: Selection = self._one_of(options)
        return selection

    def _draw_comparison(self, order: Callable[..., Any], depth: int) -> Selection:
        """Order on the index, equal symbols, or numbers there and here."""
        kind = self.rng.random()
        if kind < 0.35:
            self._use("index")
            comparison = order(there(_S.index), _S.index)
        elif kind < 0.6 and order in (operator.eq, operator.ne):
            self._use("tokens")
            comparison = order(there(_S.tokens), _S.tokens)
        else:
            comparison = order(there(self._small(depth).value), self._small(depth).value)
        assert isinstance(comparison, Selection)
        return comparison

    def _draw_relation(self, depth: int, nothing: bool) -> Selection:
        key, query = self._small(depth, 6), self._small(depth, 6)
        if not nothing:
            return p.select(key.value, query.value, _close)
        self._use("shifted")
        return p.select(key.value.shifted(1), query.value, _close_or_none, nothing=True)


def _seen_or(default: int) -> Callable[[p.Item], p.Item]:
    return lambda held: default if held is None else held


def _close(key: int, query: int) -> bool:
    return abs(key - query) <= 1


def _close_or_none(key: int | None, query: int) -> bool:
    return key is None or abs(key - query) <= 1
