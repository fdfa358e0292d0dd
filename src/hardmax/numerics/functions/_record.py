"""What a function of one variable is to everybody: one record of all that somebody asks of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from hardmax.numerics._interval import Interval
from hardmax.numerics._outward import Pair, pair_between
from hardmax.numerics.functions._conditions import Condition

if TYPE_CHECKING:
    from flint import arb, arb_series

Value = TypeVar("Value")
Exact = Fraction | np.ndarray  # Fractions, or an object array of them
Derivatives = tuple[Pair, Pair, Pair]  # enclosures of f, f' and f''
Curve = Callable[[np.ndarray, np.ndarray], Derivatives]


class Calculus(Protocol[Value]):
    """What derivatives are written in: expressions, the checker's forms, balls.

    Rules of calculus are stated once, in the record, and read by each room in its own values.
    """

    def number(self, value: int | Fraction) -> Value: ...

    def plus(self, first: Value, second: Value) -> Value: ...

    def times(self, first: Value, second: Value) -> Value: ...

    def reciprocal(self, below: Value, by: int | Fraction = 1) -> Value:
        """1/(by * below)."""

    def power(self, base: Value, exponent: Fraction) -> Value: ...

    def apply(self, name: str, argument: Value) -> Value:
        """Another function of the table, by its name."""


class Slope(Protocol):
    """f'(u), from the argument u and the value y = f(u), in any calculus."""

    def __call__(self, c: Calculus[Value], u: Value, y: Value) -> Value: ...


REQUIRED = ("floats", "intervals", "curve", "balls", "series", "folds")  # of every record


@dataclass(frozen=True)
class Piece:
    """slope * x + offset."""

    slope: int
    offset: int


@dataclass(frozen=True)
class Gated:
    """offset + (constant + slope x) sigmoid(steepness x): what one softmax over two tokens does."""

    steepness: int
    constant: int
    slope: int = 0
    offset: int = 0


@dataclass(frozen=True)
class FunctionRecord:
    """A function of one variable in every arithmetic, with its derivative, domain and words.

    `floats`     arrays of float64; nan and infinities outside the domain, as in NumPy
    `intervals`  enclosures, outward rounded, without nan (see `numerics/_elementary.py`)
    `curve`      enclosures of f, f' and f'' on arrays of ends, as quick pairs; infinite radii where
                 nothing is known. Ends may be nan
    `balls`      an enclosure of f over a `flint.arb`
    `series`     f of a `flint.arb_series`: its Taylor coefficients over the ball it starts with
    `slope`      f' as a rule (None if f has kinks)
    `pieces`     the two affine functions whose maximum f is, if it has a kink
    `gated`      f by one sigmoid, if it is that: such functions meet their likes in the checker
    `condition`  what the argument must fulfil (None: any real number will do)
    `fractions`  exact values (None: they are irrational, or not always rational)
    `folds`      the value at a rational number, where that is known to be rational
    `meaning`    one line for people
    `is_word`    whether people write it as name(x)
    `elsewhere`  what others call it: whoever writes that is told this name
    """

    name: str
    meaning: str
    floats: Callable[[np.ndarray], np.ndarray]
    intervals: Callable[[Interval], Interval]
    curve: Curve
    balls: Callable[[arb], arb]
    series: Callable[[arb_series], arb_series]
    slope: Slope | None
    folds: Callable[[Fraction], Fraction | None]
    condition: Condition | None = None
    fractions: Callable[[Exact], Exact] | None = None
    pieces: tuple[Piece, ...] = ()
    gated: Gated | None = None
    is_word: bool = True
    elsewhere: tuple[str, ...] = ()
    title: str = ""  # for sentences; the name, if there is none

    def __post_init__(self) -> None:
        for field in REQUIRED:
            if not callable(getattr(self, field)):
                raise ValueError(f"The record of {self.name} has no {field}; give a function.")
        if not self.name.isidentifier() or not self.meaning.endswith("."):
            raise ValueError(f"The record of {self.name} needs a name and a line of meaning.")
        if (self.slope is None) != (len(self.pieces) == 2):
            raise ValueError(f"{self.name} needs a slope, or the two pieces beside its kink.")
        object.__setattr__(self, "title", self.title or self.name)

    @property
    def has_kinks(self) -> bool:
        return bool(self.pieces)


def known_at(values: dict[Fraction | int, Fraction | int]) -> Callable[[Fraction], Fraction | None]:
    """Folding of a function that is rational at a few numbers."""
    table = {Fraction(x): Fraction(y) for x, y in values.items()}
    return table.get


def curve_of(derivatives: Callable[[Interval], tuple[Interval, Interval, Interval]]) -> Curve:
    """Quick pairs from enclosures of f, f' and f'' on intervals; undefined ends are everything."""

    def curve(low: np.ndarray, high: np.ndarray) -> Derivatives:
        unknown = ~(low <= high)
        x = Interval(np.where(unknown, -np.inf, low), np.where(unknown, np.inf, high))
        value, first, second = derivatives(x)
        return _pair(value), _pair(first), _pair(second)

    return curve


def where(known: np.ndarray, y: Interval) -> Interval:
    """y where it is known, everything elsewhere."""
    return Interval(np.where(known, y.lo, -np.inf), np.where(known, y.hi, np.inf))


def _pair(y: Interval) -> Pair:
    with np.errstate(invalid="ignore", over="ignore"):
        return pair_between(y.lo, y.hi)
