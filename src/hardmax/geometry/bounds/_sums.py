"""The sums behind the bounds, in integers of any size, and the checks of what users pass."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence

from hardmax._errors import RequestError

_LARGEST = 2**26  # bits of a result: 20 million digits
_MOST_WORK = 2**35  # bits touched by one sum: some seconds
_OVERHEAD = 2**10  # bits that could be touched while Python turns to the next term


def whole(value: object, name: str, *, least: int = 1) -> int:
    """A whole number >= least, or a refusal that names it."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]  # anything may come
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or number < least:
        raise RequestError(f"{name} must be a whole number >= {least}, but it is {value!r}.")
    return number


def wholes(values: object, name: str, *, least: int = 1) -> tuple[int, ...]:
    """Several whole numbers, at least one of them."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise RequestError(f"{name} must be a list of whole numbers, but it is {values!r}.")
    numbers = tuple(whole(value, f"each of {name}", least=least) for value in values)
    if not numbers:
        raise RequestError(f"{name} must hold at least one whole number, but it is empty.")
    return numbers


def binomial_sum(n: int, top: int, factor: int = 1) -> int:
    """sum_{j <= top} C(n, j) factor^j.

    For top >= n this is (1 + factor)^n, by the binomial theorem. Otherwise each term comes from
    the one before: C(n, j+1) f^(j+1) = C(n, j) f^j (n - j) f / (j + 1), where nothing is left over.
    """
    if top >= n:
        return power(1 + factor, n)
    refuse_work(top, top * (n * factor).bit_length())
    total = term = 1
    for j in range(top):
        term = term * (n - j) * factor // (j + 1)
        total += term
    return total


def symmetric_sum(numbers: Sequence[int], top: int) -> int:
    """sum_{j <= top} e_j(numbers), the elementary symmetric polynomials.

    e_j is the coefficient of t^j in prod (1 + a t), so the product is multiplied out, cut off
    behind t^top. Equal numbers a give C(n, j) a^j.
    """
    if len(set(numbers)) == 1:
        return binomial_sum(len(numbers), top, numbers[0])
    if top >= len(numbers):
        return product(1 + a for a in numbers)
    bits = max((a.bit_length() for a in numbers), default=0)
    refuse_work(len(numbers) * top, top * bits)
    coefficients = [1] + [0] * top
    for a in numbers:
        for j in range(top, 0, -1):
            coefficients[j] += a * coefficients[j - 1]
    return sum(coefficients)


def power(base: int, exponent: int) -> int:
    """base^exponent, refused if it would not fit into memory."""
    if base > 1:
        _refuse_above(exponent * base.bit_length(), _LARGEST, "number")
    return int(base**exponent)


def product(factors: Iterable[int]) -> int:
    """The product, refused if it would not fit into memory."""
    total = 1
    for factor in factors:
        _refuse_above(total.bit_length() + factor.bit_length(), _LARGEST, "number")
        total *= factor
    return total


def refuse_work(terms: int, bits: int) -> None:
    """Refuse a sum of so many terms of so many bits, if that takes more than some seconds."""
    _refuse_above(terms * (bits + _OVERHEAD), _MOST_WORK, "sum")


def _refuse_above(amount: int, most: int, what: str) -> None:
    if amount > most:
        digits = (
            f"{amount * math.log10(2):.2g} digits" if what == "number" else f"{amount:.2g} bits"
        )
        raise RequestError(
            f"This exact {what} would touch about {digits}. Ask for a smaller model."
        )
