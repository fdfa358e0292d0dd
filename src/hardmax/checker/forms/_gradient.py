"""Derivatives of forms by one variable, as forms."""

from __future__ import annotations

from fractions import Fraction

from flint import fmpq

from hardmax.checker.forms._atoms import Apply, Gate, Times, Variable
from hardmax.checker.forms._forms import NOTHING, ONE, Form, constant, total
from hardmax.checker.forms._graph import Graph


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
        graph = self.graph
        match name:
            case "exp":
                return own
            case "log":
                return graph.apply("reciprocal", argument)
            case "reciprocal":
                return -graph.times(own, own)
            case "sqrt":
                return graph.apply("reciprocal", own).scaled(fmpq(1, 2))
            case "sin":
                return graph.apply("cos", argument)
            case "cos":
                return -graph.apply("sin", argument)
            case "tan":
                return graph.times(own, own) + constant(ONE)
            case "power":
                p = Fraction(exponent)
                if p.denominator == 1 and p > 0:
                    lower = graph.apply("power", argument, p - 1)
                    return lower.scaled(fmpq(p.numerator, p.denominator))
        raise NoGradient
