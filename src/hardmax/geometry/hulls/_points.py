"""Points with exact coordinates: floats for speed, whole numbers where floats cannot decide."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from hardmax._errors import ShapeError
from hardmax.numerics import TINY, UNIT, frozen_array, inflate

_MANTISSA = 53
_WHOLE = 2.0**53  # whole numbers up to here are floats
_REAL = (int, float, Fraction, np.integer, np.floating)

Real = int | float | Fraction | np.integer | np.floating
Row = np.ndarray | Sequence[Real]


@dataclass(frozen=True, eq=False)
class Points:
    """Rows of exact numbers: the floats themselves, or Fractions that the floats approximate.

    `floats` is at most `slack` (one number a column) from the truth; 0 where the floats are it.
    """

    floats: np.ndarray
    fractions: np.ndarray | None = None  # of Fractions, where some are no floats

    @classmethod
    def of(cls, rows: object, name: str = "points") -> Points:
        """Numbers as a user writes them: floats, whole numbers, Fractions."""
        if isinstance(rows, Points):
            return rows
        given = _numbers(rows, name)
        exact = given.dtype == object or (
            given.dtype.kind in "iu" and bool((np.abs(given.astype(np.float64)) > _WHOLE).any())
        )
        try:
            floats = np.asarray(given, dtype=np.float64)
        except OverflowError as reason:
            raise ShapeError(
                f"The {name} hold numbers beyond 1.8e308, the largest float; scale them down."
            ) from reason
        if floats.ndim != 2:
            raise ShapeError(
                f"The {name} must be a table, one row each, but the shape is {floats.shape}."
            )
        if not np.isfinite(floats).all():
            raise ShapeError(f"The {name} hold nan or infinities; give finite numbers.")
        if not exact:
            return cls(frozen_array(floats + 0.0))
        return cls._of_rationals(given.astype(object), floats)

    @classmethod
    def _of_rationals(cls, given: np.ndarray, floats: np.ndarray) -> Points:
        flat = [Fraction(x) for x in given.ravel().tolist()]
        held = [Fraction(x) for x in floats.ravel().tolist()]
        if flat == held:
            return cls(frozen_array(floats + 0.0))
        fractions = np.array(flat, dtype=object).reshape(given.shape)
        return cls(frozen_array(floats + 0.0), fractions)

    def __len__(self) -> int:
        return len(self.floats)

    @property
    def dimension(self) -> int:
        return self.floats.shape[1]

    @property
    def is_float(self) -> bool:
        return self.fractions is None

    @cached_property
    def slack(self) -> np.ndarray:
        """How far the floats of each column are from the truth, at most."""
        if self.fractions is None or not len(self):
            return np.zeros(self.dimension)
        return inflate(UNIT * np.abs(self.floats).max(axis=0) + TINY, 2)

    def take(self, rows: np.ndarray | Sequence[int]) -> Points:
        rows = np.asarray(rows)
        some = None if self.fractions is None else self.fractions[rows]
        return Points(self.floats[rows], some)

    def columns(self, chosen: Iterable[int]) -> Points:
        chosen = list(chosen)
        some = None if self.fractions is None else self.fractions[:, chosen]
        return Points(frozen_array(self.floats[:, chosen]), some)

    def with_column(self, column: Points) -> Points:
        """These points with one more coordinate."""
        floats = frozen_array(np.hstack([self.floats, column.floats]))
        if self.is_float and column.is_float:
            return Points(floats)
        return Points(floats, np.hstack([self.rationals(), column.rationals()]))

    def with_row(self, row: np.ndarray) -> Points:
        """These points and one more, which is a float."""
        floats = frozen_array(np.vstack([self.floats, row]))
        if self.fractions is None:
            return Points(floats)
        own = np.array([[Fraction(x) for x in row.tolist()]], dtype=object)
        return Points(floats, np.vstack([self.fractions, own]))

    def with_mean(self, rows: list[int]) -> Points:
        """These points and the mean of some of them, exactly."""
        mean = self.rationals(rows).sum(axis=0) / len(rows)
        floats = np.array([float(x) for x in mean.tolist()])
        return Points(
            frozen_array(np.vstack([self.floats, floats])), np.vstack([self.rationals(), mean])
        )

    def shifted(self, exponents: np.ndarray) -> Points:
        """Every column times 2^exponent; in Fractions where floats would lose digits."""
        with np.errstate(over="ignore", under="ignore"):
            floats = np.ldexp(self.floats, exponents)
            same = np.ldexp(floats, -exponents) == self.floats
        if self.fractions is None and same.all():
            return Points(frozen_array(floats))
        powers = [Fraction(2**k) if k >= 0 else Fraction(1, 2**-k) for k in exponents.tolist()]
        return Points(frozen_array(floats), self.rationals() * np.array(powers, dtype=object))

    def rationals(self, rows: np.ndarray | list[int] | slice = slice(None)) -> np.ndarray:
        """The exact coordinates as Fractions."""
        if self.fractions is not None:
            return self.fractions[rows]
        chosen = self.floats[rows]
        exact = [Fraction(x) for x in chosen.ravel().tolist()]
        return np.array(exact, dtype=object).reshape(chosen.shape)

    def whole(self, rows: np.ndarray) -> np.ndarray:
        """The exact coordinates of some rows, each column times one positive number: integers."""
        if self.fractions is not None:
            chosen = self.fractions[rows]
            common = [_common(self.fractions[:, c]) for c in range(self.dimension)]
            whole = [[int(x * m) for x, m in zip(r, common, strict=True)] for r in chosen.tolist()]
            return np.array(whole, dtype=object).reshape(len(rows), self.dimension)
        digits, exponents = np.frexp(self.floats[rows])
        digits = np.ldexp(digits, _MANTISSA).astype(np.int64).astype(object)
        places = np.where(digits == 0, 0, exponents - self._lowest)
        return digits << places.astype(object)

    @cached_property
    def _lowest(self) -> np.ndarray:
        """The smallest exponent of each column, over all rows."""
        exponents = np.where(self.floats == 0.0, 2000, np.frexp(self.floats)[1])
        lowest = exponents.min(axis=0, initial=2000)
        return np.where(lowest == 2000, 0, lowest)

    def distinct(self) -> tuple[np.ndarray, np.ndarray]:
        """The first row of each kind, and for every row the place of its kind among them."""
        if self.fractions is None:
            if self.dimension and _all_differ(self.floats[:, 0]):
                return np.arange(len(self)), np.arange(len(self))
            _, first, kind = np.unique(self.floats, axis=0, return_index=True, return_inverse=True)
            return _in_order(first, kind.reshape(-1))
        seen: dict[tuple, int] = {}
        numbers = [seen.setdefault(tuple(row), len(seen)) for row in self.fractions.tolist()]
        kinds = np.array(numbers)
        return np.unique(kinds, return_index=True)[1], kinds


Rows = np.ndarray | Sequence[Row] | Points  # numbers as a user writes them


def depth_of(rows: object) -> int:
    """How deep a nested list is, or an array; 2 if its rows have different lengths."""
    try:
        return np.asarray(rows).ndim
    except ValueError:
        return 2


def _numbers(rows: object, name: str) -> np.ndarray:
    """An array of real numbers, floats, whole numbers or Fractions; nothing else."""
    refusal = ShapeError(f"The {name} must be rows of numbers, all of one dimension.")
    try:
        given = np.asarray(rows)
    except (TypeError, ValueError, OverflowError) as reason:
        raise refusal from reason
    plain = given.dtype.kind in "fiu" or not given.size
    if given.dtype == object:
        plain = all(isinstance(x, _REAL) for x in given.ravel().tolist())
    if not plain:
        raise refusal
    return given.astype(np.float64) if not given.size else given


def _all_differ(column: np.ndarray) -> bool:
    ordered = np.sort(column)
    return bool((ordered[1:] != ordered[:-1]).all())


def _in_order(first: np.ndarray, kind: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return first[order], place[kind]


def _common(column: np.ndarray) -> int:
    """The least common denominator."""
    return math.lcm(*(x.denominator for x in column.tolist()))


# ---- signs in whole numbers: for the few that floats leave open ----------------------------------


def whole_normals(corners: np.ndarray) -> np.ndarray:
    """Normals of simplices, given as (simplices, corners, coordinates) of whole numbers.

    Minors by expansion along the last row, over all sets of columns as bits.
    """
    count, width = corners.shape[0], corners.shape[2]
    rows = corners[:, 1:] - corners[:, :1]
    minors: dict[int, np.ndarray] = {0: np.array([1] * count, dtype=object)}
    for chosen in range(1, 1 << width):
        k = chosen.bit_count()
        if k > width - 1:
            continue
        total = np.array([0] * count, dtype=object)
        for place, c in enumerate(c for c in range(width) if chosen >> c & 1):
            term = rows[:, k - 1, c] * minors[chosen ^ (1 << c)]
            total = total + term if (k - 1 + place) % 2 == 0 else total - term
        minors[chosen] = total
    full = (1 << width) - 1
    columns = [
        minors[full ^ (1 << c)] * (1 if (width - 1 + c) % 2 == 0 else -1) for c in range(width)
    ]
    return np.stack(columns, axis=1)


def whole_signs(numbers: np.ndarray) -> np.ndarray:
    """-1, 0 or 1 for whole numbers of any size."""
    return np.array([(x > 0) - (x < 0) for x in numbers.tolist()], dtype=np.int8)


def sides_of(points: Points, simplices: np.ndarray, others: np.ndarray) -> np.ndarray:
    """For each simplex the sign of the determinant with its other point: which side it is on."""
    if not len(simplices):
        return np.zeros(0, dtype=np.int8)
    count, width = simplices.shape
    used, place = np.unique(np.concatenate([simplices.ravel(), others]), return_inverse=True)
    whole = points.whole(used)
    corners = whole[place[: count * width]].reshape(count, width, -1)
    normals = whole_normals(corners)
    away = whole[place[count * width :]] - corners[:, 0]
    return whole_signs((normals * away).sum(axis=1))
