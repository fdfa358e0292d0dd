"""Where to look so that a picture misses nothing that is wider than a few of its pixels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hardmax._errors import RequestError
from hardmax.core import Box, Construction

Difference = Callable[[np.ndarray], np.ndarray]  # points, one a row -> errors, one a row

_START = 4096  # steps of a curve before it is refined
_MOST = 40_000  # points of a curve
_ROUNDS = 20  # halvings: 4096 * 2^20 steps are finer than anything drawn
_STRAIGHT = 0.002  # of the curve's height: less than a pixel in any picture drawn here


def difference(construction: Construction) -> Difference:
    """What the model is off, with its sign, for every output; refused where it is no number."""
    target = construction.claim.target

    def off(points: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            errors = np.asarray(construction(points)) - np.asarray(target(points))
        if not np.isfinite(errors).all():
            where = points[np.argmin(np.isfinite(errors).all(axis=1))].tolist()
            raise RequestError(f"The error cannot be drawn: it is no finite number at {where}.")
        return errors

    return off


def between(low: float, high: float, shares: np.ndarray) -> np.ndarray:
    """Numbers from low to high, ends included exactly; high - low may overflow."""
    return np.clip(low * (1.0 - shares) + high * shares, low, high)


def line_through(origin: np.ndarray, coordinate: int, values: np.ndarray) -> np.ndarray:
    """The origin, one row for each value of the coordinate."""
    points = np.repeat(origin[None, :], len(values), axis=0)
    points[:, coordinate] = values
    return points


def curve(
    off: Difference, domain: Box, origin: np.ndarray, coordinate: int
) -> tuple[np.ndarray, np.ndarray]:
    """The error along a coordinate through a point: where, and one column for each output.

    Evenly spaced points first, the origin among them; then every piece is halved until its
    middle lies on the chord, up to less than a pixel. A peak is found if it is as wide as one
    of the first steps, or if the origin sits on it.
    """
    low, high = float(domain.low[coordinate]), float(domain.high[coordinate])
    even = between(low, high, np.linspace(0.0, 1.0, _START + 1))
    x = np.union1d(even, origin[coordinate])
    y = off(line_through(origin, coordinate, x))
    bent = np.ones(len(x) - 1, dtype=bool)
    for _ in range(_ROUNDS):
        middle = x[:-1] / 2 + x[1:] / 2
        (asked,) = np.nonzero(bent & (middle > x[:-1]) & (middle < x[1:]))
        if not len(asked) or len(x) + len(asked) > _MOST:
            break
        there = off(line_through(origin, coordinate, middle[asked]))
        chord = y[asked] / 2 + y[asked + 1] / 2
        far = np.abs(there - chord).max(axis=1) > _STRAIGHT * np.abs(y).max()
        x = np.insert(x, asked + 1, middle[asked])
        y = np.insert(y, asked + 1, there, axis=0)
        bent = np.zeros(len(x) - 1, dtype=bool)
        left = asked[far] + np.nonzero(far)[0]  # each insertion before moved it by one
        bent[left] = bent[left + 1] = True
    return x, y


def heat(
    off: Difference,
    domain: Box,
    origin: np.ndarray,
    coordinates: tuple[int, int],
    *,
    cells: int,
    steps: int,
) -> np.ndarray:
    """cells x cells x outputs: for each cell of a plane the largest error seen in it, signed.

    A cell is looked at on a lattice of steps + 1 points each way, edges and corners included.
    """
    shares = np.linspace(0.0, 1.0, cells * steps + 1)
    sides = [between(float(domain.low[c]), float(domain.high[c]), shares) for c in coordinates]
    first, second = np.meshgrid(*sides, indexing="ij")
    points = line_through(origin, coordinates[0], first.ravel())
    points[:, coordinates[1]] = second.ravel()
    errors = off(points).reshape(*first.shape, -1)
    window = np.lib.stride_tricks.sliding_window_view(errors, (steps + 1, steps + 1), axis=(0, 1))
    inside = window[::steps, ::steps].reshape(cells, cells, errors.shape[2], -1)
    pick = np.abs(inside).argmax(axis=-1, keepdims=True)
    return np.take_along_axis(inside, pick, axis=-1)[..., 0]
