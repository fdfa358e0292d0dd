"""Powers: the reciprocal, the square root, and x**p for a constant p."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from hardmax.numerics import _elementary as elementary
from hardmax.numerics._interval import Interval
from hardmax.numerics.functions._conditions import NONNEGATIVE, NONZERO, POSITIVE, Condition
from hardmax.numerics.functions._record import (
    Calculus,
    Exact,
    FunctionRecord,
    Value,
    curve_of,
    known_at,
    where,
)

if TYPE_CHECKING:
    from flint import arb, arb_series, fmpq

Triple = tuple[Interval, Interval, Interval]


def _reciprocal_curve(x: Interval) -> Triple:
    y = elementary.reciprocal(x)
    return y, -elementary.power(y, 2), elementary.power(y, 3) * 2.0


def _sqrt_curve(x: Interval) -> Triple:
    inside = x.lo > 0.0
    inverse = where(inside, elementary.reciprocal(elementary.sqrt(x)))
    return (
        elementary.sqrt(x),
        inverse * 0.5,
        where(inside, elementary.power(inverse, 3) * -0.25),
    )


def _root_of_rational(x: Fraction) -> Fraction | None:
    if x < 0:
        return None
    root = Fraction(math.isqrt(x.numerator), math.isqrt(x.denominator))
    return root if root**2 == x else None


def _inverse_of_fractions(x: Exact) -> Exact:
    return Fraction(1) / x


RECORDS = (
    FunctionRecord(
        name="reciprocal",
        meaning="1/x, for x other than 0.",
        floats=lambda x: 1.0 / x,
        intervals=elementary.reciprocal,
        curve=curve_of(_reciprocal_curve),
        balls=lambda u: 1 / u,
        series=lambda u: 1 / u,
        slope=lambda c, u, y: c.times(c.number(-1), c.times(y, y)),
        condition=NONZERO,
        fractions=_inverse_of_fractions,
        folds=lambda x: 1 / x if x else None,
        is_word=False,
    ),
    FunctionRecord(
        name="sqrt",
        meaning="The square root, for x >= 0.",
        floats=np.sqrt,
        intervals=elementary.sqrt,
        curve=curve_of(_sqrt_curve),
        balls=lambda u: u.sqrt(),
        series=lambda u: u.sqrt(),
        slope=lambda c, u, y: c.reciprocal(y, 2),
        condition=NONNEGATIVE,
        folds=_root_of_rational,
        elsewhere=("root",),
    ),
)


@lru_cache(maxsize=4096)
def power_record(exponent: Fraction) -> FunctionRecord:
    """x**exponent as a function of x: any exact exponent has a record of its own."""
    whole = exponent.denominator == 1

    def curve(x: Interval) -> Triple:
        """p x^(p-1) and p (p-1) x^(p-2); for fractional p only where x > 0."""
        value = elementary.power(x, exponent)
        first = elementary.power(x, exponent - 1) * Interval.point(exponent)
        second = elementary.power(x, exponent - 2) * Interval.point(exponent * (exponent - 1))
        if whole:
            return value, first, second
        return value, where(x.lo > 0.0, first), where(x.lo > 0.0, second)

    def slope(c: Calculus[Value], u: Value, y: Value) -> Value:
        return c.times(c.number(exponent), c.power(u, exponent - 1))

    return FunctionRecord(
        name="power",
        title=f"A power of exponent {exponent}",
        meaning=f"x to the power {exponent}.",
        floats=lambda x: np.power(x, float(exponent)),
        intervals=lambda x: elementary.power(x, exponent),
        curve=curve_of(curve),
        balls=lambda u: _power_of_ball(u, exponent),
        series=lambda u: _power_of_series(u, exponent),
        slope=slope,
        condition=_condition_of_power(exponent),
        fractions=(lambda x: x ** int(exponent)) if whole else None,
        folds=known_at({1: 1}),
        is_word=False,
    )


def _condition_of_power(exponent: Fraction) -> Condition | None:
    if exponent.denominator == 1:
        return NONZERO if exponent < 0 else None
    return POSITIVE if exponent < 0 else NONNEGATIVE


def _power_of_ball(u: arb, n: Fraction) -> arb:
    """Wide balls through 0 keep the sign of even powers, and touch 0 where a root begins."""
    if n.denominator != 1:
        return u ** _fmpq(n) if u > 0 else _root_of_ball(u, n)
    if u.is_exact() or not u.contains(0):
        return u ** int(n)
    if n < 0:
        return 1 / _power_of_ball(u, -n)
    base = abs(u) if n % 2 == 0 else u
    ends = base.abs_lower() if n % 2 == 0 else base.lower(), base.upper()
    return (ends[0] ** int(n)).union(ends[1] ** int(n))


def _power_of_series(u: arb_series, n: Fraction) -> arb_series:
    return u ** int(n) if n.denominator == 1 else u ** _fmpq(n)


def _root_of_ball(u: arb, n: Fraction) -> arb:
    """A fractional power of a ball that touches 0: monotone, from 0 to its upper end."""
    from flint import arb

    if n < 0 or not u.upper() >= 0 or (u < 0):
        return arb.nan()
    return arb(0) if u.is_zero() else (u.upper() ** _fmpq(n)).union(arb(0))


def _fmpq(n: Fraction) -> fmpq:
    from flint import fmpq

    return fmpq(n.numerator, n.denominator)
