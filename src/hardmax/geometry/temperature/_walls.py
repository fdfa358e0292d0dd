"""How far a query is from the nearest wall of its cell."""

from __future__ import annotations

import numpy as np

from hardmax.geometry.temperature._cloud import Cloud
from hardmax.numerics import FLOAT64, down


def nearest_walls(
    keys: Cloud,
    given: np.ndarray,
    squares: np.ndarray,
    leads: np.ndarray,
    winner: np.ndarray,
    error: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The least lead over |k_i - k_j|, in units of query times scale, and the j behind that wall.

    Theorem. Let i win at the query q, f_j(q') = s_i(q') - s_j(q'), and let t be the minimum of
    f_j(q)/|grad f_j| over the visible j with k_j != k_i, where |grad f_j| = scale |k_i - k_j|.
    Then t is the distance of q to the boundary of the cell of i.

    Proof. Each f_j is affine, so |f_j(q') - f_j(q)| <= |grad f_j| |q' - q|: in the open ball of
    radius t about q every such f_j stays positive, and those with k_j = k_i do not change. So i
    wins in the whole ball. Let j give the minimum. The foot q' of q on {f_j = 0} is at distance
    t, where by the same estimate all f are still >= 0: there i and j both are maximal, and
    beyond it i loses. So the nearest hyperplane of all is a true wall: a redundant one, which
    touches the cell nowhere, is never the nearest. (A repeated key ties everywhere or nowhere.)

    Walls do not depend on the scale when there is no bias; with one they do, for the scale moves
    the keys' share of the scores and not the bias. If no key differs, there is no wall: infinity,
    and the neighbour is -1.

    Rounding: `error` is taken off every lead and the distances of keys are rounded up, so no
    query nearer than this has another winner. The loss is relative 2^13 gamma_{width+6} at most,
    and error/|k_i - k_j|. `squares`, the squared distances of all keys to the winner's, are made
    sharper on the way. Leads are infinite at the winner itself and where a key is hidden.
    """
    if given.shape[2] == 0:
        return np.full(winner.shape, np.inf), np.full(winner.shape, -1)
    np.put_along_axis(squares, winner[:, :, None], np.inf, axis=2)
    keys.separate(squares, winner, given)
    ratio = leads - error[:, :, None]
    np.maximum(ratio, 0.0, out=ratio)
    behind_a_wall = np.isfinite(ratio)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio /= np.sqrt(squares)
    np.minimum(ratio, FLOAT64.largest, out=ratio, where=behind_a_wall)  # far, yet not nowhere
    np.copyto(ratio, np.inf, where=squares == 0.0)
    np.put_along_axis(ratio, winner[:, :, None], np.inf, axis=2)
    neighbour = ratio.argmin(axis=2)
    least = np.take_along_axis(ratio, neighbour[:, :, None], axis=2)[:, :, 0]
    finite = np.isfinite(least)
    with np.errstate(over="ignore", under="ignore"):
        below = down(down(down(least)))  # a difference, a root and a quotient
        wall = np.maximum(down(np.ldexp(below, -keys.exponent[:, None])), 0.0)
    return np.where(finite, wall, least), np.where(finite, neighbour, -1)
