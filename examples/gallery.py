"""A gallery of sequence programs, each compiled, billed, and held against its interpreter.

    python examples/gallery.py                all of them
    python examples/gallery.py sort dyck_2    some of them

An entry is a function: its first line says what the program does, and it returns the program and
the words it is for. Entries whose alphabet and length are free take them as arguments.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Sequence

import numpy as np

import hardmax as hm
from hardmax import programs as p
from hardmax.core import Words

Shown = tuple[p.Program, Words]
Entry = Callable[..., Shown]
GALLERY: dict[str, Entry] = {}
EXHAUSTIVE = 3000  # so many words are all tried; of more, a sample


def entry(function: Entry) -> Entry:
    GALLERY[function.__name__] = function
    return function


def is_free(function: Entry) -> bool:
    """Whether the entry takes the size of an alphabet and a length."""
    return list(inspect.signature(function).parameters) == ["size", "length"]


def letters(size: int, length: int) -> Words:
    return Words("abcdefghijklmnopqrstuvwxyz"[:size], length, 0)


def numbers(size: int, length: int) -> Words:
    return Words(range(size), length, 0)


s = p.Sequence()
same = p.there(s.tokens) == s.tokens
before = p.there(s.index) < s.index
so_far = p.there(s.index) <= s.index


# ---- moving tokens -----------------------------------------------------------------------------


@entry
def reverse(size: int = 5, length: int = 5) -> Shown:
    """The word from right to left."""
    return p.program(lambda s: s.tokens.at(s.length - 1 - s.index)), letters(size, length)


@entry
def shift(size: int = 5, length: int = 5) -> Shown:
    """Every token moves one place to the right; the first place holds nothing."""
    return p.program(lambda s: s.tokens.at(s.index - 1)), letters(size, length)


@entry
def gather(size: int = 5, length: int = 5) -> Shown:
    """Tokens are addresses: each place answers with the token at the place that it names."""
    return p.program(lambda s: s.tokens.at(s.tokens, default=0)), numbers(size, length)


@entry
def sort(size: int = 5, length: int = 5) -> Shown:
    """The tokens in order."""
    return p.program(lambda s: s.everywhere.ranked(s.tokens, s.index)), letters(size, length)


@entry
def sort_by_key(size: int = 5, length: int = 5) -> Shown:
    """Even numbers before odd ones, otherwise in the order in which they came."""
    key = s.tokens % 2
    earlier = (p.there(key) < key) | ((p.there(key) == key) & before)
    rank = earlier.count()
    return p.Program((p.there(rank) == s.index).only(s.tokens)), numbers(size, length)


@entry
def sort_by_frequency(size: int = 5, length: int = 5) -> Shown:
    """Frequent tokens first, otherwise in the order in which they came."""
    return p.sort_by_frequency, letters(size, length)


# ---- counting ----------------------------------------------------------------------------------


@entry
def histogram(size: int = 5, length: int = 5) -> Shown:
    """How often the token held here occurs."""
    return p.Program(same.count()), letters(size, length)


@entry
def duplicates(size: int = 5, length: int = 5) -> Shown:
    """Whether the token held here occurs again elsewhere."""
    return p.Program(same.count() > 1), letters(size, length)


@entry
def most_frequent(size: int = 5, length: int = 5) -> Shown:
    """The most frequent token; among several, the one that comes first."""
    often = same.count()
    winners = p.there(often) == s.everywhere.max(often)
    return p.Program(winners.first(s.tokens)), letters(size, length)


@entry
def rare(size: int = 5, length: int = 5) -> Shown:
    """How many places hold a token that occurs at most twice."""
    return p.Program(s.everywhere.sum(same.count() <= 2)), letters(size, length)


@entry
def prefix_sum(size: int = 5, length: int = 5) -> Shown:
    """The sum of all numbers up to here."""
    return p.Program(so_far.sum(s.tokens)), numbers(size, length)


@entry
def fraction_so_far(size: int = 5, length: int = 5) -> Shown:
    """Which share of the tokens up to here is an a."""
    return p.Program(so_far.mean(s.tokens == "a")), letters(size, length)


@entry
def modular_counter(size: int = 5, length: int = 5) -> Shown:
    """The number of a's up to here, modulo 3."""
    return p.Program(so_far.sum(s.tokens == "a") % 3), letters(size, length)


@entry
def parity() -> Shown:
    """Whether the number of ones among 64 bits is odd."""
    return p.Program(s.everywhere.sum(s.tokens) % 2), numbers(2, 64)


# ---- looking for something ---------------------------------------------------------------------


@entry
def seen_before(size: int = 5, length: int = 5) -> Shown:
    """Whether the token held here occurred earlier."""
    return p.Program((same & before).any()), letters(size, length)


@entry
def first_occurrence(size: int = 5, length: int = 5) -> Shown:
    """Where the token held here occurs first."""
    return p.Program(same.min(s.index)), letters(size, length)


@entry
def last_occurrence(size: int = 5, length: int = 5) -> Shown:
    """Where the token held here occurs last."""
    return p.Program(same.max(s.index)), letters(size, length)


@entry
def detect(size: int = 5, length: int = 5) -> Shown:
    """Whether the pattern ab ends here."""
    ends = (s.tokens == "b") & (s.tokens.shifted(1, default="-") == "a")
    return p.Program(ends), letters(size, length)


@entry
def palindrome(size: int = 5, length: int = 5) -> Shown:
    """Whether the word reads the same from right to left."""
    mirrored = s.tokens.at(s.length - 1 - s.index)
    return p.Program(s.everywhere.all(s.tokens == mirrored)), letters(size, length)


