"""Hidden units that are on for one word only.

A pre-activation that is a sum of tables, one for the symbol at each place, is largest for the word
of the largest entries, and any other word is lower by the smallest gap between the two largest
entries of a table. If that leaves nothing above 0, then the unit says whether the word is that one:
a function of a *word* slot, however many words there are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hardmax.checker.sequences._axes import Axes
from hardmax.checker.sequences._layers import feed_forward as shared_feed_forward
from hardmax.checker.sequences._layers import passed_units
from hardmax.checker.sequences._reading import Reading
from hardmax.checker.sequences._stream import Stream
from hardmax.checker.sequences.slots._slots import OWN_SYMBOL, Slots
from hardmax.core import FeedForward
from hardmax.numerics import MidRadius, inflate, stray


def feed_forward(stream: Stream, layer: FeedForward, reading: Reading, slots: Slots) -> Stream:
    """A feed-forward layer where words are told by all of their tokens, so that none is left out.

    Of the start token only the ranges are kept, so that it does not keep blocks alive.
    """
    if not slots.split:
        return shared_feed_forward(stream, layer, reading)
    part = passed_units(stream, layer, reading, lambda read: indicators(read, slots))
    first = slots.first
    ball = MidRadius.between(*(end[:first] for end in part.range))
    blocks = {axes: MidRadius(*(side.copy() for side in t)) for axes, t in part.blocks.items()}
    for table in blocks.values():
        table.middle[:first], table.radius[:first] = 0.0, 0.0
    blocks[()].middle[:first], blocks[()].radius[:first] = ball
    return Stream(blocks, part.grid, part.lead).trimmed()


class _Best(NamedTuple):
    """For each coordinate, at the symbols' tokens: the best word, and bounds on what it gets."""

    word: np.ndarray  # place x coordinate: symbol numbers
    value: MidRadius  # token x coordinate: the pre-activation for that word
    runner_up: np.ndarray  # token x coordinate: at most this for any other word


def indicators(part: Stream, slots: Slots) -> tuple[Axes, MidRadius] | None:
    """relu of a stream whose coordinates are on for at most one word each, or None.

    Of the start token only the range is kept.
    """
    tables = _by_place(part, slots)
    if tables is None:
        return None
    best = _best(part, tables, slots)
    if best is None or (best.runner_up > 0.0).any():
        return None
    on = (best.value.high > 0.0).any(axis=0)
    if not on.any():
        return (), _with_start(part, slots, MidRadius.point(np.zeros((slots.tokens, part.width))))
    words, number = np.unique(best.word[:, on].T, axis=0, return_inverse=True)
    slot = slots.word(words)
    order = np.lexsort(words.T[::-1])
    place = np.argsort(order)[number.reshape(-1)]
    shape = (slots.tokens, len(words) + 1, part.width)
    middle, radius = np.zeros(shape), np.zeros(shape)
    columns = np.flatnonzero(on)
    for found, values in ((middle, best.value.middle), (radius, best.value.radius)):
        found[slots.first :, place, columns] = values[:, columns]
    below = middle <= -radius
    table = MidRadius(np.where(below, 0.0, np.maximum(middle, 0.0)), np.where(below, 0.0, radius))
    return (slot,), _with_start(part, slots, table)


def _by_place(part: Stream, slots: Slots) -> list[MidRadius] | None:
    """The table of each place, symbols in order; None unless there is exactly one for each."""
    found: dict[int, MidRadius] = {}
    for axes, table in part.blocks.items():
        if not axes:
            continue
        slot = slots.slots[axes[0]]
        if len(axes) > 1 or slot.kind != "at" or slot.asking or slot.asked != (OWN_SYMBOL,):
            return None
        places = np.unique(slot.table[slots.first :])
        if len(places) != 1 or int(places[0]) in found:
            return None
        found[int(places[0])] = MidRadius(*(side[slots.first :] for side in table))
    wanted = range(slots.first, slots.tokens)
    return [found[place] for place in wanted] if sorted(found) == list(wanted) else None


def _best(part: Stream, tables: list[MidRadius], slots: Slots) -> _Best | None:
    middle, radius = (side[slots.first :].copy() for side in part.blocks[()])
    top = MidRadius(middle, radius).high
    least_gap = np.full(middle.shape, np.inf)
    word = []
    size = np.abs(middle)
    for table in tables:
        high = table.high
        ranked = np.sort(high, axis=1)
        choice = high[0].argmax(axis=0)
        picked = np.take_along_axis(high, choice[None, None, :].repeat(len(high), 0), axis=1)[:, 0]
        if high.shape[1] > 1:
            if (picked < ranked[:, -1]).any():
                return None  # the tokens do not agree on the best symbol
            least_gap = np.minimum(least_gap, ranked[:, -1] - ranked[:, -2])
        index = choice[None, None, :].repeat(len(high), 0)
        middle += np.take_along_axis(table.middle, index, axis=1)[:, 0]
        radius += np.take_along_axis(table.radius, index, axis=1)[:, 0]
        size += np.abs(table.middle).max(axis=1)
        top = top + picked
        word.append(choice)
    spare = stray(4 * (len(tables) + 4), size)
    radius = inflate(radius + spare, len(tables) + 2)
    runner_up = np.where(np.isinf(least_gap), -np.inf, top - least_gap + 2 * spare)
    return _Best(np.stack(word), MidRadius(middle, radius), runner_up)


def _with_start(part: Stream, slots: Slots, table: MidRadius) -> MidRadius:
    """The same with the range of relu at the start token."""
    ball = MidRadius.between(*(np.maximum(end[: slots.first], 0.0) for end in part.range))
    shape = (slots.first, *[1] * (table.middle.ndim - 2), part.width)
    for side, start in zip(table, ball, strict=True):
        side[: slots.first] = start.reshape(shape)
    return table
