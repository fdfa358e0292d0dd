"""What the pages and the example say of TransformerLens is so."""

from __future__ import annotations

import doctest
import importlib.metadata
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import hardmax as hm

ROOT = Path(__file__).resolve().parents[2]


def test_the_guide_s_session() -> None:
    page = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
    session = "".join(re.findall(r"^```pycon\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE))
    test = doctest.DocTestParser().get_doctest(session, {"hm": hm}, "guide", "guide.md", 0)
    assert len(test.examples) >= 5
    said: list[str] = []
    assert doctest.DocTestRunner().run(test, out=said.append).failed == 0, "".join(said)


def test_the_examples_in_docstrings() -> None:
    doors = [hm.interop.write_transformer_lens, hm.interop.export_lens_files]
    doors += [hm.interop.read_lens_files, hm.interop.LensFiles]
    if not importlib.metadata.version("transformer-lens").startswith("3."):
        doors.append(hm.interop.open_in_lens)
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner()
    said: list[str] = []
    for door in doors:
        for test in finder.find(door, door.__name__, globs={"hm": hm}):
            runner.run(test, out=said.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(said)
    assert runner.tries >= 12


def test_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "doors_lens.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert "cabea backwards: aebac\n" in said
    assert "position 0 looks at 4\n" in said
    assert "0.3 * 0.5 = 0.15" in said
    folder = "a folder for T5, in the bridge: aebac\n"
    assert (folder in said) == (not importlib.metadata.version("transformer-lens").startswith("3."))
    lost = re.search(r"without that head: (\w+)\n", said)
    assert lost is not None
    assert lost[1] != "aebac"


def test_the_door_loads_no_guest() -> None:
    code = "import sys, hardmax as hm; hm.interop; sys.exit('transformer_lens' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
