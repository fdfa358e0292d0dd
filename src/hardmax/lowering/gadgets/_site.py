"""Where a gadget is built, and what it hands back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from hardmax.lowering.sketch import BoxForm, BoxSketch, Pair
from hardmax.numerics import short_above


@dataclass(frozen=True, eq=False)
class Site:
    """A node of a function's graph: the sketch, its arguments as forms, and their ranges."""

    sketch: BoxSketch
    node: int
    forms: tuple[BoxForm, ...]
    ranges: tuple[Pair, ...]
    tokens: int = 2  # of the prompt, at least


@dataclass(frozen=True, eq=False)
class Approximation:
    """A result as a form, and its error over the reals for all arguments in their ranges.

    `softening` is the part of the error that a hard head would not make.
    """

    form: BoxForm
    error: float
    softening: float = 0.0


def centred(pair: Pair) -> tuple[Fraction, Fraction]:
    """A middle and a radius of few bits with pair inside [middle - radius, middle + radius].

    Few bits, so that scaling by them seldom rounds; 0 and powers of two where that is all it takes.
    """
    low, high = Fraction(pair[0]), Fraction(pair[1])
    middle = _short((low + high) / 2)
    if abs(middle) * 2**10 <= high - low:
        middle = Fraction(0)
    radius = max(high - middle, middle - low)
    if radius == 0:
        return middle, Fraction(1)
    return middle, short_above(radius)


def _short(number: Fraction, bits: int = 12) -> Fraction:
    if number == 0:
        return number
    unit = Fraction(2) ** (math.frexp(float(abs(number)))[1] - bits)
    return round(number / unit) * unit
