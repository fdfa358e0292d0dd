"""Atoms again, over other arguments: what substitution is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hardmax.checker.forms._atoms import (
    Apply,
    Gate,
    HardMean,
    Maximum,
    Mean,
    Relu,
    Times,
    Variable,
    arguments,
)
from hardmax.checker.forms._forms import ONE, ZERO, Form, constant, total
from hardmax.checker.forms._graph import Graph


def rebuilt(graph: Graph, number: int, again: Sequence[Form]) -> Form:
    """An atom of the same kind that reads these forms."""
    zero, half = constant(ZERO), len(again) // 2
    match graph.atoms[number]:
        case Gate():
            return graph.gate(*again)
        case Mean():
            return graph.mean([zero, *again[:half]], [zero, *again[half:]])
        case HardMean():
            return graph.hard_mean([zero, *again[:half]], [zero, *again[half:]])
        case Relu():
            return graph.relu(*again)
        case Maximum():
            return graph.maximum([zero, *again])
        case Times():
            return graph.times(*again)
        case Apply(name=name, exponent=exponent):
            return graph.apply(name, again[0], exponent)
        case Variable():
            return Form({number: ONE})


class Substituted:
    """Forms with some variables replaced by forms, in the arguments of atoms, too."""

    def __init__(self, graph: Graph, images: Mapping[int, Form]) -> None:
        self.graph = graph
        self._made = dict(images)

    def form(self, form: Form) -> Form:
        parts = [(c, self._atom(atom)) for atom, c in form.terms.items()]
        return total([(ONE, constant(form.constant)), *parts])

    def _atom(self, number: int) -> Form:
        if number not in self._made:
            again = [self.form(form) for form in arguments(self.graph.atoms[number])]
            self._made[number] = rebuilt(self.graph, number, again)
        return self._made[number]
