"""How a report is written: rows of words and numbers as text, and as plain data."""

from __future__ import annotations

import math

import numpy as np

MOST_ROWS = 40
_COLUMNS = (
    ("", "temp"),
    ("gap", ">="),
    ("wall", ">="),
    ("weights", "<="),
    ("", "actual"),
    ("outputs", "<="),
    ("", "actual"),
    ("temp", "needed"),
)


def table_lines(rows: list[list[str]], heads: int) -> list[str]:
    """The columns' names and the rows, at most 80 columns wide; how many `heads` are not shown."""
    over, under = (["", *names] for names in zip(("", ""), *_COLUMNS, strict=True))
    over[0], under[0], under[1] = "", "head", "kind"
    lines = [_line(row) for row in (over, under, *rows)]
    more = heads - MOST_ROWS
    return [*lines, f"and {more} more heads; as_dict() has all"] if more > 0 else lines


def column_names() -> list[str]:
    """The names of a row's words and numbers, in one line each."""
    return ["head", "kind", *(" ".join(filter(None, pair)) for pair in _COLUMNS)]


def _line(cells: list[str]) -> str:
    words = f"{cells[0]:<6} {cells[1]:<7}"
    return (words + "".join(f"{cell:>8}" for cell in cells[2:])).rstrip()


def number_text(number: float) -> str:
    if number == math.inf:
        return "any"
    return "<1e-99" if 0.0 < number < 1e-99 else f"{number:.2g}"


def plain_number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def plain_numbers(array: np.ndarray) -> list[float | None]:
    if array.dtype.kind != "f":
        return array.tolist()
    finite = np.isfinite(array)
    return array.tolist() if finite.all() else [plain_number(value) for value in array.tolist()]
