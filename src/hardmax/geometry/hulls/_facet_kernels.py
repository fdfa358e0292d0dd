"""Loops over facets, compiled; every sign comes with a bound on its own error.

A facet is a simplex of D points in R^D. Its normal is the vector of the D minors of the D - 1
differences, by expansion along the last row over all sets of columns, so that one code serves every
dimension. Running error analysis: each number carries a bound on its error, and a product or sum
adds what it rounds (u = 2^-53 of the result). Coordinates are at most 2, so that nothing overflows
and all that underflows together is far below FAINT.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hardmax.geometry._compiled import entry, inline, lent
from hardmax.numerics import FAINT, GROWN, UNIT

INSIDE, UNSURE, OUTSIDE = -1, 0, 1


class FloatPoints(NamedTuple):
    """Points in floats, and how far each column may be off."""

    points: np.ndarray
    slack: np.ndarray


class Facets(NamedTuple):
    """Simplices, who lies across each of their ridges, and their outward normals."""

    simplices: np.ndarray
    neighbours: np.ndarray
    normals: np.ndarray
    blurs: np.ndarray  # how far the normals may be off


class Plane(NamedTuple):
    """Through a corner, with a normal that is off by at most `blur`."""

    normal: np.ndarray
    blur: np.ndarray
    corner: int


class Work(NamedTuple):
    """Scratch for one normal."""

    rows: np.ndarray
    doubts: np.ndarray
    value: np.ndarray
    error: np.ndarray
    normal: np.ndarray
    blur: np.ndarray
    corners: np.ndarray


def new_work(width: int) -> Work:
    return Work(
        rows=np.empty((width - 1, width)),
        doubts=np.empty((width - 1, width)),
        value=np.zeros(1 << width),
        error=np.zeros(1 << width),
        normal=np.empty(width),
        blur=np.empty(width),
        corners=np.empty(width, dtype=np.int64),
    )


# ---- one facet -----------------------------------------------------------------------------------


@inline
def _minors(rows: np.ndarray, slack_rows: np.ndarray, value: np.ndarray, error: np.ndarray) -> None:
    """All minors of the first rows, by sets of columns as bits; those of all rows come last."""
    count, width = rows.shape
    value[0], error[0] = 1.0, 0.0
    for chosen in range(1, 1 << width):
        k = 0
        for c in range(width):
            k += (chosen >> c) & 1
        if k > count:
            continue
        total, doubt, place = 0.0, 0.0, 0
        for c in range(width):
            if not (chosen >> c) & 1:
                continue
            rest = chosen ^ (1 << c)
            a, ea = rows[k - 1, c], slack_rows[k - 1, c]
            b, eb = value[rest], error[rest]
            term = a * b
            doubt += abs(a) * eb + abs(b) * ea + ea * eb
            total = total + term if (k - 1 + place) % 2 == 0 else total - term
            if k > 1:  # one number is not rounded
                doubt += UNIT * abs(term)
            if place > 0:
                doubt += UNIT * abs(total)
            place += 1
        value[chosen], error[chosen] = total, doubt


@inline
def _find_normal(cloud: FloatPoints, corners: np.ndarray, work: Work) -> None:
    """The normal of the simplex with these corners, into `work`, and how far it may be off."""
    points, width = cloud.points, cloud.points.shape[1]
    for k in range(width - 1):
        for c in range(width):
            away = points[corners[k + 1], c] - points[corners[0], c]
            work.rows[k, c] = away
            work.doubts[k, c] = UNIT * abs(away) + 2.0 * cloud.slack[c]
    _minors(work.rows, work.doubts, work.value, work.error)
    full = (1 << width) - 1
    for c in range(width):
        rest = full ^ (1 << c)
        work.normal[c] = work.value[rest] if (width - 1 + c) % 2 == 0 else -work.value[rest]
        work.blur[c] = work.error[rest]


@inline
def _side(cloud: FloatPoints, plane: Plane, other: int) -> int:
    """On which side of a facet's plane a point is: the sign, if it is sure."""
    points, normal, blur = cloud.points, plane.normal, plane.blur
    total, doubt = 0.0, 0.0
    for c in range(points.shape[1]):
        a = points[other, c] - points[plane.corner, c]
        ea = UNIT * abs(a) + 2.0 * cloud.slack[c]
        term = a * normal[c]
        doubt += abs(a) * blur[c] + abs(normal[c]) * ea + ea * blur[c] + UNIT * abs(term)
        total += term
        doubt += UNIT * abs(total)
    if abs(total) > doubt * GROWN + FAINT:
        return OUTSIDE if total > 0.0 else INSIDE
    return UNSURE


