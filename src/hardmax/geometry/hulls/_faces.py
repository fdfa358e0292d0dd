"""The verified boundary of a hull, and its faces: facets, true corners, true edges.

Simplices that lie in one plane are one facet. The smallest face that holds some corners is the
intersection of the facets that hold them all. So a corner is a vertex of the hull exactly if the
facets at it have nothing else in common, and two vertices span an edge exactly if the facets at
both have only these two. Where no ridge is flat this needs no test: all facets are simplices.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True, eq=False)
class Surface:
    """A verified boundary: simplices, their neighbours, normals, and which ridges are flat."""

    simplices: np.ndarray
    neighbours: np.ndarray
    normals: np.ndarray  # outward, of the points as they were scaled
    blurs: np.ndarray  # how far the normals' coordinates may be off
    flat: np.ndarray  # simplices x corners: whether the ridge opposite is in one plane
    decided: int  # signs that floats left open


class Unproved(Exception):
    """These simplices are not the boundary of a convex hull."""


def seen_in(numbers: np.ndarray, count: int) -> np.ndarray:
    """The numbers below `count` that occur, in order: np.unique for small whole numbers."""
    occurs = np.zeros(count, dtype=bool)
    occurs[numbers.ravel()] = True
    return np.flatnonzero(occurs)


@dataclass(frozen=True, eq=False)
class Faces:
    """What a verified surface consists of."""

    surface: Surface

    @cached_property
    def facet(self) -> np.ndarray:
        """The number of the facet to which each simplex belongs."""
        count = len(self.surface.simplices)
        if not self.surface.flat.any():
            return np.arange(count)
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        f, i = np.nonzero(self.surface.flat)
        shared = coo_array((np.ones(len(f)), (f, self.surface.neighbours[f, i])), (count, count))
        return np.asarray(connected_components(shared, directed=False)[1])

    @cached_property
    def representative(self) -> np.ndarray:
        """One simplex of each facet."""
        return np.unique(self.facet, return_index=True)[1]

    @cached_property
    def corners(self) -> np.ndarray:
        return seen_in(self.surface.simplices, int(self.surface.simplices.max()) + 1)

    @cached_property
    def _doubtful(self) -> np.ndarray:
        """The ridges that are flat, a row of corners each."""
        f, i = np.nonzero(self.surface.flat)
        width = self.surface.simplices.shape[1]
        kept = np.array([[j for j in range(width) if j != k] for k in range(width)])
        return self.surface.simplices[f[:, None], kept[i]]

    @cached_property
    def _pairs(self) -> list[tuple[int, int]]:
        """Each facet with each corner of its simplices."""
        simplices = self.surface.simplices
        facets = np.repeat(self.facet, simplices.shape[1])
        return list(zip(facets.tolist(), simplices.ravel().tolist(), strict=True))

    @cached_property
    def _corners_of(self) -> dict[int, frozenset[int]]:
        return _group_pairs(self._pairs)

    @cached_property
    def _facets_at(self) -> dict[int, frozenset[int]]:
        return _group_pairs((corner, facet) for facet, corner in self._pairs)

    def _smallest(self, corners: tuple[int, ...]) -> frozenset[int]:
        """The corners of the smallest face with these."""
        facets = frozenset.intersection(*(self._facets_at[corner] for corner in corners))
        common: frozenset[int] | None = None
        for own in sorted((self._corners_of[facet] for facet in facets), key=len):
            common = own if common is None else common & own
            if len(common) == len(corners):
                break
        assert common is not None, "corners of one simplex share its facet"
        return common

    @cached_property
    def _between(self) -> frozenset[int]:
        """Corners of simplices that are not vertices: they lie within larger faces."""
        doubtful = np.unique(self._doubtful).tolist()
        return frozenset(corner for corner in doubtful if len(self._smallest((corner,))) > 1)

    @cached_property
    def vertices(self) -> np.ndarray:
        """The corners that are vertices of the hull."""
        if not self.surface.flat.any():
            return self.corners
        return np.setdiff1d(self.corners, list(self._between))

    def edges(self, simplices: np.ndarray) -> np.ndarray:
        """The edges of the hull that lie in some of its simplices (a mask), as pairs."""
        chosen = self.surface.simplices[simplices]
        pairs = pairs_of(chosen)
        if not self.surface.flat.any():
            return pairs
        between = self._between
        doubtful = set(map(tuple, pairs_of(self._doubtful).tolist()))
        edges = {
            (a, b)
            for a, b in map(tuple, pairs.tolist())
            if a not in between
            and b not in between
            and ((a, b) not in doubtful or len(self._smallest((a, b)) - between) == 2)
        }
        for corner in between & set(chosen.ravel().tolist()):  # an edge may be cut by such a corner
            ends = sorted(self._smallest((corner,)) - between)
            if len(ends) == 2:
                edges.add((ends[0], ends[1]))
        return np.array(sorted(edges), dtype=np.int64).reshape(-1, 2)


def _group_pairs(pairs: Iterable[tuple[int, int]]) -> dict[int, frozenset[int]]:
    """The second numbers that come with each first one."""
    groups: dict[int, set[int]] = {}
    for number, other in pairs:
        groups.setdefault(number, set()).add(other)
    return {number: frozenset(others) for number, others in groups.items()}


def pairs_of(simplices: np.ndarray) -> np.ndarray:
    """All pairs of corners of simplices, smaller first, each once."""
    width = simplices.shape[1]
    most = int(simplices.max(initial=0)) + 1
    i, j = np.triu_indices(width, 1)
    a, b = simplices[:, i].ravel(), simplices[:, j].ravel()
    packed = np.sort(np.minimum(a, b) * most + np.maximum(a, b))
    packed = packed[np.append(True, packed[1:] != packed[:-1])[: len(packed)]]
    return np.stack([packed // most, packed % most], axis=1)
