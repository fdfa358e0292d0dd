"""Where a claim about sequences holds: every word over an alphabet, up to a length."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from hardmax._errors import DomainError

Symbol = str | int
Word = tuple[Symbol, ...]
_TEXT = re.compile(r"words over (\[.*\]) of length (\d{1,9})(?: to (\d{1,9}))?")
LONGEST = 10**6  # symbols of a word: a model that attends to so many has 10^12 scores to compute
_LARGEST_INDEX = 2**62  # words of one length are numbered in int64 up to here


@dataclass(frozen=True)
class Words:
    """All sequences of `shortest` to `longest` symbols of an alphabet; each symbol may repeat.

    They are ordered by length, and words of one length as numbers written in base |alphabet|,
    the alphabet's order being the order of the digits.

    >>> hm.Words("ab", longest=3).count
    14
    """

    alphabet: tuple[Symbol, ...]
    longest: int
    shortest: int = 1

    def __init__(self, alphabet: Iterable[Symbol], longest: int, shortest: int = 1) -> None:
        if not isinstance(alphabet, Iterable):
            raise DomainError(f"An alphabet is a text or a list of symbols, not {alphabet!r}.")
        object.__setattr__(self, "alphabet", tuple(alphabet))
        object.__setattr__(self, "longest", _whole(longest))
        object.__setattr__(self, "shortest", _whole(shortest))
        symbols = self.alphabet
        if not all(isinstance(s, str | int) and not isinstance(s, bool) for s in symbols):
            raise DomainError("An alphabet's symbols must be strings or whole numbers.")
        if not symbols or len(set(symbols)) != len(symbols):
            raise DomainError("An alphabet needs at least one symbol, and no symbol twice.")
        if not 0 <= self.shortest <= self.longest:
            raise DomainError(
                f"Words need lengths 0 <= shortest <= longest, but they are {self.shortest} and "
                f"{self.longest}."
            )
        if self.longest > LONGEST:
            raise DomainError(
                f"Words have at most {LONGEST:,} symbols, but longer ones are asked for. Give a "
                f"smaller length."
            )

    @classmethod
    def parse(cls, text: str) -> Words:
        """Read what `str` wrote."""
        match = _TEXT.fullmatch(text.strip())
        try:
            alphabet = json.loads(match[1]) if match else None
        except (ValueError, RecursionError):
            alphabet = None
        if match is None or alphabet is None:
            shown = text if len(text) <= 100 else f"{text[:97]}..."
            raise DomainError(
                f'The domain "{shown}" could not be read. Write it as \'words over ["a", "b"] of '
                f"length 1 to 5'."
            )
        return cls(alphabet, int(match[3] or match[2]), int(match[2]))

    @property
    def lengths(self) -> range:
        return range(self.shortest, self.longest + 1)

    @property
    def count(self) -> int:
        """How many words there are, exactly; it may be far beyond any float."""
        size = len(self.alphabet)
        if size == 1:
            return len(self.lengths)
        return (size ** (self.longest + 1) - size**self.shortest) // (size - 1)

    def count_of(self, length: int) -> int:
        """How many words have this length."""
        return len(self.alphabet) ** length if length in self.lengths else 0

    def __iter__(self) -> Iterator[Word]:
        for length in self.lengths:
            yield from product(self.alphabet, repeat=length)

    def numbers(self, length: int, start: int, stop: int) -> np.ndarray:
        """The words number start, ..., stop - 1 of one length, a row of symbol numbers each.

        Word w is the number w in base |alphabet|, so that these are the words in their order.
        """
        if not 0 <= start <= stop <= min(self.count_of(length), _LARGEST_INDEX):
            raise DomainError(f"There are no words {start} to {stop} of length {length} in {self}.")
        rest = np.arange(start, stop, dtype=np.int64)
        table = np.zeros((stop - start, length), dtype=np.int64)
        for place in reversed(range(length)):
            rest, table[:, place] = np.divmod(rest, len(self.alphabet))
        return table

    def words(self, numbers: np.ndarray) -> list[Word]:
        """The words behind rows of symbol numbers."""
        return [tuple(self.alphabet[i] for i in row) for row in numbers.tolist()]

    def contains(self, word: Iterable[object]) -> bool:
        """Whether a sequence has only symbols of the alphabet, and a length in the range."""
        symbols = tuple(word)
        known = all(isinstance(s, str | int) and s in self.alphabet for s in symbols)
        return len(symbols) in self.lengths and known

    def sample(self, count: int, rng: np.random.Generator) -> list[Word]:
        """`count` words: the ones that programs trip over, then random ones of all lengths.

        First come the longest and the shortest: constant, sorted, reversed, alternating, and a
        single odd symbol at either end; then uniform words, half of them of full length, some
        over few symbols so that repetitions are common.
        """
        lengths = dict.fromkeys((self.longest, self.shortest))
        awkward = dict.fromkeys(word for n in lengths for word in self._awkward(n))
        chosen = list(awkward)[: (count + 1) // 2]
        while len(chosen) < count:
            full = rng.random() < 0.5
            length = self.longest if full else int(rng.integers(self.shortest, self.longest + 1))
            few = int(rng.integers(1, len(self.alphabet) + 1))
            pool = rng.choice(len(self.alphabet), size=few, replace=False)
            chosen.append(tuple(self.alphabet[i] for i in rng.choice(pool, size=length)))
        return chosen

    def _awkward(self, length: int) -> Iterator[Word]:
        symbols, size = self.alphabet, len(self.alphabet)
        first, last = symbols[0], symbols[-1]
        ends = (first, last) if size > 1 else (first,)
        yield from ((symbol,) * length for symbol in ends)
        rising = tuple(symbols[place * size // max(length, 1)] for place in range(length))
        yield from (rising, rising[::-1])
        yield tuple(symbols[place % size] for place in range(length))
        yield from (tuple(pair[place % 2] for place in range(length)) for pair in _pairs(ends))
        for odd, rest in _pairs(ends):
            yield ((odd,) + (rest,) * length)[:length]
            yield ((rest,) * (length - 1) + (odd,))[:length]
        yield from ((symbol,) * length for symbol in symbols[1:-1])

    def __str__(self) -> str:
        symbols = json.dumps(list(self.alphabet))
        span = str(self.longest)
        if self.shortest != self.longest:
            span = f"{self.shortest} to {self.longest}"
        return f"words over {symbols} of length {span}"

    def __repr__(self) -> str:
        return f"Words({len(self.alphabet)} symbols, length {self.shortest} to {self.longest})"


def _pairs(ends: Word) -> list[Word]:
    return [ends, ends[::-1]] if len(ends) == 2 else []


def _whole(length: object) -> int:
    if isinstance(length, bool) or not isinstance(length, int | np.integer):
        raise DomainError(f"The length of words must be a whole number, not {length!r}.")
    return int(length)
