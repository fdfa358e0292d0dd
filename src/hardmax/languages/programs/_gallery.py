"""A gallery of sequence programs: two dozen entries of a few lines each.

An entry is a function: its first line says what the program does, and it returns the program and
the words it is for. Entries whose alphabet and length are free take them as arguments.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterable

from hardmax.core import Words
from hardmax.languages.programs import _library as library
from hardmax.languages.programs._items import Item
from hardmax.languages.programs._nodes import Sequence, there, where
from hardmax.languages.programs._program import Program, program

Shown = tuple[Program, Words]
Entry = Callable[..., Shown]
GALLERY: dict[str, Entry] = {}


def entry(function: Entry) -> Entry:
    GALLERY[function.__name__] = function
    return function


def is_free(function: Entry) -> bool:
    """Whether an entry of the gallery takes the size of an alphabet and a length.

    >>> [name for name, entry in GALLERY.items() if not is_free(entry)][:3]
    ['parity', 'table', 'addition']
    """
    return list(inspect.signature(function).parameters) == ["size", "length"]


def letters(size: int, length: int) -> Words:
    return Words("abcdefghijklmnopqrstuvwxyz"[:size], length, 0)


def numbers(size: int, length: int) -> Words:
    return Words(range(size), length, 0)


s = Sequence()
same = there(s.tokens) == s.tokens
before = there(s.index) < s.index
so_far = there(s.index) <= s.index


# ---- moving tokens -----------------------------------------------------------------------------


@entry
def reverse(size: int = 5, length: int = 5) -> Shown:
    """The word from right to left."""
    return program(lambda s: s.tokens.at(s.length - 1 - s.index)), letters(size, length)


@entry
def shift(size: int = 5, length: int = 5) -> Shown:
    """Every token moves one place to the right; the first place holds nothing."""
    return program(lambda s: s.tokens.at(s.index - 1)), letters(size, length)


@entry
def gather(size: int = 5, length: int = 5) -> Shown:
    """Tokens are addresses: each place answers with the token at the place that it names."""
    return program(lambda s: s.tokens.at(s.tokens, default=0)), numbers(size, length)


@entry
def sort(size: int = 5, length: int = 5) -> Shown:
    """The tokens in order."""
    return program(lambda s: s.everywhere.ranked(s.tokens, s.index)), letters(size, length)


@entry
def sort_by_key(size: int = 5, length: int = 5) -> Shown:
    """Even numbers before odd ones, otherwise in the order in which they came."""
    key = s.tokens % 2
    earlier = (there(key) < key) | ((there(key) == key) & before)
    rank = earlier.count()
    return Program((there(rank) == s.index).only(s.tokens)), numbers(size, length)


@entry
def sort_by_frequency(size: int = 5, length: int = 5) -> Shown:
    """Frequent tokens first, otherwise in the order in which they came."""
    return library.sort_by_frequency, letters(size, length)


# ---- counting ----------------------------------------------------------------------------------


@entry
def histogram(size: int = 5, length: int = 5) -> Shown:
    """How often the token held here occurs."""
    return Program(same.count()), letters(size, length)


@entry
def duplicates(size: int = 5, length: int = 5) -> Shown:
    """Whether the token held here occurs again elsewhere."""
    return Program(same.count() > 1), letters(size, length)


@entry
def most_frequent(size: int = 5, length: int = 5) -> Shown:
    """The most frequent token; among several, the one that comes first."""
    often = same.count()
    winners = there(often) == s.everywhere.max(often)
    return Program(winners.first(s.tokens)), letters(size, length)


@entry
def rare(size: int = 5, length: int = 5) -> Shown:
    """How many places hold a token that occurs at most twice."""
    return Program(s.everywhere.sum(same.count() <= 2)), letters(size, length)


@entry
def prefix_sum(size: int = 5, length: int = 5) -> Shown:
    """The sum of all numbers up to here."""
    return Program(so_far.sum(s.tokens)), numbers(size, length)


@entry
def fraction_so_far(size: int = 5, length: int = 5) -> Shown:
    """Which share of the tokens up to here is an a."""
    return Program(so_far.mean(s.tokens == "a")), letters(size, length)


@entry
def modular_counter(size: int = 5, length: int = 5) -> Shown:
    """The number of a's up to here, modulo 3."""
    return Program(so_far.sum(s.tokens == "a") % 3), letters(size, length)


@entry
def parity(length: int = 64) -> Shown:
    """Whether the number of ones among the bits is odd."""
    return Program(s.everywhere.sum(s.tokens) % 2), numbers(2, length)


# ---- looking for something ---------------------------------------------------------------------


@entry
def seen_before(size: int = 5, length: int = 5) -> Shown:
    """Whether the token held here occurred earlier."""
    return Program((same & before).any()), letters(size, length)


