"""Polytopes as hulls of points: exact vertices with the points behind them, edges and facets."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from hardmax._errors import RequestError, ShapeError
from hardmax._shown import Shown
from hardmax.geometry.hulls._faces import Faces
from hardmax.geometry.hulls._hull import Hull, convex_hull, most_facets
from hardmax.geometry.hulls._points import Points, Rows
from hardmax.numerics import frozen_array

MOST_DIMENSIONS = 8  # facets grow like n^(d/2)
_MOST_FACES = 200_000  # in a face lattice


@dataclass(frozen=True, eq=False, init=False)
class Polytope(Shown):
    """The hull of points, decided exactly in any position: repeated, collinear, inside faces.

    Points are rows of numbers: floats, whole numbers, Fractions. Vertices, edges and facets speak
    of them by their indices; of equal points the first stands for all, and `behind` has the others.

        >>> square = Polytope([[0, 0], [1, 0], [0, 1], [1, 1], [0.5, 0], [1, 1]])
        >>> square.vertices, square.f_vector
        (array([0, 1, 2, 3]), (4, 4))
    """

    points: Points
    hull: Hull = field(repr=False, default=None)  # type: ignore[assignment]  # see below

    def __post_init__(self) -> None:
        if self.hull is None:  # a first guess: Polytope(points)
            raise RequestError("The hull of points is made by hm.Polytope.of(points).")

    def __init__(self, points: Rows, name: str = "points") -> None:
        rows = Points.of(points, name)
        if not len(rows) or not rows.dimension:
            raise ShapeError(
                f"A polytope needs at least one of the {name}, of at least one dimension, but "
                f"the shape is {rows.floats.shape}."
            )
        if rows.dimension > MOST_DIMENSIONS:
            raise RequestError(
                f"The hull of points of {rows.dimension} dimensions is too much to enumerate: "
                f"{len(rows):,} points may span up to {most_facets(len(rows), rows.dimension):.3g} "
                f"facets. Use at most {MOST_DIMENSIONS} dimensions."
            )
        object.__setattr__(self, "points", rows)
        object.__setattr__(self, "hull", convex_hull(rows))

    @classmethod
    def of(cls, points: Rows | Polytope, name: str = "points") -> Polytope:
        """The same, where a polytope may come as it is."""
        return points if isinstance(points, Polytope) else cls(points, name)

    @property
    def dimension(self) -> int:
        """Of what the points span, at most that of the space."""
        return self.hull.dimension

    @cached_property
    def _faces(self) -> Faces | None:
        return None if self.hull.surface is None else Faces(self.hull.surface)

    @cached_property
    def _kinds(self) -> np.ndarray:
        return np.unique(self.hull.ends) if self._faces is None else self._faces.vertices

    @cached_property
    def vertices(self) -> np.ndarray:
        """The points that are vertices, ascending; of equal points the first."""
        return frozen_array(np.sort(self.hull.first[self._kinds]))

    @cached_property
    def behind(self) -> tuple[tuple[int, ...], ...]:
        """For each vertex all given points that are equal to it."""
        groups: dict[int, list[int]] = {}
        for row, kind in enumerate(self.hull.kind.tolist()):
            groups.setdefault(kind, []).append(row)
        kinds = self.hull.kind[self.vertices].tolist()
        return tuple(tuple(groups[kind]) for kind in kinds)

    @cached_property
    def edges(self) -> np.ndarray:
        """Pairs of points that span an edge."""
        if self._faces is None:
            pairs = self._kinds.reshape(-1, 2) if len(self._kinds) == 2 else np.zeros((0, 2), int)
        else:
            everywhere = np.ones(len(self._faces.surface.simplices), dtype=bool)
            pairs = self._faces.edges(everywhere)
        ends = np.sort(self.hull.first[pairs], axis=1)
        return frozen_array(ends[np.lexsort(ends.T[::-1])])

    @cached_property
    def facets(self) -> tuple[tuple[int, ...], ...]:
        """The vertices of each face of one dimension less."""
        if self._faces is None:
            return tuple((v,) for v in self.vertices.tolist()) if self.dimension else ()
        corners: dict[int, set[int]] = {}
        simplices = self.hull.first[self._faces.surface.simplices].tolist()
        for facet, simplex in zip(self._faces.facet.tolist(), simplices, strict=True):
            corners.setdefault(facet, set()).update(simplex)
        true = set(self.vertices.tolist())
        return tuple(sorted(tuple(sorted(own & true)) for own in corners.values()))

    @cached_property
    def f_vector(self) -> tuple[int, ...]:
        """How many faces there are of dimension 0, 1, ..., dimension - 1.

        Faces are the intersections of facets; a face of dimension k is one more than the largest
        faces in it. In up to 3 dimensions vertices, edges and facets are all.
        """
        if self.dimension <= 3:
            counts = (len(self.vertices), len(self.edges), len(self.facets))
            return counts[: self.dimension]
        return self._lattice()

    def _lattice(self) -> tuple[int, ...]:
        """From the facets down: what two faces of one dimension share, if it is largest so."""
        level = {frozenset(facet) for facet in self.facets}
        counts = [len(level)]
        for _ in range(self.dimension - 2):
            shared = {a & b for a, b in itertools.combinations(level, 2)} - {frozenset()}
            if len(shared) > _MOST_FACES or len(level) ** 2 > 100 * _MOST_FACES:
                raise RequestError(
                    f"The polytope has too many faces to list ({len(level):,} of one dimension "
                    f"alone). Ask for vertices, edges and facets."
                )
            level = _largest(shared)
            counts.append(len(level))
        counts.append(len(self.vertices))
        return tuple(reversed(counts))

    @property
    def decided(self) -> int:
        """How many signs needed exact arithmetic."""
        return self.hull.decided

    def __repr__(self) -> str:
        noun = "vertex" if len(self.vertices) == 1 else "vertices"
        return (
            f"Polytope({len(self.points)} points in R^{self.points.dimension}: dimension "
            f"{self.dimension}, {len(self.vertices)} {noun}, {len(self.edges)} edges)"
        )


def _largest(sets: set[frozenset[int]]) -> set[frozenset[int]]:
    """Those that are not part of another."""
    kept: set[frozenset[int]] = set()
    at: dict[int, list[frozenset[int]]] = {}
    for own in sorted(sets, key=len, reverse=True):
        if not any(own < other for other in at.get(next(iter(own)), [])):
            kept.add(own)
            for corner in own:
                at.setdefault(corner, []).append(own)
    return kept
