"""Products, powers and polynomials by gated hidden units: exact over the reals.

Two units multiply two forms of the stream: relu(a) b - relu(-a) b = a b (`core.GatedFeedForward`).
Whatever is written with sums, products and whole powers is therefore built without any error, one
layer for each product on the longest way. What is left is rounding, and how far it goes: a product
that errs by e moves the result by e times the product of all factors that follow on its way.

Those factors are taken at their largest where they may be a little off themselves: of a value that
is made with p products, no more than 16 (p + 1) roundings of the sum of the sizes of its terms.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from hardmax._errors import PrecisionError
from hardmax.languages import Expression, Number, evaluate
from hardmax.lowering.gadgets._site import Approximation, Site
from hardmax.lowering.graph import T
from hardmax.lowering.sketch import BoxForm, BoxRegister, Multiplier, exact_form
from hardmax.numerics import FLOAT64, Format, Interval, above_float, inflate

MOST_PRODUCTS = 256  # of one curve
_ROUNDINGS = 16.0


@dataclass(frozen=True, eq=False)
class _Part:
    """A value: its form, how large it is, the sum of its terms' sizes, and how it is made."""

    form: BoxForm
    sup: float
    size: float
    products: int

    def reach(self, format: Format) -> float:
        """Its largest size, rounding included."""
        away = _ROUNDINGS * (self.products + 1) * format.unit * self.size
        return inflate(self.sup + away, 8)


def product_by_pair(site: Site, error: float, format: Format = FLOAT64) -> Approximation:
    """a b in one layer of two hidden units, exactly."""
    builder = _Builder(site, format)
    parts = [
        _Part(form, size, size, 0)
        for form, size in zip(site.forms, map(_size_of, site.ranges), strict=True)
    ]
    return builder.finished(builder.product(parts[0], parts[-1]))


def polynomial_by_pairs(
    site: Site, curve: Expression, format: Format = FLOAT64
) -> Approximation | None:
    """A curve that is written as a polynomial of t, exactly; None if it is not.

    A power t^n takes the powers t^(n/2), rounded up and down: a layer for each doubling, and powers
    that several terms have in common once. t^16 is 4 products, 16 t^5 - 20 t^3 + 5 t is 3.
    """
    if not is_polynomial(curve):
        return None
    builder = _Builder(site, format)
    return builder.finished(builder.part(curve))


def is_polynomial(curve: Expression) -> bool:
    """Whether a curve is written with sums, products and whole powers of t alone."""
    return _products_in(curve) <= MOST_PRODUCTS


def _products_in(curve: Expression) -> float:
    """How many products it is, at most; infinitely many if it is something else."""
    if curve is T or isinstance(curve, Number):
        return 0.0
    inner = sum(map(_products_in, curve.arguments))
    match curve.operation:
        case "add":
            return inner
        case "multiply":
            return inner + len(curve.arguments) - 1
        case "power":
            exponent = _whole_power(curve)
            return inner + exponent - 1 if exponent else float("inf")
    return float("inf")


def _whole_power(curve: Expression) -> int:
    """The exponent, if it is a whole number from 1 on; else 0."""
    exponent = Fraction(getattr(curve, "exponent", 0))
    return int(exponent) if exponent.denominator == 1 and exponent >= 1 else 0


class _Builder:
    """Emits products, and says at the end how far each of them reaches."""

    def __init__(self, site: Site, format: Format) -> None:
        self.site, self.format = site, format
        self.made: list[tuple[int, BoxRegister, _Part, _Part]] = []
        self.powers: dict[object, _Part] = {}
        self.parts: dict[Expression, _Part] = {}
        low, high = map(np.array, site.ranges[0])
        self.ends = {"t": Interval(low, high)}

    def part(self, curve: Expression) -> _Part:
        if curve not in self.parts:
            self.parts[curve] = self._part(curve)
        return self.parts[curve]

    def _part(self, curve: Expression) -> _Part:
        if isinstance(curve, Number):
            size = above_float(abs(curve.value))
            return _Part(exact_form(curve.value), size, size, 0)
        if curve is T:
            size = _size_of(self.site.ranges[0])
            return _Part(self.site.forms[0], size, size, 0)
        parts = [self.part(argument) for argument in curve.arguments]
        if curve.operation == "power":
            found = self._power(parts[0], _whole_power(curve))
        elif curve.operation == "add":
            form = sum((part.form for part in parts), exact_form())
            size = inflate(sum(part.size for part in parts), len(parts))
            found = _Part(form, size, size, sum(part.products for part in parts))
        else:
            found = parts[0]
            for part in parts[1:]:
                found = self.product(found, part)
        known = float(evaluate(curve, self.ends, "interval").magnitude)
        return replace(found, sup=min(found.sup, known))

    def _power(self, base: _Part, exponent: int) -> _Part:
        if exponent == 1:
            return base
        key = base.form.key, exponent
        if key not in self.powers:
            larger, smaller = exponent - exponent // 2, exponent // 2
            both = self._power(base, larger), self._power(base, smaller)
            self.powers[key] = self.product(*both)
        return self.powers[key]

    def product(self, first: _Part, second: _Part) -> _Part:
        """One more pair of units; times a constant nothing is multiplied."""
        for one, other in ((first, second), (second, first)):
            if not one.form.terms:
                factor, size = one.form.constant, above_float(abs(one.form.constant))
                sup, size = inflate(size * other.sup, 2), inflate(size * other.size, 2)
                return _Part(other.form * factor, sup, size, other.products)
        node = self.site.node
        maker = self.site.sketch.multiply(first.form, second.form, node=node, gain=0.0)
        form = self.site.sketch.written(maker)
        (register,) = form.terms
        self.made.append((maker, register, first, second))
        sup, size = inflate(first.sup * second.sup, 2), inflate(first.size * second.size, 2)
        return _Part(form, sup, size, first.products + second.products + 1)

    def finished(self, result: _Part) -> Approximation:
        """The result; every product is told how much the result moves with it."""
        gains = {register: 0.0 for _, register, _, _ in self.made}
        self._add(gains, result.form, 1.0)
        makers = self.site.sketch.makers
        for maker, register, first, second in reversed(self.made):
            gain, emitted = gains[register], makers[maker]
            assert isinstance(emitted, Multiplier)
            makers[maker] = replace(emitted, gain=gain)
            self._add(gains, first.form, gain * second.reach(self.format))
            self._add(gains, second.form, gain * first.reach(self.format))
        if not all(gain < float("inf") for gain in gains.values()):
            raise PrecisionError("A power on this range is too large for floats; shrink the range.")
        return Approximation(result.form, 0.0)

    @staticmethod
    def _add(gains: dict[BoxRegister, float], form: BoxForm, gain: float) -> None:
        for register, weight in form.terms.items():
            if register in gains:
                gains[register] = inflate(gains[register] + gain * abs(float(weight)), 4)


def _size_of(pair: tuple[float, float]) -> float:
    return max(map(abs, pair))
