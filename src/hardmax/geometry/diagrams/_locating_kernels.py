"""Climbing from key to key, compiled; a file of its own, so that Numba is loaded late."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hardmax.geometry._compiled import contracted_entry
from hardmax.numerics import GROWN, TINY

FAR = 1e280  # of what rounding does: 2^-50 of a score, so that below it no score overflows


class Cells(NamedTuple):
    """The keys that have cells, with their biases, and the neighbours of each."""

    keys: np.ndarray
    levels: np.ndarray
    begin: np.ndarray  # across[begin[k]:begin[k + 1]] are those of key k
    across: np.ndarray
    landmarks: np.ndarray  # where climbing begins


@contracted_entry
def climb(cells: Cells, queries: np.ndarray, spare: float) -> tuple[np.ndarray, np.ndarray]:
    """The winner for each query, and whether it leads all its neighbours by more than rounding.

    `spare` times the query's size bounds what rounding does to a difference of two scores. Nothing
    is sure where that is FAR: a score that overflowed, if only on the way, says nothing, and what
    is no number loses unseen.
    """
    keys, levels, begin, across = cells.keys, cells.levels, cells.begin, cells.across
    winners = np.empty(len(queries), dtype=np.int64)
    sure = np.empty(len(queries), dtype=np.bool_)
    width = keys.shape[1]
    for n in range(queries.shape[0]):
        size = 1.0
        for c in range(width):
            size += abs(queries[n, c])
        here, best = cells.landmarks[0], -np.inf
        for mark in cells.landmarks:
            score = levels[mark]
            for c in range(width):
                score += queries[n, c] * keys[mark, c]
            if score > best:  # for speed: any landmark is a start
                here, best = mark, score
        climbing = True
        while climbing:
            climbing, ahead = False, here
            second = -np.inf
            for place in range(begin[here], begin[here + 1]):
                other = across[place]
                score = levels[other]
                for c in range(width):
                    score += queries[n, c] * keys[other, c]
                if score > second:
                    second, ahead = score, other
            if second > best:
                best, here, climbing = second, ahead, True
        winners[n] = here
        doubt = spare * size * GROWN + 2.0 * (width + 2) * TINY
        sure[n] = doubt < FAR and best - second > doubt
    return winners, sure
