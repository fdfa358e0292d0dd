"""Values of programs whose items are whole numbers in a known range."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hardmax.languages import programs as p
from hardmax.languages.programs import Value


@dataclass(frozen=True, eq=False)
class Whole:
    """A value whose items are whole numbers in a range; or nothing, too."""

    value: Value
    low: int
    high: int

    @property
    def width(self) -> int:
        return self.high - self.low + 1


def constant_of(number: int) -> Whole:
    return Whole(p.Constant(number), number, number)


def sum_of(one: Whole, other: Whole) -> Whole:
    return Whole(one.value + other.value, one.low + other.low, one.high + other.high)


def difference_of(one: Whole, other: Whole) -> Whole:
    return Whole(one.value - other.value, one.low - other.high, one.high - other.low)


def scaled_of(one: Whole, by: int) -> Whole:
    ends = sorted((one.low * by, one.high * by))
    return Whole(one.value * by, ends[0], ends[1])


def product_of(one: Whole, other: Whole) -> Whole:
    ends = [a * b for a in (one.low, one.high) for b in (other.low, other.high)]
    return Whole(one.value * other.value, min(ends), max(ends))


def over_of(one: Whole, by: int) -> Whole:
    return Whole(one.value // by, one.low // by, one.high // by)


def squared_of(one: Whole) -> Whole:
    return Whole(one.value.map(lambda number: number * number), 0, max(one.low**2, one.high**2))


def clipped_of(one: Whole, other: Whole) -> Whole:
    value = p.apply(max, one.value, other.value)
    return replace(sum_of(one, other), value=value, low=min(one.low, other.low))
