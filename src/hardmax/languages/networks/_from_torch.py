"""PyTorch modules in memory as straight-line programs, traced by torch.fx."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING

import numpy as np

from hardmax._errors import MissingExtra, RequestError, ShapeError
from hardmax.core import Steps
from hardmax.languages.networks._beside_torch import check_against_module
from hardmax.languages.networks.operators import TORCH, Wires, Wiring, draw, unsupported_operator

if TYPE_CHECKING:
    import torch
    from torch.fx import Graph, Node

_IN_PLACE = {"iadd": "add", "isub": "sub", "imul": "mul", "itruediv": "truediv"}
_KNOWN_PACKAGES = ("torch", "_operator", "builtins")


def torch_program(module: torch.nn.Module, shape: int | Sequence[int]) -> Steps:
    """What the module computes on one input of this shape, which gets a batch of 1 in front."""
    try:
        import torch
    except ImportError as reason:
        raise MissingExtra("torch", "torch") from reason
    if not isinstance(module, torch.nn.Module):
        raise RequestError(f"from_torch reads an nn.Module, but {type(module).__name__} came.")
    sizes = _checked_shape(shape)
    traced = module
    if torch.fx.Tracer().is_leaf_module(module, ""):
        traced = torch.nn.Sequential(module)  # a layer of PyTorch's own is traced from outside
    traced = copy(traced)  # the tracer leaves constants as attributes; let it be on this one
    program = _TorchReading(traced, sizes).program(_trace(traced))
    check_against_module(module, program, sizes)
    return program


def _checked_shape(shape: int | Sequence[int]) -> tuple[int, ...]:
    try:
        sizes = np.atleast_1d(np.asarray(shape))
    except ValueError:  # rows of different lengths
        sizes = np.zeros((0, 0))
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or not (sizes >= 1).all():
        raise ShapeError(
            f"The shape of one input must be whole numbers >= 1, such as (3, 8, 8) without a "
            f"batch, not {shape}: networks have fixed shapes."
        )
    return tuple(int(size) for size in sizes)


def _trace(module: torch.nn.Module) -> Graph:
    import torch

    try:
        return torch.fx.Tracer().trace(module)
    except Exception as reason:  # whatever the user's own forward raises under tracing
        raise RequestError(
            f"torch.fx cannot trace the module ({str(reason).splitlines()[0]}): write forward "
            f"without branches on tensors."
        ) from reason


class _TorchReading:
    """The nodes of a traced module, read in order."""

    def __init__(self, root: torch.nn.Module, shape: tuple[int, ...]) -> None:
        self._root = root
        self._shape = shape
        self._wiring = Wiring(math.prod(shape))
        self._values: dict[object, object] = {}  # by node
        self._stale: set[object] = set()

    def program(self, graph: Graph) -> Steps:
        answer: object = None
        for node in graph.nodes:
            match node.op:
                case "placeholder":
                    self._values[node] = self._placeholder(node)
                case "get_attr":
                    self._values[node] = self._attribute(str(node.target))
                case "output":
                    self._refuse_stale(node, "The result")
                    answer = self._resolve(node.args[0])
                case _:
                    self._values[node] = self._call(node)
        if not isinstance(answer, Wires):
            raise RequestError("The module must return one tensor that depends on its input.")
        return self._wiring.program(answer)

    def _placeholder(self, node: Node) -> object:
        if not self._values:
            return self._wiring.inputs((1, *self._shape))
        if node.args:
            return node.args[0]
        raise RequestError(f"The module takes a second input {node.name}: networks have one.")

    def _attribute(self, target: str) -> object:
        found: object = self._root
        for name in target.split("."):
            found = getattr(found, name)
        return _to_float64(found, f"Constant {target}")

    def _call(self, node: Node) -> object:
        label, name, operator = self._operator(node)
        self._refuse_stale(node, label)
        args = [self._resolve(value) for value in node.args]
        options = {key: self._resolve(value) for key, value in node.kwargs.items()}
        if node.op != "call_module" and not _holds_wires([*args, *options.values()]):
            return _constant(label, node, args, options)
        if operator is None:
            raise unsupported_operator(label, TORCH)
        options |= self._module_options(node, operator)
        inputs = [_as_arrays(value) for value in args]
        options = {key: _as_arrays(value) for key, value in options.items()}
        if "input" in options:  # what PyTorch calls the tensor itself
            inputs.insert(0, options.pop("input"))
        made = draw(operator, self._wiring, label, inputs, options)
        if name in _IN_PLACE or name.endswith("_") or options.get("inplace"):
            self._mark_changed(inputs[0])
        return made

    def _refuse_stale(self, node: Node, label: str) -> None:
        for source in node.all_input_nodes:
            if source in self._stale:
                raise RequestError(
                    f"{label} reads {source.name} after it was changed in place: use operations "
                    f"that are not in place."
                )

    def _resolve(self, value: object) -> object:
        """An argument with what the nodes in it stand for."""
        match value:
            case slice():
                ends = (value.start, value.stop, value.step)
                return slice(*[self._resolve(end) for end in ends])
            case tuple():
                return tuple(self._resolve(part) for part in value)
            case list():
                return [self._resolve(part) for part in value]
            case Hashable() if value in self._values:
                return self._values[value]
        return value

    def _operator(self, node: Node) -> tuple[str, str, Callable[..., object] | None]:
        """How errors call the node, its name, and who draws it, if anybody."""
        if node.op == "call_module":
            module = self._root.get_submodule(str(node.target))
            kind = type(module)
            label = f"Module {node.target} ({kind.__name__})"
            if module._forward_hooks or module._forward_pre_hooks:
                raise RequestError(f"{label} has hooks, which may change what it computes.")
            own = kind.__module__.startswith("torch.nn.modules.")
            return label, kind.__name__, TORCH.get(kind.__name__) if own else None
        name = node.target if isinstance(node.target, str) else node.target.__name__
        label = f"Node {node.name} ({name})"
        package = (getattr(node.target, "__module__", None) or "torch").split(".")[0]
        plain = _IN_PLACE.get(name, name.rstrip("_"))
        return label, name, TORCH.get(plain) if package in _KNOWN_PACKAGES else None

    def _module_options(
        self, node: Node, operator: Callable[..., object] | None
    ) -> dict[str, object]:
        """The attributes of a module that its operator has parameters for."""
        if node.op != "call_module" or operator is None:
            return {}
        module = self._root.get_submodule(str(node.target))
        names = list(inspect.signature(operator).parameters)[2:]
        label = f"Module {node.target}"
        return {
            name: _to_float64(getattr(module, name), label)
            for name in names
            if hasattr(module, name)
        }

    def _mark_changed(self, x: object) -> None:
        """All tensors that share a number with x may be views of it, and hold new numbers now."""
        if isinstance(x, Wires):
            self._stale |= {
                node
                for node, value in self._values.items()
                if isinstance(value, Wires) and np.isin(value.places, x.places).any()
            }


def _constant(
    label: str, node: Node, args: Sequence[object], options: Mapping[str, object]
) -> object:
    """What PyTorch makes of constants alone, in float64: a transposed weight, a size.

    Asked twice, because what is drawn at random is no constant.
    """
    if label.endswith("_)"):
        raise RequestError(f"{label} changes a constant in place: make a new one instead.")
    function, inputs = node.target, args
    if not callable(function):
        function, inputs = getattr(args[0], function), args[1:]
    made, again = function(*inputs, **options), function(*inputs, **options)
    if not np.array_equal(np.asarray(_as_arrays(made)), np.asarray(_as_arrays(again))):
        raise RequestError(f"{label} is random: a network computes the same every time.")
    return made


def _to_float64(value: object, label: str) -> object:
    """A tensor as float64 on the processor, without loss; whatever else as it is."""
    import torch

    if not isinstance(value, torch.Tensor):
        return value
    if value.is_complex():
        raise RequestError(f"{label} holds complex numbers: networks have real weights.")
    dtype = torch.float64 if value.is_floating_point() else value.dtype
    return value.detach().to("cpu", dtype, copy=True)


def _as_arrays(value: object) -> object:
    import torch

    if isinstance(value, torch.Tensor):
        return value.numpy()
    if isinstance(value, tuple | list):
        return type(value)(_as_arrays(part) for part in value)
    return value


def _holds_wires(value: object) -> bool:
    if isinstance(value, tuple | list):
        return any(map(_holds_wires, value))
    return isinstance(value, Wires)
