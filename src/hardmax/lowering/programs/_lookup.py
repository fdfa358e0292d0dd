"""Functions of finitely many values as piecewise linear functions of one number.

One variable: through the points (x_i, y_i) goes the polygon
    y = base + slope x + sum_k weight_k relu(x - knot_k),
with a knot at each inner point where the slope changes: for a feed-forward layer a hidden unit per
knot, the affine part being free. Several variables: a *code*, one number sum_a c_a[v_a] that tells
apart what the function tells apart; of several codes the one with the fewest knots is taken.
Addition is free in a stream, so an additive function is looked up variable by variable.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

_SAME = 1e-9  # relative: numbers that differ by less are one
_SMALL = 256  # combinations up to which more codes are tried
_FEWEST = 2  # knots: a step has two, and it is seldom worth looking further


@dataclass(frozen=True, eq=False)
class Polygon:
    """base + slope x + sum of weights * relu(x - knots)."""

    base: float
    slope: float
    knots: np.ndarray
    weights: np.ndarray


def polygon(x: np.ndarray, y: np.ndarray) -> Polygon:
    """Through all points; x ascends strictly."""
    if len(x) == 1:
        return Polygon(float(y[0]), 0.0, np.zeros(0), np.zeros(0))
    slopes = np.diff(y) / np.diff(x)
    turns = np.diff(slopes)
    scale = max(1.0, float(np.abs(slopes).max()))
    bends = np.abs(turns) > _SAME * scale
    slope = float(slopes[0])
    return Polygon(float(y[0] - slope * x[0]), slope, x[1:-1][bends], turns[bends])


def points_of(codes: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """The points of a function of a code, ascending; None if the code does not decide it."""
    order = np.argsort(codes, kind="stable")
    x, y = codes[order], values[order]
    span = max(1.0, float(x[-1] - x[0]))
    new = np.concatenate([[True], np.diff(x) > _SAME * span])
    first = np.flatnonzero(new)[np.cumsum(new) - 1]
    if (np.abs(y - y[first]) > _SAME * max(1.0, float(np.abs(y).max()))).any():
        return None
    return x[new], y[new]


@dataclass(frozen=True, eq=False)
class Code:
    """What each value of each variable adds to the number that is looked up."""

    numbers: tuple[np.ndarray, ...]
    polygon: Polygon

    @property
    def cost(self) -> tuple[int, float]:
        """Hidden units first; then how steep it is, for slopes magnify errors."""
        steep = np.abs(self.polygon.weights).max(initial=abs(self.polygon.slope))
        return len(self.polygon.knots), float(steep)


def additive_parts(values: np.ndarray) -> list[np.ndarray] | None:
    """f_0, f_1, ... with values = f_0[v_0] + f_1[v_1] + ..., if there are any."""
    origin = (0,) * values.ndim
    parts = []
    for axis in range(values.ndim):
        index = tuple(slice(None) if a == axis else 0 for a in range(values.ndim))
        parts.append(values[index] - values[origin])
    total = values[origin] + sum(
        part.reshape([-1 if a == axis else 1 for a in range(values.ndim)])
        for axis, part in enumerate(parts)
    )
    if np.abs(total - values).max() > _SAME * max(1.0, float(np.abs(values).max())):
        return None
    parts[0] = parts[0] + values[origin]
    return parts


def find_code(values: np.ndarray, levels: Sequence[np.ndarray | None]) -> Code:
    """A code for a function of several variables; variables without levels can be numbered freely.

    Mixed radix codes always work. From each of them the weights are improved one at a time: small
    whole weights let different arguments share a number where the function allows.
    """
    best: Code | None = None
    orders = 6 if values.size <= _SMALL else 2
    for numbers in itertools.islice(_numberings(values, levels), 4):
        for order in itertools.islice(itertools.permutations(range(values.ndim)), orders):
            found = _improved(values, numbers, _radix(numbers, order))
            if found is not None and (best is None or found.cost < best.cost):
                best = found
            if best is not None and best.cost[0] <= _FEWEST:
                return best
    assert best is not None
    return best


def _numberings(
    values: np.ndarray, levels: Sequence[np.ndarray | None]
) -> Iterator[list[np.ndarray]]:
    """Numbers for the values of each variable: given ones, or classes of equal behaviour."""
    free = []
    for axis, given in enumerate(levels):
        rows = np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)
        _, classes = np.unique(np.round(rows, 9), axis=0, return_inverse=True)
        if given is None:
            means = np.array([rows[classes == c].mean() for c in range(classes.max() + 1)])
            free.append([np.argsort(np.argsort(means))[classes.reshape(-1)].astype(float)])
            if classes.max() + 1 == len(rows):
                free[-1].append(np.arange(float(len(rows))))
        else:
            free.append([np.asarray(given, dtype=float)])
    for choice in itertools.product(*free):
        yield list(choice)


def _radix(numbers: list[np.ndarray], order: Sequence[int]) -> np.ndarray:
    weights, reach = np.zeros(len(numbers)), 0.0
    for axis in order:
        found = np.unique(numbers[axis])
        gap = float(np.diff(found).min()) if len(found) > 1 else 1.0
        weights[axis] = (reach + 1.0) / gap
        reach += weights[axis] * float(found[-1] - found[0])
    return weights


def _improved(values: np.ndarray, numbers: list[np.ndarray], weights: np.ndarray) -> Code | None:
    best = _coded(values, numbers, weights)
    if best is None:
        return None
    for _ in range(2 if values.size <= _SMALL else 1):
        for axis in range(len(weights)):
            for weight in _alternatives(weights, axis):
                tried = weights.copy()
                tried[axis] = weight
                found = _coded(values, numbers, tried)
                if found is not None and found.cost < best.cost:
                    best, weights = found, tried
    return best


def _alternatives(weights: np.ndarray, axis: int) -> list[float]:
    own = float(weights[axis])
    others = [float(w) for a, w in enumerate(weights) if a != axis]
    tried = [-own, *(sign * w * k for w in others for sign in (1, -1) for k in (1, 2))]
    return list(dict.fromkeys(w for w in tried if w != own))


def _coded(values: np.ndarray, numbers: list[np.ndarray], weights: np.ndarray) -> Code | None:
    parts = [w * n for w, n in zip(weights, numbers, strict=True)]
    total = np.zeros(values.shape)
    for axis, part in enumerate(parts):
        total = total + part.reshape([-1 if a == axis else 1 for a in range(values.ndim)])
    found = points_of(total.reshape(-1), values.reshape(-1))
    return None if found is None else Code(tuple(parts), polygon(*found))
