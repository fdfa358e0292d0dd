"""Cells of a ReLU network in d dimensions, compiled: cut simple polytopes, count their flats.

One file, longer than others, because Numba's cache sees changes in the file of the function that
Python calls and in no other: kernels that call each other across files would go stale.

**A cell is a simple polytope**, kept by its vertices: d facets each (`labels`), and for each of
them the vertex at the other end of the edge that leaves this facet and stays in the others
(`links`). A wall that vanishes at no vertex cuts the polytope into two simple ones. Its section has
a vertex w on every edge from a vertex v on one side to a vertex on the other. Two vertices of the
section are joined if they lie on one 2-face of the polytope: a polygon, on which the wall crosses
exactly two edges, so the partner of w is found by walking from v along the polygon, on one side of
the wall, until an edge crosses. A cut costs time proportional to the vertices on the smaller side
and to the section, and no search for pairs of vertices.

**Counting without cells.** In the last hidden layer cells are wanted only as a number. Let k walls
meet the open polytope C. Adding wall i to the walls before it cuts in two exactly those cells that
it meets, and these are the cells that the earlier walls make in the section of C by wall i:
cells(C; 1..k) = 1 + sum_i cells(C and wall i; 1..i-1). So the number is that of all flats (C, its
sections, sections of sections, ...) met; every flat costs one section of a polytope of fewer
dimensions, far less than two children of full dimension. On a segment walls are points; they
have to be distinct. In dimension 0 the earlier walls have to miss the point.

**Error.** Let the float vertex be within `radii` (largest coordinate) of the true one, and let a
wall's float form be within `slack` of the true one anywhere in the domain, evaluation included.
Then its value at the vertex is off by at most slack + steep * radius, steep the sum of magnitudes
of its gradient, and beyond that its sign is believed. Let the values at the two ends of a crossed
edge be a > 0 > b, off by at most alpha and beta. The crossing is at t = a / (a - b), which grows
with both; so it is off by at most max(alpha, beta) / (a - b - |alpha - beta|), and the new vertex
by the larger radius of the two, plus this times the length of the edge, plus rounding.
This bound grows with every cut, by the slant of the wall to the edge, so where it leaves a sign
open, the vertex is first found again from its d walls: with A their gradients, R an approximate
inverse, r the values at the float vertex, |A (true - float)| <= |r| + 2 slack =: s, whence
|true - float| <= (|R| s) / (1 - |I - R A|) in the largest coordinate, if |I - R A| < 1.
By induction every sign believed is true, and then the polytopes have the combinatorics of the
true ones. Everything else stops the walk (`UNSURE`), for exact arithmetic to go on from there.

**The walk** goes depth first. `nodes` is a stack of cells within a layer, each with its polytope in
`store` behind that of the node below it; a cut writes both children behind their parent, which is
overwritten when the stack falls below them. So memory depends on the depth, not on the count.

Functions that run for every wall or vertex take plain arrays and make no views: a tuple of arrays
handed on, or a view, costs two locked instructions an array for counting references. Without them
a 3-64-64 went from 378,000 to 774,000 cells a second.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from hardmax.numerics import GROWN, TINY, UNIT

DONE, PAUSED, FULL, UNSURE, LEAF, DOUBT = 0, 1, 2, 3, 4, 5  # why the walk stopped
COUNT, REGIONS, CELLS = 0, 1, 2  # what is wanted of the leaves
LAYER, START, SIZE, OPEN, STAINED = 0, 1, 2, 3, 4  # columns of `nodes`
DEPTH, BUDGET, SILENT, LIMIT = 0, 1, 2, 3  # places in `now`
FLATS = 16  # for speed: a last layer with so few walls in a cell is counted by flats

_NEGATIVE, _POSITIVE, _CROSSING = 0, 1, 2


class Net(NamedTuple):
    """The network, and what does not change while it is walked."""

    widths: np.ndarray  # of the hidden layers
    firsts: np.ndarray  # the label of each layer's first neuron; last, of the domain's first side
    layer_of: np.ndarray  # for each label of a neuron
    across: np.ndarray  # (layers, from, to): weights, transposed
    biases: np.ndarray  # (layers, neurons)
    slack: np.ndarray  # for each label
    sides: np.ndarray  # (sides, d + 1): the domain, where they are >= 0
    alive: np.ndarray  # (layers, neurons): 0 where weights and bias are all 0
    out: np.ndarray  # (outputs, neurons of the last hidden layer)
    blur: np.ndarray  # for each neuron: rounding in its effect on the output
    words: np.ndarray  # (neurons, 2) random words
    reach: np.ndarray  # the largest magnitude of each coordinate in the domain
    fine: float  # a radius below which a vertex is not found again
    fast: bool  # believe every sign


class Path(NamedTuple):
    """The affine maps of the layers above the cell at hand, and its pattern there."""

    maps: np.ndarray  # (layers, d + 1, neurons)
    steep: np.ndarray  # (layers, neurons): sums of magnitudes of gradients
    pattern: np.ndarray  # (layers, neurons)


class Store(NamedTuple):
    """Vertices of polytopes, one polytope behind the other."""

    points: np.ndarray
    radii: np.ndarray
    labels: np.ndarray  # those of the facets through a vertex first, then of the flat's walls
    links: np.ndarray  # counted from the polytope's first vertex


class Pile(NamedTuple):
    """The stack of cells."""

    nodes: np.ndarray  # (depth, 5)
    left: np.ndarray  # (depth, neurons): those whose sign is open
    on: np.ndarray  # (depth, neurons)


class Room(NamedTuple):
    """Scratch."""

    value: np.ndarray  # (levels, FLATS + 1, vertices)
    made: np.ndarray  # (vertices, d): the new vertex on an edge
    new: np.ndarray  # (vertices,): a vertex's number in the child
    origin: np.ndarray  # (vertices, 3): vertex, edge, other vertex
    row: np.ndarray  # (4, neurons)
    square: np.ndarray  # (3, d, d + 1)
    rest: np.ndarray  # (d,)
    open: np.ndarray  # (d + 2, FLATS + 1): walls that meet the flat of a level; last, of the cell
    where: np.ndarray  # (levels, 3)
    t: np.ndarray  # (FLATS + 1,): points on a segment
    off: np.ndarray  # (FLATS + 1,): how far they may be off
    sense: np.ndarray  # (2, layers, neurons)
    seen: np.ndarray  # for each label: the leaf that saw it last; at its end, the leaf's number


# ---- a vertex ------------------------------------------------------------------------------------


@njit(cache=True, error_model="numpy")
def _gather(net, path, labels, A, d):  # type: ignore[no-untyped-def]
    """The forms of the walls through a vertex, constants last."""
    total = net.firsts[-1]
    for i in range(d):
        label = labels[i]
        if label >= total:
            for c in range(d + 1):
                A[i, c] = net.sides[label - total, c]
        else:
            layer = net.layer_of[label]
            for c in range(d + 1):
                A[i, c] = path.maps[layer, c, label - net.firsts[layer]]


@njit(cache=True, error_model="numpy")
def _invert(square, d):  # type: ignore[no-untyped-def]
    """square[1] becomes an approximate inverse of square[0], which is lost; False if singular."""
    A, R = square[0], square[1]
    for i in range(d):
        for j in range(d):
            R[i, j] = 1.0 if i == j else 0.0
    for c in range(d):
        best = c
        for i in range(c + 1, d):
            if abs(A[i, c]) > abs(A[best, c]):
                best = i
        if not abs(A[best, c]) > 0.0:
            return False
        for j in range(d):
            A[c, j], A[best, j] = A[best, j], A[c, j]
            R[c, j], R[best, j] = R[best, j], R[c, j]
        scale = 1.0 / A[c, c]
        for j in range(d):
            A[c, j] *= scale
            R[c, j] *= scale
        for i in range(d):
            if i != c:
                factor = A[i, c]
                for j in range(d):
                    A[i, j] -= factor * A[c, j]
                    R[i, j] -= factor * R[c, j]
    return True


@njit(cache=True, error_model="numpy")
def _excess(R, A, d):  # type: ignore[no-untyped-def]
    """An upper bound of |I - R A|, the largest row sum; infinite if it is no number."""
    worst = 0.0
    for i in range(d):
        total = 0.0
        for j in range(d):
            entry, size = (1.0 if i == j else 0.0), 1.0
            for k in range(d):
                term = R[i, k] * A[k, j]
                entry -= term
                size += abs(term)
            total += abs(entry) + (d + 1) * UNIT * size
        if not total < np.inf:
            return np.inf
        worst = max(worst, total)
    return worst * GROWN


@njit(cache=True, error_model="numpy")
def _settle(net, path, room, store, w, d):  # type: ignore[no-untyped-def]
    """Find vertex w again from its walls: a Newton step, then a bound from the residual.

    False if it was known well enough, or nothing is gained.
    """
    before = store.radii[w]
    if before <= net.fine:
        return False
    labels, x = store.labels[w], store.points[w]
    A, R, rest = room.square[2], room.square[1], room.rest
    _gather(net, path, labels, A, d)
    for i in range(d):
        for j in range(d):
            room.square[0, i, j] = A[i, j]
    if not _invert(room.square, d):
        return False
    excess = _excess(R, A, d)
    if not excess < 0.5:
        return False
    for step in range(2):
        for i in range(d):
            value = A[i, d]
            for c in range(d):
                value += A[i, c] * x[c]
            rest[i] = value
        if step == 0:
            for c in range(d):
                for i in range(d):
                    x[c] -= R[c, i] * rest[i]
                x[c] = min(max(x[c], -net.reach[c]), net.reach[c])  # where slack is proved
    radius = 0.0
    for c in range(d):
        size = 0.0
        for i in range(d):
            size += abs(R[c, i]) * (abs(rest[i]) + 2.0 * net.slack[labels[i]])
        if not size < np.inf:
            store.radii[w] = np.inf
            return False
        radius = max(radius, size)
    store.radii[w] = radius / (1.0 - excess) * GROWN + 2.0 * TINY
    return store.radii[w] < 0.5 * before


# ---- a form on a polytope ------------------------------------------------------------------------


@njit(cache=True, error_model="numpy")
def _values(points, radii, start, size, d, maps, layer, i, slack, steep, fast, value, level, n):  # type: ignore[no-untyped-def]
    """The values of neuron i at the vertices, into value[level, n], and what they say.

    -1 - v if the sign at vertex v is unclear.
    """
    above = 0
    for v in range(size):
        z = maps[layer, d, i]
        for c in range(d):
            z += maps[layer, c, i] * points[start + v, c]
        if not fast and not abs(z) > (slack + steep * radii[start + v]) * GROWN:
            return -1 - v
        value[level, n, v] = z
        above += z > 0.0
    if above == 0:
        return _NEGATIVE
    return _POSITIVE if above == size else _CROSSING


@njit(cache=True, error_model="numpy")
def _next_cut(  # type: ignore[no-untyped-def]
    points, radii, start, size, d, maps, layer, slack, steep, first, fast, value,
    left, on, depth, count,
):  # fmt: skip
    """Decide open neurons, from the last on, until one cuts; how many are left with it.

    -1 - v if a sign at vertex v is unclear, and the number of those left.
    """
    while count > 0:
        i = left[depth, count - 1]
        kind = _values(
            points, radii, start, size, d, maps, layer, i, slack[first + i], steep[layer, i],
            fast, value, 0, 0,
        )  # fmt: skip
        if kind == _CROSSING or kind < 0:
            return kind, count
        on[depth, i] = kind == _POSITIVE
        count -= 1
    return _NEGATIVE, 0


@njit(cache=True, error_model="numpy")
def _classify(  # type: ignore[no-untyped-def]
    m, first, slack, alive, fast, maps, steep, layer, points, radii, start, size, d,
    left, on, depth, row,
):  # fmt: skip
    """Decide the neurons of one sign; how many are left, or -1 - that if one of them is unclear."""
    for i in range(m):
        row[1, i], row[2, i], row[3, i] = np.inf, -np.inf, 1.0
    for v in range(start, start + size):
        radius = radii[v]
        for i in range(m):
            row[0, i] = maps[layer, d, i]
        for c in range(d):
            x = points[v, c]
            for i in range(m):
                row[0, i] += maps[layer, c, i] * x
        for i in range(m):
            z = row[0, i]
            row[1, i] = z if z < row[1, i] else row[1, i]
            row[2, i] = z if z > row[2, i] else row[2, i]
            sure = abs(z) > (slack[first + i] + steep[layer, i] * radius) * GROWN
            row[3, i] = row[3, i] if sure else 0.0
    count, clear = 0, True
    for i in range(m):
        on[depth, i] = False
        if not alive[layer, i]:
            continue
        sure = fast or row[3, i] > 0.0
        if sure and row[1, i] > 0.0:
            on[depth, i] = True
        elif not sure or row[2, i] > 0.0:
            left[depth, count] = i
            count += 1
            clear = clear and sure
    return count if clear else -1 - count


@njit(cache=True, error_model="numpy")
def enter(net, path, layer, d):  # type: ignore[no-untyped-def]
    """The maps of a layer from those of the layer before and its pattern."""
    m = net.widths[layer]
    maps, steep, pattern, across = path.maps, path.steep, path.pattern, net.across
    if layer > 0:
        for i in range(m):
            for c in range(d):
                maps[layer, c, i] = 0.0
            maps[layer, d, i] = net.biases[layer, i]
        for j in range(net.widths[layer - 1]):
            if pattern[layer - 1, j]:
                for c in range(d + 1):
                    x = maps[layer - 1, c, j]
                    for i in range(m):
                        maps[layer, c, i] += across[layer, j, i] * x
    for i in range(m):
        total = 0.0
        for c in range(d):
            total += abs(maps[layer, c, i])
        steep[layer, i] = total * GROWN


# ---- a section -----------------------------------------------------------------------------------


@njit(cache=True, error_model="numpy")
def _cross(  # type: ignore[no-untyped-def]
    points, radii, labels, links, start, size, to_points, to_radii, to_labels, to_links, base,
    dim, d, label, slack, steep, fast, value, level, n, made, origin,
):  # fmt: skip
    """The vertices of the section by the wall with value[level, n], not yet joined; how many."""
    above = 0
    for v in range(size):
        above += value[level, n, v] > 0.0
    side = 2 * above <= size  # the smaller side is walked
    w, last = base, dim - 1
    for v in range(size):
        a = value[level, n, v]
        if (a > 0.0) != side:
            continue
        for k in range(dim):
            u = links[start + v, k]
            b = value[level, n, u]
            if (b > 0.0) == side:
                made[v, k] = -1
                continue
            made[v, k] = w - base
            origin[w - base, 0], origin[w - base, 1], origin[w - base, 2] = v, k, u
            t = a / (a - b)
            far, edge = 0.0, 0.0
            for c in range(d):
                x, y = points[start + v, c], points[start + u, c]
                to_points[w, c] = x + t * (y - x)
                far = max(far, max(abs(x), abs(y)))
                edge = max(edge, abs(y - x))
                to_labels[w, c] = labels[start + v, c]
                to_links[w, c] = -1
            to_labels[w, k] = labels[start + v, last]
            to_labels[w, last] = label
            to_radii[w] = 0.0
            if not fast:
                one, two = radii[start + v], radii[start + u]
                alpha, beta = (slack + steep * one) * GROWN, (slack + steep * two) * GROWN
                off = max(alpha, beta) / (abs(a - b) - abs(alpha - beta))
                to_radii[w] = (max(one, two) + edge * off + 16.0 * UNIT * far) * GROWN + TINY
            w += 1
    return w - base


@njit(cache=True, error_model="numpy")
def _join(labels, links, start, to_links, base, count, dim, made, origin):  # type: ignore[no-untyped-def]
    """Join the vertices of the section, walking around 2-faces.

    At a vertex of the 2-face two of its edges meet; one leaves slot `leave`, along the other the
    walk came, and it leaves slot `stay`, whose facet holds the edge ahead.
    """
    last = dim - 1
    for w in range(count):
        v, k = origin[w, 0], origin[w, 1]
        for j in range(dim):
            slot = k if j == last else j
            if j == k or to_links[base + w, slot] >= 0:
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
            to_links[base + w, slot] = other
            to_links[base + other, leave if stay == last else stay] = w


@njit(cache=True, error_model="numpy")
def _child(  # type: ignore[no-untyped-def]
    points, radii, labels, links, start, size, cut_points, cut_radii, cut_labels, cut_links, count,
    base, d, value, side, made, origin, new,
):  # fmt: skip
    """The part on one side of the wall with value[0, 0], written at `base`; how many vertices."""
    kept = 0
    for v in range(size):
        if (value[0, 0, v] > 0.0) == side:
            new[v] = kept
            kept += 1
    for v in range(size):
        if (value[0, 0, v] > 0.0) != side:
            continue
        w = base + new[v]
        radii[w] = radii[start + v]
        for c in range(d):
            points[w, c] = points[start + v, c]
            labels[w, c] = labels[start + v, c]
            u = links[start + v, c]
            links[w, c] = new[u] if (value[0, 0, u] > 0.0) == side else kept + made[v, c]
    for n in range(count):
        w = base + kept + n
        radii[w] = cut_radii[n]
        for c in range(d):
            points[w, c] = cut_points[n, c]
            labels[w, c] = cut_labels[n, c]
            links[w, c] = kept + cut_links[n, c]
        v = origin[n, 0]
        links[w, d - 1] = new[v if (value[0, 0, v] > 0.0) == side else origin[n, 2]]
    return kept + count


@njit(cache=True, error_model="numpy")
def _split(net, path, room, pile, store, cut, depth, d):  # type: ignore[no-untyped-def]
    """Replace the node on top by its two parts; False if there is no place for them."""
    nodes = pile.nodes
    layer, start, size = nodes[depth, LAYER], nodes[depth, START], nodes[depth, SIZE]
    left = nodes[depth, OPEN] - 1
    i = pile.left[depth, left]
    points, radii, labels, links = store.points, store.radii, store.labels, store.links
    made, origin, new, value = room.made, room.origin, room.new, room.value
    if size * d > 2 * len(new) or start + 2 * size + size * d > len(radii):
        return False
    if depth + 2 >= len(nodes):
        return False
    label = net.firsts[layer] + i
    count = _cross(
        points, radii, labels, links, start, size, cut.points, cut.radii, cut.labels, cut.links, 0,
        d, d, label, net.slack[label], path.steep[layer, i], net.fast, value, 0, 0, made, origin,
    )  # fmt: skip
    _join(labels, links, start, cut.links, 0, count, d, made, origin)
    for n in range(count):  # the same edges seen from their other ends
        v, u = origin[n, 0], origin[n, 2]
        for k in range(d):
            if links[start + u, k] == v:
                made[u, k] = n
    first, base = start + size, start + size
    for side in (False, True):
        base += _child(
            points, radii, labels, links, start, size,
            cut.points, cut.radii, cut.labels, cut.links, count,
            base, d, value, side, made, origin, new,
        )  # fmt: skip
        if not side:
            nodes[depth, START], nodes[depth, SIZE] = first, base - first
            first = base
    nodes[depth, OPEN] = left
    for k in range(nodes.shape[1]):
        nodes[depth + 1, k] = nodes[depth, k]
    nodes[depth + 1, START], nodes[depth + 1, SIZE] = first, base - first
    for k in range(left):
        pile.left[depth + 1, k] = pile.left[depth, k]
    for k in range(net.widths[layer]):
        pile.on[depth + 1, k] = pile.on[depth, k]
    pile.on[depth + 1, i] = True
    return True


# ---- counting by flats ---------------------------------------------------------------------------


@njit(cache=True, error_model="numpy")
def _apart(radii, base, count, slack, steep, first, layer, value, level, walls, t, off):  # type: ignore[no-untyped-def]
    """Whether walls that meet a segment surely do so in as many points."""
    for n in range(count):
        i = walls[level, n]
        a, b = value[level, n, 0], value[level, n, 1]
        alpha = (slack[first + i] + steep[layer, i] * radii[base]) * GROWN
        beta = (slack[first + i] + steep[layer, i] * radii[base + 1]) * GROWN
        t[n] = a / (a - b)
        off[n] = max(alpha, beta) / (abs(a - b) - abs(alpha - beta)) * GROWN + 4.0 * UNIT
        for k in range(n):
            if not abs(t[n] - t[k]) > (off[n] + off[k]) * GROWN:
                return False
    return True


@njit(cache=True, error_model="numpy")
def _meeting(  # type: ignore[no-untyped-def]
    points, radii, start, size, d, maps, layer, slack, steep, first, fast, value, level,
    earlier, count, walls,
):  # fmt: skip
    """Which of walls[earlier, :count] meet the flat of a level, into walls[level]; how many.

    -1 - v if the sign of one at vertex v is unclear.
    """
    found = 0
    for n in range(count):
        i = walls[earlier, n]
        kind = _values(
            points, radii, start, size, d, maps, layer, i, slack[first + i], steep[layer, i],
            fast, value, level, found,
        )  # fmt: skip
        if kind < 0:
            return kind
        if kind == _CROSSING:
            walls[level, found] = i
            found += 1
    return found


@njit(cache=True, error_model="numpy")
def _flats(net, path, layer, room, pile, depth, store, cut, d):  # type: ignore[no-untyped-def]
    """Cells that the open walls make in the node on top; -1 if unclear, -2 if there is no place.

    Level 0 is the node, each level above it a section of the one below. `where` holds for each
    level: walls still to cut with, first vertex, number of vertices. A vertex that leaves a sign
    unclear is found again, and then all values at it.
    """
    slack, steep, maps, first, fast = net.slack, path.steep, path.maps, net.firsts[layer], net.fast
    value, walls, where, made, origin = room.value, room.open, room.where, room.made, room.origin
    t, off = room.t, room.off
    reach, total, level = len(room.new), 0, 0
    # the section to be looked at: its level, the walls that may meet it, first vertex, vertices
    begin, size = pile.nodes[depth, START], pile.nodes[depth, SIZE]
    count = pile.nodes[depth, OPEN]
    for n in range(count):
        walls[d + 1, n] = pile.left[depth, n]
    earlier = d + 1
    while True:
        here = store if level == 0 else cut
        dim = d - level
        while True:
            found = _meeting(
                here.points, here.radii, begin, size, d, maps, layer, slack, steep, first, fast,
                value, level, earlier, count, walls,
            )  # fmt: skip
            if found >= 0:
                if dim > 1 or fast or found < 2:
                    break
                apart = _apart(
                    here.radii, begin, found, slack, steep, first, layer, value, level, walls,
                    t, off,
                )  # fmt: skip
                if apart:
                    break
                one = _settle(net, path, room, here, begin, d)
                if not (_settle(net, path, room, here, begin + 1, d) or one):
                    return -1
            elif not _settle(net, path, room, here, begin - 1 - found, d):
                return -1
        total += 1
        if dim == 1:
            total += found
            found = 0
        if found > 0 and level > 0:
            below = store if level == 1 else cut
            _join(
                below.labels, below.links, where[level - 1, 1], cut.links, begin, size,
                dim + 1, made, origin,
            )  # fmt: skip
        where[level, 0], where[level, 1], where[level, 2] = found, begin, size
        while level >= 0 and where[level, 0] == 0:
            level -= 1
        if level < 0:
            return total
        where[level, 0] -= 1
        count, earlier = where[level, 0], level
        many, dim = where[level, 2], d - level
        if many * dim > 2 * reach:
            return -2
        i = walls[level, count]
        here = store if level == 0 else cut
        begin = level * reach
        size = _cross(
            here.points, here.radii, here.labels, here.links, where[level, 1], many,
            cut.points, cut.radii, cut.labels, cut.links, begin,
            dim, d, first + i, slack[first + i], steep[layer, i], fast, value, level, count,
            made, origin,
        )  # fmt: skip
        level += 1


# ---- facets on whose two sides the map is the same -----------------------------------------------


@njit(cache=True, error_model="numpy")
def _sense(net, path, on, room):  # type: ignore[no-untyped-def]
    """Mark in room.sense[1] which neurons act on the output at all, through neurons that are on."""
    layers = len(net.widths)
    acts = room.sense[1]
    for layer in range(layers - 1, -1, -1):
        for j in range(net.widths[layer]):
            acts[layer, j] = 0.0
            if layer == layers - 1:
                for o in range(len(net.out)):
                    if net.out[o, j] != 0.0:
                        acts[layer, j] = 1.0
                continue
            for i in range(net.widths[layer + 1]):
                below = on[i] if layer == layers - 2 else path.pattern[layer + 1, i]
                if below and acts[layer + 1, i] != 0.0 and net.across[layer + 1, j, i] != 0.0:
                    acts[layer, j] = 1.0


@njit(cache=True, error_model="numpy")
def _effects(net, path, on, room, o):  # type: ignore[no-untyped-def]
    """room.sense[0] becomes the derivative of output o by the neurons of every layer but the first.

    Of those that are on; 0 for the others.
    """
    layers = len(net.widths)
    effect = room.sense[0]
    for layer in range(layers - 1, 0, -1):
        for i in range(net.widths[layer]):
            effect[layer, i] = 0.0
            if layer == layers - 1:
                effect[layer, i] = net.out[o, i] if on[i] else 0.0
            elif path.pattern[layer, i]:
                for k in range(net.widths[layer + 1]):
                    effect[layer, i] += net.across[layer + 1, i, k] * effect[layer + 1, k]


@njit(cache=True, error_model="numpy")
def _audible(net, room, layer, j):  # type: ignore[no-untyped-def]
    """Whether neuron j's derivative of the output at hand is surely not 0."""
    total = 0.0
    for i in range(net.widths[layer + 1]):
        total += net.across[layer + 1, j, i] * room.sense[0, layer + 1, i]
    return abs(total) > net.blur[net.firsts[layer] + j] or (net.fast and total != 0.0)


