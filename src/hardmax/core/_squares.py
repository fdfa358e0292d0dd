"""How far a number is from those that it is compared with, as blocks of circuits hold it."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

Exact = int | Fraction


def square_code(number: Exact, items: Sequence[Exact]) -> Exact:
    """The largest 2ab - b^2 over items b, for the number a, and 1 more if it is no item.

    Of an item it is the square. So 1 - code + 2ab - b^2 is 1 for b = a, and at most 0 for any
    other item b.
    """
    own = max((2 * number * item - item * item for item in items), default=0)
    return own + (number not in items)
