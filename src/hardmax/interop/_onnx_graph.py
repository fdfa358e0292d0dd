"""The graph of a Transformer in ONNX, opset 17: operators that every runtime has, and nothing else.

Intermediate results have names of their own, which tools show and sessions can be asked for:
`embedding` and `sublayers.3` are streams (batch x tokens x width), `sublayers.3.pattern` are the
weights of attention (batch x heads x asking x asked tokens), `sublayers.4.hidden` are hidden units.
Batch and, of words, length are left open. A word that is too long finds no positions, and the
runtime says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hardmax.interop._runnable import LayerPart, Runnable

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto, ValueInfoProto

OPSET, IR_VERSION = 17, 8  # as runtimes read them since 2022
WORDS, REALS, OUTPUTS = "ids", "x", "outputs"  # the names of inputs and outputs


def graph_of(model: Runnable) -> GraphProto:
    """The graph of these arrays; equal models have equal ones."""
    from onnx import helper, numpy_helper

    drawn = _Graph(model)
    stream = drawn.embedding()
    for layer in model.structure["layers"]:
        draw = drawn.attention if layer["kind"] == "attention" else drawn.feed_forward
        stream = draw(layer, stream)
    drawn.readout(stream)
    given, answer = _ends(model)
    tensors = [numpy_helper.from_array(array, name) for name, array in drawn.constants.items()]
    return helper.make_graph(drawn.nodes, "hardmax", [given], [answer], tensors)


def _ends(model: Runnable) -> tuple[ValueInfoProto, ValueInfoProto]:
    """The input and the output, with the axes that are open."""
    from onnx import TensorProto, helper

    number = helper.np_dtype_to_tensor_dtype(np.dtype(model.structure["dtype"]))
    outputs = len(model.arrays["readout.bias"])
    every = model.structure["readout"]["token"] is None
    shape: list[str | int | None] = ["batch", *["length"] * every, outputs]
    answer = helper.make_tensor_value_info(OUTPUTS, number, shape)
    if model.structure["input"]["kind"] == "words":
        return helper.make_tensor_value_info(WORDS, TensorProto.INT64, ["batch", "length"]), answer
    inputs = len(model.arrays["input.maps"])
    return helper.make_tensor_value_info(REALS, number, ["batch", inputs]), answer


class _Graph:
    """Nodes and constants as they are drawn; whatever a node makes has the node's name."""

    def __init__(self, model: Runnable) -> None:
        self.model = model
        self.dtype = np.dtype(model.structure["dtype"])
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}

    def node(self, operator: str, name: str, *inputs: str, **attributes: int | list[int]) -> str:
        from onnx import helper

        made = helper.make_node(operator, list(inputs), [name], name=name)
        made.attribute.extend(helper.make_attribute(*one) for one in sorted(attributes.items()))
        self.nodes.append(made)
        return name

    def weights(self, name: str) -> str:
        """An array of the model, in its type."""
        self.constants[name] = self.model.arrays[name].astype(self.dtype)
        return name

    def whole(self, name: str, values: int | list[int]) -> str:
        """A constant of whole numbers: shapes, axes and places. A single one has no axis."""
        self.constants[name] = np.array(values, dtype=np.int64)
        return name

    def embedding(self) -> str:
        """The stream of the prompt, and how many tokens it has."""
        given = self.model.structure["input"]
        if given["kind"] == "reals":
            tokens, width = given["shape"]
            mapped = self.node("MatMul", "input.mapped", REALS, self.weights("input.maps"))
            shape = self.whole("input.shape", [-1, tokens, width])
            placed = self.node("Reshape", "input.placed", mapped, shape)
            stream = self.node("Add", "embedding", placed, self.weights("input.offsets"))
            self.count(stream)
            return stream
        placed = self.node("Gather", "input.placed", self.weights("input.embedding"), WORDS)
        if given["start"]:
            placed = self.started(placed)
        self.count(placed)
        positions = self.weights("input.positions")
        here = self.node("Gather", "input.here", positions, "tokens.range", axis=0)
        return self.node("Add", "embedding", placed, here)

    def started(self, symbols: str) -> str:
        """The start token before the symbols of every word of the batch."""
        width = self.model.arrays["input.start"].shape[0]
        rows = self.node("Shape", "input.batch", WORDS, start=0, end=1)
        rest = self.whole("input.rest", [1, width])
        shape = self.node("Concat", "input.shape", rows, rest, axis=0)
        start = self.node("Expand", "input.starts", self.weights("input.start"), shape)
        return self.node("Concat", "input.started", start, symbols, axis=1)

    def count(self, stream: str) -> None:
        """`tokens.range`: 0, 1, ... for every token of the stream.

        It is 1, 2, ... less 1: runtimes make a slice of what is gathered by a range itself, and a
        slice of the only position would be broadcast over a word that is too long.
        """
        length = self.node("Shape", "tokens.shape", stream, start=1, end=2)
        number = self.node("Squeeze", "tokens.number", length, self.whole("tokens.axis", [0]))
        one = self.whole("tokens.one", 1)
        end = self.node("Add", "tokens.end", number, one)
        ordinals = self.node("Range", "tokens.ordinals", one, end, one)
        self.node("Sub", "tokens.range", ordinals, one)

    def attention(self, layer: LayerPart, stream: str) -> str:
        name = layer["name"]
        query = self.by_head(layer, "query", stream, [0, 2, 1, 3])
        key = self.by_head(layer, "key", stream, [0, 2, 3, 1])
        value = self.by_head(layer, "value", stream, [0, 2, 1, 3])
        scores = self.seen(layer, self.node("MatMul", f"{name}.products", query, key))
        pattern = self.node("Softmax", f"{name}.pattern", scores, axis=-1)
        mixed = self.node("MatMul", f"{name}.mixed", pattern, value)
        turned = self.node("Transpose", f"{name}.turned", mixed, perm=[0, 2, 1, 3])
        rows = len(self.model.arrays[f"{name}.output"])
        shape = self.whole(f"{name}.joined_shape", [0, 0, rows])
        joined = self.node("Reshape", f"{name}.joined", turned, shape)
        change = self.node("MatMul", f"{name}.change", joined, self.weights(f"{name}.output"))
        return self.node("Add", name, stream, change)

    def by_head(self, layer: LayerPart, part: str, stream: str, axes: list[int]) -> str:
        """What a matrix reads off the stream, with axes for heads and for their widths."""
        name = f"{layer['name']}.{part}"
        read = self.node("MatMul", f"{name}.read", stream, self.weights(name))
        heads, columns = layer["heads"], self.model.arrays[name].shape[1]
        shape = self.whole(f"{name}.shape", [0, 0, heads, columns // heads])
        parted = self.node("Reshape", f"{name}.parted", read, shape)
        return self.node("Transpose", f"{name}.by_head", parted, perm=axes)

    def seen(self, layer: LayerPart, scores: str) -> str:
        """The scores with position biases, and -inf where a causal head does not look."""
        name = layer["name"]
        if layer["bias"]:
            bias = self.weights(f"{name}.position_bias")
            rows = self.node("Gather", f"{name}.bias_rows", bias, "tokens.range", axis=1)
            here = self.node("Gather", f"{name}.bias", rows, "tokens.range", axis=2)
            scores = self.node("Add", f"{name}.biased", scores, here)
        if not any(layer["causal"]):
            return scores
        column, row = self.whole(f"{name}.column", [1]), self.whole(f"{name}.row", [0])
        asking = self.node("Unsqueeze", f"{name}.asking", "tokens.range", column)
        asked = self.node("Unsqueeze", f"{name}.asked", "tokens.range", row)
        allowed = self.node("LessOrEqual", f"{name}.past", asked, asking)
        if not all(layer["causal"]):
            free = f"{name}.sees_all"
            self.constants[free] = ~np.array(layer["causal"])[:, None, None]
            allowed = self.node("Or", f"{name}.allowed", allowed, free)
        nothing = f"{name}.unseen"
        self.constants[nothing] = np.array(-np.inf, dtype=self.dtype)
        return self.node("Where", f"{name}.masked", allowed, scores, nothing)

    def feed_forward(self, layer: LayerPart, stream: str) -> str:
        name = layer["name"]
        read = self.node("MatMul", f"{name}.read", stream, self.weights(f"{name}.inner"))
        moved = self.node("Add", f"{name}.moved", read, self.weights(f"{name}.inner_bias"))
        hidden = (
            self.gated(layer, stream, moved)
            if layer["kind"] == "gated"
            else self.node("Relu", f"{name}.hidden", moved)
        )
        written = self.node("MatMul", f"{name}.written", hidden, self.weights(f"{name}.outer"))
        change = self.node("Add", f"{name}.change", written, self.weights(f"{name}.outer_bias"))
        return self.node("Add", name, stream, change)

    def gated(self, layer: LayerPart, stream: str, moved: str) -> str:
        """Hidden units times their gates: relu(z), or silu(z), which is z sigmoid(z)."""
        name = layer["name"]
        read = self.node("MatMul", f"{name}.gate_read", stream, self.weights(f"{name}.gate"))
        gate = self.node("Add", f"{name}.gate_moved", read, self.weights(f"{name}.gate_bias"))
        if layer["activation"] == "relu":
            act = self.node("Relu", f"{name}.act", gate)
        else:
            slope = self.node("Sigmoid", f"{name}.slope", gate)
            act = self.node("Mul", f"{name}.act", gate, slope)
        return self.node("Mul", f"{name}.hidden", act, moved)

    def readout(self, stream: str) -> None:
        """The answer at one token, or at every symbol."""
        token, given = self.model.structure["readout"]["token"], self.model.structure["input"]
        if token is not None:
            place = self.whole("readout.token", token)
            stream = self.node("Gather", "readout.stream", stream, place, axis=1)
        elif given.get("start"):
            ends = [self.whole("readout.first", [1]), self.whole("readout.last", [2**62])]
            axis = self.whole("readout.axis", [1])
            stream = self.node("Slice", "readout.stream", stream, *ends, axis)
        read = self.node("MatMul", "readout.read", stream, self.weights("readout.weights"))
        self.node("Add", OUTPUTS, read, self.weights("readout.bias"))
