"""Affine combinations of rows: how a value is held before anybody needs it in one place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction


@dataclass(frozen=True, eq=False)
class Form:
    """constant + sum over rows of terms[row] * row, as every query, value and read-out can read it.

    Affine operations on values are therefore free: they cost no head and no layer. The
    coefficients are exact rationals here and become floats when they are read, which is where
    their rounding is accounted for.
    """

    terms: Mapping[int, Fraction] = field(default_factory=dict)
    constant: Fraction = Fraction(0)

    @classmethod
    def of_row(cls, row: int) -> Form:
        return cls({row: Fraction(1)})

    @classmethod
    def of_number(cls, number: Fraction | float | int) -> Form:
        return cls({}, Fraction(number))

    @classmethod
    def combination(
        cls, parts: Iterable[tuple[Fraction | float | int, Form]], constant: Fraction | float = 0
    ) -> Form:
        """constant + sum of coefficient * form."""
        terms: dict[int, Fraction] = {}
        total = Fraction(constant)
        for coefficient, form in parts:
            factor = Fraction(coefficient)
            total += factor * form.constant
            for row, weight in form.terms.items():
                terms[row] = terms.get(row, Fraction(0)) + factor * weight
        return cls({row: weight for row, weight in terms.items() if weight}, total)

    def plus(self, constant: Fraction | float | int) -> Form:
        return Form(self.terms, self.constant + Fraction(constant))

    def times(self, factor: Fraction | float | int) -> Form:
        return Form.combination([(factor, self)])

    @property
    def is_constant(self) -> bool:
        return not self.terms

    @property
    def key(self) -> tuple:
        """Equal keys mean equal forms."""
        return tuple(sorted(self.terms.items())), self.constant
