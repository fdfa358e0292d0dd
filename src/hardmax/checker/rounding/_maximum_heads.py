"""Heads that take a maximum: scores that are their values, up to a factor and a handicap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hardmax.checker.rounding._format import is_point
from hardmax.core import HeadGroup
from hardmax.numerics import (
    FLOAT64,
    Interval,
    inflate,
    is_power_of_two,
    softmax_gap,
    stray,
    sum_up,
)

PULL = 0.2238717  # the largest y p (1 - p), p = sigmoid(y): where y tanh(y/2) = 1
BEND = 0.4392289  # the largest y^2 p (1 - p): where y tanh(y/2) = 2
STEEPEST = 1.0998394  # the largest p + y p (1 - p): where y tanh(y/2) = 2, at ...
_STEEP_AT = 2.39935728  # ... this y (rounded down), or beyond by 1e-7
_CLOSE = 1.0  # logits: a handicap this small is a perturbation, a larger one has to lose
_SETTLED = 1e-18  # weights below count as leaks, not as contenders
_DOUBLING = 2.0**100  # powers of two up to here, and down to its inverse, times ...
_PLAIN = 2.0**600  # ... numbers up to here, and down to its inverse, leave no float64


class _Values(Protocol):
    """What tokens hold: heads x value width x seen."""

    @property
    def value(self) -> Interval: ...

    @property
    def off(self) -> np.ndarray:
        """How far that has strayed."""
        ...


@dataclass(frozen=True, eq=False)
class MaximumHeads:
    """logit_j = slope value_j + handicap_j + a term common to all j, for heads where it holds.

    Handicaps depend on exact coordinates only, so that a deviation of the stream moves none.
    """

    holds: np.ndarray  # heads
    slope: np.ndarray  # heads; 1 where it does not hold
    handicap: Interval  # heads x seen


def find_maximum_heads(
    group: HeadGroup,
    cold: np.ndarray,
    where: Interval,
    off: np.ndarray,
    t: int,
    seen: np.ndarray,
    query: Interval,
    key: Interval,
    values: _Values,
) -> MaximumHeads:
    """Recognise maxima among heads of key width and value width 1 that token t asks.

    Two shapes. *Asked by a constant:* the query is a constant, and the scores are a functional of
    the tokens. *Asked of constants:* two tokens are seen, keys are constants, the other token's
    value is a constant too, and the score difference is a functional of the asking token; that
    is a ReLU. Either functional must be a power of two times the value's weights, up to a rest on
    coordinates that no rounding touches. `query` and `key` are scores' factors without coldness.
    """
    heads, n = group.query.shape[0], len(seen)
    nothing = MaximumHeads(
        np.zeros(heads, dtype=bool), np.ones(heads), Interval.point(np.zeros((heads, n)))
    )
    if n < 2 or group.query.shape[1] != 1 or group.value.shape[1] != 1:
        return nothing
    constant = is_point(query[:, 0]) & _doubles(query.lo[:, 0])
    found = _asked_by_constant(group, where, off, seen, query.lo[:, 0])
    result = _merged(nothing, found, constant, cold)
    if n == 2 and t in seen:
        constants, found = _asked_of_constants(group, where, off, t, seen, key, values)
        result = _merged(result, found, constants & ~result.holds, cold)
    if group.position_bias is not None:
        bias = Interval.point(group.position_bias[:, t][:, seen] * 1.0)
        result = MaximumHeads(result.holds, result.slope, result.handicap + bias * cold[:, None])
    return result


def _merged(
    old: MaximumHeads,
    found: tuple[np.ndarray, np.ndarray, Interval],
    applies: np.ndarray,
    cold: np.ndarray,
) -> MaximumHeads:
    """`found` (in scores) where it applies, in logits; the old contest elsewhere."""
    fits, slope, handicap = found
    new = applies & fits
    if not new.any():
        return old
    handicap = handicap * Interval.point(cold[:, None])
    return MaximumHeads(
        old.holds | new,
        np.where(new, slope * cold, old.slope),
        Interval(
            np.where(new[:, None], handicap.lo, old.handicap.lo),
            np.where(new[:, None], handicap.hi, old.handicap.hi),
        ),
    )


def _asked_by_constant(
    group: HeadGroup, where: Interval, off: np.ndarray, seen: np.ndarray, asked: np.ndarray
) -> tuple[np.ndarray, np.ndarray, Interval]:
    here = where[:, seen]
    scored = np.where(_is_plain(group.key[:, 0]), asked[:, None] * group.key[:, 0], np.inf)
    free = np.any(~is_point(here), axis=1)
    touched = np.any(off[:, seen] > 0.0, axis=1)
    fits, slope, rest = _matched(scored, group.value[:, 0], free, touched)
    return fits, slope, rest @ here


def _asked_of_constants(
    group: HeadGroup,
    where: Interval,
    off: np.ndarray,
    t: int,
    seen: np.ndarray,
    key: Interval,
    values: _Values,
) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray, Interval]]:
    """score_t - score_o = (key_t - key_o) query . x_t = slope value_t + rest . x_t.

    So the other token's handicap is 0, and the asking one's is rest . x_t + slope value_o.
    """
    own, other = int(np.flatnonzero(seen == t)[0]), int(np.flatnonzero(seen != t)[0])
    keys = key[:, 0]
    first, second = keys.lo[:, own], keys.lo[:, other]
    ahead = first - second
    constant = is_point(keys).all(axis=1) & _doubles(ahead)
    constant &= (ahead + second == first) & (first - ahead == second)  # nothing was rounded
    there = where[:, seen[other]]
    reads = (group.value[:, 0] != 0.0).astype(float)
    held = values.value[:, 0, other]
    nothing = is_point(held) & (held.lo == 0.0) & (values.off[:, 0, other] == 0.0)
    constant &= (reads @ (~is_point(there)).astype(float) == 0.0) | nothing
    here = where[:, t]
    scored = np.where(_is_plain(group.query[:, 0]), ahead[:, None] * group.query[:, 0], np.inf)
    fits, slope, rest = _matched(scored, group.value[:, 0], ~is_point(here), off[:, t] > 0.0)
    value = (group.value[:, 0] @ there.reshape(-1, 1)) * Interval.point(slope[:, None])
    gone = nothing[:, None]
    value = Interval(np.where(gone, 0.0, value.lo), np.where(gone, 0.0, value.hi))
    lead = rest @ here.reshape(-1, 1) + value
    lo, hi = np.zeros((len(slope), 2)), np.zeros((len(slope), 2))
    lo[:, own], hi[:, own] = lead.lo[:, 0], lead.hi[:, 0]
    return constant, (fits, slope, Interval(lo, hi))


def _matched(
    scored: np.ndarray, valued: np.ndarray, free: np.ndarray, touched: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(fits, slope, rest) with scored = slope valued + rest, all of it exact in float64.

    The slope is a power of two, read where the value's weight is largest; and a difference is
    exact where one side is 0 or both are equal. The rest must avoid touched coordinates.
    """
    rows = np.arange(len(valued))
    at = np.where(free, np.abs(valued), 0.0).argmax(axis=1)
    divisor = valued[rows, at]
    usable = free[at] & (divisor != 0.0)
    slope = np.where(usable, scored[rows, at] / np.where(usable, divisor, 1.0), 0.0)
    fits = (slope > 0.0) & _doubles(slope) & (_is_plain(scored) & _is_plain(valued)).all(axis=1)
    slope = np.where(fits, slope, 1.0)
    scored = np.where(fits[:, None], scored, 0.0)
    product = slope[:, None] * valued
    rest = scored - product
    exact = (rest == 0.0) | (scored == 0.0) | (product == 0.0)
    fits &= exact.all(axis=1) & ~((rest != 0.0) & touched).any(axis=1)
    return fits, slope, np.where(fits[:, None], rest, 0.0)


