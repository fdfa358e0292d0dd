"""Operators that act on every number by itself, and maxima of several tensors.

What is piecewise linear becomes maxima, which everybody who reads steps knows; relu has a name of
its own. Functions that are not (tanh, ...) are named, and whoever needs pieces refuses them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hardmax._errors import RequestError, ShapeError
from hardmax.languages.networks.operators._affine import add, negate, scale_and_shift
from hardmax.languages.networks.operators._registry import (
    Operand,
    constant_of,
    onnx_name,
    torch_name,
    wires_of,
)
from hardmax.languages.networks.operators._wiring import Wires, Wiring


@torch_name("ReLU", "relu")
@onnx_name("Relu")
def relu(wiring: Wiring, x: Wires, inplace: bool = False) -> Wires:
    return wiring.univariate("relu", wires_of(x))


@torch_name("LeakyReLU", "leaky_relu")
def leaky_relu(
    wiring: Wiring, x: Wires, negative_slope: float = 0.01, inplace: bool = False
) -> Wires:
    """max(x, slope x), for slopes up to 1."""
    return _leaky(wiring, wires_of(x), np.asarray(negative_slope, dtype=np.float64))


@onnx_name("LeakyRelu")
def leaky_relu_in_onnx(wiring: Wiring, X: Wires, *, alpha: float = 0.01) -> Wires:
    return leaky_relu(wiring, X, alpha)


@torch_name("PReLU", "prelu")
def channel_relu(wiring: Wiring, x: Wires, weight: np.ndarray) -> Wires:
    """max(x, slope x), with one slope for all or one per channel."""
    x, slope = wires_of(x), constant_of(weight, "slope")
    if slope.size > 1:
        slope = slope.reshape(-1, *[1] * max(x.ndim - 2, 0))
    return _leaky(wiring, x, slope)


@onnx_name("PRelu")
def channel_relu_in_onnx(wiring: Wiring, X: Wires, slope: np.ndarray) -> Wires:
    return _leaky(wiring, wires_of(X), constant_of(slope, "slope"))


def _leaky(wiring: Wiring, x: Wires, slope: np.ndarray) -> Wires:
    if (slope > 1).any():
        raise RequestError(
            f"has the slope {slope.max()}, but above 1 it would be a minimum: use slopes up to 1."
        )
    return maximum(wiring, x, scale_and_shift(wiring, x, slope))


@torch_name("Hardtanh", "hardtanh")
def hard_tanh(
    wiring: Wiring, x: Wires, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Wires:
    return clip(wiring, x, min_val, max_val)


@torch_name("ReLU6", "relu6")
def relu6(wiring: Wiring, x: Wires, inplace: bool = False) -> Wires:
    return clip(wiring, x, 0.0, 6.0)


@torch_name("clamp", "clip")
@onnx_name("Clip")
def clip(wiring: Wiring, x: Wires, min: Operand | None = None, max: Operand | None = None) -> Wires:
    """min(max(x, lower), upper): two maxima, the second between two minuses.

    The difference max(x, lower) - relu(x - upper) has fewer steps and is the same function, but
    as intervals see it the two parts know nothing of each other, and the bounds would be lost.
    """
    x = wires_of(x)
    if min is not None:
        x = maximum(wiring, x, constant_of(min, "lower bound"))
    return x if max is None else minimum(wiring, x, constant_of(max, "upper bound"))


@torch_name("abs")
@onnx_name("Abs")
def absolute(wiring: Wiring, x: Wires) -> Wires:
    """max(x, -x)."""
    return maximum(wiring, wires_of(x), negate(wiring, x))


@torch_name("maximum")
@onnx_name("Max")
def maximum(wiring: Wiring, *parts: Operand) -> Wires:
    """The largest of several tensors, place by place; constants among them are values, too."""
    shape = np.broadcast_shapes(*[_shape(part) for part in parts])
    wiring.check(math.prod(shape), len(parts))
    wires = [_as_wires(wiring, part) for part in parts]
    places = [np.broadcast_to(part.places, shape).ravel() for part in wires]
    return wiring.maximum(np.stack(places, axis=1), shape)


@torch_name("minimum")
@onnx_name("Min")
def minimum(wiring: Wiring, *parts: Operand) -> Wires:
    """The smallest, as minus the largest of the opposites."""
    opposites: Sequence[Operand] = [
        negate(wiring, part) if isinstance(part, Wires) else -constant_of(part, "number")
        for part in parts
    ]
    return negate(wiring, maximum(wiring, *opposites))


@torch_name("max")
def largest(wiring: Wiring, x: Wires, other: object) -> Wires:
    return maximum(wiring, x, _tensor(other))


@torch_name("min")
def smallest(wiring: Wiring, x: Wires, other: object) -> Wires:
    return minimum(wiring, x, _tensor(other))


def _tensor(other: object) -> Wires | np.ndarray:
    """The second tensor of torch.max(x, y); of torch.max(x, 1) it would be an axis."""
    if not isinstance(other, Wires | np.ndarray):
        raise RequestError("takes a maximum along an axis: write torch.maximum of two tensors.")
    return other


def _shape(x: Operand) -> tuple[int, ...]:
    return x.shape if isinstance(x, Wires) else np.shape(x)


def _as_wires(wiring: Wiring, x: Operand) -> Wires:
    return x if isinstance(x, Wires) else wiring.constant(constant_of(x, "number"))


@torch_name("Tanh", "tanh")
@onnx_name("Tanh")
def tanh(wiring: Wiring, x: Wires) -> Wires:
    return _apply_named(wiring, "tanh", x)


@torch_name("Sigmoid", "sigmoid")
@onnx_name("Sigmoid")
def sigmoid(wiring: Wiring, x: Wires) -> Wires:
    return _apply_named(wiring, "sigmoid", x)


@torch_name("GELU", "gelu")
@onnx_name("Gelu")
def gelu(wiring: Wiring, x: Wires, approximate: str = "none") -> Wires:
    if approximate != "none":
        raise RequestError(f"is approximated by {approximate!r}: only the exact gelu has a name.")
    return _apply_named(wiring, "gelu", x)


@torch_name("ELU", "elu")
@onnx_name("Elu")
def elu(wiring: Wiring, x: Wires, alpha: float = 1.0, inplace: bool = False) -> Wires:
    """relu(x) + alpha (exp(min(x, 0)) - 1)."""
    below = _apply_named(wiring, "exp", minimum(wiring, wires_of(x), 0.0))
    return add(wiring, relu(wiring, x), scale_and_shift(wiring, below, alpha, -alpha))


@torch_name("SiLU", "silu")
def silu(wiring: Wiring, x: Wires, inplace: bool = False) -> Wires:
    return _apply_named(wiring, "silu", x)


def _apply_named(wiring: Wiring, name: str, x: Wires) -> Wires:
    try:
        return wiring.univariate(name, wires_of(x))
    except ShapeError as reason:  # of a step, about functions that it does not know
        raise RequestError(f"applies {name}: {reason}") from reason
