"""What the zero weights say: who reads and writes which coordinates. Exact; nothing is rounded.

A circuit states that a node reads the blocks that it lists and no others ("no other edge"), and
writes its own alone. Both follow from zeros: a column of a matrix that is 0 cannot pass anything
on, a row that is 0 cannot write. So every coordinate but those of its blocks is what it was, and
each block is written once, by the node that says so, in its sublayer.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from hardmax.checker.blocks._sets import ClosedSets, Unproved
from hardmax.core import (
    Attention,
    Circuit,
    FeedForward,
    GatedFeedForward,
    Head,
    Node,
    SequenceInput,
    Softmax,
    Transformer,
    layers_of,
)


def check_wiring(transformer: Transformer, circuit: Circuit, sets: ClosedSets) -> None:
    """That the circuit's blocks, nodes, names and edges are those of the weights."""
    _check_numbers(circuit)
    _check_blocks(transformer, circuit, sets)
    _check_nodes(transformer, circuit, sets)
    owner = {place: k for k, b in enumerate(circuit.blocks) for place in b.coordinates}
    layers = list(enumerate(transformer.sublayers))
    for node in circuit.nodes:
        if 0 <= node.sublayer < len(layers):
            sublayer = transformer.sublayers[node.sublayer]
            if isinstance(sublayer, GatedFeedForward):
                raise Unproved("Gated units are no blocks of a circuit.")
            _check_node(sublayer, node, circuit, owner)
    _check_embedding(transformer, circuit)
    read = np.flatnonzero(transformer.readout.weights.any(axis=0))
    _compare(circuit, circuit.nodes[-1], "out", read, owner, plain=False)


def _check_numbers(circuit: Circuit) -> None:
    """Nodes stand in the order in which they work, and units alone read shares."""
    for node in circuit.nodes:
        read = [(port, k) for port, numbers in node.reads for k in numbers]
        if any(port != "in" and circuit.blocks[k].form == "share" for port, k in read):
            raise Unproved(f"The node {node.name!r} reads a share, which is no step's.")
    times = [node.sublayer for node in circuit.nodes]
    if times != sorted(times):
        raise Unproved("The nodes are not in the order in which they work.")


def _check_blocks(transformer: Transformer, circuit: Circuit, sets: ClosedSets) -> None:
    own = [circuit.one, circuit.start, *(p for b in circuit.blocks for p in b.coordinates)]
    if len(set(own)) < len(own) or not all(0 <= place < transformer.width for place in own):
        raise Unproved("The circuit's blocks overlap, or lie beyond the stream.")
    names = circuit.coordinate_names(transformer.width)
    if len(set(names)) < len(names):
        raise Unproved("Two coordinates have one name.")
    for block in circuit.blocks:
        note = sets.steps.notes.get(block.step)
        if note is None or note.name != block.name:
            raise Unproved(f"The block {block.name!r} is not what its step is called.")
        labels = tuple(note.labels.get(item, str(item)) for item in block.items)
        if labels != block.labels:
            raise Unproved(f"The items of {block.name!r} are not shown as those of its step.")
        if len(set(block.items)) < len(block.items):
            raise Unproved(f"The block {block.name!r} lists an item twice.")
        if block.form == "number" and not set(sets.numbers(block.step)) <= set(block.items):
            raise Unproved(f"The block {block.name!r} does not list all that its step can hold.")


def _check_nodes(transformer: Transformer, circuit: Circuit, sets: ClosedSets) -> None:
    """Every head and hidden unit belongs to one node, named by where it is and what it does."""
    layers = layers_of(transformer.sublayers)
    end = len(transformer.sublayers)
    ends = [("embed", -1), ("pos_embed", -1), ("logits", end)]
    nodes = circuit.nodes
    if len(nodes) < 3 or [(n.name, n.sublayer) for n in (*nodes[:2], nodes[-1])] != ends:
        raise Unproved("A circuit begins with embed and pos_embed, and ends with logits.")
    members: dict[int, list[int]] = {k: [] for k in range(end)}
    for node in nodes[2:-1]:
        if node.sublayer not in members or len(node.writes) == 0:
            raise Unproved(f"The node {node.name!r} is in no sublayer, or writes nothing.")
        members[node.sublayer] += range(node.first, node.stop)
        steps = {circuit.blocks[k].step for k in node.writes}
        note = sets.steps.notes[min(steps)]
        is_head = isinstance(transformer.sublayers[node.sublayer], Attention)
        wanted = f"a{layers[node.sublayer]}.h{node.first}"
        wanted = wanted if is_head else f"m{layers[node.sublayer]}.{note.name}"
        said = (node.name, node.step, node.text, len(steps))
        if said != (wanted, note.name, note.text, 1) or (is_head and node.stop != node.first + 1):
            raise Unproved(f"The node {node.name!r} is not the one that it is called.")
        if node.masks and not is_head:
            raise Unproved(f"The node {node.name!r} is no head, and has no mask.")
        ports = ("q", "k", "v") if is_head else ("in",)
        if tuple(port for port, _ in node.reads) != ports:
            raise Unproved(f"The node {node.name!r} has other ports.")
    for number, listed in members.items():
        sublayer = transformer.sublayers[number]
        many = len(sublayer.heads) if isinstance(sublayer, Attention) else sublayer.hidden_width
        if many == 0:  # what is added to everything by nobody would be seen by no node
            raise Unproved(f"Sublayer {number} has no units, and is no part of a circuit.")
        if sorted(listed) != list(range(many)):
            raise Unproved(f"The nodes of sublayer {number} are not all of its heads or units.")
    written = [k for node in nodes for k in node.writes]
    if sorted(written) != list(range(len(circuit.blocks))):
        raise Unproved("A block is written by no node, or by two.")
    if any(circuit.blocks[k].sublayer != node.sublayer for node in nodes for k in node.writes):
        raise Unproved("A block is written in another sublayer than the circuit says.")
    _check_ends(circuit, sets)


