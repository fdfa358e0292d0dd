"""Targets without steps: their own enclosures over boxes are all that is known of them.

Slopes of the target are unknown, so that E over a box is the Transformer's range there less the
target's. Such proofs converge in first order only: boxes grow as 1/error in each dimension.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hardmax.checker.boxes._compile_tape import Problem, over_basis
from hardmax.checker.boxes._few_variables import Basis
from hardmax.checker.boxes._jets import Jet
from hardmax.checker.boxes._tape import Tape, Twin, run
from hardmax.checker.forms import ONE, Form, Graph
from hardmax.core import Box, Target
from hardmax.numerics import Interval, pair_between, pair_sum


@dataclass(frozen=True, eq=False)
class Against(Tape):
    """One output of a Transformer less that of a target, which is asked for enclosures."""

    target: Target | None = None
    output: int = 0

    def on(self, low: np.ndarray, high: np.ndarray) -> tuple[Twin, np.ndarray]:
        twin, reach = run(self, low, high)
        middle = 0.5 * low + 0.5 * high
        centre = self._less(twin.centre, self._goal(middle, middle))
        return Twin(centre, self._less(twin.box, self._goal(low, high))), reach

    def _goal(self, low: np.ndarray, high: np.ndarray) -> Interval:
        assert self.target is not None
        return self.target(Interval(low, high))[self.output]

    def _less(self, ours: Jet, goal: Interval) -> Jet:
        mid, rad = np.zeros_like(ours.mid), np.full_like(ours.rad, np.inf)
        with np.errstate(all="ignore"):  # goals may be infinite
            mid[0], rad[0] = pair_sum(ours.value, pair_between(-goal.hi, -goal.lo))
        return Jet(mid, rad, ours.shape)


def pose_against(graph: Graph, output: Form, target: Target, index: int, domain: Box) -> Problem:
    """The search over the domain itself."""
    basis = Basis(domain.dimension)
    for column in range(domain.dimension):
        basis.admit({column: ONE})
    problem = over_basis(graph, output, basis, list(range(domain.dimension)), 0.0)
    tape = problem.tape
    against = Against(tape.variables, tape.steps, tape.answer, target, index)
    return replace(problem, tape=against, exact=None)  # the target knows no balls
