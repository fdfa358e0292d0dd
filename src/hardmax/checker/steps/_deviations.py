"""How far rows may be off, with common noises that cancel, and maxima of such rows.

The deviation of a variable from the target's value is  mean + sum_s noise_s e_s + rest,
|e_s| <= 1, |rest| <= radius: every soft maximum makes one noise e_s, and what two variables inherit
from it cancels where it should. The noises of soft maxima that were found together lie in a ball
(`Noises`): what a layer of maxima does to deviations beyond averaging them is a short vector,
while intervals would add its coordinates up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hardmax.checker._budget import CALL, ENTRY, FLOPS, charge
from hardmax.checker.steps._noises import NONE, Noises
from hardmax.numerics import (
    MidRadius,
    down,
    inflate,
    length_up,
    pair_between,
    pair_radius,
    stray,
    up,
)

_NO_WIDER = 1.01  # what it may cost to keep noises, which cancel later on


@dataclass(frozen=True, eq=False)
class LeftOver:
    """The rests of all rows, once more: something within `radius` of 0, plus numbers beside it.

    The square of the number beside it is at most the sum of the squares of what its parts make of
    the noises.
    """

    radius: np.ndarray  # rows
    parts: np.ndarray  # several x rows x noises
    rises: np.ndarray  # rows that are M + s, M >= 0, with s in an interval about 0 (`Verified`)


@dataclass(frozen=True, eq=False)
class Deviations:
    """Rows of deviations."""

    mean: np.ndarray  # rows
    noise: np.ndarray  # rows x noises
    radius: np.ndarray  # rows
    noises: Noises = NONE  # which of them lie in a ball together
    left: LeftOver | None = None
    copied: np.ndarray | None = None  # rows: the noise that copies may have, too, or -1

    @classmethod
    def none(cls, rows: int = 0) -> Deviations:
        return cls(np.zeros(rows), np.zeros((rows, 0)), np.zeros(rows))

    @property
    def reach(self) -> np.ndarray:
        """How far they go from the mean."""
        return np.asarray(inflate(self.noises.reach(self.noise) + self.radius, 1))

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
        return replace(self, noise=np.pad(self.noise, ((0, 0), (0, more))))

    def __getitem__(self, rows: np.ndarray) -> Deviations:
        copied = None if self.copied is None else self.copied[rows]
        return Deviations(
            self.mean[rows], self.noise[rows], self.radius[rows], self.noises, copied=copied
        )

    def only(self, rows: np.ndarray) -> Deviations:
        """Some of the rows, each of them once: what is left over of these is no longer."""
        left = self.left
        if left is not None:
            left = LeftOver(left.radius[rows], left.parts[:, rows], left.rises[rows])
        return replace(self[rows], left=left)

    def joined(self, *others: Deviations) -> Deviations:
        """More rows."""
        noises = max(d.noise.shape[1] for d in (self, *others))
        every = [d.padded(noises) for d in (self, *others)]
        charge(4 * CALL + ENTRY * sum(d.noise.size for d in every))
        return Deviations(
            np.concatenate([d.mean for d in every]),
            np.concatenate([d.noise for d in every]),
            np.concatenate([d.radius for d in every]),
            latest(*every),
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
        return Deviations(matrix @ self.mean, matrix @ self.noise, radius, self.noises)

    def shifted(self, middle: np.ndarray, radius: np.ndarray) -> Deviations:
        """Plus something within `radius` of `middle`."""
        more = MidRadius(middle, radius)
        mean, rest = MidRadius(self.mean, self.radius).plus(more)
        left = self.left
        if left is not None:
            left = replace(left, radius=MidRadius(self.mean, left.radius).plus(more)[1])
        return Deviations(mean, self.noise, rest, self.noises, left)

    def negated(self, where: np.ndarray) -> Deviations:
        """Rows with their signs changed, where it says so."""
        sign = np.where(where, -1.0, 1.0)
        return replace(self, mean=self.mean * sign, noise=self.noise * sign[:, None])

    def scaled(self, middle: np.ndarray, radius: np.ndarray) -> Deviations:
        """Times factors within `radius` of `middle`."""
        size, steep = self.size, np.abs(middle)
        rest = pair_radius(steep * self.radius + radius * size, steep * size, 2)
        return Deviations(self.mean * middle, self.noise * middle[:, None], rest, self.noises)

    def combined_rows(self) -> Deviations:
        """The sum of all rows."""
        return self.combined(np.ones((1, len(self.mean))))

    def plus(self, other: Deviations) -> Deviations:
        """Row by row."""
        noises = max(self.noise.shape[1], other.noise.shape[1])
        a, b = self.padded(noises), other.padded(noises)
        rest = pair_radius(a.radius + b.radius, a.size + b.size, 2)
        return Deviations(a.mean + b.mean, a.noise + b.noise, rest, latest(a, b))

    def settled(self, noises: Noises) -> tuple[Deviations, Noises]:
        """What is left over becomes a noise for each row, which all who read it share.

        Also says which noises there are from now on: together the new ones lie in a ball.
        """
        kept = self.padded(noises.count)
        moving = np.flatnonzero(self.radius > 0.0)
        noises = noises.joined(len(moving), self._length(moving))
        own = np.zeros((len(self.mean), len(moving)))
        own[moving, np.arange(len(moving))] = self.radius[moving]
        noise = np.concatenate([kept.noise, own], axis=1)
        copied = np.full(len(self.mean), -1)
        if self.left is not None:
            copied[moving] = np.arange(kept.noise.shape[1], noise.shape[1])
            copied[~self.left.rises] = -1
        settled = Deviations(self.mean, noise, np.zeros(len(self.mean)), noises, copied=copied)
        return settled, noises

    def _length(self, rows: np.ndarray) -> float:
        """The 2-norm of what is left over in these rows, each in units of its radius."""
        length = length_up(np.ones(len(rows)))
        if self.left is None or not len(rows):
            return length
        unit = self.radius[rows]
        parts = (self.left.parts[:, rows] / unit[:, None]).reshape(-1, self.noise.shape[1])
        rounded = stray(1, length_up(self.noises.reach(parts)))  # the quotients
        around = length_up(inflate(self.left.radius[rows] / unit, 1))
        return min(length, float(inflate(around + self.noises.length(parts) + rounded, 2)))


def latest(*deviations: Deviations) -> Noises:
    """Of noises that were added one after the other, those of whoever knows most."""
    return max((d.noises for d in deviations), key=lambda noises: noises.count)


def of_maximum(parts: list[Deviations], active: np.ndarray) -> Deviations:
    """max_t (Q_t + d_t) - max_t Q_t, row by row, over the active t (parts x rows).

    It is sum_t l_t d_t with l_t >= 0, sum l_t = 1: a maximum is a convex, monotone function that
    moves by c when everything does. So it lies in the hull of the d_t; and also in m plus the
    hull of the d_t - m, for any m: with m the mean of the noises of all active parts, what they
    share passes through. The narrower is taken, row by row, but for a hundredth: for a rectifier, d
    and 0, they are equally wide up to rounding, and the second keeps half of the noise.

    What is left over is known as a vector over all rows, too: see `_left_over`.
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
    known = latest(*parts)
    reach = known.reach(shared)
    kept = (high_apart - low_apart) / 2 + reach <= (high - low) / 2 * _NO_WIDER
    low, high = np.where(kept, low_apart, low), np.where(kept, high_apart, high)
    mean, radius = pair_between(low, high)
    shared = np.where(kept[:, None], shared, 0.0)
    left = _left_over(parts, active, kept, shared, mean) if noises else None
    return Deviations(mean, shared, radius, known, left)


