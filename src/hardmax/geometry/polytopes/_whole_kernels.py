"""Whether a vector lies in the cone of others, in whole numbers: what floats leave open.

The simplex method with Bland's rule, which cannot cycle. Pivoting is free of fractions: after every
pivot each entry of the tableau is a minor of the matrix it began with, the common denominator is
the last pivot, and each division comes out even (Edmonds). One text serves two kinds of numbers:
compiled it runs on int64, where that is known to hold them, as it stands on Python's integers.
"""

from __future__ import annotations

import math

import numpy as np
from numba.extending import register_jitable

from hardmax.geometry._compiled import copy_row, subroutine
from hardmax.geometry.polytopes._arrays import EXTREME, INNER, OPEN, UNKNOWN, Cone, Scratch

_MOST = 2.0**62  # half of what int64 holds: room for the rounding of the bound itself


def fits(vectors: np.ndarray) -> bool:
    """Whether int64 can hold every number that the simplex method meets among these vectors.

    By Hadamard's inequality a minor of k <= d rows is at most M = (the largest length)^d. The last
    row sums d of them, and an update forms the difference of two products: 2 d M^2.
    """
    width = vectors.shape[1]
    largest = max((abs(x) for row in vectors.tolist() for x in row), default=0)
    if largest > 2**31:
        return False
    length = max(1.0, math.sqrt(width) * largest)
    return 2.0 * max(width, 1) * length ** (2 * width) < _MOST


def is_in_cone(columns: np.ndarray, target: np.ndarray) -> bool:
    """Whether `target` is a sum of rows of `columns` with weights >= 0; Python's integers."""
    count, width = columns.shape
    tableau = np.zeros((width + 1, count + 1), dtype=object)
    return bool(in_cone(columns, count, target, tableau, np.zeros(width, dtype=object)))


@register_jitable
def in_cone(
    columns: np.ndarray, count: int, target: np.ndarray, tableau: np.ndarray, basis: np.ndarray
) -> bool:
    """The same for the first `count` rows, in a tableau with room for one column more."""
    width = len(target)
    last = count
    for c in range(count + 1):
        tableau[width, c] = 0 * target[0]
    for r in range(width):
        flip = target[r] < 0
        for c in range(count):
            tableau[r, c] = -columns[c, r] if flip else columns[c, r]
            tableau[width, c] += tableau[r, c]
        tableau[r, last] = -target[r] if flip else target[r]
        tableau[width, last] += tableau[r, last]
        basis[r] = count + r
    before = 0 * target[0] + 1
    while True:
        enter = -1
        for c in range(count):
            if tableau[width, c] > 0:
                enter = c
                break
        if enter < 0 or tableau[width, last] == 0:
            return tableau[width, last] == 0
        leave = _leaving_row(tableau, width, enter, last, basis)
        pivot = tableau[leave, enter]
        for r in range(width + 1):
            if r == leave:
                continue
            factor = tableau[r, enter]
            for c in range(count + 1):
                product = tableau[r, c] * pivot - factor * tableau[leave, c]
                tableau[r, c] = product // before
        before = pivot
        basis[leave] = enter


@register_jitable
def _leaving_row(tableau: np.ndarray, width: int, enter: int, last: int, basis: np.ndarray) -> int:
    """The row of the least ratio, of equal ones that of the first variable (Bland)."""
    leave = -1
    for r in range(width):
        if tableau[r, enter] <= 0:
            continue
        if leave < 0:
            leave = r
            continue
        ahead = tableau[r, last] * tableau[leave, enter]
        behind = tableau[leave, last] * tableau[r, enter]
        if ahead < behind or (ahead == behind and basis[r] < basis[leave]):
            leave = r
    return leave


@subroutine
def settle(cone: Cone, count: int, scratch: Scratch) -> None:
    """Decide what is OPEN or UNKNOWN in int64, for vectors of which `fits` holds."""
    status = cone.status
    for i in range(count):
        if status[i] != OPEN and status[i] != UNKNOWN:
            continue
        n = 0
        for j in range(count):
            if j != i and status[j] != INNER:
                copy_row(scratch.columns[n], cone.whole[j])
                n += 1
        inside = in_cone(scratch.columns, n, cone.whole[i], scratch.whole_tableau, scratch.basis)
        status[i] = INNER if inside else EXTREME
