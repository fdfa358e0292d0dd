"""x times a sigmoidal function of x, as networks use them: gelu, silu, mish.

Each falls to one bottom and rises from there, so that its enclosure is that of its ends and of the
bottom. The least values were computed in balls; the floats below are under them.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from hardmax.numerics import _elementary as elementary
from hardmax.numerics._interval import Interval
from hardmax.numerics.functions._record import (
    Calculus,
    FunctionRecord,
    Gated,
    Value,
    curve_of,
    known_at,
)
from hardmax.numerics.functions._shapes import erfc_of_floats, monotone, number_near, valley

if TYPE_CHECKING:
    from flint import arb, arb_series

BallOrSeries = TypeVar("BallOrSeries", "arb", "arb_series")
Triple = tuple[Interval, Interval, Interval]
_ROOT_HALF = float(np.sqrt(0.5))
_BELL_TOP = number_near(0.3989422804014327)  # 1/sqrt(2 pi)
_LEAST = -800.0  # below, gelu, silu and mish are less than the smallest float in size


def _gelu_of_floats(x: np.ndarray) -> np.ndarray:
    x = np.maximum(x, _LEAST)
    return 0.5 * x * erfc_of_floats(-_ROOT_HALF * x)


def _gelu_ulps(x: np.ndarray) -> np.ndarray:
    """An error of two roundings in z = -x/sqrt(2) moves erfc(z) by at most 2 (1 + 2 z^2) of them.

    That is erfc'(z) z / erfc(z) > -(1 + 2 z^2) for z > 0. erfc is trusted to sixteen ulp.
    """
    return 24.0 + 4.0 * np.clip(x, -40.0, 0.0) ** 2


def _gelu(x: Interval) -> Interval:
    around = -0.7517915246935646, -0.7517915246935643
    bottom = -0.1699712074799037
    return valley(x, _gelu_of_floats, bottom_at=around, bottom=bottom, ulps=_gelu_ulps)


def _normal(x: Interval) -> Interval:
    """The distribution function of the normal law."""
    return monotone(
        x,
        lambda t: 0.5 * erfc_of_floats(-_ROOT_HALF * np.maximum(t, _LEAST)),
        exact_at=0.0,
        ulps=_gelu_ulps,
    )


def _gelu_curve(x: Interval) -> Triple:
    """Phi + x phi and phi (2 - x^2), phi = Phi' being the bell."""
    square = elementary.power(x, 2)
    bell = elementary.exp(square * -0.5) * _BELL_TOP
    return _gelu(x), _normal(x) + x * bell, bell * (2.0 - square)


def _slope_of_gelu(c: Calculus[Value], u: Value, y: Value) -> Value:
    """(1 + erf(u/sqrt(2)))/2 + u exp(-u^2/2)/sqrt(2 pi), pi being 4 atan(1)."""
    half = Fraction(1, 2)
    normal = c.plus(c.number(1), c.apply("erf", c.times(u, c.apply("sqrt", c.number(half)))))
    bell = c.apply("exp", c.times(c.number(-half), c.power(u, Fraction(2))))
    eight = c.apply("sqrt", c.times(c.number(8), c.apply("atan", c.number(1))))
    return c.plus(c.times(c.number(half), normal), c.times(u, c.times(bell, c.reciprocal(eight))))


def _gelu_of_ball(u: arb) -> arb:
    from flint import arb

    return u * (-u / arb(2).sqrt()).erfc() / 2


def _gelu_of_series(u: arb_series) -> arb_series:
    from flint import arb

    return u * (u * (-1 / arb(2).sqrt())).erfc() / 2


def _ulps(x: np.ndarray) -> np.ndarray:
    """How far silu and mish stray: exp passes on with factor 1.5 at most, and eight roundings.

    Below -700 exp underflows, and what it loses is multiplied by x.
    """
    return np.where(x < -700.0, 1e4, 20.0)


def _silu_of_floats(x: np.ndarray) -> np.ndarray:
    x = np.maximum(x, _LEAST)
    return x * elementary.sigmoid_of_floats(x)


def _silu(x: Interval) -> Interval:
    around, bottom = (-1.278464542761074, -1.2784645427610735), -0.27846454276107385
    return valley(x, _silu_of_floats, bottom_at=around, bottom=bottom, ulps=_ulps)


