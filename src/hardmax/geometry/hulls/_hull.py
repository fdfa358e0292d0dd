"""Convex hulls that are right: by Qhull where its answer can be proved, else in whole numbers."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np

from hardmax.geometry.hulls._faces import Surface, Unproved
from hardmax.geometry.hulls._frame import Frame, affine_frame
from hardmax.geometry.hulls._incremental import incremental_hull
from hardmax.geometry.hulls._points import Points

_SEED = 0  # the order in which the slow way takes its points


@dataclass(frozen=True, eq=False)
class Hull:
    """The hull of points: their kinds (equal points are one), what they span, and its boundary.

    `first` has a row of each kind, `kind` the kind of each row; the surface, which hulls of
    dimension 2 and more have, counts kinds. A hull of dimension 1 has two `ends`.
    """

    points: Points
    first: np.ndarray
    kind: np.ndarray
    frame: Frame
    surface: Surface | None
    ends: tuple[int, ...]
    shifts: np.ndarray  # exponents that the frame's columns were given for the surface
    is_incremental: bool

    @property
    def dimension(self) -> int:
        return len(self.frame.columns)

    @property
    def decided(self) -> int:
        """How many signs floats left open."""
        return self.frame.decided + (self.surface.decided if self.surface else 0)


def convex_hull(points: Points, *, lifted: bool = False) -> Hull:
    """The hull of points in any position.

    Points that are `lifted` have a last coordinate which the frame uses only if the others, by an
    affine function, do not give it.
    """
    first, kind = points.distinct()
    own = points.take(first)
    shifts = _shifts(own.floats)
    own = own.shifted(shifts)
    frame = affine_frame(own, last=lifted)
    reduced = own.columns(frame.columns)
    shifts = shifts[list(frame.columns)]
    if len(frame.columns) < 2:
        return Hull(points, first, kind, frame, None, _ends(reduced), shifts, False)
    surface, is_incremental = _surface(reduced, frame)
    return Hull(points, first, kind, frame, surface, (), shifts, is_incremental)


def most_facets(count: int, dimension: int) -> float:
    """Facets of a cyclic polytope, which has the most of all with so many vertices (McMullen)."""
    if count <= dimension:
        return float(count)
    low, high = dimension // 2, (dimension + 1) // 2
    return float(comb(count - high, low) + comb(count - low - 1, high - 1))


def _shifts(floats: np.ndarray) -> np.ndarray:
    """Exponents that bring every column's largest number to between 1 and 2."""
    largest = np.abs(floats).max(axis=0, initial=0.0)
    return np.where(largest > 0.0, 1 - np.frexp(largest)[1], 0)


def _ends(line: Points) -> tuple[int, ...]:
    if line.dimension == 0:
        return (0,)
    column = line.rationals()[:, 0].tolist() if not line.is_float else line.floats[:, 0].tolist()
    return min(range(len(column)), key=column.__getitem__), max(
        range(len(column)), key=column.__getitem__
    )


def _surface(points: Points, frame: Frame) -> tuple[Surface, bool]:
    from scipy.spatial import ConvexHull, QhullError

    from hardmax.geometry.hulls._verification import verify_surface

    likely: set[int] = set()
    try:
        guess = ConvexHull(points.floats)
        try:
            return verify_surface(points, guess.simplices, guess.neighbors), False
        except Unproved:
            likely = set(guess.vertices.tolist())
    except QhullError:
        pass  # too flat for its floats
    order = np.random.default_rng(_SEED).permutation(len(points)).tolist()
    order.sort(key=lambda row: row not in likely)
    simplices, neighbours = incremental_hull(points, list(frame.rows), order)
    return verify_surface(points, simplices, neighbours, frame.rows), True
