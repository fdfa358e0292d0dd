"""The walk over a sum: from one vertex, across every extreme ray, to all vertices."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from hardmax._errors import RequestError
from hardmax.geometry.polytopes import _arrays as arrays
from hardmax.geometry.polytopes._graph import EdgeGraph
from hardmax.numerics import FAINT, down, inflate, matmul_up, stray, up

Progress = Callable[[int], object]  # called with the number of vertices found so far

_SEED = 0
_FEW = 40  # vertices while the walk is interpreted
_STRIDE = 20_000  # vertices between two calls of `progress`: a fraction of a second
_FIRST = 1 << 10


def walk(graph: EdgeGraph, progress: Progress | None, most: int) -> tuple[np.ndarray, int]:
    """All vertices of the sum, a row each, and how many signs needed whole numbers."""
    if not graph.columns:
        return graph.first[None, :], 0
    return _Walk(graph, most).all_vertices(progress)


class _Walk:
    """The vertices known so far, and the compiled loop that finds more; Python's integers help."""

    def __init__(self, graph: EdgeGraph, most: int) -> None:
        from hardmax.geometry.polytopes._whole_kernels import fits

        self.graph, self.limit = graph, most
        is_small = fits(graph.whole)
        rng = np.random.default_rng(_SEED)
        marks = rng.integers(2**63, size=len(graph.terms), dtype=np.uint64)
        row, direction = _starting_vertex(graph, rng)
        width, size = len(graph.columns), max(_FIRST, 1 << (2 * graph.most).bit_length())
        self.queue = arrays.Queue(
            now=np.array([0, 1, 0, 0], dtype=np.int64),
            cells=np.zeros((size, len(graph.first)), dtype=np.int32),
            keys=np.zeros(size, dtype=np.uint64),
            arrivals=np.full(size, -1, dtype=np.int64),
            hints=np.full((size, 2, width), np.nan),
            table=np.full(4 * size, -1, dtype=np.int64),
        )
        self.queue.cells[0], self.queue.keys[0] = row, np.bitwise_xor.reduce(marks[row])
        self.queue.hints[0] = direction
        self.cone = arrays.new_cone(graph.most, width)
        self.scratch = arrays.new_scratch(graph.most, width, len(graph.directions))
        self.edges = arrays.EdgeArrays(
            graph.start, graph.target, graph.way, graph.directions, graph.blurs,
            graph.whole.astype(np.int64) if is_small else np.zeros((0, 0), np.int64),
            marks, graph.floor, is_small,
        )  # fmt: skip

    @property
    def vertices_known(self) -> int:
        return int(self.queue.now[arrays.KNOWN])

    def all_vertices(self, progress: Progress | None) -> tuple[np.ndarray, int]:
        from hardmax.geometry.polytopes._walk_kernels import explore, fill_table

        fill_table(self.queue)
        while True:
            stride = explore.stride(_STRIDE, _FEW)
            why = explore(self.edges, self.queue, self.cone, self.scratch, stride)
            if why == arrays.FULL:
                self._grow()
            elif why == arrays.PENDING:
                self._settle()
            elif progress is not None:
                progress(self.vertices_known)
            if why == arrays.DONE:
                decided = int(self.queue.now[arrays.DECIDED])
                return self.queue.cells[: self.vertices_known].copy(), decided
            if self.vertices_known > self.limit:
                raise RequestError(
                    f"The sum has more than {self.limit:,} vertices, which is the limit that was "
                    f"set. Raise `most`, or use hardmax.bounds for an estimate."
                )

    def _grow(self) -> None:
        """Room for twice as many vertices; rows move in the table, so it is filled anew."""
        from hardmax.geometry.polytopes._walk_kernels import fill_table

        queue = self.queue
        doubled = {
            name: np.concatenate([rows, np.zeros_like(rows)])
            for name, rows in queue._asdict().items()
            if name not in ("now", "table")
        }
        table = np.full(8 * len(queue.cells), -1, dtype=np.int64)
        self.queue = queue._replace(**doubled, table=table)
        fill_table(self.queue)

    def _settle(self) -> None:
        """The vertex at the head of the queue, in Python's integers."""
        from hardmax.geometry.polytopes._walk_kernels import leave
        from hardmax.geometry.polytopes._whole_kernels import is_in_cone

        cone, count = self.cone, int(self.queue.now[arrays.COUNT])
        status, whole = cone.status, self.graph.whole[cone.ways[:count]]
        for i in range(count):
            if status[i] in (arrays.EXTREME, arrays.INNER):
                continue
            others = [j for j in range(count) if j != i and status[j] != arrays.INNER]
            inside = is_in_cone(whole[others], whole[i])
            status[i] = arrays.INNER if inside else arrays.EXTREME
        cone.feet[:], cone.beyond[:] = np.nan, np.nan  # what floats left open gives no hint
        leave(self.edges, self.queue, cone)


def _starting_vertex(graph: EdgeGraph, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
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
