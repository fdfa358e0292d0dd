"""A layer's forms on a polytope, compiled: which neurons are on, off, crossing, or unclear."""

from __future__ import annotations

import numpy as np

from hardmax.geometry._compiled import inline
from hardmax.geometry.counting.space import _arrays as arrays
from hardmax.geometry.counting.space._arrays import Flat, Net, Path, Pile, Room, Store, Wall
from hardmax.numerics import GROWN


@inline
def wall_of(net: Net, path: Path, layer: int, neuron: int) -> Wall:
    label = net.firsts[layer] + neuron
    return Wall(layer, neuron, label, net.slack[label], path.steep[layer, neuron])


@inline
def doubt_of(wall: Wall, radius: float) -> float:
    """How far the wall's value at a vertex may be off."""
    return (wall.slack + wall.steep * radius) * GROWN


@inline
def find_values(
    path: Path, room: Room, store: Store, flat: Flat, n: int, wall: Wall, fast: bool
) -> int:
    """The wall's values at the vertices, into room.value[flat.level, n], and what they say.

    -1 - v if the sign at vertex v is unclear.
    """
    maps, layer, i, d = path.maps, wall.layer, wall.neuron, store.points.shape[1]
    above = 0
    for v in range(flat.size):
        z = maps[layer, d, i]
        for c in range(d):
            z += maps[layer, c, i] * store.points[flat.start + v, c]
        if not fast and not abs(z) > doubt_of(wall, store.radii[flat.start + v]):
            return -1 - v
        room.value[flat.level, n, v] = z
        above += z > 0.0
    if above == 0:
        return arrays.NEGATIVE
    return arrays.POSITIVE if above == flat.size else arrays.CROSSING


@inline
def next_cut(
    net: Net, path: Path, room: Room, pile: Pile, store: Store, depth: int
) -> tuple[int, int]:
    """Decide open neurons, from the last on, until one cuts; how many are left with it.

    -1 - v if a sign at vertex v is unclear, and the number of those left.
    """
    layer, count = pile.nodes[depth, arrays.LAYER], pile.nodes[depth, arrays.OPEN]
    cell = Flat(0, pile.nodes[depth, arrays.START], pile.nodes[depth, arrays.SIZE])
    while count > 0:
        i = pile.left[depth, count - 1]
        kind = find_values(path, room, store, cell, 0, wall_of(net, path, layer, i), net.fast)
        if kind == arrays.CROSSING or kind < 0:
            return kind, count
        pile.on[depth, i] = kind == arrays.POSITIVE
        count -= 1
    return arrays.NEGATIVE, 0


@inline
def classify(net: Net, path: Path, room: Room, pile: Pile, store: Store, depth: int) -> int:
    """Decide the neurons of one sign; how many are left, or -1 - that if one of them is unclear."""
    layer, start = pile.nodes[depth, arrays.LAYER], pile.nodes[depth, arrays.START]
    maps, row, d = path.maps, room.row, store.points.shape[1]
    width, first = net.widths[layer], net.firsts[layer]
    for i in range(width):
        row[1, i], row[2, i], row[3, i] = np.inf, -np.inf, 1.0
    for v in range(start, start + pile.nodes[depth, arrays.SIZE]):
        radius = store.radii[v]
        for i in range(width):
            row[0, i] = maps[layer, d, i]
        for c in range(d):
            x = store.points[v, c]
            for i in range(width):
                row[0, i] += maps[layer, c, i] * x
        for i in range(width):
            z = row[0, i]
            row[1, i] = z if z < row[1, i] else row[1, i]
            row[2, i] = z if z > row[2, i] else row[2, i]
            sure = abs(z) > (net.slack[first + i] + path.steep[layer, i] * radius) * GROWN
            row[3, i] = row[3, i] if sure else 0.0
    count, clear = 0, True
    for i in range(width):
        pile.on[depth, i] = False
        if not net.alive[layer, i]:
            continue
        sure = net.fast or row[3, i] > 0.0
        if sure and row[1, i] > 0.0:
            pile.on[depth, i] = True
        elif not sure or row[2, i] > 0.0:
            pile.left[depth, count] = i
            count += 1
            clear = clear and sure
    return count if clear else -1 - count


@inline
def enter_layer(net: Net, path: Path, layer: int) -> None:
    """The maps of a layer from those of the layer before and its pattern."""
    maps, across, d = path.maps, net.across, path.maps.shape[1] - 1
    width = net.widths[layer]
    if layer > 0:
        for i in range(width):
            for c in range(d):
                maps[layer, c, i] = 0.0
            maps[layer, d, i] = net.biases[layer, i]
        for j in range(net.widths[layer - 1]):
            if path.pattern[layer - 1, j]:
                for c in range(d + 1):
                    x = maps[layer - 1, c, j]
                    for i in range(width):
                        maps[layer, c, i] += across[layer, j, i] * x
    for i in range(width):
        total = 0.0
        for c in range(d):
            total += abs(maps[layer, c, i])
        path.steep[layer, i] = total * GROWN
