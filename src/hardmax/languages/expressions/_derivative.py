"""Derivatives of smooth expressions, as expressions."""

from __future__ import annotations

from collections.abc import Callable

from hardmax._errors import SemanticsError
from hardmax.languages.expressions import _functions as words
from hardmax.languages.expressions._expression import (
    ONE,
    Apply,
    Expression,
    Number,
    Variable,
    add,
    as_expression,
    divide,
    multiply,
    postorder,
    power,
)

ZERO = Number(0)

_OUTER: dict[str, Callable[[Expression], Expression]] = {
    "exp": words.exp,
    "log": lambda u: divide(ONE, u),
    "sqrt": lambda u: divide(ONE, multiply(2, words.sqrt(u))),
    "sin": words.cos,
    "cos": lambda u: -words.sin(u),
    "tan": lambda u: add(ONE, power(words.tan(u), 2)),
    "tanh": lambda u: add(ONE, -power(words.tanh(u), 2)),
    "sigmoid": lambda u: multiply(words.sigmoid(u), words.sigmoid(-u)),
}


def derivative(expression: Expression, name: str) -> Expression:
    """The partial derivative by the variable of that name, where the expression is smooth.

    The rules of calculus, once for every shared part. abs, relu, min and max have kinks, so an
    expression in which the variable reaches one of them is refused.
    """
    known: dict[Expression, Expression] = {}
    for node in postorder(expression):
        known[node] = _rule(node, known, name)
    return known[expression]


def _rule(node: Expression, known: dict[Expression, Expression], name: str) -> Expression:
    if name not in node.variables():
        return ZERO
    if isinstance(node, Variable):
        return ONE
    assert isinstance(node, Apply)
    inner = [known[a] for a in node.arguments]
    u = node.arguments[0]
    match node.operation:
        case "add":
            return add(*inner)
        case "multiply":
            return _of_product(node.arguments, inner)
        case "divide":
            return _of_quotient(*node.arguments, *inner)
        case "power":
            outer = multiply(Number(node.exponent), power(u, Number(node.exponent - 1)))
            return multiply(outer, inner[0])
        case "minimum" | "maximum" | "abs" | "relu":
            raise SemanticsError(
                f"{node} has a kink, so it has no derivative by {name}; bound its slope instead."
            )
    return multiply(_OUTER[node.operation](u), inner[0])


def _of_product(factors: tuple[Expression, ...], inner: list[Expression]) -> Expression:
    terms = [
        multiply(*factors[:i], change, *factors[i + 1 :])
        for i, change in enumerate(inner)
        if change is not ZERO
    ]
    return add(*terms) if terms else ZERO


def _of_quotient(a: Expression, b: Expression, da: Expression, db: Expression) -> Expression:
    """(a/b)' = a'/b - a b'/b**2."""
    terms = []
    if da is not ZERO:
        terms.append(divide(da, b))
    if db is not ZERO:
        terms.append(-divide(multiply(a, db), power(b, as_expression(2))))
    return add(*terms) if terms else ZERO
