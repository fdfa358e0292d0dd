"""Balls of arrays for hot loops: pairs (middles, radii), as few operations as can be.

Unlike intervals nothing is clipped and nothing is checked: a radius that is infinite or nan says
that nothing is known, and whoever reads a pair has to see it. Each operation computes its middle m
in one rounding, which is off by at most u |m| (u = 2^-53, half an ulp), computes the radius over
the reals in a few more, and multiplies by FEW = 1 + 8 u, which covers up to six roundings of
nonnegative numbers besides its own product: (1 - u)^7 (1 + 8 u) > 1. Products of tiny numbers
lose up to half the smallest number each; sums and differences of floats do not underflow.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from hardmax.numerics._formats import FLOAT64
from hardmax.numerics._outward import STEP, TINY, UNIT

Size = TypeVar("Size", float, np.ndarray)
Pair = tuple[np.ndarray, np.ndarray]  # middles and radii

FEW = 1.0 + 4.0 * STEP  # for kernels: times a nonnegative bound of up to six roundings
_LOST = 3.0 * TINY  # up to five products of a formula underflow, by half of it each
_ELEMENTARY = (FLOAT64.exp_units + 6.0) * UNIT  # trusted of exp and tanh, five roundings, and this


def pair_product(a: Pair, b: Pair) -> Pair:
    """Products, broadcast: |xy - mn| <= |m| s + r (|n| + s) for |x - m| <= r, |y - n| <= s."""
    m = a[0] * b[0]
    radius = np.abs(a[0]) * b[1] + a[1] * (np.abs(b[0]) + b[1])
    return m, (radius + np.abs(m) * UNIT) * FEW + _LOST


def pair_sum(a: Pair, b: Pair) -> Pair:
    """Sums, broadcast."""
    m = a[0] + b[0]
    return m, (a[1] + b[1] + np.abs(m) * UNIT) * FEW


def pair_square(a: Pair) -> Pair:
    """x^2 for |x - m| <= r: between the squares of |m| - r, if that is positive, and |m| + r.

    Three roundings each: of the sum, which counts twice, and of the product.
    """
    size = np.abs(a[0])
    low = np.maximum(size - a[1], 0.0) ** 2
    high = (size + a[1]) ** 2
    return pair_between(low * (2.0 - FEW) - TINY, high * FEW + TINY)


def pair_between(low: np.ndarray, high: np.ndarray) -> Pair:
    """All of [low, high], around the float that is taken for its middle."""
    m = 0.5 * (low + high)
    return m, np.maximum(high - m, m - low) * FEW


def pair_ends(a: Pair) -> Pair:
    """Lower and upper ends, outward: the last sum is off by at most u (|m| + its pad)."""
    pad = (a[1] + np.abs(a[0]) * UNIT) * FEW
    return a[0] - pad, a[0] + pad


def pair_of_values(low: np.ndarray, high: np.ndarray) -> Pair:
    """Around ends that took one elementary function and up to four roundings of relative kind."""
    return pair_between(*elementary_ends(low, high))


def elementary_ends(low: Size, high: Size) -> tuple[Size, Size]:
    """Outward from ends that took one elementary function and up to four relative roundings.

    exp and tanh are trusted to `ELEMENTARY_ULPS`, as everywhere in this room.
    """
    return low - (np.abs(low) * _ELEMENTARY + TINY), high + (np.abs(high) * _ELEMENTARY + TINY)


def pair_radius(radius: Size, size: Size, roundings: int) -> Size:
    """The radius about a sum m of products that took so many roundings: |x - m| <= radius.

    The exact sum of terms that add up to `size` in absolute value strays from m by at most
    gamma_k size (k = roundings), and x from the exact sum by `radius`. Both bounds were computed
    in floats, with at most k roundings each: together (1 - u)^-(k + 4) / (1 - k u), which
    1 + (2 k + 8) u exceeds while k < 2^26. Each of k products may underflow.
    """
    total = radius + size * (roundings * UNIT)
    return total * (1.0 + (roundings + 4) * STEP) + roundings * TINY


def grown(bound: Size, roundings: int) -> Size:
    """`inflate` without its branches: a nonnegative bound of so many roundings, nan left as it is.

    (1 - u)^-(k + 2) is below 1 + (2 k + 4) u, and each of k products may underflow.
    """
    return bound * (1.0 + (roundings + 2) * STEP) + roundings * TINY


def pair_total(terms: Pair) -> Pair:
    """The sum over the first axis."""
    middle, radius = terms
    return middle.sum(axis=0), pair_radius(
        radius.sum(axis=0), np.abs(middle).sum(axis=0), len(middle)
    )
