"""Hidden units on registers: look-ups over one root, and one of several values picked.

Around middles on a grid the signs of the units are known, except for units that are 0 there:
these are *kinks*. Elsewhere the layer is linear in the coordinates' errors, so what matters are
the sums of slopes, in which nearly everything cancels, and not the sum of their sizes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from hardmax.checker.sequences._stream import check, check_weights
from hardmax.checker.sequences.registers._cases import (
    LARGEST_CASES,
    Case,
    Slopes,
    Wires,
    look_up,
    pick,
)
from hardmax.checker.sequences.registers._state import Register, near_grid
from hardmax.checker.sequences.registers._target import RootForm, RootTarget
from hardmax.core import FeedForward, Picked
from hardmax.numerics import FLOAT64, Format, inflate, lowest_bit, stray

Hints = Mapping[int, list[int]]  # by coordinate: values of the target that it may hold


@dataclass(frozen=True, eq=False)
class RegisterMemory:
    """What was found out once, and holds for every length and format."""

    targets: dict[tuple[int, int, int], RootTarget] = field(default_factory=dict)
    wirings: dict[int, Wiring] = field(default_factory=dict)
    held: dict[tuple[int, str], np.ndarray] = field(default_factory=dict)
    looked_up: dict[tuple[Hashable, ...], Slopes] = field(default_factory=dict)
    picked: dict[tuple[Hashable, ...], Slopes | None] = field(default_factory=dict)


def feed_forward(
    registers: tuple[Register, ...],
    layer: FeedForward,
    format: Format,
    memory: RegisterMemory,
    hints: Hints,
    target: RootTarget | None,
) -> tuple[Register, ...]:
    """x + outer @ relu(inner @ x + inner_bias) + outer_bias, coordinate by coordinate."""
    wiring = wiring_of(layer, memory)
    held = wiring.held_by(format, memory)
    found = []
    for wires in wiring.wires:
        unit = _Units(wires, registers, memory)
        picks = (unit.picked(value, target) for value in hints.get(wires.coordinate, ()) if target)
        found.append(next((one for one in picks if one is not None), None) or unit.looked_up())
    errors = _Errors(wiring, registers, format).of(found, held)
    after = list(registers)
    for wires, one, error, ball in zip(wiring.wires, found, *errors, strict=True):
        after[wires.coordinate] = Register.ball(ball)
        if one is not None:
            after[wires.coordinate] = Register.of(one.root, one.middle, inflate(error + one.away))
    return tuple(after)


@dataclass(frozen=True, eq=False)
class Wiring:
    """A layer, and the wires of every coordinate that it writes to."""

    layer: FeedForward
    wires: list[Wires]

    @cached_property
    def terms(self) -> np.ndarray:
        return (self.layer.inner != 0.0).sum(axis=1) + 1

    @cached_property
    def bits(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        layer, rows = self.layer, self.rows
        given = (layer.inner, layer.inner_bias, layer.outer[rows], layer.outer_bias[rows])
        first, second, third, fourth = (lowest_bit(part) for part in given)
        return first, second, third, fourth

    @cached_property
    def lowest(self) -> tuple[np.ndarray, np.ndarray]:
        """The least bits of each row of `inner` and `outer`."""
        first, _, third, _ = self.bits
        return first.min(axis=1, initial=np.inf), third.min(axis=1, initial=np.inf)

    @cached_property
    def sizes(self) -> tuple[np.ndarray, np.ndarray]:
        return np.abs(self.layer.inner), np.abs(self.layer.outer[self.rows])

    @cached_property
    def rows(self) -> np.ndarray:
        return np.array([one.coordinate for one in self.wires], dtype=np.int64)

    def held_by(self, format: Format, memory: RegisterMemory) -> np.ndarray:
        """Whether the format holds the weights behind each coordinate; refuses too large ones."""
        key = (id(self.layer), format.name)
        if key not in memory.held:
            check_weights(format, self.layer.inner)
            check_weights(format, self.layer.outer)
            memory.held[key] = np.array([one.held_by(format) for one in self.wires], dtype=bool)
        return memory.held[key]


def wiring_of(layer: FeedForward, memory: RegisterMemory) -> Wiring:
    key = id(layer)  # which stays its own: the memory keeps the layer
    if key not in memory.wirings:
        found = []
        for c in np.flatnonzero((layer.outer != 0.0).any(axis=1) | (layer.outer_bias != 0.0)):
            units = np.flatnonzero(layer.outer[c])
            columns = np.flatnonzero((layer.inner[units] != 0.0).any(axis=0))
            inner, bias = layer.inner[np.ix_(units, columns)], layer.inner_bias[units]
            ends = layer.outer[c, units], float(layer.outer_bias[c])
            found.append(Wires(int(c), units, columns, inner, bias, *ends))
        memory.wirings[key] = Wiring(layer, found)
    return memory.wirings[key]


def _least(bits: np.ndarray, grids: np.ndarray, lowest: np.ndarray) -> np.ndarray:
    """For each row the least of bits + grids, or less: quickly, where all grids are about one."""
    known = grids[np.isfinite(grids)]
    if len(known) and known.max() - known.min() <= 2.0:
        return np.asarray(lowest + known.min())
    return np.asarray((bits + grids).min(axis=1, initial=np.inf))


class HeldAfter(NamedTuple):
    """What a coordinate holds afterwards, apart from the errors of what it was made of."""

    root: int | None
    middle: np.ndarray
    away: float
    wanted: Table
    slopes: Slopes
    moved: float  # by the errors of the coordinates read
    bent: float  # the part of it that passes units that are 0


class Table(NamedTuple):
    """Of the numbers wanted: a bound, and a grid; and how many steps the comparison takes."""

    size: float = 0.0
    grid: float = np.inf
    steps: int = 0


class _Errors:
    """How far coordinates are from their middles, all of a layer at once."""

    def __init__(self, wiring: Wiring, registers: tuple[Register, ...], format: Format) -> None:
        self.wiring, self.format = wiring, format
        layer, (inner, outer) = wiring.layer, wiring.sizes
        long, self.many = layer.width + 8, layer.hidden_width + 16
        radii, sizes = (np.array([getattr(r, n) for r in registers]) for n in ("radius", "size"))
        grids = np.array([one.grid for one in registers])
        self.radius, self.outer = radii[wiring.rows], outer
        self.noise = inflate(inner @ radii, long)
        self.size = inflate(inner @ sizes + np.abs(layer.inner_bias), long)
        here, self.there = (stray(wiring.terms + 3, self.size, one) for one in (FLOAT64, format))
        self.lost = inflate(here + self.there)
        check(format, self.size + self.lost)
        first, second, third, fourth = wiring.bits
        self.grid = np.minimum(_least(first, grids, wiring.lowest[0]), second)
        before = np.minimum(grids[wiring.rows], fourth)
        self.out_grid = np.minimum(_least(third, self.grid, wiring.lowest[1]), before)
        self.rest = sizes[wiring.rows] + np.abs(layer.outer_bias[wiring.rows])
        self.total = inflate(outer @ (self.size + self.lost) + self.rest, self.many)
        self.terms = (outer != 0.0).sum(axis=1) + 2
        self.uses = outer != 0.0

    def _stray(self, size: np.ndarray, format: Format) -> np.ndarray:
        return np.asarray(stray(self.terms + 8, size, format))

    def of(self, found: list[HeldAfter | None], held: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Errors, and bounds on the coordinates themselves, which are all that is left of some."""
        format = self.format
        size = self.total + [0.0 if one is None else one.wanted.size for one in found]
        own, there = self._stray(size, FLOAT64), self._stray(size, format)
        check(format, self.total + own + there)
        rough = self.outer @ (self.noise + self.lost) + self.radius + 2 * own + 2 * there
        moved = np.array([0.0 if one is None else one.moved for one in found])
        # `passed` is a float64 sum over cases; it enters as a size only
        passed = np.array([0.0 if one is None else one.slopes.passed for one in found])
        through = self.outer @ (self.noise + self.lost)
        tight = inflate(passed + through + self.rest, self.many)
        mixed = moved + self.outer @ self.there + self._stray(tight, format)
        fine = self._fine(found, held, moved)
        errors = np.where(self._exact(found), np.minimum(mixed, fine), rough)
        errors = np.where(np.isnan(errors), np.inf, np.minimum(errors, rough))
        spare = self._spare(found, size)
        return inflate(errors + spare, self.many), inflate(self.total + own + there)

    def _exact(self, found: list[HeldAfter | None]) -> np.ndarray:
        """Where nothing is rounded here, and no error changes a sign that is not 0."""
        room = 0.25 * np.exp2(np.minimum(self.grid, 1000.0))
        fine = FLOAT64.is_exact(self.size, self.grid) & (self.noise + self.lost <= room)
        return ~(self.uses & ~fine).any(axis=1) & FLOAT64.is_exact(self.total, self.out_grid)

    def _spare(self, found: list[HeldAfter | None], size: np.ndarray) -> np.ndarray:
        """The rounding of the comparison with what is wanted."""
        tables = [Table() if one is None else one.wanted for one in found]
        grid = np.minimum(self.out_grid, [one.grid for one in tables])
        steps = 2 * self.terms + np.array([one.steps for one in tables]) + 16
        lost = stray(steps, 2 * size)
        return np.where(FLOAT64.is_exact(2 * size, grid), 0.0, lost)

    def _fine(
        self, found: list[HeldAfter | None], held: np.ndarray, moved: np.ndarray
    ) -> np.ndarray:
        """Where all is so close to a grid that the format rounds it to the grid.

        Every hidden unit is a number of the format close to a multiple of the grid, so it is that
        multiple, unless that is 0: only kinks pass errors on.
        """
        bent = np.array([0.0 if one is None else one.bent for one in found])
        kinks = np.array([0.0 if one is None else one.slopes.kinks.max() for one in found])
        lost = near_grid(self.wiring.terms, self.size, self.noise, self.grid, self.format)
        worst = np.where(self.uses, lost, 0.0).max(axis=1, initial=0.0)
        with np.errstate(invalid="ignore"):
            left = bent + np.where(np.isinf(worst), np.inf, kinks * worst) + self.radius
        left = np.where(held, inflate(left), np.inf)
        last = near_grid(self.terms, self.total, left, self.out_grid, self.format)
        return np.maximum(moved, left + last)


