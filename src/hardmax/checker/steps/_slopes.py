"""Where the slopes of a step lie on its range."""

from __future__ import annotations

import numpy as np

from hardmax.checker._work import charge
from hardmax.checker.boxes import Problem, run
from hardmax.checker.steps._rows import Rejected
from hardmax.numerics import pair_between, pair_ends

_PIECES = 64  # parts of a box on which slopes are taken


def slopes_of(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Where the slopes of a problem's answer lie, from a few parts of its box."""
    k = problem.dimension
    cuts = max(1, int(_PIECES ** (1.0 / k)))
    edges = [np.linspace(a, b, cuts + 1) for a, b in zip(problem.low, problem.high, strict=True)]
    for edge, a, b in zip(edges, problem.low, problem.high, strict=True):
        edge[0], edge[-1] = a, b
    grid = np.stack([g.ravel() for g in np.meshgrid(*[np.arange(cuts)] * k, indexing="ij")])
    low = np.stack([edge[g] for edge, g in zip(edges, grid, strict=True)])
    high = np.stack([edge[g + 1] for edge, g in zip(edges, grid, strict=True)])
    charge(problem.tape.work(low.shape[1]))
    twin, _ = run(problem.tape, low, high)
    bottom, top = pair_ends(twin.box.slopes)
    middle, radius = pair_between(bottom.min(axis=1), top.max(axis=1))
    if not np.isfinite(radius).all():
        raise Rejected("The slope of a step is unbounded on its range.")
    return middle, radius