@njit(cache=True, error_model="numpy")
def _acts(net, path, on, room, layer, j):  # type: ignore[no-untyped-def]
    """1 if neuron j's effect on some output is surely not 0, 0 if all are 0, -1 if unclear.

    room.sense[0] is for the first output, before and after.
    """
    outputs = len(net.out)
    if layer == len(net.widths) - 1:
        for o in range(outputs):
            if net.out[o, j] != 0.0:
                return 1
        return 0
    if outputs > 0 and _audible(net, room, layer, j):
        return 1
    found = False
    for o in range(1, outputs):
        if not found:
            _effects(net, path, on, room, o)
            found = _audible(net, room, layer, j)
    if outputs > 1:
        _effects(net, path, on, room, 0)
    if found:
        return 1
    _sense(net, path, on, room)
    return 0 if net.fast or room.sense[1, layer, j] == 0.0 else -1


@njit(cache=True, error_model="numpy")
def _name(net, path, on):  # type: ignore[no-untyped-def]
    """The two words of a cell: the exclusive or over the neurons that are on."""
    one, two = np.uint64(0), np.uint64(0)
    layers = len(net.widths)
    for layer in range(layers):
        for i in range(net.widths[layer]):
            lit = on[i] if layer == layers - 1 else path.pattern[layer, i]
            if lit:
                one ^= net.words[net.firsts[layer] + i, 0]
                two ^= net.words[net.firsts[layer] + i, 1]
    return one, two


