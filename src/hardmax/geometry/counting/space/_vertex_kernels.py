"""A vertex found again from its d walls, compiled: where radii have grown too large to decide."""

from __future__ import annotations

import numpy as np

from hardmax.geometry._compiled import subroutine
from hardmax.geometry.counting.space._arrays import Net, Path, Room, Store
from hardmax.numerics import GROWN, TINY, UNIT


@subroutine
def _gather(net: Net, path: Path, labels: np.ndarray, A: np.ndarray) -> None:
    """The forms of the walls through a vertex, constants last."""
    d, total = len(labels), net.firsts[-1]
    for i in range(d):
        label = labels[i]
        if label >= total:
            for c in range(d + 1):
                A[i, c] = net.sides[label - total, c]
        else:
            layer = net.layer_of[label]
            for c in range(d + 1):
                A[i, c] = path.maps[layer, c, label - net.firsts[layer]]


@subroutine
def _invert(square: np.ndarray) -> bool:
    """square[1] becomes an approximate inverse of square[0], which is lost; False if singular."""
    A, R, d = square[0], square[1], square.shape[1]
    for i in range(d):
        for j in range(d):
            R[i, j] = 1.0 if i == j else 0.0
    for c in range(d):
        best = c
        for i in range(c + 1, d):
            if abs(A[i, c]) > abs(A[best, c]):
                best = i
        if not abs(A[best, c]) > 0.0:
            return False
        for j in range(d):
            A[c, j], A[best, j] = A[best, j], A[c, j]
            R[c, j], R[best, j] = R[best, j], R[c, j]
        scale = 1.0 / A[c, c]
        for j in range(d):
            A[c, j] *= scale
            R[c, j] *= scale
        for i in range(d):
            if i != c:
                factor = A[i, c]
                for j in range(d):
                    A[i, j] -= factor * A[c, j]
                    R[i, j] -= factor * R[c, j]
    return True


@subroutine
def _excess(R: np.ndarray, A: np.ndarray) -> float:
    """An upper bound of |I - R A|, the largest row sum; infinite if it is no number."""
    d, worst = len(R), 0.0
    for i in range(d):
        total = 0.0
        for j in range(d):
            entry, size = (1.0 if i == j else 0.0), 1.0
            for k in range(d):
                term = R[i, k] * A[k, j]
                entry -= term
                size += abs(term)
            total += abs(entry) + (d + 1) * UNIT * size
        if not total < np.inf:
            return np.inf
        worst = max(worst, total)
    return worst * GROWN


@subroutine
def find_again(net: Net, path: Path, room: Room, store: Store, w: int) -> bool:
    """Find vertex w again from its walls: a Newton step, then a bound from the residual.

    False if it was known well enough, or nothing is gained.
    """
    before = store.radii[w]
    if before <= net.fine:
        return False
    labels, x, d = store.labels[w], store.points[w], store.points.shape[1]
    A, R, rest = room.square[2], room.square[1], room.rest
    _gather(net, path, labels, A)
    for i in range(d):
        for j in range(d):
            room.square[0, i, j] = A[i, j]
    if not _invert(room.square):
        return False
    excess = _excess(R, A)
    if not excess < 0.5:
        return False
    for step in range(2):
        for i in range(d):
            value = A[i, d]
            for c in range(d):
                value += A[i, c] * x[c]
            rest[i] = value
        if step == 0:
            for c in range(d):
                for i in range(d):
                    x[c] -= R[c, i] * rest[i]
                x[c] = min(max(x[c], -net.reach[c]), net.reach[c])  # where slack is proved
    radius = 0.0
    for c in range(d):
        size = 0.0
        for i in range(d):
            size += abs(R[c, i]) * (abs(rest[i]) + 2.0 * net.slack[labels[i]])
        if not size < np.inf:
            store.radii[w] = np.inf
            return False
        radius = max(radius, size)
    store.radii[w] = radius / (1.0 - excess) * GROWN + 2.0 * TINY
    return store.radii[w] < 0.5 * before
