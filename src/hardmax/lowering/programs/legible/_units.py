"""Hidden units of legible models: staircases, cases of one-hots, linear units. Silent at the start.

Theorem 2 (staircase). Between neighbours a < b of the numbers that z can hold, a jump is
4/(b - a) (relu(z - a') - relu(z - b')) with a' and b' 3/8 of the gap inside: 0 up to a', 1 from b'
on. A staircase of jumps is therefore exact while z strays by less than 3/8 of the gap; so the
look-up of a count w from its share 1/(1 + w) is while that errs by less than 1/(3 n (n + 1)). For
whole numbers all weights are whole or halves, and floats are exact, too.
Jumps of shares are written downwards, relu(b' - z) - relu(a' - z): steep ones, which are those of
small shares, are then never far out.

A case of r one-hots is relu(2 (x_1 + ... + x_r) - (2 r - 1)): 1 if all are lit, and silent,
exactly, as long as the sum strays by less than 1/2 from a whole number below r.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hardmax.lowering.programs.legible._sheet import ONE, START, Row, Unit, added

_FLAT = 0.375  # of each gap, on either side

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
            gap = numbers[k] - numbers[k - 1]
            slope = 4.0 / gap
            for edge, sign in (
                (numbers[k - 1] + _FLAT * gap, 1.0),
                (numbers[k] - _FLAT * gap, -1.0),
            ):
                steep = added([(slope, row)])
                unit = Unit(steep, -slope * edge, added([(sign, change)]))
                units.append(_silenced(unit))
    return units


def falling_staircase(row: Row, numbers: Sequence[float], outputs: Outputs) -> list[Unit]:
    """The same, written downwards: numbers fall, and jumps are over as soon as z is large.

    At the start token z is to be the largest number, or above.
    """
    units = constant(outputs[0])
    for k in range(1, len(numbers)):
        change = added([(1.0, outputs[k]), (-1.0, outputs[k - 1])])
        if change:
            gap = numbers[k - 1] - numbers[k]
            slope = 4.0 / gap
            for edge, sign in (
                (numbers[k - 1] - _FLAT * gap, 1.0),
                (numbers[k] + _FLAT * gap, -1.0),
            ):
                steep = added([(-slope, row)])
                units.append(Unit(steep, slope * edge, added([(sign, change)])))
    return units


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
