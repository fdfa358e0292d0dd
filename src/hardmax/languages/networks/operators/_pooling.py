"""Operators that pool: maxima and averages over windows.

Padding is minus infinity in a maximum, so it is left out of the group; in an average it is zero,
and `count_include_pad` says whether it counts.
"""

from __future__ import annotations

import math

import numpy as np

from hardmax._errors import RequestError, ShapeError
from hardmax.languages.networks.operators._registry import onnx_name, torch_name, wires_of
from hardmax.languages.networks.operators._windows import (
    Sizes,
    Windows,
    auto_padding,
    per_axis,
    read_taps,
    with_batch,
)
from hardmax.languages.networks.operators._wiring import NOTHING, Wires, Wiring


@torch_name("MaxPool2d", "max_pool2d")
def max_pool(
    wiring: Wiring,
    x: Wires,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    rank: int = 2,
) -> Wires:
    """The largest number in every window; padding never wins."""
    if return_indices:
        raise RequestError("returns indices, which are not piecewise linear: leave them out.")
    kernel = per_axis(kernel_size, rank, "kernel")
    windows = Windows.of(kernel, stride, padding, dilation, bool(ceil_mode))
    x, unbatch = with_batch(wires_of(x), rank)
    return unbatch(_maxima(wiring, x, windows.taps(x.shape[2:], wiring)))


