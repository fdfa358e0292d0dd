"""What a mutant is: an operator at a site, and the text that comes of it."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from benchmarks.mutants._source import Module, Package

KINDS = ("guard", "logic")


@dataclass(frozen=True)
class Place:
    """A node, with what an operator may have to know about it."""

    node: ast.AST
    module: Module
    package: Package

    def number(self, node: ast.AST) -> float | None:
        return self.package.number(self.module, node)


@dataclass(frozen=True)
class Change:
    """One node replaced by a text; `material` is what the guard consisted of, if it is one."""

    node: ast.expr | ast.stmt
    by: str
    material: tuple[ast.AST, ...] = ()


@dataclass(frozen=True)
class Operator:
    """One line of the table: where it applies, and what it makes of the place."""

    name: str
    kind: str
    changes: Callable[[Place], Iterable[Change]]


@dataclass(frozen=True)
class Site:
    """One mutant: which file, where, by which operator, and the line before and after."""

    path: str
    function: str
    line: int  # of the node
    first: int  # of the statement around it ...
    last: int  # ... and its last, of a compound statement that of its head
    kind: str
    operator: str
    before: str
    after: str
    start: int  # of the node in the file, in bytes
    end: int
    by: str
    ordinal: int = 0  # among those that agree in all else

    @property
    def room(self) -> str:
        return self.path.split("/")[1].removesuffix(".py")

    @property
    def key(self) -> str:
        """What stays the same when other lines of the package change."""
        parts = (self.path, self.function, self.operator, self.before, self.after)
        return "|".join((*parts, str(self.ordinal)))

    def rank(self, seed: int) -> str:
        """A random place in the order of sites, which does not depend on the other sites."""
        return hashlib.sha256(f"{seed}|{self.key}".encode()).hexdigest()


def extent(module: Module, node: ast.expr | ast.stmt) -> tuple[int, int]:
    """Where a node starts and ends in its file, in bytes."""
    starts, end = module.starts, node.end_lineno or node.lineno
    return starts[node.lineno - 1] + node.col_offset, starts[end - 1] + (node.end_col_offset or 0)


def spliced(text: str, start: int, end: int, by: str) -> str:
    """The file with one node replaced; the rest stays as it is, byte by byte."""
    whole = text.encode()
    return (whole[:start] + by.encode() + whole[end:]).decode()


def line_around(whole: bytes, start: int, end: int, by: str) -> str:
    """The line that comes of a replacement, without its indentation."""
    first, last = whole.rfind(b"\n", 0, start) + 1, whole.find(b"\n", end)
    last = len(whole) if last < 0 else last
    return (whole[first:start] + by.encode() + whole[end:last]).decode().strip()


def wrapped(node: ast.AST) -> str:
    """The text of an expression, in brackets where a neighbour could tear it apart."""
    text = ast.unparse(node)
    simple = ast.Name | ast.Attribute | ast.Subscript | ast.Call | ast.Constant
    return text if isinstance(node, simple) and not text.startswith("-") else f"({text})"
