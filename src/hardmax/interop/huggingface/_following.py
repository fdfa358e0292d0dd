"""What is said of a Transformer follows when it is rebuilt: its witness, legend and circuit.

A circuit names sublayers, heads and hidden units by their numbers. So a step that drops, inserts or
turns some of them says where the others have gone, and the names of nodes are made again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from fractions import Fraction

import numpy as np

from hardmax.core import (
    Attention,
    Block,
    Circuit,
    Construction,
    Legend,
    Node,
    ReadOut,
    SequenceSteps,
    SequenceTarget,
    StepNote,
    Sublayer,
    Target,
    Transformer,
    Witness,
    layers_of,
)
from hardmax.core import plain as exact
from hardmax.interop._hooks import with_nodes

Sublayers = Callable[[int], int]
Members = Callable[[int, int], int]  # of sublayer k: how many of the first m members are left
NO_STEP = -1  # of blocks that hold no step of the program


def rebuilt(
    construction: Construction,
    transformer: Transformer,
    sublayers: Sublayers,
    tokens: Callable[[int], int] = lambda token: token,
    legend: Legend | None = None,
    circuit: Circuit | None = None,
) -> Construction:
    """The construction with another Transformer; sublayers and tokens of holdings are renamed.

    Without a circuit of its own it has the one that it had, its sublayers renamed.
    """
    witness, before = construction.witness, construction.circuit
    if witness is not None:
        witness = Witness(
            replace(h, sublayer=sublayers(h.sublayer), token=tokens(h.token))
            for h in witness.holdings
        )
    legend = construction.legend if legend is None else legend
    if circuit is None and before is not None:
        circuit = renumbered(before, transformer, sublayers)
    return replace(
        construction, transformer=transformer, witness=witness, legend=legend, circuit=circuit
    )


def reordered(construction: Construction, orders: list[list[int]]) -> Construction:
    """With the heads of each attention sublayer in another order."""
    transformer, legend = construction.transformer, construction.legend
    sublayers: list[Sublayer] = []
    steps = [] if legend is None else list(legend.sublayers)
    for number, (layer, order) in enumerate(zip(transformer.sublayers, orders, strict=True)):
        if isinstance(layer, Attention):
            layer = Attention(layer.heads[i] for i in order)
            if legend is not None and len(steps[number]) == len(order):
                steps[number] = tuple(steps[number][i] for i in order)
        sublayers.append(layer)
    turned = Transformer(transformer.input, sublayers, transformer.readout)
    circuit = construction.circuit
    if circuit is not None:
        circuit = _turned(circuit, turned, orders)
    return rebuilt(
        construction,
        turned,
        lambda k: k,
        legend=None
        if legend is None
        else legend.with_parts(
            legend.coordinates,
            steps,
            head=lambda number, head: orders[number].index(head),
        ),
        circuit=circuit,
    )


# ---- circuits ------------------------------------------------------------------------------------


def renumbered(circuit: Circuit, transformer: Transformer, sublayers: Sublayers) -> Circuit:
    """The circuit of a Transformer whose sublayers were numbered otherwise before."""
    blocks = (
        block if block.sublayer < 0 else replace(block, sublayer=sublayers(block.sublayer))
        for block in circuit.blocks
    )
    nodes = (
        replace(node, sublayer=sublayers(node.sublayer)) if _works(node) else node
        for node in circuit.nodes
    )
    return _named(replace(circuit, blocks=tuple(blocks), nodes=tuple(nodes)), transformer)


def trimmed_circuit(
    circuit: Circuit, transformer: Transformer, sublayers: Sublayers, members: Members
) -> Circuit:
    """Without members that did nothing; a node without any goes, and what it would have written."""
    kept: list[Node] = []
    gone: set[int] = set()
    for node in circuit.nodes:
        if _works(node):
            first, stop = (members(node.sublayer, m) for m in (node.first, node.stop))
            if first == stop:
                gone |= set(node.writes)
                continue
            node = replace(node, first=first, stop=stop)
        kept.append(node)
    return renumbered(_without_blocks(circuit, kept, gone), transformer, sublayers)


def opened_circuit(
    circuit: Circuit, transformer: Transformer, column: int, kind: str, sublayers: Sublayers
) -> Circuit:
    """A head that finds the own place, and units that write, of it, what a table of positions held.

    The head writes p(t) into `column`: 1/(t + 1), or 1 - t/T if the kind is "linear". What the
    table held is there when the units have run: until then the embedding gives every symbol the
    position of the first one.
    """
    embedded = next(node for node in circuit.nodes if node.name == "pos_embed")
    tokens = transformer.tokens
    shares = [
        1 - Fraction(t, tokens) if kind == "linear" else Fraction(1, t + 1)
        for t in range(1, tokens)
    ]
    items = tuple(sorted(map(exact, shares)))
    place = Block(NO_STEP, "p(t)", "number", column, 0, items, tuple(map(str, items)), (1.0,))
    inside = renumbered(circuit, transformer, sublayers)
    new = len(circuit.blocks)
    blocks = [
        replace(block, sublayer=1) if number in embedded.writes else block
        for number, block in enumerate(inside.blocks)
    ]
    nothing = (("q", ()), ("k", ()), ("v", ()))
    finder = Node("a0.h0", 0, 0, 1, place.name, "where the start token is", nothing, (new,))
    units = getattr(transformer.sublayers[1], "hidden_width", 0)
    reads = (("in", (new,)),)
    writer = Node(
        "m0.positions",
        1,
        0,
        units,
        embedded.step,
        f"{embedded.step} by p(t)",
        reads,
        embedded.writes,
    )
    first, rest = inside.nodes[0], [n for n in inside.nodes[1:] if n.name != embedded.name]
    nodes = (first, replace(embedded, step="", writes=()), finder, writer, *rest)
    return replace(inside, blocks=(*blocks, place), nodes=nodes)


def answering_circuit(
    circuit: Circuit, transformer: Transformer, before: ReadOut, notes: Mapping[int, StepNote]
) -> Circuit:
    """Units that write into the last coordinate the number which `before` read.

    They are one more node of the answer's step, so that a checker may prove this circuit as well.
    """
    *nodes, logits = circuit.nodes
    numbers = dict(logits.reads)["out"]
    read = circuit.blocks[numbers[0]] if numbers else None
    step = NO_STEP if read is None else read.step
    note = notes.get(step, StepNote("answer", "a constant", {}))
    items, labels = ((), ()) if read is None else (read.items, read.labels)
    end, column = len(transformer.sublayers) - 1, transformer.width - 1
    start = (float(before.weights[0] @ _at_start(circuit, column)) + float(before.bias[0]),)
    answer = Block(step, note.name, "number", column, end, items, labels, start)
    name = f"m{layers_of(transformer.sublayers)[end]}.{note.name}"
    wrote = (len(circuit.blocks),)
    node = Node(name, end, 0, 2, note.name, note.text, (("in", numbers),), wrote)
    last = replace(logits, sublayer=end + 1, reads=(("out", wrote),))
    shown = [
        moved
        for one in circuit.showings
        for moved in (
            (replace(one, target=name, port="in"), replace(one, block=wrote[0]))
            if one.target == logits.name
            else (one,)
        )
    ]
    blocks = (*circuit.blocks, answer)
    return replace(circuit, blocks=blocks, nodes=(*nodes, node, last), showings=tuple(shown))


def notes_of(target: Target | SequenceTarget) -> Mapping[int, StepNote]:
    """What the steps of a program are called, and what they do."""
    steps = target.steps()
    return steps.notes if isinstance(steps, SequenceSteps) else {}


def _at_start(circuit: Circuit, width: int) -> np.ndarray:
    """The stream at the start token, when all has been written."""
    held = np.zeros(width)
    held[[circuit.one, circuit.start]] = 1.0
    for block in circuit.blocks:
        held[block.first : block.stop] = block.at_start
    return held


def _turned(circuit: Circuit, transformer: Transformer, orders: list[list[int]]) -> Circuit:
    nodes = []
    for node in circuit.nodes:
        if _works(node) and isinstance(transformer.sublayers[node.sublayer], Attention):
            place = orders[node.sublayer].index(node.first)
            node = replace(node, first=place, stop=place + 1)
        nodes.append(node)
    return _named(replace(circuit, nodes=tuple(nodes)), transformer)


def _named(circuit: Circuit, transformer: Transformer) -> Circuit:
    """Heads and units by their layers, and heads by their places; the read-out comes last."""
    layers = layers_of(transformer.sublayers)
    nodes = []
    for node in circuit.nodes:
        if _works(node):
            rest = node.name.split(".", 1)[1]
            layer = layers[node.sublayer]
            name = f"a{layer}.h{node.first}" if node.name[0] == "a" else f"m{layer}.{rest}"
            node = replace(node, name=name)
        elif node.name == "logits":
            node = replace(node, sublayer=len(transformer.sublayers))
        nodes.append(node)
    return with_nodes(circuit, nodes)


def _without_blocks(circuit: Circuit, nodes: Iterable[Node], gone: set[int]) -> Circuit:
    """So many nodes, and the blocks that are left of theirs."""
    left = [number for number in range(len(circuit.blocks)) if number not in gone]
    place = {number: k for k, number in enumerate(left)}
    kept = [
        replace(
            node,
            reads=tuple((p, tuple(place[k] for k in own if k in place)) for p, own in node.reads),
            writes=tuple(place[k] for k in node.writes),
        )
        for node in nodes
    ]
    names = {node.name for node in kept}
    shown = tuple(
        replace(one, block=place[one.block])
        for one in circuit.showings
        if one.block in place and one.target in names
    )
    blocks = tuple(circuit.blocks[number] for number in left)
    return replace(circuit, blocks=blocks, nodes=tuple(kept), showings=shown)


def _works(node: Node) -> bool:
    """Whether it is a head, or hidden units."""
    return node.name[0] in "am"
