"""Hidden units of legible models: staircases, cases of one-hots, linear units. Silent at the start.

Theorem 2 (staircase). Between neighbours a < b of the numbers that z can hold, a jump is
relu(s z - t) - relu(s z - t - 1): 0 up to z = t/s, 1 from (t + 1)/s on. The slope s is the power of
two from 4/(b - a) on, so that the jump takes at most a quarter of the gap; t/s is the number of
fewest binary digits that leaves it flat for a third of the gap on either side. So a staircase is
exact while z strays by no more than that, and the look-up of a count w from its share 1/(1 + w) is
while that errs by less than 1/(3 n (n + 1)). Products with s round nothing.

Jumps go away from 0, to either side from the number that is nearest to it, all with one slope. So
both units of a jump are silent, or the float s z less something smaller: no digit is lost, as
Sterbenz says, and their difference is 1 exactly, however far z strayed. A coordinate of a one-hot
adds up two such jumps: s z at most twice, and less; it is exactly 0 or 1 as well, whatever is added
first. So one-hots are made of numbers without any error, in every float format that holds s and t.
A number adds up many jumps and is off: there those of a share are written downwards,
relu(t + 1 - s z) - relu(t - s z), each with its own slope, and steep ones, which are those of small
shares, are never far out.

A case of r one-hots is relu(2 (x_1 + ... + x_r) - (2 r - 1)): 1 if all are lit, and silent,
exactly, as long as the sum strays by less than 1/2 from a whole number below r. Where one of them
strays, and keys depend on the case, it is a jump: relu(4 x - 2 - c) - relu(4 x - 3 - c), c being 0
if all others are lit, and at least 4 elsewhere.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from hardmax.lowering.programs.legible._sheet import ONE, START, Row, Unit, added

STEEPNESS, FLAT = 4.0, 1 / 3  # a jump takes a quarter of a gap, and leaves a third on either side
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


def staircase(
    row: Row,
    numbers: Sequence[float],
    outputs: Outputs,
    *,
    steepness: float = STEEPNESS,
    flat: float = FLAT,
) -> list[Unit]:
    """What is written for each of the numbers, in rising order, that the linear form can hold."""
    slope = _slope(min(np.diff(numbers), default=1.0), steepness)
    middle = min(range(len(numbers)), key=lambda k: abs(numbers[k]))
    units = constant(outputs[middle])
    for k in (*range(middle - 1, -1, -1), *range(middle + 1, len(numbers))):
        sign = 1.0 if k > middle else -1.0
        nearer = k - int(sign)
        change = added([(1.0, outputs[k]), (-1.0, outputs[nearer])])
        if change:
            edge = _edge(sign * numbers[nearer], sign * numbers[k], slope, flat)
            steep = added([(sign * slope, row)])
            for bias, turn in ((-edge, 1.0), (-edge - 1.0, -1.0)):
                units.append(_silenced(Unit(steep, bias, added([(turn, change)]))))
    return units


def falling_staircase(row: Row, numbers: Sequence[float], outputs: Outputs) -> list[Unit]:
    """The same, written downwards: numbers fall, and jumps are over as soon as z is large.

    At the start token z is to be the largest number, or above.
    """
    units = constant(outputs[0])
    for k in range(1, len(numbers)):
        change = added([(1.0, outputs[k]), (-1.0, outputs[k - 1])])
        if change:
            slope = _slope(numbers[k - 1] - numbers[k], STEEPNESS)
            edge = _edge(numbers[k], numbers[k - 1], slope, FLAT)
            steep = added([(-slope, row)])
            for bias, sign in ((edge + 1.0, 1.0), (edge, -1.0)):
                units.append(Unit(steep, bias, added([(sign, change)])))
    return units


def most_turns(outputs: Outputs) -> int:
    """How often what is written in one place changes, at most."""
    turns: dict[int, int] = {}
    for before, after in itertools.pairwise(outputs):
        for place in added([(1.0, after), (-1.0, before)]):
            turns[place] = turns.get(place, 0) + 1
    return max(turns.values(), default=0)


def _slope(gap: float, steepness: float) -> float:
    return float(2.0 ** math.ceil(math.log2(steepness / gap)))


def _edge(low: float, high: float, slope: float, flat: float) -> float:
    """Where a jump between two numbers begins, times the slope."""
    room = (high - low) * flat
    return slope * _plainest(low + room, high - room - 1.0 / slope)


def _plainest(low: float, high: float) -> float:
    """The multiple of the largest power of two that lies between two numbers."""
    grid = 2.0 ** math.ceil(math.log2(high - low))
    while math.floor(high / grid) * grid < low:
        grid /= 2
    return math.floor(high / grid) * grid


def case(lit: Sequence[Row], outputs: Row) -> Unit:
    """Written where each of the linear forms is 1, and nowhere else."""
    inner = added((2.0, row) for row in lit)
    return _silenced(Unit(inner, 1.0 - 2.0 * len(lit), outputs))


def sharp_case(lit: Row, others: Sequence[tuple[Row, Row]], outputs: Row) -> list[Unit]:
    """The same for a form that strays and others that do not: 1 without any error.

    Each other comes with the sum of all items of its one-hot, which is 1: so whatever is subtracted
    is one number where all are lit, and both units read the one float. At the start token, where
    they are 0, as much is subtracted.
    """
    units = []
    for edge, sign in ((2.0, 1.0), (3.0, -1.0)):
        rows: list[tuple[float, Row]] = [(4.0, lit), (-edge, {START: 1.0})]
        for k, (own, every) in enumerate(others):
            rows += [(4.0, own), (-4.0 - (0.0 if k else edge), every)]
        unit = Unit(added(rows), 0.0 if others else -edge, added([(sign, outputs)]))
        units.append(unit)
    return units


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
