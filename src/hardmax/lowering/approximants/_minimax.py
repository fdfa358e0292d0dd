"""The step that makes the largest residual least: one linear program, well scaled."""

from __future__ import annotations

import numpy as np


def minimax_step(
    matrix: np.ndarray, residual: np.ndarray, floor: float, trust: np.ndarray | None = None
) -> np.ndarray:
    """The x that minimises max |residual - matrix @ x|, or 0 if the solver gives up.

    In the basis of singular vectors and in units of max |residual|, so that the solver's
    tolerance of 1e-7 is relative to the answer. Directions with singular values below `floor`
    are left alone. Where `trust` is finite, |x| <= trust.
    """
    from scipy.optimize import linprog

    worst = float(np.abs(residual).max())
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    keep = values > max(floor, 1e-14 * values[0])
    if not (worst > 0.0 and keep.any()):
        return np.zeros(matrix.shape[1])
    size = 1.0 / np.abs(left[:, keep]).max()
    basis, back = left[:, keep] * size, right[keep].T / values[keep] * size
    r, rows, limits = residual / worst, [-basis, basis], [-residual / worst, residual / worst]
    if trust is not None:
        held = np.isfinite(trust)
        bound = back[held] * (worst / trust[held])[:, None]
        rows, limits = [*rows, bound, -bound], [*limits, np.ones(2 * int(held.sum()))]
    level = np.zeros(sum(len(part) for part in rows))
    level[: 2 * len(r)] = -1.0
    answer = linprog(
        np.append(np.zeros(basis.shape[1]), 1.0),
        A_ub=np.hstack([np.concatenate(rows), level[:, None]]),
        b_ub=np.concatenate(limits),
        bounds=[(None, None)] * basis.shape[1] + [(0.0, None)],
        method="highs",
    )
    if answer.x is None:
        return np.zeros(matrix.shape[1])
    return np.asarray(back @ answer.x[:-1] * worst)
