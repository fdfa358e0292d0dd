"""How far floating-point sums stray from real ones, for any order of summation."""

from __future__ import annotations

from typing import Any

import numpy as np

UNIT_ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
TINY = 5e-324  # the smallest positive float64: covers one underflow
_SMALLEST = {2.0**-53: TINY, 2.0**-24: 2.0**-149, 2.0**-11: 2.0**-24, 2.0**-8: 2.0**-133}
LARGEST = {"float64": 1.7e308, "float32": 3.4e38, "float16": 65504.0, "bfloat16": 3.3e38}


def gamma(terms: Any, unit: float = 2.0**-53) -> Any:
    """gamma_n = n u / (1 - n u): the relative error of n roundings, whatever their order.

    A sum of n products, each product and each addition rounded once, with or without fused
    operations, differs from the real sum by at most gamma_n times the sum of absolute values
    (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1). Infinite when
    n u >= 1, where nothing can be promised.
    """
    nu = np.asarray(terms, dtype=np.float64) * unit
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = np.where(nu < 1.0, nu / np.maximum(1.0 - nu, 0.0), np.inf)
    bound = bound * (1 + 2.0**-50)  # this formula is itself evaluated in floats
    return float(bound) if np.ndim(terms) == 0 else bound


def stray(terms: Any, size: Any, unit: float) -> Any:
    """How far a sum of so many products strays, |terms| adding up to `size`; with underflow.

    Each product may also lose the format's smallest number; sums do not underflow. Where `size`
    is 0 all terms are 0, and nothing strays.
    """
    lost = _SMALLEST.get(unit, 0.0) * (np.asarray(terms) + 1.0)
    return np.where(np.asarray(size) > 0.0, inflate(gamma(terms, unit) * size) + lost, 0.0)


def inflate(bound: Any, operations: int = 8) -> Any:
    """A bound computed with `operations` roundings in nonnegative floats, made safe upwards."""
    return bound * (1.0 + 2.0 * gamma(operations))


def is_representable(values: np.ndarray, unit: float) -> np.ndarray:
    """Which float64 numbers have so few digits that a format of this unit roundoff holds them."""
    if unit <= UNIT_ROUNDOFF["float64"]:
        return np.ones(np.shape(values), dtype=bool)
    mantissa, _ = np.frexp(values)
    scaled = mantissa / unit
    return scaled == np.round(scaled)


def is_coarse(values: np.ndarray) -> bool:
    """Whether all numbers are multiples of 2^-8 below 2^8, as flags and codes are.

    A product of two, and sums of such products, are computed in float64 without rounding.
    """
    scaled = values * 2.0**8
    return bool((np.abs(values) <= 2.0**8).all() and (scaled == np.round(scaled)).all())


def is_power_of_two(values: np.ndarray) -> np.ndarray:
    """Which numbers are 0 or a power of two up to sign: multiplying by them rounds nothing."""
    mantissa, _ = np.frexp(values)
    return np.asarray((np.abs(mantissa) == 0.5) | (values == 0.0))
