"""Jets of a sum of thousands of gates or rectifiers, of which each box sees its own few switch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardmax.checker.boxes._jets import Jet, Shape, compose, product
from hardmax.numerics import (
    FEW,
    UNIT,
    Interval,
    Pair,
    exp,
    inflate,
    pair_between,
    pair_ends,
    pair_radius,
    rectifier_curve,
    sigmoid_curve,
)

FAR = 80.0  # a gate whose logit stays so far from 0 in a box is open or shut up to e^-80
FAINT_WEIGHT = float(exp(Interval.point(-FAR)).hi)
_MOST_SWITCHING = 64  # gates: a box where more of them switch is too large for a closer look


@dataclass(frozen=True, eq=False)
class AffineRows:
    """Rows of slopes @ u + offset, their coefficients rounded to nearest."""

    slopes: np.ndarray  # rows x variables
    offsets: np.ndarray

    def on(self, rows: np.ndarray, middle: np.ndarray, reach: np.ndarray) -> Pair:
        """Rows (some x boxes, or x 1) on the boxes.

        Each of k terms is rounded with its coefficient, as a product, and in up to k sums.
        """
        mid = self.offsets[rows] + np.zeros(middle.shape[1])
        size, wide = np.abs(self.offsets[rows]), np.zeros_like(mid)
        for slope, m, r in zip(self.slopes.T, middle, reach, strict=True):
            steep = slope[rows]
            mid = mid + steep * m
            size = size + np.abs(steep) * (np.abs(m) + r)
            wide = wide + np.abs(steep) * r
        return mid, pair_radius(wide, size, len(middle) + 3)

    def jet(self, rows: np.ndarray, middle: np.ndarray, reach: np.ndarray, order: int) -> Jet:
        """The same as jets: components x (some * boxes)."""
        k = len(middle)
        shape = Shape(k, order)
        mid = np.zeros((shape.components, rows.size))
        rad = np.zeros_like(mid)
        value = self.on(rows, middle, reach)
        mid[0], rad[0] = value[0].ravel(), value[1].ravel()
        steep = self.slopes[rows.ravel()].T
        mid[1 : 1 + k], rad[1 : 1 + k] = steep, np.abs(steep) * UNIT
        return Jet(mid, rad, shape)

    def largest(self, middle: np.ndarray, reach: np.ndarray) -> float:
        """All rows' absolute values on all boxes are at most this, but for k + 3 roundings."""
        far = (np.abs(middle) + reach).max(axis=1)
        sizes = np.abs(self.slopes) @ far + np.abs(self.offsets)
        return float(sizes.max())


