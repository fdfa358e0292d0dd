"""A chain of layers on one line in whole numbers: always right, and slower.

On an interval every row is (A t + B) / Q with whole numbers A and B and one Q > 0 for all intervals
and rows of a layer: weights are whole numbers over a power of 2. So signs and crossings are signs
and quotients of whole numbers, and nothing is ever reduced.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hardmax.geometry.counting._chain import Chain, Layer
from hardmax.geometry.counting._whole import WholeLayer, whole_line
from hardmax.geometry.counting.line._cells import LineCell
from hardmax.geometry.counting.line._quadratic import QuadraticNumber

Run = list[tuple[int, Fraction | None]]  # winners from left to right, each until a point
OFF = -1  # the winner of a rectifier that gives 0


@dataclass(frozen=True, eq=False)
class ExactLine:
    """The cells on the segment from left to right, and the layer and unit of each breakpoint."""

    cells: tuple[LineCell, ...]
    origin: tuple[tuple[int, int], ...]

    @property
    def breakpoints(self) -> tuple[Fraction | QuadraticNumber | float, ...]:
        return tuple(cell.start for cell in self.cells[1:])


@dataclass(frozen=True, eq=False)
class _State:
    """Intervals between `points`; `maps` is values x intervals x (slope, level)."""

    points: list[Fraction]
    origin: list[tuple[int, int]]  # of the points between
    patterns: list[tuple[tuple[int, ...], ...]]
    maps: np.ndarray
    under: int


def exact_line(chain: Chain, start: tuple[Fraction, ...], end: tuple[Fraction, ...]) -> ExactLine:
    """All cells of a chain on a segment.

    A unit is the upper envelope of the lines of its group (and of 0, if it is a rectifier). From
    left to right the winner changes to steeper lines only, so an envelope is walked: whoever
    crosses the winner first wins next, of several the steepest. Lines that are equal never cross.
    """
    table, under = whole_line(start, end)
    state = _State([Fraction(0), Fraction(1)], [], [()], table[:, None], under)
    for (number, layer), whole in zip(chain.numbered_layers(), chain.whole, strict=False):
        state = _after(state, number, layer, _rows(state, whole), state.under << whole.shift)
    last = chain.whole[-1]
    outputs, under = _rows(state, last), state.under << last.shift
    cells = tuple(
        LineCell(
            state.points[k],
            state.points[k + 1],
            state.patterns[k],
            tuple(Fraction(one, under) for one in outputs[:, k, 0]),
            tuple(Fraction(one, under) for one in outputs[:, k, 1]),
        )
        for k in range(len(state.patterns))
    )
    return ExactLine(cells, tuple(state.origin))


def _rows(state: _State, whole: WholeLayer) -> np.ndarray:
    """The layer's rows on every interval, times the new denominator."""
    count = len(state.patterns)
    flat = state.maps.reshape(len(state.maps), 2 * count)
    rows = (whole.weights @ flat).reshape(-1, count, 2)
    rows[:, :, 1] += (whole.biases * state.under)[:, None]
    return np.asarray(rows)


def _after(state: _State, number: int, layer: Layer, rows: np.ndarray, under: int) -> _State:
    """The intervals cut where winners change, and the winners' maps on them."""
    points, origin, patterns, columns = state.points[:1], [], [], []
    groups = _groups(layer)
    for k, pattern in enumerate(state.patterns):
        left, right = state.points[k : k + 2]
        lines = [*rows[:, k].tolist(), [0, 0]]  # the last one, number OFF, is 0
        runs = [
            _envelope([(q, lines[q][0], lines[q][1]) for q in group], left, right)
            for group in groups
        ]
        for unit, cut in _cuts(runs):
            winners = _winners_until(runs, cut)
            patterns.append((*pattern, layer.pattern(winners)) if layer.deciding else pattern)
            columns.append([lines[q] for q in winners])
            points.append(right if cut is None else cut)
            if cut is not None:
                origin.append((number, unit))
        if k + 1 < len(state.patterns):
            origin.append(state.origin[k])
    maps = np.empty((len(groups), len(columns), 2), dtype=object)
    for k, column in enumerate(columns):
        maps[:, k] = column
    return _State(points, origin, patterns, maps, under)


def _groups(layer: Layer) -> list[list[int]]:
    """The lines that each unit is the maximum of."""
    if layer.groups is None:
        return [[i, OFF] for i in range(layer.units)]
    return [[q for q in group if q >= 0] for group in layer.groups.tolist()]


def _envelope(lines: list[tuple[int, int, int]], left: Fraction, right: Fraction) -> Run:
    """Who wins between two points, and until where (None: to the right end)."""
    p, q = left.numerator, left.denominator
    now = max(lines, key=lambda one: (one[1] * p + one[2] * q, one[1], -one[0]))
    run: Run = []
    while True:
        best: tuple[Fraction, int] | None = None
        for one in lines:
            if one[1] <= now[1]:
                continue
            over, under = now[2] - one[2], one[1] - now[1]
            if over * right.denominator < right.numerator * under:
                at = (Fraction(over, under), -one[1])
                if best is None or at < best:
                    best, follower = at, one
        run.append((now[0], None if best is None else best[0]))
        if best is None:
            return run
        now = follower


def _cuts(runs: list[Run]) -> list[tuple[int, Fraction | None]]:
    """Where any unit changes its winner, in order, with the first unit that does; then None."""
    first: dict[Fraction, int] = {}
    for unit, run in enumerate(runs):
        for _, until in run:
            if until is not None:
                first.setdefault(until, unit)
    return [*((first[at], at) for at in sorted(first)), (-1, None)]


def _winners_until(runs: list[Run], cut: Fraction | None) -> list[int]:
    """The winners on the interval that ends at the cut."""
    return [
        next(who for who, until in run if until is None or (cut is not None and until >= cut))
        for run in runs
    ]
