"""Transformer and target side by side on the slots of words of one length."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from hardmax.checker._dependence import tokens_read
from hardmax.checker.sequences._axes import Axes
from hardmax.checker.sequences._layers import read_out, tidied, without_small
from hardmax.checker.sequences._reading import Reading, readings
from hardmax.checker.sequences._stream import (
    Blocks,
    Number,
    Stream,
    TooLarge,
    balls_of,
    sequence_input,
    stored,
)
from hardmax.checker.sequences.slots._cuts import Compare, Place, cut
from hardmax.checker.sequences.slots._heads import attend
from hardmax.checker.sequences.slots._indicators import feed_forward
from hardmax.checker.sequences.slots._program import Coded, Run, SlotMemory, Summed, Value
from hardmax.checker.sequences.slots._slots import OWN_SYMBOL, Slots
from hardmax.core import (
    Attention,
    Construction,
    FeedForward,
    GatedFeedForward,
    Host,
    Recalled,
    SequenceSteps,
    Transformer,
    Witness,
    Words,
)
from hardmax.numerics import Format, MidRadius


def bound_by_slots(
    construction: Construction,
    steps: SequenceSteps,
    length: int,
    format: Format,
    memory: SlotMemory,
    cuts: bool = False,
    host: Host | None = None,
) -> tuple[float, int]:
    """A bound on the error over all words of one length, for the reals and the format.

    Also the number of cases of tokens and slots in which the two were compared.
    """
    transformer, words = construction.transformer, construction.claim.domain
    target = _CutTarget(steps, memory, construction.witness if cuts else None)
    change = target.cutting(format)
    ways = readings(host, transformer, format)
    slots, streams = follow_words(transformer, words, length, format, change, ways)
    answer = read_out(streams[-1], transformer.readout, ways[-1])
    wanted = target.run(slots).outputs()
    tokens = tokens_read(transformer, slots.tokens)
    worst, cases = 0.0, 0
    for row, value in enumerate(wanted):
        given = answer.rows(np.array([row]))
        if steps.at is None:
            difference = _difference(given, value, slots)
            errors = _error(difference, slots)[tokens]
        else:
            place = steps.at + length if steps.at < 0 else steps.at
            if not 0 <= place < length:
                raise TooLarge(f"The target has no row at {steps.at}.")
            places = int(tokens[0]), slots.first + place
            difference = _difference_at_one(given, value, slots, *places)
            errors = _error(difference, None)
        worst = max(worst, float(errors.max(initial=0.0)))
        cases += sum(table.middle.size for table in difference.blocks.values())
    return worst, cases


Change = Callable[[Slots, int, Stream], Stream]  # of the stream after a sublayer


def follow_words(
    transformer: Transformer,
    words: Words,
    length: int,
    format: Format,
    change: Change | None = None,
    ways: list[Reading] | None = None,
) -> tuple[Slots, list[Stream]]:
    """The stream after the embedding and after every sublayer, for all words of one length."""
    source = sequence_input(transformer)
    first = int(source.start is not None)
    slots = Slots(length + first, first, len(words.alphabet))
    stream = _embed(transformer, words, slots, format)
    if change is not None:
        stream = change(slots, -1, stream)
    streams = [stream]
    ways = readings(None, transformer, format) if ways is None else ways
    for number, sublayer in enumerate(transformer.sublayers):
        match sublayer:
            case FeedForward():
                stream = feed_forward(stream, sublayer, ways[number], slots)
            case Attention():
                stream = attend(stream, sublayer, slots, ways[number])
            case GatedFeedForward():
                raise TooLarge("Products of gated units are not followed on slots.")
        if change is not None:
            stream = change(slots, number, stream)
        streams.append(stream)
    return slots, streams


class _CutTarget:
    """The target's steps beside the Transformer: cut where the witness says, if that is wanted."""

    def __init__(self, steps: SequenceSteps, memory: SlotMemory, witness: Witness | None) -> None:
        self.steps, self.memory = steps, memory
        self.holdings = () if witness is None else witness.holdings
        self._run: Run | None = None

    def run(self, slots: Slots) -> Run:
        if self._run is None:
            self._run = Run(self.steps, slots, self.memory)
        return self._run

    def cutting(self, format: Format) -> Change:
        def change(slots: Slots, number: int, stream: Stream) -> Stream:
            slots.split = any(isinstance(step, Recalled) for step in self.steps.steps)
            for holding in self.holdings:
                if holding.sublayer == number:
                    place = Place(self.run(slots), slots, format, compared_on(slots))
                    stream = cut(stream, holding, place)
            return stream

        return change


def compared_on(slots: Slots) -> Compare:
    """How far one coordinate is from a value of the target, at symbols' tokens."""

    def compare(given: Stream, value: Value) -> float:
        errors = _error(_difference(given, value, slots), slots)[slots.first :]
        return float(errors.max(initial=0.0))

    return compare


