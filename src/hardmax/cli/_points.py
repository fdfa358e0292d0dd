"""Points as people type them: numbers, names with numbers, files, or rows from a pipe."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TextIO

import numpy as np

from hardmax import FileError, RequestError, ShapeError
from hardmax._archives import array_in, arrays_in, is_archive
from hardmax._reading import naming, read_file, reason_in_words


def typed_point(values: tuple[str, ...], names: Sequence[str]) -> np.ndarray:
    """One point from `0.3 -0.5` or, by the inputs' names, `x=0.3 y=-0.5`, as a batch of one."""
    inputs = len(names)
    if any("=" in value for value in values):
        numbers = _values_by_name(values, names)
    else:
        numbers = [_number(value, inputs) for value in values]
    if len(numbers) != inputs:
        raise ShapeError(
            f"The model reads {_numbers(inputs)}, but {len(numbers)} came. Give one point as "
            f"{example(inputs)}, or many with --input."
        )
    return np.array([numbers])


def points_from(place: str, inputs: int) -> np.ndarray:
    """One point per row, from .npy, .npz, a text file, or - for stdin."""
    points = _read_points(place)
    if points.ndim == 1 and points.size == inputs:
        points = points[None]
    if points.ndim != 2 or points.shape[1] != inputs or not len(points):
        raise ShapeError(
            f"{_name(place)} must hold rows of {_numbers(inputs)}, but its shape is {points.shape}."
        )
    return points


def standard_input() -> TextIO:
    """What is piped into the command; Python has nothing there if it was closed."""
    if sys.stdin is None:
        raise FileError("The standard input is closed. Pipe something into it, or name a file.")
    return sys.stdin


def example(inputs: int) -> str:
    """What a user could type for one point."""
    shown = ["0.3", "-0.5", "0.2"][:inputs]
    return " ".join(shown) + (" ..." if inputs > len(shown) else "")


def _numbers(count: int) -> str:
    return f"{count} number{'s' * (count != 1)}"


def _values_by_name(values: Iterable[str], names: Sequence[str]) -> list[float]:
    given: dict[str, float] = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals:
            raise RequestError(
                f"{value!r} has no name. Name all numbers, as in {names[0]}=0.3, or none."
            )
        if name not in names:
            raise RequestError(f"There is no input {name!r}. The inputs are {_range(names)}.")
        if name in given:
            raise RequestError(f"{name} is given twice. Give every input once.")
        given[name] = _number(text, len(names))
    missing = [name for name in names if name not in given]
    if missing:
        raise RequestError(f"{missing[0]} is missing. The inputs are {_range(names)}.")
    return [given[name] for name in names]


def _range(names: Sequence[str]) -> str:
    numbered = len(names) > 1 and list(names) == [f"x{i}" for i in range(len(names))]
    return f"{names[0]} to {names[-1]}" if numbered else ", ".join(names)


def _number(text: str, inputs: int) -> float:
    try:
        return float(text)
    except ValueError:
        raise RequestError(
            f"{text!r} is not a number. Give {_numbers(inputs)}, as in {example(inputs)}."
        ) from None


def _name(place: str) -> str:
    return "The standard input" if place == "-" else place


def _read_points(place: str) -> np.ndarray:
    suffix = Path(place).suffix.lower()
    try:
        if place == "-":
            return _rows(standard_input(), place)
        with naming(place):
            data = read_file(place)
            if suffix in (".npy", ".npz"):
                return _array(data)
        return _rows(io.StringIO(data.decode()), place)
    except UnicodeDecodeError:
        raise FileError(
            f"{_name(place)} holds no text. Give .npy, .npz, or rows of numbers."
        ) from None
    except OSError as reason:
        raise FileError(
            f"The standard input could not be read ({reason_in_words(reason)})."
        ) from reason


def _array(data: bytes) -> np.ndarray:
    arrays = [*arrays_in(data).values()] if is_archive(data) else [array_in(data)]
    if len(arrays) != 1:
        raise FileError(f"must hold one array, but it holds {len(arrays)}.")
    if arrays[0].dtype.kind not in "fiub":
        raise FileError("could not be read as an array of numbers.")
    return arrays[0].astype(np.float64)


def _rows(lines: Iterable[str], place: str) -> np.ndarray:
    """Numbers separated by blanks or commas, one point per line; blank lines are passed over."""
    rows: list[list[float]] = []
    for number, line in enumerate(lines, 1):
        try:
            row = [float(word) for word in line.replace(",", " ").split()]
        except ValueError:
            raise FileError(
                f"{_name(place)} has something other than numbers in line {number}."
            ) from None
        if row and rows and len(row) != len(rows[0]):
            raise ShapeError(
                f"{_name(place)} has {len(row)} numbers in line {number}, but {len(rows[0])} in "
                f"the lines before."
            )
        if row:
            rows.append(row)
    return np.array(rows, dtype=np.float64).reshape(len(rows), -1 if rows else 0)