def _silu_curve(x: Interval) -> Triple:
    """s + x s' and s' (2 - x tanh(x/2)), with s' = s(x) s(-x)."""
    open_, shut = elementary.sigmoid(x), elementary.sigmoid(-x)
    steep = open_ * shut
    turn = 2.0 - x * elementary.tanh(x * 0.5)
    return _silu(x), open_ + x * steep, steep * turn


def _slope_of_silu(c: Calculus[Value], u: Value, y: Value) -> Value:
    """s(u) + u s(u) s(-u)."""
    open_ = c.apply("sigmoid", u)
    shut = c.apply("sigmoid", c.times(c.number(-1), u))
    return c.plus(open_, c.times(u, c.times(open_, shut)))


def _mish_gate_of_floats(x: np.ndarray) -> np.ndarray:
    """tanh(log(1 + e^x)) = n/(n + 2) with n = e^x (e^x + 2), in powers that do not overflow."""
    e = np.exp(-np.abs(x))
    left, right = e * (e + 2.0), 1.0 + 2.0 * e
    return np.where(np.asarray(x) >= 0.0, right, left) / (
        np.where(np.asarray(x) >= 0.0, right + 2.0 * e * e, left + 2.0)
    )


def _mish_gate(x: Interval) -> Interval:
    y = monotone(x, _mish_gate_of_floats, exact_at=np.nan, ulps=_ulps)
    return Interval(np.clip(y.lo, 0.0, 1.0), np.clip(y.hi, 0.0, 1.0))


def _mish_of_floats(x: np.ndarray) -> np.ndarray:
    x = np.maximum(x, _LEAST)
    return x * _mish_gate_of_floats(x)


def _mish(x: Interval) -> Interval:
    around, bottom = (-1.1924312145154955, -1.192431214515495), -0.3088434130172505
    return valley(x, _mish_of_floats, bottom_at=around, bottom=bottom, ulps=_ulps)


def _mish_curve(x: Interval) -> Triple:
    """t + x t' and t' (2 + x (s(-x) - 2 t s(x))), with t = tanh(softplus), t' = (1 - t^2) s(x)."""
    gate, open_, shut = _mish_gate(x), elementary.sigmoid(x), elementary.sigmoid(-x)
    steep = (1.0 - gate) * (1.0 + gate) * open_
    return _mish(x), gate + x * steep, steep * (2.0 + x * (shut - gate * open_ * 2.0))


def _slope_of_mish(c: Calculus[Value], u: Value, y: Value) -> Value:
    """t + u (1 - t^2) s(u) with t = tanh(softplus(u))."""
    gate = c.apply("tanh", c.apply("softplus", u))
    steep = c.plus(c.number(1), c.times(c.number(-1), c.power(gate, Fraction(2))))
    return c.plus(gate, c.times(u, c.times(steep, c.apply("sigmoid", u))))


def _mish_of_balls(u: BallOrSeries) -> BallOrSeries:
    """1 - 2/((1 + e^u)^2 + 1) has one occurrence of exp."""
    return u * (1 - 2 / ((1 + u.exp()) ** 2 + 1))


RECORDS = (
    FunctionRecord(
        name="gelu",
        meaning="x times the distribution function of the normal law, x*(1 + erf(x/sqrt(2)))/2.",
        floats=_gelu_of_floats,
        intervals=_gelu,
        curve=curve_of(_gelu_curve),
        balls=_gelu_of_ball,
        series=_gelu_of_series,
        slope=_slope_of_gelu,
        folds=known_at({0: 0}),
    ),
    FunctionRecord(
        name="silu",
        gated=Gated(steepness=1, constant=0, slope=1),
        meaning="x*sigmoid(x).",
        floats=_silu_of_floats,
        intervals=_silu,
        curve=curve_of(_silu_curve),
        balls=lambda u: u / (1 + (-u).exp()),
        series=lambda u: u / (1 + (-u).exp()),
        slope=_slope_of_silu,
        folds=known_at({0: 0}),
        elsewhere=("swish",),
    ),
    FunctionRecord(
        name="mish",
        meaning="x*tanh(softplus(x)).",
        floats=_mish_of_floats,
        intervals=_mish,
        curve=curve_of(_mish_curve),
        balls=_mish_of_balls,
        series=_mish_of_balls,
        slope=_slope_of_mish,
        folds=known_at({0: 0}),
    ),
)
