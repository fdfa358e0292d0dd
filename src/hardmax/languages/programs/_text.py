"""Programs as text: definitions, one a line, of which the last one answers.

    before = there(index) < index
    rank = ((there(tokens) < tokens) | ((there(tokens) == tokens) & before)).count()
    sorted = (there(rank) == index).only(tokens)

Definitions may come in any order. The text is parsed, never evaluated as Python: names, numbers,
texts, tables, operators and the words below are all there is.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from functools import reduce
from typing import TypeAlias

from hardmax._errors import RequestError
from hardmax.languages.programs._items import Item
from hardmax.languages.programs._nodes import (
    LONGEST_NAME,
    Constant,
    Given,
    Selection,
    Sequence,
    There,
    Value,
    as_value,
    or_else,
    there,
    where,
)
from hardmax.languages.programs._program import Program

LONGEST_TEXT = 100_000

# what a part of a text stands for
Meaning: TypeAlias = "Value | Selection | There | Item | dict[Item, Item] | tuple[Meaning, ...]"

_S = Sequence()
_GIVEN: dict[str, Value | Selection | None] = {
    "tokens": _S.tokens,
    "index": _S.index,
    "length": _S.length,
    "everywhere": _S.everywhere,
    "nothing": None,
}
_FUNCTIONS: dict[str, Callable[..., Meaning]] = {"there": there, "where": where, "or_else": or_else}
_OF_VALUES = ("at", "shifted", "map")
_OF_SELECTIONS = (
    "count", "only", "mean", "sum", "min", "max", "any", "all", "first", "last", "causal",
)  # fmt: skip
_BINARY: dict[type, Callable[..., Meaning]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
}
_COMPARED: dict[type, Callable[..., Meaning]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_MIRRORED = {
    operator.lt: operator.gt,
    operator.gt: operator.lt,
    operator.le: operator.ge,
    operator.ge: operator.le,
}


def parse_program(text: str, name: str | None = None) -> Program:
    """The program that a text defines; errors say what is wrong, and in which line.

    >>> parse_program("back = length - 1 - index; tokens.at(back)")("abc")
    ['c', 'b', 'a']
    """
    if not isinstance(text, str):
        raise RequestError(f"A program is read from a text, not from {type(text).__name__}.")
    if len(text) > LONGEST_TEXT:
        raise RequestError(
            f"The program has {len(text):,} characters; at most {LONGEST_TEXT:,} are read."
        )
    reader = _TextReader(text)
    answer = reader.answer
    try:
        meaning = reader.meaning_of(answer)
    except RecursionError:
        raise RequestError("The program is nested too deeply; give parts of it names.") from None
    outputs = meaning if isinstance(meaning, tuple) else (meaning,)
    return Program([as_value(one) for one in outputs], answer if name is None else name)


def _named(meaning: Meaning, name: str) -> Meaning:
    """A value by the name of its definition, unless it has one already."""
    if not isinstance(meaning, Value) or isinstance(meaning, Given | Constant):
        return meaning
    keeps = meaning.given_name is not None or len(name) > LONGEST_NAME
    return meaning if keeps else meaning.named(name)


class _TextReader:
    def __init__(self, text: str) -> None:
        self.definitions: dict[str, ast.expr] = {}
        self._made: dict[str, Meaning] = {}
        self._open: list[str] = []
        lines = _statements_of(text)
        for line in lines:
            self._define(line)
        if not self.definitions:
            raise RequestError("The program is empty. Write definitions such as: copy = tokens.")
        self.answer = list(self.definitions)[-1]

    def _define(self, line: ast.stmt) -> None:
        match line:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                pass
            case ast.Expr(value=value):
                name = "answer"
            case _:
                raise _refusal(line, "is no definition: write name = value")
        if name in _GIVEN or name in _FUNCTIONS:
            raise _refusal(line, f"defines {name!r}, which has a meaning already")
        if name in self.definitions:
            raise _refusal(line, f"defines {name!r} a second time")
        self.definitions[name] = value

    def meaning_of(self, name: str) -> Meaning:
        """What a name stands for."""
        if name in self._open:
            around = " -> ".join([*self._open[self._open.index(name) :], name])
            raise RequestError(f"The definition of {name!r} is cyclic: {around}.")
        if name not in self._made:
            self._open.append(name)
            self._made[name] = _named(self.meaning_at(self.definitions[name]), name)
            self._open.pop()
        return self._made[name]

    def meaning_at(self, node: ast.expr) -> Meaning:
        match node:
            case ast.Name(id=name):
                return self._meaning_of_name(node, name)
            case ast.Constant(value=value) if value is None or isinstance(value, str | int | float):
                return value
            case ast.Tuple(elts=parts):
                return tuple(self.meaning_at(part) for part in parts)
            case ast.Dict(keys=keys, values=values):
                pairs = zip(keys, values, strict=True)
                if None in keys:
                    raise _refusal(node, "a table is written out, without **")
                return {self._plain(k): self._plain(v) for k, v in pairs if k is not None}
            case ast.UnaryOp(op=op, operand=operand):
                return self._unary(node, op, self.meaning_at(operand))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                sides = self.meaning_at(left), self.meaning_at(right)
                if any(isinstance(side, str | dict | tuple) for side in sides):
                    raise _refusal(node, "calculates with something that is no number")
                return self._try_to(node, _BINARY[type(op)], *sides)
            case ast.BoolOp(op=op, values=parts):
                sign = operator.and_ if isinstance(op, ast.And) else operator.or_
                first, *others = [self.meaning_at(part) for part in parts]
                return reduce(lambda a, b: self._try_to(node, sign, a, b), others, first)
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARED:
                return self._comparison(
                    node, _COMPARED[type(op)], self.meaning_at(left), self.meaning_at(right)
                )
            case ast.Call(func=func, args=arguments, keywords=options):
                return self._call(node, func, arguments, options)
        raise _refusal(node, "says something that programs do not know")

    def _meaning_of_name(self, node: ast.expr, name: str) -> Meaning:
        if name in _GIVEN:
            return _GIVEN[name]
        if name in self.definitions:
            return self.meaning_of(name)
        known = ", ".join([*_GIVEN, *self.definitions])
        raise _refusal(node, f"uses {name!r}, which is not defined; there are {known}")

    def _plain(self, node: ast.expr) -> Item:
        """A literal of a table."""
        found = self.meaning_at(node)
        if isinstance(found, Value | Selection | There | dict | tuple):
            raise _refusal(node, "has a table that does not consist of numbers and texts")
        return found

    def _unary(self, node: ast.expr, op: ast.unaryop, operand: Meaning) -> Meaning:
        match op:
            case ast.USub():
                return self._try_to(node, operator.neg, operand)
            case ast.Not() | ast.Invert() if isinstance(operand, Value | Selection):
                return ~operand
        raise _refusal(node, "says something that programs do not know")

    def _comparison(
        self, node: ast.expr, sign: Callable[..., Meaning], left: Meaning, right: Meaning
    ) -> Meaning:
        """`here < there` is `there > here`: a selection compares there with here."""
        if isinstance(right, There) and not isinstance(left, There):
            left, right, sign = right, left, _MIRRORED.get(sign, sign)
        if not isinstance(left, Value | There) and not isinstance(right, Value):
            raise _refusal(node, "compares two constants")
        return self._try_to(node, sign, left, right)

    def _call(
        self, node: ast.expr, func: ast.expr, arguments: list[ast.expr], options: list[ast.keyword]
    ) -> Meaning:
        given = [self.meaning_at(argument) for argument in arguments]
        named = {option.arg: self.meaning_at(option.value) for option in options if option.arg}
        match func:
            case ast.Name(id=name) if name in _FUNCTIONS:
                return self._try_to(node, _FUNCTIONS[name], *given, **named)
            case ast.Attribute(value=value, attr=word):
                owner = self.meaning_at(value)
                words = _OF_VALUES if isinstance(owner, Value) else _OF_SELECTIONS
                if word == "map" and not (len(given) == 1 and isinstance(given[0], dict)):
                    raise _refusal(node, "maps by something that is no table such as {'a': 1}")
                if isinstance(owner, Value | Selection) and word in words:
                    return self._try_to(node, getattr(owner, word), *given, **named)
                kind = "selection" if isinstance(owner, Selection) else "value"
                known = ", ".join(_OF_SELECTIONS if kind == "selection" else _OF_VALUES)
                raise _refusal(node, f"asks a {kind} for {word!r}; it knows {known}")
        raise _refusal(node, "calls something that programs do not know")

    def _try_to(
        self, node: ast.expr, make: Callable[..., Meaning], *given: Meaning, **named: Meaning
    ) -> Meaning:
        try:
            return make(*given, **named)
        except RequestError as reason:
            raise _refusal(node, f"is wrong: {reason}") from reason
        except (TypeError, AttributeError, ArithmeticError):
            raise _refusal(node, "combines things that do not go together") from None


def _statements_of(text: str) -> list[ast.stmt]:
    try:
        return ast.parse(text).body
    except SyntaxError as reason:
        raise RequestError(
            f"The program could not be read: {reason.msg} in line {reason.lineno}."
        ) from None
    except (ValueError, RecursionError, MemoryError):
        raise RequestError("The program could not be read: it is nested too deeply.") from None


def _text_of(node: ast.AST) -> str:
    """The text of a part of a program; Python writes none that is nested a thousand times."""
    try:
        return ast.unparse(node)
    except RecursionError:
        return "a deeply nested part"


def _refusal(node: ast.AST, why: str) -> RequestError:
    text = _text_of(node)
    shown = text if len(text) <= 60 else text[:57] + "..."
    return RequestError(f"Line {getattr(node, 'lineno', 1)} of the program, {shown!r}, {why}.")
