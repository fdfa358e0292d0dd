"""Counting the cells of a ReLU network on a convex polygon of the plane, and going through them.

The walk is compiled (`_kernels`); it stops for the signs that floats cannot decide, for
facets whose two sides must be compared exactly, and now and then, so that Python can report
progress and be interrupted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np

from hardmax.geometry.counting._stack import Stack
from hardmax.geometry.counting._tally import OverLimit, Tally
from hardmax.geometry.counting.plane import _arrays as arrays
from hardmax.geometry.counting.plane._piece import PlaneCell as PlaneCell
from hardmax.geometry.counting.plane._piece import PlanePiece as PlanePiece
from hardmax.geometry.counting.plane._piece import start_piece as start_piece
from hardmax.geometry.counting.plane._split import split_piece as split_piece
from hardmax.geometry.counting.plane._walk import NO_LIMIT, Course

_PULSE = 0.1  # seconds between two reports of progress


def count_piece(
    stack: Stack,
    piece: PlanePiece,
    *,
    fast: bool = False,
    regions: bool = False,
    limit: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Tally:
    """Cells after each layer and, if `regions`, the silent facets of the last one's cells.

    Raises OverLimit as soon as more than `limit` cells are found. `progress` hears the number of
    cells several times a second.
    """
    course = Course(stack, piece, arrays.REGIONS if regions else arrays.COUNT, fast=fast)
    most = NO_LIMIT if limit is None else limit
    reported, why = time.monotonic(), arrays.PAUSED
    while why != arrays.DONE:
        why = course.go(limit=most)
        if course.cells > most:
            raise OverLimit(course.cells, most)
        if progress is not None and time.monotonic() > reported + _PULSE:
            reported = time.monotonic()
            progress(course.cells)
    course.put_away()
    layers, silent = course.layers, course.silent
    course.leave()
    if not silent:
        return Tally(layers, course.decided)
    return Tally(layers, course.decided, np.concatenate(silent))


def each_cell(stack: Stack, piece: PlanePiece, *, fast: bool = False) -> Iterator[PlaneCell]:
    """The cells of the last layer, one after another; only a few hundred are held at a time."""
    course = Course(stack, piece, arrays.EMIT, fast=fast)
    why = arrays.PAUSED
    while why != arrays.DONE:
        why = course.go()
        if why in (arrays.DONE, arrays.FULL):
            yield from _cells_held(course)
            course.walk.now[arrays.EMITTED] = 0


def _cells_held(course: Course) -> Iterator[PlaneCell]:
    walk, start = course.walk, course.net.start
    for k in range(int(walk.now[arrays.EMITTED])):
        n = int(walk.cell_heads[k, 0])
        states = walk.cell_patterns[k].astype(bool)
        labels = (code >> 1 for code in walk.cell_heads[k, 1 : n + 1].tolist())
        yield PlaneCell(
            walk.cells[k, :, :n].T.copy(),
            tuple(np.split(states, start[1:-1])),
            tuple(course._neuron(g) if g >= 0 else (-1, -1 - g) for g in labels),
            course.stack,
            course.piece,
        )
