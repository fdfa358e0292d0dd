"""Polytopes in d dimensions in whole numbers: what floats leave open is decided here.

Weights are floats, so with a common denominator a layer's maps are rows of integers over one
denominator, which is positive: signs need integers alone. A vertex is (n_1, ..., n_d, q) with q > 0
and stands for n / q; a form's value there has the sign of its scalar product with this vector, and
the point where a form vanishes between u and v, with values a > 0 > b, is a v - b u.

Polytopes may be degenerate: a vertex knows the set of all walls through it, as bits. Two vertices
span an edge if and only if no third one lies on all their common walls (the smallest face that
holds both is then the segment between them). A wall that touches does not cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from math import gcd, lcm

import numpy as np

from hardmax.geometry.counting._stack import Stack
from hardmax.geometry.counting.plane._piece import whole_layer

Row = tuple[int, ...]
Pattern = tuple[np.ndarray, ...]

_KEPT = 256  # maps remembered, for as many cells


def whole_row(row: Sequence[Fraction]) -> Row:
    """The row times the least positive number that makes it whole."""
    scale = lcm(*(x.denominator for x in row))
    return tuple(int(x * scale) for x in row)


def dot(form: Row, point: Row) -> int:
    return sum(x * y for x, y in zip(form, point, strict=True))


def _least(vector: list[int]) -> Row:
    """The same point in smallest numbers, the last one positive."""
    common = gcd(*vector)
    common = -common if vector[-1] < 0 else common
    return tuple(x // common for x in vector)


def meet(rows: Sequence[Row]) -> Row:
    """The point where d independent forms vanish, by elimination without fractions.

    After step k every entry is a minor of order k + 1, and each division by the pivot before comes
    out even (Bareiss); in the end the matrix is diagonal with one number, its determinant.
    """
    work = [list(row) for row in rows]
    d, before = len(work), 1
    for k in range(d):
        at = next(i for i in range(k, d) if work[i][k])
        work[k], work[at] = work[at], work[k]
        pivot = work[k]
        for i in range(d):
            if i != k:
                factor = work[i][k]
                work[i] = [
                    (pivot[k] * x - factor * y) // before
                    for x, y in zip(work[i], pivot, strict=True)
                ]
        before = pivot[k]
    return _least([-work[i][d] for i in range(d)] + [before])


@dataclass(frozen=True)
class Solid:
    """A bounded polytope with interior, by vertices.

    `walls` are facets and perhaps others that touch: (label, form that is >= 0 inside); bit w of
    `masks[v]` says that wall w holds vertex v.
    """

    corners: tuple[Row, ...]
    masks: tuple[int, ...]
    walls: tuple[tuple[int, Row], ...]

    @property
    def dimension(self) -> int:
        return len(self.corners[0]) - 1

    @cached_property
    def floats(self) -> np.ndarray:
        return np.array([[x / corner[-1] for x in corner[:-1]] for corner in self.corners])

    @cached_property
    def edges(self) -> tuple[tuple[int, int], ...]:
        edges = []
        for v, mask in enumerate(self.masks):
            for u in range(v):
                common = mask & self.masks[u]
                if common.bit_count() >= self.dimension - 1 and not any(
                    other & common == common
                    for w, other in enumerate(self.masks)
                    if w not in (u, v)
                ):
                    edges.append((u, v))
        return tuple(edges)

    @property
    def simple(self) -> bool:
        return all(mask.bit_count() == self.dimension for mask in self.masks)

    def on_wall(self, wall: int) -> int:
        """The vertices on a wall, as bits."""
        return sum(1 << v for v, mask in enumerate(self.masks) if mask >> wall & 1)

    def values(self, row: Row) -> list[int]:
        return [dot(row, corner) for corner in self.corners]

    def parts(self, label: int, row: Row, values: list[int]) -> tuple[Solid, Solid]:
        """Where the form is <= 0 and where it is >= 0, if it has both signs."""
        bit = 1 << len(self.walls)
        new = []
        for u, v in self.edges:
            a, b = values[u], values[v]
            if (a > 0 > b) or (a < 0 < b):
                a, b = abs(a), abs(b)
                point = [
                    b * x + a * y for x, y in zip(self.corners[u], self.corners[v], strict=True)
                ]
                new.append((_least(point), self.masks[u] & self.masks[v] | bit))
        return self._part(label, row, values, new, -1), self._part(label, row, values, new, 1)

    def _part(
        self, label: int, row: Row, values: list[int], new: list[tuple[Row, int]], sign: int
    ) -> Solid:
        bit = 1 << len(self.walls)
        kept = [
            (corner, mask if value else mask | bit)
            for corner, mask, value in zip(self.corners, self.masks, values, strict=True)
            if value * sign >= 0
        ]
        corners, masks = zip(*kept, *new, strict=True)
        wall = (label, tuple(sign * x for x in row))
        return Solid(corners, masks, (*self.walls, wall)).without_idle_walls()

    def without_idle_walls(self) -> Solid:
        """Without walls that hold no facet: those whose vertices all lie on one other wall."""
        holds = [self.on_wall(w) for w in range(len(self.walls))]
        kept: list[int] = []
        for w, mine in enumerate(holds):
            others = [h for x, h in enumerate(holds) if x != w and (h != mine or x < w)]
            if not any(mine & other == mine for other in others):
                kept.append(w)
        masks = tuple(
            sum(1 << place for place, w in enumerate(kept) if mask >> w & 1) for mask in self.masks
        )
        return Solid(self.corners, masks, tuple(self.walls[w] for w in kept))

    def zero_facet(self, values: list[int]) -> bool:
        """Whether a form that does not cut vanishes on a facet (or everywhere)."""
        zero = sum(1 << v for v, value in enumerate(values) if value == 0)
        if zero.bit_count() < self.dimension:
            return False
        return any(self.on_wall(w) & zero == self.on_wall(w) for w in range(len(self.walls)))


def box_solid(low: np.ndarray, high: np.ndarray, first_label: int) -> Solid:
    """A box; its sides are low and high of the first coordinate, of the second, ..."""
    d = len(low)
    ends = [(Fraction(float(a)), Fraction(float(b))) for a, b in zip(low, high, strict=True)]
    walls = []
    for c, (a, b) in enumerate(ends):
        unit = [Fraction(int(k == c)) for k in range(d)]
        walls.append((first_label + 2 * c, whole_row([*unit, -a])))
        walls.append((first_label + 2 * c + 1, whole_row([*(-x for x in unit), b])))
    corners, masks = [], []
    for choice in range(1 << d):
        sides = [choice >> c & 1 for c in range(d)]
        corners.append(whole_row([*(ends[c][s] for c, s in enumerate(sides)), Fraction(1)]))
        masks.append(sum(1 << (2 * c + s) for c, s in enumerate(sides)))
    return Solid(tuple(corners), tuple(masks), tuple(walls))


@dataclass(frozen=True)
class UndecidedSolid:
    """A solid in a layer: which neurons are on so far, which are left, whether it is stained.

    Stained: some neuron vanishes on a facet that another wall holds, so that the cell beyond it
    may differ in more than one neuron.
    """

    solid: Solid
    on: tuple[bool, ...]
    left: tuple[int, ...]
    stained: bool = False

    def decide(
        self, rows: list[Row], first_label: int, early: bool
    ) -> Iterator[tuple[UndecidedSolid, int]]:
        """All parts, decided (if `early`, or simple), and how many signs since the last one."""
        waiting, signs = [self], 0
        while waiting:
            at = waiting.pop()
            if not at.left or (early and at.solid.simple):
                yield at, signs
                signs = 0
                continue
            i, left = at.left[-1], at.left[:-1]
            values = at.solid.values(rows[i])
            signs += len(values)
            if min(values) < 0 < max(values):
                low, high = at.solid.parts(first_label + i, rows[i], values)
                waiting.append(replace(at, solid=low, left=left))
                waiting.append(replace(at, solid=high, left=left, on=_with(at.on, i)))
                continue
            on = _with(at.on, i) if max(values) > 0 else at.on
            stained = at.stained or at.solid.zero_facet(values)
            waiting.append(replace(at, left=left, on=on, stained=stained))


def _with(on: tuple[bool, ...], i: int) -> tuple[bool, ...]:
    return (*on[:i], True, *on[i + 1 :])


@dataclass(eq=False)
class WholeMaps:
    """The affine maps of every layer, in whole numbers over a denominator of its own."""

    stack: Stack
    _known: dict[bytes, tuple[np.ndarray, int]] = field(default_factory=dict)

    @cached_property
    def _layers(self) -> list[tuple[np.ndarray, np.ndarray, int]]:
        layers = []
        for W, b in self.stack.exact_layers:
            rows, levels, scale = whole_layer(W, b)
            whole = np.array(rows, dtype=object).reshape(len(W), len(W[0]) if W else 0)
            layers.append((whole, np.array(levels, dtype=object), scale))
        return layers

    def over(self, patterns: Pattern, layer: int) -> tuple[np.ndarray, int]:
        """The maps (neurons, d + 1) of a layer as integers, and what they are divided by."""
        above = [np.packbits(on).tobytes() for on in patterns[:layer]]
        key = b"".join([bytes([layer]), *above])
        if key not in self._known:
            maps = self._compose(patterns, layer)
            if len(self._known) >= _KEPT:
                self._known.pop(next(iter(self._known)))
            self._known[key] = maps
        return self._known[key]

    def _compose(self, patterns: Pattern, layer: int) -> tuple[np.ndarray, int]:
        W, b, scale = self._layers[layer]
        if layer == 0:
            return np.concatenate([W, b[:, None]], axis=1), scale
        above, below = self.over(patterns, layer - 1)
        on = np.flatnonzero(patterns[layer - 1])
        maps = np.full((len(b), self.stack.dimension + 1), 0, dtype=object)
        if len(on):
            maps = W[:, on].dot(above[on])
        maps[:, -1] = maps[:, -1] + b * below
        return maps, scale * below

    def rows(self, patterns: Pattern, layer: int) -> list[Row]:
        """The forms of a layer's neurons, up to a positive factor."""
        return [tuple(row) for row in self.over(patterns, layer)[0].tolist()]


