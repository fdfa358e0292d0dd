"""How far an affine map of the stream strays when a format stores its weights and evaluates it."""

from __future__ import annotations

import numpy as np

from hardmax.numerics import Format, matmul_up, stray


def affine_stray(
    matrix: np.ndarray,
    sizes: np.ndarray,
    offset: np.ndarray,
    more: int,
    format: Format,
    stream: np.ndarray | float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Of matrix @ x + offset, |x| <= sizes: the sum of |terms|, and how far it strays.

    A row of n entries is a sum of n products, which takes n roundings; `more` are those of the
    weights, of the offset, and of the sum with the `stream`. Besides, weights that are too faint
    for the format are stored with an absolute error, which the products enlarge.
    """
    size = matmul_up(np.abs(matrix), sizes) + np.abs(offset)
    terms = (matrix != 0.0).sum(axis=-1).reshape(-1, *[1] * (sizes.ndim - 1)) + more
    return size, stray(terms, size + stream, format) + faint_stray(matrix, sizes, format)


def faint_stray(matrix: np.ndarray, sizes: np.ndarray, format: Format) -> np.ndarray | float:
    """What weights below the normal numbers add: stored, each is off by the smallest number."""
    faint = (np.abs(matrix) < format.normal) & ~format.holds(matrix)
    if not faint.any():
        return 0.0
    return matmul_up(np.where(faint, format.smallest, 0.0), sizes)
