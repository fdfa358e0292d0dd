"""All words of a length at once: the methods that bound the error, in the order that pays.

Registers are quick and remember little: each coordinate holds one value of the target. They come
first where the target picks from so many values that slots could not follow it. Slots know all
that a token can know of a word. Cuts are slots that forget what a value was made of, once the
witness has shown where it is held: they reach where slots alone would be too many.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from hardmax.checker._budget import CALL, charge
from hardmax.checker.sequences._stream import Overflow, TooLarge, balls_of
from hardmax.checker.sequences._word_search import WordSearch
from hardmax.checker.sequences.registers import (
    RegisterMemory,
    bound_by_registers,
    picks_from_many,
)
from hardmax.checker.sequences.slots import SlotMemory, bound_by_slots
from hardmax.checker.sequences.words import enclose_words
from hardmax.core import Construction, Host, SequenceSteps
from hardmax.numerics import FORMATS, Format, MidRadius


@dataclass(frozen=True, eq=False)
class Memory:
    """What the methods have found out once and for all, each for itself."""

    slots: SlotMemory = field(default_factory=SlotMemory)
    registers: RegisterMemory = field(default_factory=RegisterMemory)


class LengthQuestion(NamedTuple):
    """For all words of one length in one format: how far is the Transformer from these steps?"""

    construction: Construction
    steps: SequenceSteps
    length: int
    format: Format
    host: Host | None


def _by_registers(asked: LengthQuestion, memory: Memory) -> tuple[float, int]:
    """That each coordinate holds one value of the target, step by step.

    Costs every number of every value, once: hundreds of states are no matter.
    """
    return bound_by_registers(*asked[:-1], memory.registers, asked.host), 0


def _by_slots(asked: LengthQuestion, memory: Memory) -> tuple[float, int]:
    """That stream and target agree in every case of what a token knows of a word.

    Costs the product of the sizes of the slots that meet in one table.
    """
    return bound_by_slots(*asked[:-1], memory.slots, host=asked.host)


def _by_cuts(asked: LengthQuestion, memory: Memory) -> tuple[float, int]:
    """The same from one held value of the target to the next.

    Costs the slots between two cuts, and a comparison for each.
    """
    return bound_by_slots(*asked[:-1], memory.slots, cuts=True, host=asked.host)


@dataclass(frozen=True)
class LengthMethod:
    """To what it applies; a bound, and in how many cases it was compared.

    A method that is `alone` needs no other, in any format, once it has done it in float64.
    """

    applies: Callable[[Construction, SequenceSteps], bool]
    bound: Callable[[LengthQuestion, Memory], tuple[float, int]]
    alone: bool = False


METHODS = (
    LengthMethod(lambda _, steps: picks_from_many(steps), _by_registers, alone=True),
    LengthMethod(lambda *_: True, _by_slots),
    LengthMethod(lambda construction, _: construction.witness is not None, _by_cuts),
)


def bound_words(search: WordSearch) -> None:
    """Bound the error over all words, length by length, and then in the other formats.

    The longest words come first: they are the hardest. The first length at which the claim is not
    safe in a format ends the matter for that format.
    """
    steps = search.steps
    assert steps is not None
    search.method = "value sets"
    memory = Memory()
    methods = [method for method in METHODS if method.applies(search.construction, steps)]
    for name, format in FORMATS.items():
        worst = 0.0
        for length in reversed(search.words.lengths):
            if search.clock.is_spent:
                search.advice = f"The budget was spent at words of length {length}. Raise it."
                return
            about = search.construction, steps, length, format.sheltered
            asked = LengthQuestion(*about, search.host)
            worst = max(worst, _bound(search, asked, memory, methods))
            search.tell(f"words of length {length} in {name}")
            if not worst <= search.claimed:
                worst = math.inf
                break
        search.formats[name] = worst
        if search.formats["float64"] > search.claimed:
            return


def _bound(
    search: WordSearch, asked: LengthQuestion, memory: Memory, methods: list[LengthMethod]
) -> float:
    """The best bound of all methods; the one that did it comes first next time."""
    if asked.length == 0:
        return bound_of_empty_word(search, asked.format)
    best = math.inf
    settled = methods[0].alone and asked.format.name != "float64"  # slots would be too many
    for method in methods[:1] if settled else tuple(methods):
        best = min(best, _bound_by(method, search, asked, memory))
        if best <= search.claimed:
            methods.sort(key=lambda other: other is not method)
            return best
    return best


def _bound_by(
    method: LengthMethod, search: WordSearch, asked: LengthQuestion, memory: Memory
) -> float:
    charge(250 * CALL, 1 + len(asked.steps.outputs))
    try:
        bound, cases = method.bound(asked, memory)
    except Overflow:
        return math.inf
    except TooLarge as reason:
        search.advice = f"Words of length {asked.length} have too many cases. {reason}"
        return math.inf
    search.clock.boxes += cases
    compared = cases and asked.format.name == "float64"
    if compared and bound > search.claimed and not search.advice:
        search.advice = (
            f"Value sets give {bound:.3g} for words of length {asked.length}: the steps of the "
            f"target were not recognised in the weights, or a score gap is too small."
        )
    return bound


def bound_of_empty_word(search: WordSearch, format: Format) -> float:
    """The word without symbols is tried."""
    wanted = [Fraction(value) for row in search.wanted(()) for value in row]
    if not wanted:
        return 0.0
    try:
        ids = np.zeros((1, 0), dtype=np.int64)
        given = enclose_words(search.construction.transformer, ids, format, search.host)
    except Overflow:
        return math.inf
    middle, radius = balls_of(wanted)
    away = MidRadius(*(part.reshape(-1) for part in given)).plus(MidRadius(-middle, radius))
    return float(away.size.max())
