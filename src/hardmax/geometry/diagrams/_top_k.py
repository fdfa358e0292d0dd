"""Top-k routing: which k keys score highest where. The diagram of order k.

The k best scores at q add up to the largest sum of scores over all sets of k keys. So the cells
are those of a power diagram whose keys are sums of k keys with sums of their biases: vertices of
the hull P of all lifted sums. There are C(N, k) sums, and few of them matter. They are found by
asking:

*Theorem.* Let S be some of the lifted sums, spanning what all of them span, and suppose that for
every facet of conv S, with outward normal n, no sum is larger in direction n than the facet. Then
conv S = P. *Proof.* P lies in each of the half-spaces whose intersection is conv S.

The largest sum in direction n is that of the k largest <n, lifted key>, so a facet is asked by
sorting. Each answer that is beyond its facet is a new vertex or lies in a new face; so it ends. A
set and its swaps with one member span everything: differences of sums are sums of differences.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hardmax._errors import RequestError, ShapeError
from hardmax.geometry.diagrams._diagram import (
    MOST_DIMENSIONS,
    PowerDiagram,
    levels_of,
    power_diagram,
    sites_of,
)
from hardmax.geometry.hulls._hull import Hull, convex_hull
from hardmax.geometry.hulls._points import Points, Row, Rows, whole_normals

_MOST_SETS = 200_000

Sets = list[tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class TopKDiagram:
    """The diagram of order k: a power diagram over `sets` of k keys each.

    >>> hm.top_k_diagram([[-1.0], [0.0], [1.0]], 2, [0.0, 0.5, 0.0]).cells
    ((0, 1), (1, 2))
    """

    k: int
    sets: tuple[tuple[int, ...], ...]
    diagram: PowerDiagram

    @property
    def cells(self) -> tuple[tuple[int, ...], ...]:
        """The sets that are the best somewhere, one for each cell."""
        return tuple(self.sets[cell] for cell in self.diagram.cells.tolist())

    @property
    def neighbours(self) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
        """Pairs of sets whose cells share a wall."""
        return tuple((self.sets[a], self.sets[b]) for a, b in self.diagram.neighbours.tolist())

    @property
    def vertices(self) -> np.ndarray:
        return self.diagram.vertices

    def locate(self, queries: Rows | Row) -> np.ndarray:
        """The k best keys for each query; where several sets are best, one of them."""
        return np.asarray(self.sets)[np.asarray(self.diagram.locate(queries))]

    def __repr__(self) -> str:
        return f"TopKDiagram(k = {self.k}, {len(self.cells)} cells, {self.diagram!r})"


def top_k_diagram(keys: Rows, k: int, biases: Row | None = None, on: object = None) -> TopKDiagram:
    """The cells of queries with the same k best keys.

    Keys that are equal, biases included, always tie; they must be given once.

    >>> len(top_k_diagram([[0, 0], [1, 0], [0, 1], [1, 1]], 2).cells)
    4
    """
    sites = sites_of(keys)
    if sites.dimension + 1 > MOST_DIMENSIONS:
        raise RequestError(
            f"Top-k diagrams are enumerated in up to {MOST_DIMENSIONS - 1} dimensions, but these "
            f"keys have {sites.dimension}; there are at most C({len(sites)}, {k}) cells."
        )
    levels = levels_of(biases, len(sites))
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= len(sites):
        raise RequestError(f"k must be a whole number from 1 to {len(sites)}, but it is {k!r}.")
    lifted = sites.with_column(levels)
    if len(lifted.distinct()[0]) < len(sites):
        raise ShapeError("Some keys are equal, biases included; give each of them once.")
    whole = lifted.whole(np.arange(len(lifted)))
    sets = _extreme_sets(whole, k)
    rationals = lifted.rationals()
    sums = np.array([rationals[list(keys)].sum(axis=0) for keys in sets])
    diagram = power_diagram(sums[:, :-1], sums[:, -1], on)
    return TopKDiagram(k, tuple(sets), diagram)


def _extreme_sets(whole: np.ndarray, k: int) -> Sets:
    """Sets of k whose sums have the hull of all sums; the numbers are whole."""
    count = len(whole)
    chosen = list(range(k))
    sets: dict[tuple[int, ...], None] = {tuple(chosen): None}
    if k < count:
        swaps = [(0, out) for out in range(k, count)] + [(a, k) for a in range(1, k)]
        for a, b in swaps:
            sets[tuple(sorted({*chosen, b} - {a}))] = None
    while True:
        known = list(sets)
        if len(known) > _MOST_SETS:
            raise RequestError(
                f"The diagram of order {k} of {count:,} keys has more than {_MOST_SETS:,} cells; "
                f"give fewer keys or a smaller k."
            )
        sums = np.array([whole[list(keys)].sum(axis=0) for keys in known], dtype=object)
        sets.update(dict.fromkeys(_beyond(sums, whole, k)))
        if len(sets) == len(known):
            return known


def _beyond(sums: np.ndarray, whole: np.ndarray, k: int) -> Iterable[tuple[int, ...]]:
    """For every facet of the hull of the sums, a set beyond it, if there is one."""
    hull = convex_hull(_small(sums))
    if hull.dimension == 0:
        return
    columns = list(hull.frame.columns)
    reduced, keys = sums[hull.first][:, columns], whole[:, columns]
    for normal, offset in _facets(hull, reduced):
        scores = (keys * normal).sum(axis=1).tolist()
        best = sorted(range(len(scores)), key=lambda j, s=scores: (-s[j], j))[:k]  # type: ignore[misc]
        if sum(scores[j] for j in best) > offset:
            yield tuple(sorted(best))


def _small(sums: np.ndarray) -> Points:
    """Whole numbers of any size, each column divided by a power of 2 that makes it a float's."""
    columns = []
    for column in sums.T.tolist():
        under = 1 << max(max(map(abs, column)).bit_length(), 1)
        columns.append([Fraction(x, under) for x in column])
    return Points.of(np.array(columns, dtype=object).T)


def _facets(hull: Hull, reduced: np.ndarray) -> Iterable[tuple[np.ndarray, int]]:
    """Outward normals and offsets of a hull's facets, whole numbers."""
    if hull.surface is None:
        column = reduced[:, 0]
        yield np.array([1], dtype=object), column.max()
        yield np.array([-1], dtype=object), -column.min()
        return
    normals = whole_normals(reduced[hull.surface.simplices])
    corners = reduced[hull.surface.simplices[:, 0]]
    rows = list(hull.frame.rows)
    inner = reduced[rows].sum(axis=0)
    ahead = (normals * (inner - corners * len(rows))).sum(axis=1)
    for normal, corner, side in zip(normals, corners, ahead.tolist(), strict=True):
        outward = -normal if side > 0 else normal
        yield outward, int((outward * corner).sum())
