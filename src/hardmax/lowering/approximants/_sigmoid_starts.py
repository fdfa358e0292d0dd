"""Where the search for a sum of sigmoids begins: a fixed list, the same on every run."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hardmax.lowering.approximants._projection_fit import State

Place = tuple[np.ndarray, np.ndarray]  # log steepness and centre on [-1, 1]


def starts(heads: int, u: np.ndarray, f: np.ndarray, warm: State | None, more: int) -> State:
    """Spread evenly, by curvature, towards either end, at random; and a smaller fit plus one."""
    places = [
        *_even(heads),
        *_by_curvature(heads, u, f),
        *_towards_ends(heads),
        *_pairs(heads),
        *_random(heads, more),
        *(_one_more(warm) if warm is not None else ()),
    ]
    return State.begin(np.array([p[0] for p in places]), np.array([p[1] for p in places]))


def neighbours(state: State, count: int, seed: int) -> State:
    """Shaken copies of each row in turn: a way out of a local minimum."""
    generator = np.random.default_rng(seed)
    base = state.rows(np.arange(count) % len(state.loss))
    shaken = base.moved(0.5 * generator.normal(size=(count, 2 * state.heads)))
    return State.begin(shaken.steep, shaken.centre)


def _even(heads: int) -> Iterator[Place]:
    for reach in (0.6, 1.0, 1.5):
        centre = np.linspace(-reach, reach, heads + 2)[1:-1]
        for factor in (0.5, 2.0):
            yield np.full(heads, np.log(factor * (heads + 1) / 2.0)), centre


def _by_curvature(heads: int, u: np.ndarray, f: np.ndarray) -> Iterator[Place]:
    """Centres in the density |f''|^(1/3), as steep as they are close."""
    slope = np.diff(f) / np.diff(u)
    middle = 0.5 * (u[1:] + u[:-1])
    density = np.abs(np.diff(slope)) ** (1.0 / 3.0) * np.diff(middle) ** (2.0 / 3.0)
    total = np.concatenate([[0.0], np.cumsum(density + 1e-12)])
    parts = (np.arange(heads) + 0.5) / heads
    centre = np.interp(parts, total / total[-1], middle)
    gap = np.gradient(centre) if heads > 1 else np.ones(1)
    for factor in (1.0, 3.0):
        yield np.log(factor / np.maximum(np.abs(gap), 1e-3)), centre


def _towards_ends(heads: int) -> Iterator[Place]:
    """Scales in geometric progression, for a singularity at or beyond an end."""
    steps = np.arange(heads) / max(heads - 1, 1)
    for side in (-1.0, 1.0):
        for beyond in (0.004, 0.02, 0.1, 0.4):
            steep = np.log(0.5) + steps * np.log(8.0 / beyond)
            yield steep, np.full(heads, side * (1.0 + beyond))
            distance = 2.0 * beyond**steps
            yield np.log(2.0 / distance), side * (1.0 + beyond - distance)


def _pairs(heads: int) -> Iterator[Place]:
    """Neighbours of equal steepness beyond an end: two of them make a derivative."""
    h = np.arange(heads)
    for side in (-1.0, 1.0):
        for beyond in (0.25, 0.8):
            for steepest in (1.5, 2.7):
                yield steepest - 1.8 * (h // 2), side * (1.0 + beyond + 0.15 * (h % 2))


def _random(heads: int, count: int) -> Iterator[Place]:
    generator = np.random.default_rng(heads)
    for _ in range(count):
        yield generator.uniform(-0.7, 2.5, heads), generator.uniform(-1.6, 1.6, heads)


def _one_more(warm: State) -> Iterator[Place]:
    """A smaller fit with a new sigmoid: at fixed places, and in line with the others' scales."""
    steep, centre = warm.steep[0], warm.centre[0]
    places = [(float(np.median(steep)) + 0.3, k) for k in (-1.2, -0.5, 0.0, 0.5, 1.2)]
    order = np.argsort(steep)
    s, k = steep[order], centre[order]
    places += [(s[0] - 0.8, k[0]), (s[-1] + 0.8, k[-1])]
    places += list(zip(0.5 * (s[1:] + s[:-1]), 0.5 * (k[1:] + k[:-1]), strict=True))
    for new_steep, new_centre in places:
        yield np.append(steep, new_steep), np.append(centre, new_centre)
