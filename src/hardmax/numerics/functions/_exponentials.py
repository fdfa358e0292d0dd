"""exp and log, their neighbours at 0, and the hyperbolic sine and cosine."""

from __future__ import annotations

import numpy as np

from hardmax.numerics import _elementary as elementary
from hardmax.numerics._interval import Interval
from hardmax.numerics.functions._conditions import ABOVE_MINUS_ONE, POSITIVE
from hardmax.numerics.functions._record import FunctionRecord, curve_of, known_at, where
from hardmax.numerics.functions._shapes import monotone, valley

Triple = tuple[Interval, Interval, Interval]


def _exp_curve(x: Interval) -> Triple:
    y = elementary.exp(x)
    return y, y, y


def _log_curve(x: Interval) -> Triple:
    inverse = where(x.lo > 0.0, elementary.reciprocal(x))
    return elementary.log(x), inverse, where(x.lo > 0.0, -elementary.power(inverse, 2))


def _expm1(x: Interval) -> Interval:
    return monotone(x, np.expm1, exact_at=0.0).maximum(-1.0)


def _expm1_curve(x: Interval) -> Triple:
    y = elementary.exp(x)
    return _expm1(x), y, y


def _log1p(x: Interval) -> Interval:
    inside = (x.lo >= -1.0) & (x.hi > -1.0)
    return where(inside, monotone(x, np.log1p, exact_at=0.0))


def _log1p_curve(x: Interval) -> Triple:
    """The sum 1 + x is positive where it must be: -1 is a float, and so is the one above."""
    inverse = where(x.lo > -1.0, elementary.reciprocal((x + 1.0).maximum(0.0)))
    return _log1p(x), inverse, where(x.lo > -1.0, -elementary.power(inverse, 2))


def _sinh(x: Interval) -> Interval:
    return monotone(x, np.sinh, exact_at=0.0)


def _cosh(x: Interval) -> Interval:
    return valley(x, np.cosh, bottom_at=(0.0, 0.0), bottom=1.0)


def _sinh_curve(x: Interval) -> Triple:
    y = _sinh(x)
    return y, _cosh(x), y


def _cosh_curve(x: Interval) -> Triple:
    y = _cosh(x)
    return y, _sinh(x), y


RECORDS = (
    FunctionRecord(
        name="exp",
        meaning="e**x.",
        floats=np.exp,
        intervals=elementary.exp,
        curve=curve_of(_exp_curve),
        balls=lambda u: u.exp(),
        series=lambda u: u.exp(),
        slope=lambda c, u, y: y,
        folds=known_at({0: 1}),
    ),
    FunctionRecord(
        name="log",
        meaning="The natural logarithm, for x > 0.",
        floats=np.log,
        intervals=elementary.log,
        curve=curve_of(_log_curve),
        balls=lambda u: u.log(),
        series=lambda u: u.log(),
        slope=lambda c, u, y: c.reciprocal(u),
        condition=POSITIVE,
        folds=known_at({1: 0}),
        elsewhere=("ln",),
    ),
    FunctionRecord(
        name="expm1",
        meaning="exp(x) - 1, without cancellation near 0.",
        floats=np.expm1,
        intervals=_expm1,
        curve=curve_of(_expm1_curve),
        balls=lambda u: u.expm1(),
        series=lambda u: u.exp() - 1,
        slope=lambda c, u, y: c.apply("exp", u),
        folds=known_at({0: 0}),
    ),
    FunctionRecord(
        name="log1p",
        meaning="log(1 + x), without cancellation near 0, for x > -1.",
        floats=np.log1p,
        intervals=_log1p,
        curve=curve_of(_log1p_curve),
        balls=lambda u: u.log1p(),
        series=lambda u: (1 + u).log(),
        slope=lambda c, u, y: c.reciprocal(c.plus(c.number(1), u)),
        condition=ABOVE_MINUS_ONE,
        folds=known_at({0: 0}),
    ),
    FunctionRecord(
        name="sinh",
        meaning="The hyperbolic sine, (exp(x) - exp(-x))/2.",
        floats=np.sinh,
        intervals=_sinh,
        curve=curve_of(_sinh_curve),
        balls=lambda u: u.sinh(),
        series=lambda u: (u.exp() - (-u).exp()) / 2,
        slope=lambda c, u, y: c.apply("cosh", u),
        folds=known_at({0: 0}),
    ),
    FunctionRecord(
        name="cosh",
        meaning="The hyperbolic cosine, (exp(x) + exp(-x))/2.",
        floats=np.cosh,
        intervals=_cosh,
        curve=curve_of(_cosh_curve),
        balls=lambda u: u.cosh(),
        series=lambda u: (u.exp() + (-u).exp()) / 2,
        slope=lambda c, u, y: c.apply("sinh", u),
        folds=known_at({0: 1}),
    ),
)
