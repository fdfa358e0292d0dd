"""ONNX files as straight-line programs; nothing is run or read from outside their folder."""

from __future__ import annotations

import math
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import numpy as np

from hardmax._archives import LARGEST_INFLATED
from hardmax._errors import FileError, HardmaxError, MissingExtra, RequestError
from hardmax._reading import naming, read_file
from hardmax.core import Steps
from hardmax.languages.networks.operators import ONNX, Wires, Wiring, draw, unsupported_operator

if TYPE_CHECKING:
    from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, ValueInfoProto

OLDEST_OPSET = 7  # broadcasting and batch norms mean something else before
_REALS = ("FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16", "BOOL")
_WHOLE = tuple(f"{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64))


def onnx_program(path: Path, data: bytes) -> Steps:
    """What the graph computes on one input; a first axis without a size is a batch, and gets 1."""
    try:
        import onnx
    except ImportError as reason:
        raise MissingExtra("onnx", "onnx") from reason
    try:
        model = onnx.load_model_from_string(data)
        opsets = {entry.domain: entry.version for entry in model.opset_import}
        opset = opsets.get("", opsets.get("ai.onnx"))
        if opset is None or opset < OLDEST_OPSET:
            raise FileError(f"its opset is {opset}, before {OLDEST_OPSET}: export it again.")
        return _OnnxReading(model.graph, path.parent).program()
    except HardmaxError:
        raise
    except Exception as reason:  # a foreign or damaged file may trip its parser anywhere
        raise FileError(
            "it could not be read as an .onnx file, since it is foreign, truncated or altered: "
            "export it again."
        ) from reason


class _OnnxReading:
    """The nodes of a graph, read in order."""

    def __init__(self, graph: GraphProto, folder: Path) -> None:
        self._graph = graph
        self._folder = folder
        self._files: dict[str, bytes] = {}
        self._taken = 0
        if graph.sparse_initializer:
            raise RequestError("it holds sparse weights: save them as dense ones.")
        self._values: dict[str, object] = {
            tensor.name: self._array(tensor) for tensor in graph.initializer
        }

    def program(self) -> Steps:
        inputs = [entry for entry in self._graph.input if entry.name not in self._values]
        if len(inputs) != 1 or len(self._graph.output) != 1:
            raise RequestError(
                f"it has {len(inputs)} inputs and {len(self._graph.output)} outputs: a network "
                f"has one of each."
            )
        shape = _static_shape(inputs[0])
        wiring = Wiring(math.prod(shape))
        self._values[inputs[0].name] = wiring.inputs(shape)
        for node in self._graph.node:
            self._values[node.output[0]] = self._draw(node, wiring)
        answer = self._values.get(self._graph.output[0].name)
        if not isinstance(answer, Wires):
            raise RequestError(f"its output {self._graph.output[0].name} does not depend on x.")
        return wiring.program(answer)

    def _draw(self, node: NodeProto, wiring: Wiring) -> object:
        label = f"node {node.name or node.output[0]} ({node.op_type})"
        operator = ONNX.get(node.op_type) if node.domain in ("", "ai.onnx") else None
        if operator is None:
            raise unsupported_operator(label, ONNX)
        missing = [name for name in node.input if name and name not in self._values]
        if missing:
            raise FileError(f"{label} reads {missing[0]}, which no supported operator makes.")
        inputs = [self._values[name] if name else None for name in node.input]
        options = {attribute.name: self._option(label, attribute) for attribute in node.attribute}
        return draw(operator, wiring, label, inputs, options)

    def _option(self, label: str, attribute: AttributeProto) -> object:
        from onnx import TensorProto, helper

        value = helper.get_attribute_value(attribute)
        if isinstance(value, TensorProto):
            return self._array(value)
        if isinstance(value, bytes):
            return value.decode()
        if isinstance(value, int | float):
            return value
        numbers = list(value) if not hasattr(value, "DESCRIPTOR") else [value]
        if not all(isinstance(number, int | float) for number in numbers):
            raise RequestError(f"{label} has the attribute {attribute.name}, which is not read.")
        return numbers

    def _array(self, tensor: TensorProto) -> np.ndarray:
        """The numbers of a tensor: reals as float64, without loss, and whole ones as they are."""
        import onnx

        kind = onnx.TensorProto.DataType.Name(tensor.data_type)
        if kind not in (*_REALS, *_WHOLE):
            raise FileError(f"it holds {tensor.name} as {kind}: save it as FLOAT or DOUBLE.")
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            whole = onnx.TensorProto()
            whole.CopyFrom(tensor)
            whole.ClearField("external_data")
            whole.data_location = onnx.TensorProto.DEFAULT
            whole.raw_data = self._external(tensor)
            tensor = whole
        array = onnx.numpy_helper.to_array(tensor)
        return array if kind in _WHOLE else array.astype(np.float64)

    def _external(self, tensor: TensorProto) -> bytes:
        """The bytes of a tensor that lie in a file of their own, below the folder of the model."""
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        if location not in self._files:
            self._files[location] = _read_below(self._folder, location, tensor.name)
        data = self._files[location]
        there = sum(map(len, self._files.values()))
        start = int(entries.get("offset", 0))
        size = int(entries.get("length", len(data) - start))
        if not 0 <= start <= start + size <= len(data):
            raise FileError(
                f"it keeps {tensor.name} in bytes {start:,} to {start + size:,} of {location}, "
                f"which has {len(data):,}."
            )
        self._taken += size
        if self._taken > max(there, LARGEST_INFLATED):
            raise FileError(
                f"it reads {self._taken:,} bytes out of files with {there:,}, of which some are "
                f"read again and again: save every weight once."
            )
        return data[start : start + size]


def _read_below(folder: Path, location: str, name: str) -> bytes:
    """A file below the folder; `..`, absolute places and links could lead anywhere else."""
    place = PurePosixPath(location)
    inside = bool(place.parts) and not place.is_absolute() and ".." not in place.parts
    path = folder
    for part in place.parts if inside and "\\" not in location and ":" not in location else ():
        path = path / part
        if path.is_symlink():
            inside = False
    if not inside or path == folder:
        raise FileError(
            f"it keeps {name} in {location!r}, which is a link or lies outside its folder: "
            f"save all data beside the model."
        )
    with naming(path):
        return read_file(path)


def _static_shape(entry: ValueInfoProto) -> tuple[int, ...]:
    tensor = entry.type.tensor_type
    if not tensor.HasField("shape"):
        raise RequestError(f"its input {entry.name} has no shape: export it with a fixed one.")
    sizes: list[int | str] = [
        dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?"
        for dim in tensor.shape.dim
    ]
    if sizes and not isinstance(sizes[0], int) and len(sizes) > 1:
        sizes[0] = 1  # the batch
    fixed = [size for size in sizes if isinstance(size, int) and size >= 1]
    if len(fixed) < len(sizes) or not sizes:
        raise RequestError(
            f"its input {entry.name} has the dynamic shape {sizes}: export it with a fixed one; "
            f"only the batch in front may vary."
        )
    return tuple(fixed)
