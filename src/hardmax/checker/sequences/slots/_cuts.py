"""Values of the target that are found in the stream: from there on, nothing else is remembered.

A witness says that after some sublayer a combination of coordinates holds a value of the target's
steps. If that is so for every word, up to an error, then both sides may go on from the value alone:
it becomes a slot of its own, with as many values as there are numbers. Forgetting what the number
came from is always sound, and keeps tables small: a proof becomes a chain of short ones.

The witness is not believed: what it says is compared first, and what is not so is passed over.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import reduce
from math import gcd
from typing import NamedTuple

import numpy as np

from hardmax.checker.sequences._stream import Number, Stream, TooLarge
from hardmax.checker.sequences.slots._program import Coded, Run, Value
from hardmax.checker.sequences.slots._slots import LARGEST_SLOT, Slots
from hardmax.core import GIVEN, Holding, plain
from hardmax.numerics import FLOAT64, Format, MidRadius, above_float, inflate, lowest_bit, stray

Compare = Callable[[Stream, Value], float]  # the largest difference at a symbol's token


class Place(NamedTuple):
    """Where both sides are: the target's steps, the slots, and how to compare them."""

    run: Run
    slots: Slots
    format: Format
    compare: Compare


def cut(stream: Stream, holding: Holding, place: Place) -> Stream:
    """The stream with a held value in place of what it was made of; the same if it is not held."""
    if holding.weights is None or holding.constants is None or len(holding.weights) != 1:
        return stream
    last = GIVEN + len(place.run.steps.steps) - 1
    coordinates = holding.coordinates
    if not 0 <= holding.value <= last or (coordinates >= stream.width).any():
        return stream
    if (coordinates < 0).any() or len(set(coordinates.tolist())) < len(coordinates):
        return stream
    if not holding.weights.any():
        return stream
    run, slots, format, compare = place
    try:
        value = run.value(holding.value)
        if isinstance(value, Coded) and len(value.axes) < 2:
            return stream  # a slot of its own would be another name for the one that it has
        numbers, possible = _numbers(value, slots)
        row = np.zeros((1, stream.width))
        row[0, holding.coordinates] = holding.weights[0]
        error = compare(stream.affine(row, holding.constants, format), value)
    except TooLarge:
        return stream
    gaps = np.diff([float(number) for number in numbers])
    if len(numbers) < 2 or not error <= 0.25 * gaps.min():
        return stream
    slot = slots.held(holding.value, possible)
    run.cut(holding.value, slot, numbers)
    return _replaced(stream, row[0], float(holding.constants[0]), (slot, numbers, error), slots)


def _numbers(value: Value, slots: Slots) -> tuple[tuple[Number, ...], np.ndarray]:
    """All numbers that a value can be, ascending, and which tokens can have them.

    For a sum these are all multiples of the unit between the least and the largest.
    """
    if isinstance(value, Coded):
        return _ascending(value, _possible(value, slots))
    low = high = value.constant
    steps: list[Fraction] = []
    for weight, term in value.terms:
        known = _ascending(term, _possible(term, slots))[0]
        found = sorted(weight * Fraction(number) for number in known)
        low, high = low + found[0], high + found[-1]
        steps += [number - found[0] for number in found[1:]]
    below = reduce(lambda a, b: a * b // gcd(a, b), (s.denominator for s in steps), 1)
    unit = Fraction(reduce(gcd, (int(s * below) for s in steps), 0), below)
    if unit == 0 or (high - low) / unit >= LARGEST_SLOT:
        raise TooLarge("A value has too many numbers to be cut at.")
    numbers = tuple(plain(low + k * unit) for k in range(int((high - low) / unit) + 1))
    return numbers, np.ones((slots.tokens, len(numbers)), dtype=bool)


def _possible(value: Coded[Number], slots: Slots) -> np.ndarray:
    """Which of its numbers a value can be: token x number."""
    able = slots.possible(value.axes)
    able[: slots.first] = False
    shown = np.broadcast_to(value.codes, able.shape)
    found = np.zeros((slots.tokens, len(value.numbers)), dtype=bool)
    token = np.nonzero(able)[0]
    found[token, shown[able]] = True
    return found


def _ascending(value: Coded[Number], possible: np.ndarray) -> tuple[tuple[Number, ...], np.ndarray]:
    """The numbers that occur, in order."""
    ever = [k for k in range(len(value.numbers)) if possible[:, k].any()]
    order = sorted(ever, key=lambda k: Fraction(value.numbers[k]))
    return tuple(value.numbers[k] for k in order), possible[:, order]


def _replaced(
    stream: Stream,
    row: np.ndarray,
    constant: float,
    held: tuple[int, tuple[Number, ...], float],
    slots: Slots,
) -> Stream:
    """Solve row . x + constant = number for the last coordinate, at the symbols' tokens."""
    slot, numbers, error = held
    place = int(np.flatnonzero(row)[-1])
    scale = float(row[place])
    others = np.where(np.arange(stream.width) == place, 0.0, -row / scale)
    own = np.array([float(number) for number in numbers])
    away = np.array([above_float(abs(Fraction(float(n)) - Fraction(n))) for n in numbers])
    middle = (own - constant) / scale
    known = (error + away == 0.0) & (scale == 1.0) & (constant == 0.0)
    spare = stray(2, np.abs(own) + abs(constant))
    radius = np.where(known, 0.0, inflate((error + away + spare) / abs(scale)))
    symbols = np.arange(slots.tokens) >= slots.first
    blocks: dict[tuple[int, ...], MidRadius] = {}
    for axes, table in stream.blocks.items():
        shown = symbols.reshape(-1, *[1] * len(axes))
        mixed = table.middle @ others
        lost = stray(stream.width + 4, np.abs(table.middle) @ np.abs(others))
        loose = inflate(table.radius @ np.abs(others) + lost, stream.width + 4)
        new = MidRadius(table.middle.copy(), table.radius.copy())
        new.middle[..., place] = np.where(shown, mixed, 0.0)
        new.radius[..., place] = np.where(shown, loose, 0.0)
        blocks[axes] = new
    ends = (end[: slots.first, place] for end in stream.range)
    ball = MidRadius.between(*ends)  # of the start token only the range is kept
    for part, start in zip(blocks[()], ball, strict=True):
        part[: slots.first, place] = start
    shape = (slots.tokens, len(numbers), stream.width)
    fresh = MidRadius(np.zeros(shape), np.zeros(shape))
    fresh.middle[..., place] = symbols[:, None] * middle
    fresh.radius[..., place] = symbols[:, None] * radius
    blocks[(slot,)] = blocks[(slot,)].plus(fresh) if (slot,) in blocks else fresh
    grid = stream.grid.copy()
    grid[place] = min(
        [grid[place], lowest_bit(middle).min(), *(grid[other] for other in np.flatnonzero(others))]
    )
    if others.any():
        grid[place] = min(grid[place], float(FLOAT64.least))
    return Stream(blocks, grid, stream.lead).trimmed()
