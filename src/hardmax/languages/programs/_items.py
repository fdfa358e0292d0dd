"""What a position may hold: a symbol, an exact number, or nothing."""

from __future__ import annotations

from fractions import Fraction

from hardmax._errors import RequestError
from hardmax.core import plain

Exact = int | Fraction
# A symbol (a text), a number or nothing; a float that is given counts as the rational that it is.
Item = str | int | float | Fraction | None


class Kept(Fraction):
    """A number that functions are to see as they got it: 1.0 and True are not 1 to everybody.

    It counts as the number that it is; it is equal to nothing but what looks the same.
    """

    seen: float  # or whatever else of a number a function returned: a bool, one of NumPy's

    def __new__(cls, seen: float) -> Kept:
        made = super().__new__(cls, exact_number(seen))
        made.seen = seen
        return made

    @property
    def look(self) -> tuple[str, str]:
        return type(self.seen).__name__, repr(self.seen)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kept) and self.look == other.look

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(self.look)

    def __repr__(self) -> str:
        return repr(self.seen)


def item(given: object) -> Item:
    """A symbol or None as it is, anything else as an exact number."""
    if given is None or isinstance(given, str | Kept):
        return given
    return plain(exact_number(given))


def number_in_mean(one: Item) -> Item:
    """What an item is in a mean: the number itself, whatever functions see it as."""
    return plain(Fraction(one)) if isinstance(one, Kept) else one


def exact_number(given: object) -> Fraction:
    """An exact number; a float is the dyadic rational that it is."""
    if type(given) is Fraction:
        return given
    try:
        if isinstance(given, str):  # which Fraction would read
            raise TypeError
        return Fraction(given)  # type: ignore[call-overload]  # it refuses the rest
    except (TypeError, ValueError, OverflowError):
        raise RequestError(
            f"Values are symbols (texts), exact numbers or None, and arithmetic is for numbers, "
            f"but this is {given!r}."
        ) from None


def in_order(one: Item) -> tuple[int | str | Fraction, ...]:
    """A key to sort by: nothing first, then numbers, then symbols."""
    if one is None or isinstance(one, str):
        return (0, 0) if one is None else (2, one)
    return (1, Fraction(one), *(one.look if isinstance(one, Kept) else ()))
