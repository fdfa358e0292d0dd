"""A circuit as a graph in other formats: Mermaid, Graphviz, and the names of two benchmarks.

TransformerLens counts layers of attention and hidden units, and gives every layer as many heads;
EAP-IG's graph has a node for each of them, and an edge wherever one could read another.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from hardmax.core._circuit_parts import NOT_SHOWN, Edge, Node
from hardmax.core._layers import Attention, Sublayer

_STYLES = {"word": "solid", "intervention": "dashed", NOT_SHOWN: "dotted"}  # others are bold


def to_mermaid(nodes: Sequence[Node], edges: Sequence[Edge]) -> str:
    """A flow chart in Mermaid's language; what no word shows is dotted."""
    number = {node.name: f"n{k}" for k, node in enumerate(nodes)}
    lines = ["flowchart TD"]
    lines += [f"  {number[n.name]}[{_quoted(_shown_node(n))}]" for n in nodes]
    lines += [
        f"  {number[e.source]} {'-->' if e.kind == 'word' else '-.->'}"
        f"|{_quoted(_shown_edge(e))}| {number[e.target]}"
        for e in edges
    ]
    return "\n".join(lines) + "\n"


def to_graphviz(nodes: Sequence[Node], edges: Sequence[Edge]) -> str:
    """A graph in the DOT language; the style of an edge is its kind."""
    lines = ["digraph circuit {", "  node [shape=box];"]
    lines += [f"  {json.dumps(n.name)} [label={json.dumps(_shown_node(n))}];" for n in nodes]
    lines += [
        f"  {json.dumps(edge.source)} -> {json.dumps(edge.target)} "
        f"[label={json.dumps(_shown_edge(edge))}, style={_STYLES.get(edge.kind, 'bold')}];"
        for edge in edges
    ]
    return "\n".join([*lines, "}"]) + "\n"


def to_interpbench(edges: Sequence[Edge], layers: int) -> list[tuple[str, str]]:
    """Pairs of hook names, as InterpBench lists the edges between components."""
    pairs = ((hook_name(e.source), hook_name(e.target, e.port, layers)) for e in edges)
    return list(dict.fromkeys(pairs))


def to_eap_ig(edges: Sequence[Edge], *, layers: int, heads: int, width: int) -> dict[str, object]:
    """The graph as EAP-IG's `Graph.to_json` writes it: every node and edge that there could be.

    Those of the circuit are `in_graph`; its reader makes the graph from `cfg`, `d_model` included.
    """
    within = dict.fromkeys(f"{_eap_name(e.source)}->{_eap_end(e)}" for e in edges)
    used = {_eap_name(name) for e in edges for name in (e.source, e.target)}
    listed = {
        name: {"score": float(name in within), "in_graph": name in within}
        for name in _eap_edges(layers, heads)
    }
    cfg = {"n_layers": layers, "n_heads": heads, "parallel_attn_mlp": False, "d_model": width}
    names = ["input", *(one for layer in range(layers) for one in _eap_layer(layer, heads))]
    nodes = {name: {"in_graph": name in used} for name in names}
    return {"cfg": cfg, "nodes": {**nodes, "logits": {"in_graph": True}}, "edges": listed}


def _eap_layer(layer: int, heads: int) -> list[str]:
    return [*(f"a{layer}.h{head}" for head in range(heads)), f"m{layer}"]


def _eap_edges(layers: int, heads: int) -> Iterator[str]:
    """Every component reads the embedding and all that stand before its own part of its layer."""
    before = ["input"]
    for layer in range(layers):
        *attending, feeding = _eap_layer(layer, heads)
        yield from (
            f"{source}->{head}<{port}>" for source in before for head in attending for port in "qkv"
        )
        before += attending
        yield from (f"{source}->{feeding}" for source in before)
        before.append(feeding)
    yield from (f"{source}->logits" for source in before)


def _eap_name(node: str) -> str:
    if node in ("embed", "pos_embed"):
        return "input"
    return node.split(".")[0] if node[0] == "m" else node


def _eap_end(edge: Edge) -> str:
    port = f"<{edge.port}>" if edge.port in ("q", "k", "v") else ""
    return f"{_eap_name(edge.target)}{port}"


def layers_of(sublayers: Iterable[Sublayer]) -> list[int]:
    """The layer of each sublayer: attention begins one, and so does what follows no attention."""
    layer, layers, after_attention = -1, [], False
    for sublayer in sublayers:
        attends = isinstance(sublayer, Attention)
        layer += attends or not after_attention
        layers.append(layer)
        after_attention = attends
    return layers


def hook_name(node: str, port: str = "", layers: int = 1) -> str:
    """What TransformerLens calls a node's output, or what comes in at a port.

    Logits are read off the stream after the last one of the layers.
    """
    if node in ("embed", "pos_embed"):
        return f"hook_{node}"
    if node == "logits":
        return f"blocks.{layers - 1}.hook_resid_post"
    layer, member = node[1:].split(".", 1)
    if node[0] == "m":
        return f"blocks.{layer}.hook_mlp_{'in' if port else 'out'}"
    if port:
        return f"blocks.{layer}.hook_{port}_input[{member[1:]}]"
    return f"blocks.{layer}.attn.hook_result[{member[1:]}]"


def _shown_node(node: Node) -> str:
    return f"{node.name}: {node.text}" if node.text else node.name


def _shown_edge(edge: Edge) -> str:
    step = edge.step if edge.port in ("in", "out") else f"{edge.port}: {edge.step}"
    return step if edge.kind == "word" else f"{step} ({edge.kind})"


def _quoted(text: str) -> str:
    return '"' + text.replace("&", "#amp;").replace('"', "#quot;").replace("<", "#lt;") + '"'
