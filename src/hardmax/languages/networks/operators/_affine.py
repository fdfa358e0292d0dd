"""Operators that are affine maps: dense layers, convolutions, batch norms, arithmetic, means.

Weights are taken as they are: every float32 is a float64. What cannot be is rounded here, once,
and the network *means* the rounded numbers: 1/n of an average over n places unless n is a power
of two, 1/c of a division by c likewise, and the scale and shift of a batch norm.
"""

from __future__ import annotations

import math

import numpy as np

from hardmax._errors import RequestError, ShapeError
from hardmax.languages.networks.operators._registry import (
    Operand,
    constant_of,
    onnx_name,
    torch_name,
    wires_of,
)
from hardmax.languages.networks.operators._windows import (
    Sizes,
    Windows,
    auto_padding,
    read_taps,
    with_batch,
)
from hardmax.languages.networks.operators._wiring import Sum, Wires, Wiring


@torch_name("Linear", "linear")
def dense(wiring: Wiring, x: Wires, weight: np.ndarray, bias: np.ndarray | None = None) -> Wires:
    """weight @ x + bias along the last axis; weights are out x in."""
    x, weight = wiring.distinct(wires_of(x)), constant_of(weight, "weight")
    if weight.ndim != 2 or not x.ndim or x.shape[-1] != weight.shape[1]:
        raise ShapeError(f"has weights of shape {weight.shape}, but its input has shape {x.shape}.")
    rows = x.places.reshape(-1, 1, x.shape[-1])
    wiring.check(len(rows) * weight.shape[0], weight.shape[1])
    shape = (len(rows), *weight.shape)
    places = np.broadcast_to(rows, shape).reshape(-1, weight.shape[1])
    weights = np.broadcast_to(weight, shape).reshape(places.shape)
    shift = np.zeros(len(weight)) if bias is None else constant_of(bias, "bias")
    if shift.shape != weight.shape[:1]:
        raise ShapeError(f"has weights of shape {weight.shape}, but its bias has {shift.shape}.")
    return wiring.affine(
        [(places, weights)], np.tile(shift, len(rows)), (*x.shape[:-1], len(weight))
    )


