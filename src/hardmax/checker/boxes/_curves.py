"""Enclosures of a function of one variable and of its first two derivatives on intervals."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from hardmax.numerics import (
    Interval,
    Pair,
    cos,
    exp,
    log,
    pair_between,
    pair_of_values,
    pair_product,
    power,
    reciprocal,
    sin,
    sqrt,
    tan,
    tanh,
)

Derivatives = tuple[Pair, Pair, Pair]


def sigmoid_curve(low: np.ndarray, high: np.ndarray) -> Derivatives:
    """The sigmoid s, s' = s (1 - s) and s'' = -s' tanh(x/2) on [low, high].

    s and tanh are monotone and s' decreases in |x|. With e = exp(-|x|), s is 1/(1 + e) or
    e/(1 + e) and s' = e/(1 + e)^2: a relative error of e passes on with factor at most 1, and
    four more roundings follow at most (that of 1 + e counts twice).
    """
    with np.errstate(under="ignore", invalid="ignore", over="ignore"):
        bottom, top = np.exp(-np.abs(low)), np.exp(-np.abs(high))
        s_low = np.where(low >= 0.0, 1.0, bottom) / (1.0 + bottom)
        s_high = np.where(high >= 0.0, 1.0, top) / (1.0 + top)
        ends = bottom / (1.0 + bottom) ** 2, top / (1.0 + top) ** 2
        inside = (low <= 0.0) & (high >= 0.0)
        first = pair_of_values(np.minimum(*ends), np.where(inside, 0.25, np.maximum(*ends)))
        turn = pair_of_values(np.tanh(-0.5 * high), np.tanh(-0.5 * low))
        return pair_of_values(s_low, s_high), first, pair_product(first, turn)


def rectifier_curve(low: np.ndarray, high: np.ndarray) -> Derivatives:
    """max(x, 0): slope 0, 1, or anything between where x changes sign; no curvature there."""
    value = pair_between(np.maximum(low, 0.0), np.maximum(high, 0.0))
    off, on = high <= 0.0, low >= 0.0
    bends = ~(off | on)  # undefined ends bend, too
    slope = np.where(on & ~off, 1.0, np.where(off, 0.0, 0.5)), np.where(bends, 0.5, 0.0)
    return value, slope, (np.zeros_like(low), np.where(bends, np.inf, 0.0))


def named_curve(
    name: str, exponent: float | Fraction, low: np.ndarray, high: np.ndarray
) -> Derivatives:
    """One of the functions that a target's step may apply; the argument's ends may be undefined."""
    if name == "sigmoid":
        return sigmoid_curve(low, high)
    unknown = ~(low <= high)
    x = Interval(np.where(unknown, -np.inf, low), np.where(unknown, np.inf, high))
    value, first, second = _DERIVATIVES[name](x, exponent)
    return _pair(value), _pair(first), _pair(second)


def _exp(x: Interval, _: object) -> tuple[Interval, Interval, Interval]:
    y = exp(x)
    return y, y, y


def _log(x: Interval, _: object) -> tuple[Interval, Interval, Interval]:
    inverse = _where(x.lo > 0.0, reciprocal(x))
    return log(x), inverse, _where(x.lo > 0.0, -power(inverse, 2))


def _sqrt(x: Interval, _: object) -> tuple[Interval, Interval, Interval]:
    inside = x.lo > 0.0
    inverse = _where(inside, reciprocal(sqrt(x)))
    return sqrt(x), inverse * 0.5, _where(inside, power(inverse, 3) * -0.25)


def _sin(x: Interval, _: object) -> tuple[Interval, Interval, Interval]:
    y = sin(x)
    return y, cos(x), -y


def _cos(x: Interval, _: object) -> tuple[Interval, Interval, Interval]:
    y = cos(x)
    return y, -sin(x), -y


def _tan(x: Interval, _: object) -> tuple[Interval, Interval, Interval]:
    y = tan(x)
    first = power(y, 2) + 1.0
    return y, first, y * first * 2.0


def _tanh(x: Interval, _: object) -> tuple[Interval, Interval, Interval]:
    """1 - t^2 is written as (1 - t)(1 + t), which keeps its sign."""
    y = tanh(x)
    first = (1.0 - y) * (1.0 + y)
    return y, first, y * first * -2.0


def _reciprocal(x: Interval, _: object) -> tuple[Interval, Interval, Interval]:
    y = reciprocal(x)
    return y, -power(y, 2), power(y, 3) * 2.0


def _power(x: Interval, exponent: float | Fraction) -> tuple[Interval, Interval, Interval]:
    """p x^(p-1) and p (p-1) x^(p-2); for fractional p only where x > 0."""
    p = Fraction(exponent)
    value = power(x, p)
    first = power(x, p - 1) * Interval.point(p)
    second = power(x, p - 2) * Interval.point(p * (p - 1))
    if p.denominator == 1:
        return value, first, second
    return value, _where(x.lo > 0.0, first), _where(x.lo > 0.0, second)


_DERIVATIVES = {
    "exp": _exp,
    "log": _log,
    "sqrt": _sqrt,
    "sin": _sin,
    "cos": _cos,
    "tan": _tan,
    "tanh": _tanh,
    "reciprocal": _reciprocal,
    "power": _power,
}


def _where(known: np.ndarray, y: Interval) -> Interval:
    return Interval(np.where(known, y.lo, -np.inf), np.where(known, y.hi, np.inf))


def _pair(y: Interval) -> Pair:
    with np.errstate(invalid="ignore", over="ignore"):
        return pair_between(y.lo, y.hi)
