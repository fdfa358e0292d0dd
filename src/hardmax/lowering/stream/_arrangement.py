"""Which coordinate holds what, and which heads there are: the shape of the weights to come."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from hardmax.lowering.stream._form import Form
from hardmax.lowering.stream._program import Chooser, Gate, Maker, Program, Unit


@dataclass(frozen=True, eq=False)
class GateHead:
    """Gates with one question: they share a head, one value row each."""

    members: tuple[int, ...]
    key_width: int = 1

    @property
    def value_width(self) -> int:
        return len(self.members)


@dataclass(frozen=True, eq=False)
class ChooserHead:
    """One chooser, with the coordinates of its tables."""

    member: int
    keys: tuple[int, ...]
    value: int

    @property
    def key_width(self) -> int:
        return len(self.keys)

    @property
    def value_width(self) -> int:
        return 1


@dataclass(eq=False)
class Arrangement:
    """Coordinates for rows, tables and flags; heads and hidden units by stage."""

    program: Program
    coordinate: dict[int, int]  # row -> coordinate
    tables: list[np.ndarray]  # coordinates laid down on every token, after the rows
    flag: int | None  # -1/2 on the sink, +1/2 on the data token
    one: int | None  # 0 on the sink, 1 on the data token
    width: int
    heads: dict[int, list[GateHead | ChooserHead]]
    units: dict[int, list[int]]

    @property
    def tokens(self) -> int:
        return self.program.tokens

    @property
    def data(self) -> int:
        """The data token."""
        return 1 if self.tokens > 1 else 0

    @property
    def stages(self) -> list[int]:
        return sorted({*self.heads, *self.units})


def arrange(program: Program) -> Arrangement:
    """Give a coordinate to every row that somebody reads; rows that nobody reads do not exist."""
    read = _rows_read(program)
    coordinate = {row: c for c, row in enumerate(sorted(read))}
    tables: list[np.ndarray] = []
    heads: dict[int, list[GateHead | ChooserHead]] = defaultdict(list)
    units: dict[int, list[int]] = defaultdict(list)
    shared: dict[tuple, list[int]] = {}
    for m, maker in enumerate(program.makers):
        match maker:
            case Unit():
                units[maker.stage].append(m)
            case Gate():
                shared.setdefault((maker.stage, maker.gate.key, maker.coldness), []).append(m)
            case Chooser():
                keys = tuple(_table(k, tables) + len(coordinate) for k in maker.keys)
                value = _table(maker.values, tables) + len(coordinate)
                heads[maker.stage].append(ChooserHead(m, keys, value))
    for (stage, *_), members in shared.items():
        heads[stage].append(GateHead(tuple(members)))
    width = len(coordinate) + len(tables)
    flag = one = None
    if shared:
        flag, width = width, width + 1
    if any(_needs_one(maker) for maker in program.makers):
        one, width = width, width + 1
    return Arrangement(program, coordinate, tables, flag, one, width, dict(heads), dict(units))


def _needs_one(maker: Maker) -> bool:
    """Constants in values, and in what choosers ask, must be 0 on the sink."""
    match maker:
        case Gate():
            return bool(maker.value.constant)
        case Chooser():
            return any(form.constant for form in maker.query)
    return False


def _table(table: np.ndarray, tables: list[np.ndarray]) -> int:
    """The number of an equal table, or of this one, added."""
    for number, known in enumerate(tables):
        if np.array_equal(known, table):
            return number
    tables.append(table)
    return len(tables) - 1


def _rows_read(program: Program) -> set[int]:
    forms: list[Form] = list(program.outputs)
    for maker in program.makers:
        match maker:
            case Gate():
                forms += [maker.gate, maker.value]
            case Unit():
                forms.append(maker.value)
            case Chooser():
                forms += maker.query
    return {row for form in forms for row in form.terms}
