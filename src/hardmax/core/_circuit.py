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

import numpy as np

from hardmax._errors import RequestError, ShapeError
from hardmax.core import _circuit_graphs as graphs
from hardmax.core._circuit_parts import NOT_SHOWN, Block, Edge, Node, Showing
from hardmax.core._circuit_records import (
    block_from,
    block_record,
    edge_record,
    node_from,
    node_record,
    record_in,
    records,
    showing_from,
    whole,
)
from hardmax.core._frame import Frame


@dataclass(frozen=True)
class Circuit:
    """The blocks and nodes of a Transformer, and the coordinates that are 1 (everywhere, at start).

    `showings` say, for edges of which this is known, what shows that they matter. With a `frame`
    the coordinates are directions of the stream: see `projection`.

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
    frame: Frame | None = None

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

    @cached_property
    def relevant(self) -> frozenset[str]:
        """The nodes from which a way leads to the answer; what others hold cannot reach it.

        >>> model = hm.compile(hm.programs.reverse, alphabet="ab", length=3, route="legible")
        >>> model.circuit.relevant == {node.name for node in model.circuit.nodes}
        True
        """
        order = {node.name: k for k, node in enumerate(self.nodes)}
        found = {self.nodes[-1].name}
        for edge in sorted(self.edges, key=lambda e: -order[e.target]):
            if edge.target in found:
                found.add(edge.source)
        return frozenset(found)

    @property
    def layers(self) -> int:
        """As TransformerLens counts them; there is always one."""
        inner = [node.name for node in self.nodes[2:-1]]
        return max((int(name[1:].split(".")[0]) + 1 for name in inner), default=1)

    @property
    def steps(self) -> tuple[str, ...]:
        """The names of the steps that can be intervened on, in the order in which they are held.

        A step that some mask stands for is none of them, be it held or not.
        """
        held = dict.fromkeys(b.name for b in self.blocks if b.form != "share")
        return tuple(name for name in held if name not in self.masked)

    @property
    def masked(self) -> tuple[str, ...]:
        """The names of the steps that masks stand for, which move with no intervention."""
        return tuple(dict.fromkeys(name for node in self.nodes for name in node.masks))

    def blocks_of(self, name: str) -> list[Block]:
        return [block for block in self.blocks if block.name == name and block.form != "share"]

    @property
    def width(self) -> int:
        """How many coordinates there are."""
        if self.frame is not None:
            return self.frame.width
        return max(self.one, self.start, *(b.stop - 1 for b in self.blocks)) + 1

    def projection(self, name: str) -> np.ndarray:
        """The matrix P that reads a step off the stream: its blocks hold P @ x.

        Its rows are orthonormal, one for each coordinate of the step's blocks, in their order, so
        that P.T @ code writes. A step that holds `code` instead is x + P.T @ (code - P @ x).

        >>> model = hm.compile(hm.programs.reverse, alphabet="ab", length=3, route="legible")
        >>> stream = hm.trace(model, "abb").streams[0]
        >>> (stream @ model.circuit.projection("tokens").T).tolist()[1:]
        [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]
        """
        places = [place for block in step_blocks(self, name) for place in block.coordinates]
        return self.axes[:, places].T

    @cached_property
    def axes(self) -> np.ndarray:
        """A column for each coordinate: the direction of the stream in which it lies."""
        return np.eye(self.width) if self.frame is None else self.frame.matrix

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
        turned: dict[str, object] = {}
        if self.frame is not None:
            turned["frame"] = self.frame.as_dict()
        return turned | {
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
        frame = Frame.from_dict(record_in(record["frame"])) if "frame" in record else None
        made = replace(made, showings=shown, frame=frame)
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
        """Pairs of hook names, as InterpBench lists the edges of a circuit: those that matter."""
        return graphs.to_interpbench(self._relevant_edges, self.layers)

    def to_eap_ig(self) -> dict[str, object]:
        """The graph as EAP-IG stores it: which of all nodes and edges are in the circuit."""
        heads = [int(n.name.split(".h")[1]) + 1 for n in self.nodes if n.name.startswith("a")]
        return graphs.to_eap_ig(
            self._relevant_edges, layers=self.layers, heads=max([1, *heads]), width=self.width
        )

    @property
    def _relevant_edges(self) -> list[Edge]:
        return [edge for edge in self.edges if edge.target in self.relevant]


def step_blocks(circuit: Circuit, name: str) -> list[Block]:
    """The blocks of a step, or a refusal that lists the steps."""
    found = circuit.blocks_of(name)
    if not found:
        raise RequestError(
            f"There is no step {name!r} in this model; it has {', '.join(circuit.steps)}."
        )
    return found
