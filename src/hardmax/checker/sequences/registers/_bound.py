"""A bound without slots: every coordinate holds one value of the target, and the proof is local.

Machines with many states have too many cases to be followed from the symbols on. But each head and
each feed-forward layer computes steps of the target from steps of the target, register by register;
so it is enough that each of them does so for all numbers that it can be given, and that errors do
not grow. The witness says which step a coordinate is meant to hold; that is compared, not believed.
What is not recognised becomes a ball, and a ball in the answer is no bound to speak of.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from hardmax.checker._dependence import tokens_read
from hardmax.checker._hosts import NOTHING
from hardmax.checker.sequences._reading import Reading, readings
from hardmax.checker.sequences._stream import Overflow, check, check_weights, sequence_input, stored
from hardmax.checker.sequences.registers._heads import attend
from hardmax.checker.sequences.registers._state import Register, Sizes, State, near_grid
from hardmax.checker.sequences.registers._target import RootTarget
from hardmax.checker.sequences.registers._units import RegisterMemory, feed_forward
from hardmax.core import (
    SYMBOL,
    Construction,
    FeedForward,
    GatedFeedForward,
    Host,
    Picked,
    ReadOut,
    SequenceSteps,
    Transformer,
    Witness,
    Words,
)
from hardmax.numerics import FLOAT64, Format, inflate, lowest_bit, stray, up

_FEW = 4  # options that slots can follow


def picks_from_many(steps: SequenceSteps) -> bool:
    """Whether the target picks from so many values that slots are not the way."""
    return any(isinstance(step, Picked) and len(step.options) > _FEW for step in steps.steps)


def bound_by_registers(
    construction: Construction,
    steps: SequenceSteps,
    length: int,
    format: Format,
    memory: RegisterMemory,
    host: Host | None = None,
) -> float:
    """A bound on the error over all words of one length, for the reals and the format.

    Infinite if the target's steps are not found in the registers, or a host changes what is read:
    this method needs numbers that are what they should be.
    """
    transformer, words = construction.transformer, construction.claim.domain
    if length == 0:
        return math.inf
    key = (id(steps), length, len(words.alphabet))
    if key not in memory.targets:
        memory.targets[key] = RootTarget(steps, length, len(words.alphabet))
    target = memory.targets[key]
    hints = _hints(construction.witness)
    try:
        state = embed(transformer, words, length, format)
        *ways, last = readings(host, transformer, format)
        for number, (layer, reading) in enumerate(zip(transformer.sublayers, ways, strict=True)):
            state = _as_read(state, reading)
            said = hints.get(number, {})
            if isinstance(layer, GatedFeedForward):
                raise Overflow("Products of gated units are not followed in registers.")
            if isinstance(layer, FeedForward):
                symbols = feed_forward(state.symbols, layer, format, memory, said, target)
                start = state.start
                if start is not None:
                    start = feed_forward(start, layer, format, memory, {}, None)
                state = State(length, symbols, start)
            else:
                state = attend(state, layer, format, said, target)
        owed = last.owed(transformer.readout, NOTHING)
        return float(up(_error(_as_read(state, last), transformer, target, format) + owed))
    except Overflow:
        return math.inf


def _as_read(state: State, reading: Reading) -> State:
    """The registers as a host reads them, if it reads them as they are; refused if not.

    Numbers that are not on a grid may lose what a norm loses of tiny ones.
    """
    if reading.is_plain:
        return state
    charge = reading.charge(state.sizes)
    if not (charge.is_identity and reading.computes_plainly and not reading.turns):
        raise Overflow(f"In {reading.format.name} the host changes what registers read.")

    def read(register: Register) -> Register:
        if register.radius == 0.0 and np.exp2(register.grid) >= charge.safe:
            return register
        return replace(register, radius=float(up(register.radius + charge.faint)))

    start = None if state.start is None else tuple(map(read, state.start))
    return State(state.length, tuple(map(read, state.symbols)), start)


def _hints(witness: Witness | None) -> dict[int, dict[int, list[int]]]:
    """Values that single coordinates are said to hold: by sublayer, then by coordinate."""
    hints: dict[int, dict[int, list[int]]] = {}
    for holding in () if witness is None else witness.holdings:
        plain = True
        if holding.weights is not None and holding.constants is not None:
            plain = np.array_equal(holding.weights, [[1.0]]) and not holding.constants.any()
        if plain and len(holding.coordinates) == 1:
            places = hints.setdefault(holding.sublayer, {})
            places.setdefault(int(holding.coordinates[0]), []).append(holding.value)
    return hints


def embed(transformer: Transformer, words: Words, length: int, format: Format) -> State:
    """Symbols are functions of the symbol's number and of the place."""
    source = sequence_input(transformer)
    rows = [source.alphabet.index(symbol) for symbol in words.alphabet]
    first = int(source.start is not None)
    own, places = source.embedding[rows], source.positions[first : first + length]
    start = None
    if source.start is not None:
        start = _sums(None, source.start[None], source.positions[:1], format)
    return State(length, _sums(SYMBOL, own, places, format), start)


