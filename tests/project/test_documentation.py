"""The pages of docs/: what they show runs, and the reference leaves nothing out."""

from __future__ import annotations

import doctest
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import click
import pytest

import hardmax as hm
from hardmax.cli import main

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference_pages", DOCS / "reference_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["ten_minutes", "concepts"])
def test_sessions_of_pages_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    session = "".join(re.findall(r"^```python\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE))
    test = doctest.DocTestParser().get_doctest(session, {}, name, f"{name}.md", 0)
    assert test.examples
    said: list[str] = []
    assert doctest.DocTestRunner().run(test, out=said.append).failed == 0, "".join(said)


def test_every_public_name_and_command_has_a_page(reference: ModuleType) -> None:
    pages = reference.pages()
    text = "\n".join(pages.values())
    for name, thing in reference.public_names().items():
        assert len(re.findall(rf"\{{py:\w+\}} {re.escape(name)}[(\n]", text)) == 1, name
        assert reference.summary(thing), f"{name} says nothing of itself"
    assert {f"hm.{name}" for name in hm.__all__} - set(reference.public_names()) == {
        f"hm.{room}" for room in reference.ROOMS
    }
    context = click.Context(main)
    for name in main.list_commands(context):
        assert f"## hardmax {name}\n" in pages["commands"]
    assert set(re.findall(r"^\w+$", pages["index"], flags=re.MULTILINE)) >= set(pages) - {"index"}


def test_docstrings_become_markdown_that_says_the_same(reference: ModuleType) -> None:
    told = reference.markdown(
        """x*y <= `a*b` [sic], of k_i.

        >>> 2 * 3
        6

            indented * text
        """
    )
    assert told == (
        "x\\*y \\<= `a*b` \\[sic\\], of k\\_i.\n\n"
        "```python\n>>> 2 * 3\n6\n```\n\n```text\nindented * text\n```"
    )
