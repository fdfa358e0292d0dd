"""What expressions are worth: one walk over the nodes, one arithmetic at a time.

"float"     NumPy arrays or numbers; outside the domain of definition nan or infinities
"interval"  `Interval`, outward rounded
"fraction"  Fractions or object arrays of them, where every operation is rational
"ball"      python-flint's `arb`, and `arb_series`: Taylor expansions for free
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeVar, overload

import numpy as np

from hardmax._errors import DomainError, RequestError
from hardmax.languages.expressions._arithmetic import (
    Arithmetic,
    Floats,
    floats,
    fractions,
    intervals,
)
from hardmax.languages.expressions._balls import balls
from hardmax.languages.expressions._expression import (
    OF_SEVERAL,
    Apply,
    Expression,
    Number,
    Variable,
    postorder,
)
from hardmax.numerics import Exact, Interval, record_of

if TYPE_CHECKING:
    from flint import arb

    from hardmax.languages.expressions._balls import Balls

Value = TypeVar("Value")


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
