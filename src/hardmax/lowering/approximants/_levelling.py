"""From least squares to minimax: by linear programs in a trust region, or by weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hardmax.lowering.approximants._minimax import minimax_step
from hardmax.lowering.approximants._projection_fit import Problem, State, descend

_LEAST = 0.02  # a point that is met exactly keeps this much of its weight, and may come back


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


def levelled_by_weights(problem: Problem, state: State, rounds: int) -> State:
    """One sum of sigmoids whose largest |residual| is smaller: Lawson's iteration.

    Weighted least squares, where every round multiplies the square of a point's weight by its
    |residual|: at a fixed point all points that keep a weight have the same |residual|, and those
    that lose it have less, which is the minimax fit. A few short descents a round, all of them
    cheap: for 13 heads a tenth of what the linear programs take. No round is trusted, and the best
    is kept.
    """
    best, weight = state, np.ones(len(problem.u))
    for _ in range(rounds):
        left = np.abs(problem.residual(state)[0])
        weight = weight * np.sqrt(_LEAST + left / (left.max() or 1.0))
        weight = weight / np.sqrt((weight**2).mean())
        state = descend(replace(problem, weight=weight), state, 5)
        best = min(best, state, key=problem.worst)
    return best
