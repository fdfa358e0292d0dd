"""Cells of a hard Transformer on a plane when keys move as well: walls are conics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm
from types import MappingProxyType
from typing import NoReturn

from hardmax._errors import DomainError, RequestError
from hardmax.core import Box, Construction, Transformer
from hardmax.geometry.counting._domains import Slice
from hardmax.geometry.counting.conic._search import ConicSearch
from hardmax.geometry.counting.conic._tree import Tree
from hardmax.geometry.counting.conic._walls import ConicWall
from hardmax.geometry.counting.switch._transformer import vector_input_of
from hardmax.numerics import above_float

Point = tuple[Fraction, Fraction]


@dataclass(frozen=True, eq=False)
class ConicRegions:
    """How many cells there are, between two certified bounds.

    `witnesses` gives an input of each cell that was found, `possible` names the patterns that
    could be neither found nor excluded (None if they were too many to name), `undecided_area`
    bounds the part of the domain in which they can be, in the domain's own coordinates.
    `fewest_maps` and `most_maps` bound the number of different affine maps among the cells.
    """

    witnesses: Mapping[tuple, tuple[Fraction, ...]] = field(repr=False)
    possible: frozenset[tuple] | None = field(repr=False)
    undecided_area: float
    fewest_maps: int
    most_maps: int | None
    boxes: int

    @property
    def low(self) -> int:
        return len(self.witnesses)

    @property
    def high(self) -> int | None:
        """None if no upper bound was reached."""
        return None if self.possible is None else self.low + len(self.possible)

    @property
    def exact(self) -> bool:
        return self.low == self.high

    @property
    def cells(self) -> int:
        """The number of cells, where it is certain."""
        if self.exact:
            return self.low
        most = "more" if self.high is None else f"at most {self.high}"
        raise RequestError(
            f"There are at least {self.low} cells and {most}, but {self.boxes} boxes did not "
            f"settle how many: raise the budget, or take the bounds low and high."
        )

    @property
    def count(self) -> int:
        raise RequestError(
            "Where all tokens move, cells are counted and not joined into regions; fewest_maps and "
            "most_maps bound the number of affine maps."
        )

    def __iter__(self) -> NoReturn:
        raise RequestError(
            "Where all tokens move, cells have curved walls and are not listed; `witnesses` has a "
            "point of each."
        )

    def as_dict(self, *, regions: bool = True) -> dict[str, object]:
        """Plain data; regions are not known here."""
        return {
            "source": "hard Transformer, all tokens moving",
            "cells": self.low if self.exact else None,
            "cells_at_least": self.low,
            "cells_at_most": self.high,
            "regions": None,
            "exact": self.exact,
            "undecided_area": self.undecided_area,
            "boxes": self.boxes,
        }

    def __repr__(self) -> str:
        number = f"{self.low}" if self.exact else f"{self.low} to {self.high or 'unknown'}"
        return f"ConicRegions({number} cells, {self.boxes} boxes)"


def conic_cells(
    transformer: Transformer | Construction,
    domain: Box | Slice,
    *,
    budget: int = 20_000,
    progress: Callable[[int], None] | None = None,
) -> ConicRegions:
    """The routing and activation patterns that have an open set of the domain's interior.

    A pattern tells, for every sublayer and every token at which it can still influence the
    read-out, which tokens each head attends to and which rectifiers are on (one that is 0
    throughout is off). Its cell is where it holds. A cell may be in several parts: patterns are
    counted, not parts. Scores that are equal polynomials share their win.

    Lower bound: a pattern counts when a rational point of the open domain has it with every
    comparison strict, in exact arithmetic; comparisons are continuous, so a neighbourhood has
    it too. Upper bound: after given choices the stream is affine and every comparison the sign of
    a conic f, with known signs on boxes. f <= 0 on a box leaves no open set with f > 0
    there; nor do two conics that would need opposite signs of a common factor. A pattern that is
    excluded on each box of a cover has no cell. Boxes whose possible patterns all have witnesses
    need not be looked at again, so the bounds meet although boxes on walls stay undecided. They do
    where at most two contests' walls meet, and cross. Where more meet in a rational point, as they
    do where a query vanishes or two keys are equal, the point is blown up. Elsewhere (curves that
    touch, a score that is the mean of three others where those meet) what cannot be excluded is
    left in `possible`.

    `budget` is the number of boxes to look at, `progress` hears the number of cells so far.
    """
    model = transformer.transformer if isinstance(transformer, Construction) else transformer
    inputs = vector_input_of(model).inputs
    if isinstance(budget, bool) or not isinstance(budget, int) or budget < 1:
        raise RequestError(f"The budget is a number of boxes, 1 or more, but it is {budget!r}.")
    plane = _Plane.of(domain, inputs)
    tree = Tree(model, plane.frame())
    sides = tuple(plane.side(tree, k) for k in range(len(plane.corners)))
    search = ConicSearch(tree, sides)
    search.run(budget, progress)
    return _result(search, plane)


def _result(search: ConicSearch, plane: _Plane) -> ConicRegions:
    left = search.open
    witnesses = {pattern: plane.inputs(point) for pattern, (_, point) in search.witnesses.items()}
    maps = {search.tree.output(leaf) for leaf, _ in search.witnesses.values()}
    possible, most = None, None
    if all(leaves is not None for _, leaves in left):
        open_leaves = {leaf.pattern: leaf for _, leaves in left for leaf in leaves or ()}
        possible = frozenset(open_leaves)
        most = len(maps | {search.tree.output(leaf) for leaf in open_leaves.values()})
    area = sum((box.area for box, _ in left), Fraction(0)) * plane.size[0] * plane.size[1]
    return ConicRegions(
        MappingProxyType(witnesses), possible, above_float(area), len(maps), most, search.boxes
    )


@dataclass(frozen=True, eq=False)
class _Plane:
    """A convex polygon of y, inside the box low + (0, size), and inputs origin + y directions.

    The unit square's coordinates are u = (y - low) / size.
    """

    origin: tuple[Fraction, ...]
    directions: tuple[tuple[Fraction, ...], tuple[Fraction, ...]]
    corners: tuple[Point, ...]
    low: Point
    size: Point

    @classmethod
    def of(cls, domain: Box | Slice, inputs: int) -> _Plane:
        if not isinstance(domain, Box | Slice):
            raise RequestError(
                f"Conic walls are followed on a plane, so the domain is a Box with two "
                f"coordinates or a Slice, not {type(domain).__name__}."
            )
        if domain.dimension != inputs:
            raise DomainError(
                f"The model has {inputs} inputs, but the domain has {domain.dimension} coordinates."
            )
        if isinstance(domain, Slice):
            return cls._around(domain.exact_origin, domain.exact_directions, domain.exact_polygon)
        if inputs != 2:
            raise RequestError(
                f"Conic walls are followed on a plane, but the box has {inputs} coordinates: "
                f"give a Slice through it."
            )
        (a, c), (b, d) = domain.low.tolist(), domain.high.tolist()
        if not (a < b and c < d):
            raise DomainError(f"The box {domain} has no inside: give it an area.")
        corners = [(a, c), (b, c), (b, d), (a, d)]
        one, zero = Fraction(1), Fraction(0)
        exact = tuple((Fraction(x), Fraction(y)) for x, y in corners)
        return cls._around((zero, zero), ((one, zero), (zero, one)), exact)

    @classmethod
    def _around(
        cls,
        origin: tuple[Fraction, ...],
        directions: tuple[tuple[Fraction, ...], tuple[Fraction, ...]],
        corners: tuple[Point, ...],
    ) -> _Plane:
        ends = [(min(axis), max(axis)) for axis in zip(*corners, strict=True)]
        (a, b), (c, d) = ends
        return cls(origin, directions, corners, (a, c), (b - a, d - c))

    def frame(self) -> list[list[Fraction]]:
        """Inputs x (1, u, v)."""
        one, other = self.directions
        return [
            [o + self.low[0] * p + self.low[1] * q, self.size[0] * p, self.size[1] * q]
            for o, p, q in zip(self.origin, one, other, strict=True)
        ]

    def inputs(self, point: Point) -> tuple[Fraction, ...]:
        u, v = point
        return tuple(level + p * u + q * v for level, p, q in self.frame())

    def side(self, tree: Tree, number: int) -> ConicWall:
        """Positive left of the edge behind a corner: inside, as corners run counter-clockwise."""
        (a, b), (c, d) = (
            tuple((x - o) / s for x, o, s in zip(corner, self.low, self.size, strict=True))
            for corner in (self.corners[number], self.corners[(number + 1) % len(self.corners)])
        )
        form = [a * (d - b) - b * (c - a), b - d, c - a]
        under = lcm(*(x.denominator for x in form))
        return tree.factors.wall([*(int(x * under) for x in form), 0, 0, 0])
