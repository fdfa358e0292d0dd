"""Bounds that stay true when float64 computes them: the outward operations of every room.

A bound is derived over the reals and evaluated in floats. Whoever evaluates one counts the
roundings and hands them to one of these functions; nobody writes a power of two.

    up(x), down(x)           one operation, correctly rounded
    inflate(bound, k)        a nonnegative bound that took k operations on nonnegative numbers
    stray(k, size, format)   how far k roundings take a sum whose terms add up to `size`
    sum_up, product_up, matmul_up    sums and products of nonnegative arrays, from above
    pair_sum, pair_product, ...      balls of arrays for hot loops, as (middles, radii)

Exact numbers (Fractions, and arrays of them) round nothing and come back as they are, so that a
formula written with these functions can be run over the rationals: the law that its floats lie
above its rationals is how the tests see each use of them.

Pairs make as few operations as can be. Unlike intervals nothing is clipped and nothing is checked:
a radius that is infinite or nan says that nothing is known, and whoever reads a pair has to see it.
Each operation computes its middle m in one rounding, which is off by at most u |m| (u = 2^-53, half
an ulp), computes the radius over the reals in a few more, and multiplies by FEW = 1 + 8 u, which
covers up to six roundings of nonnegative numbers besides its own product: (1 - u)^7 (1 + 8 u) > 1.
Products of tiny numbers lose up to half the smallest number each; sums and differences of floats do
not underflow.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeVar

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

Size = TypeVar("Size", float, np.ndarray)
Pair = tuple[np.ndarray, np.ndarray]  # middles and radii

FEW = 1.0 + 4.0 * STEP  # for kernels: times a nonnegative bound of up to six roundings
_LOST = 3.0 * TINY  # up to five products of a formula underflow, by half of it each
_ELEMENTARY = (FLOAT64.exp_units + 6.0) * UNIT  # trusted of exp and tanh, five roundings, and this


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
    near = nearest_float(number)
    return near if near <= number else math.nextafter(near, -math.inf)


def above_float(number: Fraction | int) -> float:
    """The smallest float that is at least an exact number."""
    near = nearest_float(number)
    return near if near >= number else math.nextafter(near, math.inf)


def nearest_ratio(over: int, under: int) -> float:
    """The float nearest to over / under; infinite beyond all floats, where it decides nothing."""
    try:
        return over / under  # division of whole numbers rounds once
    except OverflowError:
        return math.inf if (over > 0) == (under > 0) else -math.inf


def nearest_float(number: Fraction | float) -> float:
    """Of an exact number; infinite beyond all floats. A float stays itself."""
    if isinstance(number, float):
        return number
    return nearest_ratio(number.numerator, number.denominator)


def short_above(number: Fraction | float, bits: int = 12) -> Fraction:
    """A number of few bits, at most 0.1% above."""
    unit = Fraction(2) ** (math.frexp(float(number))[1] - bits)
    return math.ceil(Fraction(number) / unit) * unit


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


# ---- pairs (middles, radii) ----------------------------------------------------------------------


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
