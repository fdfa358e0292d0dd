"""How far held values are from the target's, remembering where that comes from.

The deviation of a variable is  mean + sum_s noise_s e_s + rest,  |e_s| <= 1, |rest| <= radius:
every soft maximum makes one noise e_s, and what two variables inherit from it cancels where it
should.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardmax.checker._work import CALL, ENTRY, FLOPS, charge
from hardmax.numerics import MidRadius, down, inflate, pair_between, pair_radius, up


@dataclass(frozen=True, eq=False)
class Deviations:
    """Rows of deviations."""

    mean: np.ndarray  # rows
    noise: np.ndarray  # rows x noises
    radius: np.ndarray  # rows

    @classmethod
    def none(cls, rows: int = 0) -> Deviations:
        return cls(np.zeros(rows), np.zeros((rows, 0)), np.zeros(rows))

    @property
    def reach(self) -> np.ndarray:
        """How far they go from the mean."""
        spread = np.abs(self.noise).sum(axis=1) + self.radius
        return np.asarray(inflate(spread, self.noise.shape[1] + 1))

    @property
    def low(self) -> np.ndarray:
        return np.asarray(down(self.mean - self.reach))

    @property
    def high(self) -> np.ndarray:
        return np.asarray(up(self.mean + self.reach))

    @property
    def size(self) -> np.ndarray:
        return np.maximum(np.abs(self.low), np.abs(self.high))

    def padded(self, noises: int) -> Deviations:
        more = noises - self.noise.shape[1]
        if not more:
            return self
        return Deviations(self.mean, np.pad(self.noise, ((0, 0), (0, more))), self.radius)

    def __getitem__(self, rows: np.ndarray) -> Deviations:
        return Deviations(self.mean[rows], self.noise[rows], self.radius[rows])

    def joined(self, *others: Deviations) -> Deviations:
        """More rows."""
        noises = max(d.noise.shape[1] for d in (self, *others))
        every = [d.padded(noises) for d in (self, *others)]
        charge(4 * CALL + ENTRY * sum(d.noise.size for d in every))
        return Deviations(
            np.concatenate([d.mean for d in every]),
            np.concatenate([d.noise for d in every]),
            np.concatenate([d.radius for d in every]),
        )

    def combined(self, matrix: np.ndarray) -> Deviations:
        """matrix @ deviations, for a matrix whose entries were rounded up to three times.

        Means and noises alike stray by the roundings of n products: by as many units of all that
        the deviations can be.
        """
        charge(8 * CALL + matrix.size * (4 * ENTRY + self.noise.shape[1] // FLOPS))
        weights = np.abs(matrix)
        size = weights @ (np.abs(self.mean) + self.reach)
        radius = pair_radius(weights @ self.radius, size, len(self.mean) + 4)
        return Deviations(matrix @ self.mean, matrix @ self.noise, radius)

    def shifted(self, middle: np.ndarray, radius: np.ndarray) -> Deviations:
        """Plus something within `radius` of `middle`."""
        mean, rest = MidRadius(self.mean, self.radius).plus(MidRadius(middle, radius))
        return Deviations(mean, self.noise, rest)

    def scaled(self, middle: np.ndarray, radius: np.ndarray) -> Deviations:
        """Times factors within `radius` of `middle`."""
        size, steep = self.size, np.abs(middle)
        rest = pair_radius(steep * self.radius + radius * size, steep * size, 2)
        return Deviations(self.mean * middle, self.noise * middle[:, None], rest)

    def combined_rows(self) -> Deviations:
        """The sum of all rows."""
        return self.combined(np.ones((1, len(self.mean))))

    def plus(self, other: Deviations) -> Deviations:
        """Row by row."""
        noises = max(self.noise.shape[1], other.noise.shape[1])
        a, b = self.padded(noises), other.padded(noises)
        rest = pair_radius(a.radius + b.radius, a.size + b.size, 2)
        return Deviations(a.mean + b.mean, a.noise + b.noise, rest)

    def settled(self, noises: int) -> Deviations:
        """Of a single variable: what is left over becomes a noise that its readers share."""
        kept = self.padded(noises)
        if not self.radius[0] > 0.0:
            return kept
        own = np.concatenate([kept.noise, self.radius[:, None]], axis=1)
        return Deviations(self.mean, own, np.zeros(1))


def of_maximum(parts: list[Deviations], active: np.ndarray) -> Deviations:
    """max_t (Q_t + d_t) - max_t Q_t, row by row, over the active t (parts x rows).

    It is sum_t l_t d_t with l_t >= 0, sum l_t = 1: a maximum is a convex, monotone function that
    moves by c when everything does. So it lies in the hull of the d_t; and also in m plus the
    hull of the d_t - m, for any m: with m the mean of the noises of all active parts, what they
    share passes through. The narrower is taken, row by row. For a rectifier, d and 0, they are
    equally wide, and the second keeps half of the noise.
    """
    noises = max(p.noise.shape[1] for p in parts)
    parts = [p.padded(noises) for p in parts]
    charge(16 * CALL + 16 * ENTRY * sum(p.noise.size for p in parts))
    low = np.where(active, [p.low for p in parts], np.inf).min(axis=0)
    high = np.where(active, [p.high for p in parts], -np.inf).max(axis=0)
    count = np.maximum(active.sum(axis=0), 1)
    shared = sum(np.where(on[:, None], p.noise, 0.0) for on, p in zip(active, parts, strict=True))
    shared = shared / count[:, None]
    apart = [_less(p, shared) for p in parts]
    low_apart = np.where(active, [p.low for p in apart], np.inf).min(axis=0)
    high_apart = np.where(active, [p.high for p in apart], -np.inf).max(axis=0)
    reach = np.abs(shared).sum(axis=1)
    kept = (high_apart - low_apart) / 2 + reach <= (high - low) / 2 * (1 + 1e-9)
    low, high = np.where(kept, low_apart, low), np.where(kept, high_apart, high)
    mean, radius = pair_between(low, high)
    return Deviations(mean, np.where(kept[:, None], shared, 0.0), radius)


def _less(part: Deviations, noise: np.ndarray) -> Deviations:
    """Less so much of each noise; the differences are rounded."""
    left = part.noise - noise
    rest = pair_radius(part.radius, np.abs(left).sum(axis=1), noise.shape[1] + 1)
    return Deviations(part.mean, left, rest)
