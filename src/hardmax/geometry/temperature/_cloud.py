"""Points and their mutual distances by matrix products, rounded to the safe side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardmax._errors import ShapeError
from hardmax.numerics import FLOAT64, TINY, gamma, inflate, up

_NEAR = 2.0**-10  # of the squared size: nearer pairs are subtracted coordinate by coordinate
_CELLS = 2**17  # distances held at once
_NUMBERS = 2**20  # numbers held at once where coordinates are subtracted


@dataclass(frozen=True, eq=False)
class Cloud:
    """For each of L heads N points; their first is moved to 0 and the largest number to about 1.

    Lemma. Let y_j be the points as stored and R = max |y_j|. The product [-2 y_i, 1].[y_j, |y_j|^2]
    plus |y_i|^2 is |y_i - y_j|^2 up to gamma_{d+4} (|y_i| + |y_j|)^2 <= 4 gamma_{d+4} R^2. Storing
    moved each point by at most 2u R (one subtraction; the scaling by a power of 2 is exact, and
    what underflows is below u R), which changes a square of at most 4 R^2 by 17u R^2 at most. So
    squares + `slack`, slack = 4 gamma_{d+9} R^2, is never below the truth. As one of the points
    is 0, the largest distance from any point is at least R/2: largest distances come out within
    a relative 16 gamma_{d+9}, however far from 0 the points lay.
    """

    points: np.ndarray  # L x N x d
    lifted: np.ndarray  # L x N x (d+1): the points and their squares
    exponent: np.ndarray  # L; the true points are 2^exponent times these
    size: np.ndarray  # L: R

    @classmethod
    def of(cls, given: np.ndarray, name: str) -> Cloud:
        with np.errstate(over="ignore", under="ignore"):
            moved = given - given[:, :1]
        if not np.isfinite(moved).all():
            raise ShapeError(f"The {name} are too far apart for float64: scale them down.")
        largest = np.abs(moved).max(axis=(1, 2), initial=0.0)
        exponent = np.frexp(largest)[1]
        with np.errstate(under="ignore"):
            points = np.ldexp(moved, -exponent[:, None, None])
            squares = np.einsum("ljd,ljd->lj", points, points)
        lifted = np.concatenate([points, squares[:, :, None]], axis=2)
        size = inflate(np.sqrt(squares.max(axis=1)), given.shape[2] + 1)
        return cls(points, lifted, exponent, size)

    @property
    def slack(self) -> np.ndarray:
        return np.asarray(inflate(4.0 * gamma(self.points.shape[2] + 9) * self.size**2))

    def squares_from(self, rows: np.ndarray, seen: int) -> np.ndarray:
        """Squared distances of the points `rows` (L x Q) to the first `seen`, rounded up."""
        chosen = np.take_along_axis(self.lifted, rows[:, :, None], axis=1)
        own = chosen[:, :, -1:] + self.slack[:, None, None]
        chosen[:, :, :-1] *= -2.0
        chosen[:, :, -1] = 1.0
        squares = chosen @ self.lifted[:, :seen].swapaxes(1, 2)
        squares += own
        return squares

    def length(self, squares: np.ndarray) -> np.ndarray:
        """True distances, rounded up, of squared ones (L x Q) as stored."""
        return self.in_own_units(up(np.sqrt(np.maximum(squares, 0.0))))

    def in_own_units(self, lengths: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", under="ignore"):
            long = np.ldexp(lengths, self.exponent[:, None])
        return np.where((lengths > 0.0) & (long < FLOAT64.normal), long + TINY, long)

    def separate(self, squares: np.ndarray, rows: np.ndarray, given: np.ndarray) -> None:
        """Replace the squares of near pairs by sharp ones, rounded up; 0 for repeated points.

        The others are at least 2^-10 R^2, so `slack` is a relative 2^12 gamma_{d+9} of them. Here
        the given coordinates are subtracted, so each square has a relative error of gamma_{d+2}. A
        coordinate whose square underflows is below the smallest normal number.
        """
        near = np.nonzero(squares <= _NEAR * self.size[:, None, None] ** 2)
        width = given.shape[2]
        step = max(1, _NUMBERS // max(1, width))
        for start in range(0, len(near[0]), step):
            head, row, other = (part[start : start + step] for part in near)
            apart = given[head, other] - given[head, rows[head, row]]
            with np.errstate(under="ignore"):
                scaled = np.ldexp(apart, -self.exponent[head][:, None])
                sharp = inflate(np.einsum("pd,pd->p", scaled, scaled), width + 2)
            lost = (apart != 0.0).any(axis=1) * FLOAT64.normal * (width + 1.0)
            squares[head, row, other] = sharp + lost

    def diameters(self, causal: bool) -> np.ndarray:
        """The largest distance of two points, L x 1; causal: of the first t+1 points, L x N."""
        heads, count, _ = self.points.shape
        step = max(1, _CELLS // (heads * count))
        farthest = np.zeros((heads, count))
        for start in range(0, count, step):
            rows = np.arange(start, min(start + step, count))
            seen = int(rows[-1]) + 1  # each pair once: the later point asks
            squares = self.squares_from(np.broadcast_to(rows, (heads, len(rows))), seen)
            np.copyto(squares, 0.0, where=np.arange(seen) >= rows[:, None])
            farthest[:, rows] = squares.max(axis=2)
        running = np.maximum.accumulate(farthest, axis=1)
        return self.length(running if causal else running[:, -1:])
