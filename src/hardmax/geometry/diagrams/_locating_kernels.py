"""Climbing from key to key, compiled."""

from __future__ import annotations

import numpy as np
from numba import njit

from hardmax.numerics import GROWN, TINY

FAR = 1e280  # of what rounding does: 2^-50 of a score, so that below it no score overflows


@njit(cache=True, fastmath={"contract"})
def climb(queries, keys, levels, begin, across, landmarks, spare, winners, sure):  # type: ignore[no-untyped-def]
    """The winner for each query, and whether it leads all its neighbours by more than rounding.

    `begin` and `across` list the neighbours of each key; `spare` times the query's size bounds
    what rounding does to a difference of two scores. Nothing is sure where that is FAR: a score
    that overflowed, if only on the way, says nothing, and what is no number loses unseen.
    """
    width = keys.shape[1]
    for n in range(queries.shape[0]):
        size = 1.0
        for c in range(width):
            size += abs(queries[n, c])
        here, best = landmarks[0], -np.inf
        for one in landmarks:
            score = levels[one]
            for c in range(width):
                score += queries[n, c] * keys[one, c]
            if score > best:  # for speed: any landmark is a start
                here, best = one, score
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
