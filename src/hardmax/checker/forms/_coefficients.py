"""Many coefficients at once: exact, as arrays of double-doubles instead of rationals.

Weights are floats, and what comes of them is mostly a float or a product of two: one operation on
arrays is some hundred times cheaper than one on rationals for each term. Whatever two floats cannot
hold, or would hold only for lack of exponents, is None here, and computed with rationals there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from flint import fmpq

from hardmax.numerics import (
    DoubleDouble,
    are_moderate,
    exact_product,
    exact_sum,
    nearest_products,
    product_of_double_doubles,
    sum_of_double_doubles,
)

_MOST_ROUNDS = 8
MANY = 96  # coefficients that are worth arrays


def are_many(count: int) -> bool:
    """Whether arrays are faster than a dictionary."""
    return count >= MANY


def as_float(value: fmpq) -> float | None:
    """A rational that is a moderate float; None if it is none."""
    try:
        near = float(value)
    except OverflowError:
        return None
    return near if fmpq(*near.as_integer_ratio()) == value else None


def as_double(value: fmpq) -> tuple[float, float] | None:
    """A rational to twice the digits of a float; None if it is not moderate."""
    high = nearest(value)
    if not are_moderate(high):
        return None
    return high, nearest(value - fmpq(*high.as_integer_ratio()))


def nearest(value: fmpq) -> float:
    """The float nearest to a rational; infinite beyond the largest."""
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def as_rational(high: float, low: float) -> fmpq:
    whole = fmpq(*high.as_integer_ratio())
    return whole + fmpq(*low.as_integer_ratio()) if low else whole


@dataclass(frozen=True, eq=False)
class Coefficients:
    """high + low of each of some atoms, none of which is listed twice; `high` is the nearest float.

    Where there is no `low`, all coefficients are floats.
    """

    atoms: np.ndarray
    high: np.ndarray
    low: np.ndarray | None = None

    @classmethod
    def of(cls, terms: Mapping[int, fmpq]) -> Coefficients | None:
        """Rationals, as far as they are sums of two floats."""
        high, low = np.empty(len(terms)), np.zeros(len(terms))
        for place, value in enumerate(terms.values()):
            denominator = value.q
            if denominator & (denominator - 1) or value.height_bits() > 512:
                return None
            near = float(value)
            high[place] = near
            rest = value - fmpq(*near.as_integer_ratio())
            if rest:
                low[place] = float(rest)
                if fmpq(*float(rest).as_integer_ratio()) != rest:
                    return None
        atoms = np.fromiter(terms, dtype=np.int64, count=len(terms))
        return cls(atoms, high, low if low.any() else None)

    def __len__(self) -> int:
        return len(self.atoms)

    @property
    def double(self) -> DoubleDouble:
        return self.high, np.zeros(len(self.high)) if self.low is None else self.low

    def at(self, place: int) -> fmpq:
        """One coefficient."""
        return as_rational(float(self.high[place]), 0.0 if self.low is None else self.low[place])

    def terms(self) -> dict[int, fmpq]:
        """All of them as rationals."""
        high = [fmpq(*c.as_integer_ratio()) for c in self.high.tolist()]
        if self.low is not None:
            low = self.low.tolist()
            high = [
                c + fmpq(*d.as_integer_ratio()) if d else c for c, d in zip(high, low, strict=True)
            ]
        return dict(zip(self.atoms.tolist(), high, strict=True))

    def only(self, chosen: np.ndarray) -> Coefficients:
        """Those that are chosen, by places or by a mask."""
        low = None if self.low is None else self.low[chosen]
        return Coefficients(self.atoms[chosen], self.high[chosen], low)

    def nonzero(self) -> Coefficients:
        there = self.high != 0.0  # the float nearest to no other number than 0, if none underflow
        return self if there.all() else self.only(there)

    def joined(self, other: Coefficients) -> Coefficients:
        """With other atoms behind."""
        low = None
        if self.low is not None or other.low is not None:
            low = np.concatenate([self.double[1], other.double[1]])
        atoms = np.concatenate([self.atoms, other.atoms])
        return Coefficients(atoms, np.concatenate([self.high, other.high]), low)

    def times(self, factors: np.ndarray | float) -> Coefficients | None:
        """Each times a float, or all times one."""
        if not are_moderate(factors) or not are_moderate(self.high):
            return None
        if self.low is None:
            return _of_double(self.atoms, exact_product(self.high, factors))
        if not are_moderate(self.low):
            return None
        return _of_double(self.atoms, product_of_double_doubles((self.high, self.low), factors))

    def nearest_times(self, scale: fmpq) -> np.ndarray:
        """The floats nearest to each times a rational: of those in doubt from the rationals."""
        near = as_double(scale)
        if near is None or not are_moderate(self.high) or not are_moderate(self.double[1]):
            return np.array([nearest(c * scale) for c in self.terms().values()])
        found, is_sure = nearest_products(self.double, near)
        for place in np.flatnonzero(~is_sure).tolist():
            found[place] = nearest(self.at(place) * scale)
        return found

    def divided(self, divisors: np.ndarray) -> Coefficients | None:
        """Each divided by a float, if that leaves two floats: what a product is divided by again.

        The quotient is a guess, and that of what it leaves over; times the divisors they must give
        back what there was.
        """
        if (divisors == 1.0).all():
            return self
        if not are_moderate(divisors) or not are_moderate(self.high):
            return None
        high = self.high / divisors
        product, off = exact_product(high, divisors)
        high, low = exact_sum(high, (((self.high - product) - off) + self.double[1]) / divisors)
        found = _of_double(self.atoms, (high, low))
        back = None if found is None else found.times(divisors)
        return found if back is not None and back.equals(self) else None

    def scaled(self, scale: fmpq) -> Coefficients | None:
        """Times a rational, which must be a float."""
        if scale == 1:
            return self
        if scale == -1:
            low = None if self.low is None else -self.low
            return Coefficients(self.atoms, -self.high, low)
        factor = as_float(scale)
        return None if factor is None else self.times(factor)

    def plus(self, other: Coefficients) -> Coefficients | None:
        """The sum, with zeros; atoms that are in both stay where they are here."""
        if self.atoms is other.atoms or np.array_equal(self.atoms, other.atoms):
            atoms, mine, theirs = self.atoms, self.double, other.double
            if self.low is None and other.low is None:
                return _of_double(atoms, exact_sum(self.high, other.high))
        else:
            both = np.concatenate([self.atoms, other.atoms])
            _, first, inverse = np.unique(both, return_index=True, return_inverse=True)
            rank = np.empty(len(first), dtype=np.int64)
            order = np.argsort(first)
            rank[order] = np.arange(len(first))
            places, atoms = rank[inverse], both[first[order]]
            mine = _spread(self, places[: len(self)], len(atoms))
            theirs = _spread(other, places[len(self) :], len(atoms))
        return _of_double(atoms, sum_of_double_doubles(mine, theirs))

    def equals(self, other: Coefficients) -> bool:
        """The same coefficients of the same atoms, in any order."""
        if len(self) != len(other):
            return False
        a, b = self, other
        if not (a.atoms == b.atoms).all():
            a, b = a.only(np.argsort(a.atoms)), b.only(np.argsort(b.atoms))
            if not (a.atoms == b.atoms).all():
                return False
        return bool((a.high == b.high).all() and (a.double[1] == b.double[1]).all())


def summed(atoms: np.ndarray, double: DoubleDouble) -> Coefficients | None:
    """Terms of which several may have one atom, added up, with zeros; atoms as they come first."""
    summing = Summing.of(atoms)
    return None if summing is None else summing.sum(double)


@dataclass(frozen=True, eq=False)
class Summing:
    """How terms add up by atoms: in rounds, in each of which no atom occurs twice."""

    atoms: np.ndarray  # each once, as they come first
    places: np.ndarray  # of the terms' atoms among them
    rounds: tuple[np.ndarray, ...]  # terms

    @classmethod
    def of(cls, every: np.ndarray) -> Summing | None:
        """None if some atom occurs too often."""
        if len(set(every.tolist())) == len(every):
            return cls(every, np.arange(len(every)), ())
        _, first, inverse = np.unique(every, return_index=True, return_inverse=True)
        order = np.argsort(first)
        rank = np.empty(len(first), dtype=np.int64)
        rank[order] = np.arange(len(first))
        places = rank[inverse]
        turns = _turns(places)
        if turns.max() >= _MOST_ROUNDS:
            return None
        rounds = tuple(np.flatnonzero(turns == t) for t in range(int(turns.max()) + 1))
        return cls(every[first[order]], places, rounds)

    def sum(self, double: DoubleDouble) -> Coefficients | None:
        if not self.rounds:
            return _of_double(self.atoms, double)
        high, low = np.zeros(len(self.atoms)), np.zeros(len(self.atoms))
        for terms in self.rounds:
            to = self.places[terms]
            added = sum_of_double_doubles((high[to], low[to]), (double[0][terms], double[1][terms]))
            if added is None:
                return None
            high[to], low[to] = added
        return _of_double(self.atoms, (high, low))


def _turns(places: np.ndarray) -> np.ndarray:
    """For each term how many before it have its place."""
    order = np.argsort(places, kind="stable")
    starts = np.flatnonzero(np.diff(places[order], prepend=-1))
    turns = np.empty(len(places), dtype=np.int64)
    turns[order] = np.arange(len(places)) - np.repeat(starts, np.diff([*starts, len(places)]))
    return turns


def _of_double(atoms: np.ndarray, double: DoubleDouble | None) -> Coefficients | None:
    if double is None:
        return None
    high, low = double
    return Coefficients(atoms, high, low if low.any() else None)


def _spread(values: Coefficients, places: np.ndarray, size: int) -> DoubleDouble:
    high, low = np.zeros(size), np.zeros(size)
    high[places] = values.high
    if values.low is not None:
        low[places] = values.low
    return high, low
