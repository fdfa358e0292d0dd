"""Text to expressions. Python's grammar is borrowed, its meaning is not: nothing is evaluated.

The text is parsed into Python's syntax tree, and a tree is accepted only if every node of it is
on the list below: numbers, names, + - * / **, and calls of known functions.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import NoReturn

from hardmax._errors import RequestError
from hardmax.languages.expressions import words
from hardmax.languages.expressions._expression import (
    COMPOSED,
    CONSTANTS,
    Expression,
    Number,
    Variable,
    add,
    divide,
    function,
    multiply,
    power,
)
from hardmax.languages.expressions._print import LONGEST_TEXT
from hardmax.numerics import FUNCTION_WORDS, FUNCTIONS

DEEPEST = 200  # levels of nesting, in a text as in a function


@dataclass(frozen=True)
class _Call:
    """How a word is called: so many arguments (None: one or more), and options by name."""

    arity: int | None
    maker: Callable[..., Expression]
    options: tuple[str, ...] = ()

    def wanted(self) -> str:
        plain = "at least one argument" if self.arity is None else _counted(self.arity, "argument")
        return " and ".join([plain, *(f"{option}=..." for option in self.options)])


_CALLS: dict[str, _Call] = {
    **{name: _Call(1, partial(function, name)) for name in FUNCTION_WORDS},
    "min": _Call(None, words.minimum),
    "max": _Call(None, words.maximum),
    "minimum": _Call(None, words.minimum),
    "maximum": _Call(None, words.maximum),
    "clip": _Call(3, words.clip),
    "sign": _Call(1, words.sign, ("gap",)),
    "norm": _Call(None, words.norm),
}
_SEVERAL = {"softmax": words.softmax}  # with as many values as arguments
_ELSEWHERE = {other: name for name, record in FUNCTIONS.items() for other in record.elsewhere}
_ELSEWHERE |= {"sgn": "sign", "hypot": "norm"}
_WINDOW = 76


def parse(text: str, variables: Collection[str] | None = None) -> tuple[Expression, ...]:
    """The outputs that a text such as "x*y, x + y" describes.

    Every name that is no function and no constant (pi, e) is a variable, and must be one of
    `variables` if those are given.
    """
    if not isinstance(text, str):
        raise RequestError(f"An expression is a text, not {type(text).__name__}.")
    if len(text) > LONGEST_TEXT:
        raise RequestError(
            f"The expression has {len(text):,} characters; at most {LONGEST_TEXT:,} are read."
        )
    line = "".join(" " if letter.isspace() else letter for letter in text)
    reader = _Reader(line, None if variables is None else tuple(variables))
    tree = reader.tree()
    nodes = tree.elts if isinstance(tree, ast.Tuple | ast.List) else [tree]
    if not nodes:
        reader.refuse("There is no output; write at least one expression", tree)
    return tuple(output for node in nodes for output in reader.outputs(node))


@dataclass(frozen=True)
class _Reader:
    line: str
    variables: tuple[str, ...] | None

    def tree(self) -> ast.expr:
        """The syntax tree of the line; whatever Python's parser has to say is said our way."""
        if not self.line.strip():
            raise RequestError("The expression is empty; write one, as in x*y + 1.")
        indent = len(self.line) - len(self.line.lstrip())
        try:
            return ast.parse(self.line[indent:], mode="eval").body
        except SyntaxError as error:
            if "digits" in str(error.msg):
                raise RequestError("The expression has a number of too many digits.") from None
            place = indent + error.offset - 1 if error.offset else len(self.line.rstrip())
            self.refuse_at(_said(error), place)
        except (RecursionError, MemoryError):
            raise RequestError(
                "The expression is nested too deeply, or has thousands of terms; split it up."
            ) from None
        except ValueError as error:
            raise RequestError(f"The expression could not be read ({error}).") from None

    def refuse(self, reason: str, node: ast.AST) -> NoReturn:
        start = self.line.lstrip().encode()[: getattr(node, "col_offset", 0)]
        indent = len(self.line) - len(self.line.lstrip())
        self.refuse_at(reason, indent + len(start.decode(errors="ignore")))

    def refuse_operator(self, reason: str, link: ast.BinOp) -> NoReturn:
        """With the caret under the operator, which stands between its two sides."""
        text = self.line.lstrip().encode()
        between = text[link.left.end_col_offset : link.right.col_offset].decode(errors="ignore")
        skipped = len(between) - len(between.lstrip(" )"))
        start = len(text[: link.left.end_col_offset].decode(errors="ignore"))
        indent = len(self.line) - len(self.line.lstrip())
        self.refuse_at(reason, indent + start + skipped)

    def refuse_at(self, reason: str, place: int) -> NoReturn:
        first = max(0, place - _WINDOW // 2)
        shown = self.line[first : first + _WINDOW]
        raise RequestError(f"{reason}.\n  {shown}\n  {' ' * (place - first)}^")

    def outputs(self, node: ast.expr) -> tuple[Expression, ...]:
        """What stands at the outermost level: one expression, or the values of a softmax."""
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in _SEVERAL:
                arguments, _ = self.arguments(node, name, _Call(None, words.norm), 0)
                return _SEVERAL[name](*arguments)
        return (self.expression(node, 0),)

    def expression(self, node: ast.AST, level: int) -> Expression:
        if level > DEEPEST:
            self.refuse(f"The expression is nested deeper than {DEEPEST} levels; split it up", node)
        match node:
            case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
                return self.made(node, Number, value)
            case ast.Name(id=name):
                return self.named(node, name)
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.expression(operand, level + 1)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self.expression(operand, level + 1)
            case ast.BinOp(op=ast.Pow(), left=left, right=right):
                base = self.expression(left, level + 1)
                return self.made(right, power, base, self.expression(right, level + 1))
            case ast.BinOp():
                return self.chain(node, level)
            case ast.Call():
                return self.call(node, level)
            case ast.Tuple() | ast.List():
                self.refuse("Several outputs can only stand at the outermost level", node)
        self.refuse("Only numbers, variables, + - * / ** and known functions may stand here", node)

    def made(
        self,
        node: ast.AST,
        maker: Callable[..., Expression],
        *operands: Expression | str | float,
        **options: Fraction,
    ) -> Expression:
        """What the maker makes; its refusal gets a caret."""
        try:
            return maker(*operands, **options)
        except RequestError as error:
            self.refuse(str(error).removesuffix("."), node)

    def named(self, node: ast.AST, name: str) -> Expression:
        if name in CONSTANTS:
            return Number(CONSTANTS[name])
        if name in _CALLS or name in _SEVERAL:
            self.refuse(f"{name} is a function; write {name}(...)", node)
        if self.variables is not None and name not in self.variables:
            known = ", ".join(self.variables) or "none"
            self.refuse(
                f"There is no variable {name}{_nearest(name, self.variables)} The variables are "
                f"{known}",
                node,
            )
        return self.made(node, Variable, name)

    def call(self, node: ast.Call, level: int) -> Expression:
        if not isinstance(node.func, ast.Name):
            self.refuse("Only known functions can be called", node)
        name = node.func.id
        if name in _SEVERAL:
            self.refuse(
                f"A {name} has several values, which can only stand at the outermost level", node
            )
        if name not in _CALLS:
            hint = _ELSEWHERE.get(name)
            nearest = f"; did you mean {hint}?" if hint else _nearest(name, [*_CALLS, *_SEVERAL])
            known = ", ".join([*FUNCTION_WORDS, *COMPOSED])
            self.refuse(f"There is no function {name}{nearest} The functions are {known}", node)
        arguments, options = self.arguments(node, name, _CALLS[name], level)
        return self.made(node, _CALLS[name].maker, *arguments, **options)

    def arguments(
        self, node: ast.Call, name: str, call: _Call, level: int
    ) -> tuple[list[Expression], dict[str, Fraction]]:
        """What stands between the parentheses, if it is what the word takes."""
        plain = not any(isinstance(a, ast.Starred) for a in node.args)
        plain = plain and tuple(keyword.arg for keyword in node.keywords) == call.options
        few = not node.args if call.arity is None else len(node.args) != call.arity
        if few or not plain:
            came = str(len(node.args)) if plain else "something else"
            self.refuse(f"{name} takes {call.wanted()}, but it was given {came}", node)
        options = {}
        for keyword in node.keywords:
            value = self.expression(keyword.value, level + 1)
            if not isinstance(value, Number):
                self.refuse(f"{keyword.arg} must be a number, not {value}", keyword.value)
            options[str(keyword.arg)] = value.value
        return [self.expression(argument, level + 1) for argument in node.args], options

    def chain(self, node: ast.BinOp, level: int) -> Expression:
        """a + b - c ... or a * b / c ..., however long: Python nests it, we do not."""
        links: list[ast.BinOp] = []
        left: ast.expr = node
        while isinstance(left, ast.BinOp) and not isinstance(left.op, ast.Pow):
            links.append(left)
            left = left.left
        run, kind = [self.expression(left, level + 1)], ""
        for link in reversed(links):
            right = self.expression(link.right, level + 1)
            now = "add" if isinstance(link.op, ast.Add | ast.Sub) else "multiply"
            if now != kind and kind:
                run = [self.made(link, _JOIN[kind], *run)]
            kind = now
            match link.op:
                case ast.Add() | ast.Mult():
                    run.append(right)
                case ast.Sub():
                    run.append(-right)
                case ast.Div():
                    whole = self.made(link, multiply, *run)
                    run = [self.made(link.right, divide, whole, right)]
                case ast.BitXor():
                    self.refuse_operator("^ is no power here; use ** for powers", link)
                case _:
                    self.refuse_operator("Only + - * / and ** may stand between numbers", link)
        return self.made(node, _JOIN[kind], *run)


_JOIN = {"add": add, "multiply": multiply}


def _said(error: SyntaxError) -> str:
    """Python's complaint as a sentence without its full stop."""
    words = (error.msg or "invalid syntax").split(". Perhaps")[0]
    return f"The expression could not be read: {words}"


def _nearest(name: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else "."


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}{'s' * (number != 1)}"
