"""Which pieces of a layer may win somewhere in a cell, compiled: beyond all rounding, or maybe."""

from __future__ import annotations

import numpy as np

from hardmax.geometry._compiled import entry, inline, lent
from hardmax.geometry.counting.switch._arrays import FloatCell, LayerTables, Rivals
from hardmax.numerics import GROWN, TINY, UNIT


@inline
def compose(tables: LayerTables, forms: np.ndarray, reach: np.ndarray, rivals: Rivals) -> None:
    """Rows of the layer as forms of the input: `made` is coefficients, constant, error.

    An error bounds how far the form is off anywhere in the domain. A sum of n products of rounded
    coefficients and a rounded constant, in any order, takes at most n + 2 roundings of each term;
    one more pays for products of errors. A coefficient may be off by the smallest number, times
    the form that it is multiplied with, and so may each product, times the reach: that is `lost`.
    `bulk` adds what evaluating the form at a point rounds, d + 1 times, and what the difference to
    another form does; `slope` bounds how much its value moves when the point does. Infinities and
    nan are handed on, and leave every comparison open.
    """
    made, levels = rivals.made, tables.levels
    n, d = forms.shape[0], forms.shape[1] - 2
    unsure = np.empty(n)
    wide, lost = 1.0, 0.0
    for c in range(d):
        wide += reach[c]
    for j in range(n):
        total = abs(forms[j, d])
        for c in range(d):
            total += abs(forms[j, c]) * reach[c]
        unsure[j] = forms[j, d + 1] + (n + 3) * UNIT * total
        lost += total + forms[j, d + 1]
    lost = TINY * (lost + (n + 4) * wide)
    if n:
        np.dot(tables.weights, forms, made)
        errors = np.dot(tables.sizes, unsure)
    else:
        made[:], errors = 0.0, np.zeros(len(levels))
    for r in range(len(levels)):
        made[r, d] += levels[r]
        made[r, d + 1] = (errors[r] + (n + 3) * UNIT * abs(levels[r])) * GROWN + lost
        value, steep = abs(made[r, d]), 0.0
        for c in range(d):
            value += abs(made[r, c]) * reach[c]
            steep += abs(made[r, c])
        rivals.bulk[r] = (made[r, d + 1] + (d + 3) * UNIT * value) * GROWN + (d + 4) * TINY
        rivals.slope[r] = steep * GROWN


@inline
def beats(
    tables: LayerTables, rivals: Rivals, stray: np.ndarray, j: int, i: int, fast: bool
) -> int:
    """Whether piece j of the pool is above piece i on the whole cell, by their values.

    1 surely, 2 if both may be one form, else 0. In exact mode beyond the rounding at every vertex,
    which nan never is. In fast mode what is too close counts as equal, so that touching suffices.
    """
    p, q = tables.score[rivals.pool[i]], tables.score[rivals.pool[j]]
    level, steep = rivals.bulk[p] + rivals.bulk[q], rivals.slope[p] + rivals.slope[q]
    above = False
    for v in range(len(stray)):
        gap = rivals.values[j, v] - rivals.values[i, v]
        room = level + stray[v] * steep
        if gap > room:
            above = True
        elif not fast or gap < -room:
            return 0
    return 1 if above else 2


@inline
def sift(tables: LayerTables, rivals: Rivals, cell: FloatCell, count: int, fast: bool) -> int:
    """Keep those in the pool that may win somewhere in the cell; -1 if some tie and it matters."""
    pool, made = rivals.pool, rivals.made
    d, kept = cell.points.shape[1], 0
    for i in range(count):
        row = tables.score[pool[i]]
        for v in range(len(cell.stray)):
            total = made[row, d]
            for c in range(d):
                total += made[row, c] * cell.points[v, c]
            rivals.values[i, v] = total
    for i in range(count):
        dead = False
        for j in range(count):
            if j == i:
                continue
            verdict = beats(tables, rivals, cell.stray, j, i, fast)
            if verdict == 2 and not tables.continuous:
                return -1
            if verdict == 1 or (verdict == 2 and j < i):
                dead = True
                break
        if not dead:
            pool[count + kept] = pool[i]
            kept += 1
    for i in range(kept):
        pool[i] = pool[count + i]
    return max(kept, 1)  # in fast mode closeness is not transitive: then the first stands for all


@inline
def find_rivals(
    tables: LayerTables,
    cell: FloatCell,
    forms: np.ndarray,
    known: np.ndarray,
    reach: np.ndarray,
    rivals: Rivals,
    fast: bool,
) -> bool:
    """Which pieces of each group may win in a cell whose state is `forms`.

    `known` holds winners that are decided already, and -1 elsewhere.
    False if pieces tie and their payloads are not their scores.
    """
    starts, pool = tables.starts, rivals.pool
    compose(tables, forms, reach, rivals)
    for g in range(len(starts) - 1):
        count = starts[g + 1] - starts[g]
        for i in range(count):
            pool[i] = starts[g] + i
        if known[g] >= 0:
            pool[0], count = starts[g] + known[g], 1
        if count > 1:
            count = sift(tables, rivals, cell, count, fast)
        if count < 0:
            return False
        rivals.sizes[g] = count
        for i in range(count):
            rivals.found[starts[g] + i] = pool[i]
    return True


@entry
def rivals_in(
    tables: LayerTables,
    cell: FloatCell,
    forms: np.ndarray,
    known: np.ndarray,
    reach: np.ndarray,
    rivals: Rivals,
) -> bool:
    """The same in exact mode, for Python."""
    tables, cell, rivals = lent(tables), lent(cell), lent(rivals)
    return find_rivals(tables, cell, forms, known, reach, rivals, False)
