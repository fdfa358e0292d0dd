"""The installed package as trees: its modules, what names mean, and the numbers behind them."""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path

PACKAGE = "hardmax"
_DEEPEST = 8  # doors that a name passes through, at most
_NUMBA = re.compile(r"^\s*(from|import) (numba|hardmax\.geometry\._compiled)\b", re.MULTILINE)

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, eq=False)
class Module:
    """One file: its text, its tree, and who contains whom."""

    path: str  # from the package's parent, "hardmax/analysis/_flow.py"
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def name(self) -> str:
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def room(self) -> str:
        """The first folder below the package; files beside the rooms are rooms of their own."""
        return self.path.split("/")[1].removesuffix(".py")

    @cached_property
    def encoded(self) -> bytes:
        return self.text.encode()

    @cached_property
    def starts(self) -> list[int]:
        """Where each line starts, in bytes; trees count columns in bytes, too."""
        sizes = (len(line) for line in self.encoded.splitlines(keepends=True))
        return [0, *accumulate(sizes)]

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.encoded).hexdigest()[:16]

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        found: dict[ast.AST, ast.AST] = {}
        for node in ast.walk(self.tree):
            for child in ast.iter_child_nodes(node):
                found[child] = node
        return found

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """The node's parent, its parent's parent, ..."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def function_of(self, node: ast.AST) -> Function | None:
        """The outermost function around a node."""
        around = [one for one in self.above(node) if isinstance(one, Function)]
        return around[-1] if around else None

    def owner_of(self, node: ast.AST) -> str:
        """The dotted name of the function or class around a node; empty at module level."""
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        around = [node, *self.above(node)] if isinstance(node, kinds) else list(self.above(node))
        return ".".join(reversed([one.name for one in around if isinstance(one, kinds)]))

    @cached_property
    def imports(self) -> dict[str, tuple[str, str]]:
        """What a name of this file was called where it came from: (module, name there)."""
        found = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    found[alias.asname or alias.name] = (node.module, alias.name)
        return found

    @cached_property
    def assigned(self) -> dict[str, ast.expr]:
        """The names that are given a value once at module level."""
        found: dict[str, ast.expr] = {}
        for node in self.tree.body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    found[name] = value
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    found[name] = value
        return found

    @cached_property
    def kernels(self) -> set[str]:
        """The functions that Numba compiles: coverage does not see their lines.

        Decorators have several names, some of them made in the file itself; where Numba is
        imported, whatever is decorated at module level is compiled.
        """
        if not _NUMBA.search(self.text):
            return set()
        made = (one for one in self.tree.body if isinstance(one, Function))
        return {one.name for one in made if one.decorator_list}


def last_name(node: ast.AST) -> str:
    """`c` of a name `c` or of an attribute `a.b.c`; of a subscript, that of its base."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(value=value) | ast.Starred(value=value):
            return last_name(value)
    return ""


@dataclass(frozen=True, eq=False)
class Package:
    """All modules of the package, as installed."""

    modules: dict[str, Module]  # by path

    @classmethod
    def read(cls, folder: Path) -> Package:
        """The package in its folder `.../hardmax`."""
        paths = sorted(folder.rglob("*.py"))
        return cls.of({p.relative_to(folder.parent).as_posix(): p.read_text() for p in paths})

    @classmethod
    def of(cls, texts: dict[str, str]) -> Package:
        return cls({path: Module(path, text) for path, text in texts.items()})

    @cached_property
    def by_name(self) -> dict[str, Module]:
        return {module.name: module for module in self.modules.values()}

    @cached_property
    def digest(self) -> str:
        joined = "".join(f"{path}{one.digest}" for path, one in sorted(self.modules.items()))
        return hashlib.sha256(joined.encode()).hexdigest()[:16]

    def resolved(self, module: Module, name: str) -> tuple[Module, str]:
        """Where a name of a module is defined, through the doors it was imported by.

        A name that stands for a whole module resolves to that module and an empty name.
        """
        for _ in range(_DEEPEST):
            if name not in module.imports:
                break
            source, there = module.imports[name]
            if f"{source}.{there}" in self.by_name:
                return self.by_name[f"{source}.{there}"], ""
            if source not in self.by_name:
                break
            module, name = self.by_name[source], there
        return module, name

    def number(self, module: Module, node: ast.AST, depth: int = 0) -> float | None:
        """The value of an expression of literals and module-level constants, if it is one."""
        if depth > _DEEPEST:
            return None
        match node:
            case ast.Constant(value=bool()):
                return None
            case ast.Constant(value=int() | float() as value):
                return float(value) if abs(value) < 1e308 else None
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                inner = self.number(module, operand, depth)
                return None if inner is None else -inner
            case ast.BinOp(left=left, op=op, right=right):
                a, b = self.number(module, left, depth), self.number(module, right, depth)
                return None if a is None or b is None else _calculated(op, a, b)
            case ast.Name(id=name):
                there, called = self.resolved(module, name)
                value = there.assigned.get(called)
                return None if value is None else self.number(there, value, depth + 1)
        return None


def _calculated(op: ast.operator, a: float, b: float) -> float | None:
    try:
        match op:
            case ast.Add():
                return a + b
            case ast.Sub():
                return a - b
            case ast.Mult():
                return a * b
            case ast.Div():
                return a / b
            case ast.Pow():
                return float(a**b) if abs(b) < 2000 else None
    except (ArithmeticError, TypeError):
        return None
    return None
