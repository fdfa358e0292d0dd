"""What a position may hold: a symbol, an exact number, or nothing."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from hardmax._errors import RequestError
from hardmax.core import plain

Item = Any  # a symbol (a text), a number, or None


def item(given: Any) -> Item:
    """A symbol or None as it is, anything else as an exact number."""
    if given is None or isinstance(given, str):
        return given
    return plain(number(given))


def number(given: Any) -> Fraction:
    """An exact number; a float is the dyadic rational that it is."""
    try:
        return Fraction(given) if not isinstance(given, str) else Fraction("no number")
    except (TypeError, ValueError, OverflowError):
        raise RequestError(
            f"Values are symbols (texts), exact numbers or None, and arithmetic is for numbers, "
            f"but this is {given!r}."
        ) from None


def in_order(one: Item) -> tuple[int, Any]:
    """A key to sort by: nothing first, then numbers, then symbols."""
    return (0, 0) if one is None else (2, one) if isinstance(one, str) else (1, one)
