"""Affine combinations of registers: how a value is held before anybody needs it in one place."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Generic, Protocol, TypeVar


class Register(Protocol):
    """One number that every token holds; the same object is the same register."""

    @property
    def name(self) -> str: ...

    @property
    def bound(self) -> float:
        """On the absolute value, where the computation is done."""
        ...

    @property
    def beyond(self) -> float:
        """On the absolute value at other tokens, a sink or a start token, if that may be more."""
        ...


R = TypeVar("R", bound=Register)
N = TypeVar("N", Fraction, float)


@dataclass(frozen=True, eq=False)
class Form(Generic[R, N]):
    """constant + sum of terms[register] * register, as every query, value and read-out reads it.

    Affine operations on values are therefore free: they cost no head and no layer.

    A form with a Fraction as its constant is *exact*: every number that enters it becomes a
    Fraction, and is rounded to a float where it is read, which is where that is accounted for.
    (Mixing floats in would turn Fractions into floats without a word.) Any other form is of
    floats, and `off` says how far it may be from what it stands for.

    Its absolute value is at most `most`: less than the terms add up to where they cancel, as in a
    step that is a sum of many peaks.
    """

    terms: Mapping[R, N] = field(default_factory=dict)
    constant: N = 0.0  # type: ignore[assignment]  # exact forms say theirs
    off: float = 0.0
    most: float = math.inf

    def __add__(self, other: Form[R, N] | Fraction | float) -> Form[R, N]:
        if not isinstance(other, Form):
            other = Form({}, self._number(other))
        terms = dict(self.terms)
        for register, weight in other.terms.items():
            terms[register] = terms[register] + weight if register in terms else weight
        kept = {register: weight for register, weight in terms.items() if weight}
        is_exact = isinstance(self.constant, Fraction)  # ranges are found once all is drawn
        most = math.inf if is_exact else self.bound + other.bound
        return Form(kept, self.constant + other.constant, self.off + other.off, most)

    def __mul__(self, factor: Fraction | float) -> Form[R, N]:
        by = self._number(factor)
        if not by:
            return Form({}, by)
        size = abs(by)
        return Form(
            {register: weight * by for register, weight in self.terms.items()},
            self.constant * by,
            self.off * float(size) if self.off else 0.0,
            self.most * float(size) if self.most < math.inf else math.inf,
        )

    def __neg__(self) -> Form[R, N]:
        return self * -1

    def __sub__(self, other: Form[R, N]) -> Form[R, N]:
        return self + -other

    def _number(self, number: Fraction | float) -> N:
        """In the numbers of this form."""
        if isinstance(self.constant, Fraction):
            return Fraction(number)
        return number  # type: ignore[return-value]

    def looser(self, off: float) -> Form[R, N]:
        """The same form for what is so much further away."""
        return replace(self, off=self.off + off) if off else self

    def within(self, most: float) -> Form[R, N]:
        """The same form, of which is known how large it is."""
        return replace(self, most=most) if most < self.bound else self

    @property
    def bound(self) -> float:
        """On the absolute value, where the computation is done."""
        terms = abs(self.constant) + sum(abs(w) * r.bound for r, w in self.terms.items())
        return min(float(terms), self.most)

    @property
    def widest(self) -> float:
        """On the absolute value, at every token."""
        widest = sum(abs(w) * max(r.bound, r.beyond) for r, w in self.terms.items())
        return float(abs(self.constant) + widest)

    def __repr__(self) -> str:
        """As in Form(+2 token -0.5 index +3)."""
        words: list[str] = [
            f"{float(w):+.4g} {r.name or 'register'}" for r, w in self.terms.items()
        ]
        return f"Form({' '.join([*words, f'{float(self.constant):+.4g}'])})"

    @property
    def key(self) -> tuple[N, frozenset[tuple[R, N]]]:
        """Equal keys mean equal forms."""
        return self.constant, frozenset(self.terms.items())
