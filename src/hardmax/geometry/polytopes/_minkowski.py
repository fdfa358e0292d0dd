"""Minkowski sums of polytopes: vertices, and which terms of the summands are behind each.

*Theorem.* Let p = (p_1, ..., p_H) be vertices of polytopes P_1, ..., P_H, and V the directions of
all edges at them. (1) p_1 + ... + p_H is a vertex of the sum exactly if some x has <v, x> < 0 for
all v in V. (2) Then the edges of the sum at it point along the extreme rays of cone(V), and across
the ray of v lies the vertex in which every p_h that has an edge along v is replaced by its other
end. (3) These steps reach all vertices of the sum from any one.

*Proof.* p_h maximises x over P_h, alone, exactly if <v, x> < 0 for its edges v: they span
cone(P_h - p_h). A vertex of the sum is a point that some x selects, and x selects it exactly if it
selects each p_h. So the normal cone C = {<v, .> <= 0 for v in V} is the dual of cone(V), and its
walls belong to the extreme rays of cone(V). Inside the wall of v only multiples of v have product
0: there P_h is maximised by p_h alone, or by its edge along v, and beyond the wall by the other end
of it. Any two directions can be joined by a path that meets walls in their insides only.

*Cells of heads.* Where scores have biases, lift the keys to (k, b) and let x be (q, 1): only
normals with a positive last coordinate count. That is one more vector, (0, ..., 0, -1), in V, whose
wall is never crossed; directions with x_last > 0 are convex, so (3) holds for them too.

*Cost.* One cone a vertex of the sum, never all N^H sums: for each edge direction at a vertex one
linear program of d rows and as many columns as the vertex has edges so far. Folding two summands at
a time is not better: the vertices of the partial sums come on top, and the extreme rays are all
that a linear program sees in either way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from hardmax._errors import RequestError, ShapeError
from hardmax._shown import Shown
from hardmax.geometry.hulls._points import Points, Rows
from hardmax.geometry.polytopes._graph import edge_graph
from hardmax.geometry.polytopes._polytope import MOST_DIMENSIONS, Polytope
from hardmax.geometry.polytopes._walk import Progress, walk
from hardmax.numerics import frozen_array

MOST_VERTICES = 20_000_000  # by default: a few gigabytes


@dataclass(frozen=True, eq=False)
class MinkowskiSum(Shown):
    """The vertices of P_1 + ... + P_H, or those that some direction with x_last > 0 selects.

    Row i of `combinations` has, for each summand, the index of the point that vertex i takes from
    it; rows are in ascending order. `decided` counts signs that floats left open.

    >>> hm.minkowski_sum([[[0, 0], [1, 0]], [[0, 0], [0, 1]]]).count  # a square
    4
    """

    summands: tuple[Polytope, ...]
    combinations: np.ndarray
    is_upper: bool = False
    decided: int = field(default=0, repr=False)

    def __len__(self) -> int:
        return len(self.combinations)

    @property
    def count(self) -> int:
        return len(self.combinations)

    @cached_property
    def vertices(self) -> np.ndarray:
        """Coordinates added up in floats, a row each; `points` has them exactly."""
        total = np.zeros((self.count, self._space))
        with np.errstate(over="ignore", invalid="ignore"):
            for chosen, summand in zip(self.combinations.T, self.summands, strict=True):
                total += summand.points.floats[chosen]
        return frozen_array(total)

    @cached_property
    def points(self) -> Points:
        """The same exactly: floats where every sum is one, else Fractions."""
        total = np.zeros_like(self.vertices)
        is_exact = all(summand.points.is_float for summand in self.summands)
        for chosen, summand in zip(self.combinations.T, self.summands, strict=True):
            if not is_exact:
                break
            before, more = total, summand.points.floats[chosen]
            with np.errstate(over="ignore", invalid="ignore"):  # then it is not exact
                total = before + more
                part = total - before  # Knuth: the sum is exact if nothing of either is lost
                is_exact = bool((more == part).all() and (before == total - part).all())
        if is_exact:
            return Points(frozen_array(total))
        return Points.of(self._fractions())

    def _fractions(self) -> np.ndarray:
        total = np.full((self.count, self._space), Fraction(0), dtype=object)
        for chosen, summand in zip(self.combinations.T, self.summands, strict=True):
            total = total + summand.points.rationals()[chosen]
        return total

    def polytope(self) -> Polytope:
        """The hull of the vertices: edges, facets, f-vector of the sum itself."""
        return Polytope.of(self.points)

    def __repr__(self) -> str:
        sizes = " x ".join(str(len(summand.points)) for summand in self.summands[:6])
        sizes += " x ..." * (len(self.summands) > 6)
        kind = "upper vertices" if self.is_upper else "vertices"
        return (
            f"MinkowskiSum({len(self.summands)} summands in R^{self._space}, {sizes} points: "
            f"{self.count:,} {kind})"
        )

    @property
    def _space(self) -> int:
        return self.summands[0].points.dimension


def minkowski_sum(
    summands: Iterable[Rows | Polytope],
    *,
    progress: Progress | None = None,
    most: int = MOST_VERTICES,
) -> MinkowskiSum:
    """The sum of polytopes, each given by points (rows) or as a Polytope.

    `progress` is called now and then with the number of vertices found; Ctrl-C leaves without a
    result, because half a sum is none. More than `most` vertices are refused.

        >>> minkowski_sum([[[0, 0], [1, 0]], [[0, 0], [0, 1]], [[0, 0], [1, 1]]]).count
        6
    """
    if not isinstance(summands, Iterable):
        raise ShapeError(f"Give a list of summands, each a table of points, not {summands!r}.")
    given = [
        summand if isinstance(summand, Polytope) else Points.of(summand, f"points of summand {h}")
        for h, summand in enumerate(summands)
    ]
    return _sum_of(given, False, progress, most)


def upper_sum(
    summands: Sequence[Points], *, progress: Progress | None = None, most: int = MOST_VERTICES
) -> MinkowskiSum:
    """The vertices of the sum that some direction with a positive last coordinate selects."""
    return _sum_of(summands, True, progress, most)


def _sum_of(
    given: Sequence[Polytope | Points], upper: bool, progress: Progress | None, most: int
) -> MinkowskiSum:
    points = [each.points if isinstance(each, Polytope) else each for each in given]
    if not points:
        raise RequestError("A Minkowski sum needs at least one summand; none was given.")
    spaces = {cloud.dimension for cloud in points}
    if len(spaces) > 1:
        raise ShapeError(
            f"All summands must lie in one space, but they have dimensions "
            f"{', '.join(str(cloud.dimension) for cloud in points[:12])}."
        )
    empty = [h for h, cloud in enumerate(points) if not len(cloud)]
    if empty:
        raise ShapeError(f"Every summand needs a point, but summand {empty[0]} has none.")
    _refuse_high([len(cloud) for cloud in points], spaces.pop(), upper)
    summands = [Polytope.of(each) for each in given]
    graph = edge_graph(summands, upper=upper)
    cells, decided = walk(graph, progress, most)
    terms = graph.terms[cells]
    order = np.lexsort(terms.T[::-1])
    decided += sum(summand.decided for summand in summands)
    return MinkowskiSum(tuple(summands), frozen_array(terms[order]), upper, decided)


def _refuse_high(counts: list[int], space: int, upper: bool) -> None:
    if space <= MOST_DIMENSIONS:
        return
    from hardmax.geometry.bounds import several_heads

    bound = several_heads(counts, dimension=space - upper, bias_free=not upper)
    raise RequestError(
        f"Sums in {space} dimensions{' (keys and biases together)' * upper} are too much to "
        f"enumerate: {len(counts):,} summands of up to {max(counts):,} points have up to "
        f"{bound.scientific} vertices. Use at most {MOST_DIMENSIONS} dimensions, or the bound "
        f"(hardmax.bounds.several_heads)."
    )
