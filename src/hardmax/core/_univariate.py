"""The named functions of one variable that a step may apply, in three arithmetics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from hardmax import numerics
from hardmax._errors import DomainError, SemanticsError
from hardmax.numerics import Interval, sigmoid_of_floats

Exponent = float | Fraction
_ZERO: Any = Fraction(0)


@dataclass(frozen=True)
class NamedFunction:
    """One function on floats, on intervals, and on Fractions where its values are rational.

    Every entry takes the argument and the exponent, which only `power` looks at.
    """

    floats: Callable[[Any, Exponent], Any]
    intervals: Callable[[Interval, Exponent], Interval]
    fractions: Callable[[Any, Exponent], Any] | None = None


def _plain(
    floats: Callable[[Any], Any], intervals: Callable[[Interval], Interval]
) -> NamedFunction:
    return NamedFunction(lambda x, _: floats(x), lambda x, _: intervals(x))


def _rational(
    floats: Callable[[Any], Any],
    intervals: Callable[[Interval], Interval],
    fractions: Callable[[Any], Any],
) -> NamedFunction:
    return NamedFunction(
        lambda x, _: floats(x), lambda x, _: intervals(x), lambda x, _: fractions(x)
    )


def _power_of_fractions(x: Any, exponent: Exponent) -> Any:
    if Fraction(exponent).denominator != 1:
        raise SemanticsError(
            f"A power with exponent {exponent} has irrational values; use floats or intervals."
        )
    return x ** int(exponent)


UNIVARIATE: dict[str, NamedFunction] = {
    "relu": _rational(
        lambda x: np.maximum(x, 0), lambda x: x.maximum(0.0), lambda x: np.maximum(x, _ZERO)
    ),
    "abs": _rational(np.abs, numerics.absolute, abs),
    "exp": _plain(np.exp, numerics.exp),
    "log": _plain(np.log, numerics.log),
    "sqrt": _plain(np.sqrt, numerics.sqrt),
    "sin": _plain(np.sin, numerics.sin),
    "cos": _plain(np.cos, numerics.cos),
    "tan": _plain(np.tan, numerics.tan),
    "tanh": _plain(np.tanh, numerics.tanh),
    "sigmoid": _plain(sigmoid_of_floats, numerics.sigmoid),
    "reciprocal": _rational(lambda x: 1.0 / x, numerics.reciprocal, lambda x: Fraction(1) / x),
    "power": NamedFunction(
        lambda x, exponent: np.power(x, float(exponent)), numerics.power, _power_of_fractions
    ),
}


def apply_univariate(name: str, x: Any, exponent: Exponent = 1.0) -> Any:
    """The named function of an `Interval`, of floats, or of Fractions (in an object array).

    Floats outside the domain of definition give nan or infinities, as in NumPy; intervals give
    [-inf, inf]; Fractions are refused.
    """
    function = UNIVARIATE[name]
    if isinstance(x, Interval):
        return function.intervals(x, exponent)
    if np.asarray(x).dtype.kind != "O":
        with np.errstate(all="ignore"):
            return function.floats(x, exponent)
    if function.fractions is None:
        raise SemanticsError(f"{name} has irrational values; use floats or intervals.")
    try:
        return function.fractions(x, exponent)
    except ZeroDivisionError:
        raise DomainError(f"The {name} of 0 is not defined; use points away from 0.") from None
