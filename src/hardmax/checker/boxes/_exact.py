"""An answer in ball arithmetic: exact coefficients, and balls or power series of balls as inputs.

This shares nothing with the tape that the searches run: what the two say of a point must agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from flint import arb, arb_series, ctx

from hardmax.checker._budget import BALL, charge
from hardmax.checker.boxes._few_variables import Basis
from hardmax.checker.forms import (
    ZERO,
    Apply,
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
from hardmax.numerics import FunctionRecord, precision, record_of

BITS = 192
Series = arb_series


class Bends(Exception):
    """A maximum changes its leader here, or a function is not smooth."""


@dataclass(frozen=True, eq=False)
class Exact:
    """An answer over the coordinates of a basis; what lies outside its span does not count."""

    graph: Graph
    answer: Form
    basis: Basis
    columns: dict[int, int]

    def at(self, point: np.ndarray) -> arb | None:
        """A ball around the answer at a point of the search variables; None if it jumps there."""
        try:
            with precision(BITS, 1):
                places = [arb_series([arb(rational(float(u)))]) for u in point]
                return Following(self, places, is_rough=True).form(self.answer)[0]
        except (Bends, ZeroDivisionError, ValueError):
            return None


class Following:
    """Forms and atoms as series, given those of the search variables."""

    def __init__(self, exact: Exact, places: Sequence[Series], *, is_rough: bool = False) -> None:
        self.exact, self.places, self.is_rough = exact, places, is_rough
        self._made: dict[int, Series] = {}

    def form(self, form: Form) -> Series:
        """A form: what it reads of the variables goes through the functionals."""
        columns = self.exact.columns
        charge(BALL * (1 + ctx.cap), 4 + 2 * len(form.atoms))
        row = {columns[a]: c for a, c in form.terms.items() if a in columns}
        result = arb_series([arb(form.constant)])
        for place, share in zip(self.places, self.exact.basis.coordinates(row), strict=False):
            if share != ZERO:
                result = result + place * arb(share)
        for atom, c in form.terms.items():
            if atom not in columns:
                result = result + self._atom(atom) * arb(c)
        return result

    def _atom(self, number: int) -> Series:
        if number not in self._made:
            self._made[number] = self._follow(number)
        return self._made[number]

    def _follow(self, number: int) -> Series:
        match self.exact.graph.atoms[number]:
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
                return _applied(record_of(name, exponent), self.form(argument))
            case Variable():
                raise AssertionError("variables go through the functionals")

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
    raise Bends


def _applied(function: FunctionRecord, x: Series) -> Series:
    if function.condition is not None and not function.condition.of_ball(x[0]):
        raise Bends
    return function.series(x)
