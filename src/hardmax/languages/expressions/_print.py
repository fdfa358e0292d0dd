"""Expressions as text that reads back as the very same expression."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Protocol, TypeGuard

from hardmax._errors import RequestError

LONGEST_TEXT = 100_000
_SUM, _PRODUCT, _POWER, _ATOM = range(4)
_NAMES = {"minimum": "min", "maximum": "max"}
_CONSTANTS = {Fraction(math.pi): "pi", Fraction(math.e): "e"}
_Text = tuple[str, int]  # and how tightly it binds


class Node(Protocol):
    """What printing needs to know of an expression, which knows how to print itself."""

    @property
    def operation(self) -> str: ...

    @property
    def arguments(self) -> Sequence[Node]: ...


class _Named(Node, Protocol):
    @property
    def name(self) -> str: ...


class _Valued(Node, Protocol):
    @property
    def value(self) -> Fraction: ...


class _Raised(Node, Protocol):
    @property
    def exponent(self) -> Fraction: ...


def _is_variable(node: Node) -> TypeGuard[_Named]:
    return node.operation == "variable"


def _is_number(node: Node) -> TypeGuard[_Valued]:
    return node.operation == "number"


def _is_power(node: Node) -> TypeGuard[_Raised]:
    return node.operation == "power"


def to_text(expression: Node) -> str:
    """The canonical text: parsing it gives the expression back.

    Shared parts are written out each time, so a text can be far larger than its expression;
    beyond 100,000 characters it is refused.
    """
    texts: dict[Node, _Text] = {}
    stack = [expression]
    while stack:
        node = stack[-1]
        waiting = [a for a in node.arguments if a not in texts]
        if waiting:
            stack.extend(waiting)
            continue
        stack.pop()
        texts[node] = _written(node, texts)
        if len(texts[node][0]) > LONGEST_TEXT:
            raise RequestError(
                f"Written out, the expression is longer than {LONGEST_TEXT:,} characters; "
                f"split it into several functions."
            )
    return texts[expression][0]


def _written(node: Node, texts: dict[Node, _Text]) -> _Text:
    if _is_variable(node):
        return node.name, _ATOM
    if _is_number(node):
        return _number(node.value)
    if _is_power(node):
        return f"{_tight(texts[node.arguments[0]], _ATOM)}**{_exponent(node.exponent)}", _POWER
    match node.operation:
        case "add":
            return _sum([texts[a] for a in _in_order(node.arguments, texts)])
        case "multiply":
            return _product(node.arguments, texts)
        case "divide":
            return _scaled(Fraction(1), *_quotient(node, texts)), _PRODUCT
    inner = ", ".join(texts[a][0] for a in node.arguments)
    return f"{_NAMES.get(node.operation, node.operation)}({inner})", _ATOM


def _tight(text: _Text, least: int) -> str:
    """The text, in parentheses if it binds less tightly than is needed."""
    return text[0] if text[1] >= least else f"({text[0]})"


def plain_number(value: Fraction) -> str | None:
    """A literal for a nonnegative number, or None if only a quotient can say it."""
    if value in _CONSTANTS:
        return _CONSTANTS[value]
    if value.denominator == 1 and (value < 2**53 or Fraction(float(value)) != value):
        return str(value.numerator)
    return repr(float(value)) if Fraction(float(value)) == value else None


def _number(value: Fraction) -> _Text:
    literal = plain_number(abs(value))
    sign = "-" if value < 0 else ""
    if literal is None:
        return f"{sign}{abs(value.numerator)}/{value.denominator}", _PRODUCT
    return f"{sign}{literal}", _PRODUCT if sign else _ATOM


def _exponent(value: Fraction) -> str:
    text, _ = _number(value)
    return f"({text})" if "/" in text else text


def _in_order(terms: Sequence[Node], texts: dict[Node, _Text]) -> list[Node]:
    """1 - x rather than -x + 1: a sum keeps its number last, wherever it was written."""
    *others, last = terms
    if texts[terms[0]][0].startswith("-") and _is_number(last) and last.value > 0:
        return [last, *others]
    return list(terms)


def _sum(terms: Sequence[_Text]) -> _Text:
    text = _tight(terms[0], _PRODUCT)
    for term in terms[1:]:
        more = _tight(term, _PRODUCT)
        text += f" - {more[1:]}" if more.startswith("-") else f" + {more}"
    return text, _SUM


def _product(factors: Sequence[Node], texts: dict[Node, _Text]) -> _Text:
    coefficient = Fraction(1)
    first = factors[0]
    if _is_number(first):
        coefficient, factors = first.value, factors[1:]
    # 0*(x/y) is not 0 where y is; written without parentheses it would read as (0*x)/y.
    if len(factors) == 1 and factors[0].operation == "divide" and coefficient:
        return _scaled(coefficient, *_quotient(factors[0], texts)), _PRODUCT
    text = "*".join(_tight(texts[factor], _POWER) for factor in factors)
    return _scaled(coefficient, text, ""), _PRODUCT


def _quotient(node: Node, texts: dict[Node, _Text]) -> tuple[str, str]:
    """What stands before and after the bar; nothing before it means 1."""
    over, under = node.arguments
    before = "" if _is_number(over) and over.value == 1 else _tight(texts[over], _PRODUCT)
    return before, f"/{_tight(texts[under], _POWER)}"


def _scaled(coefficient: Fraction, before: str, after: str) -> str:
    """coefficient * before after, the denominator of the coefficient last."""
    sign = "-" if coefficient < 0 else ""
    literal = plain_number(abs(coefficient))
    tail = "" if literal is not None else f"/{coefficient.denominator}"
    head = str(abs(coefficient.numerator)) if literal is None else literal
    if before and head == "1":
        return f"{sign}{before}{after}{tail}"
    return f"{sign}{head}{'*' if before else ''}{before}{after}{tail}"
