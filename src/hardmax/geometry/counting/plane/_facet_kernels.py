"""Silent facets of a cell, on whose two sides the network is one affine map, compiled.

On the two sides of a facet with label (layer, i) the pattern differs in that neuron alone, unless
the facet is *marked*: some other neuron was found to vanish along it. (Nothing is lost where a
neuron is identically 0 for want of nonzero terms: seen from the side on which neuron i is on, the
first layer in which anything but i changes holds a neuron that vanishes on the facet and not on the
cell.) The affine maps then differ by D z_i, where D is the output's sensitivity to the neuron; a
random combination of the outputs that is not 0 shows that D is not.
"""

from __future__ import annotations

from hardmax.geometry._compiled import inline
from hardmax.geometry.counting.plane._arrays import SIDE, SILENT, Net, Walk, WalkNode


@inline
def _is_on(walk: Walk, node: WalkNode, layer: int, i: int) -> bool:
    """Whether a neuron of any layer is on in the cell."""
    return walk.pattern[node.place, i] if layer == node.last else walk.below[layer, i]


@inline
def _feel(net: Net, walk: Walk, node: WalkNode, down: int) -> None:
    """The combined output's sensitivity to every neuron of the layers from `down` on."""
    felt, rows, on = walk.felt, net.rows, walk.on
    for i in range(node.width):
        felt[node.last, i] = net.out[i]
    for layer in range(node.last, down, -1):
        width, first = net.start[layer] - net.start[layer - 1], net.start[layer] - net.start[1]
        active = 0
        for j in range(net.start[layer + 1] - net.start[layer]):
            on[active] = j
            active += walk.pattern[node.place, j] if layer == node.last else walk.below[layer, j]
        on[active : active + 3] = 0  # the last group is filled up, with factors 0
        for i in range(width):
            felt[layer - 1, i] = 0.0
        for q in range(0, active, 4):
            a, b, c, d = on[q], on[q + 1], on[q + 2], on[q + 3]
            p = felt[layer, a]
            w = felt[layer, b] if q + 1 < active else 0.0
            u = felt[layer, c] if q + 2 < active else 0.0
            v = felt[layer, d] if q + 3 < active else 0.0
            for i in range(width):
                felt[layer - 1, i] += (rows[first + a, i] * p + rows[first + b, i] * w) + (
                    rows[first + c, i] * u + rows[first + d, i] * v
                )


@inline
def _is_heard(net: Net, walk: Walk, node: WalkNode, layer: int, i: int) -> bool:
    """Whether some path of nonzero weights through neurons that are on leads to an output."""
    if layer == node.last:
        return net.speaks[i]
    for j in range(net.start[layer + 2] - net.start[layer + 1]):
        walk.touched[0, j] = net.columns[net.start[layer] + i, j] != 0.0
    for t in range(layer + 1, node.last):
        width, wide = net.start[t + 1] - net.start[t], net.start[t + 2] - net.start[t + 1]
        for j in range(wide):
            walk.touched[1, j] = False
            for k in range(width):
                if walk.touched[0, k] and walk.below[t, k]:
                    walk.touched[1, j] |= net.columns[net.start[t] + k, j] != 0.0
        for j in range(wide):
            walk.touched[0, j] = walk.touched[1, j]
    for j in range(node.width):
        if walk.touched[0, j] and walk.pattern[node.place, j] and net.speaks[j]:
            return True
    return False


@inline
def _layer_of(net: Net, g: int) -> int:
    layer = 0
    while net.start[layer + 1] <= g:
        layer += 1
    return layer


@inline
def write_silent_facets(net: Net, walk: Walk, node: WalkNode, fast: bool) -> bool:
    """Write down the silent facets of a cell, seen from their on-side; True to ask about one."""
    s, down = node.place, node.last + 1
    for k in range(walk.now[SIDE], node.sides):
        g = walk.code[s, k] >> 1
        if g >= 0:
            layer = _layer_of(net, g)
            if _is_on(walk, node, layer, g - net.start[layer]):
                down = min(down, layer)
    if down <= node.last:
        _feel(net, walk, node, down)
    for k in range(walk.now[SIDE], node.sides):
        g = walk.code[s, k] >> 1
        if g < 0:
            continue
        layer = _layer_of(net, g)
        i = g - net.start[layer]
        if not _is_on(walk, node, layer, i):
            continue
        marked = walk.code[s, k] & 1 and not fast
        if abs(walk.felt[layer, i]) > net.faint[g] and not marked:
            continue
        if marked or (not fast and _is_heard(net, walk, node, layer, i)):
            walk.now[SIDE] = k
            return True
        at = walk.now[SILENT]
        for word in range(2):
            walk.silent[at, word] = walk.name[s, word]
            walk.silent[at, 2 + word] = walk.name[s, word] ^ net.names[g, word]
        walk.now[SILENT] = at + 1
    walk.now[SIDE] = 0
    return False
