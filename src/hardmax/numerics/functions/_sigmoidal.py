"""Functions that rise from one level to another: sigmoid, tanh, erf; and softplus, which turns."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hardmax.numerics import _elementary as elementary
from hardmax.numerics._interval import Interval
from hardmax.numerics.functions._record import (
    Calculus,
    Derivatives,
    FunctionRecord,
    Gated,
    Value,
    curve_of,
    known_at,
)
from hardmax.numerics.functions._shapes import erf_of_floats, monotone, number_near

if TYPE_CHECKING:
    from flint import arb, arb_series

Triple = tuple[Interval, Interval, Interval]
_TWO_OVER_ROOT_PI = number_near(1.1283791670955126)
_SOFTPLUS_ULPS = 12.0  # of exp and log1p, each trusted to four, and of two more roundings


def _tanh_curve(x: Interval) -> Triple:
    """1 - t^2 is written as (1 - t)(1 + t), which keeps its sign."""
    y = elementary.tanh(x)
    first = (1.0 - y) * (1.0 + y)
    return y, first, y * first * -2.0


def _tanh_of_series(u: arb_series) -> arb_series:
    """With one occurrence of exp, so that a wide ball is not widened further."""
    return 1 - 2 / ((2 * u).exp() + 1)


def _erf(x: Interval) -> Interval:
    y = monotone(x, erf_of_floats, exact_at=0.0)
    return Interval(np.clip(y.lo, -1.0, 1.0), np.clip(y.hi, -1.0, 1.0))


def _erf_curve(x: Interval) -> Triple:
    first = elementary.exp(-elementary.power(x, 2)) * _TWO_OVER_ROOT_PI
    return _erf(x), first, x * first * -2.0


def _slope_of_erf(c: Calculus[Value], u: Value, y: Value) -> Value:
    """exp(-u^2) 2/sqrt(pi), and pi is 4 atan(1): the language has no other exact pi."""
    bell = c.apply("exp", c.times(c.number(-1), c.power(u, Fraction(2))))
    return c.times(bell, c.reciprocal(c.apply("sqrt", c.apply("atan", c.number(1)))))


def softplus_of_floats(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))


def softplus_of_ball(u: arb) -> arb:
    """With the exponential that is small: a wide ball of huge numbers reaches 0."""
    return u + (-u).exp().log1p() if u.mid() > 0 else u.exp().log1p()


def softplus_of_series(u: arb_series) -> arb_series:
    return u + (1 + (-u).exp()).log() if u[0].mid() > 0 else (1 + u.exp()).log()


def softplus(x: Interval) -> Interval:
    return monotone(x, softplus_of_floats, exact_at=np.nan, ulps=_SOFTPLUS_ULPS).maximum(0.0)


def _softplus_curve(low: np.ndarray, high: np.ndarray) -> Derivatives:
    value, _, _ = curve_of(lambda x: (softplus(x), x, x))(low, high)
    first, second, _ = elementary.sigmoid_curve(low, high)
    return value, first, second


RECORDS = (
    FunctionRecord(
        name="tanh",
        gated=Gated(steepness=2, constant=2, offset=-1),
        meaning="The hyperbolic tangent.",
        floats=np.tanh,
        intervals=elementary.tanh,
        curve=curve_of(_tanh_curve),
        balls=lambda u: u.tanh(),
        series=_tanh_of_series,
        slope=lambda c, u, y: c.plus(c.number(1), c.times(c.number(-1), c.power(y, Fraction(2)))),
        folds=known_at({0: 0}),
    ),
    FunctionRecord(
        name="sigmoid",
        gated=Gated(steepness=1, constant=1),
        meaning="1/(1 + exp(-x)).",
        floats=elementary.sigmoid_of_floats,
        intervals=elementary.sigmoid,
        curve=elementary.sigmoid_curve,
        balls=lambda u: 1 / (1 + (-u).exp()),
        series=lambda u: 1 / (1 + (-u).exp()),
        slope=lambda c, u, y: c.times(y, c.apply("sigmoid", c.times(c.number(-1), u))),
        folds=known_at({0: Fraction(1, 2)}),
        elsewhere=("logistic", "expit"),
    ),
    FunctionRecord(
        name="erf",
        meaning="The error function, 2/sqrt(pi) times the integral of exp(-t**2) from 0 to x.",
        floats=erf_of_floats,
        intervals=_erf,
        curve=curve_of(_erf_curve),
        balls=lambda u: u.erf(),
        series=lambda u: u.erf(),
        slope=_slope_of_erf,
        folds=known_at({0: 0}),
    ),
    FunctionRecord(
        name="softplus",
        meaning="log(1 + exp(x)), a smooth relu.",
        floats=softplus_of_floats,
        intervals=softplus,
        curve=_softplus_curve,
        balls=softplus_of_ball,
        series=softplus_of_series,
        slope=lambda c, u, y: c.apply("sigmoid", u),
        folds=known_at({}),
    ),
)
