"""Who uses what: the lines by which a test shows that it reaches code that no tracer sees.

Lines of functions that Numba compiles are invisible to coverage, and lines at module level run
when the module is imported, whichever test comes first. What counts is who uses them: the lines
of ordinary functions that mention the kernel or the constant, through other kernels and constants
and through the doors of rooms.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property

from benchmarks.mutants._mutation import Site
from benchmarks.mutants._source import Function, Module, Package

Name = tuple[str, str]  # a module's path, and a name in it
Lines = dict[str, set[int]]  # by path
EVERYTHING = "*"  # stands for a module as a whole


@dataclass(frozen=True)
class Index:
    """Where each name is mentioned: in which lines of functions, and for which other names."""

    lines: dict[Name, set[tuple[str, int]]]
    through: dict[Name, set[Name]]


@dataclass(frozen=True, eq=False)
class References:
    """Who uses what in the package."""

    package: Package

    @cached_property
    def index(self) -> Index:
        made = Index(defaultdict(set), defaultdict(set))
        for module in self.package.modules.values():
            for statement in module.tree.body:
                self._enter(made, module, statement)
        return made

    def _enter(self, index: Index, module: Module, statement: ast.stmt) -> None:
        """Mentions in kernels and constants are passed on; those in functions are lines."""
        passed: list[str] = []
        if isinstance(statement, Function) and statement.name in module.kernels:
            passed = [statement.name]
        elif isinstance(statement, ast.Assign):
            passed = [one.id for one in statement.targets if isinstance(one, ast.Name)]
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            passed = [statement.target.id]
        for node in ast.walk(statement):
            for name in self._meant(module, node):
                if passed:
                    index.through[name] |= {(module.path, one) for one in passed}
                else:
                    index.lines[name].add((module.path, node.lineno))

    def _meant(self, module: Module, node: ast.AST) -> list[Name]:
        match node:
            case ast.Name(id=name):
                there, called = self.package.resolved(module, name)
                return [(there.path, called or EVERYTHING)]
            case ast.Attribute(value=ast.Name(id=owner), attr=name):
                there, called = self.package.resolved(module, owner)
                if not called:
                    there, called = self.package.resolved(there, name)
                    return [(there.path, called)]
        return []

    def users(self, name: Name) -> Lines:
        """The lines of ordinary functions that mention a name, directly or through others.

        If there are none, the name is reached through its module: those that mention that.
        """
        return self._mentions(name) or self._mentions((name[0], EVERYTHING))

    def _mentions(self, name: Name) -> Lines:
        seen, waiting, found = {name}, [name], defaultdict(set)
        while waiting:
            one = waiting.pop()
            for path, line in self.index.lines.get(one, ()):
                found[path].add(line)
            fresh = self.index.through.get(one, set()) - seen
            seen |= fresh
            waiting += fresh
        return dict(found)

    def lines_of(self, site: Site) -> Lines:
        """The lines whose execution shows that a test may see the mutant."""
        module = self.package.modules[site.path]
        outermost = site.function.split(".")[0]
        if not site.function:
            return self._at_module_level(module, site)
        if outermost in module.kernels:
            found = {path: {*lines} for path, lines in self.users((site.path, outermost)).items()}
            found.setdefault(site.path, set()).update(range(site.first, site.last + 1))
            return found  # its own lines run where a test calls the Python function under it
        around = _smallest(module, site.line, site.function)
        if isinstance(around, Function) and site.line >= around.body[0].lineno:
            return {site.path: set(range(site.first, site.last + 1)) | {site.line}}
        return {site.path: _body_lines(around)} if around is not None else {}

    def _at_module_level(self, module: Module, site: Site) -> Lines:
        found: dict[str, set[int]] = defaultdict(set)
        for statement in module.tree.body:
            if statement.lineno <= site.line <= (statement.end_lineno or 0):
                for node in ast.walk(statement):
                    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                        for path, lines in self.users((module.path, node.id)).items():
                            found[path] |= lines
        return dict(found) or {module.path: _body_lines(module.tree)}


def _smallest(module: Module, line: int, name: str) -> Function | ast.ClassDef | None:
    for node in ast.walk(module.tree):
        named = isinstance(node, Function | ast.ClassDef) and module.owner_of(node) == name
        if named and node.lineno <= line <= (node.end_lineno or 0):
            return node
    return None


def _body_lines(node: ast.AST) -> set[int]:
    """The lines of all functions in a node, without their heads."""
    inner = [one for one in ast.walk(node) if isinstance(one, Function)]
    return {n for one in inner for n in range(one.body[0].lineno, (one.end_lineno or 0) + 1)}


def sources_of(package: Package, path: str) -> set[str]:
    """The modules from which a module takes values: those it imports from, on and on."""
    seen, waiting = {path}, [path]
    while waiting:
        module = package.modules[waiting.pop()]
        fresh = {package.resolved(module, name)[0].path for name in module.imports} - seen
        seen |= fresh
        waiting += fresh
    return seen


def stale_kernels(package: Package, path: str) -> list[str]:
    """The files with kernels in which Numba's caches say nothing about a mutant of a file."""
    kernels = [one.path for one in package.modules.values() if one.kernels]
    return [one for one in kernels if path in sources_of(package, one)]
