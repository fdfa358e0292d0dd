"""Jets of a softmax mean over thousands of constant values, of which each box sees its own few."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardmax.checker.boxes._bank import FAINT_WEIGHT, FAR, gathered, hull, sides
from hardmax.checker.boxes._jets import Jet, Shape
from hardmax.checker.boxes._softmean import mean_of, weights
from hardmax.numerics import UNIT, Pair, inflate, pair_between, pair_ends, pair_radius

_MOST_NEAR = 48  # tokens: a box near more of them is too large to be worth a closer look


@dataclass(frozen=True, eq=False)
class LargeMean:
    """A softmax mean over many constant values with logits affine in the search variables.

    logits = slopes @ u + offsets, the first token being the reference, whose logit and value are
    0. In each box logits are taken relative to those of the box's own winner, whose slopes the
    neighbours nearly share, and only tokens that can come within e^-80 of it are followed. The
    others weigh at most n e^-80 together; with all values within `spread` of each other and all
    logits' slopes within g they change the mean by that times spread, its slopes by 4 g spread,
    its curvatures by 16 g^2 spread (each w_j is changed by at most that much, and o, m with it).
    """

    slopes: np.ndarray  # tokens x variables
    offsets: np.ndarray  # tokens
    values: np.ndarray  # tokens

    @classmethod
    def beside(cls, slopes: np.ndarray, offsets: np.ndarray, values: np.ndarray) -> LargeMean:
        """Tokens given relative to a reference, which is put before them."""
        first = np.zeros((1, slopes.shape[1]))
        return cls(
            np.concatenate([first, slopes]),
            np.concatenate([[0.0], offsets]),
            np.concatenate([[0.0], values]),
        )

    @property
    def cost(self) -> int:
        return 128

    @property
    def members(self) -> int:
        """Gates or tokens, all of which are looked at for each batch of boxes."""
        return len(self.offsets)

    def twin(self, variables: list[tuple[Jet, Jet]]) -> tuple[Jet, Jet]:
        """At the middles of the boxes, which are neighbours, and over the boxes."""
        middle, reach = sides(variables)
        close, winner, small = self._close(middle, reach)
        if small.all():
            return self._both(close, winner, middle, reach)
        jets = self._unknown(middle, 1), self._unknown(middle, 2)
        if small.any():
            close, winner = close[:, small], winner[small]
            known = self._both(close, winner, middle[:, small], reach[:, small])
            for jet, inner in zip(jets, known, strict=True):
                jet.mid[:, small], jet.rad[:, small] = inner.mid, inner.rad
        return jets

    def _both(
        self, close: np.ndarray, winner: np.ndarray, middle: np.ndarray, reach: np.ndarray
    ) -> tuple[Jet, Jet]:
        at_points = self._jet(close, winner, middle, 0.0 * reach, 1)
        return at_points, self._jet(close, winner, middle, reach, 2)

    def _unknown(self, middle: np.ndarray, order: int) -> Jet:
        """Of a large box: the mean lies between the values."""
        shape = Shape(len(middle), order)
        mid = np.zeros((shape.components, middle.shape[1]))
        rad = np.full_like(mid, np.inf)
        low, high = self.values.min(), self.values.max()
        middle, around = pair_between(low, high)
        mid[0], rad[0] = middle, pair_radius(around, max(-low, high), 1)  # a value is rounded
        return Jet(mid, rad, shape)

    def _close(
        self, middle: np.ndarray, reach: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For each box the tokens (some x boxes) near its winner, that one, and if they are few.

        Boxes with fewer than others are filled up with -1, which is no token.
        """
        nearby = self._nearby(middle, reach)
        winner = nearby[self._at(nearby, middle).argmax(axis=0)]
        near = pair_ends(self._logits(nearby[:, None], winner, middle, reach))[1] >= -FAR
        small = near.sum(axis=0) <= _MOST_NEAR
        close = gathered(near & small, nearby)
        return close, winner, small

    def _nearby(self, middle: np.ndarray, reach: np.ndarray) -> np.ndarray:
        """Tokens that may come near some winner somewhere in the hull of all boxes.

        A token that is far behind the winner at the hull's middle everywhere in the hull is far
        behind any winner.
        """
        centre, around = hull(middle, reach)
        everyone = np.arange(len(self.offsets))
        winner = self._at(everyone, centre).argmax(axis=0)
        top = pair_ends(self._logits(everyone[:, None], winner, centre, around))[1]
        return np.flatnonzero(top[:, 0] >= -FAR)

    def _at(self, tokens: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Logits at points, roughly: to choose a winner by."""
        return np.asarray(self.slopes[tokens] @ points + self.offsets[tokens][:, None])

    def _logits(
        self, tokens: np.ndarray, winner: np.ndarray, middle: np.ndarray, reach: np.ndarray
    ) -> Pair:
        """Of tokens (some x boxes, or x 1) relative to the winners.

        Each of k terms is rounded with its coefficients, as a difference, as a product, and in
        up to k sums.
        """
        mid = self.offsets[tokens] - self.offsets[winner]
        size = np.abs(self.offsets[tokens]) + np.abs(self.offsets[winner])
        wide = np.zeros_like(size)
        for slope, m, r in zip(self.slopes.T, middle, reach, strict=True):
            away, steep = slope[tokens] - slope[winner], np.abs(slope[tokens])
            mid = mid + away * m
            size = size + (steep + np.abs(slope[winner])) * (np.abs(m) + r)
            wide = wide + np.abs(away) * r
        return mid, pair_radius(wide, size, len(middle) + 4)

    def _jet(
        self,
        close: np.ndarray,
        winner: np.ndarray,
        middle: np.ndarray,
        reach: np.ndarray,
        order: int,
    ) -> Jet:
        k, boxes = middle.shape
        shape = Shape(k, order)
        full = (len(close), shape.components, boxes)
        logits, values = (np.zeros(full), np.zeros(full)), (np.zeros(full), np.zeros(full))
        none = close < 0
        mid, rad = self._logits(close, winner, middle, reach)
        logits[0][:, 0] = np.where(none, -2 * FAR, mid)
        logits[1][:, 0] = np.where(none, 0.0, rad)
        steep, best = self.slopes[close].transpose(0, 2, 1), self.slopes[winner].T
        logits[0][:, 1 : 1 + k] = np.where(none[:, None], 0.0, steep - best)
        rounding = pair_radius(0.0 * steep, np.abs(steep) + np.abs(best), 2)
        logits[1][:, 1 : 1 + k] = np.where(none[:, None], 0.0, rounding)
        heights = np.where(none, 0.0, self.values[close])
        values[0][:, 0], values[1][:, 0] = heights, np.abs(heights) * UNIT
        share = weights(*pair_ends((logits[0][:, 0], logits[1][:, 0])))
        return self._leaking(mean_of(share, logits, values, shape), k)

    def _leaking(self, jet: Jet, k: int) -> Jet:
        """Tokens that were not followed, and those that are none, weigh e^-80 each at most.

        A leak takes four roundings, and the sum one more.
        """
        share = (len(self.offsets) + _MOST_NEAR) * FAINT_WEIGHT
        spread = 2.0 * np.abs(self.values).max()
        steep = 2.0 * np.abs(self.slopes).max()
        leak = np.full(len(jet.rad), 16 * share * spread * steep**2)
        leak[0], leak[1 : 1 + k] = share * spread, 4 * share * spread * steep
        return Jet(jet.mid, inflate(jet.rad + leak[:, None], 5), jet.shape)
