"""The recorded map: which tests execute which lines, and how long they take.

One pair of files for each test file: coverage's own data, and a summary. A test file is recorded
again when its text changes, and with `refresh` also when a source changed of which it executed a
line. Until then, a changed source is read by functions instead of lines: a function of the same
name is executed by the tests that executed it before.
"""

from __future__ import annotations

import ast
import hashlib
import json
import math
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from coverage.numbits import numbits_to_nums

from benchmarks.mutants._references import Lines
from benchmarks.mutants._source import Function, Module, Package

TESTS = Path("tests")
LEFT_OUT = {"test_mutants.py", "test_project.py"}  # one makes mutants, one looks at the wheel
SLOWEST = 20.0  # seconds of CPU: tests that take longer, coverage included, are not run on mutants
Spans = dict[str, list[list[Any]]]  # by path: name, first and last line of every function


@dataclass(frozen=True)
class Recorded:
    """What is known of one test file."""

    data: Path
    summary: dict[str, Any]

    def executing(self, lines: Lines, package: Package) -> dict[str, float]:
        """The tests that execute one of the lines, with the seconds they took; slow: infinite."""
        contexts: set[str] = set()
        with closing(sqlite3.connect(f"file:{self.data}?mode=ro", uri=True)) as database:
            for path, wanted in lines.items():
                now = self._as_recorded(package.modules[path], wanted)
                contexts |= _contexts(database, path, now)
        slow = {name: math.inf for name in self.summary["slow"] if name in contexts}
        return slow | {
            name: seconds
            for name, (seconds, shared) in self.summary["tests"].items()
            if name in contexts or contexts & {"collection", *shared}
        }

    @cached_property
    def breadth(self) -> int:
        """How many files of the package these tests execute: few, if they are special."""
        with closing(sqlite3.connect(f"file:{self.data}?mode=ro", uri=True)) as database:
            return int(database.execute("select count(*) from file").fetchone()[0])

    def _as_recorded(self, module: Module, wanted: set[int]) -> set[int]:
        """The lines as they were when this was recorded."""
        digest, spans = self.summary["sources"].get(module.path, ["", []])
        if digest == module.digest:
            return wanted
        names = {
            name for name, first, last in spans_of(module) if wanted & {*range(first, last + 1)}
        }
        return {
            line for name, first, last in spans if name in names for line in range(first, last + 1)
        }

    def is_fresh(self, file: Path, package: Package, *, refresh: bool) -> bool:
        if self.summary["digest"] != _digest(file):
            return False
        if not refresh:
            return True
        was = self.summary["sources"]
        moved = {p for p, m in package.modules.items() if was.get(p, [""])[0] != m.digest}
        with closing(sqlite3.connect(f"file:{self.data}?mode=ro", uri=True)) as database:
            seen = [row[0] for row in database.execute("select path from file")]
        return not any(one.endswith(f"/{path}") for one in seen for path in moved)


def _contexts(database: sqlite3.Connection, path: str, lines: set[int]) -> set[str]:
    query = (
        "select context.context, line_bits.numbits from line_bits"
        " join file on file.id = line_bits.file_id"
        " join context on context.id = line_bits.context_id where file.path like ?"
    )
    rows = database.execute(query, (f"%/{path}",))
    return {context for context, bits in rows if lines.intersection(numbits_to_nums(bits))}


def spans_of(module: Module) -> list[tuple[str, int, int]]:
    """Name, first and last line of every function of a module, bodies only."""
    return [
        (module.owner_of(node), node.body[0].lineno, node.end_lineno or 0)
        for node in ast.walk(module.tree)
        if isinstance(node, Function)
    ]


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]


@dataclass(frozen=True)
class Map:
    """The folder in which recordings are kept."""

    folder: Path

    def request(self, file: Path, package: Package) -> dict[str, Any]:
        """What a worker is asked for in order to record a test file."""
        sources = {p: [m.digest, spans_of(m)] for p, m in package.modules.items()}
        return {
            "task": "record",
            "file": str(file),
            "data": str((self.folder / f"{file.stem}.coverage").resolve()),
            "summary": str((self.folder / f"{file.stem}.json").resolve()),
            "about": {"digest": _digest(file), "sources": sources},
            "slowest": SLOWEST,
            "patience": 24 * 3600.0,
        }

    def recorded(self, file: Path) -> Recorded | None:
        summary = self.folder / f"{file.stem}.json"
        if not summary.exists():
            return None
        data = self.folder / f"{file.stem}.coverage"
        return Recorded(data, json.loads(summary.read_text()))

    def missing(self, files: Iterable[Path], package: Package, *, refresh: bool) -> list[Path]:
        """The test files that have to be recorded."""
        self.folder.mkdir(parents=True, exist_ok=True)
        found = {file: self.recorded(file) for file in files}
        return [
            file
            for file, one in found.items()
            if one is None or not one.is_fresh(file, package, refresh=refresh)
        ]


def test_files(asked: list[Path] | None) -> list[Path]:
    return asked or [one for one in sorted(TESTS.rglob("test_*.py")) if one.name not in LEFT_OUT]
