"""Pieces of work: cells before one layer, packed into arrays, from the whole domain on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import NamedTuple

import numpy as np

from hardmax._errors import DomainError
from hardmax.core import Box
from hardmax.geometry.counting._domains import Segment, Slice
from hardmax.geometry.counting.switch._exact import (
    DOMAIN,
    ExactCell,
    Form,
    coordinates,
    homogeneous,
    primitive,
)
from hardmax.geometry.counting.switch._program import SwitchProgram
from hardmax.numerics import TINY, UNIT, above_float, inflate, nearest_ratio


@dataclass(frozen=True, eq=False)
class SwitchPiece:
    """Cells before one layer, as a piece of work that can be sent anywhere with its program.

    Cell i has the vertices vstart[i]:vstart[i + 1], each with a bound of how far it may be off and
    with bits for the facets it lies on; facets fstart[i]:fstart[i + 1] are labelled (layer, group,
    piece, rival), or (-1, side, 0, 0) on the boundary of the domain. `pattern` holds the winners so
    far. `counted` is what earlier layers have, and `decided` how many signs were exact on the way,
    in this piece's share.
    """

    sides: tuple[Form, ...]
    reach: np.ndarray
    layer: int
    vstart: np.ndarray
    points: np.ndarray
    stray: np.ndarray
    bits: np.ndarray
    fstart: np.ndarray
    labels: np.ndarray
    pattern: np.ndarray
    ties: tuple[tuple[int, ...], ...] = ()
    counted: tuple[int, ...] = ()
    decided: int = 0

    def __len__(self) -> int:
        return len(self.vstart) - 1

    def pick(self, index: np.ndarray) -> SwitchPiece:
        """Cells by number, in the order given."""
        vstart, vertices = _ranges(self.vstart, index)
        fstart, facets = _ranges(self.fstart, index)
        return replace(
            self,
            vstart=vstart,
            points=self.points[vertices],
            stray=self.stray[vertices],
            bits=self.bits[vertices],
            fstart=fstart,
            labels=self.labels[facets],
            pattern=self.pattern[index],
        )

    def take(self, first: int, last: int) -> SwitchPiece:
        """Neighbouring cells."""
        vertices, facets = slice(*self.vstart[[first, last]]), slice(*self.fstart[[first, last]])
        return replace(
            self,
            vstart=self.vstart[first : last + 1] - self.vstart[first],
            points=self.points[vertices],
            stray=self.stray[vertices],
            bits=self.bits[vertices],
            fstart=self.fstart[first : last + 1] - self.fstart[first],
            labels=self.labels[facets],
            pattern=self.pattern[first:last],
        )


@dataclass(frozen=True, eq=False)
class Batch:
    """Cells before one layer in one context, with their states as forms.

    The last column of a form bounds how far it may be off anywhere in the domain. `known` holds
    winners of this layer that are decided already, and -1 elsewhere.
    """

    piece: SwitchPiece
    context: int
    forms: np.ndarray
    known: np.ndarray | None = None

    def take(self, first: int, last: int) -> Batch:
        known = None if self.known is None else self.known[first:last]
        return Batch(self.piece.take(first, last), self.context, self.forms[first:last], known)


def _ranges(starts: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The ranges with these numbers, one behind the other: new starts, and what they hold."""
    lengths = np.diff(starts)[index]
    ends = np.cumsum(np.append(0, lengths))
    return ends, np.repeat(starts[:-1][index] - ends[:-1], lengths) + np.arange(ends[-1])


def start_piece(program: SwitchProgram, domain: Box | Segment | Slice) -> SwitchPiece:
    """The whole domain, as one cell before the first layer."""
    cell, sides = _whole_domain(domain)
    if cell.dimension != program.dimension:
        raise DomainError(
            f"The program has {program.dimension} coordinates, but the domain {cell.dimension}."
        )
    corners = [coordinates(vertex) for vertex in cell.vertices]
    reach = [max(abs(corner[i]) for corner in corners) for i in range(cell.dimension)]
    packed = packed_cells([cell], [()])
    return SwitchPiece(sides, np.array([above_float(x) for x in reach]), 0, *packed)


