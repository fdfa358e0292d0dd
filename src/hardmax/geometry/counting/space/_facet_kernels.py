"""Silent facets of a cell, on whose two sides the network is one affine map, compiled.

The patterns on the two sides differ in the facet's neuron alone, unless the cell is stained, so the
maps differ by the neuron's effect on the outputs; where that is 0 the facet is silent.
"""

from __future__ import annotations

import numpy as np

from hardmax.geometry._compiled import inline, subroutine
from hardmax.geometry.counting.space import _arrays as arrays
from hardmax.geometry.counting.space._arrays import Net, Path, Pile, Record, Room, Store


@inline
def _is_on(net: Net, path: Path, on: np.ndarray, layer: int, i: int) -> bool:
    """Whether a neuron of any layer is on in the leaf, whose last pattern is `on`."""
    return on[i] if layer == len(net.widths) - 1 else path.pattern[layer, i]


@subroutine
def _mark_who_acts(net: Net, path: Path, room: Room, on: np.ndarray) -> None:
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
                lit = _is_on(net, path, on, layer + 1, i)
                if lit and acts[layer + 1, i] != 0.0 and net.across[layer + 1, j, i] != 0.0:
                    acts[layer, j] = 1.0


@inline
def _find_effects(net: Net, path: Path, room: Room, on: np.ndarray, o: int) -> None:
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


@inline
def _is_audible(net: Net, room: Room, layer: int, j: int) -> bool:
    """Whether neuron j's derivative of the output at hand is surely not 0."""
    total = 0.0
    for i in range(net.widths[layer + 1]):
        total += net.across[layer + 1, j, i] * room.sense[0, layer + 1, i]
    return abs(total) > net.blur[net.firsts[layer] + j] or (net.fast and total != 0.0)


@inline
def _acts(net: Net, path: Path, room: Room, on: np.ndarray, layer: int, j: int) -> int:
    """1 if neuron j's effect on some output is surely not 0, 0 if all are 0, -1 if unclear.

    room.sense[0] is for the first output, before and after.
    """
    outputs = len(net.out)
    if layer == len(net.widths) - 1:
        for o in range(outputs):
            if net.out[o, j] != 0.0:
                return 1
        return 0
    if outputs > 0 and _is_audible(net, room, layer, j):
        return 1
    audible = False
    for o in range(1, outputs):
        if not audible:
            _find_effects(net, path, room, on, o)
            audible = _is_audible(net, room, layer, j)
    if outputs > 1:
        _find_effects(net, path, room, on, 0)
    if audible:
        return 1
    _mark_who_acts(net, path, room, on)
    return 0 if net.fast or room.sense[1, layer, j] == 0.0 else -1


@subroutine
def _write(net: Net, path: Path, record: Record, on: np.ndarray, label: int) -> None:
    """A silent facet: the names of both cells, the exclusive or over the neurons that are on."""
    silent, at = record.silent, record.now[arrays.SILENT]
    for word in range(2):
        silent[at, word] = 0
        for layer in range(len(net.widths)):
            for i in range(net.widths[layer]):
                if _is_on(net, path, on, layer, i):
                    silent[at, word] ^= net.words[net.firsts[layer] + i, word]
        silent[at, 2 + word] = silent[at, word] ^ net.words[label, word]
    record.now[arrays.SILENT] = at + 1


@inline
def write_silent_facets(
    net: Net, path: Path, room: Room, pile: Pile, store: Store, record: Record, depth: int
) -> bool:
    """Write down the silent facets of the leaf on top, from their bright side.

    False, and none of them, if one is unclear.
    """
    room.seen[-1] += 1
    on, leaf, before = pile.on[depth], room.seen[-1], record.now[arrays.SILENT]
    start, d = pile.nodes[depth, arrays.START], store.points.shape[1]
    if len(net.out) > 0:
        _find_effects(net, path, room, on, 0)
    for v in range(start, start + pile.nodes[depth, arrays.SIZE]):
        for c in range(d):
            label = store.labels[v, c]
            if label >= net.firsts[-1] or room.seen[label] == leaf:
                continue
            room.seen[label] = leaf
            layer = net.layer_of[label]
            j = label - net.firsts[layer]
            if not _is_on(net, path, on, layer, j):
                continue
            acts = _acts(net, path, room, on, layer, j)
            if acts < 0:
                record.now[arrays.SILENT] = before
                return False
            if acts == 0:
                _write(net, path, record, on, label)
    return True
