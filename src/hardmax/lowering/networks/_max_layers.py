"""Layers of maxima over affine pieces, as maxout networks and CPWL functions say them.

Units may have different numbers of pieces. Pieces that another piece of the same unit dominates
on the whole domain are left out, so a unit may end up with a single piece.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardmax.core import Affine, Box, Maximum, Steps
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
    weights: np.ndarray  # outputs x units of the last layer
    bias: np.ndarray


def is_stack_of_maxima(steps: Steps) -> bool:
    """Whether the steps are affine, maximum, affine, maximum, ..., each reading the one before.

    A last affine step may follow, which the read-out takes.
    """
    kinds = (Affine, Maximum)
    return len(steps.steps) > 1 and all(
        step.sources == (number,) and isinstance(step, kinds[number % 2])
        for number, step in enumerate(steps.steps)
    )


def max_stack(steps: Steps, domain: Box) -> MaxStack:
    """A stack of maxima with what is known of its ranges on a domain."""
    ranges, layers = steps.values(domain.interval), []
    for value, step in enumerate(steps.steps, start=1):
        if isinstance(step, Maximum):
            affine = steps.steps[value - 2]
            assert isinstance(affine, Affine)
            groups = (group[group >= 0] for group in step.groups)
            units = tuple(_unit(affine, group, ranges[value - 2]) for group in groups)
            layers.append(MaxLayer(units, value - 1, value))
    last = steps.steps[-1]
    if isinstance(last, Affine):
        return MaxStack(steps.inputs, tuple(layers), last.weights, last.bias)
    return MaxStack(steps.inputs, tuple(layers), np.eye(last.size), np.zeros(last.size))


def _unit(affine: Affine, components: np.ndarray, box: Interval) -> Unit:
    weights, biases = affine.weights[components], affine.bias[components]
    kept = undominated(leads_of_pieces(weights, biases, box))
    linear = weights[kept] @ box
    return Unit(weights[kept], biases[kept], components[kept], linear, linear + biases[kept])


def undominated(leads: np.ndarray) -> list[int]:
    """The pieces without those that a piece still kept is never below; of equal ones the first.

    leads[a, b] is a lower bound of piece a - piece b.
    """
    kept = list(range(len(leads)))
    for piece in range(len(leads)):
        if any(
            leads[rival, piece] > 0 or (leads[rival, piece] == 0 and rival < piece)
            for rival in kept
            if rival != piece
        ):
            kept.remove(piece)
    return kept


def leads_of_pieces(weights: np.ndarray, biases: np.ndarray, box: Interval) -> np.ndarray:
    """leads[a, b] <= (piece a - piece b) on the whole box; exactly 0 for equal pieces."""
    difference = Interval.point(weights[:, None]) - weights[None, :]
    terms = difference * box
    lead = Interval.point(biases[:, None]) - biases[None, :]
    return (terms.sum(axis=2) + lead).lo
