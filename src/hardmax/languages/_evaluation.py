"""One call for three arithmetics: floats, Fractions and intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from hardmax._errors import ShapeError
from hardmax.numerics import Interval, exact

Numbers = ArrayLike | Sequence[Fraction]  # floats, whole numbers or Fractions, batches included
Rows = Callable[[np.ndarray], np.ndarray]
Columns = Callable[[Interval], Interval]


@overload
def evaluate(x: Interval, inputs: int, *, rows: Rows, columns: Columns) -> Interval: ...
@overload
def evaluate(x: Numbers, inputs: int, *, rows: Rows, columns: Columns) -> np.ndarray: ...
def evaluate(
    x: Numbers | Interval, inputs: int, *, rows: Rows, columns: Columns
) -> np.ndarray | Interval:
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


def _numbers(x: Numbers) -> np.ndarray:
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
