"""The operations of expressions in one arithmetic: floats, intervals or Fractions.

Functions of one variable come from their records; what is written here is what takes several
arguments: sums, products, quotients, minima and maxima.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, reduce
from operator import add, mul, truediv
from typing import Generic, TypeVar

import numpy as np

from hardmax._errors import SemanticsError
from hardmax.numerics import Exact, FunctionRecord, Interval, exact

Value = TypeVar("Value")
Floats = np.ndarray | np.floating


@dataclass(frozen=True)
class Arithmetic(Generic[Value]):
    """How numbers, given values and operations are written in one arithmetic."""

    number: Callable[[Fraction], Value]
    given: Callable[[object], Value]
    larger: Callable[[Value, Value], Value]
    smaller: Callable[[Value, Value], Value]
    function: Callable[[FunctionRecord, Value], Value]

    def apply(self, operation: str, operands: list[Value]) -> Value:
        """An operation on several operands, by its name."""
        return reduce(self._joining(operation), operands)

    def _joining(self, operation: str) -> Callable[[Value, Value], Value]:
        match operation:
            case "add":
                return add
            case "multiply":
                return mul
            case "divide":
                return truediv
            case "maximum":
                return self.larger
        assert operation == "minimum"
        return self.smaller


@cache
def floats() -> Arithmetic[Floats]:
    return Arithmetic(
        number=lambda value: np.float64(float(value)),
        given=lambda value: np.asarray(value, dtype=np.float64)[()],
        larger=np.maximum,
        smaller=np.minimum,
        function=lambda record, x: record.floats(np.asarray(x))[()],
    )


@cache
def intervals() -> Arithmetic[Interval]:
    return Arithmetic(
        number=Interval.point,
        given=lambda v: v if isinstance(v, Interval) else Interval.point(v),
        larger=Interval.maximum,
        smaller=Interval.minimum,
        function=lambda record, x: record.intervals(x),
    )


@cache
def fractions() -> Arithmetic[Exact]:
    def function(record: FunctionRecord, x: Exact) -> Exact:
        if record.fractions is None:
            raise SemanticsError(f"{record.title} has irrational values; use balls or intervals.")
        return record.fractions(x)

    return Arithmetic(
        number=lambda value: value,
        given=lambda value: exact(value)[()],
        larger=_larger_fraction,
        smaller=lambda a, b: -_larger_fraction(-a, -b),
        function=function,
    )


def _larger_fraction(a: Exact, b: Exact) -> Exact:
    larger: Exact = np.asarray(np.maximum(np.asarray(a, object), np.asarray(b, object)))[()]
    return larger
