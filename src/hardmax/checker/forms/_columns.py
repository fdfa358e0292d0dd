"""Sums of forms with the rows of a matrix as weights: what rows of one pattern share is found once.

Coefficients of the sum are weights times coefficients of the forms: floats times floats, for the
most part, and as arrays one product for the whole row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from flint import fmpq

from hardmax.checker._budget import SUM, TERM, charge
from hardmax.checker.forms._bodies import ONE, ZERO, cost_of, cost_of_bits, rational
from hardmax.checker.forms._coefficients import MANY, Coefficients, as_float
from hardmax.checker.forms._forms import Form, constant, from_arrays, total
from hardmax.numerics import DoubleDouble, are_moderate, exact_product, sum_of_double_doubles

_MOST_ROUNDS = 8  # forms that share an atom, for which sums are taken one after the other
_MODEST = 2.0**100  # weights and coefficients up to here have 153 bits at most
_LONGEST = 511 - 2 * 153  # bits of a body that products with two of them are not charged more for


class Row:
    """The nonzero weights of a row, and where they stand."""

    def __init__(self, places: np.ndarray, weights: np.ndarray) -> None:
        self.places, self.weights = places, weights

    def __len__(self) -> int:
        return len(self.places)

    @cached_property
    def indices(self) -> list[int]:
        return [int(place) for place in self.places.tolist()]

    @cached_property
    def pattern(self) -> bytes:
        return self.places.tobytes()

    @cached_property
    def is_modest(self) -> bool:
        return are_moderate(self.weights, _MODEST)


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
        self._met: set[bytes] = set()

    def look(self, row: Row) -> None:
        """Make what a row reads."""
        known, make = self._forms, self._make
        for index in row.indices:
            if index not in known:
                known[index] = make(index)

    def total(self, row: Row, offset: fmpq = ZERO, before: Form | None = None) -> Form:
        """The sum of weight * form, a number, and another form that comes first."""
        self.look(row)
        if len(row) >= MANY:
            pattern = self._pattern(row)
            found = None if pattern is None else pattern.total(row, offset, before)
            if found is not None:
                return found
        forms, first = self._forms, [] if before is None else [(ONE, before)]
        parts = [
            (rational(weight), forms[index])
            for index, weight in zip(row.indices, row.weights.tolist(), strict=True)
        ]
        return total([*first, *parts, *([(ONE, constant(offset))] if offset else [])])

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
    atoms: np.ndarray  # that the entries sum up to
    places: np.ndarray  # of the entries' atoms among them
    rounds: tuple[np.ndarray, ...]  # entries, no two of a round being of one atom
    constants: tuple[tuple[int, fmpq], ...]  # by form
    long: int  # how many entries are not alone in their form

    def total(self, row: Row, offset: fmpq, before: Form | None) -> Form | None:
        """None if two floats are too few for some coefficient of the sum."""
        if not row.is_modest:
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
        if len(self.rounds) > 1:
            double = self._added((high, low))
            if double is None:
                return None
            high, low = double
        return Coefficients(self.atoms, high, low if low.any() else None)

    def _added(self, double: DoubleDouble) -> DoubleDouble | None:
        high, low = np.zeros(len(self.atoms)), np.zeros(len(self.atoms))
        for entries in self.rounds:
            to = self.places[entries]
            more = double[0][entries], double[1][entries]
            summed = sum_of_double_doubles((high[to], low[to]), more)
            if summed is None:
                return None
            high[to], low[to] = summed
        return high, low

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
            plain = body.arrays if body.count >= MANY else Coefficients.of(body.terms)
            scaled = None if plain is None else plain.scaled(scale)
            if scaled is None or scaled.low is not None or id(body) in bodies:
                return None
            if body.bits > _LONGEST or not are_moderate(np.array(as_float(scale)), _MODEST):
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
    _, first, inverse = np.unique(every, return_index=True, return_inverse=True)
    if len(first) < MANY or not (alone or len(long) > 1) or not are_moderate(coefficients, _MODEST):
        return None
    order = np.argsort(first)
    rank = np.empty(len(first), dtype=np.int64)
    rank[order] = np.arange(len(first))
    places = rank[inverse]
    rounds = _rounds(places)
    if len(rounds) > _MOST_ROUNDS:
        return None
    forms, count = np.concatenate(numbers), len(every) - len(alone)
    sums = every[first[order]]
    return _Pattern(forms, coefficients, sums, places, rounds, constants, count)


def _rounds(places: np.ndarray) -> tuple[np.ndarray, ...]:
    """The first entries at each place, the second ones, and so on."""
    order = np.argsort(places, kind="stable")
    sorted_ = places[order]
    starts = np.flatnonzero(np.diff(sorted_, prepend=-1))
    turn = np.arange(len(places)) - np.repeat(starts, np.diff([*starts, len(places)]))
    return tuple(order[turn == t] for t in range(int(turn.max()) + 1))
