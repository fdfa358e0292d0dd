"""A function of one variable, given by its values at knots, as a difference of convex ones."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from hardmax._errors import ShapeError
from hardmax.core import Numbers
from hardmax.numerics import exact, finite_array

Line = tuple[Fraction, Fraction]  # slope, intercept
Coefficients = tuple[np.ndarray, np.ndarray]  # pieces x 1, pieces


def convex_parts(knots: Numbers, values: Numbers) -> tuple[Coefficients, Coefficients | None]:
    """Coefficients of convex plus and minus with plus - minus the interpolant; None for minus = 0.

    Rounded once, at the end.
    """
    plus, minus = _convex_parts(*_exact_knots(knots, values))
    if len(minus) == 1:
        return _round_lines(plus), None
    plus, minus = _balance(plus, minus)
    return _round_lines(plus), _round_lines(minus)


def _exact_knots(knots: Numbers, values: Numbers) -> tuple[list[Fraction], list[Fraction]]:
    t, v = _rationals(knots, "knots"), _rationals(values, "values")
    if len(t) != len(v):
        raise ShapeError(f"Every knot needs a value, but there are {len(t)} and {len(v)}.")
    if len(t) < 2:
        raise ShapeError(f"An interpolant needs at least two knots, but there are {len(t)}.")
    for i in range(1, len(t)):
        if t[i] <= t[i - 1]:
            raise ShapeError(
                f"The knots must increase strictly, but knot {i} is {float(t[i])!r} after "
                f"{float(t[i - 1])!r}."
            )
    return t, v


def _rationals(numbers: Numbers, name: str) -> list[Fraction]:
    floats = finite_array(numbers, name, ndim=1)
    given = np.asarray(numbers)
    return list(exact(given if given.dtype == object else floats))


def _convex_parts(t: list[Fraction], v: list[Fraction]) -> tuple[list[Line], list[Line]]:
    """The pieces of both parts in order, each going on from the last by a kink at its knot.

    A kink of size k at t adds k max(x - t, 0), so the next piece has slope + k and
    intercept - k t, and it lies above the others exactly to the right of t.
    """
    slopes = [(v[i + 1] - v[i]) / (t[i + 1] - t[i]) for i in range(len(t) - 1)]
    plus: list[Line] = [(slopes[0], v[0] - slopes[0] * t[0])]
    minus: list[Line] = [(Fraction(0), Fraction(0))]
    for i in range(1, len(slopes)):
        kink = slopes[i] - slopes[i - 1]
        if kink != 0:
            part = plus if kink > 0 else minus
            slope, intercept = part[-1]
            part.append((slope + abs(kink), intercept - abs(kink) * t[i]))
    return plus, minus


def _balance(plus: list[Line], minus: list[Line]) -> tuple[list[Line], list[Line]]:
    """Both parts plus one affine function, which leaves their difference alone.

    Shifting a set of numbers by c makes its largest absolute value least when the smallest and
    the largest become opposite; slopes and intercepts shift independently.
    """
    shifts = [-(min(numbers) + max(numbers)) / 2 for numbers in zip(*plus, *minus, strict=True)]
    return [_shift_line(line, shifts) for line in plus], [
        _shift_line(line, shifts) for line in minus
    ]


def _shift_line(line: Line, shifts: list[Fraction]) -> Line:
    return line[0] + shifts[0], line[1] + shifts[1]


def _round_lines(lines: list[Line]) -> Coefficients:
    try:
        table = np.array([[float(slope), float(intercept)] for slope, intercept in lines])
    except OverflowError:
        raise ShapeError(
            "The interpolant has a slope or an intercept beyond the range of float64; move the "
            "knots apart or scale the values down."
        ) from None
    return table[:, :1], table[:, 1]
