"""Noises of which more is known than that each lies in [-1, 1]: groups of them lie in balls."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from hardmax.checker._budget import CALL, ENTRY, FLOPS, charge
from hardmax.numerics import TINY, inflate, length_up, reach_of_balls

_FEW = 16  # noises that are on their own


@dataclass(frozen=True, eq=False)
class Noises:
    """Noises e_s in [-1, 1], in groups one after the other, each a vector of a 2-norm R at most.

    By Cauchy and Schwarz |sum a_s e_s| is at most R |a|_2 (attained where e is proportional to a),
    and it is at most sum |a_s|: the smaller counts, group by group. Noises beyond those that are
    listed are on their own.
    """

    starts: tuple[int, ...] = ()
    lengths: tuple[float, ...] = ()  # R, by group
    count: int = 0

    def joined(self, more: int, length: float) -> Noises:
        """With one group more."""
        if not more:
            return self
        return Noises((*self.starts, self.count), (*self.lengths, length), self.count + more)

    def group_of(self, noise: int) -> int:
        """The number of the group that a noise belongs to."""
        return bisect_right(self.starts, noise) - 1

    def _listed(self, rows: np.ndarray) -> tuple[list[int], int]:
        """Where groups start in rows of numbers, and where those end."""
        listed = min(self.count, rows.shape[1])
        return [start for start in self.starts if start < listed], listed

    def _groups(self, rows: np.ndarray) -> tuple[list[np.ndarray], list[float]]:
        """The columns of each group, and their lengths; lonely noises are one group, too.

        One by one, each of them would be a ball of its own: a closer bound, and a slow one where
        there are hundreds.
        """
        starts, listed = self._listed(rows)
        ends = list(pairwise([*starts, listed]))
        parts = [rows[:, a:b] for a, b in ends if b > a + 1]
        lengths = [r for (a, b), r in zip(ends, self.lengths, strict=False) if b > a + 1]
        alone = [*(a for a, b in ends if b == a + 1), *range(listed, rows.shape[1])]
        if len(alone) <= _FEW:
            parts.extend(rows[:, k : k + 1] for k in alone)
            return parts, [*lengths, *[1.0] * len(alone)]
        return [*parts, rows[:, alone]], [*lengths, length_up(np.ones(len(alone)))]

    def reach(self, rows: np.ndarray) -> np.ndarray:
        """How far sum_s a_s e_s goes, for each row of numbers a_s."""
        sizes = np.abs(rows)
        starts, listed = self._listed(sizes)
        total = sizes[:, listed:].sum(axis=1)
        if starts:
            grouped = sizes[:, :listed]
            box = np.add.reduceat(grouped, starts, axis=1)
            squares = np.add.reduceat(np.square(grouped), starts, axis=1)
            # a square that underflows is below the smallest number
            ball = np.sqrt(squares + listed * TINY) * self.lengths[: len(starts)]
            total = total + np.minimum(box, ball).sum(axis=1)
        return np.asarray(inflate(total, rows.shape[1] + len(starts) + 5))

    def length(self, rows: np.ndarray) -> float:
        """The largest 2-norm of the vector of all these sums, the noises being the same in all."""
        charge(8 * CALL + 4 * ENTRY * rows.size + 64 * len(rows) ** 2 * rows.shape[1] // FLOPS)
        return min(length_up(self.reach(rows)), reach_of_balls(*self._groups(rows)))


NONE = Noises()
