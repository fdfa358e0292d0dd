"""The same splitting in whole numbers, for cells that floats leave open: always right.

A vertex is homogeneous, (x_1, ..., x_d, w) with w > 0, and a form a row of whole numbers, so that
signs are those of integer scalar products.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flint import fmpq

Vertex = tuple[int, ...]
Form = tuple[int, ...]
Label = tuple[int, int, int, int]
DOMAIN = -1  # the layer of a label that names a side of the domain


@dataclass(frozen=True)
class ExactCell:
    """A full-dimensional polytope: vertices, the facets each lies on as bits, labels of facets.

    Facets that are not irredundant do no harm, except that they stay in `labels`.
    """

    vertices: tuple[Vertex, ...]
    bits: tuple[int, ...]
    labels: tuple[Label | None, ...]

    @property
    def dimension(self) -> int:
        return len(self.vertices[0]) - 1

    def values(self, form: Form) -> list[int]:
        """The form at the vertices, up to a positive factor each."""
        return [sum(map(_times, form, vertex)) for vertex in self.vertices]

    def clipped(self, values: Sequence[int], label: Label | None) -> ExactCell | None:
        """The part where the form with these values is >= 0; None if that has no inside."""
        if not any(v > 0 for v in values):
            return None
        if not any(v < 0 for v in values):
            return self
        kept = 0
        for value, bits in zip(values, self.bits, strict=True):
            if value > 0:
                kept |= bits
        place = (~kept & (kept + 1)).bit_length() - 1  # the lowest free one
        new = 1 << place
        labels = [*self.labels, *[None] * (place + 1 - len(self.labels))]
        labels[place] = label
        vertices, on = [], []
        for value, vertex, bits in zip(values, self.vertices, self.bits, strict=True):
            if value >= 0:
                vertices.append(vertex)
                on.append(bits & kept | (0 if value else new))
        for a, b in self._crossed_edges(values):
            u, v, x, y = values[a], -values[b], self.vertices[a], self.vertices[b]
            vertices.append(primitive([v * p + u * q for p, q in zip(x, y, strict=True)]))
            on.append(self.bits[a] & self.bits[b] | new)
        return ExactCell(tuple(vertices), tuple(on), tuple(labels))

    def _crossed_edges(self, values: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Edges from a vertex inside to one outside: no third vertex on all shared facets."""
        inside = [i for i, value in enumerate(values) if value > 0]
        outside = [i for i, value in enumerate(values) if value < 0]
        for a in inside:
            for b in outside:
                common = self.bits[a] & self.bits[b]
                if common.bit_count() >= self.dimension - 1 and not any(
                    bits & common == common for i, bits in enumerate(self.bits) if i != a and i != b
                ):
                    yield a, b

    def compact(self) -> ExactCell:
        """Only the facets in use, in order."""
        used = 0
        for bits in self.bits:
            used |= bits
        places = [i for i in range(used.bit_length()) if used >> i & 1]
        rank = {place: number for number, place in enumerate(places)}
        on = tuple(sum(1 << rank[i] for i in places if bits >> i & 1) for bits in self.bits)
        return ExactCell(self.vertices, on, tuple(self.labels[i] for i in places))


def _times(x: int, y: int) -> int:
    return x * y


def primitive(numbers: Sequence[int]) -> tuple[int, ...]:
    divisor = math.gcd(*numbers) or 1
    return tuple(n // divisor for n in numbers)


def whole_forms(rows: Sequence[Sequence[fmpq]]) -> list[Form]:
    """Rows of rationals times one positive number that makes all of them whole."""
    factor = math.lcm(*(int(x.q) for row in rows for x in row))
    return [tuple(int(x.p) * (factor // int(x.q)) for x in row) for row in rows]


def difference(one: Form, other: Form) -> Form:
    return tuple(x - y for x, y in zip(one, other, strict=True))


def meeting_point(forms: Sequence[Form]) -> Vertex | None:
    """The one point where all forms vanish; None if they leave a line or more.

    d independent rows have a kernel of dimension 1, which elimination without fractions finds.
    """
    width = len(forms[0])
    rows: list[tuple[int, list[int]]] = []
    for form in forms:
        rest = list(form)
        for pivot, row in rows:
            if rest[pivot]:
                factor, by = rest[pivot], row[pivot]
                rest = [by * x - factor * y for x, y in zip(rest, row, strict=True)]
        place = next((i for i, x in enumerate(rest[:-1]) if x), None)
        if place is not None:
            rows.append((place, list(primitive(rest))))
        if len(rows) == width - 1:
            break
    if len(rows) < width - 1:
        return None
    point = [Fraction(0)] * (width - 1)
    for pivot, row in reversed(rows):
        known = sum((row[i] * point[i] for i in range(width - 1) if i != pivot), Fraction(row[-1]))
        point[pivot] = -known / row[pivot]
    return homogeneous(point)


def homogeneous(point: Sequence[Fraction]) -> Vertex:
    weight = math.lcm(*(x.denominator for x in point))
    return (*(x.numerator * (weight // x.denominator) for x in point), weight)


def coordinates(vertex: Vertex) -> tuple[Fraction, ...]:
    return tuple(Fraction(x, vertex[-1]) for x in vertex[:-1])


# ---- a layer -------------------------------------------------------------------------------------

Choice = tuple[int, ...]  # the pieces that win together; one, unless they tie on an open set


@dataclass
class Decisions:
    """How many signs were taken in whole numbers."""

    count: int = 0


def split_exactly(
    cell: ExactCell,
    groups: Sequence[tuple[Sequence[int], Sequence[Form]]],
    number: int,
    decisions: Decisions,
) -> list[tuple[ExactCell, tuple[Choice, ...]]]:
    """Split by groups, each given as pieces and their scores on a common denominator."""
    parts: list[tuple[ExactCell, tuple[Choice, ...]]] = [(cell, ())]
    for group, (pieces, forms) in enumerate(groups):
        if len(pieces) == 1:
            parts = [(part, (*won, (pieces[0],))) for part, won in parts]
            continue
        parts = [
            (smaller, (*won, choice))
            for part, won in parts
            for smaller, choice in _parts_won(part, pieces, forms, (number, group), decisions)
        ]
    return parts


def _parts_won(
    cell: ExactCell,
    pieces: Sequence[int],
    forms: Sequence[Form],
    place: tuple[int, int],
    decisions: Decisions,
) -> Iterator[tuple[ExactCell, Choice]]:
    """The parts of a cell that the pieces win; equal forms win together."""
    values = [cell.values(form) for form in forms]
    decisions.count += len(forms) * len(cell.vertices)
    classes: dict[tuple[int, ...], list[int]] = {}
    for i, row in enumerate(values):  # equal at the vertices of an open cell: equal forms
        classes.setdefault(tuple(row), []).append(i)
    rivals = [
        tied
        for row, tied in classes.items()
        if not any(
            other is not row and all(x >= y for x, y in zip(other, row, strict=True))
            for other in classes
        )
    ]
    for tied in rivals:
        part: ExactCell | None = cell
        for other in rivals:
            if other is tied:
                continue
            form = difference(forms[tied[0]], forms[other[0]])
            assert part is not None
            decisions.count += len(part.vertices)
            label = (*place, pieces[tied[0]], pieces[other[0]])
            part = part.clipped(part.values(form), label)
            if part is None:
                break
        if part is not None:
            yield part, tuple(pieces[i] for i in tied)
