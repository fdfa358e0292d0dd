"""Derivatives of forms by one variable, as forms."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from flint import fmpq

from hardmax.checker.forms._atoms import Apply, Gate, Times, Variable
from hardmax.checker.forms._bodies import ONE
from hardmax.checker.forms._forms import NOTHING, Form, constant, total
from hardmax.checker.forms._graph import Graph
from hardmax.numerics import record_of


class NoGradient(Exception):
    """A form bends, or its derivative is not written here."""


class Gradient:
    """d/dx of forms, x being one variable of a graph."""

    def __init__(self, graph: Graph, variable: int) -> None:
        self.graph = graph
        self._made: dict[int, Form] = {variable: constant(ONE)}

    def form(self, form: Form) -> Form:
        return total([(c, self._atom(atom)) for atom, c in form.terms.items()])

    def _atom(self, number: int) -> Form:
        if number not in self._made:
            self._made[number] = self._derived(number)
        return self._made[number]

    def _derived(self, number: int) -> Form:
        graph, atom = self.graph, self.graph.atoms[number]
        match atom:
            case Variable():
                return NOTHING
            case Times(first=first, second=second):
                return graph.times(self.form(first), second) + graph.times(first, self.form(second))
            case Gate(logit=logit, value=value):
                open_ = graph.gate(logit, constant(ONE))
                steep = open_ - graph.times(open_, open_)
                moved = graph.times(steep, graph.times(value, self.form(logit)))
                return graph.times(open_, self.form(value)) + moved
            case Apply(name=name, exponent=exponent, argument=argument):
                inner = self.form(argument)
                if inner.is_zero:
                    return NOTHING
                slope = self._slope(Form({number: ONE}), name, exponent, argument)
                return graph.times(slope, inner)
        raise NoGradient

    def _slope(self, own: Form, name: str, exponent: float | Fraction, argument: Form) -> Form:
        rule = record_of(name, exponent).slope
        if rule is None:
            raise NoGradient
        return rule(FormCalculus(self.graph), argument, own)


@dataclass(frozen=True)
class FormCalculus:
    """Derivatives written as forms over the atoms of a graph."""

    graph: Graph

    def number(self, value: int | Fraction) -> Form:
        return constant(_rational(value))

    def plus(self, first: Form, second: Form) -> Form:
        return first + second

    def times(self, first: Form, second: Form) -> Form:
        return self.graph.times(first, second)

    def reciprocal(self, below: Form, by: int | Fraction = 1) -> Form:
        return self.graph.apply("reciprocal", below).scaled(1 / _rational(by))

    def power(self, base: Form, exponent: Fraction) -> Form:
        """Natural powers only: the others have poles or ends that nobody looks for here."""
        if exponent.denominator != 1 or exponent < 0:
            raise NoGradient
        return self.graph.apply("power", base, exponent)

    def apply(self, name: str, argument: Form) -> Form:
        return self.graph.apply(name, argument)


def _rational(value: int | Fraction) -> fmpq:
    return fmpq(value.numerator, value.denominator)
