"""A convex polygon of the plane with the patterns known on it: a piece of work, and a cell.

Lines, corners and signs are in whole numbers, for what floats could not decide. Every layer's
weights are whole numbers over one denominator, so on a cell the value of neuron i of layer L is
(A x + B y + C) / Q_L with whole A, B, C and one Q_L > 0 for the layer: for signs, Q_L can be
forgotten. A line is (A, B, C); a corner is the cross product of two lines, (X, Y, W) with W > 0,
standing for (X / W, Y / W); the sign of a form there is that of A X + B Y + C W.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from hardmax._errors import DomainError
from hardmax.geometry.counting._stack import Stack

if TYPE_CHECKING:
    from flint import fmpz, fmpz_mat

Triple = tuple[int, int, int]
_KEPT = 100_000  # neurons whose maps are remembered: some tens of megabytes
OPEN = 2  # a neuron of the piece's layer that is neither on nor off yet


# ---- whole numbers -------------------------------------------------------------------------------


class ExactMaps:
    """The network's affine maps on cells, a layer at a time, remembered by the pattern below."""

    def __init__(self, stack: Stack) -> None:
        from flint import fmpz, fmpz_mat

        layers = [whole_layer(W, b) for W, b in stack.exact_layers]
        self._widths = [len(b) for _, b, _ in layers]
        # biases are one more column, which meets a last row (0, 0, Q) of what comes in
        self._weights = [
            fmpz_mat([[*row, c] for row, c in zip(W, b, strict=True)]) for W, b, _ in layers
        ]
        self._scales = [fmpz(1)]
        for _, _, denominator in layers:
            self._scales.append(self._scales[-1] * denominator)
        self._zero, self._matrix = fmpz(0), fmpz_mat
        self._maps: dict[tuple[bytes, ...], list[fmpz]] = {}
        self._kept = 0

    def row(self, below: tuple[bytes, ...], i: int) -> Triple:
        """Neuron i of layer len(below) where the layers below have these patterns, times Q."""
        entries = self._entries(below)
        return int(entries[3 * i]), int(entries[3 * i + 1]), int(entries[3 * i + 2])

    def rows(self, below: tuple[bytes, ...]) -> list[Triple]:
        """All neurons of a layer; of the output layer, the network's affine map."""
        return [self.row(below, i) for i in range(self._widths[len(below)])]

    def _entries(self, below: tuple[bytes, ...]) -> list[fmpz]:
        """The whole numbers of flint, three a neuron."""
        if below not in self._maps:
            coming = self._coming(below)
            if self._kept > _KEPT:
                self._maps.clear()
                self._kept = 0
            self._kept += self._widths[len(below)]
            self._maps[below] = (self._weights[len(below)] * coming).entries()
        return self._maps[below]

    def _coming(self, below: tuple[bytes, ...]) -> fmpz_mat:
        """What comes into a layer: the rows of neurons that are on, zeros, and the constant."""
        zero, layer = self._zero, len(below)
        if not layer:
            return self._matrix([[1, 0, 0], [0, 1, 0], [0, 0, 1]])
        known = self._entries(below[:-1])
        rows = [
            known[k] if is_on else zero
            for j, is_on in enumerate(below[-1])
            for k in (3 * j, 3 * j + 1, 3 * j + 2)
        ]
        return self._matrix(len(below[-1]) + 1, 3, [*rows, zero, zero, self._scales[layer]])


