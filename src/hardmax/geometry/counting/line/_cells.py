"""What a segment falls into, and the answer that a question about it gets."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hardmax.geometry.counting.line._quadratic import QuadraticNumber
from hardmax.numerics import nearest_float


@dataclass(frozen=True, eq=False)
class LineCell:
    """An open interval of t with one pattern, on which the output is slope * t + level.

    Ends are Fractions for networks and QuadraticNumbers for Transformers, slopes and levels are
    Fractions, one an output; all of them floats in a fast answer. The pattern has a tuple a layer:
    of a network the row that each unit takes its value from (-1 for the 0 of a rectifier), of a
    Transformer the winners of each head and token, or which rectifiers of each token are on.
    """

    start: Fraction | QuadraticNumber | float
    end: Fraction | QuadraticNumber | float
    pattern: tuple[tuple, ...]
    slope: tuple[Fraction | float, ...]
    level: tuple[Fraction | float, ...]

    @property
    def volume(self) -> float:
        """Its length in t, rounded once where the ends are Fractions."""
        if isinstance(self.start, Fraction) and isinstance(self.end, Fraction):
            return nearest_float(self.end - self.start)
        return float(self.end) - float(self.start)

    def at(self, t: Fraction) -> list[Fraction | float]:
        """The outputs at t."""
        return [a * t + b for a, b in zip(self.slope, self.level, strict=True)]


def joined_cells(cells: Sequence[LineCell]) -> int:
    """How many maximal intervals have one affine map: neighbours with equal maps are one."""
    pairs = itertools.pairwise(cells)
    return 1 + sum(one.slope != other.slope or one.level != other.level for one, other in pairs)


def as_floats(cells: Sequence[LineCell]) -> np.ndarray:
    """cells x outputs x (slope, level)."""
    maps = [
        [[nearest_float(a), nearest_float(b)] for a, b in zip(c.slope, c.level, strict=True)]
        for c in cells
    ]
    return np.array(maps).reshape(len(cells), -1, 2)
