"""The README of each folder: its example runs, and the files that it names are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import hardmax

LOWERING = Path(hardmax.__file__).parent / "lowering"
FOLDERS = (".", "approximants", "functions", "gadgets", "programs", "sketch")


@pytest.mark.parametrize("folder", FOLDERS)
def test_examples_run(folder):
    text = (LOWERING / folder / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert blocks
    for block in blocks:
        exec(block, {})


@pytest.mark.parametrize("folder", FOLDERS[2:])
def test_every_file_is_named_and_every_name_is_a_file(folder):
    text = (LOWERING / folder / "README.md").read_text()
    named = set(re.findall(r"`(_\w+)(?:\.py)?`", text))
    there = {path.stem for path in (LOWERING / folder).glob("_*.py")} - {"__init__"}
    assert there <= named
    assert {f"{name}.py" for name in named} <= {path.name for path in LOWERING.rglob("_*.py")}
