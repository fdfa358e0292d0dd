"""What the walk over a sum needs: the summands' vertices, their edges, and where edges point.

Edges are parallel or not in whole numbers: each is divided by the greatest common divisor of its
coordinates, and two are parallel exactly if they agree then, up to sign. Columns on which nothing
depends are dropped: if all directions lie in a subspace, a functional on it is a functional of the
columns that tell its vectors apart.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hardmax.geometry.hulls._points import Points
from hardmax.geometry.polytopes._polytope import Polytope
from hardmax.numerics import FAINT, UNIT, inflate


@dataclass(frozen=True, eq=False)
class EdgeGraph:
    """The vertices of all summands in a row, and the edges at each.

    `first[h]` is the number of summand h's first vertex and `terms` the index of each vertex among
    its summand's points. The edges at vertex v are target[start[v]:start[v+1]] in the directions
    way[...]; directions 2 k and 2 k + 1 are opposite. `directions` are floats with largest
    coordinate from 1 to 2, at most `blurs` from the truth up to a positive factor, and `whole` the
    truth. `floor`, if not negative, is the direction that points down.
    """

    vertices: Points
    terms: np.ndarray
    first: np.ndarray
    start: np.ndarray
    target: np.ndarray
    way: np.ndarray
    directions: np.ndarray
    blurs: np.ndarray
    whole: np.ndarray
    columns: tuple[int, ...]
    scales: np.ndarray
    floor: int

    @property
    def most(self) -> int:
        """The most directions that a vertex of the sum can have."""
        degrees = np.diff(self.start)
        ends = np.append(self.first, len(self.terms))
        each = [degrees[a:b].max() for a, b in itertools.pairwise(ends)]
        return int(sum(each)) + 1


def edge_graph(summands: Sequence[Polytope], *, upper: bool) -> EdgeGraph:
    """The graph of summands in one space; `upper` adds the direction that points down."""
    terms = np.concatenate([summand.vertices for summand in summands])
    counts = [len(summand.vertices) for summand in summands]
    first = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64)
    vertices = stack_points([summand.points.take(summand.vertices) for summand in summands])
    edges = np.concatenate(
        [
            base + np.searchsorted(summand.vertices, summand.edges)
            for base, summand in zip(first, summands, strict=True)
        ]
    )
    whole, sample, kinds = _directions(vertices, edges, upper)
    columns = _independent(whole)
    floats, blurs, scales = _floats(vertices, sample, columns)
    start, target, way = _rows(len(terms), edges, kinds)
    both = np.tile([1, -1], len(whole))[:, None]
    return EdgeGraph(
        vertices, terms, first, start, target, way,
        np.repeat(floats, 2, axis=0) * both, np.repeat(blurs, 2, axis=0),
        np.repeat(whole[:, columns], 2, axis=0) * both.astype(object),
        columns, scales, 0 if upper else -1,
    )  # fmt: skip


def stack_points(parts: Sequence[Points]) -> Points:
    """Points one below the other."""
    floats = np.concatenate([part.floats for part in parts])
    if all(part.is_float for part in parts):
        return Points(floats)
    return Points(floats, np.concatenate([part.rationals() for part in parts]))


def _directions(
    vertices: Points, edges: np.ndarray, upper: bool
) -> tuple[np.ndarray, list[tuple[int, int]], np.ndarray]:
    """Primitive vectors, an edge that has each, and for each edge twice its vector's number.

    One is added for edges that point the other way. The vector that points down comes first, if
    asked for; (-1, -1) is its edge.
    """
    width = vertices.dimension
    numbers: dict[tuple[int, ...], int] = {}
    sample: list[tuple[int, int]] = []
    if upper:
        numbers[(*[0] * (width - 1), -1)] = 0
        sample.append((-1, -1))
    exact = vertices.whole(np.arange(len(vertices)))
    away = exact[edges[:, 1]] - exact[edges[:, 0]]
    common = np.gcd.reduce(np.abs(away), axis=1) if len(edges) else np.zeros(0, dtype=object)
    kinds = np.empty(len(edges), dtype=np.int64)
    for e, (row, divisor) in enumerate(zip(away.tolist(), common.tolist(), strict=True)):
        own = tuple(x // divisor for x in row)
        opposite = tuple(-x for x in own)
        if opposite in numbers:
            kinds[e] = 2 * numbers[opposite] + 1
            continue
        if own not in numbers:
            numbers[own] = len(numbers)
            sample.append((int(edges[e, 0]), int(edges[e, 1])))
        kinds[e] = 2 * numbers[own]
    whole = np.array([list(vector) for vector in numbers], dtype=object).reshape(
        len(numbers), width
    )
    return whole, sample, kinds


def _floats(
    vertices: Points, sample: list[tuple[int, int]], columns: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Directions in floats, how far they are from the truth, and the scales of the columns."""
    chosen = list(columns)
    floats, slack = vertices.floats[:, chosen], vertices.slack[chosen]
    scales = _powers(np.abs(floats).max(axis=0, initial=0.0))
    floats, slack = floats * scales, slack * scales
    ends = np.array(sample, dtype=np.int64).reshape(-1, 2)
    away = floats[ends[:, 1]] - floats[ends[:, 0]]
    blurs = inflate(UNIT * np.abs(away) + 2.0 * slack) + FAINT  # digits may be lost by scaling
    down = np.flatnonzero(ends[:, 0] < 0)
    away[down], blurs[down] = 0.0, 0.0
    away[down, -1:] = -1.0
    factors = _powers(np.abs(away).max(axis=1, initial=0.0))[:, None]
    return away * factors, blurs * factors, scales


def _powers(sizes: np.ndarray) -> np.ndarray:
    """Powers of 2 that bring sizes to about 1; tiny ones only nearer."""
    exponents = np.floor(np.log2(np.where(sizes > 0.0, sizes, 1.0)))
    return np.exp2(np.minimum(-exponents, 1000.0))


def _independent(whole: np.ndarray) -> tuple[int, ...]:
    """Columns that tell the vectors' span apart, as many as it has dimensions.

    From the last, so that a floor keeps its own column.
    """
    pivots: list[tuple[int, list[int]]] = []
    width = whole.shape[1]
    for row in whole.tolist():
        left = row
        for column, pivot in pivots:
            if left[column]:
                a, b = pivot[column], left[column]
                left = [a * x - b * y for x, y in zip(left, pivot, strict=True)]
        place = next((c for c in reversed(range(width)) if left[c]), None)
        if place is not None:
            common = math.gcd(*left)
            pivots.append((place, [x // common for x in left]))
        if len(pivots) == width:
            break
    return tuple(sorted(column for column, _ in pivots))


def _rows(
    count: int, edges: np.ndarray, kinds: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Edges by the vertex that they leave, both ways."""
    source = np.concatenate([edges[:, 0], edges[:, 1]])
    target = np.concatenate([edges[:, 1], edges[:, 0]])
    way = np.concatenate([kinds, kinds ^ 1])
    order = np.argsort(source, kind="stable")
    start = np.searchsorted(source[order], np.arange(count + 1))
    return start.astype(np.int64), target[order], way[order]
