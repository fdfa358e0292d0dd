"""Whether simplices are the boundary of a convex hull: proved, from signs that are exact.

*Theorem.* Let simplices in R^D be glued along their ridges, each ridge to exactly one other, and
let a centre o be strictly on the inner side of every simplex. Suppose that (1) across every ridge
the other corner of the neighbour is on the inner side of the simplex's plane or in it, and where it
is in it, the neighbour is beyond the ridge as seen from o; (2) some ray from o meets the inside of
exactly one simplex and touches no other. Then the simplices are the boundary of the convex hull of
their corners. Any point that is in the cone of a simplex from o and not beyond its plane is in it.

*Proof.* Seen from o, a simplex and its neighbour lie on opposite sides of their ridge: by (1) if
they are in one plane; otherwise, were they on the same side, one of them would be nearer to o there
and the corner of the other beyond its plane. So the number of simplices that a ray meets does not
change where it crosses a ridge; it can change only in faces of codimension 2, which do not separate
directions, so by (2) every ray that avoids those meets exactly one simplex. Let g be the function
that is 1 on every simplex and linear on every ray from o. Along a line that avoids the faces of
codimension 2, g is piecewise linear, and by (1) its slope does not fall where pieces meet: g is
convex on almost all lines, so convex, and {g <= 1} is the hull.
"""

from __future__ import annotations

import numpy as np

from hardmax.geometry.hulls import _facet_kernels as kernels
from hardmax.geometry.hulls._faces import Surface, Unproved, seen_in
from hardmax.geometry.hulls._points import Points, sides_of

_MOST_STEPS = 10_000


def verify_surface(
    points: Points,
    simplices: np.ndarray,
    neighbours: np.ndarray,
    inner: tuple[int, ...] | None = None,
) -> Surface:
    """The surface, if it is the boundary of the hull of all points; `Unproved` otherwise.

    The centre is the float next to the corners' mean, or the exact mean of the points `inner`: a
    hull can be so thin that no float is inside.
    """
    corners = seen_in(simplices, len(points))
    if inner is None:
        points = points.with_row(points.floats[corners].mean(axis=0))
    else:
        points = points.with_mean(list(inner))
    return _Verification(points, simplices, neighbours, exact=inner is not None).surface(corners)


