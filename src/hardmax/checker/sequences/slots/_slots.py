"""What a token can know of a word: finitely many slots, each with finitely many values.

For words of one length, a token knows its own symbol, and learns of the others in three ways:

- *at*: the value of a slot at another token, whose place depends on slots of the asking token;
- *sum*: the sum over all tokens j of a whole number that depends on slots of j (a count, if the
  numbers are 0 and 1) and on slots of the asking token;
- *max*: the same with the largest instead of the sum.

Two more kinds of slot: *word*, which of a list of words this is, or none; and *held*, a value of
the target's steps that was found in the stream (see `_cuts`): the token knows it, and nothing else
is remembered of it.

The definitions are kept in a normal form, so that two ways to compute the same thing get the same
slot: what a token knows of itself is not asked again, constants are taken out, common factors and
signs removed, and nothing is said to depend on what it does not depend on. A head of the
Transformer and a step of its target meet here: that is how they are compared for all words without
trying any. `values` says what a slot means for one word.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hardmax.checker._budget import CALL, ENTRY, SORTED, charge
from hardmax.checker.sequences._axes import Axes, aligned, merged_axes, without_idle
from hardmax.checker.sequences._stream import TooLarge

OWN_SYMBOL = 0  # the first slot: a token's own symbol, by its number in the alphabet
LARGEST_SLOT = 2**12  # values of one slot
Whole = np.int16  # holds numbers up to that, and their differences


@dataclass(frozen=True, eq=False)
class Slot:
    """One thing that every token knows of the word.

    `table` holds places (at), whole numbers (sum) or ranks (max). It has an axis for the asking
    token, one for each slot in `asking`; and, for sums and maxima, one for the token asked and one
    for each slot in `asked`. The smallest number of each token asked is 0, so that the value is its
    own number. `possible` says which values can occur: asking token x asking slots x size.
    """

    kind: str
    size: int
    asking: Axes
    asked: Axes
    table: np.ndarray
    possible: np.ndarray


class Total(NamedTuple):
    """A sum over all tokens, as a table over slots of the asking token."""

    axes: Axes  # ascending; the slots that the question depended on among them
    numbers: np.ndarray  # asking token x axes


class Top(NamedTuple):
    """A maximum over all tokens: the rank that wins, as a table over slots of the asking token."""

    axes: Axes
    winning: np.ndarray  # asking token x axes
    ranks: np.ndarray  # as the scores; those that can never win have rank 0


class Slots:
    """The slots of words of one length; two equal definitions are one slot."""

    def __init__(self, tokens: int, first: int, symbols: int) -> None:
        self.tokens, self.first = tokens, first
        known = np.ones((tokens, symbols), dtype=bool)
        places = np.where(np.arange(tokens) >= first, np.arange(tokens), -1)
        self.slots = [Slot("own", symbols, (), (), places, known)]
        self._numbers: dict[tuple, int] = {}
        self._by_symbols: dict[tuple, int] = {}
        self.loose = False  # the target says nothing about the start token
        self.split = False  # sums are kept apart by token: no slot for the sum

    def sizes(self, axes: Axes) -> tuple[int, ...]:
        return tuple(self.slots[axis].size for axis in axes)

    # --- the three ways ---------------------------------------------------------------------

    def at(self, base: int, asking: Axes, places: np.ndarray) -> int:
        """The slot that holds what slot `base` of the token at `places` holds; -1: of no token."""
        slot = self.slots[base]
        if slot.kind == "word":
            return base
        if slot.kind in ("own", "held"):
            places = np.where(places < self.first, -1, places)
        if slot.kind == "at" and not slot.asking:
            return self.at(slot.asked[0], asking, np.where(places < 0, -1, slot.table[places]))
        asking, places = without_idle(asking, places, 1)
        itself = np.arange(self.tokens).reshape(-1, *[1] * len(asking))
        if ((places == itself) | (places < 0))[self._rows].all():
            return base
        possible = np.asarray(slot.possible.any(axis=tuple(range(1, 1 + len(slot.asking)))))
        possible = possible[places] | (places < 0)[..., None]
        return self._slot(Slot("at", slot.size, asking, (base,), places, possible))

    def held(self, value: int, possible: np.ndarray) -> int:
        """The slot of a value of the target's steps; all that is known: what it can be, and where.

        `possible` is token x number of the value.
        """
        table = value * self.tokens + np.arange(self.tokens)
        return self._slot(Slot("held", possible.shape[1], (), (), table, possible))

    def word(self, words: np.ndarray) -> int:
        """The slot that says which of some words this is, or none of them: word x place.

        Every token knows it. The words are given by the numbers of their symbols, each once.
        """
        order = np.lexsort(words.T[::-1])
        table = np.full((self.tokens, len(words)), -1, dtype=np.int64)
        table[self.first :] = words[order].T
        possible = np.ones((self.tokens, len(words) + 1), dtype=bool)
        return self._slot(Slot("word", len(words) + 1, (), (), table, possible))

    def sum(self, asking: Axes, asked: Axes, numbers: np.ndarray) -> Total:
        """The sum over all tokens of whole numbers: asking token, slots, token asked, slots.

        Each token adds at least the smallest of its numbers, or lacks at most so much of the
        largest: of the two ways to count, the one with the smaller numbers is kept.
        """
        charge(24 * CALL + 16 * ENTRY * numbers.size)
        own, numbers = without_idle(asking, numbers.astype(Whole), 1)
        numbers = self.settled(numbers, own, asked)
        inner = tuple(range(2 + len(own), numbers.ndim))
        least, most = numbers.min(axis=inner, keepdims=True), numbers.max(axis=inner, keepdims=True)
        ways = ((numbers - least, least, 1), (most - numbers, most, -1))
        said = [way[0][self.first :] for way in ways]
        up, down = (int(numbers.sum(dtype=np.int64)) for numbers in said)
        least_first = up < down
        if up == down:
            least_first = said[0].astype(">i2").tobytes() <= said[1].astype(">i2").tobytes()
        counted, base, sign = ways[0] if least_first else ways[1]
        axes, found = self._heard(own, asked, counted, "sum")
        offset = _summed(base, len(own))
        every = tuple(sorted({*asking, *axes}))
        total = aligned(offset, own, every) + sign * aligned(found, axes, every)
        return Total(every, np.broadcast_to(total, (self.tokens, *self.sizes(every))))

    def max(
        self, asking: Axes, asked: Axes, scores: np.ndarray, same: float | np.ndarray = 0.0
    ) -> Top:
        """The largest score over all tokens, -inf where a token is not seen.

        Neighbours that differ by at most `same` (per asking token and slots) have one rank.
        """
        charge(24 * CALL + (SORTED + 16 * ENTRY) * scores.size)
        scores = self.settled(scores, asking, asked)
        ranks = _ranks(scores, len(asking), np.asarray(same))
        axes, found = self._heard(asking, asked, ranks, "max")
        every = tuple(sorted({*asking, *axes}))
        shape = (self.tokens, *self.sizes(every))
        return Top(every, np.broadcast_to(aligned(found, axes, every), shape), ranks)

    def _heard(
        self, asking: Axes, asked: Axes, numbers: np.ndarray, kind: str
    ) -> tuple[Axes, np.ndarray]:
        """The sum or the maximum over all tokens of numbers whose smallest, for each token, is 0.

        If no more than one token can have anything but its smallest number, it is what that token
        says; otherwise it is a new slot. The start token may differ from the others in this.
        """
        bare, asked, numbers = self._bare(asking, asked, numbers)
        most = numbers.max(axis=tuple(range(2 + len(bare), numbers.ndim)))
        speaks = most > 0
        crowd = speaks.sum(axis=-1) > 1
        if not crowd.any():
            return self._heard_from_one(bare, asked, numbers, speaks)
        if numbers[self.first :].any() and not crowd[self.first :].any():
            rest, start = numbers.copy(), numbers.copy()
            rest[: self.first], start[self.first :] = 0, 0
            parts = [self._heard(bare, asked, part, kind) for part in (rest, start)]
            every = tuple(sorted({*parts[0][0], *parts[1][0]}))
            return every, np.asarray(sum(aligned(part, axes, every) for axes, part in parts))
        factor = int(np.gcd.reduce(numbers, axis=None)) if kind == "sum" else 1
        highest = most.sum(axis=-1, dtype=np.int64) if kind == "sum" else most.max(axis=-1)
        size = int(highest.max()) // factor + 1
        if size > LARGEST_SLOT:
            raise TooLarge(f"A {kind} has {size} possible values.")
        possible = factor * np.arange(size) <= highest[..., None]
        slot = self._slot(Slot(kind, size, bare, asked, numbers // factor, possible))
        value = factor * np.arange(self.slots[slot].size)
        return (slot,), np.broadcast_to(value, (self.tokens, len(value)))

    def _heard_from_one(
        self, asking: Axes, asked: Axes, numbers: np.ndarray, speaks: np.ndarray
    ) -> tuple[Axes, np.ndarray]:
        places = np.where(speaks.any(axis=-1), speaks.argmax(axis=-1), -1)
        learnt = tuple(self.at(axis, asking, places) for axis in asked)
        outer, inner = places.shape, numbers.shape[2 + len(asking) :]
        flat = numbers.reshape(-1, self.tokens, *inner)
        said = flat[np.arange(len(flat)), places.reshape(-1)].reshape(*outer, *inner)
        silent = (places < 0).reshape(*outer, *[1] * len(inner))
        said = np.where(silent, 0, said.astype(np.int64))
        return merged_axes((*asking, *learnt), said)

    # --- the normal form --------------------------------------------------------------------

    def settled(self, numbers: np.ndarray, asking: Axes, asked: Axes) -> np.ndarray:
        """The same wherever it can matter; what cannot happen repeats what can.

        Asking about itself, or about a token whose slot it has learnt, a token knows the answer;
        and a token asked does not hold values that are impossible for it.

        Let P(e) put what the asking token knows into a case e of the slots of one token asked, so
        P P = P. A case takes the number of P(e) if that is possible, else that of P(f) for the
        first f whose P(f) is possible. Either is possible and its own P, so it keeps its number,
        and to settle again changes nothing. (If no P(f) is possible, all take one number.) Whoever
        cuts at a floor of settled scores, and then asks for ranks, which are settled and cut at a
        floor again, relies on it: otherwise a score could lie above the one floor and below the
        other, where its rank is that of the largest.
        """
        known = self._known(asking, asked)
        numbers = _known_put_in(numbers, known, len(asking))
        possible = self.possible(asked)
        if possible.all():
            return numbers
        possible = possible.reshape(self.tokens, -1)
        if known:
            shape = numbers.shape[1 + len(asking) :]
            cases = np.broadcast_to(possible.reshape(shape), numbers.shape)
            cases = _known_put_in(cases, known, len(asking))
            possible = cases.reshape(*numbers.shape[: 2 + len(asking)], -1)
        return _filled(numbers, possible, 1 + len(asking))

    def _known(self, asking: Axes, asked: Axes) -> list[tuple[int, int, np.ndarray]]:
        """Which slot of the asking token is which slot of the token asked, and where that is."""
        found = []
        for a, axis in enumerate(asking):
            slot = self.slots[axis]
            if axis in asked:
                found.append((a, asked.index(axis), np.arange(self.tokens)))
            if slot.kind == "at" and not slot.asking and slot.asked[0] in asked:
                found.append((a, asked.index(slot.asked[0]), slot.table))
        return found

    @staticmethod
    def _bare(asking: Axes, asked: Axes, numbers: np.ndarray) -> tuple[Axes, Axes, np.ndarray]:
        asked, numbers = without_idle(asked, numbers, 2 + len(asking))
        asking, numbers = without_idle(asking, numbers, 1)
        return asking, asked, numbers

    def feasible(self, asking: Axes, asked: Axes) -> np.ndarray:
        """Which values can come together: asking token, its slots, token asked, its slots."""
        shape = (self.tokens, *self.sizes(asking), self.tokens, *self.sizes(asked))
        possible = self.possible(asked).reshape(1, *[1] * len(asking), *shape[1 + len(asking) :])
        total = np.broadcast_to(possible, shape).copy()
        charge(12 * CALL + 2 * ENTRY * total.size)
        pairs = np.moveaxis(total, 1 + len(asking), 1)
        for a, b, places in self._known(asking, asked):
            rows = np.flatnonzero(places >= 0)
            both = (a, len(asking) + b)
            size = [shape[1 + a] if i in both else 1 for i in range(pairs.ndim - 2)]
            pairs[rows, places[rows]] &= np.eye(shape[1 + a], dtype=bool).reshape(size)
        return total

    def possible(self, axes: Axes) -> np.ndarray:
        """Which joint values of some slots a token may hold: token x sizes; never wrongly False."""
        total = np.ones((self.tokens, *self.sizes(axes)), dtype=bool)
        charge((12 * CALL + ENTRY * total.size) * (1 + len(axes)))
        for axis in axes:
            slot = self.slots[axis]
            gone = tuple(1 + i for i, other in enumerate(slot.asking) if other not in axes)
            kept = tuple(other for other in slot.asking if other in axes)
            total &= aligned(np.asarray(slot.possible.any(axis=gone)), (*kept, axis), axes)
        # every token holds something: where nothing seems possible, nothing is known
        return total | ~total.any(axis=tuple(range(1, total.ndim)), keepdims=True)

    @property
    def _rows(self) -> slice:
        return slice(self.first if self.loose else 0, None)

    def _slot(self, slot: Slot) -> int:
        """The number of a slot: an old one if it is defined alike."""
        of_symbols = _definition(slot, slot.table[self.first :])
        if self.loose and of_symbols in self._by_symbols:
            return self._by_symbols[of_symbols]
        key = _definition(slot, slot.table)
        if key not in self._numbers:
            self._numbers[key] = len(self.slots)
            self._by_symbols.setdefault(of_symbols, len(self.slots))
            self.slots.append(slot)
        return self._numbers[key]

    def for_symbols(self, axis: int) -> int:
        """A slot that is the same for all tokens but the start token: the first such."""
        slot = self.slots[axis]
        rows, places = slot.table[self.first :], np.arange(self.first, self.tokens)
        if slot.kind == "at" and not slot.asking and (rows == places).all():
            return self.for_symbols(slot.asked[0])
        return self._by_symbols.get(_definition(slot, rows), axis)

    def seen_from(self, axis: int, token: int) -> tuple[tuple, np.ndarray]:
        """What a slot of one token is, told without the token, and the values that it can have.

        Two slots of two tokens with the same tale have the same values, number by number.
        """
        slot = self.slots[axis]
        everything = np.arange(slot.size)
        if slot.kind == "own":
            return ("own", token), everything
        if slot.kind == "word":
            return ("word", slot.table.tobytes()), everything
        if slot.kind == "at" and not slot.asking:
            place = int(slot.table[token])
            return self.seen_from(slot.asked[0], place) if place >= 0 else ((), everything[:1])
        asking = tuple(self.seen_from(other, token)[0] for other in slot.asking)
        possible = slot.possible[token].reshape(-1, slot.size).any(axis=0)
        return (*_definition(slot, slot.table[token]), asking), np.flatnonzero(possible)

    # --- the meaning ------------------------------------------------------------------------

    def values(self, word: list[int]) -> list[list[int]]:
        """The number of every slot's value at every token, for a word given by symbol numbers."""
        values = [[0] * self.first + list(word)]
        for slot in self.slots[1:]:
            values.append([self._value(slot, values, t) for t in range(self.tokens)])
        return values

    def _value(self, slot: Slot, values: list[list[int]], t: int) -> int:
        if slot.kind == "held":
            raise ValueError("What a held slot says is known to the target alone.")
        if slot.kind == "word":
            own_word = np.array(values[OWN_SYMBOL][self.first :])
            same = (slot.table[self.first :] == own_word[:, None]).all(axis=0)
            return int(same.argmax()) if same.any() else slot.size - 1
        own = slot.table[(t, *(values[axis][t] for axis in slot.asking))]
        if slot.kind == "at":
            return values[slot.asked[0]][own] if own >= 0 else 0
        heard = [own[(j, *(values[axis][j] for axis in slot.asked))] for j in range(self.tokens)]
        return int(max(heard)) if slot.kind == "max" else int(sum(heard))