def _embed(transformer: Transformer, words: Words, slots: Slots, format: Format) -> Stream:
    source = sequence_input(transformer)
    n, width = slots.tokens, source.width
    rows = [source.alphabet.index(symbol) for symbol in words.alphabet]
    symbols = stored(source.embedding[rows], format)
    shape = (n, len(rows), width)
    own = MidRadius(*(np.broadcast_to(part, shape).copy() for part in symbols))
    fixed = MidRadius.point(np.zeros((n, width)))
    if source.start is not None:
        start = stored(source.start, format)
        for part, row in zip((*own, *fixed), (0.0, 0.0, *start), strict=True):
            part[0] = row
    places = Stream.of(stored(source.positions[:n], format), 1)
    grids = [
        Stream.of(MidRadius.point(part.reshape(-1, width)), 1).grid for part in (own[0], fixed[0])
    ]
    tokens = Stream({(): fixed, (OWN_SYMBOL,): own}, np.minimum(*grids), 1)
    return tokens.beside(places).affine(np.tile(np.eye(width), 2), None, format)


def _difference(given: Stream, value: Value, slots: Slots) -> Stream:
    """The answer's one coordinate minus the target's value; right for the symbols' tokens."""
    blocks = Blocks(given.leading[0], 1)
    for own, table in given.blocks.items():
        axes = tuple(slots.for_symbols(axis) for axis in own)
        blocks.add(axes, MidRadius(*(_fitted(part, slots.sizes(axes)) for part in table)))
    for axes, table in _tables(value):
        blocks.add(axes, MidRadius(-table.middle, table.radius))
    return Stream(blocks.tables, given.grid, 1)


def _fitted(part: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    """With so many values of each slot: values that only the start token can have come or go."""
    for axis, size in enumerate(sizes, start=1):
        part = np.take(part, np.minimum(np.arange(size), part.shape[axis] - 1), axis=axis)
    return part


def _tables(value: Value) -> list[tuple[Axes, MidRadius]]:
    match value:
        case Coded():
            return [(value.axes, _looked_up(value, Fraction(1)))]
        case Summed():
            terms = [(term.axes, _looked_up(term, weight)) for weight, term in value.terms]
            tokens = value.terms[0][1].codes.shape[0]
            constant = balls_of([value.constant])
            return [((), MidRadius(*(np.tile(part, (tokens, 1)) for part in constant))), *terms]


def _looked_up(value: Coded[Number], weight: Fraction) -> MidRadius:
    numbers = balls_of([weight * Fraction(number) for number in value.numbers])
    return MidRadius(*(part[value.codes][..., None] for part in numbers))


def _error(difference: Stream, slots: Slots | None) -> np.ndarray:
    """The largest |difference| at each token; block by block where a joint table is too large."""
    difference = tidied(difference)
    try:
        table = difference.joined()
    except TooLarge:
        fewer = without_small(difference)
        if fewer.axes != difference.axes:
            return _error(fewer, slots)
        return _error_by_blocks(difference, slots)
    size = table.size[..., 0]
    if slots is not None:
        size = np.where(slots.possible(difference.axes), size, 0.0)
    return np.asarray(size.max(axis=tuple(range(1, size.ndim))))


def _error_by_blocks(difference: Stream, slots: Slots | None) -> np.ndarray:
    """The same from the range of each block, over the values that its slots can have."""
    tokens = difference.leading[0]
    low = high = MidRadius.point(np.zeros(tokens))
    for axes, table in difference.blocks.items():
        able = np.True_ if slots is None else slots.possible(axes)
        inner = tuple(range(1, 1 + len(axes)))
        least = np.where(able, table.low[..., 0], np.inf).min(axis=inner)
        most = np.where(able, table.high[..., 0], -np.inf).max(axis=inner)
        some = least != np.inf  # there is a case at all; one of which nothing is known is one
        low = low.plus(MidRadius.point(np.where(some, least, 0.0)))
        high = high.plus(MidRadius.point(np.where(some, most, 0.0)))
    size = np.maximum(np.abs(low.low), np.abs(high.high))
    return np.where(np.isnan(size), np.inf, size)


def _difference_at_one(given: Stream, value: Value, slots: Slots, token: int, place: int) -> Stream:
    """The same for one row, read at `token`, of a target that holds it at `place`.

    The two tokens' slots are told without the tokens, so that equal ones are one axis.
    """
    tales: dict[tuple, int] = {}
    blocks = Blocks(1, 1)
    sides = [(token, list(given.blocks.items())), (place, _tables(value))]
    for (at, tables), sign in zip(sides, (1.0, -1.0), strict=True):
        for axes, (middle, radius) in tables:
            told = [slots.seen_from(axis, at) for axis in axes]
            named = tuple(tales.setdefault(tale, len(tales)) for tale, _ in told)
            index = np.ix_(np.array([at]), *(numbers for _, numbers in told), np.array([0]))
            blocks.add(named, MidRadius(sign * middle[index], radius[index]))
    return Stream(blocks.tables, given.grid, 1)
