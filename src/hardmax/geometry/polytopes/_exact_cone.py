"""Whether a vector lies in the cone of others, in whole numbers of any size."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_MOST = 2.0**62  # half of what int64 holds: room for the rounding of the bound itself


def fits(vectors: np.ndarray) -> bool:
    """Whether int64 can hold every number that the simplex method meets among these vectors.

    By Hadamard's inequality a minor of k <= d rows is at most M = (the largest length)^d. The last
    row sums d of them, and an update forms the difference of two products: 2 d M^2.
    """
    width = vectors.shape[1]
    largest = max((abs(one) for row in vectors.tolist() for one in row), default=0)
    if largest > 2**31:
        return False
    length = max(1.0, math.sqrt(width) * largest)
    return 2.0 * max(width, 1) * length ** (2 * width) < _MOST


def is_in_cone(columns: np.ndarray, target: np.ndarray) -> bool:
    """Whether `target` is a sum of rows of `columns` with weights >= 0; Python's integers."""
    from hardmax.geometry.polytopes._walk_kernels import in_cone

    count, width = columns.shape
    tableau = np.zeros((width + 1, count + 1), dtype=object)
    python: Any = in_cone.py_func
    return bool(python(columns, count, target, tableau, [0] * width))
