"""A function of one variable, in the three arithmetics that a proof needs."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hardmax._errors import DomainError, SemanticsError
from hardmax.languages import Expression, Variable, derivative, evaluate
from hardmax.numerics import FUNCTIONS, FunctionRecord, Interval

# What a function of balls may raise: a denominator that may be 0, or a kink inside a series.
NO_SERIES = (ValueError, ZeroDivisionError, SemanticsError)


@dataclass(frozen=True)
class Curve:
    """f on [low, high]: floats to search with, balls to prove with, signs of f'' to divide by.

    `value` takes and gives float arrays. `ball` takes a `flint.arb` or a `flint.arb_series` and
    gives the same, enclosing f. `second` encloses f'' on arrays of intervals, with infinite ends
    where f'' is unbounded or f' does not exist; `hull` encloses f itself, better than balls do at
    singular ends. Curves with equal `key` and ends are the same function, so that fits are
    remembered; without a key a curve equals only itself.
    """

    value: Callable[[np.ndarray], np.ndarray] = field(compare=False)
    ball: Callable[[Any], Any] = field(compare=False)
    low: float
    high: float
    second: Callable[[Interval], Interval] | None = field(default=None, compare=False)
    name: str = "f"
    key: Hashable = None
    hull: Callable[[Interval], Interval] | None = field(default=None, compare=False)
    function: FunctionRecord | None = field(default=None, compare=False)  # of x itself, if any

    def __post_init__(self) -> None:
        low, high = float(self.low), float(self.high)
        if not (np.isfinite(low) and np.isfinite(high) and low < high):
            raise DomainError(
                f"{self.name} needs a bounded interval, but got [{low}, {high}]. "
                "Give two finite ends, the smaller one first."
            )
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "key", object() if self.key is None else self.key)
        object.__setattr__(self, "high", high)

    def __repr__(self) -> str:
        return f"Curve({self.name} on [{self.low:g}, {self.high:g}])"

    @classmethod
    def of(cls, expression: Expression, variable: str, low: float, high: float) -> Curve:
        """The curve of an expression in one variable; with kinks there is no `second`."""
        try:
            bend = derivative(derivative(expression, variable), variable)
        except SemanticsError:
            bend = None  # a kink

        def value(x: np.ndarray) -> np.ndarray:
            return np.asarray(evaluate(expression, {variable: x}, "float"))

        def ball(x: Any) -> Any:
            return x * 0 + evaluate(expression, {variable: x}, "ball")

        def enclosing(inner: Expression) -> Callable[[Interval], Interval]:
            def enclosure(x: Interval) -> Interval:
                found = evaluate(inner, {variable: x}, "interval")
                lo, hi = (np.broadcast_to(end, x.shape) for end in (found.lo, found.hi))
                return Interval(lo, hi)

            return enclosure

        second, hull = None if bend is None else enclosing(bend), enclosing(expression)
        key = (expression, variable)
        record = FUNCTIONS.get(expression.operation)
        plain = record is not None and expression.arguments == (Variable(variable),)
        function = record if plain else None
        return cls(value, ball, low, high, second, str(expression), key, hull, function)

    @property
    def reach(self) -> float:
        """The largest |x|."""
        return max(abs(self.low), abs(self.high))

    def across(self, u: np.ndarray) -> np.ndarray:
        """From [-1, 1] to [low, high]."""
        return 0.5 * (self.low + self.high) + 0.5 * (self.high - self.low) * u

    def at(self, points: ArrayLike) -> np.ndarray:
        """Float values at points, with no warning at singular ends."""
        with np.errstate(all="ignore"):
            x = np.clip(np.asarray(points, dtype=np.float64), self.low, self.high)
            return np.broadcast_to(np.asarray(self.value(x), dtype=np.float64), x.shape)
