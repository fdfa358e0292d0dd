"""Every source as one chain: layers of affine rows and maxima over groups of them, then affine.

This is where counting meets sources. Whoever can say its steps (`core.Steps`: affine maps of any
number of values, maxima, relu and abs) is a chain, and every engine reads chains: rectifiers alone
go to the plane and to space, all chains to lines and to the switch program. A rectifier is a
maximum of one row and 0, abs of a row and its negative, leaky ReLU and max pooling are maxima as
they stand. A skip connection is a value that a layer hands on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from hardmax._errors import RequestError
from hardmax.core import Affine, Maximum, Product, Steps, Univariate
from hardmax.geometry.counting._whole import WholeLayer
from hardmax.geometry.tropical._tropical import Tropical, TropicalRational
from hardmax.numerics import exact

Rows = tuple[np.ndarray, np.ndarray]  # weights and biases
Step = Affine | Maximum | Univariate | Product


@runtime_checkable
class Stepwise(Protocol):
    """A source that may say its steps; every `core.Target` is one."""

    @property
    def inputs(self) -> int: ...

    def steps(self) -> Steps | None: ...


@dataclass(frozen=True, eq=False)
class Layer:
    """Rows W x + b, then one number a unit: max(row, 0), or the maximum of a group of rows.

    `groups` is units x rank, padded by -1; None stands for rectifiers. The last `passed` units
    have one row each and decide nothing: they hand on what is read behind the next layers. Where
    rectifiers stand beside other units, row 0 is the 0 that they compare with (`rectifies`): it
    goes first, so that of equal rows the 0 wins, and a unit that is 0 throughout is off.
    """

    weights: np.ndarray
    biases: np.ndarray
    groups: np.ndarray | None = None
    passed: int = 0
    rectifies: bool = False

    @property
    def units(self) -> int:
        return len(self.weights) if self.groups is None else len(self.groups)

    @property
    def deciding(self) -> int:
        """How many units choose, and so make cells: the first ones."""
        return self.units - self.passed

    def pattern(self, winners: Sequence[int]) -> tuple[int, ...]:
        """Who won in each deciding unit, by the number of its row, -1 for the 0 of a rectifier."""
        return tuple(row - self.rectifies for row in winners[: self.deciding])

    def unit_values(self, rows: np.ndarray) -> np.ndarray:
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


class Rectifiers(NamedTuple):
    """A plain ReLU network: layers with a rectifier behind each but the last."""

    inputs: int
    weights: tuple[np.ndarray, ...]
    biases: tuple[np.ndarray, ...]


@dataclass(frozen=True, eq=False)
class Chain:
    """Layers, then the affine output `weights @ x + biases`.

    Numbers are floats; those that floats do not hold are Fractions, in arrays of objects.
    """

    inputs: int
    layers: tuple[Layer, ...]
    weights: np.ndarray
    biases: np.ndarray

    @property
    def outputs(self) -> int:
        return len(self.weights)

    @property
    def depth(self) -> int:
        """How many layers decide something."""
        return sum(1 for layer in self.layers if layer.deciding)

    def numbered_layers(self) -> Iterator[tuple[int, Layer]]:
        """Every layer with its number among those that decide; one that does not has the next."""
        number = 0
        for layer in self.layers:
            yield number, layer
            number += bool(layer.deciding)

    @property
    def arrays(self) -> list[np.ndarray]:
        """All numbers, layer by layer, and which rows each unit takes the maximum of."""
        inner = [
            array
            for layer in self.layers
            for array in (layer.weights, layer.biases, layer.groups)
            if array is not None
        ]
        return [*inner, self.weights, self.biases]

    @property
    def is_float(self) -> bool:
        """Whether floats hold every number, as the engines of lines, planes and space need."""
        return all(array.dtype != object for array in self.arrays)

    @property
    def rectifiers(self) -> Rectifiers | None:
        """The network, if it is one of rectifiers alone."""
        if not self.is_float or any(layer.groups is not None for layer in self.layers):
            return None
        pairs = [*((layer.weights, layer.biases) for layer in self.layers)]
        weights, biases = zip(*pairs, (self.weights, self.biases), strict=True)
        return Rectifiers(self.inputs, weights, biases)

    @cached_property
    def whole(self) -> tuple[WholeLayer, ...]:
        """All layers in whole numbers, the output last."""
        pairs = [(layer.weights, layer.biases) for layer in self.layers]
        return tuple(WholeLayer.of(W, b) for W, b in [*pairs, (self.weights, self.biases)])


def chain_of(source: Stepwise | Tropical | TropicalRational) -> Chain:
    """The source as a chain; what is not piecewise linear, or does not say its steps, is refused.

    >>> from hardmax.languages import ReluNetwork
    >>> chain_of(ReluNetwork([[[1.0], [-1.0]], [[1.0, 1.0]]], [[0.0, 0.0], [0.0]])).layers[0].units
    2
    """
    if isinstance(source, Tropical | TropicalRational):
        return _difference(source)
    steps = source.steps() if isinstance(source, Stepwise) else None
    if not isinstance(steps, Steps):
        raise RequestError(
            f"Regions are known for networks, max-affine maps and hard Transformers, not for "
            f"{type(source).__name__}: it does not say its steps."
        )
    return _Scheduled(_piecewise_linear(steps, source)).chain()


def _difference(source: Tropical | TropicalRational) -> Chain:
    """One maximum, or one that is added and one that is taken off, in Fractions.

    Slopes and offsets may be beyond floats, so they are never made any.
    """
    parts = [source] if isinstance(source, Tropical) else [source.numerator, source.denominator]
    groups = np.full((len(parts), max(map(len, parts))), -1)
    for unit, part in enumerate(parts):
        groups[unit, : len(part)] = np.arange(len(part)) + unit * len(parts[0])
    weights = np.concatenate([part.slopes.rationals() for part in parts])
    biases = np.concatenate([part.offsets.rationals()[:, 0] for part in parts])
    signs = np.array([[1.0, -1.0]])[:, : len(parts)]
    return Chain(parts[0].dimension, (Layer(weights, biases, groups),), signs, np.zeros(1))


# ---- steps ---------------------------------------------------------------------------------------


def _piecewise_linear(steps: Steps, source: object) -> Steps:
    for number, step in enumerate(steps.steps, 1):
        match step:
            case Affine() | Maximum() | Univariate(name="relu" | "abs"):
                continue
            case Product():
                bent = "multiplies two values"
            case Univariate():
                bent = f"is {step.name}"
        raise RequestError(
            f"Linear regions need a piecewise linear map, but step {number} of this "
            f"{type(source).__name__} {bent}. Affine maps, maxima, relu and abs can be counted."
        )
    return steps


class _Scheduled:
    """Which layer makes which value, and which values each layer hands on.

    A state is the values that are known behind so many layers, one below the other. The
    components of a value are rows over the state `rows_at[v]`, and coordinates of the state
    `made[v]`, the first that could hold them. A maximum, a relu or an abs takes one layer from the
    rows of what it reads. An affine step is rows over the values that it reads, so it is no layer
    of its own, unless another affine step reads it or somebody behind the next layer: then it is
    handed on like any value. Composing two affine steps instead would round, and these numbers
    stand for themselves; the switch program, whose rows are exact, composes them.
    """

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.rows_at, self.made = [0], [0]
        for step in steps.steps:
            affine = isinstance(step, Affine)
            known = self.made if affine else self.rows_at
            above = max((known[source] for source in step.sources), default=0)
            self.rows_at.append(above if affine else above + 1)
            self.made.append(above + 1)
        deepest = [self.made[v] for v in self._choosing]
        self.depth = max([self.rows_at[-1], *deepest])
        self.states = self._states()

    @property
    def _choosing(self) -> list[int]:
        """The values that maxima, relu and abs make."""
        return [v for v, step in enumerate(self.steps.steps, 1) if not isinstance(step, Affine)]

    def _reads(self, value: int, state: int) -> tuple[int, ...]:
        """The coordinates of a state over which a value's components are rows."""
        return (value,) if self.made[value] <= state else self.steps.steps[value - 1].sources

    def _states(self) -> list[tuple[list[int], list[int]]]:
        """Behind each layer the values that it chooses, and those that it hands on."""
        live = set(self._reads(len(self.steps.steps), self.depth))
        states = []
        for number in range(self.depth, 0, -1):
            chosen = [v for v in self._choosing if self.made[v] == number]
            passed = sorted(live - set(chosen))
            states.append((chosen, passed))
            read = {s for v in chosen for s in self.steps.steps[v - 1].sources} | set(passed)
            live = {c for v in read for c in self._reads(v, number - 1)}
        return [([0], []), *reversed(states)]

    def chain(self) -> Chain:
        layers = []
        for number, (chosen, passed) in enumerate(self.states[1:]):
            here = [*self.states[number][0], *self.states[number][1]]
            layers.append(self._layer(chosen, passed, here))
        last = [*self.states[-1][0], *self.states[-1][1]]
        return Chain(self.steps.inputs, tuple(layers), *self._rows([len(self.steps.steps)], last))

    def _layer(self, chosen: list[int], passed: list[int], state: list[int]) -> Layer:
        """The units of one layer over the state before it."""
        steps = [self.steps.steps[v - 1] for v in chosen]
        parts = [self._rows(step.sources, state) for step in steps]
        if not passed and all(_is_relu(step) for step in steps):
            return Layer(*_below_each_other(parts))
        rectifies = any(_is_relu(step) for step in steps)
        zero = (np.zeros((int(rectifies), self._width(state))), np.zeros(int(rectifies)))
        blocks, groups = [zero], []
        for step, rows in zip(steps, parts, strict=True):
            first, count = sum(len(b) for _, b in blocks), len(rows[1])
            own = np.arange(first, first + count)
            match step:
                case Maximum():
                    groups.append(np.where(step.groups < 0, -1, step.groups + first))
                    blocks.append(rows)
                case Univariate(name="abs"):
                    groups.append(np.stack([own, own + count], axis=1))
                    blocks += [rows, (-rows[0], -rows[1])]
                case _:
                    groups.append(np.stack([np.zeros_like(own), own], axis=1))
                    blocks.append(rows)
        handed = self._rows(passed, state)
        first, count = sum(len(b) for _, b in blocks), len(handed[1])
        groups.append(np.arange(first, first + count)[:, None])
        weights, biases = _below_each_other([*blocks, handed])
        return Layer(weights, biases, _pad_to_one_width(groups), count, rectifies)

    def _width(self, values: Iterable[int]) -> int:
        return sum(self.steps.size(value) for value in values)

    def _rows(self, values: Iterable[int], state: list[int]) -> Rows:
        """The components of some values, one below the other, as rows over a state."""
        parts = [self._value_rows(value, state) for value in values]
        return _below_each_other(parts or [(np.zeros((0, self._width(state))), np.zeros(0))])

    def _value_rows(self, value: int, state: list[int]) -> Rows:
        place, width = {v: self._width(state[:k]) for k, v in enumerate(state)}, self._width(state)
        if value in place:
            size = self.steps.size(value)
            return np.eye(size, width, place[value]), np.zeros(size)
        step = self.steps.steps[value - 1]
        assert isinstance(step, Affine)
        if step.sources == tuple(state):
            return step.weights, step.bias
        weights, start = np.zeros((step.size, width)), 0
        for source in step.sources:
            end = start + self.steps.size(source)
            at = slice(place[source], place[source] + end - start)
            weights = _with_columns(weights, at, step.weights[:, start:end])
            start = end
        return weights, step.bias


def _is_relu(step: Step) -> bool:
    return isinstance(step, Univariate) and step.name == "relu"


def _with_columns(weights: np.ndarray, at: slice, more: np.ndarray) -> np.ndarray:
    """Columns added, in Fractions where a source is read twice and the sum of both would round."""
    total = weights[:, at] + more
    if ((weights[:, at] != 0.0) & (more != 0.0)).any():
        both = exact(weights[:, at]) + exact(more)
        pairs = zip(total.flat, both.flat, strict=True)
        if any(not np.isfinite(x) or Fraction(x) != y for x, y in pairs):
            weights, total = exact(weights), both
    weights[:, at] = total
    return weights


def _below_each_other(parts: list[Rows]) -> Rows:
    if len(parts) == 1:
        return parts[0]
    weights, biases = zip(*parts, strict=True)
    return np.concatenate(weights), np.concatenate(biases)


def _pad_to_one_width(groups: list[np.ndarray]) -> np.ndarray:
    """Tables of row numbers below each other, filled with -1 to one width."""
    rank = max(group.shape[1] for group in groups)
    return np.concatenate(
        [np.pad(g, ((0, 0), (0, rank - g.shape[1])), constant_values=-1) for g in groups]
    )
