"""Real roots of rational quadratics, compared exactly.

A number is held by its primitive polynomial with whole coefficients, the leading one positive, and
by which of its roots it is. Of an irrational root that polynomial is the minimal one, so two
numbers are equal iff both agree; of a rational p/q it is q x - p. So equality is seen.
Numbers that differ are told apart by enclosures of growing precision, which must separate them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, total_ordering

from hardmax.numerics import above_float, below_float

_FIRST = 64  # bits of the first enclosure; more than a float, so that floats come out right


@total_ordering
@dataclass(frozen=True)
class QuadraticNumber:
    """The root (-b + branch sqrt(b^2 - 4 a c)) / (2 a) of a x^2 + b x + c; a = 0: the number -c/b.

    Made by `roots` and `rational` only, which see to it that the polynomial is primitive.
    """

    a: int
    b: int
    c: int
    branch: int  # 1 or -1; 0 for a rational

    @property
    def is_rational(self) -> bool:
        return self.a == 0

    @property
    def fraction(self) -> Fraction:
        """The number itself, where it is rational."""
        if self.a:
            raise ValueError(f"{self} is irrational.")
        return Fraction(-self.c, self.b)

    @cached_property
    def _first(self) -> tuple[Fraction, Fraction]:
        return self._enclose(_FIRST)

    @cached_property
    def floats(self) -> tuple[float, float]:
        """Floats with the number between them."""
        low, high = self._first
        return below_float(low), above_float(high)

    def enclosed(self, bits: int) -> tuple[Fraction, Fraction]:
        """Fractions with the number between them, closer as bits grow."""
        return self._first if bits <= _FIRST else self._enclose(bits)

    def _enclose(self, bits: int) -> tuple[Fraction, Fraction]:
        """The square root to within 2^-bits: the width is 1 / (2 a 2^bits), a >= 1."""
        if not self.a:
            return self.fraction, self.fraction
        square = self.b * self.b - 4 * self.a * self.c
        root = math.isqrt(square << (2 * bits))
        below, above = (root, root + 1) if self.branch > 0 else (-root - 1, -root)
        middle, under = -self.b << bits, (2 * self.a) << bits
        return Fraction(middle + below, under), Fraction(middle + above, under)

    def __float__(self) -> float:
        """The nearest float: an irrational is never halfway between two, so precision ends it."""
        bits = _FIRST
        while True:
            low, high = map(float, self.enclosed(bits))
            if low == high:
                return low
            bits *= 2

    def __lt__(self, other: QuadraticNumber) -> bool:
        mine, theirs = self.floats, other.floats
        if mine[1] < theirs[0]:
            return True
        if theirs[1] < mine[0] or self == other:
            return False
        bits = _FIRST
        while True:
            (low, high), (left, right) = self.enclosed(bits), other.enclosed(bits)
            if high < left or right < low:
                return high < left
            bits *= 2

    def __str__(self) -> str:
        if not self.a:
            return str(self.fraction)
        sign = "+" if self.branch > 0 else "-"
        return f"({-self.b} {sign} sqrt({self.b * self.b - 4 * self.a * self.c}))/{2 * self.a}"


def rational(value: Fraction | int) -> QuadraticNumber:
    """A rational among the others."""
    return QuadraticNumber(0, value.denominator, -value.numerator, 0)


def roots(a: int, b: int, c: int) -> tuple[QuadraticNumber, ...]:
    """The real roots of a x^2 + b x + c, each once, in order; the coefficients are not all 0."""
    if not a:
        return (rational(Fraction(-c, b)),) if b else ()
    square = b * b - 4 * a * c
    if square < 0:
        return ()
    root = math.isqrt(square)
    if root * root == square:
        both = {Fraction(-b - root, 2 * a), Fraction(-b + root, 2 * a)}
        return tuple(rational(one) for one in sorted(both))
    common = math.gcd(a, b, c) * (1 if a > 0 else -1)
    a, b, c = a // common, b // common, c // common
    return QuadraticNumber(a, b, c, -1), QuadraticNumber(a, b, c, 1)


def between(left: QuadraticNumber, right: QuadraticNumber) -> Fraction:
    """A rational strictly between two numbers, left < right: short, where there is room."""
    bits = _FIRST
    while True:
        low, high = left.enclosed(bits)[1], right.enclosed(bits)[0]
        if low < high:
            return _simple(low, high)
        bits *= 2


def _simple(low: Fraction, high: Fraction) -> Fraction:
    """The first number k/2^m strictly inside, so that values there stay short."""
    width = high - low
    m = max(width.denominator.bit_length() - width.numerator.bit_length(), 0)
    while True:
        k = math.floor(low * 2**m) + 1
        if Fraction(k, 2**m) < high:
            return Fraction(k, 2**m)
        m += 1
