"""Cells of a ReLU network on a convex polygon, depth first, compiled.

**A node** is a convex polygon, a layer, the neurons of that layer which are still open on it, the
pattern of the others, and the affine maps of the next layer as far as they are known: the bias and
the terms of the neurons that are on. Looking at a node, every open neuron whose affine form has
one sign on all corners is decided; what is on adds its column times its form (a matrix of rank 1)
to the next layer's maps, once for all cells inside. If no neuron is left, the polygon is a cell of
this layer and becomes a node of the next one, all of whose neurons are open. Otherwise the middle
one of the crossing neurons cuts the polygon in two nodes (the middle one, so that n parallel walls
in order are looked at about log n times each, not n times). Nodes wait on a stack no deeper than
the number of neurons: memory does not depend on the number of cells.

**What is believed.** A corner p is where the lines of two sides meet; p is known up to `r` in each
coordinate. Let L_1, L_2 be the float forms of the sides, G the matrix of their gradients, q the
float corner. The true forms vanish at p, and a form is off by at most its slack s on the domain, so
|L_k(q) - L_k(p)| <= |value found at q| + s_k = e_k, the rounding of that value included in s_k, and
q - p = G^{-1} (L(q) - L(p)) is at most (|b_2| e_1 + |b_1| e_2) / |det G| in x, likewise in y. The
sign of a neuron with float form (a, b, c) at p is that of the value found at q if this is larger
than slack + (|a| + |b|) r. Other signs are *unsure*: the walk stops, asks for the exact ones, and
goes on with them. In fast mode r is 0 and unsure signs are taken for 0.

To be read from `run`, at the end, upwards; then `_sign_kernels`, `_cut_kernels`, `_facet_kernels`.
"""

from __future__ import annotations

from hardmax.geometry._compiled import inline, lent, resumable_entry, subroutine
from hardmax.geometry.counting.plane import _arrays as arrays
from hardmax.geometry.counting.plane._arrays import Net, Walk, WalkNode
from hardmax.geometry.counting.plane._cut_kernels import WallLine, cut_polygon
from hardmax.geometry.counting.plane._facet_kernels import write_silent_facets
from hardmax.geometry.counting.plane._sign_kernels import (
    decide_all,
    decide_open,
    find_signs,
    forget_nothings,
    sort_by_signs,
)

# ---- what neurons that are on give to the next layer ---------------------------------------------


@inline
def _add_columns(net: Net, walk: Walk, node: WalkNode, s: int, active: int) -> None:
    """Add what neurons that are on give to the next layer's maps, four at a time."""
    maps, columns, sums, on = walk.maps, net.columns, walk.sums, walk.on
    layer, first = node.layer, node.first
    q = 0
    while q + 4 <= active:
        i, j, k, h = on[q], on[q + 1], on[q + 2], on[q + 3]
        for part in range(3):
            a, b = maps[layer, part, i], maps[layer, part, j]
            c, d = maps[layer, part, k], maps[layer, part, h]
            for t in range(node.next_width):
                sums[s, part, t] += (columns[first + i, t] * a + columns[first + j, t] * b) + (
                    columns[first + k, t] * c + columns[first + h, t] * d
                )
        q += 4
    while q < active:
        i = on[q]
        for part in range(3):
            a = maps[layer, part, i]
            for t in range(node.next_width):
                sums[s, part, t] += columns[first + i, t] * a
        q += 1


@inline
def _switch_on(net: Net, walk: Walk, node: WalkNode, s: int, active: int) -> None:
    """The neurons listed in `on` are on in node s: the next layer's maps and the name learn it."""
    if node.layer < node.last:
        _add_columns(net, walk, node, s, active)
    for q in range(active):
        walk.name[s, 0] ^= net.names[node.first + walk.on[q], 0]
        walk.name[s, 1] ^= net.names[node.first + walk.on[q], 1]


# ---- from a node to the next ---------------------------------------------------------------------


