"""A root that is defined everywhere, for compilers; nobody writes it.

sqrt(softplus(x)) is sqrt(x) for large x and steep at most where sqrt is infinitely steep. Its slope
is a function of its own: written as a quotient, its enclosure on an interval that reaches far below
0 would be that of e^0 over e^-x.
"""

from __future__ import annotations

import numpy as np

from hardmax.numerics import _elementary as elementary
from hardmax.numerics._interval import Interval
from hardmax.numerics.functions._record import (
    Calculus,
    FunctionRecord,
    Value,
    curve_of,
    known_at,
)
from hardmax.numerics.functions._shapes import monotone, valley
from hardmax.numerics.functions._sigmoidal import (
    softplus,
    softplus_of_ball,
    softplus_of_floats,
    softplus_of_series,
)

Triple = tuple[Interval, Interval, Interval]
_FAR = -40.0  # below, log(1 + e^x) is e^x up to a hundredth of an ulp
_ULPS = 24.0  # softplus is good to twelve, the sigmoid to seven, and a few more roundings
_STEEPEST_AT = 0.9214225086553602, 0.9214225086553605
_STEEPEST = 0.3190863431694758


def _soft_root_of_floats(x: np.ndarray) -> np.ndarray:
    return np.where(x < _FAR, np.exp(0.5 * x), np.sqrt(softplus_of_floats(np.maximum(x, _FAR))))


def _soft_root(x: Interval) -> Interval:
    return monotone(x, _soft_root_of_floats, exact_at=np.nan, ulps=_ULPS).maximum(0.0)


def _slope_of_floats(x: np.ndarray) -> np.ndarray:
    near = np.maximum(x, _FAR)
    quotient = elementary.sigmoid_of_floats(near) / (2.0 * np.sqrt(softplus_of_floats(near)))
    return np.where(x < _FAR, 0.5 * np.exp(0.5 * x), np.where(x == np.inf, 0.0, quotient))


def _slope(x: Interval) -> Interval:
    """Rises to its top, and falls."""
    upside_down = valley(
        x,
        lambda t: -_slope_of_floats(t),
        bottom_at=_STEEPEST_AT,
        bottom=-_STEEPEST,
        ulps=_ULPS,
    )
    return (-upside_down).maximum(0.0)


def _turn(x: Interval) -> tuple[Interval, Interval]:
    """k and k' with slope' = slope * k: k = s(-x) - s(x)/(2 p), p = softplus(x)."""
    open_, shut = elementary.sigmoid(x), elementary.sigmoid(-x)
    half = elementary.reciprocal(softplus(x) * 2.0)
    share = open_ * half
    return shut - share, share * share * 2.0 - open_ * shut * (half + 1.0)


def _soft_root_curve(x: Interval) -> Triple:
    first = _slope(x)
    return _soft_root(x), first, first * _turn(x)[0]


def _slope_curve(x: Interval) -> Triple:
    value, (turn, more) = _slope(x), _turn(x)
    return value, value * turn, value * (elementary.power(turn, 2) + more)


def _rule(c: Calculus[Value], u: Value, y: Value) -> Value:
    """y (s(-u) - s(u)/(2 softplus(u)))."""
    share = c.times(c.apply("sigmoid", u), c.reciprocal(c.apply("softplus", u), 2))
    shut = c.apply("sigmoid", c.times(c.number(-1), u))
    return c.times(y, c.plus(shut, c.times(c.number(-1), share)))


RECORDS = (
    FunctionRecord(
        name="soft_root",
        meaning="sqrt(log(1 + exp(x))), a root that is defined everywhere.",
        floats=_soft_root_of_floats,
        intervals=_soft_root,
        curve=curve_of(_soft_root_curve),
        balls=lambda u: softplus_of_ball(u).sqrt(),
        series=lambda u: softplus_of_series(u).sqrt(),
        slope=lambda c, u, y: c.apply("soft_root_slope", u),
        folds=known_at({}),
        is_word=False,
    ),
    FunctionRecord(
        name="soft_root_slope",
        meaning="The derivative of soft_root, sigmoid(x)/(2*soft_root(x)).",
        floats=_slope_of_floats,
        intervals=_slope,
        curve=curve_of(_slope_curve),
        balls=lambda u: 1 / (1 + (-u).exp()) / (2 * softplus_of_ball(u).sqrt()),
        series=lambda u: 1 / (1 + (-u).exp()) / (2 * softplus_of_series(u).sqrt()),
        slope=_rule,
        folds=known_at({}),
        is_word=False,
    ),
)
