"""Power diagrams: which key wins where.

Key j has the score <q, k_j> + b_j. It wins at q exactly if the lifted point (k_j, b_j) is extreme
in direction (q, 1): cells are the upper vertices of the lifted points' hull, walls its upper edges,
vertices its upper facets, whose normals are (q, 1) up to a factor. Scores less |q|^2/2 show that it
is the power diagram with sites k_j and weights |k_j|^2 + 2 b_j. Keys that do not span the space
leave directions in which nothing changes; if the lifted points lie in one plane that is not
vertical (no biases, for one), every wall goes through one point: a fan.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from hardmax._errors import DomainError, RequestError, ShapeError
from hardmax._shown import Shown
from hardmax.core import Box
from hardmax.geometry.diagrams._boxed import BoxedDiagram
from hardmax.geometry.diagrams._cells import Cell
from hardmax.geometry.diagrams._locating import Locator
from hardmax.geometry.hulls._equations import least_solution
from hardmax.geometry.hulls._faces import Faces
from hardmax.geometry.hulls._hull import Hull, convex_hull, most_facets
from hardmax.geometry.hulls._points import (
    Points,
    Row,
    Rows,
    depth_of,
    whole_normals,
    whole_signs,
)
from hardmax.numerics import FAINT, TINY, UNIT, frozen_array, inflate, nearest_float

MOST_DIMENSIONS = 8  # of keys and biases together: facets grow like n^(d/2)
_BLURRED = 2.0**-30  # vertices that floats know less well, relatively, are made exactly
_FEW, _WIDEST = 5_000, 12  # vertices, and dimensions, of diagrams of few keys in more of them
SOLID = 3  # dimensions in which cells are cut to a box and measured


@dataclass(frozen=True, eq=False)
class PowerDiagram(Shown):
    """The cells of keys under <q, k_j> + b_j, decided exactly.

    `live` are the keys whose cells have an inside (in the box, if one was given), `empty` the
    others; equal keys with equal biases share a cell and are all live. `neighbours` are pairs of
    keys, the first of each kind, whose cells share a wall.

    >>> diagram = hm.power_diagram([[0.0], [1.0], [2.0]], biases=[0.0, -9.0, 0.0])
    >>> diagram.live.tolist(), diagram.empty.tolist()
    ([0, 2], [1])
    """

    sites: Points
    levels: Points
    hull: Hull = field(repr=False)
    on: Box | None = None

    # ---- cells -------------------------------------------------------------------------------

    @cached_property
    def cells(self) -> np.ndarray:
        """One key of each cell: the first."""
        inside = self._kinds if self.on is None else self._kinds[self._within.live]
        return frozen_array(np.sort(self.hull.first[inside]))

    @cached_property
    def live(self) -> np.ndarray:
        inside = np.zeros(len(self.hull.first), dtype=bool)
        inside[self.hull.kind[self.cells]] = True
        return frozen_array(np.flatnonzero(inside[self.hull.kind]))

    @cached_property
    def empty(self) -> np.ndarray:
        return frozen_array(np.setdiff1d(np.arange(len(self.sites)), self.live))

    @property
    def keys(self) -> np.ndarray:
        return self.sites.floats

    @property
    def biases(self) -> np.ndarray:
        return self.levels.floats[:, 0]

    @property
    def dimension(self) -> int:
        return self.sites.dimension

    @cached_property
    def is_fan(self) -> bool:
        """Whether the lifted points lie in a plane that is no wall: all walls meet in one point."""
        return self.dimension not in self.hull.frame.columns

    @cached_property
    def rank(self) -> int:
        """How many directions matter: what the keys span."""
        return self.hull.dimension - (0 if self.is_fan else 1)

    @cached_property
    def neighbours(self) -> np.ndarray:
        """Pairs of keys whose cells share a wall of one dimension less."""
        walls = self.walls if self.on is None else self._within.walls
        pairs = np.sort(self.winners[walls].reshape(-1, 2), axis=1)
        order = np.argsort(pairs[:, 0] * len(self.sites) + pairs[:, 1])
        return frozen_array(pairs[order])

    @property
    def facets(self) -> np.ndarray:
        """The walls of the diagram, each by the two keys that tie there."""
        return self.neighbours

    # ---- the hull's upper side ---------------------------------------------------------------

    @cached_property
    def _faces(self) -> Faces | None:
        return None if self.hull.surface is None else Faces(self.hull.surface)

    @cached_property
    def _upper(self) -> np.ndarray:
        """Which simplices look up: their planes are vertices of the diagram."""
        surface = self.hull.surface
        assert surface is not None
        if self.is_fan:
            return np.ones(len(surface.simplices), dtype=bool)
        last = self.hull.frame.columns.index(self.dimension)
        height, doubt = surface.normals[:, last], surface.blurs[:, last]
        upper = height > 0.0
        unsure = np.flatnonzero(~(np.abs(height) > 2.0 * doubt + FAINT))
        if len(unsure):
            upper[unsure] = self._exact_upper(unsure, last)
        return upper

    def _exact_upper(self, unsure: np.ndarray, last: int) -> np.ndarray:
        surface = self.hull.surface
        assert surface is not None
        own = self.hull.points.take(self.hull.first).columns(self.hull.frame.columns)
        whole = own.whole(np.arange(len(own)))
        normals = whole_normals(whole[surface.simplices[unsure]])
        # a simplex's normal has the sign of its determinant; the frame's middle is inside
        rows = list(self.hull.frame.rows)
        inner = whole[rows].sum(axis=0)
        corner = whole[surface.simplices[unsure, 0]] * len(rows)
        side = whole_signs((normals * (inner - corner)).sum(axis=1))
        return whole_signs(normals[:, last]) * side < 0

    @cached_property
    def _kinds(self) -> np.ndarray:
        """The kinds of lifted keys whose cells have an inside."""
        if self._faces is None:
            return self._flat_kinds()
        if self.is_fan or self._upper.all():
            return self._faces.vertices
        seen = np.zeros(len(self.hull.first), dtype=bool)
        seen[self._faces.surface.simplices[self._upper].ravel()] = True
        return self._faces.vertices[seen[self._faces.vertices]]

    def _flat_kinds(self) -> np.ndarray:
        """Keys on a line without curvature: its two ends; equal keys: the largest bias."""
        if self.hull.dimension == 0 or self.is_fan:
            return np.unique(self.hull.ends)
        return np.array([self.hull.ends[1]])

    @cached_property
    def winners(self) -> np.ndarray:
        """One key of each cell of the whole space."""
        return self.hull.first[self._kinds]

    @cached_property
    def walls(self) -> np.ndarray:
        """Pairs of places among the winners whose cells share a wall, anywhere."""
        if self._faces is None:
            return np.array([[0, 1]] if len(self._kinds) == 2 else []).reshape(-1, 2).astype(int)
        return self._places[self._faces.edges(self._upper)]

    @cached_property
    def _places(self) -> np.ndarray:
        places = np.full(len(self.hull.first), -1)
        places[self._kinds] = np.arange(len(self._kinds))
        return places

    # ---- vertices ----------------------------------------------------------------------------

    @property
    def _is_full(self) -> bool:
        """Whether vertices are given by the normals of the upper simplices."""
        return not self.is_fan and self.rank == self.dimension and self._faces is not None

    @cached_property
    def vertices(self) -> np.ndarray:
        """Where walls meet in points, in floats; in directions that do not matter, 0."""
        if not self._is_full:
            rows = [[nearest_float(x) for x in row] for row in self.exact_vertices()]
            return frozen_array(np.array(rows).reshape(-1, self.dimension))
        assert self._faces is not None
        chosen = self._faces.representative[self._upper[self._faces.representative]]
        vertices, doubt = self._slopes(chosen)
        with np.errstate(invalid="ignore"):
            blurred = ~((doubt <= _BLURRED * (1.0 + np.abs(vertices))) & np.isfinite(vertices))
        for n in np.flatnonzero(blurred.any(axis=1)):
            rows = self.hull.first[self._faces.surface.simplices[chosen[n]]]
            vertices[n] = [nearest_float(x) for x in self._vertex(rows)]
        return frozen_array(vertices)

    def _slopes(self, simplices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where the scores of upper simplices' keys tie, and how far that may be off."""
        assert self._faces is not None
        surface, shifts = self._faces.surface, self.hull.shifts
        normals, blurs = surface.normals[simplices], surface.blurs[simplices]
        height, doubt = normals[:, -1:], blurs[:, -1:]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            slopes = normals[:, :-1] / height
            error = (blurs[:, :-1] + np.abs(slopes) * doubt) / (height - doubt)
            error = inflate(error + UNIT * np.abs(slopes))
            slopes, error = (np.ldexp(x, shifts[:-1] - shifts[-1]) for x in (slopes, error))
        sure = (height > 2.0 * doubt) & np.isfinite(slopes)
        return slopes, np.where(sure, error + TINY, np.inf)

    @cached_property
    def corners(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For upper simplices whose corners all win: their vertex, its doubt, their places."""
        if not self._is_full:
            nothing = np.zeros((0, self.dimension))
            return nothing, nothing, np.zeros((0, 2), dtype=np.int64)
        assert self._faces is not None
        chosen = np.flatnonzero(self._upper)
        places = self._places[self._faces.surface.simplices[chosen]]
        kept = (places >= 0).all(axis=1)
        return *self._slopes(chosen[kept]), places[kept]

    @cached_property
    def bounded(self) -> np.ndarray:
        """Which winners' cells are bounded and have all their vertices among `corners`.

        A cell is unbounded if its lifted key lies in a facet that does not look up.
        """
        bounded = np.full(len(self._kinds), self._is_full)
        if self._is_full:
            assert self._faces is not None
            simplices = self._faces.surface.simplices
            strange = self._upper & (self._places[simplices] < 0).any(axis=1)
            rim = self._places[simplices[~self._upper | strange]]
            bounded[rim[rim >= 0]] = False
        return bounded

    def exact_vertices(self) -> list[list[Fraction]]:
        """The same as Fractions, in the same order."""
        return [self._vertex(self.hull.first[list(group)]) for group in self._vertex_kinds]

    @property
    def vertex_keys(self) -> list[tuple[int, ...]]:
        """For each vertex the keys that tie there (of each kind the first)."""
        first = self.hull.first
        return [tuple(sorted(first[list(kinds)].tolist())) for kinds in self._vertex_kinds]

    @cached_property
    def _vertex_kinds(self) -> list[tuple[int, ...]]:
        if self.rank == 0:
            return []
        if self._faces is None or self.is_fan:
            return [tuple(self._kinds.tolist())]
        groups: dict[int, set[int]] = {}
        facets, simplices = self._faces.facet[self._upper], self._faces.surface.simplices
        for facet, own in zip(facets.tolist(), simplices[self._upper].tolist(), strict=True):
            groups.setdefault(facet, set()).update(own)
        return [tuple(sorted(own)) for _, own in sorted(groups.items())]

    def _vertex(self, rows: np.ndarray) -> list[Fraction]:
        """Where the scores of these keys are equal, as near to 0 as can be."""
        keys, biases = self.sites.rationals(rows), self.levels.rationals(rows)[:, 0]
        return least_solution((keys[1:] - keys[0]).tolist(), (biases[0] - biases[1:]).tolist())

    # ---- on a box ----------------------------------------------------------------------------

    @cached_property
    def _within(self) -> BoxedDiagram:
        return BoxedDiagram(self, self._box(None))

    def _on_box(self, on: object) -> BoxedDiagram:
        return self._within if on is None else BoxedDiagram(self, self._box(on))

    def _box(self, on: object) -> Box:
        box = self.on if on is None else Box.of(on, self.dimension)
        if box is None:
            raise RequestError("Cells are cut to a box: give one, for example on=(-1, 1).")
        if self.dimension > SOLID:
            raise RequestError(
                f"Cells are cut to a box in up to {SOLID} dimensions, but the keys have "
                f"{self.dimension}. Ask for live cells and neighbours, which need no box."
            )
        if (box.low == box.high).any():
            raise DomainError(
                f"The box {box} has no inside, so it misses every cell. Give it a width in every "
                f"coordinate."
            )
        return box

    def cell(self, key: int, on: object = None) -> Cell:
        """The cell of a live key, cut to a box: corners, sides and volume in Fractions."""
        if not isinstance(key, int | np.integer) or not 0 <= key < len(self.sites):
            raise RequestError(f"There are keys 0 to {len(self.sites) - 1}, but not {key!r}.")
        place = int(self._places[self.hull.kind[key]])
        if place < 0:
            raise RequestError(f"The cell of key {key} is empty; the live ones are in `live`.")
        return self._on_box(on).cell(place)

    def volumes(self, on: object = None) -> dict[int, Fraction]:
        """The volume of every cell that meets the box, exactly; together they fill it."""
        volumes = self._on_box(on).volumes
        return {int(self.winners[place]): volume for place, volume in volumes.items()}

    # ---- queries -----------------------------------------------------------------------------

    def locate(self, queries: Rows | Row) -> np.ndarray | int:
        """The winning key for each query; at a tie the first of those that win.

        Fractions and large whole numbers are taken as they are.
        """
        single = depth_of(queries) == 1
        rows = [queries] if single else queries
        asked = Points.of(rows, "queries")
        if asked.dimension != self.dimension:
            raise ShapeError(
                f"Queries must be rows of {self.dimension} numbers, but their shape is "
                f"{asked.floats.shape}."
            )
        winners = self._locator.winners(asked)
        return int(winners[0]) if single else winners

    @cached_property
    def _locator(self) -> Locator:
        return Locator(self.sites, self.levels, self.winners, self.walls)

    @property
    def decided(self) -> int:
        """How many signs needed exact arithmetic."""
        return self.hull.decided

    def __repr__(self) -> str:
        kind = "fan" if self.is_fan else "diagram"
        return (
            f"PowerDiagram({len(self.sites)} keys in {self.dimension} dimensions, a {kind}: "
            f"{len(self.live)} live, {len(self.empty)} empty, {len(self.neighbours)} walls)"
        )


def power_diagram(keys: Rows, biases: Row | None = None, on: object = None) -> PowerDiagram:
    """The power diagram of keys (rows) with a bias each; `on` a box to which it is restricted.

    >>> power_diagram([[0, 0], [1, 0], [0, 1], [0.2, 0.2]]).live
    array([0, 1, 2])
    """
    sites = sites_of(keys)
    levels = levels_of(biases, len(sites))
    box = None if on is None else Box.of(on, sites.dimension)
    diagram = PowerDiagram(sites, levels, convex_hull(sites.with_column(levels), lifted=True), box)
    if box is not None:
        diagram._box(None)
    return diagram


def sites_of(keys: Rows) -> Points:
    """Keys, one a row, of which a diagram can be enumerated."""
    sites = Points.of(keys, "keys")
    if not len(sites) or not sites.dimension:
        raise ShapeError("A power diagram needs at least one key, of at least one dimension.")
    most = most_facets(len(sites), sites.dimension + 1)  # of the lifted keys
    few = most <= _FEW and sites.dimension < _WIDEST
    if sites.dimension + 1 > MOST_DIMENSIONS and not few:
        raise RequestError(
            f"Keys of {sites.dimension} dimensions are too many to enumerate: {len(sites):,} keys "
            f"have at most {len(sites):,} cells, but their diagram may have up to {most:.3g} "
            f"vertices. Use at most {MOST_DIMENSIONS - 1} dimensions."
        )
    return sites


def levels_of(biases: Row | None, count: int) -> Points:
    """One bias for each key; 0 if there are none."""
    if biases is None:
        return Points(frozen_array(np.zeros((count, 1))))
    given = [[bias] for bias in biases] if depth_of(biases) == 1 else []
    if len(given) != count:
        raise ShapeError(
            f"There must be one bias for each of the {count} keys, but there are {len(given)}."
        )
    return Points.of(given, "biases")
