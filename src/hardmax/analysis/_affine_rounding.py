"""How far an affine map of the stream strays when a format stores its weights and evaluates it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from hardmax.numerics import Format, gamma, inflate, matmul_up, stray


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


def sum_stray(
    terms: ArrayLike, sizes: ArrayLike, total: ArrayLike, format: Format
) -> tuple[np.ndarray, np.ndarray]:
    """How far a sum strays in any order of its terms: what their sizes, and what the total allows.

    `terms` additions make sums of numbers whose sizes add up to `sizes`, each of which may be
    rounded 4 times before (its weight, the product, what it is made of), and the sum to `total` in
    size. Let T = sizes, s = total <= T. A partial sum is the sum over some of the terms; that of
    the positive ones is P, of the negative ones -N, with P + N = T and |P - N| = s, so that none
    is larger than max(P, N) = (T + s)/2. With base <= gamma_4 T the error of the terms themselves,
    and E the sum of what the additions err by, each of them errs by at most
    u (partial + base + E):

        E  <=  n u ((T + s)/2 + base + E),    hence    E  <=  gamma_n ((T + s)/2 + base),

    and the whole is at most [gamma_4 (1 + gamma_n) + gamma_n / 2] T  +  [gamma_n / 2] s. Both parts
    also hold for 2-norms of vectors of sums, T and s being those of their sizes and totals.
    """
    sizes = np.asarray(sizes)
    base = stray(4, sizes, format)
    own = inflate(base * (1.0 + gamma(terms, format)) + stray(terms, 0.5 * sizes, format), 3)
    return np.asarray(own), np.asarray(stray(terms, 0.5 * np.minimum(total, sizes), format))
