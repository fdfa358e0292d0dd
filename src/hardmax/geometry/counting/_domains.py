"""Segments and plane slices: domains of one and two dimensions in an input space of many."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hardmax._errors import DomainError, ShapeError
from hardmax.core import Box
from hardmax.geometry.hulls._points import Points

Vector = tuple[Fraction, ...]
Coordinates = Iterable[float | Fraction] | float | Fraction  # one number stands for a list of one


@dataclass(frozen=True, eq=False, init=False)
class Segment:
    """The points start + t (end - start) with 0 <= t <= 1, in any number of dimensions.

    Ends may be floats, whole numbers or Fractions. `start` and `end` are their floats;
    `exact_start` and `exact_end` are what was given.

    >>> network = hm.ReluNetwork([[[1.0], [-1.0]], [[1.0, 1.0]]], [[0.0, 0.0], [0.0]])  # |x|
    >>> hm.regions(network, on=hm.Segment([-1.0], [2.0])).cells
    2
    """

    start: np.ndarray
    end: np.ndarray
    _points: Points

    def __init__(self, start: Coordinates, end: Coordinates) -> None:
        points = _rows(
            [_as_list(start), _as_list(end)], "A segment needs two lists of finite numbers"
        )
        object.__setattr__(self, "_points", points)
        object.__setattr__(self, "start", points.floats[0])
        object.__setattr__(self, "end", points.floats[1])
        if self.exact_start == self.exact_end:
            raise DomainError(
                "A segment needs two different ends, but start and end are one point; move one."
            )

    @property
    def dimension(self) -> int:
        return self._points.dimension

    @property
    def exact_start(self) -> Vector:
        return tuple(self._points.rationals()[0].tolist())

    @property
    def exact_end(self) -> Vector:
        return tuple(self._points.rationals()[1].tolist())

    def at(self, t: Fraction) -> Vector:
        """The point at t, exactly."""
        return tuple(a + t * (b - a) for a, b in zip(self.exact_start, self.exact_end, strict=True))

    def __repr__(self) -> str:
        return f"Segment({self.start.tolist()} to {self.end.tolist()})"


@dataclass(frozen=True, eq=False, init=False)
class Slice:
    """The points origin + y_1 directions[0] + y_2 directions[1] with y in a convex polygon.

    The polygon is a list of corners in order around it, either way, or a box of two dimensions;
    `polygon` holds the corners counter-clockwise. Every inner angle must be under 180 degrees.

    >>> hm.Slice([0, 0, 0], [[1, 0, 0], [0, 1, 1]], "[-1,1]^2").dimension
    3
    """

    origin: np.ndarray
    directions: np.ndarray
    polygon: np.ndarray
    _frame: Points
    _corners: Points

    def __init__(
        self,
        origin: Coordinates,
        directions: Iterable[Coordinates],
        polygon: Box | str | Iterable[Coordinates],
    ) -> None:
        ways = _as_list(directions)
        if len(ways) != 2:
            raise DomainError(f"A slice needs two directions, but got {len(ways)}.")
        rows = [_as_list(one) for one in (origin, *ways)]
        need = "A slice needs an origin and two directions of finite numbers"
        frame, corners = _rows(rows, need), _convex(_corners(polygon))
        object.__setattr__(self, "_frame", frame)
        object.__setattr__(self, "_corners", corners)
        object.__setattr__(self, "origin", frame.floats[0])
        object.__setattr__(self, "directions", frame.floats[1:])
        object.__setattr__(self, "polygon", corners.floats)
        if _dependent(*self.exact_directions):
            raise DomainError(
                "The directions of a slice must be independent, but one is a multiple of the "
                "other; give two that span a plane."
            )

    @property
    def dimension(self) -> int:
        """Of the space that is cut."""
        return self._frame.dimension

    @property
    def exact_origin(self) -> Vector:
        return tuple(self._frame.rationals()[0].tolist())

    @property
    def exact_directions(self) -> tuple[Vector, Vector]:
        rows = self._frame.rationals().tolist()
        return tuple(rows[1]), tuple(rows[2])

    @property
    def exact_polygon(self) -> tuple[tuple[Fraction, Fraction], ...]:
        """The corners, counter-clockwise."""
        return tuple((x, y) for x, y in self._corners.rationals().tolist())

    def at(self, first: Fraction, second: Fraction) -> Vector:
        """The point at y = (first, second), exactly."""
        one, other = self.exact_directions
        return tuple(
            o + first * a + second * b
            for o, a, b in zip(self.exact_origin, one, other, strict=True)
        )

    def __repr__(self) -> str:
        return f"Slice(plane in {self.dimension} dimensions, {len(self.polygon)} corners)"


Domain = Box | Segment | Slice


def own_dimension(domain: Domain) -> int:
    """How many coordinates a domain has of its own: t along a segment, two in a slice."""
    if isinstance(domain, Box):
        return domain.dimension
    return 1 if isinstance(domain, Segment) else 2


def _as_list(values: object) -> list[object]:
    try:
        return list(values) if isinstance(values, Iterable) else [values]
    except TypeError:  # an array without axes
        return [values]


def _rows(rows: list[list[object]], need: str) -> Points:
    lengths = [len(row) for row in rows]
    if len(set(lengths)) != 1 or not lengths[0]:
        raise DomainError(f"{need}, all of one length, but the lengths are {lengths}.")
    try:
        return Points.of(rows)
    except ShapeError as reason:
        raise DomainError(f"{need}, but what was given holds something else.") from reason


def _corners(polygon: Box | str | Iterable[Coordinates]) -> list[list[object]]:
    if isinstance(polygon, str):
        polygon = Box.parse(polygon)
    if isinstance(polygon, Box):
        if polygon.dimension != 2:
            raise DomainError(
                f"The box of a slice has two coordinates, but this one has {polygon.dimension}."
            )
        (a, c), (b, d) = polygon.low.tolist(), polygon.high.tolist()
        return [[a, c], [b, c], [b, d], [a, d]]
    return [_as_list(corner) for corner in _as_list(polygon)]


def _convex(corners: list[list[object]]) -> Points:
    """The corners counter-clockwise, refused unless each lies strictly left of every other edge.

    That is strict convexity: then every edge is an edge of the hull, and every corner a vertex.
    """
    if len(corners) < 3 or any(len(corner) != 2 for corner in corners):
        raise DomainError(
            "A polygon needs three corners or more, two numbers each; a box also does."
        )
    points = _rows(corners, "A polygon needs corners of finite numbers")
    rows = points.rationals().tolist()
    if _turn(*rows[:3]) < 0:
        points = points.take(np.arange(len(rows))[::-1])
        rows = rows[::-1]
    for k, corner in enumerate(rows):
        after = rows[(k + 1) % len(rows)]
        others = [one for i, one in enumerate(rows) if i not in (k, (k + 1) % len(rows))]
        if any(_turn(corner, after, one) <= 0 for one in others):
            raise DomainError(
                "The polygon must be strictly convex, its corners in order around it, but corner "
                f"{[float(x) for x in corner]} and the next do not bound it; leave out corners "
                "inside or on its sides."
            )
    return points


def _turn(a: list[Fraction], b: list[Fraction], c: list[Fraction]) -> Fraction:
    """Positive if a, b, c turn left."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _dependent(a: Vector, b: Vector) -> bool:
    """Two vectors are dependent iff every 2 x 2 minor with a nonzero entry of the first is 0."""
    pivot = next((i for i, x in enumerate(a) if x), None)
    return pivot is None or all(a[pivot] * y == x * b[pivot] for x, y in zip(a, b, strict=True))
