"""What a head writes, for all words of one length at once: the mean of the winners' values.

One winner: the value of the token *at* a place. A set of winners that does not depend on the word:
a *sum* over them, divided by a constant. Winners that depend on the word: one sum divided by
another, their count. A softmax adds what it leaks to others, at most leak times the distance
between values.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hardmax.checker._budget import CALL, charge
from hardmax.checker.sequences._axes import Axes, aligned, without_idle
from hardmax.checker.sequences._layers import tidied, updated
from hardmax.checker.sequences._reading import Reading
from hardmax.checker.sequences._scores import is_hard, seen_pairs
from hardmax.checker.sequences._stream import (
    LARGEST_TABLE,
    Blocks,
    Stream,
    TooLarge,
    check,
    check_sums,
    strays,
)
from hardmax.checker.sequences.slots._choices import (
    LARGEST_CHOICE,
    AsRead,
    Choice,
    check_scores,
    choose,
)
from hardmax.checker.sequences.slots._graded import Graded, graded
from hardmax.checker.sequences.slots._slots import LARGEST_SLOT, Slots, Total, Whole
from hardmax.core import Attention, Head
from hardmax.numerics import (
    FLOAT64,
    UNIT,
    Format,
    MidRadius,
    inflate,
    lowest_bit,
    matmul_up,
    product_up,
    stray,
    up,
)

_NOISE = 2.0**-20  # relative: differences below are noise, and become radius
_COARSE = 2.0**-8  # the same for values that are only nearly multiples of one unit
# relative: weights that differ by less are one, and the difference is charged
_ALIKE = 2.0**13 * UNIT


def attend(stream: Stream, layer: Attention, slots: Slots, reading: Reading) -> Stream:
    """All heads of a layer, added to the stream."""
    format = reading.for_attention
    read = AsRead(reading.of(stream), reading.keys(stream))
    changes = [(_head(read, head, slots, format), head.output) for head in layer.heads]
    return tidied(updated(stream, changes, None, format))


def _head(read: AsRead, head: Head, slots: Slots, format: Format) -> Stream:
    charge(500 * CALL)
    values = tidied(read.stream.affine(head.value, None, format))
    seen = seen_pairs(head, slots.tokens)
    low, high = _seen_range(values, seen)
    hull, most = MidRadius.between(low, high), np.maximum(np.abs(low), np.abs(high))
    if not is_hard(head):
        check_sums(format, slots.tokens, most)
    try:
        weights = graded(read, head, slots, format)
        if weights is not None:
            return _weighted(weights, values, slots, format)
    except TooLarge:
        pass  # the largest weight may still decide
    try:
        choice = choose(read, head, slots, format)
        mixer = _Mixer(choice, values, slots)
        mixed = mixer.mixed()
    except TooLarge:
        lost = _lost(slots.tokens, most, format)
        check(format, most + lost)
        check_scores(read, head, format)
        return Stream({(): MidRadius(hull.middle, up(hull.radius + lost))}, values.grid, 1)
    astray = _most(choice.leak + choice.tilt)[:, None]
    size = mixer.size + np.minimum(astray, 1.0) * most
    crowded = _most(choice.by_token.sum(axis=-1))[:, None] > 1
    crowded |= (not is_hard(head)) & (seen.sum(axis=1, keepdims=True) > 1)
    lost = np.where(crowded, _lost(slots.tokens, inflate(size), format), 0.0)
    check(format, size + lost)
    blur = inflate(astray * (high - low) + lost)
    mixed.add((), MidRadius(np.zeros(blur.shape), blur))
    return tidied(Stream(mixed.tables, values.grid, 1))


def _weighted(given: Graded, values: Stream, slots: Slots, format: Format) -> Stream:
    """A weighted sum of values; its errors are relative to the weights of what is not 0."""
    size = inflate(given.weights @ values.magnitude, slots.tokens + 8)
    result = Blocks(slots.tokens, values.width)
    for axes, table in values.blocks.items():
        if not axes:
            result.add((), _mean_of(given.weights, table))
            continue
        for row in range(values.width):
            column = MidRadius(table.middle[..., row], table.radius[..., row])
            if not column.is_zero:
                _add_graded(result, given, axes, column, row, slots)
    leak = given.leak[:, None] * values.magnitude.max(axis=0)
    lost = _lost(slots.tokens, size, format)
    blur = inflate(given.error[:, None] * size + 2 * leak + lost)
    check(format, size + blur)
    result.add((), MidRadius(np.zeros(blur.shape), blur))
    return tidied(Stream(result.tables, values.grid, 1))


def _mean_of(share: np.ndarray, table: MidRadius) -> MidRadius:
    """Weighted sums of values that depend on the token alone."""
    tokens = share.shape[-1]
    lost = stray(tokens + 3, matmul_up(share, np.abs(table.middle)))
    return MidRadius(share @ table.middle, up(matmul_up(share, table.radius) + lost))


def _add_apart(
    result: Blocks, given: Graded, axes: Axes, column: MidRadius, row: int, slots: Slots
) -> None:
    """One table for each token asked, over its slots: a sum that is not added up."""
    for j in range(slots.tokens):
        learnt = tuple(slots.at(axis, (), np.full(slots.tokens, j)) for axis in axes)
        share = given.weights[:, j].reshape(-1, *[1] * len(axes))
        middle = share * column.middle[j]
        lost = stray(1, product_up(share, np.abs(column.middle[j])))
        radius = up(product_up(share, column.radius[j]) + lost)
        result.add(learnt, _in_row(MidRadius(middle, radius), row, result.width))


def _add_graded(
    result: Blocks, given: Graded, axes: Axes, column: MidRadius, row: int, slots: Slots
) -> None:
    """base_j + unit * (a whole number), of which those that vary must have one weight in a row."""
    if slots.split:
        return _add_apart(result, given, axes, column, row, slots)
    tokens = slots.tokens
    base = column.middle.reshape(tokens, -1)[:, 0]
    lattice = _lattice(column.middle - base.reshape(-1, *[1] * len(axes)))
    flat = column.middle.reshape(tokens, -1)
    numbers = lattice.numbers.reshape(tokens, -1)
    varies = numbers.any(axis=1)
    residue = np.abs((flat - base[:, None]) - lattice.unit * numbers).max(axis=1)
    moves = (flat != base[:, None]).any(axis=1)
    rounding = np.where(moves, stray(8, np.abs(flat).max(axis=1)), 0.0)
    radius = inflate(column.radius.reshape(tokens, -1).max(axis=1) + residue + rounding)
    result.add((), _in_row(_mean_of(given.weights, MidRadius(base, radius)), row, result.width))
    counts = varies & (given.weights > 0.0)
    most = np.where(counts, given.weights, 0.0).max(axis=1)
    least = np.where(counts, given.weights, np.inf).min(axis=1)
    if (most > np.where(np.isinf(least), 0.0, least) * (1 + _ALIKE)).any():
        raise TooLarge("The tokens of a weighted sum have different weights.")
    chosen = counts.reshape(*counts.shape, *[1] * len(axes))
    total = slots.sum((), axes, chosen * lattice.numbers)
    middle = total.numbers * aligned(lattice.unit * most, (), total.axes)
    size = (counts * np.abs(numbers).max(axis=1)).sum(axis=1) * (lattice.unit * most)
    slack = np.broadcast_to(aligned(4 * _ALIKE * size, (), total.axes), middle.shape)
    result.add(total.axes, _in_row(MidRadius(middle, slack), row, result.width))


def _lost(tokens: int, size: np.ndarray, format: Format) -> np.ndarray:
    """The rounding of a weighted mean whose weights and values make up `size`."""
    return strays(2 * tokens + 8, size, format)


def _most(rows: np.ndarray) -> np.ndarray:
    """The largest over all slots, for each token."""
    return np.asarray(rows.max(axis=tuple(range(1, rows.ndim))))


def _seen_range(values: Stream, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bounds on the values of the tokens that each token sees: token x value width."""
    low, high = values.range
    low = np.where(seen[..., None], low, np.inf).min(axis=1)
    return low, np.where(seen[..., None], high, -np.inf).max(axis=1)