def _summed(numbers: np.ndarray, asking: int) -> np.ndarray:
    """The sum over the tokens asked, whose slots have one value left each."""
    return np.asarray(numbers.sum(axis=tuple(range(1 + asking, numbers.ndim)), dtype=np.int64))


def _definition(slot: Slot, rows: np.ndarray) -> tuple:
    return slot.kind, slot.asking, slot.asked, rows.shape, rows.tobytes()


def _diagonal(array: np.ndarray, first: int, second: int) -> np.ndarray:
    """Along the second axis, everywhere the entry whose index is that of the first axis."""
    shape = [1] * array.ndim
    shape[first] = array.shape[first]
    index = np.arange(array.shape[first]).reshape(shape)
    one = list(array.shape)
    one[second] = 1
    same = np.take_along_axis(array, np.broadcast_to(index, one), axis=second)
    return np.broadcast_to(same, array.shape)


def _known_put_in(
    numbers: np.ndarray, known: list[tuple[int, int, np.ndarray]], asking: int
) -> np.ndarray:
    """Where the asking token knows a slot of the token asked, the number for that, whatever else.

    `asking` is how many slots the asking token has.
    """
    if not known:
        return numbers
    numbers = numbers.copy()
    pairs = np.moveaxis(numbers, 1 + asking, 1)  # a view: asking token, token asked, slots
    for a, b, places in known:
        rows = np.flatnonzero(places >= 0)
        here = pairs[rows, places[rows]]
        pairs[rows, places[rows]] = _diagonal(here, 1 + a, 1 + asking + b)
    return numbers