class _Verification:
    """One centre, one set of simplices; the centre is the last of the points."""

    def __init__(
        self, points: Points, simplices: np.ndarray, neighbours: np.ndarray, *, exact: bool
    ) -> None:
        self.exact = exact
        self.points, self.cloud = points, kernels.FloatPoints(points.floats, points.slack)
        self.simplices = np.ascontiguousarray(simplices, dtype=np.int64)
        self.neighbours = np.ascontiguousarray(neighbours, dtype=np.int64)
        self.normals, self.blurs = np.empty(simplices.shape), np.empty(simplices.shape)
        self.facets = kernels.Facets(self.simplices, self.neighbours, self.normals, self.blurs)
        self.work = kernels.new_work(points.dimension)
        self.centre = len(points) - 1
        self.decided = 0

    def surface(self, corners: np.ndarray) -> Surface:
        if not kernels.is_closed(self.simplices, self.neighbours):
            raise Unproved
        sure = kernels.orient(self.cloud, self.facets, self.centre, self.work)
        self._orient(np.flatnonzero(~sure))
        flat = self._ridges()
        self._covers_once()
        self._holds_all(corners)
        return Surface(
            self.simplices, self.neighbours, self.normals, self.blurs, flat, self.decided
        )

    def _exact(self, simplices: np.ndarray, others: np.ndarray) -> np.ndarray:
        self.decided += len(simplices)
        return sides_of(self.points, simplices, others)

    def _orient(self, unsure: np.ndarray) -> None:
        """Normals point away from the centre; a plane through the centre proves nothing."""
        if not len(unsure):
            return
        centre = np.full(len(unsure), self.centre)
        exact = self._exact(self.simplices[unsure], centre)
        if (exact == 0).any():
            raise Unproved
        self.normals[unsure] *= -exact[:, None]  # as they stand they have the determinant's sign

    def _ridges(self) -> np.ndarray:
        """Which ridges are flat; none may be reflex, and none folded."""
        across = kernels.apexes(self.simplices, self.neighbours)
        side = kernels.ridge_sides(self.cloud, self.facets, across)
        if (side == kernels.OUTSIDE).any():
            raise Unproved
        where = np.argwhere(side == kernels.UNSURE)
        flat = np.zeros(side.shape, dtype=bool)
        if len(where):
            f, i = where.T
            inner = self._exact(self.simplices[f], np.full(len(f), self.centre))
            other = self._exact(self.simplices[f], across[f, i])
            if (inner * other < 0).any() or (inner == 0).any():
                raise Unproved
            flat[f, i] = other == 0
            self._check_unfolded(np.argwhere(flat), across)
        return flat

    def _check_unfolded(self, where: np.ndarray, across: np.ndarray) -> None:
        f, i = where.T
        walls = self.simplices[f].copy()
        own = walls[np.arange(len(f)), i]
        walls[np.arange(len(f)), i] = self.centre
        if (self._exact(walls, own) * self._exact(walls, across[f, i]) >= 0).any():
            raise Unproved

    def _covers_once(self) -> None:
        """The ray through the middle of a simplex meets that one alone."""
        if self.exact:
            points = self.points.with_mean(self.simplices[0].tolist())
        else:
            points = self.points.with_row(self.points.floats[self.simplices[0]].mean(axis=0))
        cloud, ray = kernels.FloatPoints(points.floats, points.slack), len(points) - 1
        sides = kernels.cones_over(cloud, self.simplices, self.centre, ray, self.work)
        over = sides == kernels.OUTSIDE
        for f in np.flatnonzero(sides == kernels.UNSURE):
            over[f] = self._in_cone(points, int(f), ray)
        if over.sum() != 1:
            raise Unproved

    def _in_cone(self, points: Points, f: int, other: int) -> bool:
        """Whether a point is in the closed cone of a simplex, exactly."""
        width = self.simplices.shape[1]
        walls = np.repeat(self.simplices[[f]], width, axis=0)
        own = walls[np.arange(width), np.arange(width)]
        walls[np.arange(width), np.arange(width)] = self.centre
        self.decided += width
        inner = sides_of(points, walls, own)
        return bool((inner * sides_of(points, walls, np.full(width, other)) >= 0).all())

    def _holds_all(self, corners: np.ndarray) -> None:
        """No point that is not a corner is beyond the surface."""
        is_other = np.ones(self.centre, dtype=bool)
        is_other[corners] = False
        others = np.flatnonzero(is_other)
        if not len(others):
            return
        near = self._near(corners, others)
        starts = kernels.climb(self.cloud, self.facets, self.centre, others, near)
        home, state = kernels.walk(
            self.cloud, self.facets, self.centre, others, starts, self.work, _MOST_STEPS
        )
        if (state == kernels.OUTSIDE).any():
            raise Unproved
        unsure = np.flatnonzero(state == kernels.UNSURE)
        self._settle(others[unsure], home[unsure])

    def _near(self, corners: np.ndarray, others: np.ndarray) -> np.ndarray:
        """A simplex at the corner nearest to each point."""
        from scipy.spatial import cKDTree

        at = np.zeros(self.centre, dtype=np.int64)
        at[self.simplices.ravel()] = np.repeat(
            np.arange(len(self.simplices)), self.simplices.shape[1]
        )
        floats = self.points.floats
        tree = cKDTree(floats[corners], balanced_tree=False, compact_nodes=False)
        return at[corners[tree.query(floats[others])[1]]]

    def _settle(self, others: np.ndarray, home: np.ndarray) -> None:
        """Points near a wall or near the surface: the same in whole numbers, in one go."""
        if not len(others):
            return
        width = self.simplices.shape[1]
        held = self.simplices[home]
        inner = self._exact(held, np.full(len(held), self.centre))
        outside = self._exact(held, others) * inner < 0
        in_cone = np.ones(len(held), dtype=bool)
        for i in range(width):
            walls = held.copy()
            walls[:, i] = self.centre
            in_cone &= self._exact(walls, held[:, i]) * self._exact(walls, others) >= 0
        if (outside & in_cone).any():
            raise Unproved
        for other in others[~in_cone]:
            self._settle_alone(int(other))

    def _settle_alone(self, other: int) -> None:
        """A point whose walk went astray: against all simplices."""
        every = np.full(len(self.simplices), other)
        inner = self._exact(self.simplices, np.full(len(self.simplices), self.centre))
        if (inner * self._exact(self.simplices, every) < 0).any():
            raise Unproved
