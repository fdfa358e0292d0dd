"""Conics as products of irreducible factors, each of them known by one canonical form.

A wall is where a polynomial p(u, v) of degree two or less is 0. Over the rationals it is a
number times irreducible polynomials: none, one (a line or a conic), or two lines. Two walls that
share a curve share a factor, so that contradictions between them show in the signs of factors.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

Conic = tuple[int, int, int, int, int, int]  # coefficients of 1, u, v, u^2, u v, v^2
Split = tuple[int, tuple[Conic, ...]]  # a sign, and factors whose product has it wherever not 0

MONOMIALS = ((0, 0), (1, 0), (0, 1), (2, 0), (1, 1), (0, 2))


def split_conic(p: Sequence[int]) -> Split:
    """The sign of p off its zeros: a sign times the signs of canonical irreducible factors.

    p must not be 0. Where p >= 0 on the whole plane, or p <= 0, there is no factor. For u^2 with
    a coefficient a, 4 a p = (2 a u + b v + d)^2 - D(v) with D a quadratic in v. If D <= 0
    everywhere, p has the sign of a or is 0. If D is a square, D = (s v + t)^2, there are two linear
    factors; s and t are whole, as their squares are. Otherwise p is irreducible: factors of p
    are linear in u, so their difference would be a root of D. Without u^2 and v^2,
    b p = (b u + e)(b v + d) + b f - d e, where the rest must vanish.
    """
    f, d, e, a, b, c = p
    if not (a or b or c):
        return _linear(f, d, e)
    if not a and not c:
        if b * f != d * e:
            return _product(1, [tuple(p)])
        return _product(b, [(e, b, 0, 0, 0, 0), (d, 0, b, 0, 0, 0)])
    if not a:
        sign, factors = split_conic((f, e, d, c, b, a))
        return _product(sign, [(g[0], g[2], g[1], g[5], g[4], g[3]) for g in factors])
    A, B, C = b * b - 4 * a * c, 2 * b * d - 4 * a * e, d * d - 4 * a * f
    inner = B * B - 4 * A * C
    if (A < 0 and inner <= 0) or (A == B == 0 and C <= 0):
        return (1 if a > 0 else -1), ()
    square = _root(A, B, C) if inner == 0 else None
    if square is None:
        return _product(1, [tuple(p)])
    s, t = square
    pair = [(d - t, 2 * a, b - s, 0, 0, 0), (d + t, 2 * a, b + s, 0, 0, 0)]
    return _product(a, pair)


def _root(A: int, B: int, C: int) -> tuple[int, int] | None:
    """s v + t with the square A v^2 + B v + C, given that B^2 = 4 A C; None if irrational."""
    if A < 0 or C < 0:
        return None
    s, t = math.isqrt(A), math.isqrt(C)
    return (s, -t if B < 0 else t) if s * s == A and t * t == C else None


def _linear(f: int, d: int, e: int) -> Split:
    if d or e:
        return _product(1, [(f, d, e, 0, 0, 0)])
    return (1 if f > 0 else -1), ()


def _product(number: int, factors: Iterable[Sequence[int]]) -> Split:
    sign, found = (1 if number > 0 else -1), []
    for factor in factors:
        side, canonical = _canonical(factor)
        sign *= side
        found.append(canonical)
    return sign, tuple(found)


def _canonical(p: Sequence[int]) -> tuple[int, Conic]:
    """Coprime coefficients, the last one that is not 0 positive."""
    common = math.gcd(*p)
    sign = next(1 if x > 0 else -1 for x in reversed(p) if x)
    f, d, e, a, b, c = (sign * x // common for x in p)
    return sign, (f, d, e, a, b, c)


@dataclass(frozen=True)
class ConicWall:
    """The sign of a polynomial: `sign` times that of the factors with these numbers."""

    sign: int
    factors: tuple[int, ...]

    def __neg__(self) -> ConicWall:
        return ConicWall(-self.sign, self.factors)


@dataclass(eq=False)
class Factors:
    """All factors seen so far, numbered."""

    forms: list[Conic] = field(default_factory=list)
    _numbers: dict[Conic, int] = field(default_factory=dict)
    _floats: np.ndarray = field(default_factory=lambda: np.zeros((64, 6)))

    def wall(self, p: Sequence[int]) -> ConicWall:
        sign, factors = split_conic(p)
        return ConicWall(sign, tuple(sorted(self._number(factor) for factor in factors)))

    def _number(self, factor: Conic) -> int:
        if factor not in self._numbers:
            number = self._numbers[factor] = len(self.forms)
            self.forms.append(factor)
            if number == len(self._floats):
                self._floats = np.concatenate([self._floats, np.zeros_like(self._floats)])
            top = max(map(abs, factor))
            self._floats[number] = [x / top for x in factor]
        return self._numbers[factor]

    def values(self, numbers: Sequence[int], points: np.ndarray) -> np.ndarray:
        """Floats, factors x points, each factor scaled to a largest coefficient 1: a guess."""
        u, v = points.T
        powers = np.stack([np.ones_like(u), u, v, u * u, u * v, v * v])
        return np.asarray(self._floats[list(numbers)] @ powers)


class Signs:
    """What is known of the signs of factors: equations over the field of two elements.

    `x_i = s` for one factor, `x_i x_j = s` for two, x in {1, -1}: a union-find in which
    every factor knows its sign relative to its root, and -1 stands for the constant 1. A system of
    such equations has a solution iff no equation contradicts those before it.
    """

    def __init__(self, parents: dict[int, tuple[int, int]] | None = None) -> None:
        self._parents = parents or {}

    def copy(self) -> Signs:
        return Signs(dict(self._parents))

    def _root(self, i: int) -> tuple[int, int]:
        sign = 1
        while i in self._parents:
            i, step = self._parents[i]
            sign *= step
        return i, sign

    def add(self, sign: int, factors: Sequence[int]) -> bool:
        """Require that the factors' product has this sign; False if it cannot."""
        first, one = self._root(factors[0] if factors else -1)
        second, other = self._root(factors[1] if len(factors) > 1 else -1)
        if first == second:
            return one * other == sign
        low, high = sorted((first, second))
        self._parents[high] = (low, one * other * sign)
        return True
