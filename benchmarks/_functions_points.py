"""Points where functions are hard: corners, walls, near-ties and the neighbourhood of kinks."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from hardmax.core import Box, Maximum, Univariate
from hardmax.languages import Function

Gaps = Callable[[np.ndarray], np.ndarray]


def hard_points(function: Function, box: Box, count: int, seed: int = 0) -> np.ndarray:
    """`count` points of the box: uniform ones, and those where errors hide.

    An eighth each: corners and walls; near the walls; ties and near-ties of several coordinates,
    from 10^-12 to the width apart; beside the kinks of the function, as near. All corners are
    among them where there are few.
    """
    rng = np.random.default_rng(seed)
    few = max(count // 8, 1)
    parts = [
        _all_corners(box, few),
        box.sample(few, rng),
        _beside_walls(box, few, rng),
        _near_ties(box, few, rng),
        _beside_kinks(function, box, few, rng),
    ]
    special = np.concatenate(parts)[:count]
    rest = rng.uniform(box.low, box.high, size=(count - len(special), box.dimension))
    return np.clip(np.concatenate([special, rest]), box.low, box.high)


def _all_corners(box: Box, most: int) -> np.ndarray:
    if 2**box.dimension > most:
        return np.empty((0, box.dimension))
    ends = zip(box.low, box.high, strict=True)
    return np.array(list(itertools.product(*ends)))


def _small(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """0 now and then, otherwise 10^-12 to 1 with either sign, evenly over the decades."""
    size = 10.0 ** rng.uniform(-12.0, 0.0, size=shape)
    return np.asarray(size * rng.choice([-1.0, 0.0, 1.0], p=[0.4, 0.2, 0.4], size=shape))


def _beside_walls(box: Box, count: int, rng: np.random.Generator) -> np.ndarray:
    points = rng.uniform(box.low, box.high, size=(count, box.dimension))
    width = box.high - box.low
    near = rng.random(points.shape) < 0.5
    wall = np.where(rng.random(points.shape) < 0.5, box.low, box.high)
    return np.where(near, wall + width * _small(points.shape, rng), points)


def _near_ties(box: Box, count: int, rng: np.random.Generator) -> np.ndarray:
    """Several coordinates share a value, up to a distance that may be common to all of them."""
    points = rng.uniform(box.low, box.high, size=(count, box.dimension))
    if box.dimension == 1:
        return points
    least = rng.integers(2, box.dimension + 1, size=(count, 1))
    chosen = rng.permuted(np.tile(np.arange(box.dimension), (count, 1)), axis=1) < least
    first = chosen.argmax(axis=1)
    level = points[np.arange(count), first][:, None]
    width = float((box.high - box.low).max())
    own, common = _small(points.shape, rng), -np.abs(_small((count, 1), rng))
    apart = np.where(rng.random((count, 1)) < 0.5, own, common) * width
    apart[np.arange(count), first] = 0.0
    return np.where(chosen, level + apart, points)


def _beside_kinks(function: Function, box: Box, count: int, rng: np.random.Generator) -> np.ndarray:
    """Points of random segments at which two pieces of a kink differ by a chosen small amount."""
    gaps = _kink_gaps(function)
    a, b = rng.uniform(box.low, box.high, size=(2, count, box.dimension))
    kinks = len(gaps(a[:1]))
    if not kinks:
        return np.empty((0, box.dimension))
    pick, rows = rng.integers(kinks, size=count), np.arange(count)
    level = _small((count,), rng)
    start, end = (gaps(x)[pick, rows] - level for x in (a, b))
    crossing, rising = start * end < 0, end > 0
    low, high = np.zeros(count), np.ones(count)
    for _ in range(52):
        middle = (low + high) / 2
        beyond = (gaps(a + middle[:, None] * (b - a))[pick, rows] > level) == rising
        low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
    return np.asarray((a + low[:, None] * (b - a))[crossing])


def _kink_gaps(function: Function) -> Gaps:
    """For every pair of pieces of every maximum, abs and relu: the difference, kinks x points."""
    program = function.steps()

    def gaps(points: np.ndarray) -> np.ndarray:
        values = program.values(points.T)
        found = [np.empty((0, len(points)))]
        for step in program.steps:
            read = np.concatenate([values[source] for source in step.sources])
            match step:
                case Univariate(name="abs" | "relu"):
                    found.append(read)
                case Maximum(groups=groups):
                    pairs = itertools.combinations(groups.T, 2)
                    found += [read[one] - read[other] for one, other in pairs]
        return np.concatenate(found)

    return gaps
