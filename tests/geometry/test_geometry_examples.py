"""The examples of geometry: their tables say what they should, their pictures are drawn."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def told(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return capsys.readouterr().out


def test_published_statements_beside_what_is_true(capsys: pytest.CaptureFixture[str]) -> None:
    rows = told("published_statements.py", capsys).splitlines()[2:]
    assert len(rows) == 9
    expected = [
        ("V.2", "14, 46, 158, 574"),
        ("V.9", "32 cells at most"),
        ("VI.1(3)", "0.03533"),  # 2 p (1 - p) with p = 1/(1 + e^4)
        ("Example VI.2", "4.609e-04"),
        ("V.7", "36, counted"),
        ("temperature", "T = 8"),
        ("Fig. 4", "attained: 92"),
        ("Fig. 1", "attained: 8"),
        ("Example V.3", "4.722e21"),
    ]
    for row, (statement, number) in zip(rows, expected, strict=True):
        assert row.startswith(statement)
        assert number in row


def test_figures_are_drawn(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["tropical_figures.py", "--quick"])
    monkeypatch.syspath_prepend(str(EXAMPLES))
    text = told("tropical_figures.py", capsys)
    drawn = {path.name for path in (tmp_path / "out").iterdir()}
    assert drawn == {"figure_5.svg", "figure_6a.svg", "figure_6b.svg", "exponents.svg"}
    assert "H = 3, N = 2:    8     8.00      8" in text  # three segments: a cube, always
    assert "[14, 46, 158, 574, 2174, 8446]" in text
