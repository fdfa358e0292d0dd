"""Maxima of two lines: relu and abs."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hardmax._errors import SemanticsError
from hardmax.numerics._elementary import absolute
from hardmax.numerics._interval import Interval
from hardmax.numerics._outward import pair_between
from hardmax.numerics.functions._record import Derivatives, Exact, FunctionRecord, Piece

if TYPE_CHECKING:
    from flint import arb_series


def rectifier_curve(low: np.ndarray, high: np.ndarray) -> Derivatives:
    """max(x, 0): slope 0, 1, or anything between where x changes sign; no curvature there."""
    value = pair_between(np.maximum(low, 0.0), np.maximum(high, 0.0))
    off, on = high <= 0.0, low >= 0.0
    bends = ~(off | on)  # undefined ends bend, too
    slope = np.where(on & ~off, 1.0, np.where(off, 0.0, 0.5)), np.where(bends, 0.5, 0.0)
    return value, slope, (np.zeros_like(low), np.where(bends, np.inf, 0.0))


def _absolute_curve(low: np.ndarray, high: np.ndarray) -> Derivatives:
    """|x|: slope -1, 1, or anything between where x changes sign."""
    bottom = np.maximum(np.maximum(low, -high), 0.0)
    value = pair_between(bottom, np.maximum(np.abs(low), np.abs(high)))
    off, on = high <= 0.0, low >= 0.0
    bends = ~(off | on)
    slope = np.where(bends, 0.0, np.where(on, 1.0, -1.0)), np.where(bends, 1.0, 0.0)
    return value, slope, (np.zeros_like(low), np.where(bends, np.inf, 0.0))


def larger_series(a: arb_series, b: arb_series) -> arb_series:
    """The maximum of two series, if one of them leads over the whole ball.

    A kink inside a series of length two or more has no expansion, and is refused.
    """
    from flint import arb_series

    a, b = arb_series(a), arb_series(b)
    if min(a.prec, b.prec) <= 1:
        return arb_series([a[0].max(b[0])], 1)
    if a[0] >= b[0] and not a[0].overlaps(b[0]):
        return a
    if b[0] >= a[0] and not a[0].overlaps(b[0]):
        return b
    raise SemanticsError("A kink lies inside the ball, so it has no series there; split the ball.")


_ZERO = np.array(Fraction(0), dtype=object)


def _relu_of_fractions(x: Exact) -> Exact:
    positive: Exact = np.asarray(np.maximum(np.asarray(x, dtype=object), _ZERO))[()]
    return positive


def _rectified(x: Interval) -> Interval:
    return x.maximum(0.0)


RECORDS = (
    FunctionRecord(
        name="abs",
        meaning="The distance from 0.",
        floats=np.abs,
        intervals=absolute,
        curve=_absolute_curve,
        balls=abs,
        series=lambda u: larger_series(u, -u),
        slope=None,
        pieces=(Piece(1, 0), Piece(-1, 0)),
        fractions=lambda x: abs(x) if isinstance(x, Fraction) else np.abs(x),
        folds=abs,
        elsewhere=("fabs",),
    ),
    FunctionRecord(
        name="relu",
        meaning="max(x, 0).",
        floats=lambda x: np.maximum(x, 0.0),
        intervals=_rectified,
        curve=rectifier_curve,
        balls=lambda u: u.max(u * 0),
        series=lambda u: larger_series(u, u * 0),
        slope=None,
        pieces=(Piece(1, 0), Piece(0, 0)),
        fractions=_relu_of_fractions,
        folds=lambda x: max(x, Fraction(0)),
        elsewhere=("ReLU",),
    ),
)
