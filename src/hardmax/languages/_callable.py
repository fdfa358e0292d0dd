"""Python functions as targets: nobody can look inside, so the user says how fast they change."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax._errors import DomainError, RequestError, SemanticsError
from hardmax.core import Box, EncodedTarget, Steps, by_arithmetic
from hardmax.languages.expressions._domain import named_box
from hardmax.languages.expressions._expression import check_name
from hardmax.numerics import Interval

_MOST_CORNERS = 10  # variables whose corners are worth visiting


@dataclass(frozen=True, eq=False)
class CallableFunction:
    """A Python function of named variables, with bounds that the user vouches for.

    It is called with one positional float array per variable, all of one length, and returns an
    array of that length, or a tuple of them for several outputs; a function that cannot take
    arrays is called point by point with floats. Its values are taken as exact.

    `lipschitz` bounds |df/dx_i|, one number for all variables or one each, so that f changes by
    at most the sum of lipschitz_i |change of x_i|. `second_derivative` bounds |d2f/dx_i2|
    likewise. `modulus` is a concave, increasing function w with |f(x) - f(y)| <= w(d) for points
    at distance d = sum |x_i - y_i|, for functions whose slope is unbounded. At least one of the
    three is needed; what is given is used.

        >>> f = CallableFunction(lambda x, y: x * y, ["x", "y"], lipschitz=1.0)
        >>> f([0.5, 0.5])
        array([0.25])
    """

    function: Callable[..., Any]
    variables: tuple[str, ...]
    outputs: int
    lipschitz: tuple[float, ...] | None
    second_derivative: tuple[float, ...] | None
    modulus: Callable[[float], float] | None

    def __init__(
        self,
        function: Callable[..., Any],
        variables: int | str | Iterable[str],
        *,
        outputs: int = 1,
        lipschitz: Any = None,
        second_derivative: Any = None,
        modulus: Callable[[float], float] | None = None,
    ) -> None:
        if not callable(function):
            raise RequestError(f"A Python function is needed, not {type(function).__name__}.")
        if not isinstance(outputs, int) or outputs < 1:
            raise RequestError(f"A function has at least one output, not {outputs!r}.")
        names = _names(variables)
        if lipschitz is None and second_derivative is None and modulus is None:
            raise RequestError(
                "Nothing is known between the points of a Python function; give lipschitz=..., "
                "second_derivative=... or modulus=..."
            )
        object.__setattr__(self, "function", function)
        object.__setattr__(self, "variables", names)
        object.__setattr__(self, "outputs", outputs)
        object.__setattr__(self, "modulus", modulus)
        first, second = "lipschitz", "second_derivative"
        object.__setattr__(self, first, _bounds(lipschitz, first, len(names)))
        object.__setattr__(self, second, _bounds(second_derivative, second, len(names)))

    @property
    def inputs(self) -> int:
        return len(self.variables)

    @property
    def parameters(self) -> None:
        return None

    def domain(self, on: object) -> Box:
        """The box that a user means, as `Function.domain` reads it."""
        return named_box(on, self.variables)

    def steps(self) -> Steps | None:
        """None: it is opaque."""
        return None

    def encode(self) -> EncodedTarget | None:
        """None: a Python function cannot be stored."""
        return None

    def __call__(self, x: Any, /) -> Any:
        return by_arithmetic(x, self.inputs, rows=self._rows, columns=self._columns)

    def _rows(self, x: np.ndarray) -> np.ndarray:
        if x.dtype == object:
            raise SemanticsError("A Python function has no exact values; use floats or intervals.")
        if not len(x):
            return np.zeros((0, self.outputs))
        with np.errstate(all="ignore"):  # what is not finite is refused below
            values = self._together(x)
            if values is None:
                values = np.concatenate([self._one(point) for point in x.tolist()])
        if not np.isfinite(values).all():
            row = int(np.argmin(np.isfinite(values).all(axis=1)))
            raise DomainError(f"The function gives {values[row].tolist()} at {x[row].tolist()}.")
        return values

    def _together(self, x: np.ndarray) -> np.ndarray | None:
        """All points in one call, or None if the function does not take arrays."""
        try:
            return self._answer_array(self.function(*np.array(x.T)), len(x))
        except (TypeError, ValueError, ArithmeticError):
            return None

    def _one(self, point: list[float]) -> np.ndarray:
        answer = self.function(*point)
        values = self._answer_array(answer, 1)
        if values is None:
            raise RequestError(
                f"The function must return {self.outputs} number"
                f"{'s' * (self.outputs != 1)}, but it returned {answer!r} at {point}."
            )
        return values

    def _answer_array(self, answer: object, points: int) -> np.ndarray | None:
        """The answer as a points x outputs array, if it is one."""
        parts = answer if self.outputs > 1 and isinstance(answer, tuple | list) else [answer]
        if len(parts) != self.outputs:
            return None
        try:
            columns = [np.asarray(part) for part in parts]
        except (TypeError, ValueError):
            return None
        if any(column.dtype.kind not in "fiub" for column in columns):
            return None
        if points == 1:
            columns = [column.reshape(-1) if column.size == 1 else column for column in columns]
        if any(column.shape != (points,) for column in columns):
            return None
        return np.stack(columns, axis=1).astype(np.float64)

    def _columns(self, x: Interval) -> Interval:
        """Enclosures over boxes, from values at the middle, at the corners, or both.

        With the Lipschitz bounds L_i, f stays within sum L_i w_i of its value at the middle,
        where w_i is the distance to the farther end. With bounds M_i on second derivatives, f
        differs from the multilinear interpolant of its corner values by at most
        sum M_i (b_i - a_i)^2 / 8 (one variable after the other, interpolation never enlarges a
        maximum), and the interpolant lies between the corner values.
        """
        flat = x.reshape(self.inputs, -1)
        bounds = []
        if self.lipschitz is not None:
            bounds.append(self._by_slope(flat, self.lipschitz))
        if self.second_derivative is not None:
            bounds.append(self._by_curvature(flat, self.second_derivative))
        if self.modulus is not None:
            bounds.append(self._by_modulus(flat, self.modulus))
        lo, hi = (np.max([b.lo for b in bounds], axis=0), np.min([b.hi for b in bounds], axis=0))
        if (lo > hi).any():
            raise RequestError("The values contradict the bounds given; check both of them.")
        return Interval(lo, hi).reshape(self.outputs, *x.shape[1:])

    def _by_slope(self, x: Interval, bounds: tuple[float, ...]) -> Interval:
        middle = np.clip(x.middle, x.lo, x.hi)
        values = Interval.point(self._rows(middle.T).T)
        reach = (Interval.point(x.hi) - middle).maximum(Interval.point(middle) - x.lo)
        return _widen_values(values, np.array([bounds]) @ reach)

    def _by_modulus(self, x: Interval, modulus: Callable[[float], float]) -> Interval:
        middle = np.clip(x.middle, x.lo, x.hi)
        values = Interval.point(self._rows(middle.T).T)
        reach = (Interval.point(x.hi) - middle).maximum(Interval.point(middle) - x.lo)
        far = np.ones((1, self.inputs)) @ reach
        most = np.array([[float(modulus(float(d))) for d in row] for row in far.hi])
        return _widen_values(values, Interval(np.zeros_like(most), most))

    def _by_curvature(self, x: Interval, bounds: tuple[float, ...]) -> Interval:
        if self.inputs > _MOST_CORNERS:
            raise RequestError(
                f"second_derivative alone visits 2^{self.inputs} corners; give lipschitz instead."
            )
        corners = np.array(list(itertools.product([False, True], repeat=self.inputs)))
        points = np.where(corners[:, :, None], x.hi, x.lo)  # corners x inputs x boxes
        rows = self._rows(np.moveaxis(points, 1, 2).reshape(-1, self.inputs))
        values = rows.reshape(len(corners), -1, self.outputs)
        hull = Interval(values.min(axis=0).T, values.max(axis=0).T)
        width = Interval.point(x.hi) - x.lo
        return _widen_values(hull, np.array([bounds]) @ (width * width * 0.125))

    def __repr__(self) -> str:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        return f"CallableFunction({name}({', '.join(self.variables)}))"


def _widen_values(values: Interval, by: Interval) -> Interval:
    reach = Interval(-by.hi, by.hi)
    return values + reach


def _names(variables: int | str | Iterable[str]) -> tuple[str, ...]:
    if isinstance(variables, int):
        variables = [f"x{i}" for i in range(variables)]
    elif isinstance(variables, str):
        variables = variables.replace(",", " ").split()
    names = tuple(variables)
    for name in names:
        check_name(name)
    if not names or len(set(names)) < len(names):
        raise RequestError("A function needs variables with different names.")
    return names


def _bounds(given: object, name: str, inputs: int) -> tuple[float, ...] | None:
    if given is None:
        return None
    try:
        bounds = tuple(float(b) for b in np.broadcast_to(np.asarray(given, dtype=float), (inputs,)))
    except (TypeError, ValueError):
        raise RequestError(
            f"{name} must be a number, or {inputs} of them, one per variable, not {given!r}."
        ) from None
    if not all(math.isfinite(bound) and bound >= 0.0 for bound in bounds):
        raise RequestError(f"{name} must be finite and at least 0, not {given!r}.")
    return bounds
