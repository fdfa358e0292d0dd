"""A one-output construction as the checker's own search problem: the one place that looks inside.

Benchmarks compare evaluations of the same tape, which is no part of what users see.
"""

from __future__ import annotations

from functools import cache

import hardmax as hm
from hardmax.checker._budget import Budget, Clock
from hardmax.checker.boxes._compile_tape import Problem, pose
from hardmax.checker.boxes._search import Found, Search
from hardmax.checker.boxes._tape import Linear as Linear
from hardmax.checker.boxes._tape import Step as Step
from hardmax.checker.boxes._tape import Tape as Tape
from hardmax.checker.boxes._tape import enclose as enclose
from hardmax.checker.forms._graph import Graph
from hardmax.checker.forms._written_out import TargetForms, Unrolled


@cache
def posed(construction: hm.Construction) -> Problem:
    """Bound |T(x) - f(x)| over the domain."""
    graph, domain = Graph(), construction.claim.domain
    ends = zip(domain.low.tolist(), domain.high.tolist(), strict=True)
    inputs = [graph.variable(low, high) for low, high in ends]
    (true,) = TargetForms(construction.claim.target.steps(), graph, inputs).outputs()
    (said,) = Unrolled(construction.transformer, graph, inputs).outputs()
    return pose(graph, said - true, construction.claim.error)


def searched(construction: hm.Construction, tolerance: float) -> Found:
    """Branch and bound until certified <= (1 + tolerance) measured."""
    clock = Clock(Budget())
    problem = posed(construction)
    return Search(problem, clock, enough=construction.claim.error, tolerance=tolerance).run()
