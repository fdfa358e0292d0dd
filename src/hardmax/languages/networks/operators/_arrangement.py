"""Operators that only move numbers: reshaping, transposing, slicing, joining. They cost no step.

Constants are moved in the same way, so that a weight may be transposed before it is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from hardmax._errors import RequestError, ShapeError
from hardmax.languages.networks.operators._registry import (
    Tensor,
    constant_of,
    onnx_name,
    torch_name,
)
from hardmax.languages.networks.operators._windows import Sizes
from hardmax.languages.networks.operators._wiring import Wires, Wiring

Index = int | slice | None  # and ...: what a tensor may be sliced by


def _move(x: Tensor, how: Callable[[np.ndarray], np.ndarray]) -> Tensor:
    return Wires(how(x.places)) if isinstance(x, Wires) else how(np.asarray(x))


@torch_name("Flatten", "flatten")
def flatten(wiring: Wiring, x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    axes = range(len(x.shape) or 1)
    start, end = axes[start_dim], axes[end_dim]
    shape = x.shape or (1,)
    joined = (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :])
    return _move(x, lambda places: places.reshape(joined))


@onnx_name("Flatten")
def flatten_in_onnx(wiring: Wiring, x: Tensor, *, axis: int = 1) -> Tensor:
    """A matrix: the axes before `axis`, and those from it on."""
    axis = axis + len(x.shape) if axis < 0 else axis
    rows, columns = math.prod(x.shape[:axis]), math.prod(x.shape[axis:])
    return _move(x, lambda places: places.reshape(rows, columns))


@torch_name("view", "reshape")
def reshape(wiring: Wiring, x: Tensor, *shape: Sizes) -> Tensor:
    wanted = _whole_numbers(shape)
    if math.prod(wanted) != math.prod(x.shape) and -1 not in wanted:
        raise ShapeError(f"makes {wanted} of the shape {x.shape}, which has other many places.")
    return _move(x, lambda places: places.reshape(wanted))


@onnx_name("Reshape")
def reshape_in_onnx(wiring: Wiring, x: Tensor, shape: Sizes, *, allowzero: int = 0) -> Tensor:
    """A 0 keeps the size that is there."""
    if isinstance(shape, Wires):
        raise RequestError("has a shape that is computed: export the model with fixed shapes.")
    wanted = _whole_numbers((shape,))
    if not allowzero:
        wanted = tuple(x.shape[i] if size == 0 else size for i, size in enumerate(wanted))
    return reshape(wiring, x, *wanted)


@torch_name("permute")
def permute(wiring: Wiring, x: Tensor, *dims: Sizes) -> Tensor:
    order = _whole_numbers(dims)
    return _move(x, lambda places: places.transpose(order))


@onnx_name("Transpose")
def transpose_in_onnx(wiring: Wiring, x: Tensor, *, perm: Sizes | None = None) -> Tensor:
    order = tuple(reversed(range(len(x.shape)))) if perm is None else _whole_numbers((perm,))
    return permute(wiring, x, *order)


@torch_name("transpose", "swapaxes")
def transpose(wiring: Wiring, x: Tensor, dim0: int, dim1: int) -> Tensor:
    return _move(x, lambda places: places.swapaxes(dim0, dim1))


@torch_name("unsqueeze")
def unsqueeze(wiring: Wiring, x: Tensor, dim: int) -> Tensor:
    return _move(x, lambda places: np.expand_dims(places, dim))


@onnx_name("Unsqueeze")
def unsqueeze_in_onnx(wiring: Wiring, x: Tensor, axes: Sizes) -> Tensor:
    return _move(x, lambda places: np.expand_dims(places, _whole_numbers((axes,))))


@torch_name("squeeze")
def squeeze(wiring: Wiring, x: Tensor, dim: int | None = None) -> Tensor:
    """Axes of length 1 away: all, or one if it is that short."""
    if dim is not None and x.shape[dim] != 1:
        return x
    return _move(x, lambda places: np.squeeze(places, axis=dim))


@onnx_name("Squeeze")
def squeeze_in_onnx(wiring: Wiring, x: Tensor, axes: Sizes | None = None) -> Tensor:
    axis = None if axes is None else _whole_numbers((axes,))
    return _move(x, lambda places: np.squeeze(places, axis=axis))


@torch_name("cat", "concat", "concatenate")
def concatenate(wiring: Wiring, tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors one behind the other; constants among computed ones become values."""
    wiring.check(sum(math.prod(x.shape) for x in tensors))
    if not any(isinstance(x, Wires) for x in tensors):
        return np.concatenate([np.asarray(x) for x in tensors], axis=dim)
    wires = [
        x if isinstance(x, Wires) else wiring.constant(constant_of(x, "numbers")) for x in tensors
    ]
    return Wires(np.concatenate([x.places for x in wires], axis=dim))


@onnx_name("Concat")
def concatenate_in_onnx(wiring: Wiring, *tensors: Tensor, axis: int) -> Tensor:
    return concatenate(wiring, tensors, axis)


@torch_name("getitem")
def pick(wiring: Wiring, x: Tensor, index: Index | tuple[Index, ...]) -> Tensor:
    """A slice of a tensor."""
    return _move(x, lambda places: np.asarray(places[index]))


@torch_name("size")
def size(wiring: Wiring, x: Tensor, dim: int | None = None) -> int | tuple[int, ...]:
    return x.shape if dim is None else x.shape[dim]


@torch_name("getattr")
def attribute(wiring: Wiring, x: Tensor, name: str) -> int | tuple[int, ...]:
    """The shape of a tensor, which is known; nothing else."""
    if name not in ("shape", "ndim"):
        raise RequestError(f"asks for {name!r}: only the shape of a tensor is known.")
    return x.shape if name == "shape" else len(x.shape)


@onnx_name("Constant")
def constant(
    wiring: Wiring,
    *,
    value: np.ndarray | None = None,
    value_float: float | None = None,
    value_floats: Sequence[float] | None = None,
    value_int: int | None = None,
    value_ints: Sequence[int] | None = None,
) -> np.ndarray:
    given = (value, value_float, value_floats, value_int, value_ints)
    return np.asarray(next(numbers for numbers in given if numbers is not None))


@torch_name("Identity", "contiguous", "clone")
@onnx_name("Identity")
def identity(wiring: Wiring, x: Tensor) -> Tensor:
    return x


@torch_name("Dropout", "Dropout1d", "Dropout2d", "dropout", "dropout2d")
def dropout(
    wiring: Wiring, x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Nothing, in evaluation mode."""
    if training and p:
        raise RequestError("drops numbers at random in training mode: call module.eval() first.")
    return x


@onnx_name("Dropout")
def dropout_in_onnx(
    wiring: Wiring,
    data: Tensor,
    ratio: Tensor | float = 0.5,
    training_mode: Tensor | bool = False,
    *,
    seed: int = 0,
) -> Tensor:
    if not isinstance(training_mode, Wires) and not np.any(training_mode):
        return data
    raise RequestError(
        "drops numbers at random in training mode: export the model in evaluation mode."
    )


def _whole_numbers(sizes: tuple[Sizes, ...]) -> tuple[int, ...]:
    """Sizes as PyTorch takes them: several, or one list of them."""
    return tuple(int(size) for given in sizes for size in np.atleast_1d(given))
