"""Breakpoints, cells and regions along segments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from hardmax._errors import DomainError, RequestError, ShapeError
from hardmax.geometry.counting._chain import Chain, Stepwise, chain_of
from hardmax.geometry.counting._domains import Coordinates, Segment
from hardmax.geometry.counting.line._batch import Explored, explore_lines
from hardmax.geometry.counting.line._cells import LineCell, as_floats, joined_cells
from hardmax.geometry.counting.line._exact import ExactLine, exact_line
from hardmax.geometry.counting.line._quadratic import QuadraticNumber
from hardmax.numerics import UNIT, finite_array, frozen_array


@dataclass(frozen=True, eq=False)
class LineRegions:
    """A segment start + t (end - start), 0 < t < 1, cut where the pattern changes.

    `breakpoints` are the t as floats, in order; `decided` says how many decisions were too close
    for floats and were made in exact arithmetic. A fast answer believes floats, and is not `exact`.
    `layers` counts the cells after each layer. Iterating gives the cells; maps are in t.

    >>> network = hm.ReluNetwork([[[1.0], [-1.0]], [[1.0, 1.0]]], [[0.0, 0.0], [0.0]])  # |x|
    >>> hm.regions(network, on="[-1,1]").breakpoints
    array([0.5])
    """

    segment: Segment
    breakpoints: np.ndarray
    layers: tuple[int, ...]
    decided: int
    exact: bool = True
    chain: Chain | None = None  # of a network, whose cells are found when somebody asks
    silent: int | None = None  # breakpoints that do not change the map, where floats know
    known: tuple[LineCell, ...] | None = None

    @property
    def cells(self) -> int:
        """Open intervals with one pattern."""
        return len(self.breakpoints) + 1

    @cached_property
    def count(self) -> int:
        """Maximal intervals with one affine map; values at breakpoints do not matter."""
        if self.silent is not None:
            return self.cells - self.silent
        return joined_cells(self._all_cells)

    @property
    def exact_breakpoints(self) -> tuple[Fraction | QuadraticNumber | float, ...]:
        """Fractions for a network, QuadraticNumbers for a Transformer."""
        if not self.exact:
            raise RequestError(
                "A fast answer has float breakpoints only; for exact ones ask with fast=False."
            )
        return tuple(cell.start for cell in self._all_cells[1:])

    @property
    def maps(self) -> np.ndarray:
        """cells x outputs x (slope, level) in t, as floats."""
        return as_floats(self._all_cells)

    def __iter__(self) -> Iterator[LineCell]:
        return iter(self._all_cells)

    def adjacency(self) -> list[tuple[int, int]]:
        """Numbers of cells that share a breakpoint: each with the next."""
        return [(n, n + 1) for n in range(self.cells - 1)]

    def as_dict(self, *, regions: bool = True) -> dict[str, object]:
        """Plain data; without `regions` only cells are counted."""
        return {
            "source": "hard Transformer" if self.chain is None else "network",
            "on": str(self.segment),
            "cells": self.cells,
            "regions": self.count if regions else None,
            "layers": list(self.layers),
            "exact": self.exact,
            "exact_decisions": self.decided,
            "breakpoints": self.breakpoints.tolist(),
            "at_most": None,
            "notes": [],
        }

    @cached_property
    def _all_cells(self) -> tuple[LineCell, ...]:
        if self.known is not None:
            return self.known
        assert self.chain is not None
        if not self.exact:
            return _float_cells(self.chain, self.segment, self.breakpoints)
        return exact_line(self.chain, self.segment.exact_start, self.segment.exact_end).cells

    def __repr__(self) -> str:
        how = "exact" if self.exact else "fast, not exact"
        return f"LineRegions({self.cells:,} cells, {how}, {self.decided} decided exactly)"


@dataclass(frozen=True, eq=False)
class LineBatch:
    """Breakpoints of many lines: those of line j are points[bounds[j]:bounds[j + 1]], in order.

    `origin` names the layer and the unit that makes each (of several the first), `error` bounds how
    far the float is from the truth; a fast answer promises that of lines without ties only.
    """

    points: np.ndarray
    error: np.ndarray
    bounds: np.ndarray
    origin: np.ndarray
    decided: int
    exact: bool

    @property
    def counts(self) -> np.ndarray:
        """Breakpoints on each line."""
        return np.diff(self.bounds)

    @property
    def cells(self) -> np.ndarray:
        """Cells on each line."""
        return self.counts + 1

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __getitem__(self, line: int) -> np.ndarray:
        return self.points[self.bounds[line] : self.bounds[line + 1]]

    def __repr__(self) -> str:
        how = "exact" if self.exact else "fast, not exact"
        return f"LineBatch({len(self):,} lines, {len(self.points):,} breakpoints, {how})"


def network_line(
    network: Stepwise | Chain, start: Coordinates, end: Coordinates, *, fast: bool = False
) -> LineRegions:
    """Every breakpoint of a network on one segment, and what lies between.

    Decisions are made in floats and believed beyond a proved bound on their rounding; one that is
    too close sends the line to whole numbers. `fast` believes floats throughout.
    """
    segment, chain = Segment(start, end), _chain(network)
    _check_dimension(chain, segment.dimension)
    explored = explore_lines(chain, segment.start[None], segment.end[None], joining=True)
    blind = _is_blurred(segment)  # floats see another segment than was given
    doubts, depth = int(explored.doubts[0]) + blind, chain.depth
    if doubts and not fast:
        line = exact_line(chain, segment.exact_start, segment.exact_end)
        points = frozen_array(np.array([float(t) for t in line.breakpoints]))
        layers = _after_layers(np.array(line.origin, dtype=int).reshape(-1, 2)[:, 0], depth)
        return LineRegions(segment, points, layers, doubts, chain=chain, known=line.cells)
    points = frozen_array(explored.points[1:-1])
    layers = _after_layers(explored.origin[1:-1, 0], depth)
    unheard = int(explored.unheard[0])
    silent = int(explored.silent[0]) if fast or not unheard else None
    return LineRegions(segment, points, layers, 0 if fast else unheard, not fast, chain, silent)


def _chain(network: Stepwise | Chain) -> Chain:
    chain = network if isinstance(network, Chain) else chain_of(network)
    if not chain.is_float:
        raise RequestError(
            f"Lines are followed in floats, but floats do not hold all coefficients of this "
            f"{type(network).__name__}. Count on one segment at a time, with hm.regions."
        )
    return chain


def _is_blurred(segment: Segment) -> bool:
    """Whether the ends' floats are so far off that their difference says nothing of the way.

    So it is, too, where an end is off by more than one rounding of its coordinate's size, as
    subnormal numbers are: the kernels charge that one and no more.
    """
    exact = zip(segment.exact_start, segment.exact_end, strict=True)
    floats = zip(segment.start.tolist(), segment.end.tolist(), strict=True)
    ends = [(a, b, Fraction(p), Fraction(q)) for (a, b), (p, q) in zip(exact, floats, strict=True)]
    return any(
        max(abs(p - a), abs(q - b)) > Fraction(UNIT) * max(abs(p), abs(q))
        or (abs(q - p - (b - a)) > abs(b - a) / 2 and (a != b or p != q))
        for a, b, p, q in ends
    )


def line_breakpoints(
    network: Stepwise, starts: ArrayLike, ends: ArrayLike, fast: bool = False
) -> LineBatch:
    """The breakpoints of a network on many segments at once, each from a start to an end.

    The layers are done one after another for all lines together. Every row of a layer is straight
    between the breakpoints so far, so one matrix product at those points gives all its sign
    changes, and each adds one point, whose values are interpolated.

    >>> network = hm.ReluNetwork([[[1.0], [-1.0]], [[1.0, 1.0]]], [[0.0, 0.0], [0.0]])  # |x|
    >>> hm.line_breakpoints(network, [[-1.0]], [[1.0]]).counts
    array([1])
    """
    chain = _chain(network)
    starts, ends = finite_array(starts, "starts", ndim=2), finite_array(ends, "ends", ndim=2)
    if starts.shape != ends.shape or not len(starts):
        raise ShapeError(
            f"Lines need as many starts as ends, one or more, but their shapes are {starts.shape} "
            f"and {ends.shape}."
        )
    _check_dimension(chain, starts.shape[1])
    if (starts == ends).all(axis=1).any():
        line = int(np.argmax((starts == ends).all(axis=1)))
        raise DomainError(f"Line {line} starts where it ends; give two different points.")
    try:
        explored = explore_lines(chain, starts, ends, joining=False)
    except SystemError as reason:  # how a compiled loop tells of Ctrl-C
        if isinstance(reason.__cause__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        raise
    if fast:
        return _batch(explored, {}, 0, False)
    doubtful = np.flatnonzero(explored.doubts).tolist()
    redone = {j: exact_line(chain, _exact(starts[j]), _exact(ends[j])) for j in doubtful}
    return _batch(explored, redone, int(explored.doubts.sum()), True)


def _check_dimension(chain: Chain, dimension: int) -> None:
    if dimension != chain.inputs:
        raise DomainError(
            f"The network has {chain.inputs} inputs, but the line runs in {dimension} dimensions."
        )


def _exact(row: np.ndarray) -> tuple[Fraction, ...]:
    return tuple(Fraction(x) for x in row.tolist())


def _after_layers(made_in: np.ndarray, depth: int) -> tuple[int, ...]:
    """Cells after each layer, from the layers that made the breakpoints."""
    return tuple(int((made_in <= number).sum()) + 1 for number in range(depth))


def _batch(
    explored: Explored, redone: dict[int, ExactLine], decided: int, exact: bool
) -> LineBatch:
    """The inner points of all lines, those that were redone put in their places."""
    made = explored.origin[:, 0] >= 0
    counts = np.diff(explored.bounds) - 2
    columns = [explored.points[made], explored.error[made], explored.origin[made]]
    if redone:
        ends = np.cumsum(counts)[:-1]
        parts = [np.split(column, ends) for column in columns]
        for j, line in redone.items():
            points = np.array([float(t) for t in line.breakpoints])
            origin = np.array(line.origin, dtype=np.int32).reshape(-1, 2)
            parts[0][j], parts[1][j], parts[2][j] = points, points * UNIT, origin
        columns = [np.concatenate(part) for part in parts]
        counts = np.array([len(part) for part in parts[0]])
    bounds = np.concatenate([[0], np.cumsum(counts)])
    points, error, origin = map(frozen_array, columns)
    return LineBatch(points, error, frozen_array(bounds), origin, decided, exact)


def _float_cells(chain: Chain, segment: Segment, breakpoints: np.ndarray) -> tuple[LineCell, ...]:
    """Patterns and maps as floats see them in the middle of each interval."""
    edges = np.concatenate([[0.0], breakpoints, [1.0]])
    t = (edges[:-1] + edges[1:]) / 2
    way = segment.end - segment.start
    values, rates = segment.start + t[:, None] * way, np.tile(way, (len(t), 1))
    patterns = []
    for layer in chain.layers:
        rows, rates = values @ layer.weights.T + layer.biases, rates @ layer.weights.T
        winners = layer.winners(rows)
        values, rates = (
            np.where(winners < 0, 0.0, _values_of_winners(one, winners)) for one in (rows, rates)
        )
        if layer.deciding:
            patterns.append([layer.pattern(row) for row in winners.tolist()])
    slopes = rates @ chain.weights.T
    levels = values @ chain.weights.T + chain.biases - t[:, None] * slopes
    return tuple(
        LineCell(
            float(edges[k]),
            float(edges[k + 1]),
            tuple(layer[k] for layer in patterns),
            tuple(slopes[k].tolist()),
            tuple(levels[k].tolist()),
        )
        for k in range(len(t))
    )


def _values_of_winners(rows: np.ndarray, winners: np.ndarray) -> np.ndarray:
    return np.asarray(np.take_along_axis(rows, np.maximum(winners, 0), axis=1))
