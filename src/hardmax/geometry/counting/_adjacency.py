"""Which cells share a facet.

Cells of a ReLU network share whole facets with one other cell each: the one whose pattern lies just
beyond. Where one neuron vanishes on the facet, only that neuron changes; where several do, the
pattern beyond is found exactly. Maps that jump have no such partner: there facets in one hyperplane
are compared, exactly.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import product

import numpy as np

from hardmax.geometry.counting._cells import LinearCell
from hardmax.geometry.counting.plane._piece import PlaneCell, corners_of, exact_of
from hardmax.geometry.counting.plane._piece import beyond as plane_beyond
from hardmax.geometry.counting.space._counting import SpaceCell
from hardmax.geometry.counting.space._exact import WholeMaps
from hardmax.geometry.counting.space._exact import beyond as space_beyond
from hardmax.geometry.counting.switch._regions import Mapped, overlap, plane_of

Pair = tuple[int, int]


def adjacent(cells: Sequence[LinearCell]) -> list[Pair]:
    """Pairs of numbers of cells that share a facet of one dimension less than the space."""
    if not cells:
        return []
    found = _by_patterns(cells) if cells[0].stack is not None else _by_facets(cells)
    return sorted(set(found))


def _by_patterns(cells: Sequence[LinearCell]) -> Iterator[Pair]:
    number: dict[Hashable, int] = {cell.name: n for n, cell in enumerate(cells)}
    for n, cell in enumerate(cells):
        for facet, label in enumerate(cell.walls):
            if label[0] < 0:
                continue
            other = number.get(_key_across(cell, label))
            if other is None:
                other = number.get(_pattern_key(_beyond(cell, facet)))
            if other is not None:
                yield min(n, other), max(n, other)


def _pattern_key(pattern: Sequence[np.ndarray]) -> Hashable:
    return b"".join(np.packbits(np.asarray(one, dtype=bool)).tobytes() for one in pattern)


def _key_across(cell: LinearCell, label: tuple[int, ...]) -> Hashable:
    layer, neuron = label
    pattern = [np.array(one, dtype=bool) for one in cell.pattern]
    pattern[layer][neuron] ^= True
    return _pattern_key(pattern)


def _beyond(cell: LinearCell, facet: int) -> Sequence[np.ndarray]:
    assert cell.stack is not None
    if isinstance(cell.found, PlaneCell):
        return _beyond_side(cell.found, facet)
    assert isinstance(cell.found, SpaceCell)
    return space_beyond(WholeMaps(cell.stack), cell.found.solid, facet, cell.found.pattern)


def _beyond_side(cell: PlaneCell, side: int) -> Sequence[np.ndarray]:
    exact = exact_of(cell._stack)
    patterns = tuple(one.tobytes() for one in cell.patterns)
    lines = [
        cell._piece.sides[i] if at < 0 else exact.row(patterns[:at], i) for at, i in cell.labels
    ]
    layer, neuron = cell.labels[side]
    a, b, c = lines[side]
    inner = (a, b, c) if cell.patterns[layer][neuron] else (-a, -b, -c)
    corners = corners_of(lines)
    ends = corners[side], corners[(side + 1) % len(corners)]
    pattern = plane_beyond(exact, patterns, inner, ends, layer)
    return [np.frombuffer(one, dtype=bool) for one in pattern]


def _by_facets(cells: Sequence[LinearCell]) -> Iterator[Pair]:
    planes: dict[tuple[int, ...], tuple[list[Pair], list[Pair]]] = {}
    exact = [Mapped(c.found.map, c.found.exact, c.found.walls) for c in cells]  # type: ignore[union-attr]
    for n, cell in enumerate(cells):
        for facet, label in enumerate(cell.found.sides):  # type: ignore[union-attr]
            if label[0] >= 0:
                plane, side = plane_of(exact[n].walls[facet])
                planes.setdefault(plane, ([], []))[side].append((n, facet))
    for plane, (above, below) in planes.items():
        for (n, f), (m, g) in product(above, below):
            if overlap(exact[n], f, exact[m], g, plane):
                yield min(n, m), max(n, m)