class _Units:
    """The units that write to one coordinate, on the registers of this moment."""

    def __init__(
        self, wires: Wires, registers: tuple[Register, ...], memory: RegisterMemory
    ) -> None:
        self.wires, self.memory = wires, memory
        self.parts = [*(registers[c] for c in wires.columns), registers[wires.coordinate]]

    def _found(
        self, root: int | None, middle: np.ndarray, away: float, table: Table, slopes: Slopes
    ) -> HeldAfter:
        radii = np.array([one.radius for one in self.parts[:-1]])
        rest = 0.0 if self.wires.own is not None else self.parts[-1].radius
        bends, long = slopes.bends @ radii, len(radii) + 8
        moved = inflate(float((slopes.slopes @ radii + bends).max()) + rest, long)
        bent = inflate(float(bends.max()), long)
        return HeldAfter(root, middle, away, table, slopes, moved, bent)

    def looked_up(self) -> HeldAfter | None:
        """A function of the place and of one root; None if there are more."""
        roots = {one.root for one in self.parts if one.root is not None}
        if len(roots) > 1:
            return None
        shape = np.broadcast_shapes(*(one.middle.shape for one in self.parts))
        if np.prod(shape) * max(len(self.wires.outer), 1) > LARGEST_CASES:
            return None
        key = (self.wires.key, tuple(one.key for one in self.parts))
        if key not in self.memory.looked_up:
            table = np.array([np.broadcast_to(one.middle, shape).ravel() for one in self.parts])
            self.memory.looked_up[key] = look_up(self.wires, table)
        found = self.memory.looked_up[key]
        root = next(iter(roots), None)
        return self._found(root, found.middle.reshape(shape), 0.0, Table(), found)

    def picked(self, value: int, target: RootTarget) -> HeldAfter | None:
        """The value of a `Picked` step, if that is what the units compute; None otherwise."""
        step, form = target.step(value), target.form(value)
        if not isinstance(step, Picked) or form is None:
            return None
        number = target.form(step.number)
        options = [target.form(option) for option in step.options]
        if number is None or any(one is None for one in options):
            return None
        chosen = [options[int(k)] for k in number.numbers]
        wanted = [one for one in chosen if one is not None]
        case = self._case(number, wanted)
        found = None if case is None else self._remembered(case)
        if found is None:
            return None
        away = max(one.away for one in wanted) + form.away + float(found.middle.max())
        table = Table(
            max(one.size for one in wanted),
            min(one.grid for one in wanted),
            2 * (len(self.parts) + len(wanted)),
        )
        return self._found(value, form.middle[None], away, table, found)

    def _case(self, number: RootForm, wanted: list[RootForm]) -> Case | None:
        if any(len(one.middle) > 1 for one in self.parts):
            return None
        names: dict[int | None, int] = {None: -1, number.root: 0}
        for root in (*(one.root for one in self.parts), *(one.root for one in wanted)):
            names.setdefault(root, len(names) - 1)
        roots = tuple(names[one.root] for one in self.parts)
        aims = tuple((names[one.root], one.key) for one in wanted)
        return Case(roots, tuple(one.key for one in self.parts), aims, self.parts, wanted)

    def _remembered(self, case: Case) -> Slopes | None:
        key = (self.wires.key, case.roots, case.keys, case.aims)
        if key not in self.memory.picked:
            self.memory.picked[key] = pick(self.wires, case)
        return self.memory.picked[key]
