"""The normal form of a piecewise linear program: units that add up inputs, units and rectifiers.

A *unit* is a number that the stream will hold. It is a sum of weighted *terms* and a bias; a term
is an input, what another unit holds, or the rectifier max(0, r) of a short combination r of units.
Weights and biases are the source's own, copied: nothing was ever the rounded sum or product of two
of them, which is what makes the hard Transformers exact.

Units have *levels*. Those of level 0 need inputs alone. Layer l of the Transformer reads the terms
of level l, whose units are complete by then, and adds each one's share to every unit that wants it,
however much later that one will be complete: a skip connection costs nothing but its weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True)
class Input:
    """An input of the network."""

    index: int


@dataclass(frozen=True)
class Held:
    """What a unit holds, as it is."""

    unit: int
    again: int = 0  # tells apart the columns of one sum that read the same: they must not be added


@dataclass(frozen=True)
class Rectified:
    """max(0, r), where r = sum of coefficient * unit."""

    reading: tuple[tuple[int, float], ...]
    again: int = 0

    @property
    def alone(self) -> int | None:
        """The unit, if the rectifier is that of a single one as it is."""
        (unit, coefficient), *others = self.reading
        return unit if coefficient == 1.0 and not others else None


Term = Input | Held | Rectified


@dataclass(frozen=True, eq=False)
class Sums:
    """Units side by side, numbered from `first` on: weights @ terms + bias.

    A row may *continue* an earlier unit (-1: none): it starts out as what that unit held, in the
    same place, so that the unit is no term of it. That is how a + max(0, b - a) becomes max(a, b).
    """

    first: int
    level: int
    terms: tuple[Term, ...]
    weights: np.ndarray
    bias: np.ndarray
    nonnegative: np.ndarray  # on the whole domain
    continues: np.ndarray
    is_affine_step: bool  # or else copies and comparisons

    @property
    def units(self) -> np.ndarray:
        return np.arange(self.first, self.first + len(self.bias))


@dataclass(frozen=True, eq=False)
class Statement:
    """Units hold, as soon as they are complete, maxima of components of a value of the steps.

    A `rectified` statement is about max(0, unit), which only some routes ever store.
    """

    level: int
    units: np.ndarray
    value: int
    components: np.ndarray  # one row a unit
    rectified: bool = False


@dataclass(frozen=True, eq=False)
class Answer:
    """The outputs: weights @ units + bias."""

    units: np.ndarray
    weights: np.ndarray
    bias: np.ndarray


@dataclass(frozen=True, eq=False)
class RectifierForm:
    """A piecewise linear function on a domain as sums in order of their numbers."""

    inputs: int
    sums: tuple[Sums, ...]
    statements: tuple[Statement, ...]
    answer: Answer

    @cached_property
    def levels(self) -> np.ndarray:
        """By unit."""
        return self._by_unit([np.full(len(sums.bias), sums.level) for sums in self.sums], int)

    @cached_property
    def are_affine_steps(self) -> np.ndarray:
        """By unit."""
        kinds = [np.full(len(sums.bias), sums.is_affine_step) for sums in self.sums]
        return self._by_unit(kinds, bool)

    @cached_property
    def nonnegative(self) -> np.ndarray:
        """By unit."""
        return self._by_unit([sums.nonnegative for sums in self.sums], bool)

    @cached_property
    def continued(self) -> np.ndarray:
        """By unit: whether a later one takes its place."""
        continues = self._by_unit([sums.continues for sums in self.sums], int)
        return np.isin(np.arange(len(continues)), continues)

    def _by_unit(self, parts: list[np.ndarray], kind: type) -> np.ndarray:
        return np.concatenate([np.zeros(0), *parts]).astype(kind)  # there may be no unit at all

    def level_of(self, term: Term) -> int:
        """The layer that reads a term; an input is read by the embedding."""
        return max((int(self.levels[unit]) for unit in units_read(term)), default=-1)

    def live_terms(self, sums: Sums) -> Iterator[tuple[int, Term]]:
        """The terms of these units, with their columns, that have any weight."""
        live = np.asarray(sums.weights.any(axis=0))
        return ((j, term) for j, term in enumerate(sums.terms) if live[j])

    @property
    def depth(self) -> int:
        """How many layers there are: the last units are complete after them."""
        return max((sums.level for sums in self.sums), default=0)

    @cached_property
    def last_read(self) -> np.ndarray:
        """By unit: the last layer that reads it, -1 if none does."""
        last = np.full(len(self.levels), -1)
        for sums in self.sums:
            for _, term in self.live_terms(sums):
                for unit in units_read(term):
                    last[unit] = max(last[unit], self.level_of(term))
        return last

    def is_free_after(self, unit: int, level: int) -> bool:
        """Whether nothing reads a unit after layer `level`, the read-out included."""
        return bool(self.last_read[unit] <= level) and unit not in self.answer.units


def units_read(term: Term | None) -> tuple[int, ...]:
    """The units that a term looks at."""
    match term:
        case Input() | None:
            return ()
        case Held(unit=unit):
            return (unit,)
        case Rectified(reading=reading):
            return tuple(unit for unit, _ in reading)
