"""The house: no import cycles, rooms with a page at the door, tests that keep to their room."""

from __future__ import annotations

import ast
import doctest
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from benchmarks.walks import WALKS, walk

import hardmax

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
TESTS = ROOT / "tests"
PAGE_FROM = 4  # files of code from which on a folder has a README of its own
MOST_ANY = 150


# ---- imports -------------------------------------------------------------------------------------


def modules(root: Path) -> dict[str, Path]:
    """Every module below a folder by its dotted name; a package stands for its `__init__`."""
    names = {}
    for path in root.rglob("*.py"):
        parts = path.relative_to(root).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


def imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """(module, name) of every import anywhere in a file: late ones and those for types, too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)


def import_graph(root: Path) -> dict[str, set[str]]:
    known = modules(root)
    graph: dict[str, set[str]] = {name: set() for name in known}
    for name, path in known.items():
        for module, attribute in imported(ast.parse(path.read_text(encoding="utf-8"))):
            target = f"{module}.{attribute}" if f"{module}.{attribute}" in known else module
            if target in known and target != name:
                graph[name].add(target)
    return graph


def cycles(graph: dict[str, set[str]]) -> list[set[str]]:
    """The sets of modules that reach each other, by taking away whatever imports nothing left.

    What remains when no module is without imports, and then none without importers, is on a cycle
    or between two.
    """
    left = {name: set(targets) for name, targets in graph.items()}
    while True:
        targets = set().union(*left.values()) if left else set()
        gone = {name for name, needs in left.items() if not needs or name not in targets}
        if not gone:
            break
        left = {name: needs - gone for name, needs in left.items() if name not in gone}
    return [{name, *needs} for name, needs in left.items()]


def test_no_import_cycle_late_and_typing_imports_counted():
    assert cycles(import_graph(SOURCE)) == []


@pytest.mark.parametrize(
    ("graph", "found"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, False),
        ({"a": {"b"}, "b": {"a"}}, True),
        ({"z": {"a"}, "a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}, True),
        ({"a": {"c"}, "b": {"c"}, "c": {"d"}, "d": set()}, False),
    ],
)
def test_cycles_are_found(graph, found):
    assert bool(cycles(graph)) is found


def test_imports_inside_functions_are_seen(tmp_path):
    (tmp_path / "one.py").write_text("def f():\n    from two import g\n")
    (tmp_path / "two.py").write_text("import one\n")
    assert cycles(import_graph(tmp_path))


# ---- rooms ---------------------------------------------------------------------------------------


def rooms() -> list[Path]:
    """The package's folders that are too large to be understood from their door alone."""
    folders = {path.parent for path in (SOURCE / "hardmax").rglob("*.py")} - {SOURCE / "hardmax"}
    return sorted(one for one in folders if len(list(one.glob("*.py"))) >= PAGE_FROM)


@pytest.mark.parametrize("folder", rooms(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_room_has_a_page_at_its_door(folder):
    """What is decided here, in which order to read, one example: ten to forty lines."""
    page = folder / "README.md"
    assert page.exists()
    assert 8 <= len(page.read_text(encoding="utf-8").splitlines()) <= 60
    named = [path.stem for path in folder.glob("_*.py") if path.stem != "__init__"]
    missing = [name for name in named if name not in page.read_text(encoding="utf-8")]
    assert len(missing) <= len(named) // 3, f"the page does not mention {missing}"


# ---- tests ---------------------------------------------------------------------------------------


def private_imports(path: Path) -> set[str]:
    """The rooms whose underscores a test file imports; a room of one file is its own door."""
    rooms = set()
    for module, attribute in imported(ast.parse(path.read_text(encoding="utf-8"))):
        parts = [*module.split("."), attribute]
        if parts[0] == "hardmax" and any(part.startswith("_") for part in parts[2:]):
            rooms.add(parts[1])
    return rooms


@pytest.mark.parametrize("path", sorted(TESTS.rglob("test_*.py")), ids=lambda path: path.name)
def test_tests_import_underscores_of_their_own_room_only(path):
    room = path.relative_to(TESTS).parts[0]
    rooms = {"_archives", "_atomic", "_reading"} if room == "files" else {room}
    assert private_imports(path) <= rooms


def test_foreign_underscores_are_seen(tmp_path):
    file = tmp_path / "test_x.py"
    file.write_text(
        "from hardmax.core._construction import x\nfrom hardmax._atomic import _lock, write\n"
    )
    assert private_imports(file) == {"core", "_atomic"}


# ---- types ---------------------------------------------------------------------------------------


def annotations(tree: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
            yield from (one.annotation for one in every if one is not None and one.annotation)
            if node.returns is not None:
                yield node.returns
        elif isinstance(node, ast.AnnAssign):
            yield node.annotation


def anys(path: Path) -> int:
    """How many annotations of a file mention `Any`."""
    every = annotations(ast.parse(path.read_text(encoding="utf-8")))
    return sum(
        any(isinstance(part, ast.Name) and part.id == "Any" for part in ast.walk(annotation))
        for annotation in every
    )


def test_any_is_rare():
    assert sum(anys(path) for path in SOURCE.rglob("*.py")) <= MOST_ANY


def test_any_is_counted(tmp_path):
    file = tmp_path / "x.py"
    file.write_text("def f(a: Any, *b: dict[str, Any], c: int = 0) -> list[Any]:\n    x: Any = 1\n")
    assert anys(file) == 4


# ---- the project ---------------------------------------------------------------------------------


def test_authors_are_the_developers_and_versions_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["authors"] == [{"name": "The hardmax developers"}]
    citation = (ROOT / "CITATION.cff").read_text()
    assert "name: The hardmax developers" in citation
    assert f"version: {project['version']}" in citation
    assert project["version"] == hardmax.__version__
    assert "@" not in citation


def test_the_workflow_runs_make_test_on_every_supported_python():
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    versions = [c.rsplit(" ", 1)[1] for c in project["classifiers"] if "Python :: 3." in c]
    assert versions == ["3.11", "3.12", "3.13"]
    assert f"python: [{', '.join(f'{chr(34)}{v}{chr(34)}' for v in versions)}]" in workflow
    assert "make PYTHON=python test" in workflow


# ---- the pages' examples -------------------------------------------------------------------------


@pytest.mark.parametrize("folder", rooms(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_the_example_at_the_door_runs(folder, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    text = (folder / "README.md").read_text(encoding="utf-8")
    parsed = doctest.DocTestParser().get_doctest(text, {}, str(folder), "README.md", 0)
    found = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(parsed)
    assert found.failed == 0
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        if ">>>" not in block and not block.startswith("@"):  # a signature is no call
            exec(block, {"hm": hardmax, "np": np})


def test_the_walks_lead_through_files_that_are_there():
    """`python -m benchmarks.walks --write` writes the page again."""
    text = (ROOT / "docs" / "walks.md").read_text(encoding="utf-8")
    files = re.findall(r"^\d+\. `([\w/]+\.py)`", text, re.MULTILINE)
    assert len(files) > 80
    assert [file for file in files if not (SOURCE / "hardmax" / file).exists()] == []
    told = re.findall(r"`: (\d+) files \(at most (\d+)\)", text)
    assert len(told) == 3
    assert all(int(count) <= int(most) for count, most in told)


@pytest.mark.parametrize("name", WALKS)
def test_walks_are_as_long_as_the_page_says(name):
    text = (ROOT / "docs" / "walks.md").read_text(encoding="utf-8")
    assert f"## `{WALKS[name][1]}`: {len(walk(name))} files" in text
