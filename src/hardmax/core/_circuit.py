"""Which part of a Transformer holds which step of its target, and who reads what.

A circuit is written by a lowering for people and for checkers, and believed by nobody: each of its
statements can be derived again from the weights. A *block* is a range of coordinates that one
sublayer writes and that codes one step; a *node* is a head, or a range of hidden units, with the
blocks that it reads, port by port, and those that it writes; an *edge* is a block that goes from
the node that writes it to a node that reads it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import cast

import numpy as np

from hardmax._errors import RequestError, ShapeError
from hardmax.core._frame import Frame
from hardmax.core._layers import Attention, Sublayer
from hardmax.core._sequence_target import plain

FORMS = ("number", "one-hot", "share")
PORTS = ("q", "k", "v", "in", "out")
Exact = int | Fraction


@dataclass(frozen=True)
class Block:
    """Coordinates `first` to `stop - 1` code what a step holds, once `sublayer` has run.

    A number is itself; a one-hot has a coordinate for each of its `items`, the numbers that the
    step can hold and that somebody looks for (for any other nothing is lit); a share is 1/(1 + w),
    w being the positions that its head selects. A sublayer of -1 stands for the embedding. At the
    start token the coordinates are `at_start`.
    """

    step: int
    name: str
    form: str
    first: int
    sublayer: int
    items: tuple[Exact, ...]
    labels: tuple[str, ...]
    at_start: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            raise ShapeError(f"A block is one of {', '.join(FORMS)}, not {self.form!r}.")
        if len(self.labels) != len(self.items):
            raise ShapeError(f"The block {self.name!r} needs a label for each of its items.")
        if len(self.at_start) != self.width:
            raise ShapeError(f"The block {self.name!r} of width {self.width} starts otherwise.")

    @property
    def width(self) -> int:
        return len(self.items) if self.form == "one-hot" else 1

    @property
    def stop(self) -> int:
        return self.first + self.width

    @property
    def coordinates(self) -> range:
        return range(self.first, self.stop)

    @property
    def coordinate_names(self) -> list[str]:
        """Each its own, among all of a circuit."""
        if self.form == "one-hot":
            return [f"{self.name}={label}" for label in self.labels]
        return [self.name if self.form == "number" else f"1/(1+{self.name})"]

    def code(self, number: Exact) -> list[float]:
        """The coordinates of a number."""
        if self.form == "one-hot":
            return [float(item == number) for item in self.items]
        return [float(number)]

    def label_of(self, item: Exact) -> str:
        return dict(zip(self.items, self.labels, strict=True)).get(item, str(item))


@dataclass(frozen=True)
class Node:
    """A head (`first` is its place in the layer) or hidden units `first` to `stop - 1`.

    `reads` are the numbers of blocks, port by port: q, k, v of a head, "in" of units. The
    embedding reads nothing; the read-out writes nothing.
    """

    name: str
    sublayer: int
    first: int
    stop: int
    step: str
    text: str
    reads: tuple[tuple[str, tuple[int, ...]], ...]
    writes: tuple[int, ...]


@dataclass(frozen=True)
class Edge:
    """A block on its way from the node that writes it to a port of one that reads it."""

    source: str
    target: str
    port: str
    step: str
    coordinates: tuple[int, int]  # the first, and the one after the last


@dataclass(frozen=True)
class Circuit:
    """The blocks and nodes of a Transformer, and the coordinates that are 1 (everywhere, at start).

    With a `frame` these coordinates are directions of the stream: see `projection`.

    >>> model = hm.compile(hm.programs.reverse, alphabet="ab", length=3, route="legible")
    >>> [node.name for node in model.circuit.nodes]
    ['embed', 'pos_embed', 'a0.h0', 'm0.length', 'm1.combination', 'a2.h0', 'logits']
    """

    one: int
    start: int
    blocks: tuple[Block, ...]
    nodes: tuple[Node, ...]
    frame: Frame | None = None

    def __post_init__(self) -> None:
        known, written = range(len(self.blocks)), {k for node in self.nodes for k in node.writes}
        for node in self.nodes:
            read = {k for _, numbers in node.reads for k in numbers}
            if not read <= written or any(k not in known for k in written):
                raise ShapeError(f"The node {node.name!r} names a block that nobody writes.")

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        """Every block that a node reads, from the node that writes it."""
        writer = {number: node.name for node in self.nodes for number in node.writes}
        return tuple(
            Edge(
                writer[number],
                node.name,
                port,
                self.blocks[number].name,
                (self.blocks[number].first, self.blocks[number].stop),
            )
            for node in self.nodes
            for port, numbers in node.reads
            for number in numbers
        )

    @cached_property
    def relevant(self) -> frozenset[str]:
        """The nodes from which a way leads to the answer; what others hold cannot reach it.

        >>> model = hm.compile(hm.programs.reverse, alphabet="ab", length=3, route="legible")
        >>> model.circuit.relevant == {node.name for node in model.circuit.nodes}
        True
        """
        found = {self.nodes[-1].name}
        for edge in sorted(self.edges, key=lambda e: -self._order[e.target]):
            if edge.target in found:
                found.add(edge.source)
        return frozenset(found)

    @cached_property
    def _order(self) -> dict[str, int]:
        return {node.name: k for k, node in enumerate(self.nodes)}

    @property
    def steps(self) -> tuple[str, ...]:
        """The names of the steps that can be intervened on, in the order in which they are held."""
        return tuple(dict.fromkeys(b.name for b in self.blocks if b.form != "share"))

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
            "blocks": [
                {
                    "step": block.step,
                    "name": block.name,
                    "form": block.form,
                    "coordinates": [block.first, block.stop],
                    "sublayer": block.sublayer,
                    "items": [str(item) for item in block.items],
                    "labels": list(block.labels),
                    "at_start": list(block.at_start),
                }
                for block in self.blocks
            ],
            "nodes": [
                {
                    "name": node.name,
                    "tl": hook_name(node.name),
                    "sublayer": node.sublayer,
                    "members": [node.first, node.stop],
                    "step": node.step,
                    "text": node.text,
                    "reads": {port: list(numbers) for port, numbers in node.reads},
                    "writes": list(node.writes),
                }
                for node in self.nodes
            ],
            "edges": [
                {
                    "from": edge.source,
                    "to": edge.target,
                    "port": edge.port,
                    "step": edge.step,
                    "coordinates": list(edge.coordinates),
                }
                for edge in self.edges
            ],
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, object]) -> Circuit:
        """The inverse of `as_dict`; edges are derived again, and have to be those that stand there.

        What is missing or of the wrong kind ends in a LookupError, TypeError or ValueError.
        """
        blocks = tuple(_block_from(one) for one in _records(record["blocks"]))
        nodes = tuple(_node_from(one) for one in _records(record["nodes"]))
        frame = Frame.from_dict(_record(record["frame"])) if "frame" in record else None
        made = cls(_whole(record["one"]), _whole(record["start"]), blocks, nodes, frame)
        if made.as_dict() != record:
            raise ValueError("the circuit is not written as this version writes it")
        return made

    def to_json(self) -> str:
        """The circuit as JSON."""
        return json.dumps(self.as_dict(), indent=1)

    def to_mermaid(self) -> str:
        """A flow chart in Mermaid's language."""
        number = {node.name: f"n{k}" for k, node in enumerate(self.nodes)}
        lines = ["flowchart TD"]
        lines += [f"  {number[n.name]}[{_quoted(_shown_node(n))}]" for n in self.nodes]
        lines += [
            f"  {number[e.source]} -->|{_quoted(_shown_edge(e))}| {number[e.target]}"
            for e in self.edges
        ]
        return "\n".join(lines) + "\n"

    def to_graphviz(self) -> str:
        """A graph in the DOT language."""
        lines = ["digraph circuit {", "  node [shape=box];"]
        lines += [
            f"  {json.dumps(n.name)} [label={json.dumps(_shown_node(n))}];" for n in self.nodes
        ]
        lines += [
            f"  {json.dumps(edge.source)} -> {json.dumps(edge.target)} "
            f"[label={json.dumps(_shown_edge(edge))}];"
            for edge in self.edges
        ]
        return "\n".join([*lines, "}"]) + "\n"

    def to_interpbench(self) -> list[tuple[str, str]]:
        """Pairs of hook names, as InterpBench lists the edges of a circuit: those that matter."""
        edges = (edge for edge in self.edges if edge.target in self.relevant)
        pairs = ((hook_name(e.source), hook_name(e.target, e.port)) for e in edges)
        return list(dict.fromkeys(pairs))

    def to_eap_ig(self) -> dict[str, object]:
        """The graph as EAP-IG stores it: which of its nodes and edges are in the circuit."""
        there = {_eap_name(name) for name in self.relevant}
        names = {name: name in there for name in (_eap_name(node.name) for node in self.nodes)}
        edges: dict[str, dict[str, object]] = {}
        for edge in sorted(self.edges, key=lambda e: e.target in self.relevant):
            port = f"<{edge.port}>" if edge.port in ("q", "k", "v") else ""
            name = f"{_eap_name(edge.source)}->{_eap_name(edge.target)}{port}"
            matters = edge.target in self.relevant
            edges[name] = {"score": float(matters), "in_graph": matters}
        heads = [n.name for n in self.nodes if n.name.startswith("a")]
        layers = {int(n.name[1:].split(".")[0]) for n in self.nodes if n.name[0] in "am"}
        most = max((int(name.split(".h")[1]) + 1 for name in heads), default=0)
        cfg = {"n_layers": max(layers, default=-1) + 1, "n_heads": most, "parallel_attn_mlp": False}
        nodes = {name: {"in_graph": matters} for name, matters in names.items()}
        return {"cfg": cfg, "nodes": nodes, "edges": edges}


