"""Cells of a ReLU network in d dimensions, compiled: cut simple polytopes, count their flats.

**A cell is a simple polytope**, kept by its vertices: d facets each (`labels`), and for each of
them the vertex at the other end of the edge that leaves this facet and stays in the others
(`links`). A wall that vanishes at no vertex cuts the polytope into two simple ones
(`_section_kernels`). In the last hidden layer cells are wanted only as a number, and few walls are
counted without making them (`_flat_kernels`).

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

To be read from `advance`, at the end; then `_form_kernels`, `_section_kernels`, `_flat_kernels`,
`_vertex_kernels`, `_facet_kernels`.
"""

from __future__ import annotations

from hardmax.geometry._compiled import inline, lent, resumable_entry
from hardmax.geometry.counting.space import _arrays as arrays
from hardmax.geometry.counting.space._arrays import Net, Path, Pile, Record, Room, Store
from hardmax.geometry.counting.space._facet_kernels import write_silent_facets
from hardmax.geometry.counting.space._flat_kernels import UNCLEAR, count_by_flats
from hardmax.geometry.counting.space._form_kernels import classify, enter_layer, next_cut
from hardmax.geometry.counting.space._section_kernels import split_cell
from hardmax.geometry.counting.space._vertex_kernels import find_again

_GO_ON = -1  # beside the reasons to stop


@resumable_entry
def enter(net: Net, path: Path, layer: int) -> None:
    """The maps of a layer, for Python."""
    enter_layer(net, path, layer)


@inline
def _leaf(
    net: Net, path: Path, room: Room, pile: Pile, store: Store, record: Record, depth: int
) -> int:
    """What is wanted of the leaf on top: why to stop, or that the walk can go on."""
    if record.now[arrays.MODE] == arrays.CELLS:
        return arrays.LEAF
    if record.now[arrays.MODE] == arrays.REGIONS:
        if record.now[arrays.SILENT] + net.firsts[-1] > len(record.silent):
            return arrays.FULL
        if pile.nodes[depth, arrays.STAINED]:
            return arrays.DOUBT
        if not write_silent_facets(net, path, room, pile, store, record, depth):
            return arrays.DOUBT
    return _GO_ON


@inline
def _descend(net: Net, path: Path, room: Room, pile: Pile, store: Store, depth: int) -> bool:
    """The node on top, complete in its layer, begins the next one; False if a sign is unclear."""
    nodes = pile.nodes
    layer, start = nodes[depth, arrays.LAYER], nodes[depth, arrays.START]
    for i in range(net.widths[layer]):
        path.pattern[layer, i] = pile.on[depth, i]
    enter_layer(net, path, layer + 1)
    nodes[depth, arrays.LAYER] = layer + 1
    while True:
        left = classify(net, path, room, pile, store, depth)
        nodes[depth, arrays.OPEN] = left if left >= 0 else -1 - left
        if left >= 0:
            return True
        gained = False
        for v in range(start, start + nodes[depth, arrays.SIZE]):
            if find_again(net, path, room, store, v):
                gained = True
        if not gained:
            return False


@resumable_entry
def advance(
    net: Net, path: Path, room: Room, pile: Pile, store: Store, cut: Store, record: Record
) -> int:
    """Walk on until something stops it; everything is in the arrays, so it can be called again."""
    net, path, room, pile = lent(net), lent(path), lent(room), lent(pile)
    store, cut, record = lent(store), lent(cut), lent(record)
    now, counts, nodes = record.now, record.counts, pile.nodes
    deepest = len(net.widths) - 1
    while now[arrays.DEPTH] > 0:
        if now[arrays.BUDGET] <= 0 or counts[deepest] >= now[arrays.LIMIT]:
            return arrays.PAUSED
        now[arrays.BUDGET] -= 1
        depth = now[arrays.DEPTH] - 1
        layer, left = nodes[depth, arrays.LAYER], nodes[depth, arrays.OPEN]
        if left == 0 and layer < deepest:
            counts[layer] += 1
            if not _descend(net, path, room, pile, store, depth):
                return arrays.UNSURE
        elif left == 0:
            why = _leaf(net, path, room, pile, store, record, depth)
            if why != _GO_ON:
                return why
            counts[layer] += 1
            now[arrays.DEPTH] -= 1
        elif now[arrays.MODE] == arrays.COUNT and layer == deepest and left <= arrays.FLATS:
            cells = count_by_flats(net, path, room, pile, store, cut, depth)
            if cells < 0:
                return arrays.UNSURE if cells == UNCLEAR else arrays.FULL
            counts[layer] += cells
            now[arrays.BUDGET] -= cells
            now[arrays.DEPTH] -= 1
        else:
            kind, left = next_cut(net, path, room, pile, store, depth)
            nodes[depth, arrays.OPEN] = left
            if kind < 0:
                if not find_again(net, path, room, store, nodes[depth, arrays.START] - 1 - kind):
                    return arrays.UNSURE
            elif kind == arrays.CROSSING:
                if not split_cell(net, path, room, pile, store, cut, depth):
                    return arrays.FULL
                now[arrays.DEPTH] += 1
    return arrays.DONE
