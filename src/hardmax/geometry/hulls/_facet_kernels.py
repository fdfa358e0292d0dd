"""Loops over facets, compiled; every sign comes with a bound on its own error.

A facet is a simplex of D points in R^D. Its normal is the vector of the D minors of the D - 1
differences, by expansion along the last row over all sets of columns, so that one code serves every
dimension. Running error analysis: each number carries a bound on its error, and a product or sum
adds what it rounds (u = 2^-53 of the result). Coordinates are at most 2, so that nothing overflows
and all that underflows together is far below FAINT.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from hardmax.numerics import FAINT, GROWN, UNIT

INSIDE, UNSURE, OUTSIDE = -1, 0, 1


@njit(cache=True)
def _minors(rows, slack_rows, value, error):  # type: ignore[no-untyped-def]
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


@njit(cache=True)
def _normal(points, slack, corners, rows, doubts, value, error, normal, blur):  # type: ignore[no-untyped-def]
    width = points.shape[1]
    for k in range(width - 1):
        for c in range(width):
            rows[k, c] = points[corners[k + 1], c] - points[corners[0], c]
            doubts[k, c] = UNIT * abs(rows[k, c]) + 2.0 * slack[c]
    _minors(rows, doubts, value, error)
    full = (1 << width) - 1
    for c in range(width):
        one = full ^ (1 << c)
        normal[c] = value[one] if (width - 1 + c) % 2 == 0 else -value[one]
        blur[c] = error[one]


@njit(cache=True)
def _side(points, slack, normal, blur, corner, other):  # type: ignore[no-untyped-def]
    """On which side of a facet's plane a point is: the sign, if it is sure."""
    total, doubt = 0.0, 0.0
    for c in range(points.shape[1]):
        a = points[other, c] - points[corner, c]
        ea = UNIT * abs(a) + 2.0 * slack[c]
        term = a * normal[c]
        doubt += abs(a) * blur[c] + abs(normal[c]) * ea + ea * blur[c] + UNIT * abs(term)
        total += term
        doubt += UNIT * abs(total)
    if abs(total) > doubt * GROWN + FAINT:
        return OUTSIDE if total > 0.0 else INSIDE
    return UNSURE


@njit(cache=True)
def normals_of(points, slack, simplices, centre):  # type: ignore[no-untyped-def]
    """Outward normals with their errors, and whether the centre's side is sure."""
    count, width = simplices.shape
    normals, blurs = np.empty((count, width)), np.empty((count, width))
    sure = np.empty(count, dtype=np.bool_)
    rows, doubts = np.empty((width - 1, width)), np.empty((width - 1, width))
    value, error = np.zeros(1 << width), np.zeros(1 << width)
    for f in range(count):
        _normal(points, slack, simplices[f], rows, doubts, value, error, normals[f], blurs[f])
        side = _side(points, slack, normals[f], blurs[f], simplices[f, 0], centre)
        sure[f] = side != UNSURE
        if side == OUTSIDE:
            for c in range(width):
                normals[f, c] = -normals[f, c]
    return normals, blurs, sure


@njit(cache=True)
def is_closed(simplices, neighbours):  # type: ignore[no-untyped-def]
    """Whether the i-th neighbour of each simplex shares all corners but the i-th, and knows it."""
    count, width = simplices.shape
    for f in range(count):
        for i in range(width):
            g = neighbours[f, i]
            if g < 0 or g >= count or g == f:
                return False
            shared, back = 0, False
            for j in range(width):
                found = False
                for k in range(width):
                    if j != i and simplices[g, k] == simplices[f, j]:
                        found = True
                shared += found
            for k in range(width):
                is_apex = True
                for j in range(width):
                    if simplices[g, k] == simplices[f, j] and j != i:
                        is_apex = False
                if is_apex and neighbours[g, k] == f:
                    back = True
            if shared != width - 1 or not back:
                return False
    return True


