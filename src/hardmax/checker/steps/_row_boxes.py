"""Rows that no lemma covers: both sides on the small box of the variables they read."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hardmax.checker.boxes import (
    MOST_DIMENSIONS,
    SmallBoxes,
    TooManyDimensions,
    Unsuitable,
    bound_by_cut,
    pose,
)
from hardmax.checker.forms import Form, NoGradient
from hardmax.checker.steps._deviations import Deviations
from hardmax.checker.steps._moved import moved
from hardmax.checker.steps._rows import ROUNDED, Rejected, Row
from hardmax.checker.steps._slopes import slopes_of
from hardmax.checker.steps._verified import Verified
from hardmax.numerics import up


@dataclass(frozen=True, eq=False)
class RowBoxes:
    """[F - V](H) by branch and bound, and V(H) - V(H - d) by slopes of V."""

    small: SmallBoxes
    verified: Verified

    def deviation(self, row: Row) -> Deviations:
        """F - V of a row; apart if that is good enough, else jointly."""
        try:
            carried = self._carried(row)
            room = row.error - float(carried.size[0])
            found = self._searched(row.ours, row.theirs, room) if room > 0.0 else math.inf
            if not found <= room:
                carried, found = self.verified.none(), self._jointly(row)
        except Unsuitable as reason:
            raise Rejected(str(reason)) from reason
        except TooManyDimensions as many:
            raise Rejected(
                f"{row.where} depends on {many.dimension} verified values at once: more than can "
                f"be searched."
            ) from many
        whole = carried.shifted(np.zeros(1), np.array([found]))
        if not float(whole.size[0]) <= row.error * (1 + ROUNDED):
            raise Rejected(
                f"{row.where} could be shown only within {float(whole.size[0]):.3g}, not "
                f"{row.error:.3g}."
            )
        return whole

    def _searched(self, ours: Form, theirs: Form, room: float) -> float:
        """|ours - theirs|: part by part, through a cut, or at once, whichever is good enough."""
        if ours == theirs:
            return 0.0
        found = self.small.by_parts(ours - theirs, room)
        if not found <= room:
            found = bound_by_cut(self.small, ours, theirs, room)
        return found if found <= room else self.small.at_once(ours - theirs, room)

    def _jointly(self, row: Row) -> float:
        """|F(H) - V(H - d)|, where both brackets are added up before they are searched."""
        sizes = self.verified.sizes(row.theirs)
        try:
            shares, second = moved(self.small.graph, row.theirs, sizes)
        except NoGradient:
            return math.inf
        room = row.error - second
        if not shares or not room > 0.0:
            return math.inf
        found = bound_by_cut(self.small, row.ours, row.theirs, room, also=shares)
        if not found <= room:
            found = self.small.bound_sum([row.ours - row.theirs, *shares], room)
        return float(up(found + second))

    def _carried(self, row: Row) -> Deviations:
        """V(H) - V(H - d): slopes of V over the ranges of H and V, times d."""
        known = self.verified
        if not known.sizes(row.theirs):
            return known.none()
        problem = pose(self.small.graph, row.theirs, math.inf)
        if problem.dimension > MOST_DIMENSIONS + 2:
            raise Rejected(f"{row.where} depends on too many verified values at once.")
        middle, radius = slopes_of(problem)
        matrix = np.zeros((problem.dimension, len(known.index)))
        for column, atom in enumerate(problem.variables):
            if atom in known.index:
                matrix[:, known.index[atom]] = problem.rows[:, column]
        parts = known.deviations.combined(matrix).scaled(middle, radius)
        return parts.combined_rows()
