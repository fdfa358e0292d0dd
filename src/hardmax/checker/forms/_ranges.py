"""Ranges of forms and atoms on the whole domain, outward rounded."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from hardmax.checker._budget import ENTRY, RANGE, charge
from hardmax.checker.forms._forms import Form, nearest
from hardmax.numerics import TINY, Interval, pair_radius, record_of, sigmoid, sum_up

Ends = tuple[float, float]


class Bounds:
    """The ranges of atoms, by their numbers."""

    def __init__(self) -> None:
        self.low, self.high = np.full(64, -np.inf), np.full(64, np.inf)
        self.count = 0

    def append(self, low: float, high: float) -> None:
        self.set(self.count, low, high)

    def set(self, atom: int, low: float, high: float) -> None:
        """The range of an atom; those before it that have none are unbounded."""
        self._reach(atom)
        self.low[atom], self.high[atom] = low, high
        self.count = max(self.count, atom + 1)

    def _reach(self, atom: int) -> None:
        while atom >= len(self.low):
            self.low = np.concatenate([self.low, np.full(len(self.low), -np.inf)])
            self.high = np.concatenate([self.high, np.full(len(self.high), np.inf)])

    def __getitem__(self, atom: int) -> Ends:
        self._reach(atom)
        return float(self.low[atom]), float(self.high[atom])

    def sizes(self, atoms: np.ndarray) -> np.ndarray:
        """The largest absolute values of some atoms."""
        self._reach(int(atoms.max()))
        return np.asarray(np.maximum(np.abs(self.low[atoms]), np.abs(self.high[atoms])))

    def range(self, form: Form) -> Ends:
        """The range of a form.

        Each coefficient is rounded three times at most, each product once, and each of the n sums
        and the last step outward once. A coefficient that underflows loses the smallest number,
        times a bound.
        """
        if form.is_zero:
            return 0.0, 0.0
        bottom = top = nearest(form.constant)
        size, wide = abs(bottom), 0.0
        if form.atoms:
            charge(RANGE + 8 * ENTRY * len(form.atoms))
            atoms, c = form.floats
            self._reach(int(atoms.max()))
            with np.errstate(all="ignore"):
                ends = c * self.low[atoms], c * self.high[atoms]
                bottom += float(np.minimum(*ends).sum())
                top += float(np.maximum(*ends).sum())
                size += float(np.maximum(*map(np.abs, ends)).sum())
                wide = float(np.maximum(*map(np.abs, (self.low[atoms], self.high[atoms]))).sum())
        slack = pair_radius(wide * TINY, size, len(form.atoms) + 5)
        low, high = bottom - slack, top + slack
        return (low, high) if low <= high else (-np.inf, np.inf)  # nan compares false


def gate_range(logit: Ends, value: Ends) -> Ends:
    """sigmoid(logit) value with logit and value taken as independent."""
    product = sigmoid(_interval(logit)) * _interval(value)
    return float(product.lo), float(product.hi)


def hull_with_zero(ranges: Sequence[Ends]) -> Ends:
    return min(0.0, *(low for low, _ in ranges)), max(0.0, *(high for _, high in ranges))


def mean_range(logits: Sequence[Ends], values: Sequence[Ends]) -> Ends:
    """sum_j w_j v_j with w_j <= sigmoid(l_j) (the reference token alone does that), in the hull."""
    low, high = hull_with_zero(values)
    if len(values) > 64:
        return low, high
    terms = [
        gate_range((-np.inf, top), value) for (_, top), value in zip(logits, values, strict=True)
    ]
    bottom = sum_up(np.array([max(-a, 0.0) for a, _ in terms]))
    top = sum_up(np.array([max(b, 0.0) for _, b in terms]))
    return max(low, -float(bottom)), min(high, float(top))


def univariate_range(name: str, argument: Ends, exponent: float | Fraction) -> Ends:
    result = record_of(name, exponent).intervals(_interval(argument))
    return float(result.lo), float(result.hi)


def _interval(ends: Ends) -> Interval:
    return Interval(np.array(ends[0]), np.array(ends[1]))
