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
from fractions import Fraction
from typing import Any

from flint import arb, arb_series, ctx, fmpq

from hardmax.checker._budget import Clock
from hardmax.checker.forms import (
    ZERO,
    Apply,
    Basis,
    Form,
    Gate,
    Graph,
    HardMean,
    Maximum,
    Mean,
    Relu,
    Times,
    Variable,
    rational,
)

_ORDER = 10
_BITS = 192
_MOST_PIECES = 4000
_MOST_TERMS = 2000  # of a problem that is worth it
Series = Any


class _Bends(Exception):
    """A maximum changes its leader on this piece, or a function is not smooth there."""


@dataclass(frozen=True, eq=False)
class Line:
    """An answer that depends on one functional u of the variables, u between two floats."""

    graph: Graph
    answer: Form
    basis: Basis
    columns: dict[int, int]
    low: float
    high: float


def bound_by_series(line: Line, enough: float, clock: Clock) -> float:
    """An upper bound on |answer| if one of at most `enough` is found, else infinity."""
    if len(line.graph.atoms) > _MOST_TERMS:
        return math.inf
    before = ctx.prec, ctx.cap
    ctx.prec, ctx.cap = _BITS, _ORDER + 1
    try:
        return _halving(line, enough, clock)
    finally:
        ctx.prec, ctx.cap = before


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
        at_middle = _Following(line, arb_series([middle, 1])).form(line.answer)
        over = _Following(line, arb_series([whole, 1])).form(line.answer)
    except _Bends:
        return _roughly(line, whole)
    except (ZeroDivisionError, ValueError):
        return math.inf
    terms = [abs(at_middle[k]) * radius**k for k in range(_ORDER)]
    size = sum(terms, abs(over[_ORDER]) * radius**_ORDER)
    return _upper(size)


def _roughly(line: Line, whole: arb) -> float:
    """Where something bends: the range over the piece, operation by operation."""
    try:
        value = _Following(line, arb_series([whole]), is_rough=True).form(line.answer)
    except (_Bends, ZeroDivisionError, ValueError):
        return math.inf
    return _upper(abs(value[0]))


def _upper(size: arb) -> float:
    bound = float(size.upper())
    return math.nextafter(bound, math.inf) if math.isfinite(bound) else math.inf


class _Following:
    """Forms and atoms as series in the line's functional."""

    def __init__(self, line: Line, u: Series, *, is_rough: bool = False) -> None:
        self.line, self.u, self.is_rough = line, u, is_rough
        self._made: dict[int, Series] = {}

    def form(self, form: Form) -> Series:
        """A form: what it reads of the variables goes through the functional."""
        columns = self.line.columns
        row = {columns[a]: c for a, c in form.terms.items() if a in columns}
        shares = self.line.basis.coordinates(row)
        result = arb_series([arb(form.constant)])
        if shares and shares[0] != ZERO:
            result = result + self.u * arb(shares[0])
        for atom, c in form.terms.items():
            if atom not in columns:
                result = result + self._atom(atom) * arb(c)
        return result

    def _atom(self, number: int) -> Series:
        if number not in self._made:
            self._made[number] = self._follow(number)
        return self._made[number]

    def _follow(self, number: int) -> Series:
        match self.line.graph.atoms[number]:
            case Gate(logit=logit, value=value):
                return self.form(value) * _sigmoid(self.form(logit))
            case Mean(logits=logits, values=values):
                return _soft([self.form(f) for f in logits], [self.form(f) for f in values])
            case HardMean(scores=scores, values=values):
                zero = arb_series([arb(0)])
                leader = _leader([zero, *(self.form(f) for f in scores)])
                return zero if leader == 0 else self.form(values[leader - 1])
            case Relu(argument=argument):
                return self._largest([self.form(argument)])
            case Maximum(arguments=arguments):
                return self._largest([self.form(f) for f in arguments])
            case Times(first=first, second=second):
                return self.form(first) * self.form(second)
            case Apply(name=name, exponent=exponent, argument=argument):
                return _applied(name, exponent, self.form(argument))
            case Variable():
                raise AssertionError("variables go through the functional")

    def _largest(self, series: list[Series]) -> Series:
        """max(0, ...): the one that leads; roughly, a ball around all that may."""
        every = [arb_series([arb(0)]), *series]
        if not self.is_rough:
            return every[_leader(every)]
        top = every[0][0]
        for other in every[1:]:
            top = (top + other[0] + abs(top - other[0])) / 2
        return arb_series([top])


def _sigmoid(x: Series) -> Series:
    """The smaller of e^x/(1 + e^x) and 1 - 1/(1 + e^x), neither of which overflows."""
    if bool(x[0] > 0):
        return 1 / (1 + (-x).exp())
    power = x.exp()
    return power / (1 + power)


def _soft(logits: list[Series], values: list[Series]) -> Series:
    """The softmax mean with a reference whose logit and value are 0."""
    zero = arb_series([arb(0)])
    every = [zero, *logits]
    top = max(every, key=lambda s: float(s[0].mid()))
    powers = [(s - top).exp() for s in every]
    whole = sum(powers[1:], powers[0])
    mixed = sum((p * v for p, v in zip(powers[1:], values, strict=True)), zero)
    return mixed / whole


def _leader(series: list[Series]) -> int:
    """Which of them is the largest over the whole piece, for certain."""
    best = max(range(len(series)), key=lambda j: float(series[j][0].mid()))
    if all(j == best or bool(series[j][0] < series[best][0]) for j in range(len(series))):
        return best
    raise _Bends


def _applied(name: str, exponent: float | Fraction, x: Series) -> Series:
    match name:
        case "reciprocal":
            if not (bool(x[0] > 0) or bool(x[0] < 0)):
                raise _Bends
            return 1 / x
        case "power":
            exact = Fraction(exponent)
            if exact.denominator == 1 and exact >= 0:
                return x ** int(exact)
            if not bool(x[0] > 0):
                raise _Bends
            return x ** arb(fmpq(exact.numerator, exact.denominator))
        case "log" | "sqrt":
            if not bool(x[0] > 0):
                raise _Bends
    return getattr(x, name)()
