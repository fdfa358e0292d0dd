"""Numbers in which a Transformer can be evaluated from its definition: rationals, balls, jets.

An arithmetic knows what a float is in it, and answers the questions that depend on signs: a relu,
a maximum, who wins. Sums and products are those of Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from hardmax._errors import SemanticsError
from hardmax.core import Hardmax, Weighting

BITS = 200  # of every ball
Row = list[Any]


class Undecided(Exception):
    """Balls overlap: who is larger is not known."""


class Arithmetic(Protocol):
    """What evaluation needs beyond sums and products."""

    def number(self, value: float) -> Any: ...

    def maximum(self, values: Sequence[Any]) -> Any: ...

    def mix(self, scores: Sequence[Any], weighting: Weighting, rows: Sequence[Row]) -> Row:
        """The mean of the rows, each with the weight that its score earns."""

    def apply(self, name: str, value: Any, exponent: float | Fraction) -> Any: ...


@dataclass(frozen=True)
class Rationals:
    """Fractions: hard heads, ties included, and functions whose values are rational."""

    def number(self, value: float) -> Fraction:
        return Fraction(value)

    def maximum(self, values: Sequence[Fraction]) -> Fraction:
        return max(values)

    def mix(self, scores: Sequence[Fraction], weighting: Weighting, rows: Sequence[Row]) -> Row:
        if not isinstance(weighting, Hardmax):
            raise SemanticsError("A softmax has no rational value: evaluate it in balls.")
        top = max(scores)
        return mean([row for row, score in zip(rows, scores, strict=True) if score == top])

    def apply(self, name: str, value: Fraction, exponent: float | Fraction) -> Fraction:
        match name:
            case "relu":
                return max(value, Fraction(0))
            case "abs":
                return abs(value)
            case "reciprocal":
                return 1 / value
            case "power" if Fraction(exponent).denominator == 1:
                return Fraction(value ** int(exponent))
        raise SemanticsError(f"The {name} of a rational is evaluated in balls.")


@dataclass(frozen=True)
class Balls:
    """Real numbers enclosed in balls of python-flint, at the precision of its context."""

    def number(self, value: float) -> Any:
        from flint import arb

        return arb(value)

    def maximum(self, values: Sequence[Any]) -> Any:
        best = values[0]
        for value in values[1:]:
            best = best.max(value)
        return best

    def mix(self, scores: Sequence[Any], weighting: Weighting, rows: Sequence[Row]) -> Row:
        """A hardmax needs scores that balls can tell apart, or that are exactly the same."""
        best = max(scores, key=lambda score: score.mid())
        if isinstance(weighting, Hardmax):
            pairs = [(s, row) for s, row in zip(scores, rows, strict=True) if not bool(s < best)]
            if len(pairs) > 1 and not all(bool(score == best) for score, _ in pairs):
                raise Undecided
            return mean([row for _, row in pairs])
        powers = [((score - best.mid()) * weighting.coldness).exp() for score in scores]
        total = sum(powers, self.number(0))
        return weighted_sum([power / total for power in powers], rows)

    def apply(self, name: str, value: Any, exponent: float | Fraction) -> Any:
        match name:
            case "relu":
                return value.max(self.number(0))
            case "abs":
                return abs(value)
            case "reciprocal":
                return 1 / value
            case "power" if Fraction(exponent).denominator == 1:
                return value ** int(exponent)
            case "exp" | "sin" | "cos" | "tanh" | "log" | "sqrt" | "tan":
                return getattr(value, name)()
            case "silu":
                return value / (1 + (-value).exp())
        raise SemanticsError(f"There is no {name} here.")


@dataclass(frozen=True)
class Jet:
    """A function of one variable t around 0: value, slope and half the second derivative.

    Each coefficient is a ball. At a point they are the function's; over an interval they hold
    those of every point in it.
    """

    value: Any
    slope: Any
    bend: Any

    def __add__(self, other: Jet) -> Jet:
        return Jet(self.value + other.value, self.slope + other.slope, self.bend + other.bend)

    def __sub__(self, other: Jet) -> Jet:
        return Jet(self.value - other.value, self.slope - other.slope, self.bend - other.bend)

    def __mul__(self, other: Jet) -> Jet:
        return Jet(
            self.value * other.value,
            self.value * other.slope + self.slope * other.value,
            self.value * other.bend + self.slope * other.slope + self.bend * other.value,
        )

    def through(self, value: Any, slope: Any, bend: Any) -> Jet:
        """f of this, from f, f' and f''/2 at the value."""
        return Jet(value, slope * self.slope, slope * self.bend + bend * self.slope * self.slope)

    def hull(self, other: Jet) -> Jet:
        return Jet(
            self.value.union(other.value),
            self.slope.union(other.slope),
            self.bend.union(other.bend),
        )