@njit(cache=True, error_model="numpy")
def _silent(net, path, room, store, start, size, on, silent, filled, d):  # type: ignore[no-untyped-def]
    """Write down the leaf's silent facets, from their bright side; -1 if one is unclear."""
    room.seen[-1] += 1
    leaf, total, layers = room.seen[-1], net.firsts[-1], len(net.widths)
    if len(net.out) > 0:
        _effects(net, path, on, room, 0)
    for v in range(start, start + size):
        for c in range(d):
            label = store.labels[v, c]
            if label >= total or room.seen[label] == leaf:
                continue
            room.seen[label] = leaf
            layer = net.layer_of[label]
            j = label - net.firsts[layer]
            if not (on[j] if layer == layers - 1 else path.pattern[layer, j]):
                continue
            acts = _acts(net, path, on, room, layer, j)
            if acts < 0:
                return -1
            if acts == 0:
                one, two = _name(net, path, on)
                silent[filled, 0], silent[filled, 1] = one, two
                silent[filled, 2] = one ^ net.words[label, 0]
                silent[filled, 3] = two ^ net.words[label, 1]
                filled += 1
    return filled


# ---- the walk ------------------------------------------------------------------------------------


@njit(cache=True, error_model="numpy")
def _leaf(net, path, room, pile, store, mode, silent, now, depth, d):  # type: ignore[no-untyped-def]
    """What is wanted of the leaf on top; 0 if the walk can go on."""
    if mode == CELLS:
        return LEAF
    if mode == REGIONS:
        node = pile.nodes[depth]
        if now[SILENT] + net.firsts[-1] > len(silent):
            return FULL
        if node[STAINED]:
            return DOUBT
        filled = _silent(
            net, path, room, store, node[START], node[SIZE], pile.on[depth],
            silent, now[SILENT], d,
        )  # fmt: skip
        if filled < 0:
            return DOUBT
        now[SILENT] = filled
    return 0


