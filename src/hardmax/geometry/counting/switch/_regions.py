"""Maximal affine regions of a switch program: cells with one map, joined through shared facets.

Maps may jump at walls, so what lies beyond a facet need not be one cell. Two cells share a facet
iff facets of both lie in one hyperplane, the cells on different sides of it, and the two facets
have an open part of it in common. Only cells with equal maps are compared: floats rule out most
(a map's value at one fixed point, with its error), rationals decide about the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np

from hardmax.core import Box
from hardmax.geometry.counting._domains import Segment, Slice
from hardmax.geometry.counting._tally import OverLimit, Tally
from hardmax.geometry.counting.switch._counting import Progress
from hardmax.geometry.counting.switch._exact import ExactCell, Form
from hardmax.geometry.counting.switch._leaves import leaves
from hardmax.geometry.counting.switch._piece import Batch, SwitchPiece, start_piece
from hardmax.geometry.counting.switch._program import SwitchProgram
from hardmax.geometry.counting.switch._rows import nearest_floats
from hardmax.geometry.counting.switch._search import SwitchSearch
from hardmax.numerics import TINY, down, inflate, matmul_up, stray, sum_up, up

Map = tuple[tuple[Fraction, ...], ...]
Facet = tuple[int, int]  # a cell and one of its walls


@dataclass(frozen=True)
class SwitchCount:
    """Cells after each layer, and maximal affine regions."""

    tally: Tally
    regions: int


@dataclass(frozen=True)
class Mapped:
    """A cell with its affine map, exactly; it can be sent anywhere."""

    map: Map
    cell: ExactCell
    walls: tuple[Form, ...]


def count_regions(
    program: SwitchProgram,
    domain: Box | Segment | Slice | SwitchPiece,
    *,
    fast: bool = False,
    limit: int | None = None,
    progress: Progress | None = None,
) -> SwitchCount:
    """Cells, and regions: cells less the unions that join two regions.

    Two passes: one keeps a number for each cell, the other the cells whose map another cell may
    have too. In fast mode signs are those of floats; equal maps and shared facets are exact still.
    """
    piece = domain if isinstance(domain, SwitchPiece) else start_piece(program, domain)
    tally, keys = leaf_keys(program, piece, fast=fast, limit=limit, progress=progress)
    cells = kept_cells(program, piece, twins(keys), fast=fast)
    return SwitchCount(tally, tally.cells - count_unions(cells))


def leaf_keys(
    program: SwitchProgram,
    piece: SwitchPiece,
    *,
    fast: bool = False,
    limit: int | None = None,
    progress: Progress | None = None,
) -> tuple[Tally, np.ndarray]:
    """The tally of a piece, and for each cell a number that equal maps share, with its error.

    The number is a mix of the outputs' values at one fixed point of the domain's hull.
    """
    run = SwitchSearch(program, piece, fast)
    depth = max(program.depth, 1)
    layers = [*piece.counted, *[0] * (depth - len(piece.counted))]
    keys = []
    for number, count, batch in run.parts():
        layers[number] += count
        if batch is not None:
            keys.append(_keys(program, batch))
            if progress is not None:
                progress(layers[-1])
            if limit is not None and layers[-1] > limit:
                raise OverLimit(layers[-1], limit)
    return Tally(tuple(layers), run.decided), np.concatenate(keys)


def _keys(program: SwitchProgram, batch: Batch) -> np.ndarray:
    """Numbers of cells, and how far these may be off; neither need be finite.

    A term of the number is a coefficient times a coordinate, times a weight, times a factor of the
    mix; it is rounded with every one of these products and in three sums.
    """
    rows = np.array([nearest_floats(row) for row in program.readout(batch.context)])
    forms, reach = batch.forms, batch.piece.reach
    n, d = forms.shape[1], len(reach)
    rng = np.random.default_rng(0)  # any point and mix will do, if whole numbers do not relate them
    point = reach * rng.random(d)
    mix = 0.5 + 0.5 * rng.random(len(rows))
    with np.errstate(over="ignore", invalid="ignore"):  # then it is a number like all others
        values = forms[:, :, :d] @ point + forms[:, :, d]
        numbers = values @ (mix @ rows[:, :n]) + mix @ rows[:, n]
        size = inflate(matmul_up(np.abs(forms[:, :, :d]), reach) + np.abs(forms[:, :, d]))
    return np.stack([numbers, _off(rows, mix, size, forms[:, :, d + 1], d)], axis=1)


def _off(
    rows: np.ndarray, mix: np.ndarray, size: np.ndarray, error: np.ndarray, d: int
) -> np.ndarray:
    """What mix @ rows @ (forms, 1) may be off by, for forms of these sizes with these errors.

    A term takes d + 1 roundings in its form, outputs + 1 in its weight, the first of which made it
    a float, and n + 1 behind them. A weight may have lost the smallest number, times the form, once
    when it was rounded and once for every output; a product of a form lost it times a weight.
    """
    outputs, n = len(rows), size.shape[1]
    heavy = matmul_up(np.abs(rows).T, mix)
    terms = inflate(size + error)
    magnitude = inflate(matmul_up(terms, heavy[:n]) + heavy[n])
    rounded_off = stray(outputs + n + d + 3, magnitude)
    with np.errstate(over="ignore", invalid="ignore"):
        small = 2.0 * outputs * sum_up(terms, axis=1) + (d + 1.0) * sum_up(heavy) + n + 2.0
        lost = inflate(TINY * small)
        return np.asarray(inflate(matmul_up(error, heavy[:n]) + rounded_off + lost))


def twins(keys: np.ndarray) -> np.ndarray:
    """Which cells have a number that another one may have too: intervals that overlap.

    A number that is not finite, or off by nobody knows how much, may be that of any cell.
    """
    known = np.isfinite(keys).all(axis=1)
    middle, off = np.where(known, keys[:, 0], 0.0), np.where(known, keys[:, 1], np.inf)
    low, high = down(middle - off), up(middle + off)
    order = np.argsort(low, kind="stable")
    reach = np.maximum.accumulate(high[order])
    linked = low[order][1:] <= reach[:-1]
    wanted = np.zeros(len(keys), dtype=bool)
    wanted[order[1:]] |= linked
    wanted[order[:-1]] |= linked
    return wanted


def kept_cells(
    program: SwitchProgram, piece: SwitchPiece, wanted: np.ndarray, *, fast: bool = False
) -> list[Mapped]:
    """The wanted cells of a piece, in the order of `leaf_keys`, whose maps are not unique."""
    if not wanted.any():
        return []
    by_map: dict[Map, list[Mapped]] = {}
    start = 0
    for _, _, batch in (run := SwitchSearch(program, piece, fast)).parts():
        if batch is None:
            continue
        jobs = np.flatnonzero(wanted[start : start + len(batch.piece)])
        start += len(batch.piece)
        for cell in leaves(batch, run.paths, jobs.tolist()):
            by_map.setdefault(cell.map, []).append(Mapped(cell.map, cell.exact, cell.walls))
    return [cell for cells in by_map.values() for cell in cells]


# ---- joining -------------------------------------------------------------------------------------


def count_unions(cells: Iterable[Mapped]) -> int:
    """How many cells go away when those that share a facet and a map become one."""
    by_map: dict[Map, list[Mapped]] = {}
    for cell in cells:
        by_map.setdefault(cell.map, []).append(cell)
    return sum(_count_unions_of_one_map(group) for group in by_map.values() if len(group) > 1)


def _count_unions_of_one_map(cells: list[Mapped]) -> int:
    """Successful unions among cells of one map."""
    planes: dict[Form, tuple[list[Facet], list[Facet]]] = {}
    for number, cell in enumerate(cells):
        for facet, wall in enumerate(cell.walls):
            plane, side = plane_of(wall)
            planes.setdefault(plane, ([], []))[side].append((number, facet))
    parent = list(range(len(cells)))

    def top(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    made = 0
    for plane, (above, below) in planes.items():
        for (a, f), (b, g) in _near(cells, plane, above, below):
            x, y = top(a), top(b)
            if x != y and overlap(cells[a], f, cells[b], g, plane):
                parent[x] = y
                made += 1
    return made


def plane_of(wall: Form) -> tuple[Form, int]:
    """The hyperplane of a wall, and on which side of it the cell lies: 0 above, 1 below."""
    lead = next(x for x in wall if x)
    return (wall, 0) if lead > 0 else (tuple(-x for x in wall), 1)


def _near(
    cells: list[Mapped], plane: Form, above: list[Facet], below: list[Facet]
) -> Iterable[tuple[Facet, Facet]]:
    """Pairs of facets on two sides of a hyperplane; along a line only those that overlap.

    Facets on one side are disjoint, so that on a line one walk along both sides meets all pairs.
    """
    if len(plane) != 3 or len(above) * len(below) <= 1:
        yield from product(above, below)
        return
    high, low = (
        sorted((_span(cells[n].cell, f, plane), (n, f)) for n, f in side) for side in (above, below)
    )
    i = j = 0
    while i < len(high) and j < len(low):
        (a, b), (c, d) = high[i][0], low[j][0]
        if max(a, c) < min(b, d):
            yield high[i][1], low[j][1]
        if b < d:
            i += 1
        else:
            j += 1


def _span(cell: ExactCell, facet: int, plane: Form) -> tuple[Fraction, Fraction]:
    """A side of a polygon as an interval of one coordinate that its line does not keep fixed."""
    axis = 0 if plane[1] else 1
    ends = [
        Fraction(vertex[axis], vertex[-1])
        for vertex, bits in zip(cell.vertices, cell.bits, strict=True)
        if bits >> facet & 1
    ]
    return min(ends), max(ends)


def overlap(one: Mapped, f: int, other: Mapped, g: int, plane: Form) -> bool:
    """Whether two facets in one hyperplane have an open part of it in common."""
    d = len(plane) - 1
    if d == 1:
        return True
    if d == 2:
        (a, b), (c, e) = _span(one.cell, f, plane), _span(other.cell, g, plane)
        return max(a, c) < min(b, e)
    drop = next(i for i, x in enumerate(plane) if x)
    on = [i for i, bits in enumerate(one.cell.bits) if bits >> f & 1]
    part: ExactCell | None = ExactCell(
        tuple(_without(one.cell.vertices[i], drop) for i in on),
        tuple(one.cell.bits[i] & ~(1 << f) for i in on),
        one.cell.labels,
    )
    for number, wall in enumerate(other.walls):
        if number != g and part is not None:
            form = [plane[drop] * x - wall[drop] * y for x, y in zip(wall, plane, strict=True)]
            part = part.clipped(part.values(_without(form, drop)), None)
    return part is not None


def _without(numbers: Sequence[int], place: int) -> tuple[int, ...]:
    return (*numbers[:place], *numbers[place + 1 :])
