"""The error of a Transformer on words: all of them are tried, in rationals or in balls."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

from hardmax.core import SequenceTarget, Transformer, Words
from hardmax.numerics import precision
from hardmax.testing.truth._arithmetic import BITS, Balls, Rationals
from hardmax.testing.truth._line import Ends, ball_of, ends_of
from hardmax.testing.truth._meaning import outputs_on_word


def largest_error_on_words(transformer: Transformer, target: SequenceTarget, words: Words) -> Ends:
    """low <= max |Transformer - target| <= high over all words; equal without softmax.

    Raises `Undecided` where a hard head reads what a softmax wrote and balls cannot tell who wins.
    """
    found = [Fraction(0), Fraction(0)]
    for length in words.lengths:
        for word in product(words.alphabet, repeat=length):
            low, high = error_on_word(transformer, target, word)
            found = [max(found[0], low), max(found[1], high)]
    return found[0], found[1]


def error_on_word(
    transformer: Transformer, target: SequenceTarget, word: tuple[str | int, ...]
) -> Ends:
    """The largest error of any number that is answered for a word, from both sides."""
    with precision(BITS):
        numbers = Rationals() if transformer.is_hard else Balls()
        rows = zip(outputs_on_word(transformer, word, numbers), target(word), strict=True)
        pairs = [pair for ours, theirs in rows for pair in zip(ours, theirs, strict=True)]
        if transformer.is_hard:
            size = max((abs(a - Fraction(b)) for a, b in pairs), default=Fraction(0))
            return size, size
        return ends_of([a - ball_of(Fraction(b)) for a, b in pairs])
