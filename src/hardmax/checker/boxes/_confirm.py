"""Leaves of a search, confirmed in ball arithmetic.

A bound that holds on a box holds at its points. At the middle and at two corners of the leaves with
the largest bounds the answer is evaluated once more, from its exact coefficients and in balls: had
the vectorised arithmetic gone wrong, this is where it would show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from flint import arb

from hardmax.checker.boxes._compile_tape import Problem

_WORK = 3000  # jets' worth of balls per search


@dataclass(frozen=True, eq=False)
class Leaf:
    """|answer| <= most was found on a box."""

    most: float
    low: np.ndarray
    high: np.ndarray

    @property
    def middle(self) -> np.ndarray:
        return np.asarray(0.5 * self.low + 0.5 * self.high)

    @property
    def points(self) -> tuple[np.ndarray, ...]:
        return self.middle, self.low, self.high


def contradicted(problem: Problem, leaves: Sequence[Leaf]) -> bool:
    """Whether balls find more than was said to be possible, somewhere on a leaf."""
    if problem.exact is None:
        return False
    every = [(leaf.most, point) for leaf in leaves for point in leaf.points]
    for most, point in every[: max(1, _WORK // (1 + problem.tape.cost))]:
        value = problem.exact.at(point)
        if value is not None and bool(abs(value) > arb(most) + arb(problem.slack)):
            return True
    return False
