"""Hard cases in ball arithmetic: errors near or below what float64 can tell apart, on a line.

An answer that is nearly 0 everywhere, because the Transformer computes the very function up to the
rounding of its weights, is lost in the rounding of floats. Here it is a power series of balls: with
coefficients c_k at the middle m of a piece and C_n over the whole piece (radius r),

    |f(m + h)| <= sum_{k < n} |c_k| r^k + |C_n| r^n    for |h| <= r

(Taylor, with Lagrange's remainder), and what cancels in f cancels in every c_k. Pieces are halved
until the bound is small enough.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from flint import arb, arb_series, fmpq

from hardmax.checker._budget import Clock
from hardmax.checker.boxes._exact import BITS, Bends, Exact, Following
from hardmax.checker.forms import rational
from hardmax.numerics import ball_size_up, precision

_ORDER = 10
_MOST_PIECES = 4000
_MOST_TERMS = 2000  # of a problem that is worth it


@dataclass(frozen=True, eq=False)
class Line:
    """An answer that depends on one functional u of the variables, u between two floats."""

    exact: Exact
    low: float
    high: float


def bound_by_series(line: Line, enough: float, clock: Clock) -> float:
    """An upper bound on |answer| if one of at most `enough` is found, else infinity."""
    if len(line.exact.graph.atoms) > _MOST_TERMS:
        return math.inf
    with precision(BITS, _ORDER + 1):
        return _halving(line, enough, clock)


def _halving(line: Line, enough: float, clock: Clock) -> float:
    todo = [(rational(line.low), rational(line.high))]
    worst = 0.0
    for _ in range(_MOST_PIECES):
        if not todo:
            return worst
        if clock.is_spent:
            break
        low, high = todo.pop()
        bound = _on_piece(line, low, high)
        if bound <= enough:
            worst = max(worst, bound)
            continue
        middle = (low + high) / 2
        todo += [(low, middle), (middle, high)]
    return math.inf


def _on_piece(line: Line, low: fmpq, high: fmpq) -> float:
    middle, radius = arb((low + high) / 2), arb((high - low) / 2)
    whole = arb(middle, radius.upper())
    try:
        at_middle = Following(line.exact, [arb_series([middle, 1])]).form(line.exact.answer)
        over = Following(line.exact, [arb_series([whole, 1])]).form(line.exact.answer)
    except Bends:
        return _roughly(line, whole)
    except (ZeroDivisionError, ValueError):
        return math.inf
    terms = [abs(at_middle[k]) * radius**k for k in range(_ORDER)]
    size = sum(terms, abs(over[_ORDER]) * radius**_ORDER)
    return ball_size_up(size)


def _roughly(line: Line, whole: arb) -> float:
    """Where something bends: the range over the piece, operation by operation."""
    try:
        value = Following(line.exact, [arb_series([whole])], is_rough=True).form(line.exact.answer)
    except (Bends, ZeroDivisionError, ValueError):
        return math.inf
    return ball_size_up(value[0])
