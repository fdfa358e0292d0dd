"""One form for all networks: layers of affine rows and maxima over groups of them, then affine.

A rectifier is a maximum of one row and 0, so ReLU networks, maxout networks and max-affine maps
are chains alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from hardmax._errors import RequestError
from hardmax.languages import MaxAffine, MaxoutNetwork, PiecewiseLinear, ReluNetwork

Network = ReluNetwork | MaxoutNetwork | MaxAffine | PiecewiseLinear


@dataclass(frozen=True, eq=False)
class Layer:
    """Rows W x + b, then one number a unit: max(row, 0), or the maximum of a group of rows.

    `groups` is units x rank, padded by -1; None stands for rectifiers.
    """

    weights: np.ndarray
    biases: np.ndarray
    groups: np.ndarray | None = None

    @property
    def units(self) -> int:
        return len(self.weights) if self.groups is None else len(self.groups)

    def activated(self, rows: np.ndarray) -> np.ndarray:
        """The units' values, of magnitudes too: points x rows to points x units."""
        if self.groups is None:
            return np.maximum(rows, 0.0)
        padded = np.concatenate([rows, np.full((len(rows), 1), -np.inf)], axis=1)
        return np.asarray(padded[:, self.groups].max(axis=2))

    def winners(self, rows: np.ndarray) -> np.ndarray:
        """The row that each unit takes its value from, -1 for the 0 of a rectifier."""
        if self.groups is None:
            return np.where(rows > 0.0, np.arange(rows.shape[1]), -1)
        padded = np.concatenate([rows, np.full((len(rows), 1), -np.inf)], axis=1)
        best = padded[:, self.groups].argmax(axis=2)
        return np.asarray(np.take_along_axis(self.groups[None], best[:, :, None], axis=2)[:, :, 0])


@dataclass(frozen=True, eq=False)
class Chain:
    """Layers, then the affine output `weights @ x + biases`."""

    inputs: int
    layers: tuple[Layer, ...]
    weights: np.ndarray
    biases: np.ndarray

    @property
    def outputs(self) -> int:
        return len(self.weights)

    @cached_property
    def whole(self) -> tuple[WholeLayer, ...]:
        """All layers in whole numbers, the output last."""
        pairs = [(layer.weights, layer.biases) for layer in self.layers]
        return tuple(WholeLayer.of(W, b) for W, b in [*pairs, (self.weights, self.biases)])


@dataclass(frozen=True, eq=False)
class WholeLayer:
    """2^shift W and 2^shift b as whole numbers: floats are dyadic, so some shift does it."""

    weights: np.ndarray
    biases: np.ndarray
    shift: int

    @classmethod
    def of(cls, weights: np.ndarray, biases: np.ndarray) -> WholeLayer:
        flat = [one.as_integer_ratio() for one in [*weights.ravel().tolist(), *biases.tolist()]]
        shift = max((under.bit_length() - 1 for _, under in flat), default=0)
        whole = [over << (shift - under.bit_length() + 1) for over, under in flat]
        table = np.empty(len(whole), dtype=object)
        table[:] = whole
        return cls(table[: weights.size].reshape(weights.shape), table[weights.size :], shift)


def chain_of(network: Any) -> Chain:
    """The network as a chain."""
    match network:
        case ReluNetwork():
            pairs = list(zip(network.weights, network.biases, strict=True))
            hidden = tuple(Layer(W, b) for W, b in pairs[:-1])
            return Chain(network.inputs, hidden, *pairs[-1])
        case MaxoutNetwork():
            maxima = tuple(
                _maxima(W, b) for W, b in zip(network.weights, network.biases, strict=True)
            )
            return Chain(network.inputs, maxima, np.eye(network.outputs), np.zeros(network.outputs))
        case MaxAffine():
            return chain_of(PiecewiseLinear(network))
        case PiecewiseLinear():
            return _difference(network)
    raise RequestError(
        "Lines go through a ReluNetwork, a MaxoutNetwork, a MaxAffine or a PiecewiseLinear, not "
        f"through a {type(network).__name__}."
    )


def _maxima(W: np.ndarray, b: np.ndarray) -> Layer:
    """A layer of pieces x out x in; row = piece * out + unit."""
    pieces, out, into = W.shape
    groups = np.arange(pieces * out).reshape(pieces, out).T
    return Layer(W.reshape(pieces * out, into), b.reshape(-1), np.ascontiguousarray(groups))


def _difference(network: PiecewiseLinear) -> Chain:
    """One group of rows for the maximum that is added, one for that which is taken off."""
    parts = [network.plus] if network.minus is None else [network.plus, network.minus]
    groups = np.full((len(parts), max(part.pieces for part in parts)), -1)
    for unit, part in enumerate(parts):
        groups[unit, : part.pieces] = np.arange(part.pieces) + unit * network.plus.pieces
    weights = np.concatenate([part.weights for part in parts])
    biases = np.concatenate([part.biases for part in parts])
    signs = np.array([[1.0, -1.0]])[:, : len(parts)]
    return Chain(network.inputs, (Layer(weights, biases, groups),), signs, np.zeros(1))


def whole_line(start: Any, end: Any) -> tuple[np.ndarray, int]:
    """The line as whole numbers over one denominator: columns (end - start, start) times it."""
    first = [Fraction(x) for x in start]
    way = [Fraction(y) - x for x, y in zip(first, end, strict=True)]
    under = math.lcm(*(one.denominator for one in [*first, *way]))
    table = np.empty((len(first), 2), dtype=object)
    table[:, 0] = [int(one * under) for one in way]
    table[:, 1] = [int(one * under) for one in first]
    return table, under
