"""What a step does that applies a named function: floats, Fractions or intervals."""

from __future__ import annotations

from fractions import Fraction
from typing import TypeVar

import numpy as np

from hardmax._errors import DomainError, SemanticsError
from hardmax.numerics import Interval, record_of

Values = TypeVar("Values", Interval, np.ndarray)


def apply_univariate(name: str, x: Values, exponent: float | Fraction = 1.0) -> Values:
    """The named function of an `Interval`, of floats, or of Fractions (in an object array).

    Floats outside the domain of definition give nan or infinities, as in NumPy; intervals give
    [-inf, inf]; Fractions are refused.
    """
    function = record_of(name, exponent)
    if isinstance(x, Interval):
        return function.intervals(x)
    if np.asarray(x).dtype.kind != "O":
        with np.errstate(all="ignore"):
            return function.floats(x)
    if function.fractions is None:
        raise SemanticsError(f"{function.title} has irrational values; use floats or intervals.")
    try:
        return np.asarray(function.fractions(x))
    except ZeroDivisionError:
        raise DomainError(f"The {name} of 0 is not defined; use points away from 0.") from None