def _left_over(
    parts: list[Deviations],
    active: np.ndarray,
    kept: np.ndarray,
    shared: np.ndarray,
    mean: np.ndarray,
) -> LeftOver:
    """sum_t l_t d_t - mean - shared, for all rows together: rests, and numbers made of noises.

    Let x_t be what is left of the noises of part t, k parts being active. If the mean was taken
    away, they sum to 0, so that x_t^2 <= (k - 1) sum_{s != t} x_s^2, that is

        max_t x_t^2  <=  (k - 1)/k  sum_t x_t^2;

    otherwise it is at most the whole sum. The square of sum_t l_t x_t is at most max_t x_t^2, by
    convexity. So it is at most the sum of the squares of all sqrt((k - 1)/k) x_t; for a rectifier
    that is d^2/4.
    """
    count = active.sum(axis=0)
    share = np.where(kept, np.sqrt(np.maximum(count - 1, 0) / np.maximum(count, 1)), 1.0)
    left = [(p.noise - shared) * (share * on)[:, None] for p, on in zip(parts, active, strict=True)]
    # of each number: the mean of the parts, the difference, the root and the product are rounded
    size = sum(np.where(on, p.reach, 0.0) for p, on in zip(parts, active, strict=True))
    rounded = stray(len(parts) + 8, size)
    low = np.where(active, [p.mean - p.radius for p in parts], np.inf).min(axis=0)
    high = np.where(active, [p.mean + p.radius for p in parts], -np.inf).max(axis=0)
    radius = np.maximum(up(up(high) - mean), up(mean - down(low)))
    still = np.zeros(len(mean), dtype=bool)
    return LeftOver(up(np.maximum(radius, 0.0) + rounded), np.stack(left), still)


def _less(part: Deviations, noise: np.ndarray) -> Deviations:
    """Less so much of each noise; the differences are rounded."""
    left = part.noise - noise
    rest = pair_radius(part.radius, np.abs(left).sum(axis=1), noise.shape[1] + 1)
    return Deviations(part.mean, left, rest, part.noises)
