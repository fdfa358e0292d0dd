"""The words for writing expressions in Python: variables, functions, and substitution."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hardmax._errors import RequestError
from hardmax.languages.expressions._expression import (
    FUNCTIONS,
    Apply,
    Expression,
    Number,
    Variable,
    add,
    as_expression,
    divide,
    function,
    multiply,
    postorder,
    power,
)


def variable(name: str) -> Variable:
    """The variable of that name; the same name is the same variable."""
    return Variable(name)


def variables(names: str) -> tuple[Variable, ...]:
    """Several at once: x, y = variables("x y")."""
    if not isinstance(names, str):
        raise RequestError('Give the names as one text, as in variables("x y z").')
    return tuple(Variable(name) for name in names.replace(",", " ").split())


def exp(x: Any) -> Expression:
    """e**x."""
    return function("exp", x)


def log(x: Any) -> Expression:
    """The natural logarithm, for x > 0."""
    return function("log", x)


def sqrt(x: Any) -> Expression:
    """The square root, for x >= 0."""
    return function("sqrt", x)


def sin(x: Any) -> Expression:
    """The sine of x radians."""
    return function("sin", x)


def cos(x: Any) -> Expression:
    """The cosine of x radians."""
    return function("cos", x)


def tan(x: Any) -> Expression:
    """The tangent of x radians, away from odd multiples of pi/2."""
    return function("tan", x)


def tanh(x: Any) -> Expression:
    """The hyperbolic tangent."""
    return function("tanh", x)


def sigmoid(x: Any) -> Expression:
    """1/(1 + exp(-x))."""
    return function("sigmoid", x)


def relu(x: Any) -> Expression:
    """max(x, 0)."""
    return function("relu", x)


def minimum(*arguments: Any) -> Expression:
    """The smallest of one or more."""
    return _extreme("minimum", min, arguments)


def maximum(*arguments: Any) -> Expression:
    """The largest of one or more."""
    return _extreme("maximum", max, arguments)


def _extreme(operation: str, choose: Any, arguments: Iterable[Any]) -> Expression:
    """Without repetitions, and with one number, at the end, if there is any.

    Nested ones stay nested: max(max(x, y), z) may share max(x, y) with something else.
    """
    given = [as_expression(argument) for argument in arguments]
    numbers = [a.value for a in given if isinstance(a, Number)]
    parts = list(dict.fromkeys(a for a in given if not isinstance(a, Number)))
    if numbers:
        parts.append(Number(choose(numbers)))
    if not parts:
        raise RequestError(f"A {operation} needs at least one argument.")
    return parts[0] if len(parts) == 1 else Apply(operation, parts)


def clip(x: Any, low: Any, high: Any) -> Expression:
    """min(max(x, low), high)."""
    low, high = as_expression(low), as_expression(high)
    if isinstance(low, Number) and isinstance(high, Number) and low.value > high.value:
        raise RequestError(f"clip needs low <= high, but they are {low} and {high}.")
    return minimum(maximum(x, low), high)


_BUILDERS: dict[str, Any] = {
    "add": add,
    "multiply": multiply,
    "divide": divide,
    "minimum": minimum,
    "maximum": maximum,
}


def build(operation: str, arguments: Iterable[Any], exponent: Any = 1) -> Expression:
    """An operation by its name, simplified as Python's operators would."""
    arguments = tuple(arguments)
    if operation == "power":
        (base,) = arguments
        return power(base, exponent)
    if operation in FUNCTIONS:
        return function(operation, *arguments)
    if operation not in _BUILDERS:
        raise RequestError(f"There is no operation {operation!r}.")
    return _BUILDERS[operation](*arguments)


def substitute(expression: Expression, by: Mapping[Expression, Any]) -> Expression:
    """The expression with every occurrence of a key, the largest first, replaced by its value.

    Keys are whole subexpressions: x + y is not found inside x + y + z. What is put in is not
    searched again.
    """
    new: dict[Expression, Expression] = {key: as_expression(value) for key, value in by.items()}
    for node in postorder(expression):
        if node in new:
            continue
        if isinstance(node, Apply) and any(new[a] is not a for a in node.arguments):
            new[node] = build(node.operation, [new[a] for a in node.arguments], node.exponent)
        else:
            new[node] = node
    return new[expression]