@njit(cache=True, error_model="numpy")
def _descend(net, path, room, pile, store, depth, d):  # type: ignore[no-untyped-def]
    """The node on top, complete in its layer, begins the next one; False if a sign is unclear."""
    nodes = pile.nodes
    layer, start, size = nodes[depth, LAYER], nodes[depth, START], nodes[depth, SIZE]
    for i in range(net.widths[layer]):
        path.pattern[layer, i] = pile.on[depth, i]
    enter(net, path, layer + 1, d)
    nodes[depth, LAYER] = layer + 1
    while True:
        left = _classify(
            net.widths[layer + 1], net.firsts[layer + 1], net.slack, net.alive, net.fast,
            path.maps, path.steep, layer + 1, store.points, store.radii, start, size, d,
            pile.left, pile.on, depth, room.row,
        )  # fmt: skip
        nodes[depth, OPEN] = left if left >= 0 else -1 - left
        if left >= 0:
            return True
        gained = False
        for v in range(start, start + size):
            if _settle(net, path, room, store, v, d):
                gained = True
        if not gained:
            return False


@njit(cache=True, error_model="numpy")
def advance(net, path, room, pile, store, cut, mode, silent, counts, now):  # type: ignore[no-untyped-def]
    """Walk on until something stops it; everything is in the arrays, so it can be called again."""
    d = store.points.shape[1]
    deepest = len(net.widths) - 1
    nodes, open_, on = pile.nodes, pile.left, pile.on
    points, radii, value = store.points, store.radii, room.value
    maps, steep, slack = path.maps, path.steep, net.slack
    while now[DEPTH] > 0:
        if now[BUDGET] <= 0 or counts[deepest] >= now[LIMIT]:
            return PAUSED
        now[BUDGET] -= 1
        depth = now[DEPTH] - 1
        layer, left = nodes[depth, LAYER], nodes[depth, OPEN]
        if left == 0 and layer < deepest:
            counts[layer] += 1
            if not _descend(net, path, room, pile, store, depth, d):
                return UNSURE
        elif left == 0:
            status = _leaf(net, path, room, pile, store, mode, silent, now, depth, d)
            if status != 0:
                return status
            counts[layer] += 1
            now[DEPTH] -= 1
        elif mode == COUNT and layer == deepest and left <= FLATS:
            found = _flats(net, path, layer, room, pile, depth, store, cut, d)
            if found < 0:
                return UNSURE if found == -1 else FULL
            counts[layer] += found
            now[BUDGET] -= found
            now[DEPTH] -= 1
        else:
            start, size = nodes[depth, START], nodes[depth, SIZE]
            kind, left = _next_cut(
                points, radii, start, size, d, maps, layer, slack, steep, net.firsts[layer],
                net.fast, value, open_, on, depth, left,
            )  # fmt: skip
            nodes[depth, OPEN] = left
            if kind < 0:
                if not _settle(net, path, room, store, start - 1 - kind, d):
                    return UNSURE
            elif kind == _CROSSING:
                if not _split(net, path, room, pile, store, cut, depth, d):
                    return FULL
                now[DEPTH] += 1
    return DONE
