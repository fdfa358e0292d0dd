"""Hidden units on registers: look-ups over one root, and one of several values picked.

Around middles on a grid the signs of the units are known, except for units that are 0 there:
these are *kinks*. Elsewhere the layer is linear in the coordinates' errors, so what matters are
the sums of slopes, in which nearly everything cancels, and not the sum of their sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hardmax.checker.sequences._register_cases import (
    LARGEST_CASES,
    Case,
    Slopes,
    Wires,
    look_up,
    pick,
)
from hardmax.checker.sequences._register_state import Register, near_grid
from hardmax.checker.sequences._register_target import Form, Target
from hardmax.checker.sequences._stream import OWN, OWN_UNIT, Arithmetic, lowest_bit
from hardmax.core import FeedForward, Picked
from hardmax.numerics import inflate
from hardmax.numerics import stray as stray_of

Hints = Mapping[int, list[int]]  # by coordinate: values of the target that it may hold


def feed_forward(
    registers: tuple[Register, ...],
    layer: FeedForward,
    arithmetic: Arithmetic,
    memory: dict[Any, Any],
    hints: Hints,
    target: Target | None,
) -> tuple[Register, ...]:
    """x + outer @ relu(inner @ x + inner_bias) + outer_bias, coordinate by coordinate."""
    wires, held = wired(layer, arithmetic, memory)
    after = list(registers)
    for wire, stored in zip(wires, held, strict=True):
        unit = _Units(wire, registers, stored, arithmetic, memory)
        found = None
        if target is not None:
            options = (unit.picked(value, target) for value in hints.get(wire.coordinate, ()))
            found = next((one for one in options if one is not None), None)
        if found is None:
            found = unit.looked_up()
        after[wire.coordinate] = unit.ball() if found is None else found
    return tuple(after)


def wired(
    layer: FeedForward, arithmetic: Arithmetic, memory: dict[Any, Any]
) -> tuple[list[Wires], list[bool]]:
    """The wires of every coordinate written, and whether the format holds their weights."""
    key, checked = ("wires", id(layer)), ("held", id(layer), arithmetic.name)
    if key not in memory:
        found = []
        for c in np.flatnonzero((layer.outer != 0.0).any(axis=1) | (layer.outer_bias != 0.0)):
            units = np.flatnonzero(layer.outer[c])
            columns = np.flatnonzero((layer.inner[units] != 0.0).any(axis=0))
            inner, bias = layer.inner[np.ix_(units, columns)], layer.inner_bias[units]
            ends = layer.outer[c, units], float(layer.outer_bias[c])
            found.append(Wires(int(c), columns, inner, bias, *ends))
        memory[key] = (layer, found)  # the layer is kept, so that its id stays its own
    wires = memory[key][1]
    if checked not in memory:
        arithmetic.check_weights(layer.inner)
        arithmetic.check_weights(layer.outer)
        memory[checked] = [wire.held_by(arithmetic) for wire in wires]
    return wires, memory[checked]


class _Units:
    """The units that write to one coordinate, on the registers of this moment."""

    def __init__(
        self,
        wires: Wires,
        registers: tuple[Register, ...],
        held: bool,
        arithmetic: Arithmetic,
        memory: dict[Any, Any],
    ) -> None:
        self.wires, self.held, self.arithmetic, self.memory = wires, held, arithmetic, memory
        self.before = registers[wires.coordinate]
        self.read = [registers[c] for c in wires.columns]
        self.radii = np.array([one.radius for one in self.read])
        sizes = np.array([one.size for one in self.read])
        long = len(self.read) + 8
        self.noise = inflate(wires.sizes @ self.radii, long)
        self.size = inflate(wires.sizes @ sizes + np.abs(wires.inner_bias), long)
        here, there = (
            stray_of(wires.terms + 3, self.size, unit) for unit in (OWN_UNIT, arithmetic.unit)
        )
        self.lost, self.there = inflate(here + there), there
        arithmetic.check(self.size + self.lost)
        weights = np.abs(wires.outer)
        many = len(weights) + 8
        passed = weights @ (self.size + self.lost)
        self.total = float(inflate(self.before.size + passed + abs(wires.outer_bias), many))
        self.terms = len(weights) + 2
        arithmetic.check(np.asarray(self.total + self._stray(self.total)))
        self._put_grids()

    def _put_grids(self) -> None:
        inner, bias, outer = self.wires.bits
        grids = np.array([one.grid for one in self.read])
        self.grid = np.minimum((inner + grids).min(axis=1, initial=np.inf), bias)
        ends = [self.before.grid, float(lowest_bit(np.asarray(self.wires.outer_bias)))]
        self.out_grid = float(np.min(np.append(outer + self.grid, ends)))
        self.exact = bool(
            OWN.is_exact(self.size, self.grid).all()
            and OWN.is_exact(np.asarray(self.total), np.asarray(self.out_grid))
        )

    def _stray(self, size: float) -> float:
        """The rounding of the last sum, here and there."""
        here, there = (
            stray_of(self.terms + 8, size, unit) for unit in (OWN_UNIT, self.arithmetic.unit)
        )
        return float(here + there)

    def ball(self) -> Register:
        return Register.ball(inflate(self.total + self._stray(self.total)))

    # ---- errors --------------------------------------------------------------------------------

    def error(self, found: Slopes, wanted: float = 0.0) -> float:
        """How far what is written can be from its middle; `wanted` is the size of what it is."""
        weights = np.abs(self.wires.outer)
        steps = len(weights) + len(self.read) + 16
        through = weights @ (self.noise + self.lost) + self.before.radius
        size = self.total + wanted
        rough = float(inflate(through + 2 * self._stray(size), steps))
        if not self.exact or not self._signs_known(self.noise + self.lost):
            return rough
        most = float(self.noise.max(initial=0.0))
        rest = 0.0 if self.wires.own is not None else self.before.radius
        moved = float((found.slopes @ self.radii + found.kinks * most).max(initial=0.0)) + rest
        rounded = weights @ self.there + stray_of(self.terms + 8, size, self.arithmetic.unit)
        mixed = float(inflate(moved + rounded, steps))
        return min(rough, mixed, self._fine(found, moved))

    def _signs_known(self, noise: np.ndarray) -> bool:
        with np.errstate(over="ignore"):
            return bool((noise <= 0.25 * np.exp2(np.minimum(self.grid, 1000.0))).all())

    def _fine(self, found: Slopes, moved: float) -> float:
        """Where all is so close to a grid that the format rounds it to the grid.

        Every hidden unit is a number of the format close to a multiple of the grid, so it is that
        multiple, unless that is 0: only kinks pass errors on.
        """
        if not self.held:
            return np.inf
        worst = 0.0
        for terms in np.unique(self.wires.terms):
            chosen = self.wires.terms == terms
            size, noise = float(self.size[chosen].max()), float(self.noise[chosen].max())
            lost = near_grid(
                int(terms), size, noise, float(self.grid[chosen].min()), self.arithmetic
            )
            if lost is None:
                return np.inf
            worst = max(worst, noise + lost)
        left = float(found.kinks.max(initial=0.0)) * worst + self.before.radius
        left = float(inflate(left))
        lost = near_grid(self.terms, self.total, left, self.out_grid, self.arithmetic)
        if lost is None:
            return np.inf
        return float(inflate(max(moved, left + lost), len(self.read) + len(self.noise) + 16))

    # ---- look-ups ------------------------------------------------------------------------------

    def looked_up(self) -> Register | None:
        """A function of the place and of one root; None if there are more."""
        parts = [*self.read, self.before]
        roots = {one.root for one in parts if one.root is not None}
        shape = np.broadcast_shapes(*(one.middle.shape for one in parts)) if len(roots) < 2 else ()
        if not shape or np.prod(shape) * max(len(self.noise), 1) > LARGEST_CASES:
            return None
        key = ("looked up", self.wires.key, tuple(one.key for one in parts))
        if key not in self.memory:
            table = np.array([np.broadcast_to(one.middle, shape).ravel() for one in parts])
            self.memory[key] = look_up(self.wires, table)
        found: Slopes = self.memory[key]
        root = next(iter(roots), None)
        return Register.of(root, found.middle.reshape(shape), self.error(found))

    # ---- picking -------------------------------------------------------------------------------

    def picked(self, value: int, target: Target) -> Register | None:
        """The value of a `Picked` step, if that is what the units compute; None otherwise."""
        step, form = target.step(value), target.form(value)
        if not isinstance(step, Picked) or form is None:
            return None
        number = target.form(step.number)
        options = [target.form(option) for option in step.options]
        if number is None or any(one is None for one in options):
            return None
        chosen = [options[k] for k in number.numbers]
        wanted = [one for one in chosen if one is not None]
        case = self._case(number, wanted)
        found = None if case is None else self._remembered(case)
        if found is None:
            return None
        away = max(one.away for one in wanted)
        grid = min(float(lowest_bit(one.middle).min()) for one in wanted)
        size = max(float(np.abs(one.middle).max()) for one in wanted)
        spare = 0.0
        if not OWN.is_exact(np.asarray(self.total + size), np.asarray(min(grid, self.out_grid))):
            steps = 2 * (len(self.noise) + len(self.read) + len(wanted)) + 16
            spare = float(stray_of(steps, 2 * (self.total + size), OWN_UNIT))
        error = self.error(found, size) + float(found.middle.max()) + away + form.away + spare
        return Register.of(value, form.middle[None], inflate(error))

    def _case(self, number: Form, wanted: list[Form]) -> Case | None:
        parts = [*self.read, self.before]
        if any(len(one.middle) > 1 for one in parts):
            return None
        names: dict[int | None, int] = {None: -1, number.root: 0}
        for root in (*(one.root for one in parts), *(one.root for one in wanted)):
            names.setdefault(root, len(names) - 1)
        roots = tuple(names[one.root] for one in parts)
        aims = tuple((names[one.root], one.key) for one in wanted)
        return Case(roots, tuple(one.key for one in parts), aims, parts, wanted)

    def _remembered(self, case: Case) -> Slopes | None:
        key = ("picked", self.wires.key, case.roots, case.keys, case.aims)
        if key not in self.memory:
            self.memory[key] = pick(self.wires, case)
        found: Slopes | None = self.memory[key]
        return found
