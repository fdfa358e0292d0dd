"""A ReLU network on a domain of few dimensions: floats for speed, exact where they cannot decide.

The domain is y -> origin + directions @ y with y in a polygon or box of d dimensions, so the first
layer is composed with it, exactly. The other layers are the network's own, whose floats are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from hardmax._errors import ShapeError
from hardmax.languages import ReluNetwork
from hardmax.numerics import frozen_array

Rows = list[list[Fraction]]

_U = 2.0**-53


@dataclass(frozen=True, eq=False)
class Stack:
    """Hidden layers with rectifiers, then one affine output layer; d inputs.

    `weights[l]` and `biases[l]` are floats, C-contiguous. Of the first layer they are at most
    `first_slack` (one number a neuron, for every coefficient and the bias alike) from the truth,
    which `exact_first` holds; 0 and None where the floats are the truth. Inputs are at most `reach`
    in absolute value, coordinate by coordinate.
    """

    weights: tuple[np.ndarray, ...]
    biases: tuple[np.ndarray, ...]
    first_slack: np.ndarray
    reach: np.ndarray
    exact_first: tuple[Rows, list[Fraction]] | None = None

    @classmethod
    def of(
        cls, network: ReluNetwork, reach: Any, origin: Any = None, directions: Any = None
    ) -> Stack:
        """The network itself, or on the slice origin + y_1 directions[0] + y_2 directions[1] ..."""
        weights = tuple(np.ascontiguousarray(W, dtype=np.float64) for W in network.weights)
        biases = tuple(np.ascontiguousarray(b, dtype=np.float64) for b in network.biases)
        reach = frozen_array(np.asarray(reach, dtype=np.float64))
        if origin is None:
            return cls(weights, biases, np.zeros(len(biases[0])), reach)
        first = _composed(weights[0], biases[0], origin, directions)
        W = np.array([[float(x) for x in row] for row in first[0]]).reshape(len(biases[0]), -1)
        b = np.array([float(x) for x in first[1]])
        wrong = [
            max(abs(Fraction(y) - x) for x, y in zip([*row, level], [*floats, c], strict=True))
            for row, level, floats, c in zip(*first, W.tolist(), b.tolist(), strict=True)
        ]
        slack = np.array([float(x) * (1 + 2.0**-50) for x in wrong])
        exact = None if not slack.any() else first
        return cls((W, *weights[1:]), (b, *biases[1:]), slack, reach, exact)

    def __post_init__(self) -> None:
        if self.weights[0].shape[1] != len(self.reach):
            raise ShapeError(
                f"The network has {self.weights[0].shape[1]} inputs, but the domain has "
                f"{len(self.reach)} dimensions."
            )

    @property
    def dimension(self) -> int:
        return self.weights[0].shape[1]

    @property
    def hidden(self) -> tuple[int, ...]:
        """The widths of the hidden layers."""
        return tuple(len(b) for b in self.biases[:-1])

    @cached_property
    def sizes(self) -> tuple[np.ndarray, ...]:
        """For each layer an upper bound of |value before the rectifier|, a number a neuron."""
        found, reach = [], self.reach
        for W, b in zip(self.weights, self.biases, strict=True):
            size = (np.abs(W) @ reach + np.abs(b)) * (1 + 2.0**-40) + 5e-324
            found.append(size)
            reach = size
        return tuple(found)

    @cached_property
    def slacks(self) -> tuple[np.ndarray, ...]:
        """How far a neuron's affine map, composed in floats, may be off anywhere in the domain.

        On a cell, the value before the rectifier of neuron i in layer l is an affine function of
        the input, z = sum_j W_ij s_j z_j + b_i with s_j in {0, 1}. Let e_j bound what the float
        coefficients of z_j are off by, as functions on the domain (the sum of what each
        coefficient is off by, times the reach of its input). Summing n products in any order, each
        coefficient rounds by at most (n + 2) u of the sum of magnitudes, so
        e_i <= sum_j |W_ij| e_j + (n + 3) u (sum_j |W_ij| m_j + |b_i|), where m_j bounds the sum of
        magnitudes of z_j's coefficients times reaches, computed in the same way (and a little more,
        for the rounding of the bound itself). Evaluating the d + 1 terms of z at a float point
        rounds by at most (d + 2) u of that sum again.
        """
        found = []
        one = float(np.sum(self.reach) + 1.0)
        error = self.first_slack * one
        size = self.sizes[0]
        d = self.dimension
        for layer, (W, b) in enumerate(zip(self.weights, self.biases, strict=True)):
            if layer:
                n = W.shape[1]
                size_next = np.abs(W) @ size + np.abs(b)
                error = np.abs(W) @ error + (n + 3) * _U * size_next
                size = size_next * (1 + 2.0**-40)
            found.append((error + (d + 2) * _U * size) * (1 + 2.0**-30) + 1e-300)
        return tuple(found)

    # ---- exactly -----------------------------------------------------------------------------

    @cached_property
    def exact_layers(self) -> tuple[tuple[Rows, list[Fraction]], ...]:
        """Every layer in Fractions."""
        layers = [
            ([[Fraction(x) for x in row] for row in W.tolist()], [Fraction(x) for x in b.tolist()])
            for W, b in zip(self.weights, self.biases, strict=True)
        ]
        if self.exact_first is not None:
            layers[0] = self.exact_first
        return tuple(layers)

    def exact_maps(self, patterns: Any, layer: int) -> Rows:
        """The affine maps of all neurons of a layer, a row of d + 1 Fractions each.

        `patterns[l]` says which neurons of layer l are on, for l < layer.
        """
        W, b = self.exact_layers[0]
        rows = [[*row, level] for row, level in zip(W, b, strict=True)]
        for at in range(1, layer + 1):
            on = [j for j, s in enumerate(patterns[at - 1]) if s]
            W, b = self.exact_layers[at]
            rows = [_combined(row, level, on, rows) for row, level in zip(W, b, strict=True)]
        return rows


def _combined(row: list[Fraction], level: Fraction, on: list[int], rows: Rows) -> list[Fraction]:
    total = [Fraction(0)] * len(rows[0]) if rows else [Fraction(0)]
    for j in on:
        if row[j]:
            total = [x + row[j] * y for x, y in zip(total, rows[j], strict=True)]
    total[-1] += level
    return total


def _composed(
    W: np.ndarray, b: np.ndarray, origin: Any, directions: Any
) -> tuple[Rows, list[Fraction]]:
    """The first layer on a slice."""
    start = [Fraction(x) for x in np.asarray(origin).tolist()]
    ways = [[Fraction(x) for x in way] for way in np.asarray(directions).tolist()]
    rows = [[Fraction(x) for x in row] for row in W.tolist()]

    def along(row: list[Fraction], way: list[Fraction]) -> Fraction:
        return sum((x * y for x, y in zip(row, way, strict=True) if x and y), Fraction(0))

    levels = [along(row, start) + Fraction(c) for row, c in zip(rows, b.tolist(), strict=True)]
    return [[along(row, way) for way in ways] for row in rows], levels