def _check_ends(circuit: Circuit, sets: ClosedSets) -> None:
    embed, places, logits = circuit.nodes[0], circuit.nodes[1], circuit.nodes[-1]
    for node in (embed, places):
        called = ", ".join(dict.fromkeys(circuit.blocks[k].name for k in node.writes))
        ends = (node.first, node.stop)
        if node.reads or node.step or node.masks or node.text != called or ends != (0, 0):
            raise Unproved(f"The node {node.name!r} is not an embedding of what it writes.")
    ports = [port for port, _ in logits.reads]
    said = (ports, logits.writes, logits.step, logits.text, logits.first, logits.stop)
    if said != (["out"], (), "", "", 0, 0) or logits.masks:
        raise Unproved("The node 'logits' is no read-out.")


def _check_node(
    sublayer: Attention | FeedForward, node: Node, circuit: Circuit, owner: dict[int, int]
) -> None:
    if isinstance(sublayer, Attention):
        head = sublayer.heads[node.first]
        _check_head(head, node)
        ports = {"q": head.query, "k": head.key, "v": head.value}
        writes = np.flatnonzero(head.output.any(axis=1))
    else:
        some = slice(node.first, node.stop)
        ports = {"in": sublayer.inner[some]}
        writes = np.flatnonzero(sublayer.outer[:, some].any(axis=1))
        if sublayer.outer_bias.any():
            raise Unproved(f"Sublayer {node.sublayer} writes everywhere, whatever it reads.")
    own = {place for k in node.writes for place in circuit.blocks[k].coordinates}
    if not set(writes.tolist()) <= own:
        raise Unproved(f"The node {node.name!r} writes coordinates that are not its own.")
    for port, matrix in ports.items():
        _compare(circuit, node, port, np.flatnonzero(matrix.any(axis=0)), owner)


def _check_head(head: Head, node: Node) -> None:
    if not isinstance(head.weighting, Softmax):
        raise Unproved(f"The head {node.name!r} is no softmax.")


def _compare(
    circuit: Circuit,
    node: Node,
    port: str,
    read: Iterable[int],
    owner: dict[int, int],
    plain: bool = True,
) -> None:
    """What is read is one, start, and exactly the blocks that are listed, all written before."""
    found = set()
    for place in map(int, read):
        if plain and place in (circuit.one, circuit.start):
            continue
        if place not in owner:
            raise Unproved(f"The node {node.name!r} reads coordinate {place}, which is no block's.")
        found.add(owner[place])
    listed = dict(node.reads)[port]
    if tuple(sorted(found)) != listed:
        raise Unproved(f"The node {node.name!r} does not read at {port!r} what the circuit says.")
    if any(circuit.blocks[k].sublayer >= node.sublayer for k in found):
        raise Unproved(f"The node {node.name!r} reads what is not there yet.")


def _check_embedding(transformer: Transformer, circuit: Circuit) -> None:
    """1 everywhere, 1 at the start token alone; tokens and places write their own blocks."""
    source = transformer.input
    assert isinstance(source, SequenceInput)
    if source.start is None:
        raise Unproved("A legible model needs a start token.")
    first = source.start + source.positions[0]
    everywhere = source.embedding[:, circuit.one][:, None] + source.positions[None, 1:, circuit.one]
    at_start = (
        source.embedding[:, circuit.start][:, None] + source.positions[None, 1:, circuit.start]
    )
    if (everywhere != 1.0).any() or at_start.any() or not first[circuit.one] == 1.0:
        raise Unproved("The coordinates that are to be 1, everywhere or at the start, are not.")
    if first[circuit.start] != 1.0:
        raise Unproved("The start token does not say so.")
    own = (circuit.one, circuit.start)
    for node, table in ((circuit.nodes[0], source.embedding), (circuit.nodes[1], source.positions)):
        places = {p for k in node.writes for p in circuit.blocks[k].coordinates}
        written = set(np.flatnonzero(table.any(axis=0)).tolist()) - set(own)
        if not written <= places:
            raise Unproved(f"{node.name} writes coordinates that are not its own.")
    rest = np.delete(first, list(own))
    if rest.any():
        raise Unproved("The start token holds more than that it is the first.")