@dataclass(frozen=True, eq=False)
class Bank:
    """sum_i sigmoid(logit_i) value_i, or sum_i [logit_i > 0] value_i if it is hard.

    Logits and values are affine in the search variables; a hard bank is one of rectifiers, where
    values vanish together with their logits. In each box a gate is shut, open (its value is
    added as it is), or one of the few that switch. What is open or shut up to e^-80 leaks: with
    |value| <= V, slopes of values within S and of logits within g, n gates add at most n e^-80
    times V to the sum, g V + S to its slopes, g^2 V + 2 g S to its curvatures.
    """

    logits: AffineRows
    values: AffineRows
    is_hard: bool

    @property
    def cost(self) -> int:
        return 128

    @property
    def members(self) -> int:
        """Gates or tokens, all of which are looked at for each batch of boxes."""
        return len(self.logits.offsets)

    def twin(self, variables: list[tuple[Jet, Jet]]) -> tuple[Jet, Jet]:
        """At the middles of the boxes, which are neighbours, and over the boxes."""
        middle, reach = sides(variables)
        everyone = np.arange(len(self.logits.offsets))
        shut, switching = self._states(everyone, *hull(middle, reach))
        nearby = everyone[switching[:, 0]]
        certain = everyone[~(shut | switching)[:, 0]]
        shut, switching = self._states(nearby, middle, reach)
        count = switching.sum(axis=0)
        close = gathered(switching & (count <= _MOST_SWITCHING), nearby)
        opened = self._opened(certain, nearby, ~(shut | switching))
        jets = tuple(
            self._jet(opened, close, middle, r, order)
            for order, r in ((1, 0.0 * reach), (2, reach))
        )
        for jet in jets:
            jet.rad[:, count > _MOST_SWITCHING] = np.inf
        return jets[0], jets[1]

    def _states(
        self, gates: np.ndarray, middle: np.ndarray, reach: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Which gates are shut everywhere in a box, and which switch in it (gates x boxes)."""
        low, high = pair_ends(self.logits.on(gates[:, None], middle, reach))
        far = 0.0 if self.is_hard else FAR
        shut = high <= -far
        return shut, ~(shut | (low >= far))

    def _opened(
        self, certain: np.ndarray, nearby: np.ndarray, is_open: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Slopes and offset (rows) of the sum of open gates' values in each box, and sizes."""
        table = np.concatenate([self.values.slopes.T, self.values.offsets[None]])
        mid = table[:, certain].sum(axis=1)[:, None] + table[:, nearby] @ is_open
        size = np.abs(table[:, certain]).sum(axis=1)[:, None] + np.abs(table[:, nearby]) @ is_open
        return mid, pair_radius(np.zeros_like(size), size, len(certain) + len(nearby) + 2)

    def _jet(
        self,
        opened: tuple[np.ndarray, np.ndarray],
        close: np.ndarray,
        middle: np.ndarray,
        reach: np.ndarray,
        order: int,
    ) -> Jet:
        k, boxes = middle.shape
        shape = Shape(k, order)
        mid, rad = np.zeros((shape.components, boxes)), np.zeros((shape.components, boxes))
        slopes, loss = opened
        mid[0] = slopes[k] + (slopes[:k] * middle).sum(axis=0)
        size = np.abs(slopes[k]) + (np.abs(slopes[:k]) * (np.abs(middle) + reach)).sum(axis=0)
        wide = loss[k] + (loss[:k] * (np.abs(middle) + reach) + np.abs(slopes[:k]) * reach).sum(
            axis=0
        )
        rad[0] = pair_radius(wide, size, k + 4)
        mid[1 : 1 + k], rad[1 : 1 + k] = slopes[:k], loss[:k]
        if len(close):
            self._add_switching(mid, rad, self._switching(close, middle, reach, order), close)
        rad = (rad + self._leak(middle, reach, shape)[:, None]) * FEW
        return Jet(mid, rad, shape)

    def _switching(
        self, close: np.ndarray, middle: np.ndarray, reach: np.ndarray, order: int
    ) -> Jet:
        logits = self.logits.jet(close, middle, reach, order)
        values = self.values.jet(close, middle, reach, order)
        if not self.is_hard:
            return product(compose(sigmoid_curve(*pair_ends(logits.value)), logits), values)
        # value = c logit, so that the sum is one of c relu(logit)
        lead = np.abs(self.logits.slopes).argmax(axis=1)
        rows = np.arange(len(lead))
        factor = (self.values.slopes[rows, lead] / self.logits.slopes[rows, lead])[close.ravel()]
        units = compose(rectifier_curve(*pair_ends(logits.value)), logits)
        mid = units.mid * factor  # of which two coefficients, the quotient, and this are rounded
        return Jet(mid, pair_radius(units.rad * np.abs(factor), np.abs(mid), 4), units.shape)

    def _add_switching(
        self, mid: np.ndarray, rad: np.ndarray, jets: Jet, close: np.ndarray
    ) -> None:
        """Add up the gates that switch; -1 is no gate."""
        several = (len(mid), *close.shape)
        there = (close >= 0)[None]
        parts = np.where(there, jets.mid.reshape(several), 0.0)
        radii = np.where(there, jets.rad.reshape(several), 0.0)
        count = len(close) + 2
        mid += parts.sum(axis=1)
        size = np.abs(parts).sum(axis=1) + np.abs(mid)
        rad += pair_radius(radii.sum(axis=1), size, count)

    def _leak(self, middle: np.ndarray, reach: np.ndarray, shape: Shape) -> np.ndarray:
        leak = np.zeros(shape.components)
        if self.is_hard:
            return leak
        share = len(self.logits.offsets) * FAINT_WEIGHT
        size = self.values.largest(middle, reach)
        steep = 2.0 * np.abs(self.logits.slopes).max()
        rises = 2.0 * np.abs(self.values.slopes).max()
        k = shape.variables
        leak[:] = share * (steep**2 * size + 2 * steep * rises)
        leak[0], leak[1 : 1 + k] = share * size, share * (steep * size + rises)
        return np.asarray(inflate(leak, k + 8))  # k + 3 in `size`, and five more


def sides(variables: list[tuple[Jet, Jet]]) -> tuple[np.ndarray, np.ndarray]:
    """Middles and reaches of the boxes (variables x boxes), from the variables' own jets."""
    boxes = [box for _, box in variables]
    return np.stack([jet.mid[0] for jet in boxes]), np.stack([jet.rad[0] for jet in boxes])


def hull(middle: np.ndarray, reach: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One box around all of them."""
    low, high = pair_ends((middle, reach))
    return pair_between(low.min(axis=1, keepdims=True), high.max(axis=1, keepdims=True))


def gathered(chosen: np.ndarray, names: np.ndarray) -> np.ndarray:
    """The names of those chosen for each box (some x boxes), filled up with -1."""
    counts = chosen.sum(axis=0)
    table = np.full((int(counts.max(initial=0)), len(counts)), -1)
    box, row = np.nonzero(chosen.T)
    first = np.cumsum(counts) - counts
    table[np.arange(len(box)) - first[box], box] = names[row]
    return table