def whole_layer(
    W: Sequence[Sequence[Fraction]], b: Sequence[Fraction]
) -> tuple[list[list[int]], list[int], int]:
    """A layer times the least common multiple of its denominators, and that multiple."""
    q = lcm(*(x.denominator for row in W for x in row), *(x.denominator for x in b))

    def times(x: Fraction) -> int:
        return x.numerator * (q // x.denominator)

    return [[times(x) for x in row] for row in W], [times(x) for x in b], q


_exact_sides: WeakKeyDictionary[Stack, ExactMaps] = WeakKeyDictionary()


def exact_of(stack: Stack) -> ExactMaps:
    """The exact side of a Stack; made once."""
    exact = _exact_sides.get(stack)
    if exact is None:
        exact = _exact_sides[stack] = ExactMaps(stack)
    return exact


def meeting(line: Triple, other: Triple) -> Triple:
    """Where two lines meet that are not parallel."""
    a, b, c = line
    p, q, r = other
    x, y, w = b * r - c * q, c * p - a * r, a * q - b * p
    return (x, y, w) if w > 0 else (-x, -y, -w)


def corners_of(lines: Sequence[Triple]) -> list[Triple]:
    """Corner k, where side k begins, of the polygon with these sides in order."""
    return [meeting(lines[k - 1], lines[k]) for k in range(len(lines))]


def sign_at(line: Triple, corner: Triple) -> int:
    value = line[0] * corner[0] + line[1] * corner[1] + line[2] * corner[2]
    return (value > 0) - (value < 0)


def beyond(
    exact: ExactMaps,
    patterns: tuple[bytes, ...],
    line: Triple,
    ends: tuple[Triple, Triple],
    layer: int,
) -> tuple[bytes, ...]:
    """The patterns just beyond a facet on the line of a neuron of `layer`, which is on before it.

    Layers below are the same on both sides, since a cut of `layer` made the facet. From there on,
    layer by layer, the maps beyond are known from the pattern so far. No neuron changes sign within
    the facet, or the cell would have been cut there. So if a neuron is not 0 at both ends, it has
    that sign beyond as well; if it is, its form is t times that of the line, which is negative
    beyond the facet: on if t < 0, off if t >= 0.
    """
    across = patterns[:layer]
    for states_here in patterns[layer:]:
        states = bytearray(len(states_here))
        for i, row in enumerate(exact.rows(across)):
            side = sign_at(row, ends[0]) or sign_at(row, ends[1])
            if not side:
                a, b = line[0], line[1]
                slope = row[0] * a if a else row[1] * b
                side = -((slope > 0) - (slope < 0))
            states[i] = side > 0
        across = (*across, bytes(states))
    return across


# ---- pieces and cells ----------------------------------------------------------------------------


@dataclass(frozen=True)
class PlanePiece:
    """A convex polygon on which the patterns of the first layers are known.

    `sides` are the lines of the domain, A x + B y + C >= 0 inside, whole numbers. `codes` are the
    polygon's own sides in counter-clockwise order: twice the neuron's number (neurons of all layers
    numbered through) or twice -1 - k for side k of the domain, plus 1 if another neuron vanishes on
    it. `below` are the patterns of finished layers, a byte a neuron; `states` those of the next
    layer, where 2 says open. `credit` counts cells of finished layers that this piece reports, so
    that pieces add up.
    """

    sides: tuple[Triple, ...]
    codes: tuple[int, ...]
    below: tuple[bytes, ...]
    states: bytes
    credit: tuple[int, ...]

    @property
    def layer(self) -> int:
        return len(self.below)


@dataclass(frozen=True, eq=False)
class PlaneCell:
    """A cell of the last layer: float corners, pattern by layer, labels of the sides.

    Side k runs from corner k to corner k + 1, counter-clockwise; its label is (layer, neuron), or
    (-1, k) for side k of the domain.
    """

    corners: np.ndarray
    patterns: tuple[np.ndarray, ...]
    labels: tuple[tuple[int, int], ...]
    _stack: Stack
    _piece: PlanePiece

    def exact_corners(self) -> list[tuple[Fraction, Fraction]]:
        """The corners, exactly: where the lines of neighbouring sides meet."""
        exact, below = exact_of(self._stack), tuple(p.tobytes() for p in self.patterns)
        lines = [
            self._piece.sides[i] if layer < 0 else exact.row(below[:layer], i)
            for layer, i in self.labels
        ]
        return [(Fraction(x, w), Fraction(y, w)) for x, y, w in corners_of(lines)]


# ---- the domain ----------------------------------------------------------------------------------


def start_piece(stack: Stack, corners: Sequence[tuple[Fraction, Fraction]]) -> PlanePiece:
    """The whole domain: a strictly convex polygon, corners counter-clockwise."""
    points = [(Fraction(x), Fraction(y)) for x, y in corners]
    sides = tuple(_line(points[k], points[(k + 1) % len(points)]) for k in range(len(points)))
    _check_convex(sides, points)
    for axis, reach in enumerate(stack.reach):
        if max(abs(p[axis]) for p in points) > Fraction(float(reach)):
            raise DomainError(
                f"Coordinate {axis} of the polygon goes beyond {reach}, the reach that rounding "
                "was bounded for. Make the Stack with the polygon's own reach."
            )
    codes = tuple(2 * (-1 - k) for k in range(len(sides)))
    hidden = stack.hidden
    return PlanePiece(sides, codes, (), bytes([OPEN]) * hidden[0], (0,) * len(hidden))


def _line(p: tuple[Fraction, Fraction], q: tuple[Fraction, Fraction]) -> Triple:
    """The line from p to q, positive on its left, in whole numbers."""
    a, b = p[1] - q[1], q[0] - p[0]
    c = -(a * p[0] + b * p[1])
    scale = lcm(a.denominator, b.denominator, c.denominator)
    return int(a * scale), int(b * scale), int(c * scale)


def _check_convex(sides: tuple[Triple, ...], points: list[tuple[Fraction, Fraction]]) -> None:
    for k, (a, b, c) in enumerate(sides):
        for j, (x, y) in enumerate(points):
            if j not in (k, (k + 1) % len(points)) and a * x + b * y + c <= 0:
                raise DomainError(
                    f"Corner {j} of the polygon is not strictly left of side {k}. Give the corners "
                    "of a strictly convex polygon in counter-clockwise order."
                )
    if len(points) < 3:
        raise DomainError(f"A polygon needs 3 corners or more, but {len(points)} were given.")
