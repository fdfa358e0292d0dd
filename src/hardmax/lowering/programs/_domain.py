"""On which words a program is compiled."""

from __future__ import annotations

from collections.abc import Iterable

from hardmax._errors import RequestError
from hardmax.core import Words
from hardmax.languages.programs import Program


def words_for(
    program: Program, on: object, alphabet: Iterable[str | int] | None, length: int | None
) -> Words:
    """All words up to a length: the empty one, too, unless the program answers at a position."""
    if on is not None:
        if not isinstance(on, Words) or alphabet is not None or length is not None:
            raise RequestError(
                "A program is compiled on words: give an alphabet and a length, or on=Words(...)."
            )
        return on
    if alphabet is None or length is None:
        raise RequestError(
            'A program needs the words it is for: alphabet="abc" and length=5, for example.'
        )
    if not isinstance(alphabet, Iterable):
        raise RequestError(f"The alphabet is a text or a list of symbols, not {alphabet!r}.")
    if isinstance(length, int) and length < 1:
        raise RequestError(f"The length must be at least 1, not {length}.")
    at = program.at
    shortest = 0 if at is None else -at if at < 0 else at + 1
    return Words(alphabet, length, shortest)