def beyond(maps: WholeMaps, solid: Solid, wall: int, patterns: Pattern) -> Pattern:
    """The pattern just beyond a facet.

    Layer by layer, maps are continuous: a neuron that is not 0 at a point inside the facet keeps
    its sign. One that is 0 there is 0 on the whole facet, since on the cell it has one sign; beyond
    it has the sign of its derivative away from the cell, in the map that is valid there (0 means
    that it is 0 on that cell as well, which counts as off).
    """
    scale = lcm(*(solid.corners[v][-1] for v in _bits(solid.on_wall(wall))))
    points = [solid.corners[v] for v in _bits(solid.on_wall(wall))]
    middle = _least([sum(p[c] * (scale // p[-1]) for p in points) for c in range(len(points[0]))])
    # the last coordinate added up to scale * len(points): the mean of the vertices
    away = tuple(-x for x in solid.walls[wall][1][:-1])
    across: list[np.ndarray] = []
    for layer in range(len(patterns)):
        on = []
        for row in maps.rows(tuple(across), layer):
            value = dot(row, middle)
            on.append(value > 0 or (value == 0 and dot(row[:-1], away) > 0))
        across.append(np.array(on, dtype=bool))
    return tuple(across)


def same_map(maps: WholeMaps, pattern: Pattern, other: Pattern) -> bool:
    """Whether the network has one affine map on both cells."""
    rows, scale = maps.over(pattern, len(pattern))
    other_rows, other_scale = maps.over(other, len(other))
    return bool(np.all(rows * other_scale == other_rows * scale))


def _bits(mask: int) -> list[int]:
    return [v for v in range(mask.bit_length()) if mask >> v & 1]
