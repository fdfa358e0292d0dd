"""The faces of a hull: facets joined where they lie in one plane, true corners, true edges.

The smallest face that holds some corners is the intersection of the facets that hold them all. So a
corner is a vertex of the hull exactly if the facets at it have nothing else in common, and two
vertices span an edge exactly if the facets at both have only these two. Where no ridge is flat this
needs no test: all facets are simplices.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hardmax.geometry.hulls._surface import Surface, seen_in


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
        joined = coo_array((np.ones(len(f)), (f, self.surface.neighbours[f, i])), (count, count))
        return np.asarray(connected_components(joined, directed=False)[1])

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
    def _corners_of(self) -> dict[int, frozenset[int]]:
        """The corners of each facet that has more than one simplex, and of those around it."""
        found: dict[int, set[int]] = {}
        for facet, simplex in zip(
            self.facet.tolist(), self.surface.simplices.tolist(), strict=True
        ):
            found.setdefault(facet, set()).update(simplex)
        return {facet: frozenset(own) for facet, own in found.items()}

    @cached_property
    def _facets_at(self) -> dict[int, frozenset[int]]:
        found: dict[int, set[int]] = {}
        for facet, simplex in zip(
            self.facet.tolist(), self.surface.simplices.tolist(), strict=True
        ):
            for corner in simplex:
                found.setdefault(corner, set()).add(facet)
        return {corner: frozenset(own) for corner, own in found.items()}

    def _smallest(self, corners: tuple[int, ...]) -> frozenset[int]:
        """The corners of the smallest face with these."""
        facets = frozenset.intersection(*(self._facets_at[one] for one in corners))
        common: frozenset[int] | None = None
        for own in sorted((self._corners_of[one] for one in facets), key=len):
            common = own if common is None else common & own
            if len(common) == len(corners):
                break
        assert common is not None, "corners of one simplex share its facet"
        return common

    @cached_property
    def _between(self) -> frozenset[int]:
        """Corners of simplices that are not vertices: they lie within larger faces."""
        doubtful = np.unique(self._doubtful).tolist()
        return frozenset(one for one in doubtful if len(self._smallest((one,))) > 1)

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
        found = {
            (a, b)
            for a, b in map(tuple, pairs.tolist())
            if a not in between
            and b not in between
            and ((a, b) not in doubtful or len(self._smallest((a, b)) - between) == 2)
        }
        for one in between & set(chosen.ravel().tolist()):  # an edge may be cut by such a corner
            ends = sorted(self._smallest((one,)) - between)
            if len(ends) == 2:
                found.add((ends[0], ends[1]))
        return np.array(sorted(found), dtype=np.int64).reshape(-1, 2)


def pairs_of(simplices: np.ndarray) -> np.ndarray:
    """All pairs of corners of simplices, smaller first, each once."""
    width = simplices.shape[1]
    most = int(simplices.max(initial=0)) + 1
    i, j = np.triu_indices(width, 1)
    a, b = simplices[:, i].ravel(), simplices[:, j].ravel()
    packed = np.sort(np.minimum(a, b) * most + np.maximum(a, b))
    packed = packed[np.append(True, packed[1:] != packed[:-1])[: len(packed)]]
    return np.stack([packed // most, packed % most], axis=1)
