"""The same signs in whole numbers, for the few that floats leave open: always right."""

from __future__ import annotations

import numpy as np

from hardmax.geometry.hulls._points import Points


def whole_normals(corners: np.ndarray) -> np.ndarray:
    """Normals of simplices, given as (simplices, corners, coordinates) of whole numbers.

    Minors by expansion along the last row, over all sets of columns as bits.
    """
    count, width = corners.shape[0], corners.shape[2]
    rows = corners[:, 1:] - corners[:, :1]
    minors: dict[int, np.ndarray] = {0: np.array([1] * count, dtype=object)}
    for chosen in range(1, 1 << width):
        k = chosen.bit_count()
        if k > width - 1:
            continue
        total = np.array([0] * count, dtype=object)
        for place, c in enumerate(c for c in range(width) if chosen >> c & 1):
            term = rows[:, k - 1, c] * minors[chosen ^ (1 << c)]
            total = total + term if (k - 1 + place) % 2 == 0 else total - term
        minors[chosen] = total
    full = (1 << width) - 1
    columns = [
        minors[full ^ (1 << c)] * (1 if (width - 1 + c) % 2 == 0 else -1) for c in range(width)
    ]
    return np.stack(columns, axis=1)


def whole_signs(numbers: np.ndarray) -> np.ndarray:
    """-1, 0 or 1 for whole numbers of any size."""
    return np.array([(one > 0) - (one < 0) for one in numbers.tolist()], dtype=np.int8)


def sides(points: Points, simplices: np.ndarray, others: np.ndarray) -> np.ndarray:
    """For each simplex the sign of the determinant with its other point: which side it is on."""
    if not len(simplices):
        return np.zeros(0, dtype=np.int8)
    count, width = simplices.shape
    used, place = np.unique(np.concatenate([simplices.ravel(), others]), return_inverse=True)
    whole = points.whole(used)
    corners = whole[place[: count * width]].reshape(count, width, -1)
    normals = whole_normals(corners)
    away = whole[place[count * width :]] - corners[:, 0]
    return whole_signs((normals * away).sum(axis=1))
