"""Pieces of work of similar weight, for several processes."""

from __future__ import annotations

import heapq

import numpy as np

from hardmax.geometry.counting._stack import Stack
from hardmax.geometry.counting.plane import _arrays as arrays
from hardmax.geometry.counting.plane._piece import PlanePiece
from hardmax.geometry.counting.plane._walk import Course


def split_piece(
    stack: Stack, piece: PlanePiece, *, fast: bool = False, at_least: int = 2
) -> list[PlanePiece]:
    """Pieces that together have the same cells, `at_least` so many if there are enough cells.

    The heaviest piece is cut again and again; the heaviest come first. Cells of finished layers
    are reported by one of the pieces inside them.
    """
    waiting: list[tuple[float, int, PlanePiece]] = [(0.0, 0, piece)]
    whole: list[PlanePiece] = []
    number = 0
    while waiting and len(waiting) + len(whole) < at_least:
        parts = _step(stack, heapq.heappop(waiting)[2], fast=fast)
        for weight, part in parts:
            number += 1
            if weight:
                heapq.heappush(waiting, (-weight, number, part))
            else:
                whole.append(part)
    return [part for _, _, part in sorted(waiting, key=lambda entry: entry[:2])] + whole


def _step(stack: Stack, piece: PlanePiece, *, fast: bool) -> list[tuple[float, PlanePiece]]:
    """The halves of a piece, or the same piece one layer further; with weights, 0 for a cell."""
    course = Course(stack, piece, arrays.STEP, fast=fast)
    last = len(stack.hidden) - 1
    while True:
        course.go(steps=1)
        layer, _, count = course.walk.head[0].tolist()
        is_cell = layer == last and count == 0 and not course.walk.now[arrays.GIVEN]
        if course.walk.now[arrays.TOP] == 1 or layer > piece.layer or is_cell:
            break
    parts = [
        (0.0 if is_cell else _weight(course, s), part) for s, part in enumerate(course.nodes())
    ]
    course.leave()
    return parts


def _weight(course: Course, s: int) -> float:
    """A guess at the number of cells: c lines that cross make 1 + c, and more where they meet."""
    walk = course.walk
    layer, n, count = walk.head[s].tolist()
    width = course.stack.hidden[layer]
    some = walk.open[s, :count] if count >= 0 else np.arange(width)
    a, b, c = walk.maps[layer][:, some]
    values = np.outer(walk.poly[s, 0, :n], a) + np.outer(walk.poly[s, 1, :n], b) + c
    crossing = int(np.sum((values.min(axis=0) < 0) & (values.max(axis=0) > 0)))
    return (1.0 + crossing + crossing**2 / 4) * (len(course.stack.hidden) - layer)
