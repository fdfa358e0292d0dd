"""Atoms again, over other arguments: what substitution is made of."""

from __future__ import annotations

from collections.abc import Sequence

from hardmax.checker.forms._atoms import (
    Apply,
    Gate,
    HardMean,
    Maximum,
    Mean,
    Relu,
    Times,
    Variable,
)
from hardmax.checker.forms._forms import ONE, ZERO, Form, constant
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
