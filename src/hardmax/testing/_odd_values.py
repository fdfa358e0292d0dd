"""Values that programs seldom hold: numbers beside symbols, close or huge ones, other alphabets."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from fractions import Fraction

from hardmax.languages import programs as p
from hardmax.languages.programs import Selection, Sequence, Value, there

_S = Sequence()
_NUMBERS: tuple[Callable[[int], p.Item], ...] = (
    lambda k: 10**10 + k,
    lambda k: k * 1e-10,
    lambda k: 2**60 + k,
    lambda k: Fraction(k, 7),
    lambda k: 0.1 * k,
    lambda k: k % 2 == 0,
    lambda k: 1000001 if k else 999983,
)


@dataclass(frozen=True)
class Parts:
    """What odd values are made of, drawn at random: flags, numbers from 0 to 3, and selections."""

    rng: random.Random
    flag: Callable[[], Value]
    digit: Callable[[], Value]
    selection: Callable[[], Selection]


def odd_values(parts: Parts) -> dict[str, Callable[[], Value]]:
    """Ways to make one, by name."""
    return {
        "mixed": lambda: _maybe_elsewhere(parts, p.where(parts.flag(), parts.digit(), "m")),
        "mixed-mean": lambda: _mixed_mean(parts),
        "symbol-default": lambda: parts.selection().mean(parts.digit(), "none"),
        "odd-numbers": lambda: _maybe_elsewhere(parts, _odd_number(parts)),
        "odd-sum": lambda: _sum_of(parts, _odd_number(parts)),
        "several-keys": lambda: _several_keys(parts),
        "machine-of-values": lambda: _machine(parts),
        "memorised-values": lambda: p.Memorised(parts.digit(), {(0,): ("m",), (1, 0): (1, "n")}, 0),
    }


def _odd_number(parts: Parts) -> Value:
    return parts.digit().map(parts.rng.choice(_NUMBERS))


def _maybe_elsewhere(parts: Parts, value: Value) -> Value:
    """As it is, or of elsewhere."""
    kind = parts.rng.randrange(5)
    if kind == 0:
        return value
    if kind == 1:
        return value.shifted(parts.rng.choice([-1, 1]), parts.rng.choice([None, "none", 0.5]))
    if kind == 2:
        return parts.selection().last(value, parts.rng.choice([None, "none", 0.5]))
    if kind == 3:
        return parts.selection().ranked(value, parts.digit(), "none")
    return (there(value) == value).count()


def _sum_of(parts: Parts, value: Value) -> Value:
    chosen = parts.selection()
    kind = parts.rng.randrange(3)
    if kind == 0:
        return chosen.max(value, parts.rng.choice([None, "none", 0]))
    return chosen.sum(value) if kind == 1 else chosen.mean(value)


def _mixed_mean(parts: Parts) -> Value:
    """Of positions that hold numbers, beside others that hold symbols."""
    flag = parts.flag()
    held = p.where(flag, parts.digit(), "m")
    chosen = (there(flag) == parts.rng.choice([True, flag])) & parts.selection()
    return chosen.mean(held, parts.rng.choice([None, "none", 0.5]))


def _several_keys(parts: Parts) -> Value:
    keys, queries = (parts.digit(), parts.digit()), (parts.digit(), parts.digit())
    return p.select(keys, queries, lambda a, b, c, d: a + b == c + d or a == d).count()


def _machine(parts: Parts) -> Value:
    """A machine that reads digits: it counts them, or takes the last of the high ones."""
    states = range(3)
    counts = parts.rng.random() < 0.5
    moves: dict[tuple[Hashable, p.Item], Hashable] = {
        (state, symbol): (state + symbol) % 3 if counts else min(symbol, 2) if symbol else state
        for state in states
        for symbol in range(4)
    }
    return p.Scanned(parts.digit(), p.Machine.of(moves, 0, (), range(4)))