@dataclass
class Jets:
    """Jets over an interval; remembers whether a kink or a jump may lie in it.

    With a kink the slopes are still those of either side, so that the mean value theorem holds;
    across a jump only the values mean anything.
    """

    kinked: bool = False
    jumps: bool = False

    def number(self, value: float) -> Jet:
        from flint import arb

        return Jet(arb(value), arb(0), arb(0))

    def maximum(self, values: Sequence[Jet]) -> Jet:
        best = values[0]
        for jet in values[1:]:
            best = self._larger(best, jet)
        return best

    def _larger(self, a: Jet, b: Jet) -> Jet:
        if a.value > b.value:
            return a
        if a.value < b.value or _same(a, b):
            return b
        self.kinked = True
        both = a.hull(b)
        return Jet(a.value.max(b.value), both.slope, both.bend)

    def mix(self, scores: Sequence[Jet], weighting: Weighting, rows: Sequence[Row]) -> Row:
        best = max(scores, key=lambda score: score.value.mid())
        if isinstance(weighting, Hardmax):
            return self._hull_of_winners(best, scores, rows)
        top, coldness = best.value.mid(), self.number(weighting.coldness)
        shifted = [Jet(score.value - top, score.slope, score.bend) * coldness for score in scores]
        powers = [self.apply("exp", score, 1.0) for score in shifted]
        share = self.apply("reciprocal", sum(powers[1:], powers[0]), 1.0)
        return weighted_sum([power * share for power in powers], rows)

    def _hull_of_winners(self, best: Jet, scores: Sequence[Jet], rows: Sequence[Row]) -> Row:
        """Whoever may win; several that are not the same make a jump possible, in their hull."""
        pairs = [(s, row) for s, row in zip(scores, rows, strict=True) if not s.value < best.value]
        if all(_same(score, best) for score, _ in pairs):
            share = Jet(self.number(1).value / len(pairs), *[self.number(0).value] * 2)
            return weighted_sum([share] * len(pairs), [row for _, row in pairs])
        self.jumps = True
        hull = pairs[0][1]
        for _, row in pairs[1:]:
            hull = [a.hull(b) for a, b in zip(hull, row, strict=True)]
        return hull

    def apply(self, name: str, value: Jet, exponent: float | Fraction) -> Jet:
        v = value.value
        match name:
            case "relu":
                return self._larger(value, self.number(0))
            case "abs":
                return self._larger(value, self.number(-1) * value)
            case "exp":
                power = v.exp()
                return value.through(power, power, power / 2)
            case "sin":
                return value.through(v.sin(), v.cos(), -v.sin() / 2)
            case "cos":
                return value.through(v.cos(), -v.sin(), -v.cos() / 2)
            case "tanh":
                slope = 1 - v.tanh() ** 2
                return value.through(v.tanh(), slope, -v.tanh() * slope)
            case "reciprocal":
                return value.through(1 / v, -1 / v**2, 1 / v**3)
            case "power" if Fraction(exponent).denominator == 1 and exponent >= 2:
                n = int(exponent)
                return value.through(v**n, n * v ** (n - 1), n * (n - 1) * v ** (n - 2) / 2)
        raise SemanticsError(f"There is no {name} here.")


def weighted_sum(weights: Sequence[Any], rows: Sequence[Row]) -> Row:
    """sum_j weights[j] rows[j]."""
    columns = zip(*rows, strict=True)
    products = [[w * v for w, v in zip(weights, column, strict=True)] for column in columns]
    return [sum(terms[1:], terms[0]) for terms in products]


def mean(rows: Sequence[Row]) -> Row:
    """All rows with the same weight."""
    return [sum(column[1:], column[0]) / len(rows) for column in zip(*rows, strict=True)]


def _same(a: Jet, b: Jet) -> bool:
    """Whether they are one and the same function: no ball is wider than a point."""
    pairs = ((a.value, b.value), (a.slope, b.slope), (a.bend, b.bend))
    return all(bool(x == y) for x, y in pairs)
