"""A straight-line program while it is drawn: tensors are arrays of wires, steps are added below."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from hardmax._errors import RequestError, ShapeError
from hardmax.core import Affine, Maximum, Steps, Univariate
from hardmax.languages.networks.operators._fusing import (
    Block,
    fuse_exactly,
    merge_sources,
    split_sources,
)

LARGEST_PROGRAM = 2**26  # numbers in all matrices and groups together: half a gigabyte
NOTHING = -1  # a place that no wire comes from: zero in a sum, left out of a maximum

Shape = tuple[int, ...]
Sum = tuple[np.ndarray, np.ndarray | float]  # rows x terms of wires, and their weights


@dataclass(frozen=True, eq=False)
class Wires:
    """A tensor of a network: which number of the program stands at each of its places.

    The numbers of all values are counted through, inputs first. So reshaping, transposing,
    slicing and concatenating only move wires: they cost no step and round nothing. Tried instead
    and given up: one value per tensor with a selection matrix per rearrangement, which made
    every flatten a dense matrix that nobody could tell from a layer.
    """

    places: np.ndarray

    @property
    def shape(self) -> Shape:
        return self.places.shape

    @property
    def ndim(self) -> int:
        return self.places.ndim

    def reshape(self, *shape: int) -> Wires:
        return Wires(self.places.reshape(shape))


class Wiring:
    """The steps so far. Every operator reads wires, adds what it needs, and gives back wires."""

    def __init__(self, inputs: int) -> None:
        self._steps: list[Affine | Maximum | Univariate] = []
        self._starts = [0, inputs]  # value v has the numbers starts[v] ... starts[v + 1] - 1
        self._room = LARGEST_PROGRAM
        self.check(inputs)

    def inputs(self, shape: Shape) -> Wires:
        return Wires(np.arange(self._starts[1]).reshape(shape))

    def affine(self, sums: Sequence[Sum], bias: np.ndarray | float, shape: Shape) -> Wires:
        """Row r is bias[r] plus, for every sum, weights[r] @ (the numbers at places[r]).

        Exact: two sums that read one value share its columns only where no addition of weights
        rounds; otherwise the step reads that value twice.
        """
        rows = math.prod(shape)
        parts = [(*self._columns(places), weights) for places, weights in sums]
        self._take(rows, sum(self._total(values) for values, _, _ in parts))
        blocks: list[Block] = []
        for values, columns, weights in parts:
            if not values:  # padding alone
                continue
            matrix = _matrix(columns, weights, self._total(values))
            blocks += split_sources(values, matrix, self._size)
        if not blocks:  # a constant reads the input, and multiplies it by 0
            blocks = [(0, np.zeros((rows, self._size(0))))]
        bias = np.broadcast_to(np.asarray(bias, dtype=np.float64), (rows,))
        return self._add(merge_sources(blocks, bias), shape)

    def maximum(self, places: np.ndarray, shape: Shape) -> Wires:
        """One maximum per row of places, `NOTHING` left out."""
        self._take(*places.shape)
        values, groups = self._columns(places)
        return self._add(Maximum(tuple(values), groups), shape)

    def univariate(self, name: str, x: Wires) -> Wires:
        """The named function at every place; values that are read in part are copied first."""
        values, columns = self._columns(x.places.reshape(1, -1))
        size = self._total(values)
        if np.unique(columns).size != size:
            return self.univariate(name, self.copy(x))
        made = self._add(Univariate(tuple(values), name, size), (size,))
        return Wires(made.places[columns].reshape(x.shape))

    def copy(self, x: Wires) -> Wires:
        """The same numbers as one value of their own, each once, in the order of x."""
        return self.affine([(x.places.reshape(-1, 1), 1.0)], 0.0, x.shape)

    def distinct(self, x: Wires) -> Wires:
        """x, or a copy if it holds one number twice, whose weights would have to be added."""
        return x if np.unique(x.places).size == x.places.size else self.copy(x)

    def constant(self, numbers: np.ndarray) -> Wires:
        different, which = np.unique(numbers, return_inverse=True)
        made = self.affine([], different, different.shape)
        return Wires(made.places[which].reshape(numbers.shape))

    def program(self, answer: Wires) -> Steps:
        """The steps that the answer needs, fused where that is exact; its numbers come in order."""
        if not answer.places.size:
            raise ShapeError(f"The network has no outputs: their shape is {answer.shape}.")
        places = answer.places.ravel()
        value = int(np.searchsorted(self._starts, places[0], side="right")) - 1
        whole = np.arange(self._starts[value], self._starts[value + 1])
        if value == 0 or not np.array_equal(places, whole):
            self.copy(answer)
            value = len(self._steps)
        return fuse_exactly(Steps(self._starts[1], self._steps[:value]))

    def _add(self, step: Affine | Maximum | Univariate, shape: Shape) -> Wires:
        self._steps.append(step)
        start = self._starts[-1]
        self._starts.append(start + step.size)
        return Wires(np.arange(start, start + step.size).reshape(shape))

    def _columns(self, places: np.ndarray) -> tuple[list[int], np.ndarray]:
        """The values that are read, and where each place stands in them, one below the other."""
        there = places >= 0
        owners = np.searchsorted(self._starts, places, side="right") - 1
        values = [int(value) for value in np.unique(owners[there])]
        columns = np.full(places.shape, NOTHING)
        above = 0
        for value in values:
            here = there & (owners == value)
            columns[here] = places[here] - self._starts[value] + above
            above += self._size(value)
        return values, columns.reshape(places.shape)

    def _size(self, value: int) -> int:
        return self._starts[value + 1] - self._starts[value]

    def _total(self, values: Iterable[int]) -> int:
        return sum(map(self._size, values))

    def check(self, rows: int, columns: int = 1) -> None:
        """Refuse a table before memory is taken for it."""
        if rows * columns > self._room:
            raise RequestError(
                f"is too large to be dense: it takes {rows:,} x {columns:,} numbers, but a "
                f"network holds at most {LARGEST_PROGRAM:,}, of which {self._room:,} are left; "
                f"give a smaller input, or fewer channels."
            )

    def _take(self, rows: int, columns: int) -> None:
        self.check(rows, columns)
        self._room -= rows * columns


def _matrix(columns: np.ndarray, weights: np.ndarray | float, size: int) -> np.ndarray:
    rows, terms = np.nonzero(columns >= 0)
    matrix = np.zeros((len(columns), size))
    matrix[rows, columns[rows, terms]] = np.broadcast_to(weights, columns.shape)[rows, terms]
    return matrix