@inline
def _plane_of(facets: Facets, f: int) -> Plane:
    return Plane(facets.normals[f], facets.blurs[f], facets.simplices[f, 0])


@inline
def _wall_side(
    cloud: FloatPoints, simplex: np.ndarray, i: int, centre: int, other: int, work: Work
) -> tuple[int, int]:
    """Whether `other` is on the simplex's side of the wall through the centre and ridge i.

    1 if it is, -1 if it is not, UNSURE if that or the simplex's own side is; and that side.
    """
    work.corners[0] = centre
    place = 1
    for j in range(len(simplex)):
        if j != i:
            work.corners[place] = simplex[j]
            place += 1
    _find_normal(cloud, work.corners, work)
    wall = Plane(work.normal, work.blur, centre)
    own = _side(cloud, wall, simplex[i])
    return own * _side(cloud, wall, other), own


# ---- a closed surface ----------------------------------------------------------------------------


@entry
def orient(cloud: FloatPoints, facets: Facets, centre: int, work: Work) -> np.ndarray:
    """Fill in the outward normals with their errors; whether the centre's side is sure."""
    cloud, facets, work = lent(cloud), lent(facets), lent(work)
    count, width = facets.simplices.shape
    sure = np.empty(count, dtype=np.bool_)
    for f in range(count):
        _find_normal(cloud, facets.simplices[f], work)
        side = _side(cloud, Plane(work.normal, work.blur, facets.simplices[f, 0]), centre)
        sure[f] = side != UNSURE
        for c in range(width):
            facets.normals[f, c] = -work.normal[c] if side == OUTSIDE else work.normal[c]
            facets.blurs[f, c] = work.blur[c]
    return sure


@inline
def _has_corner(simplex: np.ndarray, corner: int, but: int) -> bool:
    """Whether a simplex has a corner, its place `but` not counted."""
    has = False
    for j in range(len(simplex)):
        has |= j != but and simplex[j] == corner
    return has


@entry
def is_closed(simplices: np.ndarray, neighbours: np.ndarray) -> bool:
    """Whether the i-th neighbour of each simplex shares all corners but the i-th, and knows it."""
    count, width = simplices.shape
    for f in range(count):
        for i in range(width):
            g = neighbours[f, i]
            if g < 0 or g >= count or g == f:
                return False
            shared, back = 0, False
            for j in range(width):
                shared += j != i and _has_corner(simplices[g], simplices[f, j], -1)
                is_apex = not _has_corner(simplices[f], simplices[g, j], i)
                back |= is_apex and neighbours[g, j] == f
            if shared != width - 1 or not back:
                return False
    return True


@entry
def apexes(simplices: np.ndarray, neighbours: np.ndarray) -> np.ndarray:
    """For the i-th neighbour of each simplex, the corner that the simplex does not have."""
    count, width = simplices.shape
    across = np.empty((count, width), dtype=np.int64)
    for f in range(count):
        for i in range(width):
            g = neighbours[f, i]
            for k in range(width):
                if not _has_corner(simplices[f], simplices[g, k], i):
                    across[f, i] = simplices[g, k]
    return across


@entry
def ridge_sides(cloud: FloatPoints, facets: Facets, across: np.ndarray) -> np.ndarray:
    """The side of each facet on which its neighbours' other corners lie."""
    cloud, facets = lent(cloud), lent(facets)
    count, width = facets.simplices.shape
    sides = np.empty((count, width), dtype=np.int8)
    for f in range(count):
        for i in range(width):
            sides[f, i] = _side(cloud, _plane_of(facets, f), across[f, i])
    return sides


# ---- points that are no corners ------------------------------------------------------------------