class _Mixer:
    """The mean of the winners' values, as tables over the asking token's slots and new ones."""

    def __init__(self, choice: Choice, values: Stream, slots: Slots) -> None:
        self.choice, self.values, self.slots = choice, values, slots
        self.tokens = slots.tokens
        self.result = Blocks(self.tokens, values.width)
        self.asking = choice.asking
        self.chosen = choice.by_token
        self.count = self.chosen.sum(axis=-1)
        self.clear = bool((choice.clear | (self.count <= 1)).all())
        self.size = np.zeros((self.tokens, values.width))  # bounds the mean of |values|

    def mixed(self) -> Blocks:
        inner = tuple(range(2 + len(self.asking), self.choice.winners.ndim))
        always = self.choice.winners.all(axis=inner)
        if (self.count <= 1).all():
            self._one_winner()
        elif self.clear and (always == self.chosen).all():
            self._fixed_winners()
        else:
            for row in range(self.values.width):
                self._winners_by_word(row)
        return self.result

    def _one_winner(self) -> None:
        places = np.where(self.count == 1, self.chosen.argmax(axis=-1), -1)
        own, places = without_idle(self.asking, places)
        nobody = places < 0
        sizes = np.where(nobody[..., None], 0.0, self.values.magnitude[places])
        self.size = sizes.max(axis=tuple(range(1, nobody.ndim)))
        for axes, table in self.values.blocks.items():
            learnt = tuple(self.slots.at(axis, own, places) for axis in axes)
            empty = nobody.reshape(*nobody.shape, *[1] * (len(axes) + 1))
            taken = MidRadius(*(np.where(empty, 0.0, part[places]) for part in table))
            self.result.add((*own, *learnt), taken)

    def _fixed_winners(self) -> None:
        """Everybody's share is 1/count, whatever the word."""
        share = self.chosen / np.maximum(self.count, 1)[..., None]
        size = inflate(share @ self.values.magnitude, self.tokens + 8)
        self.size = size.max(axis=tuple(range(1, size.ndim - 1)))
        for axes, table in self.values.blocks.items():
            if not axes:
                self._add_mean(share, table)
                continue
            for row in range(self.values.width):
                column = MidRadius(table.middle[..., row], table.radius[..., row])
                if not column.is_zero:
                    self._add_sum(share, axes, column, row)

    def _add_mean(self, share: np.ndarray, table: MidRadius) -> None:
        """The part of the values that depends on the token alone."""
        self.result.add(self.asking, _mean_of(share, table))

    def _add_sum(self, share: np.ndarray, axes: Axes, column: MidRadius, row: int) -> None:
        """The part that depends on slots of the winners: base_j + unit * (a whole number)."""
        base = column.middle.reshape(self.tokens, -1)[:, 0]
        lattice = _lattice(column.middle - base.reshape(-1, *[1] * len(axes)))
        spare = stray(2, float(np.abs(column.middle).max())) + lattice.residue
        radius = inflate(column.radius.max(axis=tuple(range(1, column.radius.ndim))) + spare)
        self._add_mean(share, _in_row(MidRadius(base, radius), row, self.values.width))
        total = self._total(axes, lattice.numbers)
        scale = lattice.unit / np.maximum(self.count, 1)
        self._add_total(total, scale, row)

    def _total(self, axes: Axes, numbers: np.ndarray) -> Total:
        """The sum over the winners of whole numbers that depend on the slots `axes` of each."""
        if self.chosen.size * np.prod(numbers.shape[1:], dtype=float) > LARGEST_CHOICE:
            raise TooLarge("A sum runs over too many cases.")
        chosen = self.chosen.reshape(*self.chosen.shape, *[1] * len(axes))
        return self.slots.sum(self.asking, axes, chosen * numbers)

    def _add_total(self, total: Total, scale: np.ndarray, row: int) -> None:
        """scale * total, for the scale of each asking token and slots."""
        middle = total.numbers * aligned(scale, self.asking, total.axes)
        table = MidRadius(middle, stray(2, np.abs(middle)))
        self.result.add(total.axes, _in_row(table, row, self.values.width))

    def _winners_by_word(self, row: int) -> None:
        """The sum of the winners' values divided by their count, unless all are the same.

        If it is unclear which of the winners win, then only that the mean lies among their values.
        """
        part = tidied(self.values.rows(np.array([row])))
        every = tuple(dict.fromkeys((*self.choice.asked, *part.axes)))
        winners = self._winners_over(every)
        shape = (self.tokens, *self.slots.sizes(every))
        values, radius = (
            np.broadcast_to(aligned(table[..., 0], part.axes, every), shape)
            for table in part.joined()
        )
        inner = tuple(range(1 + len(self.asking), winners.ndim))
        low = np.where(winners, values, np.inf).min(axis=inner)
        high = np.where(winners, values, -np.inf).max(axis=inner)
        loose = np.where(winners, radius, 0.0).max(axis=inner)
        low, high = (np.where(np.isfinite(end), end, 0.0) for end in (low, high))  # nobody: 0
        alike = high - low <= np.abs(values).max() * _NOISE
        if self.clear and not alike[self.slots.first :].all():  # of the start token, the range
            self._add_quotient(row, every, winners, values, loose)
            return
        middle, spread = MidRadius.between(low, high)
        self.size[:, row] = _most(np.maximum(np.abs(low), np.abs(high)) + loose)
        table = MidRadius(middle, up(spread + loose))
        self.result.add(self.asking, _in_row(table, row, self.values.width))

    def _winners_over(self, every: Axes) -> np.ndarray:
        """The winners, over more slots of the token asked."""
        outer = (*self.count.shape, self.tokens)
        sizes = self.slots.sizes(every)
        if np.prod(outer, dtype=float) * np.prod(sizes, dtype=float) > LARGEST_CHOICE:
            raise TooLarge("A head has too many cases of winners and values.")
        winners = self.choice.winners
        flat = winners.reshape(-1, *winners.shape[len(outer) :])
        shown = aligned(flat, self.choice.asked, every)
        return shown.reshape(*outer, *shown.shape[1:]) & self.slots.feasible(self.asking, every)

    def _add_quotient(
        self, row: int, every: Axes, winners: np.ndarray, values: np.ndarray, loose: np.ndarray
    ) -> None:
        """base + unit * sum / count; a count is at least 1, for somebody wins."""
        ever = winners.any(axis=tuple(range(1 + len(self.asking))))
        base = float(values[ever][0])
        lattice = _lattice(np.where(ever, values - base, 0.0))
        count = self.slots.sum(self.asking, every, winners.astype(Whole))
        total = self.slots.sum(self.asking, every, winners * lattice.numbers)
        axes = tuple(sorted({*count.axes, *total.axes}))
        if self.tokens * np.prod(self.slots.sizes(axes), dtype=float) > LARGEST_TABLE:
            raise TooLarge("A mean depends on too many cases of sums and counts.")
        many = aligned(count.numbers, count.axes, axes)
        found = aligned(total.numbers, total.axes, axes)
        middle = base + lattice.unit * (found / np.maximum(many, 1))
        size = abs(base) + lattice.unit * np.abs(found) + np.abs(values[ever]).max()
        radius = aligned(loose, self.asking, axes) + lattice.residue + stray(8, size)
        table = MidRadius(*np.broadcast_arrays(middle, inflate(radius)))
        sizes = np.abs(table.middle) + table.radius
        if (values[ever] < 0.0).any() and (values[ever] > 0.0).any():
            sizes = np.maximum(sizes, np.abs(values[ever]).max() + table.radius)
        self.size[:, row] = _most(np.where(self.slots.possible(axes), sizes, 0.0))
        self.result.add(axes, _in_row(table, row, self.values.width))


