"""Means over anchors at equal spacing 1, piece by piece: how far they are, what moves them.

Let x be at the distance r <= 1/2 from the nearest anchor and s = 1 - r from the next on the other
side; weights go like exp(-theta y^2/2), y the distance. All that is said here is of r alone, is
bounded on each of many short pieces of [0, 1/2] by what rises and falls with r in it, and holds
where anchors are missing beyond both ends, too, x being at most 1/2 outside them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from hardmax.numerics import inflate

_PIECES = 1024
_ROW = 8  # anchors on either side; those beyond weigh exp(-32 theta) <= exp(-128): a rounding
_ROUNDINGS = 4096  # of exponents below 700, and of sums; nothing is subtracted


@dataclass(frozen=True, eq=False)
class _Sides:
    """Weights over those of the nearest anchor on the same side, pieces x anchors, from both sides.

    Each falls as its anchor is further away. And the weight of the far side's nearest over the near
    side's, exp(-theta (1 - 2 r)/2), which rises with r.
    """

    ends: tuple[np.ndarray, np.ndarray]  # of r
    near: tuple[np.ndarray, np.ndarray]  # smallest, largest
    far: tuple[np.ndarray, np.ndarray]
    ratio: tuple[np.ndarray, np.ndarray]

    @classmethod
    def of(cls, theta: float) -> _Sides:
        every = np.arange(_PIECES + 1) / (2.0 * _PIECES)
        start, end = every[:-1], every[1:]
        i = np.arange(_ROW)

        def weights(nearest: np.ndarray) -> np.ndarray:
            return np.exp(-theta * (nearest[:, None] * i + 0.5 * i**2))

        near, far = (weights(end), weights(start)), (weights(1.0 - start), weights(1.0 - end))
        low, high = (np.exp(-theta * (0.5 - r)) for r in (start, end))
        return cls((start, end), near, far, (low, high))


@lru_cache(maxsize=64)
def closest_mean_distance(theta: float) -> float:
    """A bound of sum_k p_k |x - e_k|, for theta >= 4; 0.5183 is attained at 4, r = 1/2.

    On both sides it is r + (sum_i i q_i + c sum_i (1 - 2r + i) q'_i) / (sum_i q_i + c sum_i q'_i),
    q and q' the weights of `_Sides` and c their ratio. An anchor that is missing beyond an end is
    at least 1 away, further than the mean: without it the mean is less. If x is outside all
    anchors there is one side, r + sum_i i q_i / sum_i q_i. QED
    """
    sides, i = _Sides.of(theta), np.arange(_ROW)
    (start, end), (low, high) = sides.ends, sides.ratio
    across = (1.0 - 2.0 * start)[:, None] + i
    top = sides.near[1] @ i + high * (sides.far[1] * across).sum(axis=1)
    both = top / (sides.near[0].sum(axis=1) + low * sides.far[0].sum(axis=1))
    one = (sides.near[1] @ i) / sides.near[0].sum(axis=1)
    return float(inflate((end + np.maximum(both, one)).max(), _ROUNDINGS))


@lru_cache(maxsize=64)
def closest_mean_difference(theta: float) -> float:
    """A bound of sum_jk p_j p_k |e_j - e_k|: 2 P (1 - P) for each gap between neighbours, P the
    weight of one side, which grows with the odds of the lighter side; 1/2 for two that tie."""
    return _over_gaps(theta, lambda odds: 2.0 * odds / (1.0 + odds) ** 2)


def furthest_move(theta: float, off: float) -> float:
    """How far sum_k p_k v_k moves, |v_j - v_k| <= |e_j - e_k|, if logits are off by at most `off`.

    Let them move by t d_k, |d_k| <= d, t from 0 to 1. The derivative sum_k p_k d_k (v_k - m) is at
    most d times the mean difference of two values drawn by weight, that is 2 P (1 - P) for each gap
    between neighbours. By then the log odds l <= 0 of the gap's lighter side have moved by at most
    2 t d, and P (1 - P) is at most what it is at min(l + 2 t d, 0). As 2 d P (1 - P) is the
    derivative of sigmoid(l + 2 t d), the integral over t is

        sigmoid(l + 2 d) - sigmoid(l)            for l <= -2 d, and
        1/2 - sigmoid(l) + (l + 2 d)/4           for l >= -2 d,

    and rises with l, up to d/2 for two anchors that tie: equality for small d. On a grid of several
    dimensions the differences of values are sums of differences along the axes, and the odds of
    each axis move as these do. QED
    """
    grown, more = np.exp(2.0 * off), np.expm1(2.0 * off)

    def goes(odds: np.ndarray) -> np.ndarray:
        small = odds * more / ((1.0 + odds * grown) * (1.0 + odds))
        share = 0.5 * (1.0 - odds) / (1.0 + odds)
        late = 0.5 * off + share + 0.25 * np.log(np.maximum(odds, 1.0 / grown))
        return np.asarray(np.where(odds * grown <= 1.0, small, late))

    return _over_gaps(theta, goes)


def _over_gaps(theta: float, goes: Callable[[np.ndarray], np.ndarray]) -> float:
    """The largest sum over all gaps of something that rises with the odds of the lighter side.

    The gap next to x has odds of at most the ratio of the nearest times the sum of the far side.
    Beyond i anchors of a side there is the rest of that side, over at least those i and the nearest
    of the other side. Anchors that are missing beyond an end make these bounds no smaller than
    what is there; and where x is outside all anchors the other side is missing.
    """

    def beyond(side: tuple[np.ndarray, np.ndarray], other: np.ndarray) -> np.ndarray:
        rest = np.cumsum(side[1][:, ::-1], axis=1)[:, ::-1][:, 1:]
        odds = rest / (np.cumsum(side[0], axis=1)[:, :-1] + other[:, None])
        return np.asarray(goes(np.minimum(odds, 1.0)).sum(axis=1))

    sides = _Sides.of(theta)
    low, high = sides.ratio
    between = goes(np.minimum(high * sides.far[1].sum(axis=1), 1.0))
    inside = between + beyond(sides.near, low) + beyond(sides.far, 1.0 / high)
    outside = beyond(sides.near, np.zeros(_PIECES))
    return float(inflate(max(inside.max(), outside.max()), _ROUNDINGS))
