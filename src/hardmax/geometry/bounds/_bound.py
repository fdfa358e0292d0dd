"""One bound: an exact number with the theorem behind it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from hardmax._errors import RequestError
from hardmax._shown import Shown
from hardmax.geometry.bounds._sums import whole

Kind = Literal["upper", "lower", "exact"]

_WORDS = {"upper": "at most", "lower": "at least", "exact": "exactly"}
_PLAIN = 10**9  # below, all digits are shown
_FIGURES = 4
_LONGEST = 4_000  # digits that Python converts at once
_RECORDED = 20_000  # digits that a record holds


@dataclass(frozen=True)
class Bound(Shown):
    """How many cells, vertices or regions there can be.

    `value` is a Python integer, exact however large. An "upper" bound holds for all weights and
    a "lower" one is reached by some; "exact" is both: the maximum over all weights.
    `construction` names the weights that reach it.
    """

    value: int
    kind: Kind
    name: str
    formula: str
    reference: str
    hypotheses: tuple[str, ...] = ()
    construction: str = ""
    counts: str = "cells"

    def __post_init__(self) -> None:
        whole(self.value, "the value of a bound")
        if self.kind not in _WORDS:
            raise RequestError(f"A bound is upper, lower or exact, but it is {self.kind!r}.")

    @property
    def digits(self) -> str:
        """Every decimal digit, also of numbers that Python refuses to convert at once."""
        return _decimal(self.value)

    @property
    def scientific(self) -> str:
        """4.722e21, rounded from the exact digits; numbers below a thousand million in full."""
        return scientific(self.value)

    @property
    def log10(self) -> float:
        return math.log10(self.value)

    def as_dict(self) -> dict[str, object]:
        """Plain data. `value` is a text, because JSON numbers lose digits; None beyond 20,000."""
        return {
            "name": self.name,
            "kind": self.kind,
            "counts": self.counts,
            "value": self.digits if self.log10 < _RECORDED else None,
            "scientific": self.scientific,
            "log10": self.log10,
            "formula": self.formula,
            "reference": self.reference,
            "hypotheses": list(self.hypotheses),
            "construction": self.construction or None,
        }

    def __int__(self) -> int:
        return self.value

    def __str__(self) -> str:
        return f"{self.name}: {_WORDS[self.kind]} {self.scientific} {self.counts}"

    def __repr__(self) -> str:
        return f"Bound({self}, = {self.formula})"


def scientific(value: int) -> str:
    """A positive integer to four figures, rounded half up by integer arithmetic alone."""
    if value < _PLAIN:
        return f"{value:,}"
    exponent = int((value.bit_length() - 1) * math.log10(2)) - 1  # never too large
    while 10 ** (exponent + 1) <= value:
        exponent += 1
    scale = 10 ** (exponent - _FIGURES + 1)
    figures = (2 * value + scale) // (2 * scale)
    if figures == 10**_FIGURES:
        figures, exponent = figures // 10, exponent + 1
    text = str(figures)
    return f"{text[0]}.{text[1:]}e{exponent}"


def _decimal(value: int) -> str:
    """`str(value)`, cut in halves: Python converts at most 4,300 digits at once."""
    length = int(value.bit_length() * math.log10(2)) + 1
    if length <= _LONGEST:
        return str(value)
    high, low = divmod(value, 10 ** (length // 2))
    return _decimal(high) + _decimal(low).zfill(length // 2)