@inline
def _begin_layer(net: Net, walk: Walk, s: int, layer: int) -> None:
    """Node s begins a layer whose maps are known: all neurons are open, nothing is summed."""
    walk.head[s, arrays.LAYER], walk.head[s, arrays.OPEN] = layer, -1
    if layer + 2 < len(net.start):
        for t in range(net.start[layer + 2] - net.start[layer + 1]):
            walk.sums[s, 0, t] = 0.0
            walk.sums[s, 1, t] = 0.0
            walk.sums[s, 2, t] = net.bias[layer + 1, t]


@resumable_entry
def enter(net: Net, walk: Walk, s: int, layer: int) -> None:
    """The same, for Python."""
    _begin_layer(net, walk, s, layer)


@inline
def _descend(net: Net, walk: Walk, node: WalkNode) -> None:
    """The node is a cell of its layer: go on with the next layer."""
    for i in range(node.width):
        walk.below[node.layer, i] = walk.pattern[node.place, i]
    for part in range(3):
        for t in range(node.next_width):
            walk.maps[node.layer + 1, part, t] = walk.sums[node.place, part, t]
    _begin_layer(net, walk, node.place, node.layer + 1)


@inline
def _share(walk: Walk, node: WalkNode, count: int) -> None:
    """What the two halves have in common."""
    s = node.place
    for part in range(3):
        for t in range(node.next_width):
            walk.sums[s + 1, part, t] = walk.sums[s, part, t]
    for i in range(node.width):
        walk.pattern[s + 1, i] = walk.pattern[s, i]
    for q in range(count):
        walk.open[s + 1, q] = walk.open[s, q]
    walk.name[s + 1, 0] = walk.name[s, 0]
    walk.name[s + 1, 1] = walk.name[s, 1]


@inline
def _branch(net: Net, walk: Walk, node: WalkNode, count: int, fast: bool) -> None:
    """Cut a node by the middle one of the neurons that cross it."""
    maps, head, s, layer = walk.maps, walk.head, node.place, node.layer
    middle = count // 2
    i = walk.open[s, middle]
    a, b, c = maps[layer, 0, i], maps[layer, 1, i], maps[layer, 2, i]
    line = WallLine(a, b, c, net.slack[layer, i], 2 * (node.first + i))
    plus, minus = cut_polygon(walk, node, walk.kept[middle], line, net.reach, fast)
    walk.open[s, middle] = walk.open[s, count - 1]
    _share(walk, node, count)
    head[s, arrays.SIDES], head[s, arrays.OPEN] = minus, count - 1
    head[s + 1, arrays.LAYER], head[s + 1, arrays.SIDES], head[s + 1, arrays.OPEN] = (
        layer,
        plus,
        count - 1,
    )
    walk.pattern[s, i], walk.pattern[s + 1, i] = 0, 1
    walk.on[0] = i
    _switch_on(net, walk, node, s + 1, 1)


# ---- cells of the last layer ---------------------------------------------------------------------


@subroutine
def _emit(net: Net, walk: Walk, node: WalkNode) -> None:
    at = walk.now[arrays.EMITTED]
    walk.cell_heads[at, 0] = node.sides
    for k in range(node.sides):
        walk.cells[at, 0, k] = walk.poly[node.place, arrays.X, k]
        walk.cells[at, 1, k] = walk.poly[node.place, arrays.Y, k]
        walk.cell_heads[at, 1 + k] = walk.code[node.place, k]
    for layer in range(node.last):
        for i in range(net.start[layer + 1] - net.start[layer]):
            walk.cell_patterns[at, net.start[layer] + i] = walk.below[layer, i]
    for i in range(node.width):
        walk.cell_patterns[at, node.first + i] = walk.pattern[node.place, i]
    walk.now[arrays.EMITTED] = at + 1


