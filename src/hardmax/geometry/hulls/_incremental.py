"""Convex hulls point by point, in whole numbers: slow, and right for every input.

A point is beyond a facet if the sign of a determinant says so; in its plane is not beyond. The
facets that it is beyond go, and cones from the point over their rim come. No cone is flat: its
ridge belongs to a facet that went, so the point is not in the ridge's own plane. A facet's plane
that holds further points is cut up as they come. Floats decide what they can: two factors rounded
once make each of w products, and the offset is rounded once.
"""

from __future__ import annotations

import itertools

import numpy as np

from hardmax.geometry.hulls._points import Points, whole_normals
from hardmax.numerics import matmul_up, stray


class _Facets:
    """Facets with their planes in whole numbers and in floats."""

    def __init__(self, whole: np.ndarray) -> None:
        self.whole = whole
        self.size = np.array([max(map(abs, column), default=1) or 1 for column in whole.T])
        self.floats = np.array([[float(_ratio(x, m)) for x, m in zip(r, self.size, strict=True)]
                                for r in whole.tolist()])  # fmt: skip
        self.corners: list[tuple[int, ...]] = []
        self.planes: list[tuple[list[int], int]] = []
        width = whole.shape[1]
        self.normals, self.offsets = np.zeros((64, width)), np.zeros(64)
        self.alive = np.zeros(64, dtype=bool)

    def add(self, corners: list[tuple[int, ...]], inner: np.ndarray) -> None:
        """Facets whose outward side is away from `inner`, a point times its denominator last."""
        normals = whole_normals(self.whole[np.array(corners)])
        for own, normal in zip(corners, normals.tolist(), strict=True):
            offset = sum(a * b for a, b in zip(normal, self.whole[own[0]].tolist(), strict=True))
            ahead = sum(a * b for a, b in zip(normal, inner[:-1], strict=True)) - offset * inner[-1]
            if ahead > 0:
                normal, offset = [-x for x in normal], -offset
            self._keep(own, normal, offset)

    def _keep(self, own: tuple[int, ...], normal: list[int], offset: int) -> None:
        place = len(self.corners)
        if place == len(self.alive):
            self.normals = np.concatenate([self.normals, np.zeros_like(self.normals)])
            self.offsets = np.concatenate([self.offsets, np.zeros_like(self.offsets)])
            self.alive = np.concatenate([self.alive, np.zeros_like(self.alive)])
        scaled = [a * int(m) for a, m in zip(normal, self.size, strict=True)]
        most = max(max(map(abs, scaled)), abs(offset)) or 1
        self.normals[place] = [_ratio(x, most) for x in scaled]
        self.offsets[place] = _ratio(offset, most)
        self.alive[place] = True
        self.corners.append(own)
        self.planes.append((normal, offset))

    def beyond(self, point: int) -> list[int]:
        """The facets that a point is beyond."""
        count = len(self.corners)
        x = self.floats[point]
        ahead = self.normals[:count] @ x - self.offsets[:count]
        size = matmul_up(np.abs(self.normals[:count]), np.abs(x)) + np.abs(self.offsets[:count])
        doubt = stray(len(x) + 3, size)
        alive = self.alive[:count]
        beyond = np.flatnonzero(alive & (ahead > doubt)).tolist()
        whole = self.whole[point].tolist()
        for f in np.flatnonzero(alive & (np.abs(ahead) <= doubt)).tolist():
            normal, offset = self.planes[f]
            if sum(a * b for a, b in zip(normal, whole, strict=True)) > offset:
                beyond.append(f)
        return beyond


def _ratio(x: int, most: int) -> float:
    """x / most, right to an ulp for numbers of any size."""
    return x / most


def incremental_hull(
    points: Points, frame: list[int], order: list[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Simplices and neighbours of the hull of points that span their space.

    `frame` are affinely independent; the others come in the given order.
    """
    whole = points.whole(np.arange(len(points)))
    facets = _Facets(whole)
    inner = np.append(whole[frame].sum(axis=0), len(frame))
    facets.add([tuple(frame[:i] + frame[i + 1 :]) for i in range(len(frame))], inner)
    known = set(frame)
    for point in order:
        if point in known:
            continue
        gone = facets.beyond(point)
        if not gone:
            continue
        rim: dict[tuple[int, ...], int] = {}
        for facet in gone:
            facets.alive[facet] = False
            for ridge in _ridges(facets.corners[facet]):
                rim[ridge] = rim.get(ridge, 0) + 1
        facets.add([(*ridge, point) for ridge, times in rim.items() if times == 1], inner)
    return _glue_simplices(
        [own for own, on in zip(facets.corners, facets.alive, strict=False) if on]
    )


def _ridges(corners: tuple[int, ...]) -> list[tuple[int, ...]]:
    return list(itertools.combinations(sorted(corners), len(corners) - 1))


def _glue_simplices(simplices: list[tuple[int, ...]]) -> tuple[np.ndarray, np.ndarray]:
    """Simplices and who lies across each of their ridges."""
    across: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for f, corners in enumerate(simplices):
        for i in range(len(corners)):
            ridge = tuple(sorted(corners[:i] + corners[i + 1 :]))
            across.setdefault(ridge, []).append((f, i))
    neighbours = np.full((len(simplices), len(simplices[0])), -1)
    for pair in across.values():
        for (f, i), (g, _) in itertools.permutations(pair, 2):
            neighbours[f, i] = g
    return np.array(simplices), neighbours
