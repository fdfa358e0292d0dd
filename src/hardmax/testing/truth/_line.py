"""The error of a Transformer of one input, bracketed by bisection in jets of balls.

On an interval m + t, |t| <= r, Taylor's theorem encloses the error in e(m) + e'(m) t + b t^2, where
b holds half the second derivative over the interval; where a kink may lie in it, in e(m) + s t
with all slopes s; across a jump, in the hull of the values. Each enclosure bounds the error from
above, each value at a float from below. The interval with the largest bound is halved until the
two are close.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hardmax.core import Box, Steps, Transformer
from hardmax.numerics import precision
from hardmax.testing.truth._arithmetic import BITS, Balls, Jet, Jets, Undecided
from hardmax.testing.truth._meaning import outputs_on_vector, values_of_steps

if TYPE_CHECKING:
    from flint import arb

Ends = tuple[Fraction, Fraction]
Errors = Callable[[Any, Any], list[Any]]  # x and an arithmetic -> the error of every output


def errors_of(transformer: Transformer, target: Steps) -> Errors:
    """Transformer - target, output by output, in any arithmetic."""

    def errors(x: Any, numbers: Any) -> list[Any]:
        ours, theirs = (
            outputs_on_vector(transformer, x, numbers),
            values_of_steps(target, x, numbers),
        )
        return [a - b for a, b in zip(ours, theirs, strict=True)]

    return errors


def largest_error_on_line(
    transformer: Transformer, target: Steps, box: Box, *, close: float = 2.0**-24, most: int = 400
) -> Ends | None:
    """low <= sup |Transformer - target| <= high with high <= (1 + close) low.

    None if `most` intervals do not bring them together. Radii of balls have 30 bits, so that no
    share below 2^-28 can be asked for across a jump.
    """
    errors = errors_of(transformer, target)
    start, stop = Fraction(float(box.low[0])), Fraction(float(box.high[0]))
    with precision(BITS):
        low = max(_size_at(errors, x)[0] for x in (start, stop))
        heap = [(-_size_over(errors, start, stop)[1], start, stop)]
        for _ in range(most):
            high, a, b = heapq.heappop(heap)
            if -high <= low * (1 + Fraction(close)):
                return low, max(low, -high)
            middle = (a + b) / 2
            low = max(low, _size_at(errors, middle)[0])
            for ends in ((a, middle), (middle, b)):
                bound = _size_over(errors, *ends)[1]
                if bound > low:
                    heapq.heappush(heap, (-bound, *ends))
            if not heap:
                return low, low
    return None


def _size_at(errors: Errors, x: Fraction) -> Ends:
    """The error's size at a point, from both sides; where balls cannot say who wins, nothing."""
    try:
        return ends_of(errors([ball_of(x)], Balls()))
    except Undecided:
        return Fraction(0), Fraction(0)


def _size_over(errors: Errors, a: Fraction, b: Fraction) -> Ends:
    """An upper bound of the error's size over [a, b]; the lower one means nothing."""
    from flint import arb

    middle, radius = (a + b) / 2, (b - a) / 2
    numbers = Jets()
    over = errors([Jet(ball_of(middle, radius), arb(1), arb(0))], numbers)
    if numbers.jumps:
        return ends_of([jet.value for jet in over])
    at = errors([Jet(ball_of(middle), arb(1), arb(0))], Jets())
    t = ball_of(Fraction(0), radius)
    if numbers.kinked:
        return ends_of([p.value + o.slope * t for p, o in zip(at, over, strict=True)])
    return ends_of([p.value + p.slope * t + o.bend * t * t for p, o in zip(at, over, strict=True)])


def ends_of(balls: list[arb]) -> Ends:
    """The largest |x| over all balls: at least so much, at most so much."""
    ends = [(_fraction(ball.abs_lower()), _fraction(ball.abs_upper())) for ball in balls]
    return max((low for low, _ in ends), default=Fraction(0)), max(
        (high for _, high in ends), default=Fraction(0)
    )


def ball_of(middle: Fraction, radius: Fraction = Fraction(0)) -> arb:
    """A ball that holds all numbers so close to a rational one."""
    from flint import arb, fmpq

    centre = arb(fmpq(middle.numerator, middle.denominator))
    return centre + arb(0, fmpq(radius.numerator, radius.denominator)) if radius else centre


def _fraction(point: arb) -> Fraction:
    """The number that a ball of radius 0 is."""
    if not point.is_finite():
        return Fraction(10) ** 400  # beyond every float: such an interval is halved first
    mantissa, exponent = point.man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
