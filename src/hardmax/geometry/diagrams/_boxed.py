"""A power diagram within a box: which cells and walls reach into it, and how large they are.

A cell or wall with a vertex strictly inside the box has an inside there (the rest of it is as near
to that vertex as one likes). Floats see that for most; the others are cut to the box in Fractions.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Protocol

import numpy as np

from hardmax.core import Box
from hardmax.geometry.diagrams._cells import Cell, clip_box
from hardmax.geometry.hulls._faces import pairs_of
from hardmax.geometry.hulls._points import Points


class Walled(Protocol):
    """What is asked of a diagram: its winners, who borders on whom, and its vertices in floats.

    Winners are rows of `sites` and `levels`; walls are pairs of places among the winners.
    """

    @property
    def sites(self) -> Points: ...
    @property
    def levels(self) -> Points: ...
    @property
    def winners(self) -> np.ndarray: ...
    @property
    def walls(self) -> np.ndarray: ...
    @property
    def corners(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]: ...
    @property
    def bounded(self) -> np.ndarray: ...


@dataclass(frozen=True, eq=False)
class BoxedDiagram:
    """The cells of a diagram, cut to a box, made as they are asked for; places count winners."""

    diagram: Walled
    box: Box

    @cached_property
    def _cells(self) -> dict[int, Cell]:
        return {}

    def cell(self, place: int) -> Cell:
        if place not in self._cells:
            self._cells[place] = self._cut_to_box(place)
        return self._cells[place]

    def _cut_to_box(self, place: int) -> Cell:
        sites, levels = self.diagram.sites, self.diagram.levels
        own, rivals = self.diagram.winners[[place]], self.diagram.winners[self._rivals[place]]
        slopes = sites.rationals(own)[0] - sites.rationals(rivals)
        heights = levels.rationals(own)[0, 0] - levels.rationals(rivals)[:, 0]
        return clip_box(self.box, slopes.tolist(), heights.tolist(), rivals.tolist())

    @cached_property
    def _rivals(self) -> list[list[int]]:
        rivals: list[list[int]] = [[] for _ in self.diagram.winners]
        for a, b in self.diagram.walls.tolist():
            rivals[a].append(b)
            rivals[b].append(a)
        return rivals

    @cached_property
    def _inside(self) -> np.ndarray:
        """The simplices (rows of places) whose vertex is strictly inside, beyond rounding."""
        vertices, doubts, simplices = self.diagram.corners
        with np.errstate(invalid="ignore", over="ignore"):  # what is no number is not ahead
            ahead = (vertices - doubts > self.box.low) & (vertices + doubts < self.box.high)
        return simplices[ahead.all(axis=1)]

    @cached_property
    def _outside(self) -> np.ndarray:
        """The places of bounded cells whose vertices all lie beyond one side of the box.

        Such a cell is the hull of its vertices, so it is beyond that side as well.
        """
        vertices, doubts, simplices = self.diagram.corners
        count, width = len(self.diagram.winners), vertices.shape[1]
        least, most = np.full((count, width), np.inf), np.full((count, width), -np.inf)
        with np.errstate(invalid="ignore", over="ignore"):  # what is no number is not beyond
            below, above = vertices - doubts, vertices + doubts
            for column in simplices.T:
                np.minimum.at(least, column, below)
                np.maximum.at(most, column, above)
        beyond = ((least >= self.box.high) | (most <= self.box.low)).any(axis=1)
        return np.asarray(beyond & self.diagram.bounded)

    @cached_property
    def live(self) -> np.ndarray:
        """The places of the winners whose cells have an inside in the box."""
        seen = np.zeros(len(self.diagram.winners), dtype=bool)
        seen[self._inside.ravel()] = True
        for place in np.flatnonzero(~seen & ~self._outside).tolist():
            seen[place] = self.cell(place).volume > 0
        return np.flatnonzero(seen)

    @cached_property
    def walls(self) -> np.ndarray:
        """The walls that have a piece of one dimension less than the space in the box."""
        walls = self.diagram.walls
        count = len(self.diagram.winners)
        certain = pairs_of(self._inside)
        seen = np.isin(walls[:, 0] * count + walls[:, 1], certain[:, 0] * count + certain[:, 1])
        live = set(self.live.tolist())
        for n in np.flatnonzero(~seen).tolist():
            a, b = walls[n].tolist()
            seen[n] = a in live and int(self.diagram.winners[b]) in self.cell(a).neighbours
        return walls[seen]

    @cached_property
    def volumes(self) -> dict[int, Fraction]:
        """By places; they add up to the box."""
        return {place: self.cell(place).volume for place in self.live.tolist()}