def layers_of(sublayers: Iterable[Sublayer]) -> list[int]:
    """The layer of each sublayer: attention begins one, and so does what follows no attention."""
    layer, layers, after_attention = -1, [], False
    for sublayer in sublayers:
        attends = isinstance(sublayer, Attention)
        layer += attends or not after_attention
        layers.append(layer)
        after_attention = attends
    return layers


def hook_name(node: str, port: str = "") -> str:
    """What TransformerLens calls a node's output, or what comes in at a port."""
    if node == "embed":
        return "hook_embed"
    if node == "pos_embed":
        return "hook_pos_embed"
    if node == "logits":
        return "blocks.hook_resid_post" if not port else "hook_resid_post"
    layer, member = node[1:].split(".", 1)
    if node[0] == "m":
        return f"blocks.{layer}.hook_mlp_{'in' if port else 'out'}"
    if port:
        return f"blocks.{layer}.hook_{port}_input[{member[1:]}]"
    return f"blocks.{layer}.attn.hook_result[{member[1:]}]"


def _eap_name(node: str) -> str:
    if node in ("embed", "pos_embed"):
        return "input"
    return node.split(".")[0] if node[0] == "m" else node


def _shown_node(node: Node) -> str:
    return f"{node.name}: {node.text}" if node.text else node.name


