"""What points span: affinely independent rows, and as many columns that tell them apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardmax.geometry.hulls._points import Points, whole_normals
from hardmax.numerics import STEP, inflate


@dataclass(frozen=True)
class Frame:
    """`rows`, one more than `columns`, are affinely independent in those columns.

    The other columns are affine functions of them, on all points.
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    decided: int


def affine_frame(points: Points, *, last: bool = False) -> Frame:
    """Pivots by size; a pivot that might be rounding is decided in whole numbers.

    With `last` the last column is chosen only if it is no affine function of all others.
    """
    width = points.dimension
    search = _Search(points)
    search.grow(list(range(width - 1 if last else width)))
    if last:
        search.grow([width - 1])
    return Frame(tuple(search.rows), tuple(sorted(search.columns)), search.decided)


class _Search:
    """Elimination in floats, with a bound on what they may be off by.

    Columns are scaled to at most 1. Clearing a column with the pivot p, the largest that is left,
    subtracts at most 1 times the pivot's row, of size at most m; both are off by e, the factor by
    2 e / p: afterwards everything is off by at most e (2 + 2 m / p) and what it rounds.
    """

    def __init__(self, points: Points) -> None:
        self.points = points
        with np.errstate(over="ignore", invalid="ignore"):  # then the error is no number
            away = points.floats - points.floats[:1]
            largest = np.abs(away).max(axis=0, initial=0.0)
            scale = np.where(largest > 0.0, largest, 1.0)
            self.left = away / scale
            off = inflate(STEP + 2.0 * points.slack / scale)  # two roundings, and that of the ends
        self.error = float(np.where(np.isfinite(self.left).all(), off.max(initial=STEP), np.inf))
        self.rows, self.columns, self.decided = [0], list[int](), 0

    def grow(self, allowed: list[int]) -> None:
        """As many of the allowed columns as there are, with a row each."""
        while not set(allowed) <= set(self.columns):
            row, column = self._largest(allowed)
            if abs(self.left[row, column]) > 4.0 * self.error:  # nan is not
                self._clear(row, column)
            else:
                self.decided += len(self.points)
                pivot = self._exact_pivot(allowed)
                if pivot is None:
                    return
                row, column = pivot
                self.error = np.inf  # the floats say nothing from here on
            self.rows.append(row)
            self.columns.append(column)

    def _largest(self, allowed: list[int]) -> tuple[int, int]:
        open_ = [c for c in allowed if c not in self.columns]
        size = np.abs(self.left[:, open_])
        row, place = np.unravel_index(int(size.argmax()), size.shape)
        return int(row), open_[int(place)]

    def _clear(self, row: int, column: int) -> None:
        pivot, taken = self.left[row, column], self.left[row].copy()
        most = float(np.abs(taken).max())
        self.left = self.left - np.outer(self.left[:, column] / pivot, taken)
        grown = self.error * (2.0 + 2.0 * most / abs(float(pivot)))
        self.error = inflate(grown + 2.0 * STEP * (1.0 + most))

    def _exact_pivot(self, allowed: list[int]) -> tuple[int, int] | None:
        """A row and a column that enlarge the frame; none if there is nothing beyond it.

        The determinant of the frame with one more row and one more column vanishes for all of
        them exactly if the frame spans everything.
        """
        whole = self.points.whole(np.arange(len(self.points)))
        for column in allowed:
            if column in self.columns:
                continue
            seen = whole[:, [*self.columns, column]]
            normal = whole_normals(seen[self.rows][None])[0]
            beyond = ((seen - seen[self.rows[0]]) * normal).sum(axis=1)
            row = next((k for k, away in enumerate(beyond.tolist()) if away != 0), None)
            if row is not None:
                return row, column
        return None
