"""A legible model whose stream is turned: what was a coordinate becomes a direction.

The matrix Q is a product of reflections I - v v^T / 2 with v in {-1, 1}^4 on four coordinates each:
|v|^2 = 4, so each is orthogonal, and its entries are 1/2 and -1/2. A round is one reflection for
every four coordinates, drawn at random, and adds one bit to the numbers of Q, so that Q, and Q
times the short numbers that legible models are made of, are floats.

Noise moves every stored weight, zeros included, by a random multiple of a power of two, so that it
is still exact to take the weights back; the frame's grain says how large it is along the axes.

The claim is what it was: over the reals the turned model answers as the other one does, and the
checker charges what it rounds, and what noise moves. Whether that is borne is for a proof to say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from hardmax._errors import RequestError
from hardmax.core import (
    Attention,
    Circuit,
    Construction,
    FeedForward,
    Frame,
    GatedFeedForward,
    Legend,
    SequenceInput,
    Sublayer,
    Transformer,
)
from hardmax.numerics import FLOAT64, lowest_bit

MOST_ROUNDS = 12
_GRAIN = 40  # where a weight has too many digits to be turned exactly: what is meant by it
_LEGS = 4
_NOISE_BITS = 6  # of the largest multiple of the unit of noise


def rotate(model: Construction, rounds: int, chance: np.random.Generator) -> Construction:
    """The model with its stream turned by so many rounds of reflections."""
    if isinstance(rounds, bool) or not isinstance(rounds, int) or not 0 <= rounds <= MOST_ROUNDS:
        raise RequestError(f"A model is rotated by 0 to {MOST_ROUNDS} rounds, not {rounds!r}.")
    circuit = legible_circuit(model)
    if rounds == 0:
        return model
    width = model.transformer.width
    if width < _LEGS:
        raise RequestError(
            f"A stream of {width} coordinates cannot be rotated by reflections of {_LEGS}: take "
            f"more symbols or longer words."
        )
    numerators = drawn_rows(width, rounds, chance)
    rows = tuple(tuple(map(int, row)) for row in numerators)
    frame = Frame(rows, rounds)
    turning = _Turning(frame.matrix)
    turned = with_weights(model.transformer, turning)
    frame = frame if turning.exact else replace(frame, grain=_GRAIN)
    return replace(
        model,
        transformer=turned,
        legend=None if model.legend is None else Legend([], model.legend.sublayers),
        circuit=replace(circuit, frame=frame),
    )


def add_noise(model: Construction, noise: float, chance: np.random.Generator) -> Construction:
    """The model with every weight moved by at most so much."""
    if isinstance(noise, bool) or not isinstance(noise, int | float) or not 0 <= noise < 1:
        raise RequestError(f"Noise moves weights by at least 0 and less than 1, not by {noise!r}.")
    circuit = model.circuit
    assert circuit is not None
    if noise == 0:
        return model
    unit = 2.0 ** (np.floor(np.log2(noise)) - _NOISE_BITS)
    frame = circuit.frame or Frame(_identity(model.transformer.width), 0)
    moving = _Moving(int(noise / unit), unit, frame.matrix, chance)
    moved = with_weights(model.transformer, moving)
    grain = int(np.floor(-np.log2(moving.largest))) - 2
    grain = grain if frame.grain is None else min(grain, frame.grain)
    if grain < 0:
        raise RequestError(f"Noise of {noise:g} is more than the weights of this model can bear.")
    return replace(
        model,
        transformer=moved,
        legend=None if model.legend is None else Legend([], model.legend.sublayers),
        circuit=replace(circuit, frame=replace(frame, grain=grain)),
    )


def _identity(width: int) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(int(i == j) for j in range(width)) for i in range(width))


class _Moving:
    """Random multiples of a unit are added; remembers how large they are along the axes."""

    def __init__(
        self, most: int, unit: float, axes: np.ndarray, chance: np.random.Generator
    ) -> None:
        self.most, self.unit, self.axes, self.chance = most, unit, axes, chance
        self.largest = unit

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        moved = self.unit * self.chance.integers(-self.most, self.most, rows.shape, endpoint=True)
        along = moved @ self.axes if rows.ndim == 2 else moved
        self.largest = max(self.largest, float(np.abs(along).max(initial=0.0)))
        return np.asarray(rows + moved)


def legible_circuit(model: Construction) -> Circuit:
    """The circuit of a legible model that is not turned yet, or a refusal."""
    if model.circuit is None:
        raise RequestError(
            "This model is compact: it has no circuit, and what cannot be read cannot be "
            'disguised. Compile the program with route="legible".'
        )
    if model.circuit.frame is not None:
        raise RequestError("This model is disguised already: disguise the legible one.")
    return model.circuit


def drawn_rows(width: int, rounds: int, chance: np.random.Generator) -> np.ndarray:
    """2^rounds Q, in whole numbers: each round takes R to (2 I - v v^T) R, four rows at a time."""
    found = np.eye(width, dtype=np.int64)
    for _ in range(rounds):
        order = chance.permutation(width)
        doubled = 2 * found
        for first in range(0, width - _LEGS + 1, _LEGS):
            own = order[first : first + _LEGS]
            signs = chance.choice([-1, 1], _LEGS)
            doubled[own] -= np.outer(signs, signs @ found[own])
        found = doubled
    return found


class _Turning:
    """Rows times Q^T; remembers whether all of them were exact."""

    def __init__(self, axes: np.ndarray) -> None:
        self.axes, self.exact = axes, True
        self._bit = float(lowest_bit(axes).min())

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        if rows.ndim == 1:  # biases of what is read are not along the stream
            return rows
        size = np.abs(rows) @ np.abs(self.axes).T
        grid = lowest_bit(rows).min(axis=1, keepdims=True, initial=np.inf) + self._bit
        self.exact &= bool(FLOAT64.is_exact(size, grid).all())
        return np.asarray(rows @ self.axes.T)


def with_weights(
    transformer: Transformer, change: Callable[[np.ndarray], np.ndarray]
) -> Transformer:
    """Every weight changed: rows along the stream come as matrices, other numbers as vectors."""
    source, readout = transformer.input, transformer.readout
    assert isinstance(source, SequenceInput)
    assert source.start is not None
    return Transformer(
        replace(
            source,
            embedding=change(source.embedding),
            positions=change(source.positions),
            start=change(source.start[None])[0],
        ),
        [_changed(layer, change) for layer in transformer.sublayers],
        replace(readout, weights=change(readout.weights), bias=change(readout.bias)),
    )


def _changed(layer: Sublayer, change: Callable[[np.ndarray], np.ndarray]) -> Sublayer:
    match layer:
        case Attention():
            return Attention(
                replace(
                    head,
                    query=change(head.query),
                    key=change(head.key),
                    value=change(head.value),
                    output=change(head.output.T).T,
                )
                for head in layer.heads
            )
        case FeedForward():
            return FeedForward(
                change(layer.inner),
                change(layer.inner_bias),
                change(layer.outer.T).T,
                change(layer.outer_bias[None])[0],
            )
        case GatedFeedForward():
            raise RequestError("A model with gated units cannot be disguised.")
