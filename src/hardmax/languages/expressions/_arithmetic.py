"""The operations of expressions in floats, intervals and Fractions, one table each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, reduce
from operator import add, mul, truediv
from typing import Any

import numpy as np

from hardmax import numerics
from hardmax._errors import SemanticsError
from hardmax.numerics import Interval, exact, sigmoid_of_floats


@dataclass(frozen=True)
class Arithmetic:
    """How numbers, given values and operations are written in one arithmetic.

    `operations` take their arguments one by one, and `power` the exponent after them.
    """

    number: Callable[[Fraction], Any]
    given: Callable[[Any], Any]
    operations: Mapping[str, Callable[..., Any]]


def _folding(operation: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda *operands: reduce(operation, operands)


@cache
def floats() -> Arithmetic:
    operations: dict[str, Callable[..., Any]] = {
        "add": _folding(add),
        "multiply": _folding(mul),
        "divide": truediv,
        "power": lambda x, n: np.power(x, float(n)),
        "minimum": _folding(np.minimum),
        "maximum": _folding(np.maximum),
        "abs": np.abs,
        "relu": lambda x: np.maximum(x, 0.0),
        "sigmoid": sigmoid_of_floats,
    }
    operations |= {name: getattr(np, name) for name in ("exp", "log", "sqrt", "sin", "cos")}
    operations |= {name: getattr(np, name) for name in ("tan", "tanh")}
    given = lambda value: np.asarray(value, dtype=np.float64)[()]  # noqa: E731
    return Arithmetic(lambda value: np.float64(float(value)), given, operations)


@cache
def intervals() -> Arithmetic:
    operations: dict[str, Callable[..., Any]] = {
        "add": _folding(add),
        "multiply": _folding(mul),
        "divide": truediv,
        "power": numerics.power,
        "minimum": _folding(Interval.minimum),
        "maximum": _folding(Interval.maximum),
        "abs": numerics.absolute,
        "relu": lambda x: x.maximum(0.0),
        "exp": numerics.exp,
        "log": numerics.log,
        "sqrt": numerics.sqrt,
        "sin": numerics.sin,
        "cos": numerics.cos,
        "tan": numerics.tan,
        "tanh": numerics.tanh,
        "sigmoid": numerics.sigmoid,
    }
    given = lambda v: v if isinstance(v, Interval) else Interval.point(v)  # noqa: E731
    return Arithmetic(Interval.point, given, operations)


@cache
def fractions() -> Arithmetic:
    zero: Any = Fraction(0)

    def power(x: Any, n: Fraction) -> Any:
        if n.denominator != 1:
            raise SemanticsError(f"A power of exponent {n} is irrational; use balls or intervals.")
        return x ** int(n)

    def irrational(name: str) -> Callable[..., Any]:
        def refuse(_: Any) -> Any:
            raise SemanticsError(f"{name} has irrational values; use balls or intervals.")

        return refuse

    operations: dict[str, Callable[..., Any]] = {
        "add": _folding(add),
        "multiply": _folding(mul),
        "divide": truediv,
        "power": power,
        "minimum": _folding(np.minimum),
        "maximum": _folding(np.maximum),
        "abs": abs,
        "relu": lambda x: np.maximum(x, zero),
    }
    rest = ("exp", "log", "sqrt", "sin", "cos", "tan", "tanh", "sigmoid")
    operations |= {name: irrational(name) for name in rest}
    return Arithmetic(lambda value: value, lambda value: exact(value)[()], operations)
