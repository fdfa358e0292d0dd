"""Hidden units of legible models: staircases, cases of one-hots, linear units. Silent at the start.

Theorem 2 (staircase). Between neighbours a < b of the numbers that z can hold, a jump is
relu(s z - t) - relu(s z - t - 1): 0 up to z = t/s, 1 from (t + 1)/s on. The slope s is the power of
two from 4/(b - a) on, t the multiple of 1/8 that is nearest to s (a + b)/2 - 1/2. So the jump takes
at most a quarter of the gap, its middle is off by at most a 64th, and it is flat for more than a
third of the gap on either side: a staircase is exact while z strays by no more than that. So the
look-up of a count w from its share 1/(1 + w) is while that errs by less than 1/(3 n (n + 1)). Its
jumps are written downwards, relu(t + 1 - s z) - relu(t - s z): steep ones, which are those of small
shares, are then never far out. Products with s and the constants round nothing in any format.

A case of r one-hots is relu(2 (x_1 + ... + x_r) - (2 r - 1)): 1 if all are lit, and silent,
exactly, as long as the sum strays by less than 1/2 from a whole number below r.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from hardmax.lowering.programs.legible._sheet import ONE, START, Row, Unit, added

Outputs = Sequence[Row]  # what is written for each number, or in each case


def constant(outputs: Row) -> list[Unit]:
    """Written at every symbol."""
    return [Unit({ONE: 1.0, START: -1.0}, 0.0, outputs)] if outputs else []


def linear(row: Row, constant_part: float, low: float, high: float, place: int) -> list[Unit]:
    """The number row + constant, which lies between two others: one unit if it has one sign."""
    inner = added([(1.0, row), (constant_part, {ONE: 1.0, START: -1.0})])
    units = []
    if high > 0:
        units.append(Unit(inner, 0.0, {place: 1.0}))
    if low < 0:
        units.append(Unit(added([(-1.0, inner)]), 0.0, {place: -1.0}))
    return units


def staircase(row: Row, numbers: Sequence[float], outputs: Outputs) -> list[Unit]:
    """What is written for each of the numbers, in rising order, that the linear form can hold."""
    units = constant(outputs[0])
    for k in range(1, len(numbers)):
        change = added([(1.0, outputs[k]), (-1.0, outputs[k - 1])])
        if change:
            slope, edge = _jump(numbers[k - 1], numbers[k])
            steep = added([(slope, row)])
            for bias, sign in ((-edge, 1.0), (-edge - 1.0, -1.0)):
                units.append(_silenced(Unit(steep, bias, added([(sign, change)]))))
    return units


def falling_staircase(row: Row, numbers: Sequence[float], outputs: Outputs) -> list[Unit]:
    """The same, written downwards: numbers fall, and jumps are over as soon as z is large.

    At the start token z is to be the largest number, or above.
    """
    units = constant(outputs[0])
    for k in range(1, len(numbers)):
        change = added([(1.0, outputs[k]), (-1.0, outputs[k - 1])])
        if change:
            slope, edge = _jump(numbers[k], numbers[k - 1])
            steep = added([(-slope, row)])
            for bias, sign in ((edge + 1.0, 1.0), (edge, -1.0)):
                units.append(Unit(steep, bias, added([(sign, change)])))
    return units


def _jump(low: float, high: float) -> tuple[float, float]:
    """The slope s and the edge t of a jump between two numbers."""
    slope = 2.0 ** np.ceil(np.log2(4.0 / (high - low)))
    return float(slope), float(np.round(8.0 * (slope * (low + high) / 2 - 0.5)) / 8.0)


def case(lit: Sequence[Row], outputs: Row) -> Unit:
    """Written where each of the linear forms is 1, and nowhere else."""
    inner = added((2.0, row) for row in lit)
    return _silenced(Unit(inner, 1.0 - 2.0 * len(lit), outputs))


def _silenced(unit: Unit) -> Unit:
    """Rows are 0 at the start token: a unit that its bias would wake there is held down."""
    if unit.bias <= -0.5:
        return unit
    held_down = {START: -float(np.ceil(unit.bias)) - 1.0}
    return Unit(added([(1.0, unit.inner), (1.0, held_down)]), unit.bias, unit.outputs)


# ---- straight lines ------------------------------------------------------------------------------


def interpolated(row: Row, numbers: Sequence[Fraction], outputs: Outputs) -> list[Unit]:
    """Straight lines between what is written for numbers in rising order: a unit for each kink.

    Exact at the numbers; an error of the form is passed on, times the slope.
    """
    bent = [_silenced(Unit(row, -float(number), kink)) for number, kink in _kinks(numbers, outputs)]
    return [*constant(outputs[0]), *bent]


def interpolated_falling(row: Row, numbers: Sequence[Fraction], outputs: Outputs) -> list[Unit]:
    """The same for numbers that fall: relu(number - z). At the start token z is the largest, or
    above.

    The shares 1/(1 + w) of w = 0, 1, ... meet w = sum of 2 (k + 1) relu(1/(1 + k) - z) over k.
    """
    down = added([(-1.0, row)])
    turned = [-number for number in numbers]
    bent = [Unit(down, -float(number), kink) for number, kink in _kinks(turned, outputs)]
    return [*constant(outputs[0]), *bent]


def _kinks(numbers: Sequence[Fraction], outputs: Outputs) -> Iterator[tuple[Fraction, Row]]:
    """Where the slopes of straight lines change, and by how much; at first they are 0."""
    before: dict[int, Fraction] = {}
    for k in range(len(numbers) - 1):
        apart = numbers[k + 1] - numbers[k]
        places = {*outputs[k], *outputs[k + 1]}
        slopes = {
            place: (_exact(outputs[k + 1], place) - _exact(outputs[k], place)) / apart
            for place in places
        }
        changed = {
            place: float(slopes.get(place, Fraction(0)) - before.get(place, Fraction(0)))
            for place in {*slopes, *before}
        }
        kink = {place: change for place, change in changed.items() if change}
        if kink:
            yield numbers[k], kink
        before = slopes


def _exact(row: Row, place: int) -> Fraction:
    return Fraction(row.get(place, 0.0))