# ---- arithmetic, choices, tables ---------------------------------------------------------------


@entry
def ternary_map(size: int = 5, length: int = 5) -> Shown:
    """(a + 2 b + c) modulo the size, of the number here and the two before it (0 if missing)."""
    b, c = s.tokens.shifted(1, default=0), s.tokens.shifted(2, default=0)
    return p.Program((s.tokens + 2 * b + c) % size), numbers(size, length)


@entry
def if_else(size: int = 5, length: int = 5) -> Shown:
    """An a repeats the token before it; every other token stays."""
    previous = s.tokens.shifted(1, default="a")
    return p.Program(p.where(s.tokens == "a", previous, s.tokens)), letters(size, length)


@entry
def substitution(size: int = 5, length: int = 5) -> Shown:
    """A cipher: each token by a table, the one after it in the alphabet."""
    words = letters(size, length)
    after = dict(zip(words.alphabet, words.alphabet[1:] + words.alphabet[:1], strict=True))
    return p.Program(s.tokens.map(after)), words


@entry
def table() -> Shown:
    """A table of whole words, memorised; every other word is answered by question marks."""
    rows = {"one": "111", "two": "222", "on": "11", "to": "22"}
    return p.table(rows, otherwise="?"), Words("entwo", 4, 0)


@entry
def addition() -> Shown:
    """Two ten-digit numbers, added: a0 b0 a1 b1 ... from the last digit on; digit i answers a_i.

    The numbers have an eleventh digit 0, for the last carry. A column whose sum is above 9 carries,
    one below 9 does not, and at 9 it is as in the column before: so of the columns before this one
    the last that is not 9 decides. Only b_i counts as column i, so that a_i sees those before it.
    """
    digits, is_a = 22, 1 - s.index % 2
    column = s.tokens + s.tokens.at(s.index + 2 * is_a - 1)
    clipped = (column - 20 * is_a).map(lambda above: min(max(above - 8, 0), 2))
    sign = clipped + is_a - 1  # of column - 9 at b_i, and 0 at a_i
    last = so_far.max(s.index + digits * sign) - so_far.max(s.index - digits * sign)
    carries_out = 2 * digits * (column - 9) + last > 0
    answer = column + (last > 0) - 10 * carries_out  # last > 0: a carry comes in
    return p.Program(answer), Words(range(10), digits, digits)


# ---- brackets and machines ---------------------------------------------------------------------


@entry
def dyck_1() -> Shown:
    """Whether the brackets are balanced."""
    rise = s.tokens.map({"(": 1, ")": -1, "a": 0})
    dips = s.everywhere.sum(so_far.sum(rise) < 0)
    return p.Program((dips == 0) & (s.everywhere.sum(rise) == 0)), Words("()a", 6, 0)


@entry
def dyck_2() -> Shown:
    """Whether two kinds of brackets are balanced and nested."""
    return p.dyck(["()", "[]"]), Words("()[]", 5, 0)


@entry
def shuffle_dyck_2() -> Shown:
    """Whether two kinds of brackets are balanced, each by itself."""
    return p.shuffle_dyck(["()", "[]"]), Words("()[]", 5, 0)


@entry
def machine() -> Shown:
    """A finite-state machine from a table: a door with a key."""
    moves = {
        ("open", "push"): "shut",
        ("open", "key"): "open",
        ("shut", "push"): "open",
        ("shut", "key"): "locked",
        ("locked", "push"): "locked",
        ("locked", "key"): "shut",
    }
    return p.fsm(moves, start="open"), Words(["push", "key"], 8, 0)


@entry
def expression() -> Shown:
    """A machine from a regular expression: whether the word up to here matches a(b|c)*d."""
    return p.fsm("a(b|c)*d", alphabet="abcd"), Words("abcd", 5, 0)


# ---- running them ------------------------------------------------------------------------------


def words_to_try(words: Words, *, limit: int = EXHAUSTIVE, seed: int = 0) -> list[tuple]:
    """All words if they are few; otherwise awkward and random ones."""
    if words.count <= EXHAUSTIVE:
        return list(words)
    return words.sample(limit, np.random.default_rng(seed))


def wrong_answers(
    model: hm.Construction, program: p.Program, tried: Sequence[Iterable[p.Item]]
) -> list[tuple]:
    """Words that the Transformer answers differently from the interpreter."""
    return [
        tuple(word)
        for word, answer in zip(tried, model(tried), strict=True)
        if answer != program(word)
    ]


def show(name: str) -> bool:
    """Compile an entry, print its bill and a sample answer, and check it."""
    explanation = (inspect.getdoc(GALLERY[name]) or "").splitlines()[0]
    print(f"{name}: {explanation}")
    program, words = GALLERY[name]()
    try:
        model = hm.compile(program, on=words)
    except hm.RequestError as reason:
        print(f"  {reason}\n")
        return False
    tried = words_to_try(words, limit=500)
    wrong = wrong_answers(model, program, tried)
    sample = max(words.sample(40, np.random.default_rng(1))[-20:], key=len)
    print(f"  {model.bill}")
    print(f"  {written(sample)} -> {written(model(sample))}")
    print(f"  {len(tried) - len(wrong):,} of {len(tried):,} words answered right\n")
    return not wrong


def written(items: object) -> str:
    if not isinstance(items, Sequence) or isinstance(items, str):
        return str(items)
    wide = any(len(str(one)) > 1 for one in items)
    return (" " if wide else "").join(str(one) for one in items)


def main(names: Sequence[str]) -> int:
    right = [show(name) for name in names or GALLERY]
    return int(not all(right))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
