"""One cell of a switch program, with everything that is known about it exactly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from hardmax.geometry.counting.switch._exact import ExactCell, Form, Label, coordinates
from hardmax.geometry.counting.switch._exact_states import Paths, exact_cell
from hardmax.geometry.counting.switch._piece import Batch
from hardmax.geometry.counting.switch._rows import fraction

Names = tuple[int, ...]  # who wins together


@dataclass(frozen=True, eq=False)
class SwitchCell:
    """A cell: its vertices in floats and exactly, who wins, its walls and its affine map.

    `sides` has a label for each facet: (layer, group, piece, rival), or (-1, side, 0, 0) on the
    boundary of the domain. Vertex v lies on the facets in `bits[v]`.
    """

    vertices: np.ndarray
    bits: tuple[int, ...]
    sides: tuple[Label, ...]
    _batch: Batch = field(repr=False)
    _job: int = field(repr=False)
    _paths: Paths = field(repr=False)

    @cached_property
    def _code(self) -> tuple[int, ...]:
        return tuple(self._batch.piece.pattern[self._job].tolist())

    @cached_property
    def pattern(self) -> tuple[tuple[Names, ...], ...]:
        """For each layer and group the names of the winners; several only if they tie."""
        pattern, start = [], 0
        for number, width in enumerate(self._paths.program.widths):
            groups = self._paths.node(self._code[:start], number).layer.groups
            codes = self._code[start : start + width]
            pattern.append(
                tuple(
                    tuple(sorted(n for p in self._paths.choice(c) for n in group.pieces[p].names))
                    for group, c in zip(groups, codes, strict=True)
                )
            )
            start += width
        return tuple(pattern)

    @cached_property
    def map(self) -> tuple[tuple[Fraction, ...], ...]:
        """A row for each output: coefficients of the domain's coordinates, then the constant."""
        node = self._paths.node(self._code, self._batch.piece.layer)
        return tuple(tuple(fraction(x) for x in row) for row in node.outputs)

    @cached_property
    def walls(self) -> tuple[Form, ...]:
        """A row of whole numbers for each facet, >= 0 on the cell."""
        return tuple(self._paths.wall(self._code, label) for label in self.sides)

    @cached_property
    def exact(self) -> ExactCell:
        return exact_cell(self._batch.piece, self._job, self._code, self._paths)

    @property
    def exact_vertices(self) -> tuple[tuple[Fraction, ...], ...]:
        """In the order of `vertices`."""
        return tuple(coordinates(vertex) for vertex in self.exact.vertices)

    @property
    def corners(self) -> np.ndarray:
        """The vertices; in the plane in order around, counter-clockwise."""
        if self.vertices.shape[1] != 2:
            return self.vertices
        way = self.vertices - self.vertices.mean(axis=0)
        return self.vertices[np.argsort(np.arctan2(way[:, 1], way[:, 0]))]

    def __repr__(self) -> str:
        return f"SwitchCell({len(self.vertices)} vertices, {len(self.sides)} sides)"


def leaves(batch: Batch, paths: Paths, wanted: Iterable[int] | None = None) -> Iterator[SwitchCell]:
    """The cells of a batch, or those of some numbers."""
    piece = batch.piece
    for job in range(len(piece)) if wanted is None else wanted:
        vertices = slice(piece.vstart[job], piece.vstart[job + 1])
        facets = slice(piece.fstart[job], piece.fstart[job + 1])
        bits = tuple(
            sum(int(word) << 64 * w for w, word in enumerate(row)) for row in piece.bits[vertices]
        )
        labels = tuple((a, b, c, e) for a, b, c, e in piece.labels[facets].tolist())
        yield SwitchCell(piece.points[vertices], bits, labels, batch, int(job), paths)
