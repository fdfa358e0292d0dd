"""Numbers that are written as expressions, such as sqrt(2): rationals of many bits."""

from __future__ import annotations

from fractions import Fraction

from hardmax._errors import DomainError
from hardmax.languages import Expression, Number, ball_value
from hardmax.numerics import precision

_BITS = 300  # far beyond the claims, which speak of float64


def constant_value(expression: Expression) -> Fraction:
    """The value of an expression without variables."""
    if isinstance(expression, Number):
        return expression.value
    return curve_value(expression, Fraction(0))


def curve_value(curve: Expression, at: Fraction) -> Fraction:
    """curve(at) for a curve in t."""
    from flint import arb, fmpq

    with precision(_BITS):
        ball = ball_value(curve, {"t": arb(fmpq(at.numerator, at.denominator))})
        if not ball.is_finite():
            raise DomainError(f"{curve} is not defined at t = {float(at)!r}.")
        mantissa, exponent = ball.mid().man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