def _doubles(factor: np.ndarray) -> np.ndarray:
    """Powers of two by which plain numbers are multiplied exactly."""
    size = np.abs(factor)
    return is_power_of_two(factor) & (size >= 1.0 / _DOUBLING) & (size <= _DOUBLING)


def _is_plain(numbers: np.ndarray) -> np.ndarray:
    """0, or far from the ends of float64."""
    size = np.abs(numbers)
    return np.asarray((size == 0.0) | ((size >= 1.0 / _PLAIN) & (size <= _PLAIN)))


def steepness(lead: Interval) -> Interval:
    """p + y p (1 - p) with p = sigmoid(y), for y in `lead`: the slope of y sigmoid(y).

    Its derivative p (1 - p) (2 - y tanh(y/2)) changes sign at +-2.399...: it falls to -0.0998...
    there, rises to 1.0998..., and falls to 1. So the extremes are at the ends or at these two.
    Computed it takes e, p and q, 2 and 3 roundings more, and is at most 2 in absolute values.
    """

    def slope(y: np.ndarray) -> np.ndarray:
        e = np.exp(-np.abs(y))
        p, q = np.where(y >= 0, 1.0, e) / (1.0 + e), np.where(y >= 0, e, 1.0) / (1.0 + e)
        return np.asarray(p + np.clip(y, -700.0, 700.0) * p * q)

    with np.errstate(under="ignore"):
        ends = np.stack([slope(lead.lo), slope(lead.hi)])
    highest = (lead.lo <= _STEEP_AT + 1e-7) & (lead.hi >= _STEEP_AT)
    lowest = (lead.lo <= -_STEEP_AT) & (lead.hi >= -_STEEP_AT - 1e-7)
    away = stray(3 * FLOAT64.exp_units + 8, 2.0)
    hi = np.where(highest, STEEPEST, ends.max(axis=0) + away)
    lo = np.where(lowest, 1.0 - STEEPEST, ends.min(axis=0) - away)
    return Interval(lo, hi)