@onnx_name("Gemm")
def gemm(
    wiring: Wiring,
    A: Wires,
    B: np.ndarray,
    C: np.ndarray | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Wires:
    """alpha A B + beta C, for factors 1, which is what layers have; others would round weights."""
    if alpha != 1.0 or (beta != 1.0 and C is not None):
        raise RequestError("scales by alpha or beta: multiply the weights by them instead.")
    A, B = wires_of(A), constant_of(B, "weight B")
    if A.ndim != 2 or B.ndim != 2:
        raise ShapeError(f"multiplies matrices, but A has shape {A.shape} and B has {B.shape}.")
    if transA:
        A = Wires(A.places.T)
    product = dense(wiring, A, B if transB else B.T)
    return product if C is None else add(wiring, product, constant_of(C, "bias C"))


@torch_name("matmul", "mm")
@onnx_name("MatMul")
def matmul(wiring: Wiring, x: Operand, other: Operand) -> Wires:
    """x @ weights, or weights @ x."""
    if isinstance(x, Wires):
        weight = constant_of(other, "second factor")
        if weight.ndim > 2:
            raise RequestError(f"multiplies by a stack of matrices {weight.shape}: use one matrix.")
        made = dense(wiring, x, np.atleast_2d(weight.T))
        return made if weight.ndim == 2 else made.reshape(*made.shape[:-1])
    x, other = constant_of(x, "first factor"), wires_of(other)
    if x.ndim > 2:
        raise RequestError(f"multiplies by a stack of matrices {x.shape}: use one matrix.")
    turned = Wires(other.places.swapaxes(-1, -2)) if other.ndim > 1 else other
    made = dense(wiring, turned, np.atleast_2d(x))
    if x.ndim == 1:
        return made.reshape(*made.shape[:-1])
    return Wires(made.places.swapaxes(-1, -2)) if other.ndim > 1 else made


@torch_name("Conv1d", "conv1d", "Conv2d", "conv2d", "Conv3d", "conv3d")
def convolution(
    wiring: Wiring,
    x: Wires,
    weight: np.ndarray,
    bias: np.ndarray | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    padding_mode: str = "zeros",
) -> Wires:
    """out[n, o, p] = bias[o] + sum over channels c of o's group and taps k of w[o, c, k] x[n, c, p
    stride - padding + k dilation], zeros outside; weights are out x in/groups x kernel.

    Cost: a dense matrix of all outputs x all inputs, whatever the kernel.
    """
    weight = constant_of(weight, "weight")
    out, per_group, *kernel = weight.shape
    windows = Windows.of(tuple(kernel), stride, padding, dilation)
    if padding_mode != "zeros":
        raise RequestError(f"pads with {padding_mode!r}: only zeros are supported.")
    x, unbatch = with_batch(wiring.distinct(wires_of(x)), len(kernel))
    batch, channels = x.shape[:2]
    if channels != per_group * groups or out % groups:
        raise ShapeError(
            f"has {out} x {per_group} channels in {groups} group{'s' * (groups != 1)}, but its "
            f"input has {channels}: the shape is {x.shape}."
        )
    taps = windows.taps(x.shape[2:], wiring)
    positions = math.prod(len(table) for table in taps)
    terms = per_group * math.prod(kernel)
    wiring.check(batch * out * positions, terms)
    places, spatial = read_taps(x.places, taps)
    shift = np.zeros(out) if bias is None else constant_of(bias, "bias")
    if shift.shape != (out,):
        raise ShapeError(f"makes {out} channels, but its bias has shape {shift.shape}.")
    made = wiring.affine(
        [_taps_and_weights(places, weight, groups)],
        np.tile(np.repeat(shift, positions), batch),
        (batch, out, *spatial),
    )
    return unbatch(made)


def _taps_and_weights(places: np.ndarray, weight: np.ndarray, groups: int) -> Sum:
    """A row for every output: the taps of all channels of its group, and their weights."""
    batch, channels, positions, taps = places.shape
    per_group, out = channels // groups, len(weight) // groups
    windows = places.reshape(batch, groups, 1, per_group, positions, taps).swapaxes(3, 4)
    weights = weight.reshape(groups, out, 1, per_group, taps)
    shape = (batch, groups, out, positions, per_group, taps)
    read, factors = (np.broadcast_to(part, shape) for part in (windows, weights))
    return read.reshape(-1, per_group * taps), factors.reshape(-1, per_group * taps)


@onnx_name("Conv")
def convolution_in_onnx(
    wiring: Wiring,
    X: Wires,
    W: np.ndarray,
    B: np.ndarray | None = None,
    *,
    kernel_shape: Sizes | None = None,
    strides: Sizes = 1,
    pads: Sizes = 0,
    dilations: Sizes = 1,
    group: int = 1,
    auto_pad: str = "NOTSET",
) -> Wires:
    kernel = constant_of(W, "weight").shape[2:]
    padding = auto_padding(auto_pad, pads, wires_of(X).shape[2:], kernel, strides, dilations)
    return convolution(wiring, X, W, B, strides, padding, dilations, group)


@torch_name("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "batch_norm")
def batch_norm(
    wiring: Wiring,
    x: Wires,
    running_mean: np.ndarray | None,
    running_var: np.ndarray | None,
    weight: np.ndarray | None = None,
    bias: np.ndarray | None = None,
    training: bool = False,
    momentum: float | None = 0.1,
    eps: float = 1e-5,
) -> Wires:
    """scale x + shift by channels: scale = weight / sqrt(var + eps), shift = bias - mean scale.

    These two are computed in float64, each operation rounded, and the network means them as they
    are: a scale within 3 roundings, a shift within 2 more of the numbers that the file suggests.
    The map is kept apart from the convolution before it, whose weights stay what they were.
    """
    if training:
        raise RequestError("is a batch norm in training mode: call module.eval() first.")
    if running_mean is None or running_var is None:
        raise RequestError("is a batch norm without running statistics: give it some.")
    mean, variance = constant_of(running_mean, "mean"), constant_of(running_var, "variance")
    if not (variance + eps > 0).all():
        raise ShapeError("has a variance + eps that is not positive.")
    scale = 1.0 / np.sqrt(variance + eps)
    if weight is not None:
        scale = constant_of(weight, "weight") / np.sqrt(variance + eps)
    shift = -mean * scale if bias is None else constant_of(bias, "bias") - mean * scale
    x = wires_of(x)
    if x.ndim < 2 or scale.shape != shift.shape or scale.shape != x.shape[1:2]:
        raise ShapeError(f"norms {mean.shape} channels, but its input has shape {x.shape}.")
    channels = (-1, *[1] * (x.ndim - 2))
    return scale_and_shift(wiring, x, scale.reshape(channels), shift.reshape(channels))


@onnx_name("BatchNormalization")
def batch_norm_in_onnx(
    wiring: Wiring,
    X: Wires,
    scale: np.ndarray,
    B: np.ndarray,
    input_mean: np.ndarray,
    input_var: np.ndarray,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
    spatial: int = 1,
) -> Wires:
    if training_mode:
        raise RequestError("is a batch norm in training mode: export the model in evaluation mode.")
    if spatial != 1:
        raise RequestError("norms every place apart (spatial=0): use one scale per channel.")
    return batch_norm(wiring, X, input_mean, input_var, scale, B, eps=epsilon)


def scale_and_shift(wiring: Wiring, x: Wires, scale: Operand, shift: Operand = 0.0) -> Wires:
    """scale x + shift, both constant, place by place; exact."""
    scale, shift = constant_of(scale, "factor"), constant_of(shift, "summand")
    shape = np.broadcast_shapes(x.shape, scale.shape, shift.shape)
    wiring.check(math.prod(shape))
    places = np.broadcast_to(x.places, shape).reshape(-1, 1)
    weights = np.broadcast_to(scale, shape).reshape(-1, 1)
    return wiring.affine([(places, weights)], np.broadcast_to(shift, shape).ravel(), shape)


@torch_name("add")
@onnx_name("Add")
def add(wiring: Wiring, x: Operand, other: Operand, alpha: float = 1) -> Wires:
    """x + other, of computed numbers (a skip connection) or constants."""
    return _sum(wiring, x, other, 1.0, alpha)


@torch_name("sub")
@onnx_name("Sub")
def subtract(wiring: Wiring, x: Operand, other: Operand, alpha: float = 1) -> Wires:
    return _sum(wiring, x, other, -1.0, alpha)


def _sum(wiring: Wiring, x: Operand, other: Operand, sign: float, alpha: float) -> Wires:
    if alpha != 1:
        raise RequestError(f"adds {alpha} times a summand: multiply by it beforehand.")
    shape = np.broadcast_shapes(np.shape(_places(x)), np.shape(_places(other)))
    wiring.check(math.prod(shape))
    sums: list[Sum] = []
    shift = np.zeros(shape)
    for operand, factor in ((x, 1.0), (other, sign)):
        if isinstance(operand, Wires):
            sums.append((np.broadcast_to(operand.places, shape).reshape(-1, 1), factor))
        else:
            shift = shift + factor * constant_of(operand, "summand")
    if not sums:
        wires_of(x)
    return wiring.affine(sums, shift.ravel(), shape)


def _places(x: Operand) -> np.ndarray | float:
    return x.places if isinstance(x, Wires) else x


@torch_name("mul")
@onnx_name("Mul")
def multiply(wiring: Wiring, x: Operand, other: Operand) -> Wires:
    """x times other, of which one is constant."""
    if isinstance(x, Wires):
        return scale_and_shift(wiring, x, constant_of(other, "factor"))
    return scale_and_shift(wiring, wires_of(other), x)


@torch_name("div", "truediv")
@onnx_name("Div")
def divide(wiring: Wiring, x: Operand, other: Operand) -> Wires:
    """x times 1/other, which is rounded unless other is a power of two."""
    divisor = constant_of(other, "divisor")
    if not divisor.all():
        raise ShapeError("divides by 0.")
    return scale_and_shift(wiring, wires_of(x), 1.0 / divisor)


@torch_name("neg")
@onnx_name("Neg")
def negate(wiring: Wiring, x: Wires) -> Wires:
    return scale_and_shift(wiring, wires_of(x), -1.0)


@torch_name("mean")
def mean(
    wiring: Wiring, x: Wires, dim: Sizes | None = None, keepdim: bool = False, dtype: None = None
) -> Wires:
    """The average over some axes, or all; 1/n is rounded unless n is a power of two."""
    x = wiring.distinct(wires_of(x))
    given = range(x.ndim) if dim is None or not np.size(dim) else np.atleast_1d(dim)
    axes = sorted({range(x.ndim)[int(axis)] for axis in given})
    rest = [axis for axis in range(x.ndim) if axis not in axes]
    terms = int(np.prod([x.shape[axis] for axis in axes]))
    rows = x.places.transpose(*rest, *axes).reshape(-1, terms)
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(x.shape))
    shape = kept if keepdim else tuple(x.shape[axis] for axis in rest)
    return wiring.affine([(rows, 1.0 / terms)], 0.0, shape)


@onnx_name("ReduceMean")
def mean_in_onnx(
    wiring: Wiring,
    data: Wires,
    axes: Sizes | None = None,
    *,
    keepdims: int = 1,
    noop_with_empty_axes: int = 0,
) -> Wires:
    if (axes is None or not np.size(axes)) and noop_with_empty_axes:
        return wires_of(data)
    return mean(wiring, data, axes, bool(keepdims))
