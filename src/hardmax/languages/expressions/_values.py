"""What expressions are worth: one walk over the nodes, one arithmetic at a time.

"float"     NumPy arrays or numbers; outside the domain of definition nan or infinities
"interval"  `Interval`, outward rounded
"fraction"  Fractions or object arrays of them, where every operation is rational
"ball"      python-flint's `arb`, and `arb_series`: Taylor expansions for free

Functions of one variable come from their records; what is written here is what takes several
arguments: sums, products, quotients, minima and maxima.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, reduce
from operator import add, mul, truediv
from typing import TYPE_CHECKING, Generic, Literal, TypeVar, overload

import numpy as np

from hardmax._errors import DomainError, MissingExtra, RequestError, SemanticsError
from hardmax.languages.expressions._expression import (
    OF_SEVERAL,
    Apply,
    Expression,
    Number,
    Variable,
    exact_number,
    postorder,
)
from hardmax.numerics import Exact, FunctionRecord, Interval, exact, larger_series, record_of

if TYPE_CHECKING:
    from flint import arb, arb_series

    Balls = arb | arb_series

Value = TypeVar("Value")
Floats = np.ndarray | np.floating


# ---- operations ----------------------------------------------------------------------------------


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


@cache
def balls() -> Arithmetic[Balls]:
    """Enclosures at the working precision of python-flint, imported only when asked for.

    A kink of abs, relu, min or max inside a series of length two or more has no expansion, and is
    refused.
    """
    try:
        from flint import arb, arb_series, fmpq
    except ImportError:
        raise MissingExtra("python-flint", "balls") from None

    def ball(value: object) -> Balls:
        """A number as a ball around it; balls and series stay as they are."""
        if isinstance(value, arb | arb_series):
            return value
        if not isinstance(value, numbers.Real):
            raise RequestError(f"{value!r} is not a finite real number; give one, or a ball.")
        exactly = exact_number(value)
        return arb(fmpq(exactly.numerator, exactly.denominator))

    def larger(a: Balls, b: Balls) -> Balls:
        if isinstance(a, arb) and isinstance(b, arb):
            return a.max(b)
        return larger_series(arb_series(a), arb_series(b))

    def function(record: FunctionRecord, x: Balls) -> Balls:
        return record.balls(x) if isinstance(x, arb) else record.series(x)

    return Arithmetic(
        number=ball,
        given=ball,
        larger=larger,
        smaller=lambda a, b: -larger(-a, -b),
        function=function,
    )


# ---- the walk ------------------------------------------------------------------------------------


@overload
def evaluate(
    expression: Expression, values: Mapping[str, object], arithmetic: Literal["float"] = "float"
) -> Floats: ...


@overload
def evaluate(
    expression: Expression, values: Mapping[str, object], arithmetic: Literal["interval"]
) -> Interval: ...


@overload
def evaluate(
    expression: Expression, values: Mapping[str, object], arithmetic: Literal["fraction"]
) -> Exact: ...


@overload
def evaluate(
    expression: Expression, values: Mapping[str, object], arithmetic: Literal["ball"]
) -> Balls: ...


def evaluate(
    expression: Expression, values: Mapping[str, object], arithmetic: str = "float"
) -> object:
    """The value where each variable has the value of its name; shared parts are computed once."""
    return _evaluate_all([expression], values, arithmetic)[expression]


def ball_value(expression: Expression, values: Mapping[str, object]) -> arb:
    """A ball around the value at one point, given as numbers or balls."""
    from flint import arb

    ball = evaluate(expression, values, "ball")
    assert isinstance(ball, arb)
    return ball


@overload
def evaluate_all(
    expressions: Sequence[Expression],
    values: Mapping[str, object],
    arithmetic: Literal["interval"],
) -> dict[Expression, Interval]: ...


@overload
def evaluate_all(
    expressions: Sequence[Expression],
    values: Mapping[str, object],
    arithmetic: Literal["float", "fraction"] = "float",
) -> dict[Expression, Exact]: ...


def evaluate_all(
    expressions: Sequence[Expression], values: Mapping[str, object], arithmetic: str = "float"
) -> Mapping[Expression, object]:
    """The values of the expressions and of everything inside them."""
    return _evaluate_all(expressions, values, arithmetic)


def _evaluate_all(
    expressions: Sequence[Expression], values: Mapping[str, object], arithmetic: str
) -> Mapping[Expression, object]:
    match arithmetic:
        case "float":
            return _walk(floats(), expressions, values)
        case "interval":
            return _walk(intervals(), expressions, values)
        case "fraction":
            return _walk(fractions(), expressions, values)
        case "ball":
            return _walk(balls(), expressions, values)
    raise RequestError(
        f"There is no arithmetic {arithmetic!r}; there are float, interval, fraction, ball."
    )


def _walk(
    rules: Arithmetic[Value], expressions: Sequence[Expression], values: Mapping[str, object]
) -> dict[Expression, Value]:
    given = {name: rules.given(value) for name, value in values.items()}
    known: dict[Expression, Value] = {}
    with np.errstate(all="ignore"):
        for node in postorder(*expressions):
            known[node] = _value(node, known, given, rules)
    return known


def _value(
    node: Expression,
    known: Mapping[Expression, Value],
    given: Mapping[str, Value],
    rules: Arithmetic[Value],
) -> Value:
    match node:
        case Variable(name):
            if name not in given:
                raise RequestError(f"The variable {name} has no value; give one.")
            return given[name]
        case Number(value):
            return rules.number(value)
        case Apply(operation, arguments, exponent):
            operands = [known[a] for a in arguments]
            try:
                if operation in OF_SEVERAL:
                    return rules.apply(operation, operands)
                return rules.function(record_of(operation, exponent), operands[0])
            except ZeroDivisionError:
                raise DomainError(f"{node} divides by 0 at this point; choose another.") from None
    raise AssertionError(node)
