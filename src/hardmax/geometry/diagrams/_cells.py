"""Cells cut to a box, in Fractions: on a line, in the plane and in space.

A solid is a list of faces, each a list of corners in order, each with the rival on whose wall it
lies (None: a side of the box). A half-space cuts every face to what lies in it; the cut edges lie
in one plane and together bound the new face. Corners in the plane itself belong to both sides, so a
wall that only touches the solid takes nothing off and leaves no face of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from hardmax.core import Box

Point = tuple[Fraction, ...]


@dataclass(frozen=True)
class Side:
    """A side of a cell: its corners in order, and the key across it (None: the box)."""

    corners: tuple[Point, ...]
    rival: int | None


@dataclass(frozen=True)
class Cell:
    """A cell within a box: its corners, its sides and its volume, exactly.

    Without an inside there are no corners and no sides, and the volume is 0. In the plane the
    corners go round counter-clockwise, and side i begins at corner i.
    """

    corners: tuple[Point, ...]
    sides: tuple[Side, ...]
    volume: Fraction

    @property
    def neighbours(self) -> frozenset[int]:
        """The keys across its walls, within the box."""
        return frozenset(side.rival for side in self.sides if side.rival is not None)


_NOTHING = Cell((), (), Fraction(0))


def clip_box(
    box: Box, slopes: list[list[Fraction]], levels: list[Fraction], rivals: list[int]
) -> Cell:
    """The part of a box where <slope, x> + level >= 0 for all slopes and levels."""
    low = [Fraction(x) for x in box.low.tolist()]
    high = [Fraction(x) for x in box.high.tolist()]
    cut = {1: _segment, 2: _polygon, 3: _solid}[len(low)]
    return cut(low, high, list(zip(slopes, levels, rivals, strict=True)))


_Walls = list[tuple[list[Fraction], Fraction, int]]


def _height(slope: list[Fraction], level: Fraction, x: Point) -> Fraction:
    return sum((a * b for a, b in zip(slope, x, strict=True)), level)


def _crossing(a: Point, b: Point, at_a: Fraction, at_b: Fraction) -> Point:
    """Where the height is 0 between two corners on different sides of a wall."""
    share = at_a / (at_a - at_b)
    return tuple(x + share * (y - x) for x, y in zip(a, b, strict=True))


# ---- on a line -----------------------------------------------------------------------------------


def _segment(low: list[Fraction], high: list[Fraction], walls: _Walls) -> Cell:
    ends: list[tuple[Fraction, int | None]] = [(low[0], None), (high[0], None)]
    for (slope,), level, rival in walls:
        if slope == 0:
            if level < 0:
                return _NOTHING
            continue
        root = -level / slope
        if slope > 0 and root > ends[0][0]:
            ends[0] = (root, rival)
        if slope < 0 and root < ends[1][0]:
            ends[1] = (root, rival)
    if ends[0][0] >= ends[1][0]:
        return _NOTHING
    sides = tuple(Side(((x,),), rival) for x, rival in ends)
    return Cell(tuple((x,) for x, _ in ends), sides, ends[1][0] - ends[0][0])


# ---- in the plane --------------------------------------------------------------------------------


def _polygon(low: list[Fraction], high: list[Fraction], walls: _Walls) -> Cell:
    (x0, y0), (x1, y1) = low, high
    corners: list[Point] = [(x0, y0), (x1, y0), (x1, y1), (x0, y1)]
    across: list[int | None] = [None] * 4
    for slope, level, rival in walls:
        corners, across = _cut_polygon(corners, across, slope, level, rival)
        if len(corners) < 3:
            return _NOTHING
    sides = tuple(
        Side((a, b), rival)
        for a, b, rival in zip(corners, [*corners[1:], corners[0]], across, strict=True)
    )
    twice = sum(
        (
            a[0] * b[1] - b[0] * a[1]
            for a, b in zip(corners, [*corners[1:], corners[0]], strict=True)
        ),
        Fraction(0),
    )
    return Cell(tuple(corners), sides, twice / 2) if twice > 0 else _NOTHING


def _cut_polygon(
    corners: list[Point],
    across: list[int | None],
    slope: list[Fraction],
    level: Fraction,
    rival: int,
) -> tuple[list[Point], list[int | None]]:
    """What is left of a convex polygon; across[i] belongs to the edge from corner i."""
    heights = [_height(slope, level, x) for x in corners]
    if all(h >= 0 for h in heights):
        return corners, across
    if not any(h > 0 for h in heights):
        return [], []
    kept, labels, count = list[Point](), list[int | None](), len(corners)
    for i in range(count):
        j = (i + 1) % count
        if heights[i] >= 0:
            kept.append(corners[i])
            leaves = heights[i] == 0 and heights[j] < 0
            labels.append(rival if leaves else across[i])
        if heights[i] * heights[j] < 0:
            kept.append(_crossing(corners[i], corners[j], heights[i], heights[j]))
            labels.append(rival if heights[i] > 0 else across[i])
    return kept, labels


# ---- in space ------------------------------------------------------------------------------------

_Face = tuple[list[Point], int | None]


def _solid(low: list[Fraction], high: list[Fraction], walls: _Walls) -> Cell:
    faces = _box_faces(low, high)
    for slope, level, rival in walls:
        faces = _cut_solid(faces, slope, level, rival)
        if not faces:
            return _NOTHING
    corners = tuple(sorted({corner for face, _ in faces for corner in face}))
    sides = tuple(Side(tuple(face), rival) for face, rival in faces)
    return Cell(corners, sides, _volume(faces))


def _box_faces(low: list[Fraction], high: list[Fraction]) -> list[_Face]:
    ends = list(zip(low, high, strict=True))
    faces: list[_Face] = []
    for axis in range(3):
        u, v = [a for a in range(3) if a != axis]
        for end in range(2):
            around = []
            for s, t in ((0, 0), (1, 0), (1, 1), (0, 1)):
                corner = [Fraction(0)] * 3
                corner[axis], corner[u], corner[v] = ends[axis][end], ends[u][s], ends[v][t]
                around.append(tuple(corner))
            faces.append((around, None))
    return faces


def _cut_solid(
    faces: list[_Face], slope: list[Fraction], level: Fraction, rival: int
) -> list[_Face]:
    heights = {x: _height(slope, level, x) for face, _ in faces for x in face}
    if all(h >= 0 for h in heights.values()):
        return faces
    if not any(h > 0 for h in heights.values()):
        return []
    left: list[_Face] = []
    rim: dict[Point, set[Point]] = {}
    for face, label in faces:
        if not any(heights[x] > 0 for x in face):
            continue
        kept = _cut_face(face, heights)
        left.append((kept, label))
        on = [x for x in kept if heights.get(x, 0) == 0]
        if len(on) == 2:  # a cut, or an edge in the plane whose other face is gone
            _join(rim, on[0], on[1])
    left.append((_around(rim), rival))
    return left


def _cut_face(face: list[Point], heights: dict[Point, Fraction]) -> list[Point]:
    kept = []
    for a, b in zip(face, [*face[1:], face[0]], strict=True):
        if heights[a] >= 0:
            kept.append(a)
        if heights[a] * heights[b] < 0:
            first, second = (a, b) if a < b else (b, a)  # one name for the point on both faces
            kept.append(_crossing(first, second, heights[first], heights[second]))
    return kept


def _join(rim: dict[Point, set[Point]], a: Point, b: Point) -> None:
    rim.setdefault(a, set()).add(b)
    rim.setdefault(b, set()).add(a)


def _around(rim: dict[Point, set[Point]]) -> list[Point]:
    """The corners of a closed rim in order."""
    start = min(rim)
    corners, last, here = [start], start, min(rim[start])
    while here != start:
        corners.append(here)
        last, here = here, next(x for x in rim[here] if x != last)
    return corners


def _volume(faces: list[_Face]) -> Fraction:
    """Six times the volume is a sum of determinants over triangles, seen from one inner point."""
    corners = {x for face, _ in faces for x in face}
    centre = [sum((x[c] for x in corners), Fraction(0)) / len(corners) for c in range(3)]
    total = Fraction(0)
    for face, _ in faces:
        a = [x - y for x, y in zip(face[0], centre, strict=True)]
        for second, third in pairwise(face[1:]):
            b = [x - y for x, y in zip(second, centre, strict=True)]
            c = [x - y for x, y in zip(third, centre, strict=True)]
            total += abs(
                a[0] * (b[1] * c[2] - b[2] * c[1])
                - a[1] * (b[0] * c[2] - b[2] * c[0])
                + a[2] * (b[0] * c[1] - b[1] * c[0])
            )
    return total / 6
