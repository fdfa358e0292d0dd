"""Which key wins at a query: by climbing the diagram's own neighbours.

A cell is cut out by the walls to its neighbours alone. So a key that scores at least as much as
each of its neighbours wins, and a key that does not has a better neighbour: climbing ends at a
winner, for the score rises with every step. It begins at the best of some landmarks, about the cube
root of all keys, from which a few steps are left in the plane and in space.

Floats are believed where the winner leads its neighbours by more than rounding can be. With |k| and
|b| at most m, a score of d products is off by at most gamma_{d+3} m (1 + |q|_1): d + 1 roundings of
each term, and two more where query and key are no floats themselves. What is closer is decided in
Fractions, among the keys that floats leave open.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from hardmax.geometry.hulls._points import Points
from hardmax.numerics import GROWN, TINY, gamma, product_up

_ROWS = 2**22  # entries of one block of scores


@dataclass(frozen=True, eq=False)
class Locator:
    """The winners of a diagram, who borders on whom, and all keys for what is too close to call.

    `cells` are keys, one for each cell; `walls` pairs of places among them.
    """

    keys: Points
    levels: Points
    cells: np.ndarray
    walls: np.ndarray

    @cached_property
    def _across(self) -> tuple[np.ndarray, np.ndarray]:
        pairs = np.concatenate([self.walls, self.walls[:, ::-1]])
        pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
        begin = np.searchsorted(pairs[:, 0], np.arange(len(self.cells) + 1))
        return begin, np.ascontiguousarray(pairs[:, 1])

    @cached_property
    def _landmarks(self) -> np.ndarray:
        count = len(self.cells)
        some = min(count, 2 * round(count ** (1 / 3)) + 1)
        return np.random.default_rng(0).choice(count, some, replace=False)

    @cached_property
    def _spare(self) -> float:
        largest = max(np.abs(self.keys.floats).max(), np.abs(self.levels.floats).max())
        roundings = self.keys.dimension + 4  # the last one for the difference of the scores
        return float(product_up(2.0 * gamma(roundings), largest) + 2.0 * TINY)

    def winners(self, asked: Points) -> np.ndarray:
        """For each query the first key of those with the largest score."""
        from hardmax.geometry.diagrams._locating_kernels import Cells, climb

        keys = np.ascontiguousarray(self.keys.floats[self.cells])
        levels = np.ascontiguousarray(self.levels.floats[self.cells, 0])
        cells = Cells(keys, levels, *self._across, self._landmarks)
        places, sure = climb(cells, np.ascontiguousarray(asked.floats), self._spare)
        winners = self.cells[places]
        unsure = np.flatnonzero(~sure)
        step = max(1, _ROWS // len(self.keys))
        for start in range(0, len(unsure), step):
            rows = unsure[start : start + step]
            winners[rows] = self._winners_exactly(asked.take(rows))
        return np.asarray(winners)

    def _winners_exactly(self, asked: Points) -> np.ndarray:
        """The same among all keys, exactly; floats that overflow leave everything open."""
        from hardmax.geometry.diagrams._locating_kernels import FAR

        queries = asked.floats
        with np.errstate(over="ignore", invalid="ignore"):
            scores = queries @ self.keys.floats.T + self.levels.floats[:, 0]
            lost = 2.0 * (queries.shape[1] + 2) * TINY  # by products that underflow
            doubt = self._spare * (1.0 + np.abs(queries).sum(axis=1)) * GROWN + lost
            behind = scores < scores.max(axis=1, keepdims=True) - doubt[:, None]
            open_ = ~(behind & (doubt < FAR)[:, None])
        exact = asked.rationals().tolist()
        return np.array(
            [self._first(q, np.flatnonzero(row)) for q, row in zip(exact, open_, strict=True)]
        )

    def _first(self, query: list[Fraction], candidates: np.ndarray) -> int:
        if len(candidates) == 1:
            return int(candidates[0])
        keys = self.keys.rationals(candidates).tolist()
        levels = self.levels.rationals(candidates)[:, 0].tolist()
        scores = [
            sum((a * b for a, b in zip(query, key, strict=True)), level)
            for key, level in zip(keys, levels, strict=True)
        ]
        return int(candidates[scores.index(max(scores))])
