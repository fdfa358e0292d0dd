"""Sections of a simple polytope by a wall, and the two parts that it leaves, compiled.

The section has a vertex w on every edge from a vertex v on one side to a vertex on the other. Two
of them are joined if they lie on one 2-face of the polytope: a polygon, on which the wall crosses
exactly two edges, so the partner of w is found by walking from v along the polygon, on one side of
the wall, until an edge crosses. A cut costs time proportional to the vertices on the smaller side
and to the section, and no search for pairs of vertices.
"""

from __future__ import annotations

from hardmax.geometry._compiled import inline
from hardmax.geometry.counting.space import _arrays as arrays
from hardmax.geometry.counting.space._arrays import Flat, Net, Path, Pile, Room, Store, Wall
from hardmax.geometry.counting.space._form_kernels import doubt_of, wall_of
from hardmax.numerics import GROWN, TINY, UNIT


@inline
def share_off(a: float, b: float, alpha: float, beta: float) -> float:
    """How far a / (a - b) may be off, if a and b, of different signs, are by alpha and beta."""
    return max(alpha, beta) / (abs(a - b) - abs(alpha - beta))


@inline
def cross(
    room: Room, store: Store, flat: Flat, n: int, wall: Wall, cut: Store, base: int, fast: bool
) -> int:
    """The vertices of the section by the wall with value[level, n], not yet joined; how many."""
    value, level, start = room.value, flat.level, flat.start
    d = store.points.shape[1]
    dim = d - level
    above = 0
    for v in range(flat.size):
        above += value[level, n, v] > 0.0
    side = 2 * above <= flat.size  # the smaller side is walked
    w, last = base, dim - 1
    for v in range(flat.size):
        a = value[level, n, v]
        if (a > 0.0) != side:
            continue
        for k in range(dim):
            u = store.links[start + v, k]
            b = value[level, n, u]
            if (b > 0.0) == side:
                room.made[v, k] = -1
                continue
            room.made[v, k] = w - base
            room.origin[w - base, 0], room.origin[w - base, 1] = v, k
            room.origin[w - base, 2] = u
            t = a / (a - b)
            far, edge = 0.0, 0.0
            for c in range(d):
                x, y = store.points[start + v, c], store.points[start + u, c]
                cut.points[w, c] = x + t * (y - x)
                far = max(far, max(abs(x), abs(y)))
                edge = max(edge, abs(y - x))
                cut.labels[w, c] = store.labels[start + v, c]
                cut.links[w, c] = -1
            cut.labels[w, k] = store.labels[start + v, last]
            cut.labels[w, last] = wall.label
            cut.radii[w] = 0.0
            if not fast:
                near, other = store.radii[start + v], store.radii[start + u]
                off = share_off(a, b, doubt_of(wall, near), doubt_of(wall, other))
                cut.radii[w] = (max(near, other) + edge * off + 16.0 * UNIT * far) * GROWN + TINY
            w += 1
    return w - base


@inline
def join(room: Room, store: Store, start: int, cut: Store, base: int, count: int, dim: int) -> None:
    """Join the vertices of the section of a polytope of dimension `dim`, walking around 2-faces.

    At a vertex of the 2-face two of its edges meet; one leaves slot `leave`, along the other the
    walk came, and it leaves slot `stay`, whose facet holds the edge ahead.
    """
    made, labels, links, last = room.made, store.labels, store.links, dim - 1
    for w in range(count):
        v, k = room.origin[w, 0], room.origin[w, 1]
        for j in range(dim):
            slot = k if j == last else j
            if j == k or cut.links[base + w, slot] >= 0:
                continue
            at, leave, stay = v, j, k
            while made[at, leave] < 0:
                ahead = links[start + at, leave]
                label = labels[start + at, stay]
                for q in range(dim):
                    if labels[start + ahead, q] == label:
                        leave = q
                    if links[start + ahead, q] == at:
                        stay = q
                at = ahead
            other = made[at, leave]
            cut.links[base + w, slot] = other
            cut.links[base + other, leave if stay == last else stay] = w


@inline
def _write_part(
    room: Room, store: Store, cell: Flat, cut: Store, count: int, base: int, side: bool
) -> int:
    """The part on one side of the wall with value[0, 0], written at `base`; how many vertices."""
    value, new, start, d = room.value, room.new, cell.start, store.points.shape[1]
    kept = 0
    for v in range(cell.size):
        if (value[0, 0, v] > 0.0) == side:
            new[v] = kept
            kept += 1
    for v in range(cell.size):
        if (value[0, 0, v] > 0.0) != side:
            continue
        w = base + new[v]
        store.radii[w] = store.radii[start + v]
        for c in range(d):
            store.points[w, c] = store.points[start + v, c]
            store.labels[w, c] = store.labels[start + v, c]
            u = store.links[start + v, c]
            stays = (value[0, 0, u] > 0.0) == side
            store.links[w, c] = new[u] if stays else kept + room.made[v, c]
    for n in range(count):
        w = base + kept + n
        store.radii[w] = cut.radii[n]
        for c in range(d):
            store.points[w, c] = cut.points[n, c]
            store.labels[w, c] = cut.labels[n, c]
            store.links[w, c] = kept + cut.links[n, c]
        v = room.origin[n, 0]
        store.links[w, d - 1] = new[v if (value[0, 0, v] > 0.0) == side else room.origin[n, 2]]
    return kept + count


@inline
def split_cell(
    net: Net, path: Path, room: Room, pile: Pile, store: Store, cut: Store, depth: int
) -> bool:
    """Replace the node on top by its two parts; False if there is no place for them."""
    nodes, d = pile.nodes, store.points.shape[1]
    layer, left = nodes[depth, arrays.LAYER], nodes[depth, arrays.OPEN] - 1
    cell = Flat(0, nodes[depth, arrays.START], nodes[depth, arrays.SIZE])
    i = pile.left[depth, left]
    if cell.size * d > 2 * len(room.new) or depth + 2 >= len(nodes):
        return False
    if cell.start + 2 * cell.size + cell.size * d > len(store.radii):
        return False
    count = cross(room, store, cell, 0, wall_of(net, path, layer, i), cut, 0, net.fast)
    join(room, store, cell.start, cut, 0, count, d)
    for n in range(count):  # the same edges seen from their other ends
        v, u = room.origin[n, 0], room.origin[n, 2]
        for k in range(d):
            if store.links[cell.start + u, k] == v:
                room.made[u, k] = n
    first, base = cell.start + cell.size, cell.start + cell.size
    for side in (False, True):
        base += _write_part(room, store, cell, cut, count, base, side)
        if not side:
            nodes[depth, arrays.START], nodes[depth, arrays.SIZE] = first, base - first
            first = base
    nodes[depth, arrays.OPEN] = left
    for k in range(nodes.shape[1]):
        nodes[depth + 1, k] = nodes[depth, k]
    nodes[depth + 1, arrays.START], nodes[depth + 1, arrays.SIZE] = first, base - first
    for k in range(left):
        pile.left[depth + 1, k] = pile.left[depth, k]
    for k in range(net.widths[layer]):
        pile.on[depth + 1, k] = pile.on[depth, k]
    pile.on[depth + 1, i] = True
    return True
