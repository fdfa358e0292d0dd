"""What every network checks at birth, and how its tensors are named."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import ArrayLike

from hardmax._errors import FileError, ShapeError
from hardmax.numerics import finite_array

Arrays = tuple[np.ndarray, ...]


def checked_layers(
    weights: Iterable[ArrayLike], biases: Iterable[ArrayLike], *, ndim: int
) -> tuple[Arrays, Arrays]:
    """Read-only float64 copies of both lists, refused unless they chain into a network.

    The last two axes of a weight are out x in, and its bias has the same shape without the last.
    """
    given, shifts = _as_list(weights, "weights"), _as_list(biases, "biases")
    if len(given) != len(shifts):
        raise ShapeError(
            f"Every layer needs weights and a bias, but there are {len(given)} weights and "
            f"{len(shifts)} biases."
        )
    if not given:
        raise ShapeError("A network needs at least one layer, but the list of weights is empty.")
    Ws = [finite_array(W, f"The weights of layer {i}", ndim=ndim) for i, W in enumerate(given, 1)]
    bs = [finite_array(b, f"The bias of layer {i}", ndim=ndim - 1) for i, b in enumerate(shifts, 1)]
    for i, (W, b) in enumerate(zip(Ws, bs, strict=True), 1):
        if W.size == 0:
            raise ShapeError(f"Layer {i} is empty: its weights have shape {W.shape}.")
        if b.shape != W.shape[:-1]:
            raise ShapeError(
                f"The bias of layer {i} must have shape {W.shape[:-1]} to go with weights of "
                f"shape {W.shape}, but it has {b.shape}."
            )
        if i > 1 and W.shape[-1] != Ws[i - 2].shape[-2]:
            raise ShapeError(
                f"Layer {i} reads {W.shape[-1]} numbers, but layer {i - 1} makes "
                f"{Ws[i - 2].shape[-2]}."
            )
    return tuple(Ws), tuple(bs)


def _as_list(arrays: Iterable[ArrayLike], name: str) -> list[ArrayLike]:
    try:
        return list(arrays)
    except TypeError:
        raise ShapeError(
            f"{name} must be a list with one array per layer, not {type(arrays).__name__}."
        ) from None


def widths(weights: Arrays) -> str:
    """The widths from the input to the output, as in 8-32-32-1."""
    return "-".join(str(n) for n in [weights[0].shape[-1], *(W.shape[-2] for W in weights)])


def count(*groups: Arrays) -> int:
    """How many numbers the arrays hold."""
    return sum(array.size for group in groups for array in group)


def number_and_noun(number: int, thing: str) -> str:
    """1 piece, 2 pieces."""
    return f"{number} {thing}{'s' * (number != 1)}"


def fits_float64(array: np.ndarray) -> bool:
    """Whether float64 holds all numbers of a real array without loss."""
    if array.dtype.kind == "f":
        return array.dtype.itemsize <= 8
    if array.dtype.kind not in "iub":
        return False
    return not array.size or max(int(array.max()), -int(array.min())) <= 2**53


def named_layers(weights: Arrays, biases: Arrays) -> dict[str, np.ndarray]:
    """W1, b1, W2, b2, ... as files hold them."""
    pairs = enumerate(zip(weights, biases, strict=True), 1)
    return {name: array for i, (W, b) in pairs for name, array in ((f"W{i}", W), (f"b{i}", b))}


def numbered_layers(
    tensors: Mapping[str, np.ndarray],
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The weights and biases behind the names W1, b1, W2, b2, ...; other names are left alone."""
    numbers = [int(m[1]) for name in tensors if (m := re.fullmatch(r"[Wb]([1-9]\d{0,5})", name))]
    depth = max(numbers, default=1)
    return (
        [needed_tensor(tensors, f"W{i}") for i in range(1, depth + 1)],
        [needed_tensor(tensors, f"b{i}") for i in range(1, depth + 1)],
    )


def needed_tensor(tensors: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    """The tensor of that name, whose absence is the file's fault."""
    if name not in tensors:
        raise FileError(f"The tensor {name} is missing; save the network again with all of them.")
    return tensors[name]
