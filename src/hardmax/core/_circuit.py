"""Which part of a Transformer holds which step of its target, and who reads what.

A circuit is written by a lowering for people and for checkers, and believed by nobody: each of its
statements can be derived again from the weights. A *block* is a range of coordinates that one
sublayer writes and that codes one step; a *node* is a head, or a range of hidden units, with the
blocks that it reads, port by port, and those that it writes; an *edge* is a block that goes from
the node that writes it to a node that reads it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from hardmax._errors import RequestError, ShapeError
from hardmax.core import _circuit_graphs as graphs
from hardmax.core._circuit_parts import NOT_SHOWN, Block, Edge, Node, Showing
from hardmax.core._circuit_records import (
    block_from,
    block_record,
    edge_record,
    node_from,
    node_record,
    records,
    showing_from,
    whole,
)


@dataclass(frozen=True)
class Circuit:
    """The blocks and nodes of a Transformer, and the coordinates that are 1 (everywhere, at start).

    `showings` say, for edges of which this is known, what shows that they matter.

    >>> model = hm.compile(hm.programs.reverse, alphabet="ab", length=3, route="legible")
    >>> [node.name for node in model.circuit.nodes]
    ['embed', 'pos_embed', 'a0.h0', 'm0.length', 'm1.combination', 'a2.h0', 'logits']
    >>> edge = model.circuit.edges[-1]
    >>> edge.source, edge.target, edge.step, edge.kind, edge.shown_by
    ('a2.h0', 'logits', 'answer', 'word', ('bba', 'aba'))
    """

    one: int
    start: int
    blocks: tuple[Block, ...]
    nodes: tuple[Node, ...]
    showings: tuple[Showing, ...] = ()

    def __post_init__(self) -> None:
        known, written = range(len(self.blocks)), {k for node in self.nodes for k in node.writes}
        for node in self.nodes:
            read = {k for _, numbers in node.reads for k in numbers}
            if not read <= written or any(k not in known for k in written):
                raise ShapeError(f"The node {node.name!r} names a block that nobody writes.")

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        """Every block that a node reads, from the node that writes it, and what shows the edge."""
        shown = {(one.target, one.port, one.block): one for one in self.showings}
        writer = {number: node.name for node in self.nodes for number in node.writes}
        edges = []
        for node, port, number in self._readings():
            block, by = self.blocks[number], shown.get((node.name, port, number))
            kind, shown_by = (NOT_SHOWN, ()) if by is None else (by.kind, by.shown_by)
            ends = block.first, block.stop
            edge = Edge(writer[number], node.name, port, block.name, ends, kind, shown_by)
            edges.append(edge)
        return tuple(edges)

    def _readings(self) -> Iterator[tuple[Node, str, int]]:
        """Every node, port and number of a block that is read there: the edges, in their order."""
        for node in self.nodes:
            for port, numbers in node.reads:
                yield from ((node, port, number) for number in numbers)

    @property
    def layers(self) -> int:
        """As TransformerLens counts them; there is always one."""
        inner = [node.name for node in self.nodes[2:-1]]
        return max((int(name[1:].split(".")[0]) + 1 for name in inner), default=1)

    @property
    def steps(self) -> tuple[str, ...]:
        """The names of the steps that can be intervened on, in the order in which they are held."""
        return tuple(dict.fromkeys(b.name for b in self.blocks if b.form != "share"))

    def blocks_of(self, name: str) -> list[Block]:
        return [block for block in self.blocks if block.name == name and block.form != "share"]

    def coordinate_names(self, width: int) -> list[str]:
        names = [f"coordinate {place}" for place in range(width)]
        names[self.one], names[self.start] = "one", "start"
        times: dict[str, int] = {}
        for block in self.blocks:
            for place, name in zip(block.coordinates, block.coordinate_names, strict=True):
                times[name] = times.get(name, 0) + 1
                names[place] = name if times[name] == 1 else f"{name} no. {times[name]}"
        return names

    # ---- text ----------------------------------------------------------------------------------

    def as_dict(self) -> dict[str, object]:
        """Plain data for JSON, which says everything; edges stand there for those who read it."""
        return {
            "one": self.one,
            "start": self.start,
            "blocks": [block_record(block) for block in self.blocks],
            "nodes": [node_record(node, self.layers) for node in self.nodes],
            "edges": [edge_record(edge) for edge in self.edges],
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, object]) -> Circuit:
        """The inverse of `as_dict`; edges are derived again, and have to be those that stand there.

        What is missing or of the wrong kind ends in a LookupError, TypeError or ValueError.
        """
        blocks = tuple(block_from(one) for one in records(record["blocks"]))
        nodes = tuple(node_from(one) for one in records(record["nodes"]))
        made = cls(whole(record["one"]), whole(record["start"]), blocks, nodes)
        edges = zip(records(record["edges"]), made._readings(), strict=True)
        showings = [showing_from(one, number) for one, (_, _, number) in edges]
        shown = tuple(one for one in showings if one is not None)
        made = replace(made, showings=shown)
        if made.as_dict() != record:
            raise ValueError("the circuit is not written as this version writes it")
        return made

    def to_json(self) -> str:
        """The circuit as JSON."""
        return json.dumps(self.as_dict(), indent=1)

    def to_mermaid(self) -> str:
        """A flow chart in Mermaid's language; edges that no pair of words shows are dotted."""
        return graphs.to_mermaid(self.nodes, self.edges)

    def to_graphviz(self) -> str:
        """A graph in the DOT language; the kind of an edge is its style."""
        return graphs.to_graphviz(self.nodes, self.edges)

    def to_interpbench(self) -> list[tuple[str, str]]:
        """Pairs of hook names, as InterpBench lists the edges of a circuit."""
        return graphs.to_interpbench(self.edges, self.layers)

    def to_eap_ig(self) -> dict[str, object]:
        """The graph as EAP-IG stores it: which of all nodes and edges are in the circuit."""
        heads = [int(n.name.split(".h")[1]) + 1 for n in self.nodes if n.name.startswith("a")]
        places = [self.one, self.start, *(block.stop - 1 for block in self.blocks)]
        return graphs.to_eap_ig(
            self.edges, layers=self.layers, heads=max([1, *heads]), width=max(places) + 1
        )


def step_blocks(circuit: Circuit, name: str) -> list[Block]:
    """The blocks of a step, or a refusal that lists the steps."""
    found = circuit.blocks_of(name)
    if not found:
        raise RequestError(
            f"There is no step {name!r} in this model; it has {', '.join(circuit.steps)}."
        )
    return found
