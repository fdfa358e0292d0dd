"""Units that write to one coordinate, in every case of the numbers that they read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from hardmax.checker._budget import CALL, ENTRY, FLOPS, charge
from hardmax.checker.sequences.registers._state import Register
from hardmax.checker.sequences.registers._target import RootForm
from hardmax.numerics import Format, stray

LARGEST_CASES = 2**23  # numbers in one table


@dataclass(frozen=True, eq=False)
class Wires:
    """The units that write to one coordinate, and the coordinates that they read."""

    coordinate: int
    units: np.ndarray
    columns: np.ndarray
    inner: np.ndarray  # units x columns
    inner_bias: np.ndarray
    outer: np.ndarray  # units
    outer_bias: float

    @cached_property
    def own(self) -> int | None:
        """The column that is the coordinate itself."""
        found = np.flatnonzero(self.columns == self.coordinate)
        return int(found[0]) if len(found) else None

    @cached_property
    def sizes(self) -> np.ndarray:
        return np.abs(self.inner)

    @cached_property
    def key(self) -> tuple[bytes, ...]:
        parts = (self.inner, self.inner_bias, self.outer, np.array(self.outer_bias))
        return (*(part.tobytes() for part in parts), str((self.inner.shape, self.own)).encode())

    def held_by(self, format: Format) -> bool:
        parts = (self.inner, self.inner_bias, self.outer, np.array(self.outer_bias))
        return all(bool(format.holds(part).all()) for part in parts)


class Slopes(NamedTuple):
    """What a look at all cases found; cases x columns, or only cases."""

    middle: np.ndarray  # what is written, or how far it is from what is wanted, at most
    kinks: np.ndarray  # |outer| of the units that are 0, added up
    bends: np.ndarray  # by how much an error of a column's coordinate grows in these units
    slopes: np.ndarray  # and in the others
    passed: float  # sizes of what the units add, added up, at most


class Case(NamedTuple):
    """Registers read (and at last the one written), and what is wanted for each number.

    Roots are numbered from 0, that of the number; -1 is none.
    """

    roots: tuple[int, ...]
    keys: tuple[bytes, ...]
    aims: tuple[tuple[int, bytes], ...]
    parts: list[Register]
    wanted: list[RootForm]


def look_up(wires: Wires, table: np.ndarray) -> Slopes:
    """One column per case: the registers read, and at last the one written."""
    hidden = wires.inner @ table[:-1] + wires.inner_bias[:, None]
    charge(24 * CALL + hidden.size * (8 * ENTRY + 6 * len(table) // FLOPS))
    middle = table[-1] + wires.outer @ np.maximum(hidden, 0.0) + wires.outer_bias
    slopes = (wires.outer[:, None] * (hidden > 0.0)).T @ wires.inner
    if wires.own is not None:
        slopes[:, wires.own] += 1.0
    sizes = np.abs(wires.outer)
    bends = (sizes[:, None] * (hidden == 0.0)).T @ wires.sizes
    passed = float((sizes @ np.maximum(hidden, 0.0)).max())
    lost = _lost_slopes(wires)
    return Slopes(middle, sizes @ (hidden == 0.0), bends + lost, np.abs(slopes) + lost, passed)


def _lost_slopes(wires: Wires) -> np.ndarray:
    """The rounding of sums of slopes."""
    full = np.abs(wires.outer) @ wires.sizes + 1.0
    return np.asarray(stray(4 * len(wires.outer) + 16, full))


def pick(wires: Wires, case: Case) -> Slopes | None:
    """How far sum_u outer_u relu(...) is from the option wanted, for every number.

    A unit reads the number and at most one other root. So the sum is one of functions of the
    number and one root each, from each of which the option is taken away where it belongs: for
    each number, their ranges add up. Of the other roots nothing else is assumed.
    """
    reads = wires.inner != 0.0
    roots = np.array(case.roots[:-1], dtype=np.int64)
    other = [set(roots[row & (roots > 0)].tolist()) for row in reads]
    if any(len(one) > 1 for one in other):
        return None
    group = np.array([next(iter(one), 0) for one in other], dtype=np.int64)
    picking = _Picking(wires, case, roots)
    wanted = {root for root, _ in case.aims} | {case.roots[-1]}
    picking.add_base(np.flatnonzero(group == 0))
    for root in sorted(set(group.tolist()) | wanted):
        if root > 0 and not picking.add(root, np.flatnonzero(group == root)):
            return None
    return picking.found()


class _Picking:
    def __init__(self, wires: Wires, case: Case, roots: np.ndarray) -> None:
        self.wires, self.case, self.roots = wires, case, roots
        self.cases = cases = len(case.wanted)
        self.number = np.flatnonzero(roots == 0)
        columns = case.parts[:-1]
        self.hidden = np.repeat(wires.inner_bias[:, None], cases, axis=1)  # without other roots
        for i in np.flatnonzero(roots <= 0):
            self.hidden += wires.inner[:, [i]] * columns[i].middle
        self.low = np.zeros(cases)
        self.high = np.zeros(cases)
        self.kinks = np.zeros(cases)
        self.slopes, self.bends = np.zeros((2, cases, len(columns)))
        self.passed = np.zeros(cases)
        self.least = np.zeros((cases, len(self.number)))
        self.most = np.zeros((cases, len(self.number)))
        for i in np.flatnonzero(roots < 0):
            self.slopes[:, i] = np.abs(wires.outer) @ wires.sizes[:, i] + (wires.own == i)

    def add_base(self, units: np.ndarray) -> None:
        """Units that read the number alone, the bias, and what was there if it is such."""
        hidden, outer = self.hidden[units], self.wires.outer[units]
        total = outer @ np.maximum(hidden, 0.0) + self.wires.outer_bias
        if self.case.roots[-1] <= 0:
            total = total + self.case.parts[-1].middle[0]
        for k, (form, (root, _)) in enumerate(zip(self.case.wanted, self.case.aims, strict=True)):
            if root == 0:
                total[k] -= form.middle[k]
        self._put(units, hidden[:, :, None], total[:, None])
        active = (outer[:, None] * (hidden > 0.0)).T
        slopes = active @ self.wires.inner[np.ix_(units, self.number)]
        slopes = slopes + (self.number == (-1 if self.wires.own is None else self.wires.own))
        self.least, self.most = self.least + slopes, self.most + slopes

    def add(self, root: int, units: np.ndarray) -> bool:
        """Units that read one more root; False if there are too many cases."""
        columns = np.flatnonzero(self.roots == root)
        parts = [
            part for part, own in zip(self.case.parts, self.case.roots, strict=True) if own == root
        ]
        aims = [k for k, (own, _) in enumerate(self.case.aims) if own == root]
        known = [part.middle.shape[1] for part in parts]
        known += [len(self.case.wanted[k].numbers) for k in aims]
        if len(set(known)) != 1 or max(len(units), 1) * self.cases * known[0] > LARGEST_CASES:
            return False
        inner, outer = self.wires.inner[units], self.wires.outer[units]
        table = np.array([self.case.parts[i].middle[0] for i in columns])
        own = inner[:, columns] @ table.reshape(len(columns), known[0])
        hidden = self.hidden[units][:, :, None] + own[:, None, :]
        total = np.tensordot(outer, np.maximum(hidden, 0.0), 1)
        if self.case.roots[-1] == root:
            total = total + self.case.parts[-1].middle
        for k in aims:
            total[k] -= self.case.wanted[k].middle
        self._put(units, hidden, total)
        active = hidden > 0.0
        for place, i in enumerate(self.number):
            slopes = np.tensordot(outer * inner[:, i], active.astype(float), 1)
            self.least[:, place] += slopes.min(axis=1)
            self.most[:, place] += slopes.max(axis=1)
        for i in columns:
            slopes = np.tensordot(outer * inner[:, i], active.astype(float), 1)
            self.slopes[:, i] = np.abs(slopes + (self.wires.own == i)).max(axis=1)
        return True

    def _put(self, units: np.ndarray, hidden: np.ndarray, total: np.ndarray) -> None:
        charge(24 * CALL + hidden.size * ENTRY * (8 + 2 * len(self.wires.columns)))
        self.low = self.low + total.min(axis=1)
        self.high = self.high + total.max(axis=1)
        sizes, bent = np.abs(self.wires.outer[units]), (hidden == 0.0).astype(float)
        self.kinks += np.tensordot(sizes, bent, 1).max(axis=1)
        self.passed += np.tensordot(sizes, np.maximum(hidden, 0.0), 1).max(axis=1)
        reads = self.wires.sizes[units]
        for i in np.flatnonzero(reads.any(axis=0)):
            self.bends[:, i] += np.tensordot(sizes * reads[:, i], bent, 1).max(axis=1)

    def found(self) -> Slopes:
        self.slopes[:, self.number] = np.maximum(np.abs(self.least), np.abs(self.most))
        away = np.maximum(np.abs(self.low), np.abs(self.high))
        lost = _lost_slopes(self.wires)
        passed = float(self.passed.max())
        return Slopes(away, self.kinks, self.bends + lost, self.slopes + lost, passed)
