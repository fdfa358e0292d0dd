"""Noises that come together: numbers in [-1, 1] which, as a vector, lie in a ball."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hardmax.numerics import TINY, inflate, length_up, reach_of_balls

MOST_COEFFICIENTS = 20_000_000  # beyond this many, new noises go into the rest


class NoiseCounter:
    """Numbers the noises of one flow, as long as there is room for their coefficients.

    Noises are taken in groups: numbers |u_k| <= 1 that, as a vector, are no longer than R. So a
    form f reaches no further than the smaller one of sum_k |f_k| and R |f|_2, group by group; the
    second by Cauchy and Schwarz, with equality for u = R f/|f|_2 where that lies in the box.
    """

    def __init__(self, coordinates: int) -> None:
        self.most = MOST_COEFFICIENTS // max(coordinates, 1)
        self.taken = 0
        self._starts: list[int] = []
        self._lengths: list[float] = []  # R, by group
        self._origins: list[dict[int, float]] = []  # by group: whence, in parts that sum to 1
        self.sublayer = 0  # where noises are being made

    def take(self, count: int, length: float, own: float = 1.0, *inherited: float) -> int | None:
        """The number of the first of so many new noises; None if there is no room.

        They are due to this sublayer by the weight `own`, and to what the earlier groups are due to
        by those `inherited`; the weights need not sum to 1.
        """
        if self.taken + count > self.most:
            return None
        if count:
            self._starts.append(self.taken)
            self._lengths.append(length)
            self._origins.append(self._due(own, inherited))
        self.taken += count
        return self.taken - count

    def _due(self, own: float, inherited: Sequence[float]) -> dict[int, float]:
        due = {self.sublayer: own}
        for weight, origins in zip(inherited, self._origins, strict=False):
            for sublayer, part in origins.items():
                due[sublayer] = due.get(sublayer, 0.0) + weight * part
        total = sum(due.values())
        return {sublayer: part / total for sublayer, part in due.items()} if total > 0.0 else {}

    def sizes(self, forms: np.ndarray) -> list[float]:
        """How much of forms each group makes, roughly: Frobenius norms, times lengths."""
        starts = [start for start in self._starts if start < forms.shape[-1]]
        parts = np.split(forms, starts[1:], axis=-1) if starts else []
        return [
            float(np.linalg.norm(part)) * r for part, r in zip(parts, self._lengths, strict=False)
        ]

    def origins_of(self, forms: np.ndarray) -> dict[int, float]:
        """Which sublayers forms come from, in parts that sum to 1; none if there are no forms."""
        due = self._due(0.0, self.sizes(forms))
        return {sublayer: part for sublayer, part in due.items() if part > 0.0}

    def reach(self, forms: np.ndarray) -> np.ndarray:
        """How far forms of noises, along the last axis, can go."""
        noises = forms.shape[-1]
        starts = [start for start in self._starts if start < noises]
        box = np.add.reduceat(np.abs(forms), starts, axis=-1)
        squares = np.add.reduceat(np.square(forms), starts, axis=-1)
        # a square that underflows is less than the smallest number
        ball = np.sqrt(squares + noises * TINY) * self._lengths[: len(starts)]
        return np.asarray(inflate(np.minimum(box, ball).sum(axis=-1), noises + 5))

    def joint_reach(self, forms: np.ndarray) -> float:
        """The largest 2-norm of the vector that rows of forms make, at the same noises."""
        starts = [start for start in self._starts if start < forms.shape[-1]]
        blocks = np.split(forms, starts[1:], axis=1)
        lengths = self._lengths[: len(starts)]
        return min(length_up(self.reach(forms)), reach_of_balls(blocks, lengths))