@torch_name("MaxPool1d", "max_pool1d")
def max_pool_of_a_line(
    wiring: Wiring,
    x: Wires,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Wires:
    return max_pool(
        wiring, x, kernel_size, stride, padding, dilation, ceil_mode, return_indices, rank=1
    )


@onnx_name("MaxPool")
def max_pool_in_onnx(
    wiring: Wiring,
    X: Wires,
    *,
    kernel_shape: Sizes,
    strides: Sizes = 1,
    pads: Sizes = 0,
    dilations: Sizes = 1,
    ceil_mode: int = 0,
    auto_pad: str = "NOTSET",
    storage_order: int = 0,
) -> Wires:
    kernel = per_axis(kernel_shape, np.size(kernel_shape), "kernel")
    padding = auto_padding(auto_pad, pads, wires_of(X).shape[2:], kernel, strides, dilations)
    return max_pool(
        wiring, X, kernel, strides, padding, dilations, bool(ceil_mode), rank=len(kernel)
    )


@torch_name("AvgPool2d", "avg_pool2d")
def average_pool(
    wiring: Wiring,
    x: Wires,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    dilation: Sizes = 1,
    rank: int = 2,
) -> Wires:
    """The sum over every window by its number of places, as 1/n rounded to float64.

    Places beyond the padding, where the last window sticks out, never count.
    """
    kernel = per_axis(kernel_size, rank, "kernel")
    windows = Windows.of(kernel, stride, padding, dilation, bool(ceil_mode))
    x, unbatch = with_batch(wires_of(x), rank)
    taps = windows.taps(x.shape[2:], wiring)
    lowest = NOTHING if count_include_pad else 0
    counts = np.ones(())
    for table in taps:
        counts = np.multiply.outer(counts, (table >= lowest).sum(axis=1))
    if divisor_override is not None:
        counts = np.full(counts.shape, divisor_override)
    if not counts.all():
        raise ShapeError("has windows that lie in the padding, whose average is not defined.")
    return unbatch(_averages(wiring, x, taps, counts))


@torch_name("AvgPool1d", "avg_pool1d")
def average_pool_of_a_line(
    wiring: Wiring,
    x: Wires,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Wires:
    return average_pool(
        wiring, x, kernel_size, stride, padding, ceil_mode, count_include_pad, rank=1
    )


@onnx_name("AveragePool")
def average_pool_in_onnx(
    wiring: Wiring,
    X: Wires,
    *,
    kernel_shape: Sizes,
    strides: Sizes = 1,
    pads: Sizes = 0,
    dilations: Sizes = 1,
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    auto_pad: str = "NOTSET",
) -> Wires:
    kernel = per_axis(kernel_shape, np.size(kernel_shape), "kernel")
    padding = auto_padding(auto_pad, pads, wires_of(X).shape[2:], kernel, strides, dilations)
    return average_pool(
        wiring,
        X,
        kernel,
        strides,
        padding,
        bool(ceil_mode),
        bool(count_include_pad),
        dilation=dilations,
        rank=len(kernel),
    )


@torch_name("AdaptiveAvgPool2d", "adaptive_avg_pool2d")
def adaptive_average_pool(
    wiring: Wiring, x: Wires, output_size: int | tuple[int | None, ...]
) -> Wires:
    """Averages over windows chosen such that so many come out."""
    x, unbatch = with_batch(wires_of(x), 2)
    taps = _adaptive_taps(x.shape[2:], output_size)
    counts = np.multiply.outer(*[(table >= 0).sum(axis=1) for table in taps])
    return unbatch(_averages(wiring, x, taps, counts))


@torch_name("AdaptiveMaxPool2d", "adaptive_max_pool2d")
def adaptive_max_pool(
    wiring: Wiring,
    x: Wires,
    output_size: int | tuple[int | None, ...],
    return_indices: bool = False,
) -> Wires:
    """Maxima over windows chosen such that so many come out."""
    if return_indices:
        raise RequestError("returns indices, which are not piecewise linear: leave them out.")
    x, unbatch = with_batch(wires_of(x), 2)
    return unbatch(_maxima(wiring, x, _adaptive_taps(x.shape[2:], output_size)))


@onnx_name("GlobalAveragePool")
def global_average_pool(wiring: Wiring, X: Wires) -> Wires:
    taps = [np.arange(size)[None] for size in wires_of(X).shape[2:]]
    counts = np.full([1] * len(taps), math.prod(X.shape[2:]))
    return _averages(wiring, X, taps, counts)


@onnx_name("GlobalMaxPool")
def global_max_pool(wiring: Wiring, X: Wires) -> Wires:
    return _maxima(wiring, X, [np.arange(size)[None] for size in wires_of(X).shape[2:]])


def _maxima(wiring: Wiring, x: Wires, taps: list[np.ndarray]) -> Wires:
    wiring.check(math.prod(x.shape[:2]), math.prod(table.size for table in taps))
    places, spatial = read_taps(x.places, taps)
    rows = places.reshape(-1, places.shape[-1])
    if not (rows >= 0).any(axis=1).all():
        raise ShapeError("has windows that lie in the padding, whose maximum is minus infinity.")
    return wiring.maximum(rows, (*x.shape[:2], *spatial))


def _averages(wiring: Wiring, x: Wires, taps: list[np.ndarray], counts: np.ndarray) -> Wires:
    x = wiring.distinct(x)
    wiring.check(math.prod(x.shape[:2]), math.prod(table.size for table in taps))
    places, spatial = read_taps(x.places, taps)
    weights = np.tile((1.0 / counts).reshape(-1, 1), (math.prod(x.shape[:2]), 1))
    rows = places.reshape(-1, places.shape[-1])
    return wiring.affine([(rows, weights)], 0.0, (*x.shape[:2], *spatial))


def _adaptive_taps(
    shape: tuple[int, ...], output_size: int | tuple[int | None, ...]
) -> list[np.ndarray]:
    """Window i of m over n places reads floor(i n / m) up to ceil((i + 1) n / m), as PyTorch's."""
    wanted = (output_size,) * len(shape) if isinstance(output_size, int) else output_size
    tables = []
    for size, given in zip(shape, wanted, strict=True):
        count = size if given is None else given
        starts = [i * size // count for i in range(count)]
        ends = [-(-(i + 1) * size // count) for i in range(count)]
        table = np.array(starts)[:, None] + np.arange(max(np.subtract(ends, starts)))
        tables.append(np.where(table < np.array(ends)[:, None], table, NOTHING))
    return tables
