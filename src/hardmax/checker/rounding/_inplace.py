"""Coordinates that units or heads write after reading them: both effects are taken together.

Interval arithmetic adds the ranges of x and of what is added as if they were unrelated. Two cases
where they are not: a maximum taken in place, and a coordinate scaled or cleared in place.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hardmax.checker.rounding._head import Answer
from hardmax.checker.rounding._logits import Asked, Heads
from hardmax.core import FeedForward
from hardmax.numerics import (
    Interval,
    inflate,
    is_power_of_two,
    matmul_up,
    product_up,
    stray,
    sum_up,
    up,
)


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


@dataclass(frozen=True, eq=False)
class Mixing:
    """What one token got from one group of heads."""

    columns: slice  # of this group in the layer's output matrix
    t: int
    seen: np.ndarray
    heads: Heads
    asked: Asked
    answer: Answer

    @cached_property
    def stop(self) -> np.ndarray:
        """Where the forward pass knows more of what comes from values and keys.

        It counts the largest of the tokens' deviations, where derivatives add them all up.
        """
        derivatives, asked = self.answer.derivatives, self.asked
        summed = (derivatives.by_values.magnitude * asked.values.off).sum(axis=2)
        summed = summed + (derivatives.by_logits.magnitude * asked.key_off[:, None]).sum(axis=2)
        return np.asarray(self.answer.errors.off_seen < 0.7 * summed)


class Written:
    """What is known of the sums that a sublayer leaves behind, width x tokens; it can only grow.

    `value` is where they are, `off` how far they have strayed before they are rounded.
    """

    def __init__(self, value: Interval, off: np.ndarray) -> None:
        self.value, self.off = value, off

    def narrow(self, column: int, rows: np.ndarray, found: Interval) -> None:
        lo, hi = self.value.lo.copy(), self.value.hi.copy()
        both = self.value[rows, column].meet(found)
        lo[rows, column], hi[rows, column] = both.lo, both.hi
        self.value = Interval(lo, hi)

    def settle(self, column: int, rows: np.ndarray, off: np.ndarray) -> None:
        self.off[rows, column] = np.minimum(self.off[rows, column], off)


def sharpen_units(
    written: Written,
    column: int,
    layer: FeedForward,
    x: Interval,
    off: np.ndarray,
    slopes: Interval,
    error: np.ndarray,
) -> None:
    """Rows that units write after reading them; rows that one unit writes are maxima in place."""
    outer = np.where(slopes.hi > 0.0, layer.outer, 0.0)
    own = np.where(layer.inner.T != 0.0, outer, 0.0)
    rows = np.flatnonzero(own.any(axis=1))
    if rows.size:
        hidden = (layer.inner @ x.reshape(-1, 1))[:, 0] + layer.inner_bias
        others = outer[rows] - own[rows]
        rest = (others @ hidden.maximum(0.0).reshape(-1, 1))[:, 0] + layer.outer_bias[rows]
        found = scaled(x, rows, own[rows], slopes, layer.inner, layer.inner_bias, rest)
        local = matmul_up(np.abs(outer[rows]), error)
        written.narrow(column, rows, found.widened(local))
    single = ((outer != 0.0).sum(axis=1) == 1) & (layer.outer_bias == 0.0)
    rows = np.flatnonzero(single)
    if rows.size:
        unit = np.abs(outer[rows]).argmax(axis=1)
        weight, read = outer[rows, unit], layer.inner[unit]
        local = product_up(np.abs(weight), error[unit])
        constant = Interval.point(layer.inner_bias[unit])
        found = kinked(x, rows, weight, read, constant)
        written.narrow(column, rows, found.widened(local))
        moved = kinked_off(off, rows, weight, read, slopes[unit], np.zeros(len(rows)))
        written.settle(column, rows, inflate(moved + local, 1))


def sharpen_heads(
    written: Written,
    column: int,
    output: np.ndarray,
    x: Interval,
    off: np.ndarray,
    mean: Interval,
    local: np.ndarray,
    mixings: list[Mixing],
) -> None:
    """Rows that heads write after reading them; rows that one ReLU head writes are maxima.

    What a head takes from the asking token itself is its weight there times the value's row; the
    rest comes from other tokens.
    """
    read = np.concatenate([m.heads.read_values for m in mixings])
    own = np.where(read.T != 0.0, output, 0.0)
    rows = np.flatnonzero(own.any(axis=1))
    if rows.size:
        share, others = _own_and_others(mixings)
        rest = (own[rows] @ others.reshape(-1, 1))[:, 0]
        rest = rest + ((output[rows] - own[rows]) @ mean.reshape(-1, 1))[:, 0]
        found = scaled(x, rows, own[rows], share, read, np.zeros(len(read)), rest)
        written.narrow(column, rows, found.widened(matmul_up(np.abs(output[rows]), local)))
        if all(moves_with_values_alone(mixing) for mixing in mixings):
            carried = _carried(rows, output, off, mixings)
            rounded = matmul_up(np.abs(output[rows]), local[:, None])[:, 0]
            written.settle(column, rows, inflate(carried + rounded, 1))
    live = np.where(mean.magnitude > 0.0, output, 0.0)
    rows = np.flatnonzero((live != 0.0).sum(axis=1) == 1)
    for mixing in mixings if rows.size else ():
        _maxima(written, column, mixing, rows, live, x, off, local)


def moves_with_values_alone(mixing: Mixing) -> bool:
    """What logits do besides is nothing, or nothing moves them; and no head may jump."""
    derivatives, asked = mixing.answer.derivatives, mixing.asked
    by_keys = asked.keys.off.any() and derivatives.by_logits.magnitude.any()
    by_query = asked.query.off.any() and derivatives.by_query.magnitude.any()
    return not (by_keys or by_query or mixing.answer.errors.jump.any())


def _carried(
    rows: np.ndarray, output: np.ndarray, off: np.ndarray, mixings: list[Mixing]
) -> np.ndarray:
    """How far x + O (s V x + rest) strays in some rows, the weights of each x added up before.

    Slopes s lie within a radius of a centre; what is cleared strays with the radius alone.
    """
    read = np.concatenate([m.heads.read_values for m in mixings])
    slopes = _joined([_slopes_of_own(m) for m in mixings])
    centre = np.round(2.0 * slopes.middle) / 2.0
    radius = up(np.maximum(slopes.hi - centre, centre - slopes.lo))
    others = [_moved_elsewhere(m) for m in mixings]
    written = output[rows]
    joint = (written * centre) @ read
    size = (np.abs(written) * np.abs(centre)) @ np.abs(read)
    joint[np.arange(len(rows)), rows] += 1.0
    size[np.arange(len(rows)), rows] += 1.0
    # 1 or a half times powers of two, one of them in each entry: a difference to 1 is exact
    single = (written != 0.0).astype(float) @ (read != 0.0) <= 1.0
    plain = (is_power_of_two(written) | (written == 0.0)).all(axis=1)
    exact = single & plain[:, None] & (is_power_of_two(read) | (read == 0.0)).all(axis=0)
    exact &= size <= 2.0**20
    strayed = np.where(exact, stray(1, np.abs(joint)), stray(len(read) + 3, size))
    weights = up(np.abs(joint) + strayed + (np.abs(written) * radius) @ np.abs(read))
    elsewhere = matmul_up(np.abs(output[rows]), np.concatenate(others)[:, None])
    return np.asarray(inflate(matmul_up(weights, off[:, None]) + elsewhere, len(read) + 4)[:, 0])


def _slopes_of_own(m: Mixing) -> Interval:
    own = int(np.flatnonzero(m.seen == m.t)[0])
    found = m.answer.derivatives.by_values[:, :, own]
    return found.reshape(-1)


def _moved_elsewhere(m: Mixing) -> np.ndarray:
    """What the other tokens' values move each mean by."""
    slopes = m.answer.derivatives.by_values.magnitude
    parts = product_up(slopes, m.asked.values.off)[:, :, m.seen != m.t]
    return np.asarray(sum_up(parts, 2)).ravel()


