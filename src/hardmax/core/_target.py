"""What a claim is about: a function that can be called on numbers, rationals and intervals.

Languages implement `Target`; the waist never looks inside. A target may open itself up as
`Steps`, a straight-line program whose inner values a witness can point at. `by_arithmetic` hands
the argument of a call to the arithmetic that it is written in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol, TypeVar, overload, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from hardmax._errors import DomainError, SemanticsError, ShapeError
from hardmax.numerics import FUNCTION_NAMES, Interval, exact, finite_array, frozen_array, record_of

Values = TypeVar("Values", Interval, np.ndarray)
Numbers = ArrayLike | Sequence[Fraction]  # floats, whole numbers or Fractions, batches included
Rows = Callable[[np.ndarray], np.ndarray]
Columns = Callable[[Interval], Interval]


@dataclass(frozen=True, eq=False)
class Affine:
    """weights @ (the sources, one below the other) + bias."""

    sources: tuple[int, ...]
    weights: np.ndarray
    bias: np.ndarray

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", finite_array(self.weights, "weights", ndim=2))
        object.__setattr__(self, "bias", finite_array(self.bias, "bias", ndim=1))
        if self.bias.shape != self.weights.shape[:1]:
            raise ShapeError(f"An affine step of {self.weights.shape} has bias {self.bias.shape}.")
        if not self.weights.size:
            raise ShapeError(f"An affine step needs rows and columns, not {self.weights.shape}.")

    @property
    def size(self) -> int:
        return self.weights.shape[0]


@dataclass(frozen=True, eq=False)
class Maximum:
    """One maximum per row of `groups`, over the components it names (-1 fills short rows)."""

    sources: tuple[int, ...]
    groups: np.ndarray

    def __post_init__(self) -> None:
        given = np.asarray(self.groups)
        groups = frozen_array(given.astype(np.int64) if given.dtype.kind in "iu" else np.zeros(0))
        if groups.ndim != 2 or not groups.size or not (groups >= 0).any(axis=1).all():
            raise ShapeError("A maximum step needs a table of components, none of its rows empty.")
        if groups.min() < -1:
            raise ShapeError(f"Rows of a maximum step are filled by -1, not by {groups.min()}.")
        object.__setattr__(self, "groups", groups)

    @property
    def size(self) -> int:
        return self.groups.shape[0]


@dataclass(frozen=True, eq=False)
class Univariate:
    """A named function of one variable, applied to every component.

    The exponent belongs to `power` alone; one that float64 does not hold is a Fraction.
    """

    sources: tuple[int, ...]
    name: str
    size: int
    exponent: float | Fraction = 1.0

    def __post_init__(self) -> None:
        if self.name not in FUNCTION_NAMES:
            raise ShapeError(
                f"There is no function {self.name!r}; there are {', '.join(FUNCTION_NAMES)}."
            )
        if not np.isfinite(float(self.exponent)):
            raise ShapeError(f"The exponent of a power must be finite, not {self.exponent}.")


@dataclass(frozen=True, eq=False)
class Product:
    """One product per row of `pairs`, of the two components it names."""

    sources: tuple[int, ...]
    pairs: np.ndarray

    def __post_init__(self) -> None:
        pairs = frozen_array(np.asarray(self.pairs, dtype=np.int64))
        if pairs.ndim != 2 or pairs.shape[1] != 2 or not pairs.size or (pairs < 0).any():
            raise ShapeError("A product step needs a table of pairs of components.")
        object.__setattr__(self, "pairs", pairs)

    @property
    def size(self) -> int:
        return self.pairs.shape[0]


Step = Affine | Maximum | Univariate | Product


@dataclass(frozen=True, eq=False)
class Steps:
    """A straight-line program.

    Value 0 is the input, step i makes value i + 1, and the last value is the answer.
    """

    inputs: int
    steps: tuple[Step, ...] = field(default=())

    def __init__(self, inputs: int, steps: Iterable[Step]) -> None:
        object.__setattr__(self, "inputs", inputs)
        object.__setattr__(self, "steps", tuple(steps))
        if not isinstance(inputs, int | np.integer) or inputs < 1:
            raise ShapeError(f"A program needs a whole number of inputs >= 1, not {inputs!r}.")
        for number, step in enumerate(self.steps):
            if not isinstance(step.sources, tuple) or not step.sources:
                raise ShapeError(f"Step {number} needs a tuple of the values that it reads.")
            if not all(isinstance(source, int | np.integer) for source in step.sources):
                raise ShapeError(f"Step {number} reads {step.sources}: values have whole numbers.")
            if not all(0 <= source <= number for source in step.sources):
                raise ShapeError(f"Step {number} reads a value that is not there yet.")
            self._check_reads(number, step)

    def _check_reads(self, number: int, step: Step) -> None:
        there = sum(self.size(source) for source in step.sources)
        match step:
            case Affine():
                fits = step.weights.shape[1] == there
            case Maximum():
                fits = step.groups.max() < there
            case Product():
                fits = step.pairs.max() < there
            case Univariate():
                fits = step.size == there
        if not fits:
            raise ShapeError(f"Step {number} does not fit the {there} components that it reads.")

    def size(self, value: int) -> int:
        """How many components a value has."""
        return self.inputs if value == 0 else self.steps[value - 1].size

    def values(self, x: Any) -> list[Any]:
        """Every value at x: an array of floats or Fractions, or an `Interval`, inputs first."""
        values = [x]
        for step in self.steps:
            values.append(_apply(step, _stack([values[source] for source in step.sources])))
        return values


def _stack(parts: list[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], Interval):
        return Interval(
            np.concatenate([part.lo for part in parts]), np.concatenate([part.hi for part in parts])
        )
    return np.concatenate(parts)


def _apply(step: Step, x: Any) -> Any:
    match step:
        case Affine(weights=weights, bias=bias):
            if isinstance(x, np.ndarray) and x.dtype == object:
                weights, bias = exact(weights), exact(bias)
            if len(x.shape) > 1:
                bias = bias.reshape(-1, *[1] * (len(x.shape) - 1))
            return weights @ x + bias
        case Univariate(name=name, exponent=exponent):
            return apply_univariate(name, x, exponent)
        case Product(pairs=pairs):
            return x[pairs[:, 0]] * x[pairs[:, 1]]
        case Maximum(groups=groups):
            filled = np.where(groups >= 0, groups, groups.max(axis=1, keepdims=True))
            return x[filled].max(axis=1)


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


@dataclass(frozen=True)
class EncodedTarget:
    """A target as it is written to a file: its kind, its text, its tensors."""

    kind: str
    text: str
    tensors: dict[str, np.ndarray]


@runtime_checkable
class Target(Protocol):
    """A function from R^inputs to R^outputs that means the same to everybody."""

    @property
    def inputs(self) -> int: ...

    @property
    def outputs(self) -> int: ...

    @property
    def parameters(self) -> int | None:
        """How many numbers the source itself stores; None where that has no meaning."""

    def __call__(self, x: Any, /) -> Any:
        """The value at x: floats (batches along leading axes), Fractions, or an `Interval`."""

    def steps(self) -> Steps | None:
        """The straight-line program behind the function, if it has one."""

    def encode(self) -> EncodedTarget | None:
        """How a file holds it; None for an opaque target."""


@runtime_checkable
class Named(Protocol):
    """A target whose inputs have names."""

    @property
    def variables(self) -> tuple[str, ...]: ...


@overload
def by_arithmetic(x: Interval, inputs: int, *, rows: Rows, columns: Columns) -> Interval: ...
@overload
def by_arithmetic(x: Numbers, inputs: int, *, rows: Rows, columns: Columns) -> np.ndarray: ...
def by_arithmetic(
    x: Numbers | Interval, inputs: int, *, rows: Rows, columns: Columns
) -> np.ndarray | Interval:
    """Hand x to the arithmetic it is written in.

    An `Interval` of shape (inputs,) or (inputs, batch) goes to `columns`. Numbers of shape
    (..., inputs) go to `rows` as a batch x inputs matrix, and the leading axes come back: a
    float64 matrix, or one of Fractions (and then every step is exact) if x holds any object.
    """
    if isinstance(x, Interval):
        if len(x.shape) not in (1, 2) or x.shape[0] != inputs:
            raise ShapeError(
                f"The function takes intervals of shape ({inputs},) or ({inputs}, batch), but "
                f"the shape is {x.shape}."
            )
        return columns(x)
    array = _numbers(x)
    if array.ndim == 0 or array.shape[-1] != inputs:
        raise ShapeError(
            f"The function takes {inputs} number{'s' * (inputs != 1)} along the last axis, but "
            f"x has shape {array.shape}."
        )
    values = rows(array.reshape(-1, inputs))
    return values.reshape(*array.shape[:-1], values.shape[-1])


def _numbers(x: Numbers) -> np.ndarray:
    try:
        array = np.asarray(x)
        if array.dtype == object:
            return exact(array)
    except (TypeError, ValueError, OverflowError) as reason:
        raise ShapeError(
            "x must be a rectangular array of numbers, but it could not be read as one."
        ) from reason
    if array.dtype.kind not in "fiub":
        raise ShapeError(f"x must hold real numbers, but it holds {array.dtype}.")
    return array.astype(np.float64, copy=False)


def affine_rows(x: np.ndarray, weights: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """weights @ row + bias for every row of x, exact if x holds Fractions."""
    if x.dtype == object:
        weights, bias = exact(weights), exact(bias)
    y = x @ weights.T
    y += bias
    return np.asarray(y)
