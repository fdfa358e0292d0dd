"""Functions of finitely many values, looked up by one number.

One variable: a polygon (`gadgets`). Several variables: a *code*, one number sum_a c_a[v_a] that
tells apart what the function tells apart; of several codes the one with the fewest knots is taken.
Addition is free in a stream, so an additive function is looked up variable by variable.

What is found in floats is held against what was wanted (`misfit`): it must be closer than the
smallest difference that matters, and by how much it misses is charged to the claim.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hardmax._errors import RequestError
from hardmax.lowering.gadgets import Polygon, polygon
from hardmax.lowering.sketch import NOISE, misfit

_SMALL = 256  # combinations up to which more codes are tried
_FEWEST = 2  # knots: a step has two, and it is seldom worth looking further


def points_of(codes: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, float] | None:
    """The points of a function of a code, ascending, and how far codes are from them.

    None if the code does not decide the function.
    """
    order = np.argsort(codes, kind="stable")
    x, y = codes[order], values[order]
    span = float(np.abs(x).max())
    new = np.concatenate([[True], np.diff(x) > NOISE * span])
    first = np.flatnonzero(new)[np.cumsum(new) - 1]
    if (y != y[first]).any():
        return None
    return x[new], y[new], float((x - x[first]).max())


@dataclass(frozen=True, eq=False)
class LookupCode:
    """What each value of each variable adds to the number that is looked up."""

    numbers: tuple[np.ndarray, ...]
    polygon: Polygon
    off: float = 0.0  # how far the sums of numbers are from the polygon's levels

    @property
    def cost(self) -> tuple[int, float]:
        """Hidden units first; then how steep it is, for slopes magnify errors."""
        steep = np.abs(self.polygon.weights).max(initial=abs(self.polygon.slope))
        return len(self.polygon.knots), float(steep)


def additive_parts(values: np.ndarray) -> tuple[list[np.ndarray], float] | None:
    """f_0, f_1, ... with values = f_0[v_0] + f_1[v_1] + ..., and the misfit, if there are any."""
    origin = (0,) * values.ndim
    parts = []
    for axis in range(values.ndim):
        index = tuple(slice(None) if a == axis else 0 for a in range(values.ndim))
        parts.append(values[index] - values[origin])
    total = values[origin] + sum(
        part.reshape([-1 if a == axis else 1 for a in range(values.ndim)])
        for axis, part in enumerate(parts)
    )
    off = misfit(total, values)
    if off is None:
        return None
    parts[0] = parts[0] + values[origin]
    return parts, off


def find_code(
    values: np.ndarray, levels: Sequence[np.ndarray | None], flat: bool = False
) -> LookupCode:
    """A code for a function of several variables; variables without levels can be numbered freely.

    Mixed radix codes always work. From each of them the weights are improved one at a time: small
    whole weights let different arguments share a number where the function allows.
    """
    best: LookupCode | None = None
    orders = 6 if values.size <= _SMALL else 2
    for numbers in itertools.islice(_numberings(values, levels), 4):
        for order in itertools.islice(itertools.permutations(range(values.ndim)), orders):
            code = _improve_weights(values, numbers, _radix(numbers, order), flat)
            if code is not None and (best is None or code.cost < best.cost):
                best = code
            if best is not None and best.cost[0] <= _FEWEST:
                return best
    if best is None:
        raise RequestError(
            f"A function of {values.ndim} values has arguments too close to each other for one "
            f"float64 to tell them all apart. Map them to fewer values first."
        )
    return best


def _numberings(
    values: np.ndarray, levels: Sequence[np.ndarray | None]
) -> Iterator[list[np.ndarray]]:
    """Numbers for the values of each variable: given ones, or classes of equal behaviour."""
    free = []
    for axis, given in enumerate(levels):
        rows = np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)
        _, classes = np.unique(rows, axis=0, return_inverse=True)
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


def _improve_weights(
    values: np.ndarray, numbers: list[np.ndarray], weights: np.ndarray, flat: bool
) -> LookupCode | None:
    best = _code_by_weights(values, numbers, weights, flat)
    if best is None:
        return None
    for _ in range(2 if values.size <= _SMALL else 1):
        for axis in range(len(weights)):
            for weight in _alternatives(weights, axis):
                tried = weights.copy()
                tried[axis] = weight
                code = _code_by_weights(values, numbers, tried, flat)
                if code is not None and code.cost < best.cost:
                    best, weights = code, tried
    return best


def _alternatives(weights: np.ndarray, axis: int) -> list[float]:
    own = float(weights[axis])
    others = [float(w) for a, w in enumerate(weights) if a != axis]
    tried = [-own, *(sign * w * k for w in others for sign in (1, -1) for k in (1, 2))]
    return list(dict.fromkeys(w for w in tried if w != own))


def _code_by_weights(
    values: np.ndarray, numbers: list[np.ndarray], weights: np.ndarray, flat: bool
) -> LookupCode | None:
    parts = [w * n for w, n in zip(weights, numbers, strict=True)]
    total = np.zeros(values.shape)
    for axis, part in enumerate(parts):
        total = total + part.reshape([-1 if a == axis else 1 for a in range(values.ndim)])
    points = points_of(total.reshape(-1), values.reshape(-1))
    if points is None:
        return None
    x, y, off = points
    return LookupCode(tuple(parts), polygon(x, y, flat), off)


def varies(table: np.ndarray, axis: int) -> bool:
    return bool((table != np.take(table, [0], axis=axis)).any())


def diagonal(table: np.ndarray, axes: list[int]) -> np.ndarray:
    """A table over arguments, of which some are the same, as one over the different ones."""
    letters = [chr(ord("a") + axis) for axis in axes]
    return np.einsum(f"{''.join(letters)}->{''.join(dict.fromkeys(letters))}", table)


def affine_map(levels: np.ndarray, numbers: np.ndarray) -> tuple[float, float, float] | None:
    """a, b with numbers = a levels + b, and how far that is from it."""
    low, high = int(levels.argmin()), int(levels.argmax())
    if levels[low] == levels[high]:
        off = misfit(np.full(len(numbers), numbers[0]), numbers)
        return None if off is None else (0.0, float(numbers[0]), off)
    scale = float((numbers[high] - numbers[low]) / (levels[high] - levels[low]))
    shift = float(numbers[low] - scale * levels[low])
    off = misfit(scale * levels + shift, numbers)
    return None if off is None else (scale, shift, off)
