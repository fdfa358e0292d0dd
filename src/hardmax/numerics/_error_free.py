"""Sums and products of arrays of floats without any error: as double-doubles.

A double-double (high, low) is the number high + low, over the reals, with high the float nearest to
it. The sum of two floats is one (Knuth: of any two floats whose sum does not overflow), and so is
the product (Dekker, by halves of 26 bits), as long as nothing underflows: `are_moderate` says where
that is so.

Sums and products of double-doubles need up to four floats. Where two suffice, as they do if terms
are short or of like exponents, the functions below give them; elsewhere they give None, and whoever
asked computes with rationals.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

DoubleDouble: TypeAlias = tuple[np.ndarray, np.ndarray]
Numbers: TypeAlias = np.ndarray | float

_HALVES = 134217729.0  # 2^27 + 1
_MODEST = 2.0**400
_LOST = 2.0**-98  # of a product, by what is said there


def are_moderate(values: np.ndarray | float, largest: float = _MODEST) -> bool:
    """Whether each of these is 0 or lies, in absolute value, between 1/largest and largest.

    With the largest of 2^400 products are exact: such a float is a multiple of 2^-452, a product of
    two of them, and each part of it, a multiple of 2^-904, which floats hold, and below 2^801.
    """
    if isinstance(values, float):
        return 1.0 / largest <= abs(values) <= largest or values == 0.0
    sizes = np.abs(values)
    if not np.maximum.reduce(sizes, initial=0.0) <= largest:  # nan compares false
        return False
    if np.minimum.reduce(sizes, initial=largest) >= 1.0 / largest:
        return True
    return bool(np.all((sizes >= 1.0 / largest) | (sizes == 0.0)))


def exact_sum(a: np.ndarray, b: np.ndarray) -> DoubleDouble:
    """a + b."""
    high = a + b
    there = high - a
    return high, (a - (high - there)) + (b - there)


def exact_product(a: np.ndarray, b: Numbers) -> DoubleDouble:
    """a * b, of moderate numbers."""
    high = a * b
    (c, d), (e, f) = _halves(a), _halves(b)
    return high, d * f - (((high - c * e) - d * e) - c * f)


def _halves(a: Numbers) -> tuple[Numbers, Numbers]:
    large = _HALVES * a
    high = large - (large - a)
    return high, a - high


def sum_of_double_doubles(a: DoubleDouble, b: DoubleDouble) -> DoubleDouble | None:
    """a + b, if two floats suffice, each of them.

    With s + e the sum of the high parts and t + f that of the low ones: if f = 0 and e + t is a
    float, the whole is the sum of s and that float.
    """
    high, off = exact_sum(a[0], b[0])
    low, lost = exact_sum(a[1], b[1])
    low, more = exact_sum(off, low)
    if lost.any() or more.any():
        return None
    return exact_sum(high, low)


def product_of_double_doubles(a: DoubleDouble, b: Numbers) -> DoubleDouble | None:
    """a * b, b being floats and all parts moderate, if two floats suffice, each of them."""
    high, off = exact_product(a[0], b)
    low, lost = exact_product(a[1], b)
    low, more = exact_sum(off, low)
    if lost.any() or more.any():
        return None
    return exact_sum(high, low)


def nearest_products(a: DoubleDouble, factor: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    """The floats nearest to a * f, and where that is sure; f is within 2^-106 of `factor`.

    All numbers are moderate. Let p + e be the product of the high parts. What is to be added to p
    is e and the two products of a high part with a low one, which are rounded, as are their sums:
    four roundings of numbers up to 2^-52 |p| in all, and a product of low parts is left out. So
    2^-100 |p| is more than what is lost. Rounding is monotone: where p plus a little less than
    that, and p plus a little more, are rounded to the same float, that is the nearest one.
    """
    product, off = exact_product(a[0], factor[0])
    more = off + (a[0] * factor[1] + a[1] * factor[0])
    lost = np.abs(product) * _LOST
    low, high = product + (more - lost), product + (more + lost)
    return high, low == high
