"""Cells of a switch program, depth first, a batch of cells at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from hardmax._errors import DomainError
from hardmax.core import Box
from hardmax.geometry.counting._domains import Segment, Slice
from hardmax.geometry.counting._tally import OverLimit, Tally
from hardmax.geometry.counting.switch._exact import (
    ExactCell,
    Form,
    coordinates,
    homogeneous,
    primitive,
)
from hardmax.geometry.counting.switch._exact_states import DOMAIN
from hardmax.geometry.counting.switch._program import SwitchProgram
from hardmax.geometry.hulls._equations import quotient
from hardmax.numerics import TINY, UNIT, above_float, inflate

Progress = Callable[[int], None]


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
        v, f = slice(*self.vstart[[first, last]]), slice(*self.fstart[[first, last]])
        return replace(
            self,
            vstart=self.vstart[first : last + 1] - self.vstart[first],
            points=self.points[v],
            stray=self.stray[v],
            bits=self.bits[v],
            fstart=self.fstart[first : last + 1] - self.fstart[first],
            labels=self.labels[f],
            pattern=self.pattern[first:last],
        )


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


def _polygon(corners: Any) -> tuple[ExactCell, tuple[Form, ...]]:
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


def packed_cells(cells: list[ExactCell], patterns: list[tuple[int, ...]]) -> tuple[Any, ...]:
    """Exact cells as arrays: vertices to the nearest floats, half a unit in the last place off."""
    compact = [cell.compact() for cell in cells]
    vertices = [vertex for cell in compact for vertex in cell.vertices]
    points = np.array([[quotient(x, vertex[-1]) for x in vertex[:-1]] for vertex in vertices])
    words = max(1, *(-(-len(cell.labels) // 64) for cell in compact))
    low = (1 << 64) - 1
    bits = [[b >> 64 * w & low for w in range(words)] for cell in compact for b in cell.bits]
    return (
        np.cumsum([0, *(len(cell.vertices) for cell in compact)], dtype=np.int64),
        points,
        inflate(UNIT * np.abs(points).max(axis=1) + TINY),
        np.array(bits, dtype=np.uint64),
        np.cumsum([0, *(len(cell.labels) for cell in compact)], dtype=np.int64),
        np.array([label for cell in compact for label in cell.labels], dtype=np.int32),
        np.array(patterns, dtype=np.int32).reshape(len(cells), -1),
    )


# ---- counting ------------------------------------------------------------------------------------


def count_piece(
    program: SwitchProgram,
    piece: SwitchPiece,
    *,
    fast: bool = False,
    limit: int | None = None,
    progress: Progress | None = None,
) -> Tally:
    """Cells after each layer, within the piece.

    `progress` is told the number of cells so far, now and then. Memory does not grow with the
    count.
    """
    from hardmax.geometry.counting.switch._search import Run

    run = Run(program, piece, fast)
    layers = [*piece.counted, *[0] * (max(program.depth, 1) - len(piece.counted))]
    if program.depth == 0:
        return Tally((len(piece),))
    for number, count in run.counts():
        layers[number] += count
        if number == program.depth - 1:
            if progress is not None:
                progress(layers[-1])
            if limit is not None and layers[-1] > limit:
                raise OverLimit(layers[-1], limit)
    return Tally(tuple(layers), run.decided)


def split_piece(
    program: SwitchProgram, piece: SwitchPiece, *, fast: bool = False, at_least: int = 2
) -> list[SwitchPiece]:
    """Pieces that together are this one, `at_least` so many if there are so many cells.

    Layers are taken until there are cells enough, but never the last one; what was counted on the
    way, and the decisions that were exact, go with the first piece.
    """
    from hardmax.geometry.counting.switch._search import Run

    pieces = [piece]
    while pieces[0].layer < program.depth - 1 and sum(map(len, pieces)) < at_least:
        pieces = Run(program, pieces[0], fast).next_layer(pieces)
    cells = sum(map(len, pieces))
    share = max(1, cells // at_least)
    found = [
        replace(one.take(i, min(i + share, len(one))), counted=(), decided=0)
        for one in pieces
        for i in range(0, len(one), share)
    ]
    found[0] = replace(found[0], counted=pieces[0].counted, decided=pieces[0].decided)
    return found


def each_cell(program: SwitchProgram, piece: SwitchPiece, *, fast: bool = False) -> Iterator[Any]:
    """Every cell of the piece, one after another."""
    from hardmax.geometry.counting.switch._leaves import leaves
    from hardmax.geometry.counting.switch._search import Run

    run = Run(program, piece, fast)
    for _, _, batch in run.parts():
        if batch is not None:
            yield from leaves(batch, run.paths)
