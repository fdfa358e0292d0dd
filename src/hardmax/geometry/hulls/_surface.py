"""The boundary of a convex hull, as it was verified."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Surface:
    """A verified boundary: simplices, their neighbours, normals, and which ridges are flat."""

    simplices: np.ndarray
    neighbours: np.ndarray
    normals: np.ndarray  # outward, of the points as they were scaled
    blurs: np.ndarray  # how far the normals' coordinates may be off
    flat: np.ndarray  # simplices x corners: whether the ridge opposite is in one plane
    decided: int  # signs that floats left open


class Unproved(Exception):
    """These simplices are not the boundary of a convex hull."""


def seen_in(numbers: np.ndarray, count: int) -> np.ndarray:
    """The numbers below `count` that occur, in order: np.unique for small whole numbers."""
    found = np.zeros(count, dtype=bool)
    found[numbers.ravel()] = True
    return np.flatnonzero(found)
