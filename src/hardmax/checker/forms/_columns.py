"""Sums of forms with the rows of a matrix as weights: what rows of one pattern share is found once.

Coefficients of the sum are weights times coefficients of the forms: floats times floats, for the
most part, and as arrays one product for the whole row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from flint import fmpq

from hardmax.checker._budget import SUM, TERM, charge
from hardmax.checker.forms._bodies import ONE, ZERO, cost_of, cost_of_bits, rational
from hardmax.checker.forms._coefficients import Coefficients, Summing, are_many, as_float, nearest
from hardmax.checker.forms._forms import Form, constant, from_arrays, total
from hardmax.numerics import are_moderate, exact_product

_MODEST = 2.0**100  # weights and coefficients up to here have 153 bits at most
_LONGEST = 511 - 2 * 153  # bits of a body that products with two of them are not charged more for


class Row:
    """The nonzero weights of a row, and where they stand."""

    __slots__ = ("indices", "pattern", "places", "weights")

    def __init__(self, places: np.ndarray, weights: np.ndarray) -> None:
        self.places, self.weights = places, weights
        self.indices: list[int] = places.tolist()
        self.pattern: bytes = places.tobytes()

    def __len__(self) -> int:
        return len(self.indices)


def sparse_rows(matrix: np.ndarray) -> list[Row]:
    """The nonzero entries of each row."""
    rows, columns = np.nonzero(matrix)
    ends = np.searchsorted(rows, np.arange(len(matrix) + 1))
    values = matrix[rows, columns]
    return [Row(columns[a:b], values[a:b]) for a, b in pairwise(ends.tolist())]


class Columns:
    """Forms by number, made when they are asked for, and sums of them."""

    def __init__(self, make: Callable[[int], Form]) -> None:
        self._make = make
        self._forms: dict[int, Form] = {}
        self._patterns: dict[bytes, _Pattern | None] = {}
        self._made: set[bytes] = set()  # patterns of which everything is known
        self._met: set[bytes] = set()  # and those that were summed up before

    def look(self, row: Row) -> None:
        """Make what a row reads."""
        if row.pattern in self._made:
            return
        known, make = self._forms, self._make
        for index in row.indices:
            if index not in known:
                known[index] = make(index)
        self._made.add(row.pattern)

    def total(self, row: Row, offset: fmpq = ZERO, before: Form | None = None) -> Form:
        """The sum of weight * form, a number, and another form that comes first."""
        self.look(row)
        if are_many(len(row)):
            pattern = self._pattern(row)
            found = None if pattern is None else pattern.total(row, offset, before)
            if found is not None:
                return found
        forms = self._forms
        parts = [] if before is None else [(ONE, before)]
        for index, weight in zip(row.indices, row.weights.tolist(), strict=True):
            parts.append((rational(weight), forms[index]))
        if offset:
            parts.append((ONE, constant(offset)))
        return total(parts)

    def _pattern(self, row: Row) -> _Pattern | None:
        """What rows of this pattern share; the first row of its kind goes without."""
        key = row.pattern
        if key not in self._met:
            self._met.add(key)
            return None
        if key not in self._patterns:
            self._patterns[key] = _pattern_of([self._forms[index] for index in row.indices])
        return self._patterns[key]


@dataclass(frozen=True, eq=False)
class _Pattern:
    """Forms one after the other, in arrays: entry e is coefficients[e] of an atom in form[e].

    As in `total` atoms that are alone in their form come first.
    """

    forms: np.ndarray
    coefficients: np.ndarray
    summing: Summing  # of the entries, by their atoms
    constants: tuple[tuple[int, fmpq], ...]  # by form
    long: int  # how many entries are not alone in their form

    def total(self, row: Row, offset: fmpq, before: Form | None) -> Form | None:
        """None if two floats are too few for some coefficient of the sum."""
        if not are_moderate(row.weights, _MODEST):
            return None
        found = self._sum(row.weights[self.forms])
        if found is None:
            return None
        for form, number in self.constants:
            offset += number * rational(float(row.weights[form]))
        cost = TERM * self.long
        if before is not None:
            offset += before.constant
            cost += self._cost_beside(before)
            found = None if cost < 0 else self._beside(found, before)
            if found is None:
                return None
        charge(SUM + cost_of(offset) + cost)
        return from_arrays(found.nonzero(), offset)

    def _sum(self, weights: np.ndarray) -> Coefficients | None:
        if (self.coefficients == 1.0).all():
            high, low = weights, np.zeros(len(weights))
        else:
            high, low = exact_product(weights, self.coefficients)
        return self.summing.sum((high, low))

    def _cost_beside(self, before: Form) -> int:
        """What the form that comes first adds; below 0 if its order among bodies matters."""
        body = before.body
        if body.count < 2:
            return 0
        if self.long:
            return -1 - TERM * self.long
        return cost_of_bits(before.scale.height_bits() + body.bits) * body.count

    def _beside(self, found: Coefficients, before: Form) -> Coefficients | None:
        if before.is_constant:
            return found
        if before.body.atom >= 0:
            first = Coefficients.of({before.body.atom: before.scale})
            return None if first is None else first.plus(found)
        arrays = before.arrays
        return None if arrays is None else found.plus(arrays)


def _pattern_of(forms: list[Form]) -> _Pattern | None:
    """None if some coefficient is no float of modest size, or if bodies are shared."""
    alone: list[tuple[int, int, float]] = []
    long: list[tuple[int, Coefficients]] = []
    bodies = set()
    for number, form in enumerate(forms):
        body, scale = form.body, form.scale
        if body.atom >= 0:
            factor = as_float(scale)
            if factor is None:
                return None
            alone.append((number, body.atom, factor))
        elif body.count:
            plain = body.arrays if are_many(body.count) else Coefficients.of(body.terms)
            scaled = None if plain is None else plain.scaled(scale)
            if scaled is None or scaled.low is not None or id(body) in bodies:
                return None
            if body.bits > _LONGEST or not are_moderate(nearest(scale), _MODEST):
                return None
            bodies.add(id(body))
            long.append((number, scaled))
    constants = tuple((n, form.constant) for n, form in enumerate(forms) if form.constant)
    return _arranged(alone, long, constants)


def _arranged(
    alone: list[tuple[int, int, float]],
    long: list[tuple[int, Coefficients]],
    constants: tuple[tuple[int, fmpq], ...],
) -> _Pattern | None:
    numbers = [np.array([n for n, _, _ in alone], dtype=np.int64)]
    atoms = [np.array([a for _, a, _ in alone], dtype=np.int64)]
    values = [np.array([c for _, _, c in alone], dtype=float)]
    for number, arrays in long:
        numbers.append(np.full(len(arrays), number))
        atoms.append(arrays.atoms)
        values.append(arrays.high)
    every, coefficients = np.concatenate(atoms), np.concatenate(values)
    summing = Summing.of(every)
    if summing is None or not are_many(len(summing.atoms)) or not (alone or len(long) > 1):
        return None
    if not are_moderate(coefficients, _MODEST):
        return None
    count = len(every) - len(alone)
    return _Pattern(np.concatenate(numbers), coefficients, summing, constants, count)