@entry
def climb(
    cloud: FloatPoints, facets: Facets, centre: int, others: np.ndarray, starts: np.ndarray
) -> np.ndarray:
    """For each other point the simplex in whose cone it probably lies, by floats alone.

    On the cone of a simplex its own n.x / n.c, with n its normal and c a corner, both as seen from
    the centre, is the largest of all; and a convex function is climbed from neighbour to neighbour.
    """
    points, neighbours = cloud.points, facets.neighbours
    normals, simplices = facets.normals, facets.simplices
    count, width = simplices.shape
    slopes = np.empty((count, width))
    for f in range(count):
        height = 0.0
        for c in range(width):
            height += normals[f, c] * (points[simplices[f, 0], c] - points[centre, c])
        for c in range(width):
            slopes[f, c] = normals[f, c] / height if height > 0.0 else 0.0
    home = np.empty(len(others), dtype=np.int64)
    away = np.empty(width)
    for n in range(len(others)):
        for c in range(width):
            away[c] = points[others[n], c] - points[centre, c]
        here, best = starts[n], 0.0
        for c in range(width):
            best += slopes[here, c] * away[c]
        climbing = True
        while climbing:
            climbing, ahead = False, here
            for i in range(width):
                g = neighbours[here, i]
                score = 0.0
                for c in range(width):
                    score += slopes[g, c] * away[c]
                if score > best:
                    best, ahead, climbing = score, g, True
            here = ahead
        home[n] = here
    return home


@entry
def walk(
    cloud: FloatPoints, facets: Facets, centre: int, others: np.ndarray, starts: np.ndarray,
    work: Work, most: int,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """For each other point the simplex in whose cone from the centre it lies, and what is sure.

    Sure (INSIDE, OUTSIDE) only if every wall of the cone and the facet itself are.
    """
    cloud, facets, work = lent(cloud), lent(facets), lent(work)
    width = facets.simplices.shape[1]
    home = np.empty(len(others), dtype=np.int64)
    state = np.empty(len(others), dtype=np.int8)
    for n in range(len(others)):
        f, steps, unsure = starts[n], 0, True
        while steps < most:
            steps += 1
            unsure, moved = False, False
            for turn in range(width):
                i = (turn + steps) % width
                side, own = _wall_side(cloud, facets.simplices[f], i, centre, others[n], work)
                if own == UNSURE or side == UNSURE:
                    unsure = True
                elif side < 0:
                    f, moved = facets.neighbours[f, i], True
                    break
            if not moved:
                break
        home[n] = f
        state[n] = UNSURE
        if not unsure:
            state[n] = _side(cloud, _plane_of(facets, f), others[n])
    return home, state


@inline
def _is_behind(points: np.ndarray, simplex: np.ndarray, centre: int, other: int) -> bool:
    """Whether all corners are clearly behind the centre, as seen towards the other point.

    Coordinates are at most 2 and off by at most 2 u. So differences are at most 4 and off by 8 u,
    w products by 64 u each, and their sum by w 16 w u more.
    """
    width = points.shape[1]
    off = 80.0 * width * width * UNIT * GROWN
    for corner in simplex:
        ahead = 0.0
        for c in range(width):
            o = points[centre, c]
            ahead += (points[corner, c] - o) * (points[other, c] - o)
        if not ahead < -off:
            return False
    return True


@entry
def cones_over(
    cloud: FloatPoints, simplices: np.ndarray, centre: int, other: int, work: Work
) -> np.ndarray:
    """For each simplex, whether the point is in its cone: OUTSIDE, as of a facet; INSIDE if not."""
    cloud, work = lent(cloud), lent(work)
    count, width = simplices.shape
    sides = np.empty(count, dtype=np.int8)
    for f in range(count):
        sides[f] = INSIDE
        if _is_behind(cloud.points, simplices[f], centre, other):
            continue
        sides[f] = OUTSIDE
        for i in range(width):
            side, own = _wall_side(cloud, simplices[f], i, centre, other, work)
            if own == UNSURE or side == UNSURE:
                sides[f] = min(sides[f], UNSURE)
            elif side < 0:
                sides[f] = INSIDE
                break
    return sides
