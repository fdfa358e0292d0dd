"""Derivatives of smooth expressions, as expressions."""

from __future__ import annotations

from fractions import Fraction

from hardmax._errors import SemanticsError
from hardmax.languages.expressions._expression import (
    OF_SEVERAL,
    ONE,
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
from hardmax.numerics import record_of

ZERO = Number(0)


class ExpressionCalculus:
    """The rules that the records state, written as expressions."""

    def number(self, value: int | Fraction) -> Expression:
        return Number(value)

    def plus(self, first: Expression, second: Expression) -> Expression:
        return add(first, second)

    def times(self, first: Expression, second: Expression) -> Expression:
        return multiply(first, second)

    def reciprocal(self, below: Expression, by: int | Fraction = 1) -> Expression:
        return divide(ONE, multiply(by, below))

    def power(self, base: Expression, exponent: Fraction) -> Expression:
        return power(base, Number(exponent))

    def apply(self, name: str, argument: Expression) -> Expression:
        return function(name, argument)


_CALCULUS = ExpressionCalculus()


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
    rule = None if node.operation in OF_SEVERAL else record_of(node.operation, node.exponent).slope
    if rule is None:
        raise SemanticsError(
            f"{node} has a kink, so it has no derivative by {name}; bound its slope instead."
        )
    return multiply(rule(_CALCULUS, u, node), inner[0])


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
