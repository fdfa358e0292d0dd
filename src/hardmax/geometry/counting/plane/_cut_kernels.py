"""Cutting a polygon in two by a line, compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hardmax.geometry._compiled import inline
from hardmax.geometry.counting.plane._arrays import A, B, C, R, S, Walk, WalkNode, X, Y
from hardmax.numerics import GROWN, TINY, UNIT

_LEAST = 1e-100  # determinants below are not trusted: rows are about 1, so lines are parallel
_LOST = 8.0 * TINY / _LEAST  # by underflow of eight products, after division by a determinant


class WallLine(NamedTuple):
    """Where a x + b y + c vanishes; its values are off by at most `slack`, and its label."""

    a: float
    b: float
    c: float
    slack: float
    code: int


@inline
def _meeting(
    poly: np.ndarray, s: int, k: int, after: int, line: WallLine, reach: np.ndarray, fast: bool
) -> tuple[float, float, float]:
    """Where a line meets side k of polygon s, and how far off that may be.

    One Newton step from a corner, which is the solution, as both forms are affine. Slacks hold
    within reach, where the true point is: going back there brings the float point closer.
    """
    x, y = poly[s, X, k], poly[s, Y, k]
    a, b, e = line.a, line.b, line.slack
    a1, b1, c1, e1 = poly[s, A, k], poly[s, B, k], poly[s, C, k], poly[s, S, k]
    here = a * x + b * y + line.c
    side = a1 * x + b1 * y + c1
    plus, minus = a1 * b, a * b1
    det = plus - minus
    size = abs(det) - 4.0 * UNIT * (abs(plus) + abs(minus))
    if not _LEAST < size < np.inf:
        there = a * poly[s, X, after] + b * poly[s, Y, after] + line.c
        t = here / (here - there) if here != there else 0.5
        t = min(max(t, 0.0), 1.0)
        x += t * (poly[s, X, after] - x)
        y += t * (poly[s, Y, after] - y)
        return x, y, 0.0 if fast else np.inf
    x -= (b * side - b1 * here) / det
    y -= (a1 * here - a * side) / det
    x = min(max(x, -reach[0]), reach[0])
    y = min(max(y, -reach[1]), reach[1])
    if fast:
        return x, y, 0.0
    e += abs(a * x + b * y + line.c)
    e1 += abs(a1 * x + b1 * y + c1)
    off = max(abs(b) * e1 + abs(b1) * e, abs(a) * e1 + abs(a1) * e) / size
    return x, y, off * GROWN + _LOST if off < np.inf else np.inf


@inline
def _keep(walk: Walk, s: int, k: int, t: int, at: int) -> None:
    """Corner k of polygon s and its side become corner `at` of polygon t."""
    for row in range(7):
        walk.poly[t, row, at] = walk.poly[s, row, k]
    walk.code[t, at] = walk.code[s, k]


@inline
def _move(walk: Walk, t: int, at: int, corner: tuple[float, float, float]) -> None:
    """The corner is there now; its side stays."""
    walk.poly[t, X, at], walk.poly[t, Y, at], walk.poly[t, R, at] = corner


@inline
def _begin_side(
    walk: Walk, t: int, at: int, corner: tuple[float, float, float], line: WallLine
) -> None:
    """A corner from which the polygon goes on along the line that cuts."""
    _move(walk, t, at, corner)
    walk.poly[t, A, at], walk.poly[t, B, at], walk.poly[t, C, at] = line.a, line.b, line.c
    walk.poly[t, S, at] = line.slack
    walk.code[t, at] = line.code


@inline
def cut_polygon(
    walk: Walk, node: WalkNode, row: int, line: WallLine, reach: np.ndarray, fast: bool
) -> tuple[int, int]:
    """The part where the form is positive to the next node, the other one stays; their sizes.

    The form has both signs, so a corner on its line has one neighbour on each side. The part that
    stays is written behind all nodes first: it is read from where it goes.
    """
    signs, poly, s, spare = walk.signs, walk.poly, node.place, len(walk.poly) - 1
    plus, minus = 0, 0
    for k in range(node.sides):
        after = k + 1 if k + 1 < node.sides else 0
        here, there = signs[row, k], signs[row, after]
        if here == 1:
            _keep(walk, s, k, s + 1, plus)
            plus += 1
            if there == -1:
                corner = _meeting(poly, s, k, after, line, reach, fast)
                _begin_side(walk, s + 1, plus, corner, line)
                _keep(walk, s, k, spare, minus)
                _move(walk, spare, minus, corner)
                plus, minus = plus + 1, minus + 1
        elif here == -1:
            _keep(walk, s, k, spare, minus)
            minus += 1
            if there == 1:
                corner = _meeting(poly, s, k, after, line, reach, fast)
                _begin_side(walk, spare, minus, corner, line)
                _keep(walk, s, k, s + 1, plus)
                _move(walk, s + 1, plus, corner)
                plus, minus = plus + 1, minus + 1
        else:
            corner = poly[s, X, k], poly[s, Y, k], poly[s, R, k]
            if there == 1:
                _keep(walk, s, k, s + 1, plus)
                _begin_side(walk, spare, minus, corner, line)
            else:
                _keep(walk, s, k, spare, minus)
                _begin_side(walk, s + 1, plus, corner, line)
            plus, minus = plus + 1, minus + 1
    for k in range(minus):
        _keep(walk, spare, k, s, k)
    return plus, minus