def _shown_edge(edge: Edge) -> str:
    return edge.step if edge.port in ("in", "out") else f"{edge.port}: {edge.step}"


def _quoted(text: str) -> str:
    return '"' + text.replace("&", "#amp;").replace('"', "#quot;").replace("<", "#lt;") + '"'


def _block_from(one: Mapping[str, object]) -> Block:
    first, _ = _list(one["coordinates"])
    return Block(
        _whole(one["step"]),
        _text(one["name"]),
        _text(one["form"]),
        _whole(first),
        _whole(one["sublayer"]),
        tuple(plain(Fraction(_text(item))) for item in _list(one["items"])),
        tuple(map(_text, _list(one["labels"]))),
        tuple(map(_number, _list(one["at_start"]))),
    )


def _node_from(one: Mapping[str, object]) -> Node:
    first, stop = map(_whole, _list(one["members"]))
    reads = cast(Mapping[str, object], one["reads"])
    if not isinstance(reads, Mapping) or any(port not in PORTS for port in reads):
        raise ValueError("a node reads at ports that there are not")
    in_order = sorted(reads.items(), key=lambda item: PORTS.index(item[0]))
    return Node(
        _text(one["name"]),
        _whole(one["sublayer"]),
        first,
        stop,
        _text(one["step"]),
        _text(one["text"]),
        tuple((port, tuple(map(_whole, _list(numbers)))) for port, numbers in in_order),
        tuple(map(_whole, _list(one["writes"]))),
    )


def _record(value: object) -> Mapping[str, object]:
    return _records([value])[0]


def _records(value: object) -> list[Mapping[str, object]]:
    if not all(isinstance(one, Mapping) for one in _list(value)):
        raise TypeError("an entry of the circuit is no record")
    return cast(list[Mapping[str, object]], value)


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is no list")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is no whole number")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is no number")
    return float(value)


def step_blocks(circuit: Circuit, name: str) -> list[Block]:
    """The blocks of a step, or a refusal that lists the steps."""
    found = circuit.blocks_of(name)
    if not found:
        raise RequestError(
            f"There is no step {name!r} in this model; it has {', '.join(circuit.steps)}."
        )
    return found
