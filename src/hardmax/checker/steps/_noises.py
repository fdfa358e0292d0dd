"""Noises of which more is known than that each lies in [-1, 1]: groups of them lie in balls."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from hardmax.checker._budget import CALL, ENTRY, FLOPS, charge
from hardmax.numerics import TINY, inflate, length_up, reach_of_balls


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

    def _groups(self, rows: np.ndarray) -> tuple[list[np.ndarray], list[float]]:
        """The columns of each group, those of no group one by one, and their lengths."""
        listed = min(self.count, rows.shape[1])
        ends = [*(s for s in self.starts if s < listed), *range(listed, rows.shape[1] + 1)]
        parts = [rows[:, a:b] for a, b in pairwise(ends)]
        lengths = self.lengths[: len(parts)]
        return parts, [*lengths, *[1.0] * (len(parts) - len(lengths))]

    def reach(self, rows: np.ndarray) -> np.ndarray:
        """How far sum_s a_s e_s goes, for each row of numbers a_s."""
        total = np.zeros(len(rows))
        parts, lengths = self._groups(np.abs(rows))
        for part, length in zip(parts, lengths, strict=True):
            # a square that underflows is below the smallest number
            ball = np.sqrt(np.square(part).sum(axis=1) + part.shape[1] * TINY) * length
            total += np.minimum(part.sum(axis=1), ball)
        return np.asarray(inflate(total, rows.shape[1] + len(parts) + 5))

    def length(self, rows: np.ndarray) -> float:
        """The largest 2-norm of the vector of all these sums, the noises being the same in all."""
        charge(8 * CALL + 4 * ENTRY * rows.size + 64 * len(rows) ** 2 * rows.shape[1] // FLOPS)
        return min(length_up(self.reach(rows)), reach_of_balls(*self._groups(rows)))


NONE = Noises()
