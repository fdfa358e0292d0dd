"""Spectral norms from above."""

from __future__ import annotations

import math

import numpy as np

from hardmax.numerics._outward import TINY, inflate, stray

_SQUARINGS = 10  # the bound exceeds a norm of rank r by a factor of r^(1/2^12) at most


def length_up(sizes: np.ndarray) -> float:
    """The 2-norm of a vector of nonnegative numbers, from above.

    >>> 5.0 <= length_up(np.array([3.0, 4.0])) <= 5.0 * (1 + 1e-12)
    True
    """
    largest = float(np.max(sizes, initial=0.0))
    if not 0.0 < largest < math.inf:
        return largest
    # beside the largest, squares that underflow are covered; quotient, square, sum, root, product
    squares = np.square(sizes / largest).sum()
    return float(inflate(largest * math.sqrt(float(squares)), sizes.size + 5))


def norm_up(matrix: np.ndarray) -> float:
    """The spectral norm |A|_2, from above: at most a factor r^(1/2^12) too large, r the rank.

    Let M be the smaller one of A A^T and A^T A, so that |A|^2 = |M|. For symmetric M

        |M|^2 = |M^2| <= |N| + |N - M^2|,

    with N the computed square, again symmetric: entry by entry it is off by gamma_n (|M| |M|)_ij,
    and the Frobenius norm of that matrix is at most |M|_F^2. Squared ten times, the last norm is
    bounded by Frobenius', which exceeds it by sqrt(r) at most; then as many roots are taken.
    Everything is scaled by powers of two, so that nothing overflows.

    Orthogonal matrices are the worst case (r = n), matrices of rank 1 the best: of these
    Frobenius' norm is the spectral one.

    >>> 5.0 <= norm_up(np.array([[3.0], [4.0]])) <= 5.0 * (1 + 1e-12)
    True
    """
    matrix = np.asarray(matrix, dtype=float)
    if not np.isfinite(matrix).all():
        return math.inf
    if not matrix.any():
        return 0.0
    scaled, exponent = _scaled(matrix if len(matrix) <= matrix.shape[1] else matrix.T)
    square, lost = _times_transposed(scaled)
    steps = []
    for _ in range(_SQUARINGS):
        scaled, power = _scaled(square)
        steps.append((lost, power))
        square, lost = _times_transposed(scaled)
    bound = inflate(math.sqrt(float(np.square(square).sum())), square.size + 2) + lost
    for lost, power in reversed(steps):
        bound = math.ldexp(inflate(math.sqrt(inflate(bound, 1)), 2), power) + lost
    norm = inflate(math.sqrt(inflate(bound, 1)) + matrix.size * TINY, 3)
    return math.ldexp(norm, exponent)


def _scaled(matrix: np.ndarray) -> tuple[np.ndarray, int]:
    """The matrix by a power of two, its largest entry between 1/2 and 1, and that power.

    Entries that are 2^1021 times smaller lose digits: each less than the smallest number.
    """
    power = math.frexp(float(np.abs(matrix).max()))[1]
    return np.ldexp(matrix, -power), power


def _times_transposed(factor: np.ndarray) -> tuple[np.ndarray, float]:
    """factor @ factor.T, exactly symmetric, and how far it is off in the Frobenius norm.

    The two triangles may be summed in different orders; their mean is rounded once more. What the
    factor lost by scaling, and what underflows here, is below a smallest number per product.
    """
    product = factor @ factor.T
    size = inflate(float(np.square(factor).sum()), factor.size + 1)
    off = stray(factor.shape[1] + 1, size)
    lost = 4.0 * product.size * (factor.shape[1] + 1) * TINY
    return 0.5 * (product + product.T), inflate(off + lost, 3)
