"""Where a host's model holds the steps of a program: by the name of a hook, steps and coordinates.

A circuit says of each block after which sublayer it is there. A host calls the stream behind a
sublayer by a name of its own; this is all that a writer has to say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypedDict

from hardmax.core import Attention, Block, Circuit, Node, Sublayer, layers_of

Streams = Callable[[int], str]  # the name of the stream behind a sublayer, -1 for the embedding


class HeldStep(TypedDict):
    """A step of the program, and the coordinates of the stream that code it from there on.

    A one-hot has a coordinate for each of its `items`; a number is itself, a share is 1/(1 + w).
    At the start token the coordinates are `at_start`.
    """

    step: str
    form: str
    coordinates: list[int]  # the first, and the one after the last
    items: list[str]
    at_start: list[float]


StepHooks = dict[str, list[HeldStep]]


def step_hooks(circuit: Circuit, streams: Streams) -> StepHooks:
    """By the name of a stream the steps that it holds for the first time."""
    found: StepHooks = {}
    for block in sorted(circuit.blocks, key=lambda one: (one.sublayer, one.first)):
        found.setdefault(streams(block.sublayer), []).append(_held(block))
    return found


def _held(block: Block) -> HeldStep:
    return {
        "step": block.name,
        "form": block.form,
        "coordinates": [block.first, block.stop],
        "items": list(block.labels),
        "at_start": list(block.at_start),
    }


def circuit_record(circuit: Circuit, streams: Streams) -> dict[str, object]:
    """A circuit as plain data: whole, by hooks, and in the words of two other tools."""
    return {
        "circuit": circuit.as_dict(),
        "hooks": step_hooks(circuit, streams),
        "interpbench": [list(pair) for pair in circuit.to_interpbench()],
        "eap_ig": circuit.to_eap_ig(),
    }


def lens_streams(sublayers: Sequence[Sublayer]) -> Streams:
    """What TransformerLens calls the stream behind each sublayer."""
    layers = layers_of(sublayers)

    def name(number: int) -> str:
        if number < 0:
            return "blocks.0.hook_resid_pre"
        part = "mid" if isinstance(sublayers[number], Attention) else "post"
        return f"blocks.{layers[number]}.hook_resid_{part}"

    return name


def in_places(circuit: Circuit, places: Sequence[Sequence[int]]) -> Circuit:
    """The circuit in a host whose layer i holds our heads in `places[i]`."""
    nodes = []
    for node in circuit.nodes:
        if node.name.startswith("a"):
            layer = int(node.name[1:].split(".")[0])
            place = places[layer][node.first]
            node = replace(node, name=f"a{layer}.h{place}", first=place, stop=place + 1)
        nodes.append(node)
    return with_nodes(circuit, nodes)


def with_nodes(circuit: Circuit, nodes: Sequence[Node]) -> Circuit:
    """The circuit with its nodes in the same order, otherwise named, in what shows edges, too."""
    names = {old.name: new.name for old, new in zip(circuit.nodes, nodes, strict=True)}
    shown = (replace(one, target=names[one.target]) for one in circuit.showings)
    return replace(circuit, nodes=tuple(nodes), showings=tuple(shown))