def _in_row(table: MidRadius, row: int, width: int) -> MidRadius:
    """A table of one coordinate, among zeros."""
    wide = [np.zeros((*table.middle.shape, width)) for _ in table]
    for part, values in zip(wide, table, strict=True):
        part[..., row] = values
    return MidRadius(*wide)


class Lattice(NamedTuple):
    """unit * numbers, up to the residue."""

    unit: float
    numbers: np.ndarray
    residue: float


def _lattice(values: np.ndarray) -> Lattice:
    """Numbers as whole multiples of one unit: of their greatest common divisor if that will do.

    Otherwise the smallest of them, divided by 1 to 8, is tried; what is left over is the residue.
    """
    size = np.abs(values)
    found = np.unique(size[size > 0.0])
    if not found.size:
        return Lattice(1.0, np.zeros(values.shape, dtype=np.int64), 0.0)
    lowest = float(lowest_bit(found).min())
    with np.errstate(over="ignore"):
        whole = np.ldexp(found, -int(lowest))
    if whole.max() < 1.0 / FLOAT64.unit:  # whole numbers up to here are float64
        unit = float(np.ldexp(float(np.gcd.reduce(whole.astype(np.int64))), int(lowest)))
        if found.max() / unit <= LARGEST_SLOT:
            return Lattice(unit, np.rint(values / unit).astype(np.int64), 0.0)
    for noise in (_NOISE, _COARSE):
        smallest = float(found[found > found.max() * noise].min())
        for part in range(1, 9):
            unit = smallest / part
            numbers = np.rint(values / unit)
            residue = float(np.abs(values - unit * numbers).max())
            if residue <= unit * noise and np.abs(numbers).max() <= LARGEST_SLOT:
                residue = inflate(residue + stray(4, float(found.max())))
                return Lattice(unit, numbers.astype(np.int64), residue)
    raise TooLarge("The values of a mean have no common unit.")
