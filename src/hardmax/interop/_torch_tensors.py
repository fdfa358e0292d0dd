"""Arrays of the waist as tensors and linear layers of PyTorch, rounded once to a format."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from torch import Tensor, nn

from hardmax._errors import PrecisionError
from hardmax.numerics import FORMATS


def tensor(array: np.ndarray, dtype: torch.dtype) -> Tensor:
    """A copy of the array, rounded to nearest; refused if a number leaves the format's range."""
    made = torch.tensor(array).to(dtype)
    if not torch.isfinite(made).all():
        largest, format = np.abs(array).max(), FORMATS[str(dtype).removeprefix("torch.")]
        raise PrecisionError(
            f"The weights reach {largest:.3g} once coldness is multiplied in, but {dtype} ends at "
            f"{format.largest:.3g}: choose a wider dtype, or a larger error."
        )
    return made


def cold(scores: np.ndarray, coldness: np.ndarray) -> np.ndarray:
    """Weights that make scores, times each head's coldness; an overflow is left to `tensor`."""
    with np.errstate(over="ignore"):
        return scores * coldness[:, None, None]


def linear(weights: np.ndarray, bias: np.ndarray | None, dtype: torch.dtype) -> nn.Linear:
    """A linear layer with these weights; the user's random numbers are not touched."""
    outputs, inputs = weights.shape
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of empty weights, as of no hidden units
        layer = nn.Linear(inputs, outputs, bias=bias is not None, device="meta", dtype=dtype)
    layer.weight = nn.Parameter(tensor(weights, dtype))
    if bias is not None:
        layer.bias = nn.Parameter(tensor(bias, dtype))
    return layer