@entry
def first_occurrence(size: int = 5, length: int = 5) -> Shown:
    """Where the token held here occurs first."""
    return Program(same.min(s.index)), letters(size, length)


@entry
def last_occurrence(size: int = 5, length: int = 5) -> Shown:
    """Where the token held here occurs last."""
    return Program(same.max(s.index)), letters(size, length)


@entry
def detect(size: int = 5, length: int = 5) -> Shown:
    """Whether the pattern ab ends here."""
    ends = (s.tokens == "b") & (s.tokens.shifted(1, default="-") == "a")
    return Program(ends), letters(size, length)


@entry
def palindrome(size: int = 5, length: int = 5) -> Shown:
    """Whether the word reads the same from right to left."""
    mirrored = s.tokens.at(s.length - 1 - s.index)
    return Program(s.everywhere.all(s.tokens == mirrored)), letters(size, length)


# ---- arithmetic, choices, tables ---------------------------------------------------------------


@entry
def ternary_map(size: int = 5, length: int = 5) -> Shown:
    """(a + 2 b + c) modulo the size, of the number here and the two before it (0 if missing)."""
    b, c = s.tokens.shifted(1, default=0), s.tokens.shifted(2, default=0)
    return Program((s.tokens + 2 * b + c) % size), numbers(size, length)


@entry
def if_else(size: int = 5, length: int = 5) -> Shown:
    """An a repeats the token before it; every other token stays."""
    previous = s.tokens.shifted(1, default="a")
    return Program(where(s.tokens == "a", previous, s.tokens)), letters(size, length)


@entry
def substitution(size: int = 5, length: int = 5) -> Shown:
    """A cipher: each token by a table, the one after it in the alphabet."""
    words = letters(size, length)
    after = dict(zip(words.alphabet, words.alphabet[1:] + words.alphabet[:1], strict=True))
    return Program(s.tokens.map(after)), words


@entry
def table(length: int = 4) -> Shown:
    """A table of whole words, memorised; every other word is answered by question marks."""
    rows: dict[str | tuple[Item, ...], Iterable[Item]] = {
        "one": "111",
        "two": "222",
        "on": "11",
        "to": "22",
    }
    return library.table(rows, otherwise="?"), Words("entwo", length, 0)


@entry
def addition(length: int = 22) -> Shown:
    """Two numbers, added: a0 b0 a1 b1 ... from the last digit on; digit i answers a_i.

    The numbers have a first digit 0, for the last carry. A column whose sum is above 9 carries,
    one below 9 does not, and at 9 it is as in the column before: so of the columns before this one
    the last that is not 9 decides. Only b_i counts as column i, so that a_i sees those before it.
    """
    digits, is_a = length - length % 2, 1 - s.index % 2
    column = s.tokens + s.tokens.at(s.index + 2 * is_a - 1)
    clipped = (column - 20 * is_a).map(lambda above: min(max(above - 8, 0), 2))
    sign = clipped + is_a - 1  # of column - 9 at b_i, and 0 at a_i
    last = so_far.max(s.index + digits * sign) - so_far.max(s.index - digits * sign)
    carries_out = 2 * digits * (column - 9) + last > 0
    answer = column + (last > 0) - 10 * carries_out  # last > 0: a carry comes in
    return Program(answer), Words(range(10), digits, digits)


# ---- brackets and machines ---------------------------------------------------------------------


@entry
def dyck_1(length: int = 6) -> Shown:
    """Whether the brackets are balanced."""
    rise = s.tokens.map({"(": 1, ")": -1, "a": 0})
    dips = s.everywhere.sum(so_far.sum(rise) < 0)
    return Program((dips == 0) & (s.everywhere.sum(rise) == 0)), Words("()a", length, 0)


@entry
def dyck_2(length: int = 5) -> Shown:
    """Whether two kinds of brackets are balanced and nested."""
    return library.dyck(["()", "[]"]), Words("()[]", length, 0)


@entry
def shuffle_dyck_2(length: int = 5) -> Shown:
    """Whether two kinds of brackets are balanced, each by itself."""
    return library.shuffle_dyck(["()", "[]"]), Words("()[]", length, 0)


@entry
def machine(length: int = 8) -> Shown:
    """A finite-state machine from a table: a door with a key."""
    moves: dict[tuple[Hashable, Item], Hashable] = {
        ("open", "push"): "shut",
        ("open", "key"): "open",
        ("shut", "push"): "open",
        ("shut", "key"): "locked",
        ("locked", "push"): "locked",
        ("locked", "key"): "shut",
    }
    return library.fsm(moves, start="open"), Words(["push", "key"], length, 0)


@entry
def expression(length: int = 5) -> Shown:
    """A machine from a regular expression: whether the word up to here matches a(b|c)*d."""
    return library.fsm("a(b|c)*d", alphabet="abcd"), Words("abcd", length, 0)
