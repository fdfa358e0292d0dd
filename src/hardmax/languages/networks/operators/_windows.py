"""Windows that slide over the spatial axes of a tensor, for convolutions and poolings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hardmax._errors import RequestError, ShapeError
from hardmax.languages.networks.operators._wiring import NOTHING, Wires, Wiring

Sizes = int | Sequence[int] | np.ndarray  # one for all axes, or one per axis
BEYOND = -2  # a tap outside the padded tensor, where the last window sticks out (ceil_mode)


@dataclass(frozen=True)
class Windows:
    """How far a window reaches and moves along every spatial axis.

    `padding` is before and after, by axes.
    """

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    ceil: bool = False

    @classmethod
    def of(
        cls,
        kernel: tuple[int, ...],
        stride: Sizes | None,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        ceil: bool = False,
    ) -> Windows:
        """As PyTorch ("same", "valid", one padding per axis) or ONNX (all before, all after) say.

        Without a stride the windows lie side by side, as poolings do.
        """
        rank = len(kernel)
        given = kernel if stride is None or np.size(stride) == 0 else stride
        strides = per_axis(given, rank, "stride")
        dilations = per_axis(dilation, rank, "dilation")
        if not rank or min(*kernel, *strides, *dilations) < 1:
            raise ShapeError(
                f"has windows {kernel} with stride {strides} and dilation {dilations}, but all of "
                f"them must be at least 1."
            )
        reach = [d * (k - 1) for d, k in zip(dilations, kernel, strict=True)]
        if padding == "same" and max(strides) > 1:
            raise ShapeError("pads to the same size, which goes with stride 1 only.")
        pads = _pads(padding, reach)
        if min(min(pair) for pair in pads) < 0:
            raise ShapeError(f"has the padding {pads}, but it must not be negative.")
        return cls(kernel, strides, tuple(pads), dilations, ceil)

    def taps(self, shape: Sequence[int], wiring: Wiring) -> list[np.ndarray]:
        """Per axis the places (windows x kernel) that are read; NOTHING is padding."""
        return [self._axis_taps(axis, size, wiring) for axis, size in enumerate(shape)]

    def _axis_taps(self, axis: int, size: int, wiring: Wiring) -> np.ndarray:
        before, after = self.padding[axis]
        kernel, stride, dilation = self.kernel[axis], self.stride[axis], self.dilation[axis]
        free = size + before + after - dilation * (kernel - 1) - 1
        count = (free + (stride - 1 if self.ceil else 0)) // stride + 1
        if self.ceil and (count - 1) * stride >= size + before:
            count -= 1  # no window begins in the padding behind the tensor
        if count < 1:
            raise ShapeError(
                f"has windows of {dilation * (kernel - 1) + 1} places, but its input has {size} "
                f"with {before + after} of padding along spatial axis {axis}."
            )
        wiring.check(count, kernel)
        taps = np.arange(count)[:, None] * stride + np.arange(kernel) * dilation - before
        padding = (taps < 0) | (taps >= size)
        return np.where(taps >= size + after, BEYOND, np.where(padding, NOTHING, taps))


def _pads(padding: Sizes | str, reach: Sequence[int]) -> list[tuple[int, int]]:
    """Before and after, by axes; `reach` is how far a window goes beyond its first place."""
    rank = len(reach)
    if padding == "same":
        return [(r // 2, r - r // 2) for r in reach]
    if padding == "valid":
        return [(0, 0)] * rank
    if isinstance(padding, str):
        raise RequestError(f"pads by {padding!r}: say how many places.")
    sizes = per_axis(padding, 2 * rank if np.size(padding) == 2 * rank else rank, "padding")
    return list(zip(sizes[:rank], sizes[-rank:], strict=True))


def read_taps(places: np.ndarray, taps: list[np.ndarray]) -> tuple[np.ndarray, tuple[int, ...]]:
    """batch x channels x windows x taps, and how many windows there are by axes."""
    rank = len(taps)
    for axis in reversed(range(rank)):  # every axis becomes two, windows and taps
        table = taps[axis]
        behind = places.ndim - (axis + 3)
        there = (table >= 0).reshape(*table.shape, *[1] * behind)
        places = np.where(there, np.take(places, np.maximum(table, 0), axis=axis + 2), NOTHING)
    order = [0, 1, *range(2, 2 + 2 * rank, 2), *range(3, 3 + 2 * rank, 2)]
    counts = tuple(len(table) for table in taps)
    shape = (*places.shape[:2], int(np.prod(counts)), -1)
    return places.transpose(order).reshape(shape), counts


def with_batch(x: Wires, rank: int) -> tuple[Wires, Callable[[Wires], Wires]]:
    """x as batch x channels x spatial axes, and how to take a batch that it did not have away."""
    if x.ndim == rank + 2:
        return x, lambda made: made
    if x.ndim == rank + 1:
        return x.reshape(1, *x.shape), lambda made: made.reshape(*made.shape[1:])
    raise ShapeError(f"slides over {rank} axes, but its input has shape {x.shape}.")


def auto_padding(
    auto_pad: str,
    pads: Sizes,
    shape: Sequence[int],
    kernel: Sequence[int],
    strides: Sizes,
    dilations: Sizes,
) -> Sizes:
    """ONNX's padding by name as numbers: all before, then all after."""
    if auto_pad == "NOTSET":
        return pads
    rank = len(kernel)
    if auto_pad == "VALID":
        return 0
    if auto_pad not in ("SAME_UPPER", "SAME_LOWER"):
        raise RequestError(f"pads by {auto_pad!r}: say how many places.")
    axes = zip(
        shape,
        kernel,
        per_axis(strides, rank, "strides"),
        per_axis(dilations, rank, "dilations"),
        strict=True,
    )
    missing = [max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0) for n, k, s, d in axes]
    less, more = [m // 2 for m in missing], [m - m // 2 for m in missing]
    return [*less, *more] if auto_pad == "SAME_UPPER" else [*more, *less]


def per_axis(sizes: Sizes, rank: int, name: str) -> tuple[int, ...]:
    """One whole number per axis."""
    array = np.atleast_1d(sizes)
    if array.ndim != 1 or array.size not in (1, rank) or array.dtype.kind not in "iu":
        raise ShapeError(f"needs one whole number or {rank} as its {name}, not {sizes}.")
    numbers = [int(size) for size in array]
    return tuple(numbers * rank if len(numbers) == 1 else numbers)
