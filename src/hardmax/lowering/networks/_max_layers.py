"""Maxout networks and CPWL functions in one shape: layers of maxima over affine pieces.

Units may have different numbers of pieces. Pieces that another piece of the same unit dominates
on the whole domain are left out, so a unit may end up with a single piece.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardmax.core import Box
from hardmax.languages import MaxAffine, MaxoutNetwork, PiecewiseLinear
from hardmax.numerics import Interval


@dataclass(frozen=True, eq=False)
class Unit:
    """A maximum of affine pieces, on inputs whose range is known."""

    weights: np.ndarray  # pieces x inputs
    biases: np.ndarray
    components: np.ndarray  # which components of the affine step these pieces are
    linear: Interval  # the range of weights @ input
    pieces: Interval  # the range of weights @ input + bias

    @property
    def rank(self) -> int:
        return len(self.biases)

    @property
    def low(self) -> float:
        """The maximum is never below this."""
        return float(self.pieces.lo.max())


@dataclass(frozen=True, eq=False)
class MaxLayer:
    """Parallel units; `affine_value` and `value` say which of the target's values they are."""

    units: tuple[Unit, ...]
    affine_value: int
    value: int

    @property
    def rank(self) -> int:
        return max(unit.rank for unit in self.units)


@dataclass(frozen=True, eq=False)
class MaxStack:
    """Layers of maxima, then an affine read-out of the last ones."""

    inputs: int
    layers: tuple[MaxLayer, ...]
    weights: np.ndarray  # outputs x units of the last layer (or inputs, without layers)
    bias: np.ndarray


def max_stack(source: MaxoutNetwork | PiecewiseLinear | MaxAffine, domain: Box) -> MaxStack:
    """The source as layers of maxima on a domain."""
    match source:
        case MaxoutNetwork():
            return _from_maxout(source, domain)
        case PiecewiseLinear():
            parts = [source.plus] if source.minus is None else [source.plus, source.minus]
            signs = np.array([[1.0, -1.0][: len(parts)]])
        case MaxAffine():
            parts, signs = [source], np.eye(1)
    units, first = [], 0
    for part in parts:
        components = np.arange(first, first + len(part.biases))
        units.append(_unit(part.weights, part.biases, components, domain.interval))
        first += len(part.biases)
    return MaxStack(source.inputs, (MaxLayer(tuple(units), 1, 2),), signs, np.zeros(1))


def _from_maxout(network: MaxoutNetwork, domain: Box) -> MaxStack:
    """A last layer of rank 1 is affine and becomes the read-out."""
    tables = list(zip(network.weights, network.biases, strict=True))
    weights, bias = np.eye(network.outputs), np.zeros(network.outputs)
    if len(tables[-1][1]) == 1:
        (weights,), (bias,) = tables.pop()
    layers, box, value = [], domain.interval, 0
    for table, offsets in tables:
        pieces, out, _ = table.shape
        rows = np.arange(pieces) * out
        units = tuple(_unit(table[:, i], offsets[:, i], rows + i, box) for i in range(out))
        affine_value, value = value + 1, value + 1 + (pieces > 1)
        layers.append(MaxLayer(units, affine_value, value))
        box = (table.reshape(-1, table.shape[2]) @ box).reshape(pieces, out) + offsets
        box = box.max(axis=0)
    return MaxStack(network.inputs, tuple(layers), weights, bias)


def _unit(weights: np.ndarray, biases: np.ndarray, components: np.ndarray, box: Interval) -> Unit:
    """Drop every piece that a piece still kept is never below; of equal pieces keep the first."""
    leads = _leads(weights, biases, box)
    kept = list(range(len(biases)))
    for piece in range(len(biases)):
        if any(
            leads[rival, piece] > 0 or (leads[rival, piece] == 0 and rival < piece)
            for rival in kept
            if rival != piece
        ):
            kept.remove(piece)
    linear = weights[kept] @ box
    return Unit(weights[kept], biases[kept], components[kept], linear, linear + biases[kept])


def _leads(weights: np.ndarray, biases: np.ndarray, box: Interval) -> np.ndarray:
    """leads[a, b] <= (piece a - piece b) on the whole box; exactly 0 for equal pieces."""
    difference = Interval.point(weights[:, None]) - weights[None, :]
    terms = difference * box
    lead = Interval.point(biases[:, None]) - biases[None, :]
    return (terms.sum(axis=2) + lead).lo
