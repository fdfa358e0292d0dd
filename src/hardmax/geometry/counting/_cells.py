"""One cell as users see it, whatever engine found it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import factorial, prod
from typing import Any

import numpy as np

from hardmax.geometry.counting._stack import Stack
from hardmax.geometry.counting.plane._piece import PlaneCell
from hardmax.geometry.counting.space._counting import SpaceCell
from hardmax.geometry.counting.switch._leaves import SwitchCell
from hardmax.geometry.hulls._hull import convex_hull
from hardmax.geometry.hulls._points import Points, whole_normals
from hardmax.numerics import nearest_float

Point = tuple[Fraction, ...]

_THICK = 2.0**-16  # of the bounding box: thinner cells are measured exactly


@dataclass(frozen=True, eq=False)
class LinearCell:
    """An open convex set on which the pattern does not change: vertices, walls, affine map.

    In the plane the vertices go round counter-clockwise. `walls` has a label for each facet, which
    begins with the layer (from 0; -1 on the boundary of the domain). `pattern` says which neurons
    are on, layer by layer, or who wins. Coordinates are those of the domain.

    >>> corner = hm.MaxAffine([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], [0.0, 0.0, 0.0])
    >>> cell = next(iter(hm.regions(corner, on="[-1,1]^2")))
    >>> cell.dimension
    2
    """

    vertices: np.ndarray
    pattern: tuple[Any, ...]
    walls: tuple[tuple[int, ...], ...]
    found: PlaneCell | SpaceCell | SwitchCell = field(repr=False)
    stack: Stack | None = field(default=None, repr=False)
    order: tuple[list[int], list[int]] | None = field(default=None, repr=False)  # of `found`
    exact: bool = field(default=True, repr=False)  # of a fast answer the floats are all there is

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
    def _exact_walls(self) -> list[tuple[Fraction | int, ...]]:
        if isinstance(self.found, SpaceCell):
            return list(self.found.inequalities)
        if not isinstance(self.found, PlaneCell):
            walls: list[tuple[Fraction | int, ...]] = list(self.found.walls)
            return walls if self.order is None else [walls[f] for f in self.order[1]]
        corners = self.exact_vertices
        rows: list[tuple[Fraction | int, ...]] = []
        for p, q in zip(corners, (*corners[1:], corners[0]), strict=True):
            a, b = p[1] - q[1], q[0] - p[0]
            rows.append((a, b, -(a * p[0] + b * p[1])))
        return rows

    @cached_property
    def volume(self) -> float:
        """Length, area or volume in the domain's coordinates, to nine digits at least.

        Infinite beyond the floats. Of a fast answer it is the volume of the floats.
        """
        vertices = self.exact_vertices if self.exact else _fractions(self.vertices)
        if self.dimension == 1:
            ends = [x for (x,) in vertices]
            return nearest_float(max(ends) - min(ends))
        if self.dimension == 2:
            return nearest_float(_area(vertices))
        return nearest_float(_solid_volume(vertices))

    def __repr__(self) -> str:
        return f"LinearCell({len(self.vertices)} vertices, {len(self.walls)} walls)"


def linear_cell(
    found: PlaneCell | SpaceCell | SwitchCell, stack: Stack | None, *, exact: bool = True
) -> LinearCell:
    """What an engine emits, in the common form."""
    match found:
        case PlaneCell():
            return LinearCell(
                found.corners, found.patterns, found.labels, found, stack, exact=exact
            )
        case SpaceCell():
            return LinearCell(found.points, found.pattern, found.facets, found, stack, exact=exact)
    if found.vertices.shape[1] != 2:
        return LinearCell(found.vertices, found.pattern, found.sides, found, exact=exact)
    order = _around(found.bits, found.exact_vertices)
    sides = tuple(found.sides[f] for f in order[1])
    vertices = found.vertices[order[0]]
    return LinearCell(vertices, found.pattern, sides, found, order=order, exact=exact)


def _around(bits: tuple[int, ...], corners: Sequence[Point]) -> tuple[list[int], list[int]]:
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


def _turn(a: Point, b: Point, c: Point) -> Fraction:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _fractions(rows: np.ndarray) -> tuple[tuple[Fraction, ...], ...]:
    return tuple(tuple(map(Fraction, row)) for row in rows.tolist())


def _area(corners: tuple[tuple[Fraction, ...], ...]) -> Fraction:
    """Of a polygon, counter-clockwise: triangles from its first corner."""
    pairs = pairwise(corners[1:])
    return sum((_turn(corners[0], b, c) for b, c in pairs), Fraction(0)) / 2


def _solid_volume(vertices: tuple[tuple[Fraction, ...], ...]) -> Fraction:
    """Of a hull, by Qhull where its floats are good for nine digits.

    The bounding box is made the unit cube, exactly. Then rounding moves vertices by less than
    2^-50, and the volume by that times the surface, which is at most that of the cube, 2d.
    """
    low, high = ([pick(column) for column in zip(*vertices, strict=True)] for pick in (min, max))
    widths = [b - a for a, b in zip(low, high, strict=True)]
    box = prod(widths)
    if not box:
        return box
    unit = [
        [float((x - a) / w) for x, a, w in zip(row, low, widths, strict=True)] for row in vertices
    ]
    from scipy.spatial import ConvexHull, QhullError

    try:
        share = float(ConvexHull(np.array(unit)).volume)
    except QhullError:  # too thin for floats
        share = 0.0
    return box * Fraction(share) if share > _THICK else _exact_volume(vertices)


def _small(row: tuple[Fraction | int, ...]) -> list[Fraction]:
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
