"""Counting the cells of the last layer without making them, compiled: by flats.

Let k walls meet the open polytope C. Adding wall i to the walls before it cuts in two exactly
those cells that it meets, and these are the cells that the earlier walls make in the section of C
by wall i: cells(C; 1..k) = 1 + sum_i cells(C and wall i; 1..i-1). So the number is that of all
flats (C, its sections, sections of sections, ...) met; every flat costs one section of a polytope
of fewer dimensions, far less than two parts of full dimension. On a segment walls are points; they
have to be distinct. In dimension 0 the earlier walls have to miss the point.
"""

from __future__ import annotations

from hardmax.geometry._compiled import inline
from hardmax.geometry.counting.space import _arrays as arrays
from hardmax.geometry.counting.space._arrays import Flat, Net, Path, Pile, Room, Store
from hardmax.geometry.counting.space._form_kernels import doubt_of, find_values, wall_of
from hardmax.geometry.counting.space._section_kernels import cross, join, share_off
from hardmax.geometry.counting.space._vertex_kernels import find_again
from hardmax.numerics import GROWN, UNIT

NO_PLACE, UNCLEAR = -2, -1  # instead of a count


@inline
def _are_apart(
    net: Net, path: Path, room: Room, store: Store, segment: Flat, layer: int, count: int
) -> bool:
    """Whether walls that meet a segment surely do so in as many points."""
    t, off, level = room.t, room.off, segment.level
    for n in range(count):
        wall = wall_of(net, path, layer, room.open[level, n])
        a, b = room.value[level, n, 0], room.value[level, n, 1]
        alpha = doubt_of(wall, store.radii[segment.start])
        beta = doubt_of(wall, store.radii[segment.start + 1])
        t[n] = a / (a - b)
        off[n] = share_off(a, b, alpha, beta) * GROWN + 4.0 * UNIT
        for k in range(n):
            if not abs(t[n] - t[k]) > (off[n] + off[k]) * GROWN:
                return False
    return True


@inline
def _walls_that_meet(
    net: Net, path: Path, room: Room, store: Store, flat: Flat, layer: int, earlier: int, count: int
) -> int:
    """Which of the walls room.open[earlier, :count] meet a flat, into its own level; how many.

    -1 - v if the sign of one at vertex v is unclear.
    """
    meeting = 0
    for n in range(count):
        i = room.open[earlier, n]
        wall = wall_of(net, path, layer, i)
        kind = find_values(path, room, store, flat, meeting, wall, net.fast)
        if kind < 0:
            return kind
        if kind == arrays.CROSSING:
            room.open[flat.level, meeting] = i
            meeting += 1
    return meeting


@inline
def _meet_surely(
    net: Net, path: Path, room: Room, store: Store, flat: Flat, layer: int, earlier: int, count: int
) -> int:
    """The same; a vertex that leaves a sign unclear is found again, and then all values at it.

    UNCLEAR if that does not help.
    """
    dim = store.points.shape[1] - flat.level
    while True:
        meeting = _walls_that_meet(net, path, room, store, flat, layer, earlier, count)
        if meeting >= 0:
            if dim > 1 or net.fast or meeting < 2:
                return meeting
            if _are_apart(net, path, room, store, flat, layer, meeting):
                return meeting
            gained = find_again(net, path, room, store, flat.start)
            if not (find_again(net, path, room, store, flat.start + 1) or gained):
                return UNCLEAR
        elif not find_again(net, path, room, store, flat.start - 1 - meeting):
            return UNCLEAR


@inline
def count_by_flats(
    net: Net, path: Path, room: Room, pile: Pile, store: Store, cut: Store, depth: int
) -> int:
    """Cells that the open walls make in the node on top; UNCLEAR, or NO_PLACE.

    Level 0 is the node, each level above it a section of the one below. `where` holds for each
    level: walls still to cut with, first vertex, number of vertices.
    """
    where, places, d = room.where, len(room.new), store.points.shape[1]
    layer, count = pile.nodes[depth, arrays.LAYER], pile.nodes[depth, arrays.OPEN]
    for n in range(count):
        room.open[d + 1, n] = pile.left[depth, n]
    total, level, earlier = 0, 0, d + 1
    flat = Flat(0, pile.nodes[depth, arrays.START], pile.nodes[depth, arrays.SIZE])
    while True:
        here = store if level == 0 else cut
        meeting = _meet_surely(net, path, room, here, flat, layer, earlier, count)
        if meeting < 0:
            return UNCLEAR
        total += 1
        if d - level == 1:
            total += meeting
            meeting = 0
        if meeting > 0 and level > 0:
            below = store if level == 1 else cut
            join(room, below, where[level - 1, 1], cut, flat.start, flat.size, d - level + 1)
        where[level, 0], where[level, 1], where[level, 2] = meeting, flat.start, flat.size
        while level >= 0 and where[level, 0] == 0:
            level -= 1
        if level < 0:
            return total
        where[level, 0] -= 1
        count, earlier = where[level, 0], level
        flat = Flat(level, where[level, 1], where[level, 2])
        if flat.size * (d - level) > 2 * places:
            return NO_PLACE
        wall = wall_of(net, path, layer, room.open[level, count])
        here = store if level == 0 else cut
        begin = level * places
        size = cross(room, here, flat, count, wall, cut, begin, net.fast)
        level += 1
        flat = Flat(level, begin, size)
