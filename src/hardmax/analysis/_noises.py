"""Noises that come together: numbers in [-1, 1] which, as a vector, lie in a ball."""

from __future__ import annotations

import numpy as np

from hardmax.numerics import TINY, inflate, length_up, reach_of_balls, stray

MOST_COEFFICIENTS = 20_000_000  # beyond this many, new noises go into the rest


class NoiseCounter:
    """Numbers the noises of one flow, as long as there is room for their coefficients.

    Noises are taken in groups. Noise k of a group stands for something of size r_k at most, and all
    of them together for a vector no longer than R: |u_k| <= 1, and sum_k (r_k u_k)^2 <= R^2. So a
    form f reaches no further than the smaller one of sum_k |f_k| and |(f_k R/r_k)_k|_2, group by
    group; the second by Cauchy and Schwarz, with equality for u_k ~ f_k / r_k^2.
    """

    def __init__(self, coordinates: int) -> None:
        self.most = MOST_COEFFICIENTS // max(coordinates, 1)
        self.taken = 0
        self._starts: list[int] = []
        self._stretch = np.zeros(0)  # R/r_k, by noise

    def take(self, radii: np.ndarray, norm: float) -> int | None:
        """The number of the first of a group of new noises; None if there is no room."""
        count = len(radii)
        if self.taken + count > self.most:
            return None
        if count:
            self._starts.append(self.taken)
            stretch = inflate(norm / np.where(radii > 0.0, radii, np.inf), 1)
            self._stretch = np.concatenate([self._stretch, stretch])
        self.taken += count
        return self.taken - count

    def _groups(self, noises: int) -> tuple[list[int], np.ndarray]:
        """Where groups start among the first noises, and their stretch."""
        return [start for start in self._starts if start < noises], self._stretch[:noises]

    def reach(self, forms: np.ndarray) -> np.ndarray:
        """How far forms of noises, along the last axis, can go."""
        noises = forms.shape[-1]
        starts, stretch = self._groups(noises)
        box = np.add.reduceat(np.abs(forms), starts, axis=-1)
        squares = np.add.reduceat(np.square(forms * stretch), starts, axis=-1)
        # a square that underflows is less than the smallest number
        ball = np.sqrt(squares + noises * TINY)
        return np.asarray(inflate(np.minimum(box, ball).sum(axis=-1), noises + 4))

    def joint_reach(self, forms: np.ndarray) -> float:
        """The largest 2-norm of the vector that rows of forms make, at the same noises."""
        noises = forms.shape[-1]
        apart = length_up(self.reach(forms))
        starts, stretch = self._groups(noises)
        blocks = np.split(forms * stretch, starts[1:], axis=1)
        sizes = np.sqrt([np.square(block).sum() + block.size * TINY for block in blocks])
        rounded = stray(1, inflate(float(sizes.sum()), forms.size + 4))  # the products with stretch
        return min(apart, float(inflate(reach_of_balls(blocks) + rounded, 1)))
