"""Spectral norms from above, and how far sums of balls reach."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hardmax.numerics._outward import TINY, inflate, stray

_SQUARINGS = 10  # the bound exceeds a norm of rank r by a factor of r^(1/2^12) at most
_ROUNDS = 5  # of weights for balls; what more of them gain is below a part in a hundred
_LEAST_SHARE = 2.0**-40  # of a ball in the reach of all: less is not worth telling apart


def length_up(sizes: np.ndarray) -> float:
    """The 2-norm of a vector of nonnegative numbers, from above.

    >>> 5.0 <= length_up(np.array([3.0, 4.0])) <= 5.0 * (1 + 1e-12)
    True
    """
    largest = float(np.max(sizes, initial=0.0))
    if not 0.0 < largest < math.inf:
        return largest if largest == largest else math.inf  # nan means nothing
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
    with np.errstate(over="ignore", under="ignore"):
        back = float(np.ldexp(norm, exponent))
    return float(inflate(back, 1)) if back > 0.0 else TINY  # a subnormal result is rounded


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


def reach_of_balls(blocks: Sequence[np.ndarray], lengths: Sequence[float]) -> float:
    """sup |sum_g A_g u_g|_2 over all vectors u_g of the given lengths R_g at most, from above.

    For any numbers s_g > 0, by Cauchy and Schwarz, as A_g u_g = (s_g A_g)(u_g / s_g),

        |sum_g A_g u_g|  <=  |[s_1 A_1, s_2 A_2, ...]|  sqrt(sum_g (R_g/s_g)^2).

    With s_g^2 = R_g/|A_g| that is at most sum_g R_g |A_g|, and with R_g = 1 it is sqrt(2) instead
    of 2 where two balls move different coordinates. Better numbers are sought by a few steps: where
    v is the direction in which the balls reach furthest, s_g^2 turns to R_g/|A_g^T v|. Whatever is
    found, the bound holds.

    >>> one, other = np.array([[1.0], [0.0]]), np.array([[0.0], [1.0]])
    >>> math.sqrt(2) <= reach_of_balls([one, other], [1.0, 1.0]) <= math.sqrt(2) * (1 + 1e-3)
    True
    """
    balls = [(a, r) for a, r in zip(blocks, lengths, strict=True) if a.any() and r != 0.0]
    if not balls:
        return 0.0
    if not all(np.isfinite(a).all() and math.isfinite(r) for a, r in balls):
        return math.inf
    parts, radii = [a for a, _ in balls], np.array([r for _, r in balls])
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        scales = radii / np.sqrt(_shares(parts, radii))
        joined = np.concatenate([s * part for s, part in zip(scales, parts, strict=True)], axis=1)
        quotients = inflate(radii / scales, 1)
    # of the products; where all of them underflow they are not 0 for that
    rounded = stray(1, length_up(np.abs(joined).ravel())) + joined.size * TINY
    return float(inflate((norm_up(joined) + rounded) * length_up(quotients), 2))


def _shares(blocks: Sequence[np.ndarray], radii: np.ndarray) -> np.ndarray:
    """How much of the reach each ball makes, roughly: positive numbers that sum to about 1."""
    if len(blocks) == 1:
        return np.ones(1)
    scale = max(float(np.abs(r * block).max()) for r, block in zip(radii, blocks, strict=True))
    scaled = [r / scale * block for r, block in zip(radii, blocks, strict=True)]
    squares = np.stack([block @ block.T for block in scaled])
    if not (scale > 0.0 and np.isfinite(squares).all()):  # beyond all floats: alike
        return np.full(len(blocks), 1.0 / len(blocks))
    share = np.sqrt(np.trace(squares, axis1=1, axis2=2))
    best, least = np.maximum(share / share.sum(), _LEAST_SHARE), math.inf
    for _ in range(_ROUNDS):
        share = np.maximum(share / share.sum(), _LEAST_SHARE)
        values, vectors = np.linalg.eigh(np.tensordot(1.0 / share, squares, axes=1))
        if values[-1] < least:
            best, least = share, float(values[-1])
        # directions count by how far the balls reach there, so that the furthest two take turns
        far = vectors * np.maximum(values / values[-1], 0.0) ** 2
        moved = np.sqrt(np.einsum("ia,gij,ja->g", far, squares, far, optimize=True))
        share = 0.5 * (share + moved / moved.sum())
    return best
