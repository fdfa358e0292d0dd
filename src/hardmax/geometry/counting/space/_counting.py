"""ReLU networks on a box or polytope of any dimension: cells counted, regions, cells one by one.

Cells are cut, neuron by neuron and layer by layer, from simple polytopes that know their vertices;
`_kernels` says how, and why floats can be believed there; `_exact` decides the rest in
whole numbers. Cells have few vertices in these dimensions: 8, 16 and 34 on average in the first
layer of the stored 3-32-32, 4-16-16 and 5-12-12, where a cell cost 3 to 8 microseconds in all; the
last layer, counted by sections without making its cells, about one microsecond a cell. The other
way, a search with small linear programs for open neurons, was not built, so there is no
measurement beside these; it needs no vertices, whose number grows exponentially with d.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from hardmax.geometry.counting._stack import Stack
from hardmax.geometry.counting._tally import Tally
from hardmax.geometry.counting.space._arrays import CELLS, COUNT, REGIONS
from hardmax.geometry.counting.space._exact import Pattern, Row, Solid, WholeMaps
from hardmax.geometry.counting.space._piece import SimpleBody, layer_and_neuron, solid_of
from hardmax.geometry.counting.space._piece import SpacePiece as SpacePiece
from hardmax.geometry.counting.space._piece import start_piece as start_piece


@dataclass(frozen=True, eq=False)
class SpaceCell:
    """A leaf: vertices, pattern, facets.

    `facets[f]` is (layer, neuron), or (-1, side) of the domain, sides numbered as in `start_piece`;
    `incidence[f, v]` says that facet f holds vertex v.
    """

    points: np.ndarray
    pattern: Pattern
    facets: tuple[tuple[int, int], ...]
    incidence: np.ndarray
    _source: tuple[SpacePiece, Solid | None, Stack, WholeMaps] = field(repr=False)

    @cached_property
    def solid(self) -> Solid:
        """The cell in whole numbers; facets and vertices in the same order."""
        piece, solid, stack, maps = self._source
        return solid or solid_of(piece, stack, maps)

    @property
    def inequalities(self) -> tuple[Row, ...]:
        """For each facet the whole numbers (a_1, ..., a_d, c) with a.x + c > 0 in the cell."""
        return tuple(row for _, row in self.solid.walls)

    @property
    def corners(self) -> tuple[tuple[Fraction, ...], ...]:
        """The vertices, exactly."""
        return tuple(
            tuple(Fraction(x, corner[-1]) for x in corner[:-1]) for corner in self.solid.corners
        )


def count_piece(
    stack: Stack,
    piece: SpacePiece,
    *,
    fast: bool = False,
    regions: bool = False,
    limit: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Tally:
    """Cells after each layer; with `regions` also the silent facets, with which cells are joined.

    Stops soon after `limit` cells, with the count so far. `fast` believes every float. Memory does
    not grow with the count (silent facets excepted, which are handed back).
    """
    from hardmax.geometry.counting.space._walk import SpaceWalk

    walk = SpaceWalk(stack, piece.sides, REGIONS if regions else COUNT, fast=fast, limit=limit)
    counts = walk.findings.counts
    for _ in walk.run(piece):
        if progress is not None:
            progress(int(counts[-1]))
        if limit is not None and counts[-1] >= limit:
            walk.drain()
            break
    silent = np.concatenate([np.zeros((0, 4), dtype=np.uint64), *walk.findings.silent])
    return Tally(tuple(counts.tolist()), walk.findings.decided, silent)


def each_cell(stack: Stack, piece: SpacePiece, *, fast: bool = False) -> Iterator[SpaceCell]:
    """The cells of a piece, one after the other; nothing is held."""
    from hardmax.geometry.counting.space._walk import SpaceWalk

    walk = SpaceWalk(stack, piece.sides, CELLS, fast=fast)
    for leaf in walk.run(piece):
        if leaf is not None:
            yield _cell(stack, walk.maps, *leaf)


def _cell(stack: Stack, maps: WholeMaps, piece: SpacePiece, solid: Solid | None) -> SpaceCell:
    pattern = (*piece.patterns, piece.on)
    if solid is None:
        body = piece.shape
        assert isinstance(body, SimpleBody)
        points, labels = body.points, np.unique(body.labels)
        incidence = (body.labels[None] == labels[:, None, None]).any(axis=2)
    else:
        points, labels = solid.floats, np.array([label for label, _ in solid.walls])
        walls = range(len(labels))
        incidence = np.array([[mask >> w & 1 for mask in solid.masks] for w in walls], dtype=bool)
    facets = tuple(layer_and_neuron(int(label), stack) for label in labels)
    return SpaceCell(points, pattern, facets, incidence, (piece, solid, stack, maps))


def split_piece(
    stack: Stack, piece: SpacePiece, *, fast: bool = False, at_least: int
) -> list[SpacePiece]:
    """At least so many pieces (if there are as many cells) that together are the same cells.

    The piece that waited longest is cut by one neuron, or led on to where one cuts it.
    """
    from hardmax.geometry.counting.space._walk import SpaceWalk

    walk = SpaceWalk(stack, piece.sides, CELLS, fast=fast)
    waiting, leaves = deque([piece]), list[SpacePiece]()
    while waiting and len(waiting) + len(leaves) < at_least:
        first = waiting.popleft()
        parts = walk.parts(first)
        if len(parts) == 1 and parts[0].complete and parts[0].layer == len(stack.hidden) - 1:
            leaves.append(parts[0])
        else:
            waiting.extend(parts)
    return [*waiting, *leaves]
