"""Affine forms with exact rational coefficients over atoms, the alphabet of the checker.

An atom is a number that depends on the input in a way that is not affine: a softmax mean, a
rectified form, a product. Everything between atoms is affine and is carried exactly, so that
what cancels in the weights cancels here, to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from flint import fmpq

ZERO, ONE = fmpq(0), fmpq(1)


def rational(value: float) -> fmpq:
    """The float as the exact rational that it is."""
    return fmpq(*float(value).as_integer_ratio())


def nearest(value: fmpq) -> float:
    """The float nearest to a rational; infinite beyond the largest."""
    try:
        return int(value.p) / int(value.q)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


class Form:
    """constant + sum of coefficient * atom, atoms by their numbers; zeros are left out."""

    __slots__ = ("_floats", "_hash", "constant", "terms")

    def __init__(self, terms: Mapping[int, fmpq], constant: fmpq = ZERO) -> None:
        self.terms = terms
        self.constant = constant
        self._hash: int | None = None
        self._floats: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def is_constant(self) -> bool:
        return not self.terms

    @property
    def is_zero(self) -> bool:
        return not self.terms and self.constant == ZERO

    @property
    def floats(self) -> tuple[np.ndarray, np.ndarray]:
        """The atoms, and the floats nearest to their coefficients."""
        if self._floats is None:
            atoms = np.fromiter(self.terms, dtype=np.int64, count=len(self.terms))
            self._floats = atoms, np.array([nearest(c) for c in self.terms.values()], dtype=float)
        return self._floats

    @property
    def order(self) -> tuple[Any, ...]:
        """Something to sort forms by."""
        return (self.constant, *sorted(self.terms.items(), key=lambda term: term[0]))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Form):
            return NotImplemented
        return bool(self.constant == other.constant) and self.terms == other.terms

    def __hash__(self) -> int:
        """From a few coefficients: hashing all of a long form would cost more than it saves."""
        if self._hash is None:
            few = [self.constant, *(self.terms[a] for a in sorted(self.terms)[-2:])]
            self._hash = hash((len(self.terms), *map(nearest, few)))
        return self._hash

    @property
    def lead(self) -> fmpq:
        """The coefficient of the first atom; the constant, if there is none."""
        return self.terms[min(self.terms)] if self.terms else self.constant

    def __add__(self, other: Form) -> Form:
        return total(((ONE, self), (ONE, other)))

    def __sub__(self, other: Form) -> Form:
        return total(((ONE, self), (-ONE, other)))

    def __neg__(self) -> Form:
        return self.scaled(-ONE)

    def scaled(self, factor: fmpq) -> Form:
        if factor == ONE:
            return self
        if factor == ZERO:
            return NOTHING
        return Form({a: c * factor for a, c in self.terms.items()}, self.constant * factor)

    def __repr__(self) -> str:
        parts = [f"{c}*a{a}" for a, c in sorted(self.terms.items())]
        return " + ".join([*parts, str(self.constant)])


NOTHING = Form({})


def constant(value: fmpq) -> Form:
    return Form({}, value)


def direction_of(form: Form) -> tuple[Form, fmpq]:
    """The form without its constant, scaled to a first coefficient of 1, and the scale."""
    lead = form.lead
    return Form({a: c / lead for a, c in form.terms.items()}), lead


def renamed(form: Form, names: Mapping[int, Form]) -> Form:
    """The form with some atoms replaced by forms."""
    parts = [(c, names[a]) for a, c in form.terms.items() if a in names]
    if not parts:
        return form
    rest = Form({a: c for a, c in form.terms.items() if a not in names}, form.constant)
    return total([(ONE, rest), *parts])


def total(parts: Iterable[tuple[fmpq, Form]]) -> Form:
    """The sum of factor * form."""
    terms: dict[int, fmpq] = {}
    offset = ZERO
    for factor, form in parts:
        plain = factor is ONE or factor == ONE
        for atom, coefficient in form.terms.items():
            term = factor if coefficient is ONE else coefficient if plain else coefficient * factor
            known = terms.get(atom)
            terms[atom] = term if known is None else known + term
        if form.constant is not ZERO:
            offset += form.constant if plain else form.constant * factor
    return Form({atom: c for atom, c in terms.items() if c != ZERO}, offset)
