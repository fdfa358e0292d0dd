"""Whether a program depends on the order of its word."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from hardmax._errors import RequestError, SemanticsError
from hardmax.core import Word, Words
from hardmax.languages.programs import Program

POSITIONS = ("scalar", "one-hot", "sinusoidal", "relative", "none")
_WORDS = 300  # that are tried


def check_positions(program: Program, words: Words, positions: str) -> None:
    """Refuse unknown positions, and a program that depends on order without any.

    Without positions attention sees a set: if the symbols change places, so do the answers.
    """
    if positions not in POSITIONS:
        raise RequestError(
            f"There are no positions {positions!r}; choose one of {', '.join(POSITIONS)}."
        )
    if positions == "none":
        for word in _words_to_try(words):
            other = word[1:] + word[:1]
            shown = _shows_order(program, word, other)
            if shown is not None:
                first, second = shown
                raise RequestError(
                    f"{program.name} depends on the order of the word, which nothing tells without "
                    f"positions: it answers {first} to {list(word)}, but {second} to "
                    f"{list(other)}. Ask for positions."
                )


def _words_to_try(words: Words) -> Iterator[Word]:
    few = words.alphabet[:3]
    for length in range(2, min(words.longest, 4) + 1):
        if length >= words.shortest:
            yield from itertools.product(few, repeat=length)
    yield from words.sample(_WORDS, np.random.default_rng(0))


def _shows_order(program: Program, word: Word, other: Word) -> tuple[object, object] | None:
    """The answers to a word and to the same word turned by one place, if they do not fit."""
    if word == other:
        return None
    try:
        first, second = program.rows(word), program.rows(other)
    except (SemanticsError, RequestError):
        return None
    fits = first == second if program.at is not None else [*first[1:], first[0]] == second
    return None if fits else (program.answer(first), program.answer(second))
