"""Bounds that stay true when float64 computes them: the outward operations of every room.

A bound is derived over the reals and evaluated in floats. Whoever evaluates one counts the
roundings and hands them to one of these functions; nobody writes a power of two.

    up(x), down(x)           one operation, correctly rounded
    inflate(bound, k)        a nonnegative bound that took k operations on nonnegative numbers
    stray(k, size, format)   how far k roundings take a sum whose terms add up to `size`
    sum_up, product_up, matmul_up    sums and products of nonnegative arrays, from above

Exact numbers (Fractions, and arrays of them) round nothing and come back as they are, so that a
formula written with these functions can be run over the rationals: the law that its floats lie
above its rationals is how the tests see each use of them.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hardmax.numerics._formats import FLOAT64, Format

UNIT = FLOAT64.unit  # half an ulp of 1
STEP = 2.0 * UNIT
TINY = FLOAT64.smallest  # covers one underflow
FAINT = 1e-300  # covers 2^70 of them
GROWN = 1.0 + 2.0**-30  # for kernels: times a nonnegative bound of up to 2^20 roundings
_LARGEST = FLOAT64.largest
_WIDER = np.finfo(np.longdouble).nmant >= FLOAT64.digits
_OWN_ROUNDING = 1.0 + 8.0 * UNIT  # of gamma's formula, which is itself evaluated in floats


def is_exact_number(x: object) -> bool:
    """Fractions, and arrays of them: arithmetic on these rounds nothing.

    Floats with more digits than float64 count as such, where there are any: what float64 rounds
    they hold nearly, so that formulas with exponentials can be run beside it, too.
    """
    if isinstance(x, np.ndarray | np.generic):
        return bool(x.dtype.hasobject or (x.dtype == np.longdouble and _WIDER))
    return isinstance(x, Fraction)


def down(x: Any) -> Any:
    """At most the exact result of the one operation whose correctly rounded result is x.

    A correctly rounded result is within half an ulp, and |x| 2^-52 is at least an ulp; subnormal
    results are off by less than the smallest number. Sums that come out as 0 are 0, and 0 stays
    (a product that may underflow needs `product_up`). An overflow to infinity means no more than
    that the number was huge, nan means nothing.
    """
    if is_exact_number(x):
        return x
    if np.ndim(x) == 0:
        r = min(float(x), _LARGEST) if x == x else -math.inf
        return r - (abs(r) * STEP + TINY) if r else r
    r = np.minimum(x, _LARGEST)
    with np.errstate(over="ignore", invalid="ignore"):
        below = np.abs(r)  # in place from here on: large arrays are what takes time
        below *= STEP
        below += TINY
        np.subtract(r, below, out=below)
    np.copyto(below, r, where=r == 0.0)
    np.copyto(below, -np.inf, where=~(below >= -_LARGEST))
    return below


def up(x: Any) -> Any:
    """At least the exact result of the one operation whose correctly rounded result is x."""
    return -down(-x)


def gamma(terms: ArrayLike, format: Format = FLOAT64) -> Any:
    """gamma_n = n u / (1 - n u): the relative error of n roundings, whatever their order.

    A sum of n products, each product and each addition rounded once, with or without fused
    operations, differs from the real sum by at most gamma_n times the sum of absolute values
    (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1). Infinite when
    n u >= 1, where nothing can be promised.
    """
    if type(terms) is int:
        return _gamma_of(terms, format.unit)
    nu = np.asarray(terms, dtype=np.float64) * format.unit
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = np.where(nu < 1.0, nu / np.maximum(1.0 - nu, 0.0), np.inf)
    bound = bound * _OWN_ROUNDING
    return float(bound) if np.ndim(terms) == 0 else bound


@lru_cache(maxsize=4096)
def _gamma_of(terms: int, unit: float) -> float:
    """The same for one number, which most bounds ask for again and again."""
    nu = terms * unit
    return nu / (1.0 - nu) * _OWN_ROUNDING if nu < 1.0 else math.inf


def inflate(bound: Any, operations: int = 8) -> Any:
    """At least the exact value of a nonnegative bound that took so many roundings to compute.

    Sums, products, quotients and roots of nonnegative numbers lose at most a factor 1 - u each,
    and the smallest number where they underflow (which a later product with a number up to 2^60
    may enlarge). A bound of 0 is one whose terms are all 0; nan means nothing and becomes
    infinite.
    """
    if is_exact_number(bound):
        return bound
    factor, lost = 1.0 + 2.0 * gamma(operations + 1), operations * TINY
    if np.ndim(bound) == 0:
        size = float(bound)
        return math.inf if size != size else (size * factor + lost if size > 0.0 else 0.0)
    bound = np.asarray(bound)
    with np.errstate(over="ignore", invalid="ignore"):
        grown = bound * factor  # in place from here on, as in `down`
        grown += lost
    np.copyto(grown, 0.0, where=bound <= 0.0)
    np.copyto(grown, np.inf, where=grown != grown)
    return grown


def stray(terms: ArrayLike, size: Any, format: Format = FLOAT64) -> Any:
    """How far a sum of so many products strays, |terms| adding up to `size`; with underflow.

    Each product may also lose the format's smallest number; sums do not underflow. Where `size`
    is 0 all terms are 0, and nothing strays. There is room for a few roundings of what is made of
    it: it lies a factor 1 + 16 u above, and above twice as many underflows of float64.
    """
    if is_exact_number(size):
        return 0 * size
    lost = format.smallest * (np.asarray(terms) + 1.0)
    with np.errstate(over="ignore", invalid="ignore"):
        away = inflate(gamma(terms, format) * size) + lost
    away = np.where(np.asarray(size) <= 0.0, 0.0, away)
    return float(away) if np.ndim(size) == 0 and np.ndim(terms) == 0 else away


def sum_up(sizes: ArrayLike, axis: int | None = None) -> Any:
    """The sum of nonnegative numbers along an axis, from above."""
    sizes = np.asarray(sizes)
    count = sizes.size if axis is None else sizes.shape[axis]
    with np.errstate(over="ignore", invalid="ignore"):
        return inflate(sizes.sum(axis=axis), count + 1)


def product_up(first: Any, second: Any) -> Any:
    """The product of nonnegative numbers, from above; 0 only where a factor is 0."""
    if is_exact_number(first) or is_exact_number(second):
        return first * second
    first, second = np.asarray(first), np.asarray(second)
    nothing = (first <= 0.0) | (second <= 0.0)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        size = first * second * (1.0 + 2.0 * STEP) + TINY
    size = np.where(nothing, 0.0, np.where(np.isnan(size), np.inf, size))
    return float(size) if size.ndim == 0 else size


def matmul_up(matrix: Any, sizes: Any) -> Any:
    """matrix @ sizes for nonnegative arrays, from above; 0 where every product is 0.

    A dot product of k terms is good to a factor 1 + gamma_k, and each product may underflow.
    """
    if is_exact_number(matrix) or is_exact_number(sizes):
        return matrix @ sizes
    matrix, sizes = np.asarray(matrix), np.asarray(sizes)
    some = (matrix != 0.0).astype(float) @ (sizes != 0.0).astype(float)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        total = (matrix @ sizes) * (1.0 + 2.0 * gamma(matrix.shape[-1] + 2)) + some * TINY
    return np.where(some > 0.0, np.where(np.isnan(total), np.inf, total), 0.0)


def below_float(number: Fraction | int) -> float:
    """The largest float that is at most an exact number."""
    near = _nearest(number)
    return near if near <= number else math.nextafter(near, -math.inf)


def above_float(number: Fraction | int) -> float:
    """The smallest float that is at least an exact number."""
    near = _nearest(number)
    return near if near >= number else math.nextafter(near, math.inf)


def _nearest(number: Fraction | int) -> float:
    try:
        return float(number)
    except OverflowError:  # beyond all floats
        return math.inf if number > 0 else -math.inf


def is_coarse(values: np.ndarray) -> bool:
    """Whether all numbers are multiples of 2^-8 below 2^8, as flags and codes are.

    A product of two, and sums of such products, are computed in float64 without rounding.
    """
    scaled = values * 2.0**8
    return bool((np.abs(values) <= 2.0**8).all() and (scaled == np.round(scaled)).all())


def is_power_of_two(values: ArrayLike) -> np.ndarray:
    """Which numbers are 0 or a power of two up to sign: multiplying by them rounds nothing."""
    mantissa, _ = np.frexp(values)
    return np.asarray((np.abs(mantissa) == 0.5) | (np.asarray(values) == 0.0))