def _filled(numbers: np.ndarray, possible: np.ndarray, token: int) -> np.ndarray:
    """At each token asked, cases that are not possible repeat the first that is."""
    shape = numbers.shape
    flat = numbers.reshape(*shape[: token + 1], -1)
    first = possible.argmax(axis=-1)[..., None]
    index = np.where(possible, np.arange(possible.shape[-1]), first)
    index = np.broadcast_to(index, flat.shape)
    return np.take_along_axis(flat, index, axis=-1).reshape(shape)


def _ranks(scores: np.ndarray, asking: int, same: np.ndarray) -> np.ndarray:
    """The rank of each score among those that can be the largest, for each asking token and slot.

    Every token has at least the smallest of its scores, so the largest of these is surpassed or
    attained whatever the word: lower scores never win, and count as equal to it.
    """
    inner = tuple(range(2 + asking, scores.ndim))
    floor = scores.min(axis=inner).max(axis=-1)
    clipped = np.maximum(scores, floor.reshape(*floor.shape, *[1] * (scores.ndim - floor.ndim)))
    flat = clipped.reshape(int(np.prod(floor.shape)), -1)
    order = np.argsort(flat, axis=1, kind="stable")
    ordered = np.take_along_axis(flat, order, axis=1)
    steps = np.zeros(flat.shape, dtype=np.int64)
    same = np.broadcast_to(same, floor.shape).reshape(-1, 1)
    steps[:, 1:] = (ordered[:, 1:] > ordered[:, :-1] + same).cumsum(axis=1)
    ranks = np.empty_like(steps)
    np.put_along_axis(ranks, order, steps, axis=1)
    return ranks.reshape(scores.shape)
