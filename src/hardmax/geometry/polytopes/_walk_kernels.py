"""The walk from vertex to vertex of a sum, compiled: gather a cone, find its rays, step across.

A vertex of the sum is a row of `cells`, one vertex a summand; vertices of all summands are numbered
in one go. `_minkowski` has the theorem behind the steps; which directions are extreme is found by
`_wrap_kernels` in two and three dimensions, by `_ray_kernels` in others and where that fails, and
what floats leave open in whole numbers, by `_whole_kernels` or, beyond int64, by Python.
"""

from __future__ import annotations

import numpy as np

from hardmax.geometry._compiled import copy_row, inline, lent, resumable_entry
from hardmax.geometry.polytopes import _arrays as arrays
from hardmax.geometry.polytopes._arrays import (
    EXTREME,
    OPEN,
    UNKNOWN,
    Cone,
    EdgeArrays,
    Queue,
    Scratch,
)
from hardmax.geometry.polytopes._ray_kernels import find_centre, find_extreme_rays
from hardmax.geometry.polytopes._whole_kernels import settle
from hardmax.geometry.polytopes._wrap_kernels import wrap

# ---- the table of rows ---------------------------------------------------------------------------


@inline
def _slot_of(row: np.ndarray, key: np.uint64, queue: Queue) -> np.int64:
    """The slot of a row in the table: its own, or the free one where it belongs."""
    table = queue.table
    mask = len(table) - 1
    slot = np.int64(key & np.uint64(mask))
    while table[slot] >= 0:
        at = table[slot]
        if queue.keys[at] == key:
            same = True
            for h in range(len(row)):
                if queue.cells[at, h] != row[h]:
                    same = False
                    break
            if same:
                return slot
        slot = (slot + 1) & mask
    return slot


@resumable_entry
def fill_table(queue: Queue) -> None:
    """Put all rows into an empty table."""
    table, mask = queue.table, len(queue.table) - 1
    for at in range(queue.now[arrays.KNOWN]):
        slot = np.int64(queue.keys[at] & np.uint64(mask))
        while table[slot] >= 0:
            slot = (slot + 1) & mask
        table[slot] = at


# ---- the walk ------------------------------------------------------------------------------------


@inline
def _gather(graph: EdgeArrays, queue: Queue, cone: Cone, at: int, seen: np.ndarray) -> int:
    """The directions of all edges at a vertex of the sum, each once; the floor, if any, first."""
    count = 0
    if graph.floor >= 0:
        cone.ways[0], seen[graph.floor], count = graph.floor, at, 1
    for h in range(queue.cells.shape[1]):
        v = queue.cells[at, h]
        for e in range(graph.start[v], graph.start[v + 1]):
            if seen[graph.way[e]] != at:
                seen[graph.way[e]] = at
                cone.ways[count] = graph.way[e]
                count += 1
    return count


@inline
def _load(graph: EdgeArrays, queue: Queue, cone: Cone, at: int, count: int) -> int:
    """Nothing is known of the directions but the one that leads back: which it is, or -1."""
    back = -1
    for k in range(count):
        way = cone.ways[k]
        copy_row(cone.vectors[k], graph.directions[way])
        copy_row(cone.blurs[k], graph.blurs[way])
        cone.status[k], cone.feet[k] = UNKNOWN, np.nan
        if way == queue.arrivals[at]:
            cone.status[k], back = EXTREME, k
    return back


@inline
def _step_across(graph: EdgeArrays, queue: Queue, cone: Cone, at: int, count: int) -> None:
    """Step across every extreme ray, and write down the vertices that are new."""
    row = np.empty_like(queue.cells[at])
    for k in range(count):
        way = cone.ways[k]
        if cone.status[k] != EXTREME or way == graph.floor or way == queue.arrivals[at]:
            continue
        key = queue.keys[at]
        for h in range(len(row)):
            v = queue.cells[at, h]
            row[h] = v
            for e in range(graph.start[v], graph.start[v + 1]):
                if graph.way[e] == way:
                    row[h] = graph.target[e]
                    key ^= graph.marks[v] ^ graph.marks[row[h]]
                    break
        slot = _slot_of(row, key, queue)
        if queue.table[slot] < 0:
            new = queue.now[arrays.KNOWN]
            queue.table[slot] = new
            queue.keys[new], queue.arrivals[new] = key, way ^ 1
            copy_row(queue.cells[new], row)
            copy_row(queue.hints[new, 0], cone.feet[k])
            copy_row(queue.hints[new, 1], cone.beyond[k])
            queue.now[arrays.KNOWN] = new + 1


@resumable_entry
def leave(graph: EdgeArrays, queue: Queue, cone: Cone) -> None:
    """The vertex at the head is decided, by Python: step across, and go on."""
    _step_across(graph, queue, cone, queue.now[arrays.HEAD], queue.now[arrays.COUNT])
    queue.now[arrays.HEAD] += 1


@inline
def _decide(
    graph: EdgeArrays, queue: Queue, cone: Cone, scratch: Scratch, at: int, count: int
) -> int:
    """Find out by floats which directions are extreme; how many they leave open."""
    back = _load(graph, queue, cone, at, count)
    is_known = False
    if 2 <= cone.vectors.shape[1] <= 3 and back >= 0:
        is_known = wrap(cone, count, back, scratch)
    if not is_known and find_centre(cone, count, queue.hints[at], scratch):
        find_extreme_rays(cone, count, scratch)
    left = 0
    for k in range(count):
        left += cone.status[k] == OPEN or cone.status[k] == UNKNOWN
    return left


@resumable_entry
def explore(graph: EdgeArrays, queue: Queue, cone: Cone, scratch: Scratch, budget: int) -> int:
    """Walk on from the head for at most so many vertices; why it stopped.

    At a vertex that waits for Python's whole numbers (PENDING) `now` has its directions' count.
    """
    graph, queue, cone, scratch = lent(graph), lent(queue), lent(cone), lent(scratch)
    now, most = queue.now, len(cone.ways)
    for at in range(now[arrays.HEAD], min(now[arrays.HEAD] + budget, now[arrays.KNOWN])):
        room = now[arrays.KNOWN] + most
        if room > len(queue.cells) or 2 * room > len(queue.table):
            return arrays.FULL
        count = _gather(graph, queue, cone, at, scratch.seen)
        left = _decide(graph, queue, cone, scratch, at, count)
        now[arrays.DECIDED] += left
        if left and not graph.is_small:
            now[arrays.COUNT] = count
            return arrays.PENDING
        if left:
            for k in range(count):
                copy_row(cone.whole[k], graph.whole[cone.ways[k]])
            settle(cone, count, scratch)
        _step_across(graph, queue, cone, at, count)
        now[arrays.HEAD] = at + 1
    return arrays.DONE if now[arrays.HEAD] == now[arrays.KNOWN] else arrays.PAUSED
