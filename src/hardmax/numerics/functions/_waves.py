"""The sine, the cosine, the tangent, and its inverse."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from hardmax.numerics import _elementary as elementary
from hardmax.numerics._interval import Interval
from hardmax.numerics.functions._conditions import AWAY_FROM_POLES
from hardmax.numerics.functions._record import FunctionRecord, curve_of, known_at
from hardmax.numerics.functions._shapes import monotone

Triple = tuple[Interval, Interval, Interval]


def _sin_curve(x: Interval) -> Triple:
    y = elementary.sin(x)
    return y, elementary.cos(x), -y


def _cos_curve(x: Interval) -> Triple:
    y = elementary.cos(x)
    return y, -elementary.sin(x), -y


def _tan_curve(x: Interval) -> Triple:
    y = elementary.tan(x)
    first = elementary.power(y, 2) + 1.0
    return y, first, y * first * 2.0


def _atan(x: Interval) -> Interval:
    return monotone(x, np.arctan, exact_at=0.0)


def _atan_curve(x: Interval) -> Triple:
    first = elementary.reciprocal(elementary.power(x, 2) + 1.0)
    return _atan(x), first, x * elementary.power(first, 2) * -2.0


RECORDS = (
    FunctionRecord(
        name="sin",
        meaning="The sine of x radians.",
        floats=np.sin,
        intervals=elementary.sin,
        curve=curve_of(_sin_curve),
        balls=lambda u: u.sin(),
        series=lambda u: u.sin(),
        slope=lambda c, u, y: c.apply("cos", u),
        folds=known_at({0: 0}),
    ),
    FunctionRecord(
        name="cos",
        meaning="The cosine of x radians.",
        floats=np.cos,
        intervals=elementary.cos,
        curve=curve_of(_cos_curve),
        balls=lambda u: u.cos(),
        series=lambda u: u.cos(),
        slope=lambda c, u, y: c.times(c.number(-1), c.apply("sin", u)),
        folds=known_at({0: 1}),
    ),
    FunctionRecord(
        name="tan",
        meaning="The tangent of x radians, away from odd multiples of pi/2.",
        floats=np.tan,
        intervals=elementary.tan,
        curve=curve_of(_tan_curve),
        balls=lambda u: u.tan(),
        series=lambda u: u.tan(),
        slope=lambda c, u, y: c.plus(c.number(1), c.power(y, Fraction(2))),
        condition=AWAY_FROM_POLES,
        folds=known_at({0: 0}),
    ),
    FunctionRecord(
        name="atan",
        meaning="The angle in (-pi/2, pi/2) whose tangent is x.",
        floats=np.arctan,
        intervals=_atan,
        curve=curve_of(_atan_curve),
        balls=lambda u: u.atan(),
        series=lambda u: u.atan(),
        slope=lambda c, u, y: c.reciprocal(c.plus(c.number(1), c.power(u, Fraction(2)))),
        folds=known_at({0: 0}),
        elsewhere=("arctan",),
    ),
)
