"""The walk over a sum: from one vertex, across every extreme ray, to all vertices."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from hardmax._errors import RequestError
from hardmax.geometry.polytopes._graph import EdgeGraph
from hardmax.numerics import FAINT, down, inflate, matmul_up, stray, up

Progress = Callable[[int], object]  # called with the number of vertices found so far

_SEED = 0
_STRIDE = 20_000  # vertices between two calls of `progress`: a fraction of a second
_FIRST = 1 << 10


def walk(graph: EdgeGraph, progress: Progress | None, most: int) -> tuple[np.ndarray, int]:
    """All vertices of the sum, a row each, and how many signs needed whole numbers."""
    if not graph.columns:
        return graph.first[None, :], 0
    return _Walk(graph, most).all(progress)


class _Walk:
    """The vertices known so far, the queue of those to leave, and a table to find them in."""

    def __init__(self, graph: EdgeGraph, most: int) -> None:
        from hardmax.geometry.polytopes._exact_cone import fits

        self.graph, self.limit = graph, most
        self.is_small = fits(graph.whole)
        self.small = graph.whole.astype(np.int64) if self.is_small else np.zeros((0, 0), np.int64)
        rng = np.random.default_rng(_SEED)
        self.marks = rng.integers(2**63, size=len(graph.terms), dtype=np.uint64)
        row, direction = _starting(graph, rng)
        heads, width = len(graph.first), len(graph.columns)
        size = max(_FIRST, 1 << (2 * graph.most).bit_length())
        self.cells = np.zeros((size, heads), dtype=np.int32)
        self.keys = np.zeros(size, dtype=np.uint64)
        self.arrivals = np.full(size, -1, dtype=np.int64)
        self.hints = np.full((size, 2, width), np.nan)
        self.table = np.full(4 * size, -1, dtype=np.int64)
        self.cells[0], self.keys[0] = row, np.bitwise_xor.reduce(self.marks[row])
        self.hints[0] = direction
        self.head, self.found, self.decided = 0, 1, 0
        self.ways = np.zeros(graph.most, dtype=np.int64)
        self.status = np.zeros(graph.most, dtype=np.int64)

    def all(self, progress: Progress | None) -> tuple[np.ndarray, int]:
        from hardmax.geometry.polytopes import _walk_kernels as kernels

        kernels.rehash(1, self.keys, self.table)
        while True:
            why, count = self._explore(kernels)
            if why == kernels.FULL:
                self._grow(kernels)
            elif why == kernels.PENDING:
                self._settle(kernels, count)
            elif progress is not None:
                progress(self.found)
            if why == kernels.DONE:
                return self.cells[: self.found].copy(), self.decided
            if self.found > self.limit:
                raise RequestError(
                    f"The sum has more than {self.limit:,} vertices, which is the limit that was "
                    f"set. Raise `most`, or use hardmax.bounds for an estimate."
                )

    def _explore(self, kernels) -> tuple[int, int]:  # type: ignore[no-untyped-def]
        g = self.graph
        why, self.head, self.found, decided, count = kernels.explore(
            self.head, self.found, _STRIDE, g.most, g.directions, g.blurs, self.small,
            self.is_small, g.floor, g.start, g.target, g.way, self.marks, self.cells, self.keys,
            self.arrivals, self.hints, self.table, self.ways, self.status,
        )  # fmt: skip
        self.decided += decided
        return why, count

    def _grow(self, kernels) -> None:  # type: ignore[no-untyped-def]
        for name in ("cells", "keys", "arrivals", "hints"):
            old = getattr(self, name)
            fill = np.nan if name == "hints" else 0
            more = np.full_like(old, fill)
            setattr(self, name, np.concatenate([old, more]))
        self.table = np.full(4 * len(self.cells), -1, dtype=np.int64)
        kernels.rehash(self.found, self.keys, self.table)

    def _settle(self, kernels, count: int) -> None:  # type: ignore[no-untyped-def]
        """The vertex at the head of the queue, in Python's integers."""
        from hardmax.geometry.polytopes._exact_cone import is_in_cone

        g, status = self.graph, self.status
        whole = g.whole[self.ways[:count]]
        for i in range(count):
            if status[i] in (kernels.EXTREME, kernels.INNER):
                continue
            others = [j for j in range(count) if j != i and status[j] != kernels.INNER]
            inside = is_in_cone(whole[others], whole[i])
            status[i] = kernels.INNER if inside else kernels.EXTREME
        nowhere = np.full((count, len(g.columns)), np.nan)
        self.found = kernels.link(
            self.head, count, self.ways, status, nowhere, nowhere, g.floor, g.start, g.target,
            g.way, self.marks, self.cells, self.keys, self.arrivals, self.hints, self.table,
            self.found,
        )  # fmt: skip
        self.head += 1


def _starting(graph: EdgeGraph, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A vertex of the sum: the one maximiser of every summand in a random direction.

    The direction is a row of small whole numbers (in the scaled columns), up if there is a floor.
    """
    ends = np.append(graph.first, len(graph.terms))
    floats = graph.vertices.floats[:, list(graph.columns)] * graph.scales
    slack = graph.vertices.slack[list(graph.columns)] * graph.scales
    while True:
        direction = rng.integers(-(2**20), 2**20, size=len(graph.columns)).astype(float)
        if graph.floor >= 0:
            direction[-1] = abs(direction[-1]) + 1.0
        scores = floats @ direction
        off = matmul_up(slack, np.abs(direction)) + FAINT  # digits may be lost by scaling
        doubt = inflate(stray(len(direction), matmul_up(np.abs(floats), np.abs(direction))) + off)
        row = [
            _maximiser(graph, direction, a, np.flatnonzero(_close(scores[a:b], doubt[a:b])))
            for a, b in itertools.pairwise(ends)
        ]
        if None not in row:
            return np.array(row, dtype=np.int64), direction / np.abs(direction).max()


def _close(scores: np.ndarray, doubt: np.ndarray) -> np.ndarray:
    """Who might be the maximiser."""
    return np.asarray(up(scores + doubt) >= down(scores - doubt).max())


def _maximiser(
    graph: EdgeGraph, direction: np.ndarray, base: int, chosen: np.ndarray
) -> int | None:
    if len(chosen) == 1:
        return int(base + chosen[0])
    exact = graph.vertices.columns(graph.columns).rationals(base + chosen)
    weights = [Fraction(x) * Fraction(s) for x, s in zip(direction, graph.scales, strict=True)]
    scores = [sum(a * b for a, b in zip(row, weights, strict=True)) for row in exact.tolist()]
    best = max(scores)
    return int(base + chosen[scores.index(best)]) if scores.count(best) == 1 else None