@njit(cache=True)
def apexes(simplices, neighbours):  # type: ignore[no-untyped-def]
    """For the i-th neighbour of each simplex, the corner that the simplex does not have."""
    count, width = simplices.shape
    found = np.empty((count, width), dtype=np.int64)
    for f in range(count):
        for i in range(width):
            g = neighbours[f, i]
            for k in range(width):
                shared = False
                for j in range(width):
                    if j != i and simplices[f, j] == simplices[g, k]:
                        shared = True
                if not shared:
                    found[f, i] = simplices[g, k]
    return found


@njit(cache=True)
def ridge_sides(points, slack, simplices, normals, blurs, across):  # type: ignore[no-untyped-def]
    """The side of each facet on which its neighbours' other corners lie."""
    count, width = simplices.shape
    sides = np.empty((count, width), dtype=np.int8)
    for f in range(count):
        for i in range(width):
            sides[f, i] = _side(points, slack, normals[f], blurs[f], simplices[f, 0], across[f, i])
    return sides


@njit(cache=True)
def _wall_side(points, slack, simplex, i, centre, other, work):  # type: ignore[no-untyped-def]
    """Whether `other` is on the simplex's side of the wall through the centre and ridge i."""
    rows, doubts, value, error, normal, blur, corners = work
    width = len(simplex)
    corners[0] = centre
    place = 1
    for j in range(width):
        if j != i:
            corners[place] = simplex[j]
            place += 1
    _normal(points, slack, corners, rows, doubts, value, error, normal, blur)
    own = _side(points, slack, normal, blur, centre, simplex[i])
    return own * _side(points, slack, normal, blur, centre, other), own


@njit(cache=True)
def _workspace(width):  # type: ignore[no-untyped-def]
    return (
        np.empty((width - 1, width)),
        np.empty((width - 1, width)),
        np.zeros(1 << width),
        np.zeros(1 << width),
        np.empty(width),
        np.empty(width),
        np.empty(width, dtype=np.int64),
    )


@njit(cache=True)
def climb(points, neighbours, normals, simplices, centre, others, starts):  # type: ignore[no-untyped-def]
    """For each other point the simplex in whose cone it probably lies, by floats alone.

    On the cone of a simplex its own n.x / n.c, with n its normal and c a corner, both as seen from
    the centre, is the largest of all; and a convex function is climbed from neighbour to neighbour.
    """
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


@njit(cache=True)
def walk(points, slack, simplices, neighbours, normals, blurs, centre, others, starts, most):  # type: ignore[no-untyped-def]
    """For each other point the simplex in whose cone from the centre it lies, and what is sure.

    Sure (INSIDE, OUTSIDE) only if every wall of the cone and the facet itself are.
    """
    width = simplices.shape[1]
    work = _workspace(width)
    home = np.empty(len(others), dtype=np.int64)
    state = np.empty(len(others), dtype=np.int8)
    for n in range(len(others)):
        f, steps, unsure = starts[n], 0, True
        while steps < most:
            steps += 1
            unsure, moved = False, False
            for turn in range(width):
                i = (turn + steps) % width
                side, own = _wall_side(points, slack, simplices[f], i, centre, others[n], work)
                if own == UNSURE or side == UNSURE:
                    unsure = True
                elif side < 0:
                    f, moved = neighbours[f, i], True
                    break
            if not moved:
                break
        home[n] = f
        state[n] = UNSURE
        if not unsure:
            state[n] = _side(points, slack, normals[f], blurs[f], simplices[f, 0], others[n])
    return home, state


@njit(cache=True)
def _is_behind(points, simplex, centre, other):  # type: ignore[no-untyped-def]
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


@njit(cache=True)
def cones_over(points, slack, simplices, centre, other):  # type: ignore[no-untyped-def]
    """For each simplex, whether the point is in its cone: OUTSIDE, as of a facet; INSIDE if not."""
    count, width = simplices.shape
    work = _workspace(width)
    found = np.empty(count, dtype=np.int8)
    for f in range(count):
        found[f] = INSIDE
        if _is_behind(points, simplices[f], centre, other):
            continue
        found[f] = OUTSIDE
        for i in range(width):
            side, own = _wall_side(points, slack, simplices[f], i, centre, other, work)
            if own == UNSURE or side == UNSURE:
                found[f] = min(found[f], UNSURE)
            elif side < 0:
                found[f] = INSIDE
                break
    return found
