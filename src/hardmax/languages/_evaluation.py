"""One call for three arithmetics: floats, Fractions and intervals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hardmax._errors import ShapeError
from hardmax.numerics import Interval, exact


def evaluate(
    x: Any,
    inputs: int,
    *,
    rows: Callable[[np.ndarray], np.ndarray],
    columns: Callable[[Interval], Interval],
) -> Any:
    """Hand x to the arithmetic it is written in.

    An `Interval` of shape (inputs,) or (inputs, batch) goes to `columns`. Numbers of shape
    (..., inputs) go to `rows` as a batch x inputs matrix, and the leading axes come back: a
    float64 matrix, or one of Fractions (and then every step is exact) if x holds any object.
    """
    if isinstance(x, Interval):
        if len(x.shape) not in (1, 2) or x.shape[0] != inputs:
            raise ShapeError(
                f"The function takes intervals of shape ({inputs},) or ({inputs}, batch), but "
                f"the shape is {x.shape}."
            )
        return columns(x)
    array = _numbers(x)
    if array.ndim == 0 or array.shape[-1] != inputs:
        raise ShapeError(
            f"The function takes {inputs} number{'s' * (inputs != 1)} along the last axis, but "
            f"x has shape {array.shape}."
        )
    values = rows(array.reshape(-1, inputs))
    return values.reshape(*array.shape[:-1], values.shape[-1])


def _numbers(x: Any) -> np.ndarray:
    try:
        array = np.asarray(x)
        if array.dtype == object:
            return exact(array)
    except (TypeError, ValueError, OverflowError) as reason:
        raise ShapeError(
            "x must be a rectangular array of numbers, but it could not be read as one."
        ) from reason
    if array.dtype.kind not in "fiub":
        raise ShapeError(f"x must hold real numbers, but it holds {array.dtype}.")
    return array.astype(np.float64, copy=False)


def affine_rows(x: np.ndarray, weights: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """weights @ row + bias for every row of x, exact if x holds Fractions."""
    if x.dtype == object:
        weights, bias = exact(weights), exact(bias)
    y = x @ weights.T
    y += bias
    return np.asarray(y)
