"""Which quotients are a softmax as they stand."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from hardmax.languages import Expression, Number, Variable, split_coefficient
from hardmax.numerics import precision

_BITS = 200  # the constant and the logarithm may cancel

Scores = tuple[tuple[float, ...], ...]


def as_softmax(
    expression: Expression, variables: Sequence[str]
) -> tuple[Scores, tuple[float, ...]] | None:
    """(scores, values) if it is sum a_i e^(l_i) / sum b_i e^(l_i), l_i affine and all b_i > 0.

    Token i then scores l_i + ln b_i and holds a_i/b_i; a constant is a multiple of e^0.
    """
    if expression.operation != "divide":
        return None
    above, below = (_exponentials(part, variables) for part in expression.arguments)
    if above is None or below is None or len(below) < 2 or not set(above) <= set(below):
        return None
    if any(weight <= 0 for weight in below.values()):
        return None
    scores = tuple(
        (*map(float, line[:-1]), _with_logarithm(line[-1], weight))
        for line, weight in below.items()
    )
    return scores, tuple(float(above.get(line, Fraction(0)) / below[line]) for line in below)


def _with_logarithm(constant: Fraction, weight: Fraction) -> float:
    """constant + ln weight, rounded once: the two may cancel."""
    from flint import arb, fmpq

    with precision(_BITS):
        logarithm = arb(fmpq(weight.numerator, weight.denominator)).log()
        return float((arb(fmpq(constant.numerator, constant.denominator)) + logarithm).mid())


def _exponentials(
    expression: Expression, variables: Sequence[str]
) -> dict[tuple[Fraction, ...], Fraction] | None:
    """Exponents (weights of the variables, then the constant) and their coefficients."""
    terms = expression.arguments if expression.operation == "add" else (expression,)
    found: dict[tuple[Fraction, ...], Fraction] = {}
    for term in terms:
        coefficient, rest = split_coefficient(term)
        if isinstance(rest, Number):
            line: tuple[Fraction, ...] | None = (Fraction(0),) * (len(variables) + 1)
            coefficient *= rest.value
        elif rest.operation == "exp":
            line = _affine(rest.arguments[0], variables)
        else:
            return None
        if line is None:
            return None
        found[line] = found.get(line, Fraction(0)) + coefficient
    return found


def _affine(expression: Expression, variables: Sequence[str]) -> tuple[Fraction, ...] | None:
    weights = [Fraction(0)] * (len(variables) + 1)
    terms = expression.arguments if expression.operation == "add" else (expression,)
    for term in terms:
        coefficient, rest = split_coefficient(term)
        if isinstance(rest, Number):
            weights[-1] += coefficient * rest.value
        elif isinstance(rest, Variable):
            weights[list(variables).index(rest.name)] += coefficient
        else:
            return None
    return tuple(weights)
