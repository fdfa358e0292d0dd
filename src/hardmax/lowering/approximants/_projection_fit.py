"""The search behind sums of sigmoids: variable projection from many starts at once."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hardmax.numerics import FAINT

STEEPEST = 11.0  # log of the steepest sigmoid on [-1, 1]


@dataclass(frozen=True, eq=False)
class State:
    """Sums of sigmoids on [-1, 1], one a row: log steepness and centre of each, coefficients."""

    steep: np.ndarray
    centre: np.ndarray
    linear: np.ndarray
    loss: np.ndarray

    @classmethod
    def begin(cls, steep: np.ndarray, centre: np.ndarray) -> State:
        return cls(steep, centre, np.zeros((len(steep), 0)), np.full(len(steep), np.inf))

    @property
    def heads(self) -> int:
        return int(self.steep.shape[-1])

    def rows(self, which: np.ndarray) -> State:
        return State(self.steep[which], self.centre[which], self.linear[which], self.loss[which])

    def best(self, count: int) -> State:
        return self.rows(np.argsort(self.loss, kind="stable")[:count])

    def beside(self, other: State) -> State:
        """The rows of both."""
        return State(
            np.concatenate([self.steep, other.steep]),
            np.concatenate([self.centre, other.centre]),
            np.concatenate([self.linear, other.linear]),
            np.concatenate([self.loss, other.loss]),
        )

    def moved(self, move: np.ndarray) -> State:
        """The same linear coefficients, other sigmoids."""
        steep = np.clip(self.steep + move[..., : self.heads], -4.0, STEEPEST)
        centre = np.clip(self.centre + move[..., self.heads :], -8.0, 8.0)
        return replace(self, steep=steep, centre=centre)


@dataclass(frozen=True, eq=False)
class Problem:
    """f on a grid of [-1, 1]; the linear terms 1, s_h, u if `linear`, u s_h if `affine`.

    The ridge adds n ridge^2 |coefficients|^2 to the sum of squares: coefficients grow to about
    the error divided by the ridge, and no further.
    """

    u: np.ndarray
    f: np.ndarray
    linear: bool
    affine: bool
    ridge: float
    weight: np.ndarray | None = None  # of each point; 1 without

    def sigmoids(self, state: State) -> np.ndarray:
        """Indexed by row, point, head."""
        z = np.exp(state.steep)[:, None] * (self.u[:, None] - state.centre[:, None])
        return np.asarray(1.0 / (1.0 + np.exp(-np.clip(z, -200.0, 200.0))))

    def columns(self, s: np.ndarray) -> np.ndarray:
        u = np.broadcast_to(self.u[:, None], (*s.shape[:-1], 1))
        parts = [np.ones_like(u), s]
        parts += [u] * self.linear
        parts += [u * s] * self.affine
        return np.concatenate(parts, axis=-1)

    def split(self, x: np.ndarray, heads: int) -> tuple[np.ndarray, ...]:
        """offset, slope, c_h, d_h."""
        slope = x[..., heads + 1] if self.linear else np.zeros(x.shape[:-1])
        d = x[..., x.shape[-1] - heads :] if self.affine else np.zeros_like(x[..., :heads])
        return x[..., 0], slope, x[..., 1 : heads + 1], d

    def residual(self, state: State) -> np.ndarray:
        columns = self.columns(self.sigmoids(state))
        return np.asarray(self.f - (columns @ state.linear[..., None])[..., 0])

    def worst(self, state: State) -> float:
        return float(np.abs(self.residual(state)).max())

    def jacobian(self, state: State, s: np.ndarray) -> np.ndarray:
        """The derivative of the sum by steepness and centre, coefficients held."""
        _, _, c, d = self.split(state.linear, state.heads)
        value = c[:, None] + d[:, None] * self.u[:, None]
        slope = value * s * (1.0 - s) * np.exp(state.steep)[:, None]
        along = slope * (self.u[:, None] - state.centre[:, None])
        return np.concatenate([along, -slope], axis=-1)


def _solved(problem: Problem, state: State) -> tuple[State, np.ndarray, np.ndarray]:
    """Least-squares coefficients, and the Gram matrix and slope of the projected residual.

    With Q an orthonormal basis of the columns (ridge rows below) the residual is (I - QQ')f, and
    Kaufman's Jacobian is (I - QQ')J: as Q'J is subtracted, coefficients follow the sigmoids.
    """
    s = problem.sigmoids(state)
    columns, f = problem.columns(s), problem.f
    if problem.weight is not None:
        columns, f = columns * problem.weight[:, None], f * problem.weight
    rows, n, count = columns.shape
    ridge = np.broadcast_to(problem.ridge * np.sqrt(n) * np.eye(count), (rows, count, count))
    full = np.concatenate([columns, ridge], axis=1)
    q, r = np.linalg.qr(full)
    x = np.linalg.solve(r, np.swapaxes(q[:, :n], 1, 2) @ f[:, None])
    residual = np.concatenate([f, np.zeros(count)])[:, None] - full @ x
    state = replace(state, linear=x[..., 0], loss=(residual[..., 0] ** 2).sum(axis=1))
    J = problem.jacobian(state, s)
    if problem.weight is not None:
        J = J * problem.weight[:, None]
    J = np.concatenate([J, np.zeros((rows, count, J.shape[2]))], axis=1)
    J = J - q @ (np.swapaxes(q, 1, 2) @ J)
    across = np.swapaxes(J, 1, 2)
    return state, across @ J, across @ residual


def descend(problem: Problem, state: State, steps: int) -> State:
    """Levenberg-Marquardt on the projected residual, all rows at once, until all stall."""
    state, gram, slope = _solved(problem, state)
    damping, stalled = np.full(len(state.loss), 1e-2), np.zeros(len(state.loss))
    for _ in range(steps):
        diagonal = np.einsum("kii->ki", gram)
        scale = diagonal + 1e-12 * diagonal.sum(axis=1, keepdims=True) + FAINT
        damped = gram + (damping[:, None] * scale)[:, None] * np.eye(gram.shape[1])
        move = np.linalg.solve(damped, slope)[..., 0]
        trial, trial_gram, trial_slope = _solved(problem, state.moved(np.clip(move, -1.0, 1.0)))
        better = trial.loss < state.loss
        stalled = np.where(trial.loss < 0.99 * state.loss, 0, stalled + 1)
        damping = np.where(better, np.maximum(damping / 6.0, 1e-15), damping * 6.0)
        if (stalled > 10).all():
            break
        rows = np.arange(len(better)) + np.where(better, len(better), 0)
        state = state.beside(trial).rows(rows)
        gram = np.where(better[:, None, None], trial_gram, gram)
        slope = np.where(better[:, None, None], trial_slope, slope)
    return state
