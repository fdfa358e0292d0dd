"""From least squares to minimax: a sequence of linear programs in a trust region."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hardmax.lowering.approximants._minimax import minimax_step
from hardmax.lowering.approximants._projection_fit import Problem, State


def levelled(problem: Problem, state: State, rounds: int) -> State:
    """One sum of sigmoids (a State of one row) whose largest |residual| is locally least.

    Each round minimises the largest |residual| of the linearised sum with steepness and centres
    confined to a trust region, and is kept if the true residual shrank, too. Directions that move
    the sum by less than the ridge are left alone, so coefficients stay moderate.
    """
    worst, trust = problem.worst(state), 0.1
    for _ in range(rounds):
        trial = _programme(problem, state, trust)
        found = problem.worst(trial)
        if found < worst:
            gain, worst, state, trust = worst - found, found, trial, 2.0 * trust
            if gain < 2e-3 * worst:
                break
        else:
            trust /= 4.0
        if trust < 1e-6:
            break
    return state


def _programme(problem: Problem, state: State, trust: float) -> State:
    """The state that one linear program proposes."""
    s = problem.sigmoids(state)
    columns, J = problem.columns(s)[0], problem.jacobian(state, s)[0]
    count = columns.shape[1]
    step = minimax_step(
        np.concatenate([columns, J], axis=1),
        problem.residual(state)[0],
        problem.ridge * float(np.sqrt(len(columns))),
        np.concatenate([np.full(count, np.inf), np.full(J.shape[1], trust)]),
    )
    return replace(state.moved(step[None, count:]), linear=state.linear + step[:count])