def _own_and_others(mixings: list[Mixing]) -> tuple[Interval, Interval]:
    """Each head's weight on the asking token, and what it takes from the other tokens."""
    shares, others = [], []
    for m in mixings:
        value, own = m.asked.values.value, m.seen == m.t
        weights = m.answer.weights.reshape(-1, 1, len(m.seen)) + np.zeros(value.shape)
        parts = weights * value
        elsewhere = Interval(np.where(own, 0.0, parts.lo), np.where(own, 0.0, parts.hi))
        others.append(elsewhere.sum(2).reshape(-1))
        shares.append(weights[:, :, int(np.flatnonzero(own)[0])].reshape(-1))
    return _joined(shares), _joined(others)


def _joined(parts: list[Interval]) -> Interval:
    return Interval(np.concatenate([p.lo for p in parts]), np.concatenate([p.hi for p in parts]))


def _maxima(
    written: Written,
    column: int,
    mixing: Mixing,
    rows: np.ndarray,
    output: np.ndarray,
    x: Interval,
    off: np.ndarray,
    local: np.ndarray,
) -> None:
    """x + w max(v, c) = (x + w c) + w max(v - c, 0), where one head over two tokens writes."""
    found = mixing.answer
    head = np.abs(output[rows]).argmax(axis=1) - mixing.columns.start
    mine = (head >= 0) & (head < mixing.columns.stop - mixing.columns.start)
    mine[mine] = np.isfinite(found.from_maximum.below.ravel())[head[mine]]
    if not mine.any():
        return
    rows, head = rows[mine], head[mine]
    weight = output[rows, head + mixing.columns.start]
    rounded = product_up(np.abs(weight), local[head + mixing.columns.start])
    own, elsewhere = int(np.flatnonzero(mixing.seen == mixing.t)[0]), mixing.seen != mixing.t
    values = mixing.asked.values[head, 0]
    other = values[:, int(np.flatnonzero(elsewhere)[0])]
    read = mixing.heads.read_values[head]
    factor = Interval.point(weight)
    value = kinked(x, rows, weight, read, -other.value) + other.value * factor
    near = found.from_maximum
    short = factor * Interval(-near.below[head, 0], near.beyond[head, 0])
    written.narrow(column, rows, (value + short).widened(rounded))
    slopes = found.derivatives.by_values[head, 0, own]
    moved = kinked_off(off, rows, weight, read, slopes, product_up(np.abs(weight), other.off))
    jump = product_up(np.abs(weight), found.errors.jump[head, 0])
    written.settle(column, rows, inflate(moved + jump + rounded, 2))
