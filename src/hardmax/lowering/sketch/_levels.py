"""Functions of finitely many numbers, in floats: how close is the same, and how large they are."""

from __future__ import annotations

import numpy as np

from hardmax.numerics import UNIT, inflate, stray

NOISE = 2.0**9 * UNIT  # relative: what floats may add to numbers that are the same
_TELLING = 2.0**-10  # of the smallest difference: what misses by more is another function
_MANY = 64  # knots within reach: the steepest slope of all is good enough then
_SHARPEST = 5040.0  # weights of combinations are multiples of its inverse


def misfit(found: np.ndarray, wanted: np.ndarray, slack: float = NOISE) -> float | None:
    """How far numbers are from those wanted; None if that is more than floats explain.

    Numbers that lie close together are wanted apart: the misfit is small beside their distances,
    too.
    """
    worst = float(np.abs(found - wanted).max(initial=0.0))
    if worst == 0.0:
        return 0.0
    if not worst <= slack * float(np.abs(wanted).max()):
        return None
    apart = np.diff(np.unique(wanted))
    return worst if not apart.size or worst <= _TELLING * float(apart.min()) else None


def spanned(basis: list[np.ndarray], wanted: np.ndarray) -> tuple[list[float], float] | None:
    """The weights with which independent vectors add up to another one, and how far they miss it.

    None if they miss it by more than floats explain.
    """
    if not basis:
        return None
    matrix = np.stack(basis, axis=1)
    found = np.linalg.lstsq(matrix, wanted, rcond=None)[0]
    for weights in (np.round(found * _SHARPEST) / _SHARPEST, found):
        off = misfit(matrix @ weights, wanted, 1e-12 * len(wanted))
        if off is not None:
            return [float(weight) for weight in weights], off
    return None


class Bends:
    """x -> sum of weights * relu(x - knots), and how large it is: it turns at its knots alone."""

    def __init__(self, knots: np.ndarray, weights: np.ndarray) -> None:
        order = np.argsort(knots)
        self.knots, weights = knots[order], weights[order]
        self._slopes = np.concatenate([[0.0], np.cumsum(weights)])
        self._fixed = np.concatenate([[0.0], np.cumsum(weights * self.knots)])
        self._steepness = float(np.abs(weights).sum())

    def largest(self, points: np.ndarray) -> float:
        """The largest absolute value at some points, from above."""
        reach = float(np.abs(points).max() + np.abs(self.knots).max())
        rounding = stray(len(self.knots) + 4.0, self._steepness * reach)
        return float(inflate(self.about(points) + rounding))

    def about(self, points: np.ndarray) -> float:
        """The largest absolute value at some points, but for rounding."""
        before = np.searchsorted(self.knots, points)
        return float(np.abs(self._slopes[before] * points - self._fixed[before]).max())

    def steepest(self, points: np.ndarray, reach: float) -> float:
        """The largest absolute slope within reach of some points."""
        slopes = np.abs(self._slopes)
        first = np.searchsorted(self.knots, points - reach, side="left")
        last = np.searchsorted(self.knots, points + reach, side="right")
        longest = int((last - first).max())
        if longest > _MANY:
            return float(slopes.max())
        return max(float(slopes[np.minimum(first + k, last)].max()) for k in range(longest + 1))

    def largest_within(self, reach: float) -> float:
        """The largest absolute value where |x| <= reach: at a knot or at an end."""
        return self.largest(np.concatenate([np.clip(self.knots, -reach, reach), [-reach, reach]]))