@inline
def _count_cells(walk: Walk, node: WalkNode, cells: int) -> None:
    """So many cells of the last layer, and the node is done."""
    walk.now[arrays.LAYERS + node.layer] += cells
    walk.now[arrays.CELLS] += cells
    walk.now[arrays.TOP] = node.place - 1


@inline
def _leaf(net: Net, walk: Walk, node: WalkNode, mode: int, fast: bool) -> int:
    """A cell of the last layer; why the walk must stop, or PAUSED if it need not."""
    if mode == arrays.REGIONS:
        if walk.now[arrays.SILENT] + node.sides > len(walk.silent):
            return arrays.FULL
        fresh = walk.now[arrays.SIDE] == 0
        asks = write_silent_facets(net, walk, node, fast)
        _count_cells(walk, node, 1 if fresh else 0)
        if asks:
            walk.now[arrays.TOP] = node.place
            return arrays.FACET
    else:
        if mode == arrays.EMIT:
            if walk.now[arrays.EMITTED] == len(walk.cell_heads):
                return arrays.FULL
            _emit(net, walk, node)
        _count_cells(walk, node, 1)
    return arrays.PAUSED


# ---- the walk ------------------------------------------------------------------------------------


@inline
def _look(net: Net, walk: Walk, node: WalkNode, fast: bool) -> int:
    """Decide open neurons; how many cross, or -1 if signs are unsure."""
    head, s = walk.head, node.place
    count, active = head[s, arrays.OPEN], 0
    if not walk.now[arrays.GIVEN]:
        if count < 0:
            count, active = decide_all(net, walk, node)
        else:
            count, active = decide_open(net, walk, node, count)
        _switch_on(net, walk, node, s, active)
        head[s, arrays.OPEN] = count
        if find_signs(net, walk, node, count) and not fast:
            count = forget_nothings(net, walk, node, count)
            head[s, arrays.OPEN] = count
            if find_signs(net, walk, node, count):
                return -1
    walk.now[arrays.GIVEN] = 0
    count, active = sort_by_signs(walk, node, count)
    _switch_on(net, walk, node, s, active)
    head[s, arrays.OPEN] = count
    return count


@inline
def _top_node(net: Net, walk: Walk) -> WalkNode:
    s = walk.now[arrays.TOP]
    layer, last = walk.head[s, arrays.LAYER], len(net.start) - 2
    first, width = net.start[layer], net.start[layer + 1] - net.start[layer]
    next_width = net.start[layer + 2] - net.start[layer + 1] if layer < last else 0
    return WalkNode(s, layer, walk.head[s, arrays.SIDES], first, width, next_width, last)


@resumable_entry
def run(net: Net, walk: Walk, mode: int, fast: bool, steps: int, limit: int) -> int:
    """Walk on, for so many nodes at most; why it stopped."""
    net, walk = lent(net), lent(walk)
    now = walk.now
    for _ in range(steps):
        if now[arrays.TOP] < 0:
            return arrays.DONE
        if now[arrays.CELLS] > limit:
            return arrays.OVER
        if now[arrays.TOP] + 2 > len(walk.head):
            return arrays.MORE_NODES
        node = _top_node(net, walk)
        if node.sides + 2 > walk.code.shape[1]:
            return arrays.MORE_SIDES
        count = _look(net, walk, node, fast)
        if count < 0:
            return arrays.SIGNS
        is_last = node.layer == node.last
        if count == 1 and is_last and mode == arrays.COUNT:
            _count_cells(walk, node, 2)
        elif count > 0:
            _branch(net, walk, node, count, fast)
            now[arrays.TOP] = node.place + 1
        elif not is_last:
            now[arrays.LAYERS + node.layer] += 1
            _descend(net, walk, node)
        elif mode == arrays.STEP:
            return arrays.PAUSED
        elif mode == arrays.COUNT:
            _count_cells(walk, node, 1)
        else:
            why = _leaf(net, walk, node, mode, fast)
            if why != arrays.PAUSED:
                return why
    return arrays.PAUSED
