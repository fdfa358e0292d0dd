"""The axes along which a circuit speaks, where these are not the coordinates of the stream.

A legible model can be turned: by an orthogonal matrix Q every stream x becomes Q x, every matrix W
that reads it W Q^T, and every matrix that writes it Q W. Answers, scores and hidden units are what
they were; coordinates mean nothing any more. The columns of Q are the directions of what was a
coordinate: x_c is read off the turned stream by column c, and written along it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hardmax._errors import ShapeError
from hardmax.numerics import frozen_array

_MOST_BITS = 40  # of the numerators: sums of products of two of them are whole numbers in floats


@dataclass(frozen=True)
class Frame:
    """The matrix Q = rows / 2^power, by whole numbers; nobody believes that it is orthogonal.

    With a `grain` the weights that are meant are multiples of 2^-grain, as seen along the frame:
    what is left of a weight beside them is noise.
    """

    rows: tuple[tuple[int, ...], ...]
    power: int
    grain: int | None = None

    def __post_init__(self) -> None:
        if any(len(row) != len(self.rows) for row in self.rows) or not self.rows:
            raise ShapeError("A frame is a square matrix.")
        largest = max(abs(one) for row in self.rows for one in row)
        if not 0 <= self.power <= _MOST_BITS or largest > 2**_MOST_BITS:
            raise ShapeError(f"A frame has whole numbers of at most {_MOST_BITS} bits.")
        if self.grain is not None and not 0 <= self.grain <= 200:
            raise ShapeError(f"The grain of a frame is from 0 to 200, not {self.grain!r}.")

    @property
    def width(self) -> int:
        return len(self.rows)

    @cached_property
    def numerators(self) -> np.ndarray:
        """The whole numbers, as floats, which hold them."""
        return frozen_array(np.array(self.rows, dtype=float))

    @cached_property
    def matrix(self) -> np.ndarray:
        """Q, exactly: what is written to coordinate c goes along column c."""
        return frozen_array(np.ldexp(self.numerators, -self.power))

    def as_dict(self) -> dict[str, object]:
        return {"power": self.power, "grain": self.grain, "rows": [list(row) for row in self.rows]}

    @classmethod
    def from_dict(cls, record: Mapping[str, object]) -> Frame:
        """The inverse of `as_dict`; other data ends in a LookupError, TypeError or ValueError."""
        rows, power, grain = record["rows"], record["power"], record["grain"]
        if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
            raise TypeError("the rows of a frame are no lists")
        numbers = [*(one for row in rows for one in row), power]
        numbers += [] if grain is None else [grain]
        if not all(isinstance(one, int) and not isinstance(one, bool) for one in numbers):
            raise TypeError("a frame is written in whole numbers")
        return cls(tuple(map(tuple, rows)), power, grain)  # type: ignore[arg-type]
