"""Where a coordinate can be after something was added to it that was read from it.

Interval arithmetic adds the ranges of x and of what is added as if they were unrelated. Two cases
where they are not: a maximum taken in place, and a coordinate scaled or cleared in place.
"""

from __future__ import annotations

import numpy as np

from hardmax.numerics import Interval, inflate, matmul_up, stray


def kinked(
    x: Interval, rows: np.ndarray, weights: np.ndarray, read: np.ndarray, constant: Interval
) -> Interval:
    """The range of x[row] + w max(z, 0) with z = read . x + constant, one entry for each row.

    On z >= 0 it is x[row] + w z, which is at most x[row] + c z for every c >= w and at least that
    for c <= w. On z <= 0 it is x[row], at most x[row] + c z for every c <= 0 and at least that
    for c >= 0. All of these are linear in x. Besides c = w and c = 0 the c is tried that removes
    x[row] from the sum: if z depends on nothing else, that is the value at the kink.
    """
    own = read[np.arange(len(rows)), rows]
    with np.errstate(over="ignore"):
        removing = np.where(own == 0.0, 0.0, -1.0 / np.where(own == 0.0, 1.0, own))
    removing = np.where(np.isfinite(removing), removing, 0.0)
    on = _line(x, rows, weights, read, constant)
    off = x[rows]
    kink = _line(x, rows, removing, read, constant)
    usable = own != 0.0
    lo, hi = (
        np.where(usable & (removing <= weights), np.maximum(on.lo, kink.lo), on.lo),
        np.where(usable & (removing >= weights), np.minimum(on.hi, kink.hi), on.hi),
    )
    off_lo = np.where(usable & (removing >= 0.0), np.maximum(off.lo, kink.lo), off.lo)
    off_hi = np.where(usable & (removing <= 0.0), np.minimum(off.hi, kink.hi), off.hi)
    z = (read @ x.reshape(-1, 1))[:, 0] + constant
    lo, hi = np.where(z.hi < 0.0, off_lo, lo), np.where(z.hi < 0.0, off_hi, hi)
    off_lo, off_hi = np.where(z.lo > 0.0, lo, off_lo), np.where(z.lo > 0.0, hi, off_hi)
    return Interval(np.minimum(lo, off_lo), np.maximum(hi, off_hi))


def kinked_off(
    off: np.ndarray,
    rows: np.ndarray,
    weights: np.ndarray,
    read: np.ndarray,
    slopes: Interval,
    other: np.ndarray,
) -> np.ndarray:
    """How far x[row] + w m strays where m has the slope s by v = read . x, and 1 - s by c.

    It moves by s (dx + w dv) + (1 - s)(dx + w dc), with w dc at most `other`. Each of the two is
    one combination of the stream's deviations, and |s| a + |1 - s| b is largest at an end of s.
    """
    joint, strayed = _joint(rows, weights, read)
    together = matmul_up(np.abs(joint) + strayed, off[:, None])[:, 0]
    apart = off[rows] + other
    ends = [np.abs(s) * together + np.abs(1.0 - s) * apart for s in (slopes.lo, slopes.hi)]
    return np.asarray(inflate(np.maximum(*ends), 6))


def _joint(rows: np.ndarray, factor: np.ndarray, read: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The weights of x in x[row] + factor read . x, and by how much two roundings move them."""
    joint = factor[:, None] * read
    size = np.abs(joint)
    joint[np.arange(len(rows)), rows] += 1.0
    size[np.arange(len(rows)), rows] += 1.0
    return joint, stray(2, size)


def _line(
    x: Interval, rows: np.ndarray, factor: np.ndarray, read: np.ndarray, constant: Interval
) -> Interval:
    """x[row] + factor (read . x + constant), the weights of each x added up before."""
    weights, strayed = _joint(rows, factor, read)
    column = x.reshape(-1, 1)
    total = (weights @ column)[:, 0] + constant * Interval.point(factor)
    return total.widened(matmul_up(strayed, column.magnitude)[:, 0])


def scaled(
    x: Interval,
    rows: np.ndarray,
    output: np.ndarray,
    slopes: Interval,
    read: np.ndarray,
    constant: np.ndarray,
    rest: Interval,
) -> Interval:
    """The range of x[row] + sum_h output[row, h] s_h (read_h . x + constant_h) + rest[row].

    With every s_h in its interval: the factor of each x is added up before it meets the range of
    x. `output` has one line for each row.
    """
    written = slopes.reshape(1, -1) * output
    factors = read.T @ Interval(written.lo.T, written.hi.T)
    one = np.zeros(factors.shape)
    one[rows, np.arange(len(rows))] = 1.0
    parts = (factors + one) * x.reshape(-1, 1)
    constants = written * constant
    return parts.sum(0) + constants.sum(1) + rest
