"""Bounds of |answer| on a batch of boxes, from the tape's jets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardmax.checker.boxes._tape import CHUNK, NEIGHBOURS, Tape, Twin
from hardmax.numerics import FEW, pair_radius


@dataclass(frozen=True, eq=False)
class Enclosure:
    """For each box: |answer| is at most `most` on it, and at least `least` at `point`."""

    most: np.ndarray
    least: np.ndarray
    point: np.ndarray  # variables x boxes
    split: np.ndarray  # along which variable to halve the box

    def __getitem__(self, order: np.ndarray) -> Enclosure:
        return Enclosure(
            self.most[order], self.least[order], self.point[:, order], self.split[order]
        )


def enclose(tape: Tape, low: np.ndarray, high: np.ndarray) -> Enclosure:
    """All boxes (variables x boxes), in chunks; of neighbours, where tokens are picked by place."""
    if tape.looks_nearby and low.shape[1] > NEIGHBOURS:
        order = np.lexsort(low)
        seen = _in_chunks(tape, low[:, order], high[:, order], NEIGHBOURS)
        return seen[np.argsort(order)]
    return _in_chunks(tape, low, high, CHUNK)


def _in_chunks(tape: Tape, low: np.ndarray, high: np.ndarray, size: int) -> Enclosure:
    parts = []
    for start in range(0, low.shape[1], size):
        part = slice(start, start + size)
        parts.append(_chunk(tape, low[:, part], high[:, part]))
    return joined(parts)


def joined(parts: list[Enclosure]) -> Enclosure:
    """Several batches as one."""
    return Enclosure(
        np.concatenate([p.most for p in parts]),
        np.concatenate([p.least for p in parts]),
        np.concatenate([p.point for p in parts], axis=1),
        np.concatenate([p.split for p in parts]),
    )


def _chunk(tape: Tape, low: np.ndarray, high: np.ndarray) -> Enclosure:
    twin, reach = tape.on(low, high)
    with np.errstate(all="ignore"):
        most = upper_bound(twin, reach)
        centre = twin.centre
        least = np.maximum(np.abs(centre.mid[0]) * (2.0 - FEW) - centre.rad[0], 0.0)
        split = _widest(twin, reach)
    return Enclosure(
        np.where(np.isnan(most), np.inf, most),
        np.where(np.isfinite(least), least, 0.0),
        0.5 * low + 0.5 * high,
        split,
    )


def upper_bound(twin: Twin, reach: np.ndarray) -> np.ndarray:
    """The smallest of three bounds: the value's range, the slopes', the second-order form's.

    Second order, for the upper side: f(c) + sum_i sup_h (g_i h + H_ii h^2 / 2) + sum_{i<j}
    |H_ij| r_i r_j with |h| <= r_i. With G = max |g_i| and H the upper end of H_ii the supremum is
    G r + H r^2 / 2, unless the parabola turns before the edge, at G/(-H) < r: then G^2/(-2 H).
    The lower side is the same for -f.

    Where H < 0 the parabola has not turned, |H| r <= G, so that all terms together are at most the
    bound and twice the size |f(c)| + sum_i G_i r_i; each passes through a sum of an end, three
    products, and the sums.
    """
    centre, box = twin.centre, twin.box
    value = np.abs(box.mid[0]) + box.rad[0]
    slopes = box.slopes
    first = ((np.abs(slopes[0]) + slopes[1]) * reach).sum(axis=0)
    by_slope = np.abs(centre.mid[0]) + first
    steep = np.abs(centre.slopes[0]) + centre.slopes[1]
    turns = box.curvatures
    i, j = box.shape.pairs
    own = i == j
    off = ((np.abs(turns[0]) + turns[1])[~own] * (reach[i] * reach[j])[~own]).sum(axis=0)
    sides = []
    for sign in (1.0, -1.0):
        bend = sign * turns[0][own] + turns[1][own]
        sides.append(sign * centre.mid[0] + _parabola(steep, bend, reach).sum(axis=0) + off)
    second = np.maximum(*sides)
    size = np.abs(centre.mid[0]) + (steep * reach).sum(axis=0)
    size = np.where(np.isfinite(size), size, 0.0)  # no slope is known, so none was used
    bound = np.fmin(np.fmin(value, by_slope + centre.rad[0]), second + centre.rad[0])
    return np.asarray(pair_radius(bound, np.abs(bound) + 2.0 * size, len(i) + len(reach) + 8))


def _parabola(steep: np.ndarray, bend: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """sup over |h| <= reach of steep |h| + bend h^2 / 2."""
    edge = steep * reach + 0.5 * bend * reach**2
    turning = bend * reach < -steep
    inside = 0.5 * steep**2 / np.where(turning, -bend, 1.0)
    return np.where(turning, inside, edge)


def _widest(twin: Twin, reach: np.ndarray) -> np.ndarray:
    """The variable whose slope is least certain, times how far the box reaches along it.

    Where some slope is not known at all the longest side is halved.
    """
    slopes = twin.box.slopes
    score = (slopes[1] + 1e-9 * np.abs(slopes[0])) * reach
    lost = ~np.isfinite(score).all(axis=0)
    score[:, lost] = reach[:, lost]
    return np.asarray(score.argmax(axis=0))
