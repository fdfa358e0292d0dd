"""Tropical quotients: differences of two maxima, closed under maximum, sum and difference.

Every continuous piecewise linear function is one. With f = p - q and g = r - s:
f + g = (p + r) - (q + s), f - g = (p + s) - (q + r), and max(f, g) = max(p + s, r + q) - (q + s).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hardmax._errors import ShapeError
from hardmax.geometry.tropical._tropical import Tropical


@dataclass(frozen=True, eq=False)
class TropicalRational:
    """x -> numerator(x) - denominator(x), exactly; equal if equal as functions."""

    numerator: Tropical
    denominator: Tropical

    def __post_init__(self) -> None:
        if self.numerator.dimension != self.denominator.dimension:
            raise ShapeError(
                f"Numerator and denominator must have the same variables, but they have "
                f"{self.numerator.dimension} and {self.denominator.dimension}."
            )

    @property
    def dimension(self) -> int:
        return self.numerator.dimension

    def __call__(self, x: Any) -> Any:
        """At a point, or at each row of a table; exactly, if the coordinates are Fractions."""
        return self.numerator(x) - self.denominator(x)

    def __or__(self, other: TropicalRational | Tropical) -> TropicalRational:
        r, s = _parts(other)
        upper = (self.numerator + s) | (r + self.denominator)
        return TropicalRational(upper, self.denominator + s)

    def __add__(self, other: TropicalRational | Tropical) -> TropicalRational:
        r, s = _parts(other)
        return TropicalRational(self.numerator + r, self.denominator + s)

    def __sub__(self, other: TropicalRational | Tropical) -> TropicalRational:
        r, s = _parts(other)
        return TropicalRational(self.numerator + s, self.denominator + r)

    def __ror__(self, other: Tropical) -> TropicalRational:
        return self | other

    def __radd__(self, other: Tropical) -> TropicalRational:
        return self + other

    def __rsub__(self, other: Tropical) -> TropicalRational:
        return TropicalRational(other + self.denominator, self.numerator)

    def __eq__(self, other: object) -> bool:
        """p - q = r - s exactly if p + s = r + q."""
        if not isinstance(other, TropicalRational | Tropical):
            return NotImplemented
        r, s = _parts(other)
        return self.dimension == r.dimension and self.numerator + s == r + self.denominator

    __hash__ = None  # type: ignore[assignment]  # one function has many quotients

    def __repr__(self) -> str:
        return f"{self.numerator} - {self.denominator}"


def _parts(value: TropicalRational | Tropical) -> tuple[Tropical, Tropical]:
    if isinstance(value, Tropical):
        return value, Tropical.of([[0] * value.dimension])
    return value.numerator, value.denominator