def _sums(
    root: int | None, own: np.ndarray, places: np.ndarray, format: Format
) -> tuple[Register, ...]:
    """own + place: numbers of the root x width, and places x width."""
    parts = [stored(part, format) for part in (own, places)]
    noise = sum(part.radius.max(axis=0) for part in parts)
    size = inflate(sum(np.abs(part.middle).max(axis=0) for part in parts) + noise)
    grid = np.minimum(*(lowest_bit(part.middle).min(axis=0) for part in parts))
    lost = _rounding(2, size, noise, grid, True, format)
    check(format, size + lost)
    radius = up(noise + lost)
    middle = own[None] + places[:, None]
    return tuple(Register.of(root, middle[:, :, c], radius[c]) for c in range(own.shape[1]))


def _rounding(
    terms: int, size: Sizes, noise: Sizes, grid: Sizes, held: bool, format: Format
) -> np.ndarray:
    """What a sum loses, here and in the format."""
    here = np.where(FLOAT64.is_exact(size, grid), 0.0, stray(terms + 3, size))
    there = stray(terms + 3, size, format)
    if held:
        there = np.minimum(there, near_grid(terms, size, noise, grid, format))
    return np.asarray(here + there)


def _error(state: State, transformer: Transformer, target: RootTarget, format: Format) -> float:
    """The largest difference of the answer and the target's outputs."""
    tokens, at = tokens_read(transformer, state.length + state.first), target.steps.at
    places = np.arange(state.length)
    if at is not None:
        places = places[[at]] if -state.length <= at < state.length else places[:0]
    if not np.array_equal(tokens, places + state.first):
        return math.inf
    worst = 0.0
    for row, value in enumerate(target.steps.outputs):
        worst = max(worst, _difference(state, transformer.readout, row, value, target, format))
    return worst


def _difference(
    state: State,
    readout: ReadOut,
    row: int,
    value: int,
    target: RootTarget,
    format: Format,
) -> float:
    form = target.form(value)
    columns = np.flatnonzero(readout.weights[row])
    parts = [state.symbols[c] for c in columns]
    weights, bias = readout.weights[row, columns], readout.bias[row]
    check_weights(format, weights)
    check(format, np.abs(bias))
    roots = {one.root for one in parts if one.root is not None}
    if form is None or not roots <= {form.root}:
        return math.inf
    middle = np.full((1, 1), bias)
    for weight, part in zip(weights, parts, strict=True):
        middle = middle + weight * part.middle
    sizes = np.abs(weights)
    noise = float(inflate(sizes @ [one.radius for one in parts], len(parts) + 8))
    size = float(inflate(sizes @ [one.size for one in parts] + abs(bias), len(parts) + 8))
    grids = lowest_bit(weights) + np.array([one.grid for one in parts])
    grid = float(np.min(np.append(grids, lowest_bit(np.asarray(bias)))))
    held = bool(format.holds(np.append(weights, bias)).all())
    lost = _rounding(len(parts) + 1, size, noise, grid, held, format)
    check(format, np.asarray(size + lost))
    apart = float(inflate(np.abs(middle - form.middle).max()))
    error = float(inflate(apart + noise + lost + form.away))
    return math.inf if math.isnan(error) else error