@dataclass(frozen=True, eq=False)
class NearMaximum:
    """How a contest can differ from a maximum over its contenders, heads first."""

    contender: np.ndarray  # heads x seen
    leak: np.ndarray  # the weight of all others
    distance: np.ndarray  # slope * E|V - m|
    shortfall: np.ndarray  # max V - m over contenders


def near_maximum(
    maximum: MaximumHeads, weights: Interval, spread: np.ndarray, hard: np.ndarray
) -> NearMaximum:
    """Bounds for m = sum_j p_j V_j, p = softmax(slope V + handicap), from its sharp constants.

    dm = sum_j p_j (1 + slope (V_j - m)) dV_j: the distance slope E|V - m| is by how much more
    than 1 the mean can move when all values, and the logits with them, move by 1.

    Two tokens with leads y = slope (V_1 - V_0) + r: slope E|V - m| = 2 p (1 - p) |y - r|, and
    y p (1 - p) <= 0.2239 while p (1 - p) <= 1/4. More tokens: contenders' handicaps lie within d
    of a centre; W_j = V_j + handicap/slope has its own softmax, so 0 <= max W - E W <= c_n/slope,
    the parts of W_j - E W above and below 0 balance, hence slope E|W - E W| <= 2 c_n; V_j and W_j
    differ by d/slope, and so do their means. All others leak: they hold at most `leak` of the
    weight, which moves the mean and enters the mean distance by that much of the spread each.
    A hard maximum is the limit c_n = 0, and its derivatives are its weights.
    """
    n = weights.shape[1]
    top = maximum.handicap.hi.max(axis=1, keepdims=True)
    contender = (maximum.handicap.lo >= top - _CLOSE) & (weights.hi > _SETTLED)
    count = np.maximum(contender.sum(axis=1), 1)
    lowest = np.where(contender, maximum.handicap.lo, top).min(axis=1)
    blur = top[:, 0] - lowest
    leak = np.asarray(sum_up(np.where(contender, 0.0, weights.hi), 1))
    sizes, which = np.unique(count, return_inverse=True)
    gaps = np.where(hard, 0.0, np.array([softmax_gap(int(k)) for k in sizes])[which])
    distance = 2.0 * gaps + blur + 2.0 * maximum.slope * leak * spread
    if n == 2:
        apart = maximum.handicap[:, 1] - maximum.handicap[:, 0]
        distance = np.minimum(distance, 2.0 * PULL + 0.5 * apart.magnitude)
    shortfall = np.asarray(inflate((gaps + blur) / maximum.slope, 3))
    return NearMaximum(contender, leak, np.where(hard, 0.0, inflate(distance, 6)), shortfall)
