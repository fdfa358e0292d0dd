"""Expressions made from expressions: operations by their names, and substitution."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from hardmax._errors import RequestError
from hardmax.languages.expressions._expression import (
    Apply,
    Expression,
    Operand,
    add,
    as_expression,
    divide,
    function,
    multiply,
    postorder,
    power,
)
from hardmax.languages.expressions.words import maximum, minimum
from hardmax.numerics import FUNCTIONS

_BUILDERS: dict[str, Callable[..., Expression]] = {
    "add": add,
    "multiply": multiply,
    "divide": divide,
    "minimum": minimum,
    "maximum": maximum,
}


def build(operation: str, arguments: Iterable[Operand], exponent: Operand = 1) -> Expression:
    """An operation by its name, simplified as Python's operators would."""
    arguments = tuple(arguments)
    if operation == "power":
        (base,) = arguments
        return power(base, exponent)
    if operation in FUNCTIONS:
        (argument,) = arguments
        return function(operation, argument)
    if operation not in _BUILDERS:
        raise RequestError(f"There is no operation {operation!r}.")
    return _BUILDERS[operation](*arguments)


def substitute(expression: Expression, by: Mapping[Expression, Operand]) -> Expression:
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
