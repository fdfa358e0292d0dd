"""A ReLU network on a domain of few dimensions: floats for speed, exact where they cannot decide.

The domain is y -> origin + directions @ y with y in a polygon or box of d dimensions, so the first
layer is composed with it, exactly. The other layers are the network's own, whose floats are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from hardmax._errors import ShapeError
from hardmax.numerics import (
    TINY,
    above_float,
    frozen_array,
    inflate,
    matmul_up,
    nearest_float,
    product_up,
    stray,
    sum_up,
)

Rows = list[list[Fraction]]
Exact = Sequence[object] | np.ndarray  # numbers or rows of them, Fractions among them
Patterns = Sequence[Sequence[int]] | Sequence[np.ndarray]  # which neurons of each layer are on
Scaled = tuple[np.ndarray, np.ndarray, np.ndarray]  # weights, biases, exponents taken off

_NONE = -(10**6)  # the exponent of 0
_LEAST = -1000  # exponents of reaches below are taken as this
_VISIBLE = 2.0**-30  # coefficients that rounding may have changed by more are made exactly


class ReluLayers(Protocol):
    """What a stack is made from: matrices out x in and biases, a rectifier behind all but one."""

    @property
    def inputs(self) -> int: ...
    @property
    def weights(self) -> tuple[np.ndarray, ...]: ...
    @property
    def biases(self) -> tuple[np.ndarray, ...]: ...


@dataclass(frozen=True, eq=False)
class Stack:
    """Hidden layers with rectifiers, then one affine output layer; d inputs.

    Rectifiers pass positive factors on, so every neuron is scaled by a power of 2 that brings its
    values to about 1, and the next layer takes it back; outputs are scaled likewise. That changes
    no sign and no cell, and keeps composed maps far from over- and underflow.

    `weights[l]` and `biases[l]` are floats, C-contiguous. Of the first layer they are at most
    `first_slack` (one number a neuron, for every coefficient and the bias alike) from the truth,
    which `on_slice` holds if the domain is a slice. Of other layers only what underflows is lost.
    Inputs are at most `reach` in absolute value, coordinate by coordinate.
    """

    weights: tuple[np.ndarray, ...]
    biases: tuple[np.ndarray, ...]
    first_slack: np.ndarray
    reach: np.ndarray
    shifts: tuple[np.ndarray, ...]  # the exponents taken off each layer's rows
    source: ReluLayers = field(repr=False)
    on_slice: tuple[Rows, list[Fraction]] | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls,
        network: ReluLayers,
        reach: ArrayLike,
        origin: Exact | None = None,
        directions: Exact | None = None,
    ) -> Stack:
        """The network itself, or on the slice origin + y_1 directions[0] + y_2 directions[1] ..."""
        reach = frozen_array(np.asarray(reach, dtype=np.float64))
        inputs = network.inputs if directions is None else len(directions)
        if inputs != len(reach):
            raise ShapeError(
                f"The network has {inputs} inputs, but the domain has {len(reach)} dimensions."
            )
        slack, exact = np.zeros(len(network.biases[0])), None
        if origin is None or directions is None:
            first = _scale_layer(
                network.weights[0], network.biases[0], np.zeros(inputs, int), reach
            )
        else:
            rows, levels = _first_layer_on_slice(
                network.weights[0], network.biases[0], origin, directions
            )
            first, slack, exact = _round_rows(rows, levels, reach)
        layers, size = [first], reach
        for W, b in zip(network.weights[1:], network.biases[1:], strict=True):
            size = np.abs(layers[-1][0]) @ size + np.abs(layers[-1][1])
            layers.append(_scale_layer(W, b, layers[-1][2], size))
        weights, biases, shifts = zip(*layers, strict=True)
        return cls(weights, biases, slack, reach, shifts, network, exact)

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
            reach = inflate(matmul_up(np.abs(W), reach) + np.abs(b))
            found.append(reach)
        return tuple(found)

    @cached_property
    def slacks(self) -> tuple[np.ndarray, ...]:
        """How far a neuron's affine map, composed in floats, may be off anywhere in the domain.

        On a cell, the value before the rectifier of neuron i in layer l is an affine function of
        the input, z = sum_j W_ij s_j z_j + b_i with s_j in {0, 1}. Let e_j bound what the float
        coefficients of z_j are off by, as functions on the domain (the sum of what each
        coefficient is off by, times the reach of its input). With m_j the largest sum of magnitudes
        of z_j's true terms on the domain, its float terms add up to at most m_j + e_j. Summing n
        products and a bias in any order passes each through at most n + 1 roundings, so that
        e_i <= sum_j |W_ij| e_j + gamma_{n+1} (sum_j |W_ij| (m_j + e_j) + |b_i|). A weight that is
        subnormal may be off by the smallest number, times m_j + e_j, and so may each product, times
        the reach. Evaluating the d + 1 terms of z at a float point takes d + 1 roundings again.
        A form without terms is 0 and so is its slack. The last 8 roundings are those of this sum
        and of whoever adds a radius to it.
        """
        slacks = []
        reach = inflate(sum_up(self.reach) + 1.0)
        some = self.weights[0].any(axis=1) | (self.biases[0] != 0.0)
        lost = np.where(some, inflate(TINY * reach), 0.0)  # of subnormal coefficients
        error, d = inflate(product_up(self.first_slack, reach) + lost), self.dimension
        for layer, (W, b) in enumerate(zip(self.weights, self.biases, strict=True)):
            if layer:
                error = _composed_error(W, b, self.sizes[layer - 1], error, reach)
            size = self.sizes[layer]
            slacks.append(inflate(error + stray(d + 1, inflate(size + error)), 8))
        return tuple(slacks)

    # ---- exactly -----------------------------------------------------------------------------

    @cached_property
    def exact_layers(self) -> tuple[tuple[Rows, list[Fraction]], ...]:
        """Every layer in Fractions, scaled as the floats are."""
        layers, before = [], [0] * self.source.inputs
        given = zip(self.source.weights, self.source.biases, self.shifts, strict=True)
        for number, (W, b, shift) in enumerate(given):
            after = shift.tolist()
            if number == 0 and self.on_slice is not None:
                layers.append(self.on_slice)
                before = after
                continue
            rows = [
                [_times_power(x, k - out) for x, k in zip(row, before, strict=True)]
                for row, out in zip(W.tolist(), after, strict=True)
            ]
            levels = [_times_power(x, -out) for x, out in zip(b.tolist(), after, strict=True)]
            layers.append((rows, levels))
            before = after
        return tuple(layers)

    def exact_maps(self, patterns: Patterns, layer: int) -> Rows:
        """The affine maps of all neurons of a layer, a row of d + 1 Fractions each.

        `patterns[l]` says which neurons of layer l are on, for l < layer. Rows are scaled.
        """
        W, b = self.exact_layers[0]
        rows = [[*row, level] for row, level in zip(W, b, strict=True)]
        for at in range(1, layer + 1):
            on = [j for j, s in enumerate(patterns[at - 1]) if s]
            W, b = self.exact_layers[at]
            rows = [_combine_rows(row, level, on, rows) for row, level in zip(W, b, strict=True)]
        return rows

    def exact_outputs(self, patterns: Patterns) -> Rows:
        """The affine maps of the outputs, not scaled."""
        rows = self.exact_maps(patterns, len(self.hidden))
        return [
            [x * _power(k) for x in row]
            for row, k in zip(rows, self.shifts[-1].tolist(), strict=True)
        ]

    def float_outputs(self, patterns: Patterns) -> np.ndarray:
        """The same in floats, infinite beyond them; exactly where rounding may be seen.

        Coefficients are followed as values are in `slacks`: how large the sums of magnitudes are,
        and how far off. What has no terms is 0.
        """
        rows = np.hstack([self.weights[0], self.biases[0][:, None]])
        size, off = np.abs(rows), np.zeros_like(rows) + (self.first_slack[:, None] + TINY)
        for on, W, b in zip(patterns, self.weights[1:], self.biases[1:], strict=True):
            W = W * np.asarray(on, dtype=float)
            rows, weights, terms = W @ rows, np.abs(W), inflate(size + off)
            rows[:, -1] += b
            size, magnitude = matmul_up(weights, size), matmul_up(weights, terms)
            for sums in (size, magnitude):
                sums[:, -1] = inflate(sums[:, -1] + np.abs(b))
            lost = inflate(TINY * (sum_up(terms, axis=0) + len(terms) + 1.0))
            off = inflate(matmul_up(weights, off) + stray(len(terms) + 1, magnitude) + lost)
        if not ((size == 0.0) | (off <= _VISIBLE * np.abs(rows))).all():
            exact = self.exact_outputs(patterns)
            return np.array([[nearest_float(x) for x in row] for row in exact])
        with np.errstate(over="ignore"):
            return np.ldexp(rows, self.shifts[-1][:, None])


def _composed_error(
    W: np.ndarray, b: np.ndarray, size: np.ndarray, error: np.ndarray, reach: float
) -> np.ndarray:
    """What the forms of a layer are off by, from the sizes and errors of those that it reads."""
    n, weights = W.shape[1], np.abs(W)
    terms = inflate(size + error)
    magnitude = inflate(matmul_up(weights, terms) + np.abs(b))
    some = weights.any(axis=1)  # a row without weights loses nothing
    lost = inflate(TINY * (sum_up(terms) + (n + 1) * reach))
    return inflate(matmul_up(weights, error) + stray(n + 1, magnitude) + np.where(some, lost, 0.0))


def what_sensitivities_lose(
    hidden: Sequence[np.ndarray], size: np.ndarray, wrong: np.ndarray
) -> np.ndarray:
    """What the outputs' sensitivities to all hidden neurons may be off by, whatever the pattern.

    Those of the last hidden layer are at most `size` and off by at most `wrong`. Before it they are
    sums of n products, layer after layer, as in `Stack.slacks`. Where nothing is off, a
    sensitivity is a weight, and is 0 iff it says so.
    """
    found = [wrong]
    for W in hidden[:0:-1]:
        weights, terms = np.abs(W).T, inflate(size + wrong)
        rounded = stray(len(W), matmul_up(weights, terms))
        wrong = inflate(matmul_up(weights, wrong) + rounded + lost_by_subnormals(W, terms))
        size = matmul_up(weights, size)
        found.append(wrong)
    return np.concatenate(found[::-1])


def lost_by_subnormals(W: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """What W.T @ sizes may be off by, since a subnormal weight is off by the smallest number."""
    return np.where(W.any(axis=0), inflate(TINY * sum_up(sizes)), 0.0)


def _power(exponent: int) -> Fraction:
    return Fraction(2**exponent) if exponent >= 0 else Fraction(1, 2**-exponent)


def _times_power(x: float, exponent: int) -> Fraction:
    return Fraction(x) * _power(exponent) if x and exponent else Fraction(x)


def _scale_layer(W: np.ndarray, b: np.ndarray, before: np.ndarray, size: np.ndarray) -> Scaled:
    """A layer whose inputs were scaled by 2^-before and are at most `size`, scaled itself.

    Exponents are added as whole numbers, so that nothing overflows on the way. What is not 0 stays
    so, if only as the smallest number: a path of weights is seen by their being not 0.
    """
    digits, exponents = np.frexp(np.asarray(W, dtype=np.float64))
    exponents = np.where(digits == 0.0, _NONE, exponents + before)
    levels, heights = np.frexp(np.asarray(b, dtype=np.float64))
    heights = np.where(levels == 0.0, _NONE, heights)
    reach = np.where(size > 0.0, np.maximum(np.frexp(size)[1], _LEAST), _NONE)
    most = np.maximum((exponents + reach).max(axis=1, initial=_NONE), heights)
    shift = np.where(most < _NONE // 2, 0, most)
    exponents = exponents - shift[:, None]  # what reads a dead input is multiplied by 0 alone
    weights = _kept_alive(digits, np.where(size > 0.0, exponents, np.minimum(exponents, 0)))
    return np.ascontiguousarray(weights), _kept_alive(levels, heights - shift), shift


def _kept_alive(digits: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    """digits times 2^exponents; the smallest number, with their sign, for what would vanish."""
    found = np.ldexp(digits, np.maximum(exponents, -2200))
    return np.where((found == 0.0) & (digits != 0.0), np.copysign(TINY, digits), found)


def _round_rows(
    rows: Rows, levels: list[Fraction], reach: np.ndarray
) -> tuple[Scaled, np.ndarray, tuple[Rows, list[Fraction]]]:
    """Exact rows, scaled: their floats, how far these are off, and the rows themselves."""
    sizes = [max(Fraction(x), _power(_LEAST)) for x in reach.tolist()]
    shift, exact_rows, exact_levels, wrong = [], [], [], []
    for row, level in zip(rows, levels, strict=True):
        most = max([abs(level), *(abs(x) * m for x, m in zip(row, sizes, strict=True))])
        k = most.numerator.bit_length() - most.denominator.bit_length() if most else 0
        own = [x * _power(-k) for x in (*row, level)]
        shift.append(k)
        exact_rows.append(own[:-1])
        exact_levels.append(own[-1])
        wrong.append(max(abs(Fraction(float(x)) - x) for x in own))
    W = np.array([[float(x) for x in row] for row in exact_rows]).reshape(len(rows), len(reach))
    b = np.array([float(x) for x in exact_levels])
    slack = np.array([above_float(x) for x in wrong])
    return (W, b, np.array(shift)), slack, (exact_rows, exact_levels)


def _combine_rows(
    row: list[Fraction], level: Fraction, on: list[int], rows: Rows
) -> list[Fraction]:
    total = [Fraction(0)] * len(rows[0]) if rows else [Fraction(0)]
    for j in on:
        if row[j]:
            total = [x + row[j] * y for x, y in zip(total, rows[j], strict=True)]
    total[-1] += level
    return total


def _first_layer_on_slice(
    W: np.ndarray, b: np.ndarray, origin: Exact, directions: Exact
) -> tuple[Rows, list[Fraction]]:
    """The first layer on a slice."""
    start = [Fraction(x) for x in np.asarray(origin).tolist()]
    ways = [[Fraction(x) for x in way] for way in np.asarray(directions).tolist()]
    rows = [[Fraction(x) for x in row] for row in W.tolist()]

    def along(row: list[Fraction], way: list[Fraction]) -> Fraction:
        return sum((x * y for x, y in zip(row, way, strict=True) if x and y), Fraction(0))

    levels = [along(row, start) + Fraction(c) for row, c in zip(rows, b.tolist(), strict=True)]
    return [[along(row, way) for way in ways] for row in rows], levels
