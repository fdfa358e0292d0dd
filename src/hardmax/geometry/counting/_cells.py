"""One cell as users see it, whatever engine found it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import factorial
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax.geometry._hull import convex_hull
from hardmax.geometry._points import Points
from hardmax.geometry._rational import nearest_float
from hardmax.geometry._signs import whole_normals
from hardmax.geometry.counting._plane_piece import PlaneCell
from hardmax.geometry.counting._space import SpaceCell
from hardmax.geometry.counting._stack import Stack

if TYPE_CHECKING:  # opening that file compiles loops
    from hardmax.geometry.counting._switch_leaves import SwitchCell


@dataclass(frozen=True, eq=False)
class LinearCell:
    """An open convex set on which the pattern does not change: vertices, walls, affine map.

    In the plane the vertices go round counter-clockwise. `walls` has a label for each facet, which
    begins with the layer (from 0; -1 on the boundary of the domain). `pattern` says which neurons
    are on, layer by layer, or who wins. Coordinates are those of the domain.
    """

    vertices: np.ndarray
    pattern: tuple[Any, ...]
    walls: tuple[tuple[int, ...], ...]
    found: PlaneCell | SpaceCell | SwitchCell = field(repr=False)
    stack: Stack | None = field(default=None, repr=False)
    order: tuple[list[int], list[int]] | None = field(default=None, repr=False)  # of `found`

    @property
    def dimension(self) -> int:
        return self.vertices.shape[1]

    @cached_property
    def name(self) -> Hashable:
        """Equal for equal patterns."""
        if self.stack is None:
            return self.pattern
        return b"".join(np.packbits(np.asarray(one, dtype=bool)).tobytes() for one in self.pattern)

    @cached_property
    def exact_vertices(self) -> tuple[tuple[Fraction, ...], ...]:
        match self.found:
            case PlaneCell():
                return tuple(self.found.exact_corners())
            case SpaceCell():
                return self.found.corners
        exact = self.found.exact_vertices
        return exact if self.order is None else tuple(exact[v] for v in self.order[0])

    @cached_property
    def exact_map(self) -> tuple[tuple[Fraction, ...], ...]:
        """A row for each output: coefficients of the domain's coordinates, then the constant."""
        if not isinstance(self.found, PlaneCell | SpaceCell):
            return self.found.map
        assert self.stack is not None
        return tuple(map(tuple, self.stack.exact_outputs(self.pattern)))

    @cached_property
    def map(self) -> tuple[np.ndarray, np.ndarray]:
        """The affine map x -> matrix @ x + offset on this cell, in floats."""
        if self.stack is None:
            rows = np.array([[nearest_float(x) for x in row] for row in self.exact_map])
        else:
            rows = self.stack.float_outputs(self.pattern)
        return rows[:, :-1], rows[:, -1]

    @cached_property
    def inequalities(self) -> tuple[np.ndarray, np.ndarray]:
        """The cell is where matrix @ x + offset > 0, one row a facet, rows of length 1."""
        rows = np.array([[nearest_float(x) for x in _small(row)] for row in self._exact_walls])
        rows /= np.linalg.norm(rows[:, :-1], axis=1, keepdims=True)
        return rows[:, :-1], rows[:, -1]

    @property
    def _exact_walls(self) -> list[tuple[Any, ...]]:
        if isinstance(self.found, SpaceCell):
            return list(self.found.inequalities)
        if not isinstance(self.found, PlaneCell):
            walls = list(self.found.walls)
            return walls if self.order is None else [walls[f] for f in self.order[1]]
        corners = self.exact_vertices
        rows: list[tuple[Any, ...]] = []
        for p, q in zip(corners, (*corners[1:], corners[0]), strict=True):
            a, b = p[1] - q[1], q[0] - p[0]
            rows.append((a, b, -(a * p[0] + b * p[1])))
        return rows

    @cached_property
    def volume(self) -> float:
        """Length, area or volume, in the domain's coordinates."""
        if self.dimension == 1:
            return float(np.ptp(self.vertices))
        if self.dimension == 2:
            with np.errstate(over="ignore", invalid="ignore"):  # infinite, or not a number
                x, y = (self.vertices - self.vertices.mean(axis=0)).T
                return float(x @ np.roll(y, -1) - np.roll(x, -1) @ y) / 2
        from scipy.spatial import ConvexHull, QhullError

        try:
            return float(ConvexHull(self.vertices).volume)
        except QhullError:  # too thin for floats
            return float(_exact_volume(self.exact_vertices))

    def __repr__(self) -> str:
        return f"LinearCell({len(self.vertices)} vertices, {len(self.walls)} walls)"


def linear_cell(found: Any, stack: Stack | None) -> LinearCell:
    """What an engine emits, in the common form."""
    match found:
        case PlaneCell():
            return LinearCell(found.corners, found.patterns, found.labels, found, stack)
        case SpaceCell():
            return LinearCell(found.points, found.pattern, found.facets, found, stack)
    if found.vertices.shape[1] != 2:
        return LinearCell(found.vertices, found.pattern, found.sides, found)
    order = _around(found.bits, found.exact_vertices)
    walls = tuple(found.sides[f] for f in order[1])
    return LinearCell(found.vertices[order[0]], found.pattern, walls, found, order=order)


def _around(bits: tuple[int, ...], corners: Any) -> tuple[list[int], list[int]]:
    """Vertices counter-clockwise, and the facet that begins at each, from who lies on what."""
    facets = [[f for f in range(bit.bit_length()) if bit >> f & 1] for bit in bits]
    ends: dict[int, list[int]] = {}
    for v, own in enumerate(facets):
        for f in own:
            ends.setdefault(f, []).append(v)
    vertices, sides = [0], [facets[0][0]]
    while True:
        a, b = ends[sides[-1]]
        v = b if vertices[-1] == a else a
        if v == 0:
            break
        vertices.append(v)
        sides.append(next(f for f in facets[v] if f != sides[-1]))
    turn = _turn(*(corners[v] for v in vertices[:3]))
    if turn < 0:
        vertices, sides = vertices[:1] + vertices[:0:-1], sides[::-1]
    return vertices, sides


def _turn(a: Any, b: Any, c: Any) -> Any:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _small(row: tuple[Any, ...]) -> list[Fraction]:
    """A row scaled so that its largest coefficient is 1: whole numbers may be beyond floats."""
    most = max(abs(Fraction(x)) for x in row[:-1])
    return [Fraction(x) / most for x in row]


def _exact_volume(vertices: tuple[tuple[Fraction, ...], ...]) -> Fraction:
    """Of a hull: simplices from one inner point over its verified boundary."""
    hull = convex_hull(Points.of(np.array(vertices, dtype=object)))
    assert hull.surface is not None
    points = np.array(vertices, dtype=object)[hull.first]
    inner = points.sum(axis=0) / Fraction(len(points))
    total = Fraction(0)
    for normal, corner in zip(
        whole_normals(points[hull.surface.simplices]),
        points[hull.surface.simplices[:, 0]],
        strict=True,
    ):
        total += abs(((inner - corner) * normal).sum())
    return total / factorial(len(inner))