def _whole_domain(domain: Box | Segment | Slice) -> tuple[ExactCell, tuple[Form, ...]]:
    if isinstance(domain, Slice):
        return _polygon(domain.exact_polygon)
    if isinstance(domain, Segment):
        return _box([Fraction(0)], [Fraction(1)])
    low = [Fraction(x) for x in domain.low.tolist()]
    high = [Fraction(x) for x in domain.high.tolist()]
    if any(a == b for a, b in zip(low, high, strict=True)):
        i = next(i for i, (a, b) in enumerate(zip(low, high, strict=True)) if a == b)
        raise DomainError(
            f"The domain is flat in coordinate {i}, so it has no inside; give it a width, or take "
            f"a slice."
        )
    return _box(low, high)


def _box(low: list[Fraction], high: list[Fraction]) -> tuple[ExactCell, tuple[Form, ...]]:
    d = len(low)
    sides = []
    for i in range(d):
        for level, sign in ((low[i], 1), (high[i], -1)):
            row = [0] * (d + 1)
            row[i], row[-1] = sign * level.denominator, -sign * level.numerator
            sides.append(primitive(row))
    vertices, bits = [], []
    for corner in product((0, 1), repeat=d):
        vertices.append(homogeneous([(low, high)[c][i] for i, c in enumerate(corner)]))
        bits.append(sum(1 << (2 * i + c) for i, c in enumerate(corner)))
    labels = tuple((DOMAIN, i, 0, 0) for i in range(2 * d))
    return ExactCell(tuple(vertices), tuple(bits), labels), tuple(sides)


def _polygon(corners: Sequence[tuple[Fraction, Fraction]]) -> tuple[ExactCell, tuple[Form, ...]]:
    """Counter-clockwise and strictly convex; side i goes from corner i to the next."""
    count, sides = len(corners), []
    for i, (x, y) in enumerate(corners):
        u, v = corners[(i + 1) % count]
        row = [y - v, u - x, x * v - y * u]
        sides.append(tuple(homogeneous([*row])[:-1]))
    bits = tuple(1 << i | 1 << (i - 1) % count for i in range(count))
    labels = tuple((DOMAIN, i, 0, 0) for i in range(count))
    vertices = tuple(homogeneous(corner) for corner in corners)
    return ExactCell(vertices, bits, labels), tuple(primitive(side) for side in sides)


class Packed(NamedTuple):
    """The arrays of a `SwitchPiece`."""

    vstart: np.ndarray
    points: np.ndarray
    stray: np.ndarray
    bits: np.ndarray
    fstart: np.ndarray
    labels: np.ndarray
    pattern: np.ndarray


def packed_cells(cells: list[ExactCell], patterns: list[tuple[int, ...]]) -> Packed:
    """Exact cells as arrays: vertices to the nearest floats, half a unit in the last place off."""
    compact = [cell.compact() for cell in cells]
    vertices = [vertex for cell in compact for vertex in cell.vertices]
    points = np.array([[nearest_ratio(x, vertex[-1]) for x in vertex[:-1]] for vertex in vertices])
    words = max(1, *(-(-len(cell.labels) // 64) for cell in compact))
    low = (1 << 64) - 1
    bits = [[b >> 64 * w & low for w in range(words)] for cell in compact for b in cell.bits]
    return Packed(
        np.cumsum([0, *(len(cell.vertices) for cell in compact)], dtype=np.int64),
        points,
        inflate(UNIT * np.abs(points).max(axis=1) + TINY),
        np.array(bits, dtype=np.uint64),
        np.cumsum([0, *(len(cell.labels) for cell in compact)], dtype=np.int64),
        np.array([label for cell in compact for label in cell.labels], dtype=np.int32),
        np.array(patterns, dtype=np.int32).reshape(len(cells), -1),
    )
