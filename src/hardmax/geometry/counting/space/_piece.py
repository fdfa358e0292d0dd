"""Pieces of work in d dimensions: a part of the domain, and the layer from which to go on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from hardmax._errors import DomainError, ShapeError
from hardmax.geometry.counting._stack import Stack
from hardmax.geometry.counting.space._exact import (
    Pattern,
    Row,
    Solid,
    UndecidedSolid,
    WholeMaps,
    box_solid,
    meet,
    whole_row,
)
from hardmax.geometry.hulls._points import Real
from hardmax.numerics import TINY, UNIT, inflate


@dataclass(frozen=True, eq=False)
class SimpleBody:
    """A simple polytope in floats: vertices, how far they may be off, facets, neighbours."""

    points: np.ndarray
    radii: np.ndarray
    labels: np.ndarray
    links: np.ndarray


@dataclass(frozen=True, eq=False)
class SpacePiece:
    """A part of the domain on which the layers before `layer` have one pattern.

    Of the layer's neurons those in `left` are open and `on` says which others are on. The polytope
    is the domain's `sides` (forms that are >= 0, in whole numbers) and the walls of neurons, all
    named by labels: neurons count through all layers, sides go on behind them. It is either a
    simple one in floats (`body`), from whose labels everything follows exactly, or a solid in whole
    numbers. `counted` are cells met on the way that nobody else counts. Pickles.
    """

    patterns: Pattern
    layer: int
    on: np.ndarray
    left: np.ndarray
    shape: SimpleBody | Solid
    sides: tuple[Row, ...]
    counted: tuple[int, ...]
    stained: bool = False

    @property
    def complete(self) -> bool:
        return not len(self.left)


def first_label(stack: Stack, layer: int) -> int:
    return sum(stack.hidden[:layer])


def start_piece(
    stack: Stack, low: ArrayLike, high: ArrayLike, inequalities: Sequence[Sequence[Real]] = ()
) -> SpacePiece:
    """The open box, or its part where every given row (a_1, ..., a_d, c) has a.x + c > 0.

    Sides are numbered: low and high of the first coordinate, of the second, ..., then the rows.
    Numbers are exact: floats, integers or Fractions. A row that cuts nothing off is allowed.
    """
    low, high = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    d = stack.dimension
    if low.shape != (d,) or high.shape != (d,):
        raise ShapeError(
            f"A box in {d} dimensions needs {d} lower and {d} upper ends, but has "
            f"{low.size} and {high.size}."
        )
    if not (np.all(np.isfinite(low)) and np.all(np.isfinite(high)) and np.all(low < high)):
        raise DomainError("A box needs finite ends, each lower one below its upper one.")
    if np.any(np.maximum(np.abs(low), np.abs(high)) > stack.reach):
        raise DomainError("The box goes beyond the reach for which rounding was bounded.")
    total = first_label(stack, len(stack.hidden))
    solid = box_solid(low, high, total)
    sides = [row for _, row in solid.walls]
    for given in inequalities:
        row = _form(given, d)
        values = solid.values(row)
        if max(values) <= 0:
            raise DomainError("The inequalities leave nothing of the box. Drop one of them.")
        if min(values) < 0:
            solid = solid.parts(total + len(sides), row, values)[1]
        sides.append(row)
    left = living(stack, 0)
    nothing = np.zeros(stack.hidden[0], dtype=bool)
    shape = to_floats_if_simple(solid)
    return SpacePiece((), 0, nothing, left, shape, tuple(sides), (0,) * len(stack.hidden))


def _form(given: Sequence[Real], d: int) -> Row:
    row = whole_row([Fraction(x) for x in given])  # type: ignore[arg-type]  # NumPy's too
    if len(row) != d + 1:
        raise ShapeError(
            f"An inequality in {d} dimensions has {d + 1} numbers, but one has {len(row)}."
        )
    return row


def living(stack: Stack, layer: int) -> np.ndarray:
    """The neurons of a layer that are not 0 everywhere by their weights alone."""
    W, b = stack.weights[layer], stack.biases[layer]
    dead = ~(np.any(W != 0, axis=1) | (b != 0))
    if layer == 0:
        dead &= stack.first_slack == 0
    return np.flatnonzero(~dead)


def to_floats_if_simple(solid: Solid) -> SimpleBody | Solid:
    """In floats if every vertex lies on just d walls, as it is otherwise."""
    if not solid.simple:
        return solid
    d, size = solid.dimension, len(solid.corners)
    labels = np.zeros((size, d), dtype=np.int32)
    links = np.full((size, d), -1, dtype=np.int32)
    ends: dict[int, tuple[int, int]] = {}
    for v, mask in enumerate(solid.masks):
        walls = [w for w in range(len(solid.walls)) if mask >> w & 1]
        for k, w in enumerate(walls):
            labels[v, k] = solid.walls[w][0]
            edge = mask ^ (1 << w)
            if edge in ends:
                u, slot = ends[edge]
                links[v, k], links[u, slot] = u, v
            else:
                ends[edge] = v, k
    points = solid.floats
    radii = inflate(UNIT * np.max(np.abs(points), axis=1) + TINY)
    exact = [all(Fraction(x) * c[-1] == n for x, n in zip(p, c[:-1], strict=True))
             for p, c in zip(points.tolist(), solid.corners, strict=True)]  # fmt: skip
    return SimpleBody(points, np.where(exact, 0.0, radii), labels, links)


def solid_of(piece: SpacePiece, stack: Stack, maps: WholeMaps) -> Solid:
    """The polytope in whole numbers, every vertex from its d walls."""
    if isinstance(piece.shape, Solid):
        return piece.shape
    labels = np.unique(piece.shape.labels).tolist()
    patterns = (*piece.patterns, piece.on)
    walls = [(g, wall_row(g, patterns, piece.sides, stack, maps)) for g in labels]
    place = {g: w for w, g in enumerate(labels)}
    corners, masks = [], []
    for held in piece.shape.labels.tolist():
        corners.append(meet([walls[place[g]][1] for g in held]))
        masks.append(sum(1 << place[g] for g in held))
    return Solid(tuple(corners), tuple(masks), tuple(walls))


def wall_row(
    label: int, patterns: Pattern, sides: tuple[Row, ...], stack: Stack, maps: WholeMaps
) -> Row:
    """The form of a wall or side, >= 0 in the cell."""
    layer, i = layer_and_neuron(label, stack)
    if layer < 0:
        return sides[i]
    row = maps.rows(patterns, layer)[i]
    return row if patterns[layer][i] else tuple(-x for x in row)


def layer_and_neuron(label: int, stack: Stack) -> tuple[int, int]:
    """(layer, neuron), or (-1, number of the side)."""
    for layer, width in enumerate(stack.hidden):
        if label < width:
            return layer, label
        label -= width
    return -1, label


def undecided_solid(piece: SpacePiece, solid: Solid, chosen: np.ndarray) -> UndecidedSolid:
    """The piece, to be decided for the chosen neurons."""
    on = tuple(bool(x) for x in piece.on)
    return UndecidedSolid(solid, on, tuple(int(i) for i in chosen), piece.stained)


def after(piece: SpacePiece, cell: UndecidedSolid, rest: np.ndarray) -> SpacePiece:
    """A part of the piece that was decided exactly, except for the rest."""
    on = np.array(cell.on, dtype=bool)
    left = np.concatenate([rest, np.array(cell.left, dtype=np.int64)])
    counted = (0,) * len(piece.counted)
    shape = to_floats_if_simple(cell.solid)
    return replace(piece, on=on, left=left, shape=shape, stained=cell.stained, counted=counted)


def next_layer(piece: SpacePiece, stack: Stack) -> SpacePiece:
    """A complete piece begins the next layer."""
    layer = piece.layer + 1
    nothing = np.zeros(stack.hidden[layer], dtype=bool)
    patterns = (*piece.patterns, piece.on)
    return replace(piece, patterns=patterns, layer=layer, on=nothing, left=living(stack, layer))
