"""A convex polygon of the plane with the patterns known on it: a piece of work, and a cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

import numpy as np

from hardmax._errors import DomainError
from hardmax.geometry.counting._stack import Stack
from hardmax.geometry.counting.plane._exact import Triple, corners_of, exact_of

OPEN = 2  # a neuron of the piece's layer that is neither on nor off yet


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
