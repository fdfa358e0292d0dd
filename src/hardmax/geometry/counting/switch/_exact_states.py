"""Exact states along a pattern: what the floats of a cell stand for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from hardmax.geometry.counting.switch._exact import (
    DOMAIN,
    ExactCell,
    Form,
    Label,
    difference,
    homogeneous,
    meeting_point,
    primitive,
    whole_forms,
)
from hardmax.geometry.counting.switch._piece import SwitchPiece
from hardmax.geometry.counting.switch._program import (
    SwitchLayer,
    SwitchProgram,
    share_win,
)
from hardmax.geometry.counting.switch._rows import Row, mean, over, rational, substitute_rows, unit

if TYPE_CHECKING:
    from flint import fmpq

_MOST = 4096  # nodes remembered


@dataclass(frozen=True, eq=False)
class CellState:
    """A cell's state before a layer: forms of the input, exactly, and what is constant."""

    program: SwitchProgram
    number: int
    context: int
    forms: tuple[Row, ...]

    @property
    def layer(self) -> SwitchLayer:
        found = self.program.layer(self.number, self.context)
        assert found is not None
        return found

    @cached_property
    def row_forms(self) -> list[list[fmpq]]:
        """The layer's rows as forms of the input."""
        return over(self.layer.matrix, self.forms, self.program.dimension)

    @cached_property
    def outputs(self) -> tuple[Row, ...]:
        """The affine map of a leaf."""
        rows = self.program.readout(self.context)
        return tuple(substitute_rows(rows, self.forms, self.program.dimension))

    def scores(self, group: int, pieces: Sequence[int]) -> list[Form]:
        """Scores as whole numbers, on one denominator."""
        table = self.layer.tables
        first = int(table.starts[group])
        return whole_forms([self.row_forms[table.score[first + p]] for p in pieces])

    def child(self, choices: Sequence[tuple[int, ...]]) -> CellState:
        """The state behind the layer, if these pieces win."""
        layer, zero = self.layer, rational(0)
        state = [
            [zero] * (self.program.dimension + 1) if row < 0 else self.row_forms[row]
            for row in layer.tables.base.tolist()
        ]
        for g, (group, choice) in enumerate(zip(layer.groups, choices, strict=True)):
            for k, target in enumerate(group.targets):
                form = self._payload(g, k, choice)
                state[target] = [x + y for x, y in zip(state[target], form, strict=True)]
        won = tuple(share_win([layer.groups[g].pieces[p] for p in choices[g]])
                    for g in layer.branching)  # fmt: skip
        context = self.program.after(self.number, self.context, won)
        forms = tuple(tuple(row) for row in state)
        return settle_state(self.program, self.number + 1, context, forms)

    def _payload(self, group: int, k: int, choice: tuple[int, ...]) -> Sequence[fmpq]:
        """Composed with the state; the mean of several where they tie."""
        table = self.layer.tables
        first = int(table.starts[group])
        forms = [self.row_forms[table.payload[first + p, k]] for p in choice]
        if len(choice) == 1:
            return forms[0]
        pieces = self.layer.groups[group].pieces
        return mean(forms, [len(pieces[p].names) for p in choice])


def settle_state(
    program: SwitchProgram, number: int, context: int, forms: tuple[Row, ...]
) -> CellState:
    """A node whose layer is affine in its state: if need be the input becomes the state."""
    if number < program.depth and program.layer(number, context) is None:
        context = program.recast(number, context, forms)
        d = program.dimension
        forms = tuple(unit(d, i) for i in range(d))
    return CellState(program, number, context, forms)


def root(program: SwitchProgram) -> CellState:
    d = program.dimension
    return settle_state(program, 0, 0, tuple(unit(d, i) for i in range(d)))


class Paths:
    """Nodes by pattern, remembered for a while; winners below 0 are ties, listed in `ties`."""

    def __init__(
        self, program: SwitchProgram, sides: tuple[Form, ...], ties: Sequence[tuple[int, ...]]
    ) -> None:
        self.program, self.sides = program, sides
        self.ties = list(ties)
        self._numbers = {tie: i for i, tie in enumerate(self.ties)}
        self._nodes: dict[tuple[int, ...], CellState] = {}
        self._walls: dict[tuple[object, ...], Form] = {}
        self._root = root(program)

    def code(self, choice: tuple[int, ...]) -> int:
        """How a choice is written in a pattern."""
        if len(choice) == 1:
            return choice[0]
        if choice not in self._numbers:
            self._numbers[choice] = len(self.ties)
            self.ties.append(choice)
        return -1 - self._numbers[choice]

    def choice(self, code: int) -> tuple[int, ...]:
        return (code,) if code >= 0 else self.ties[-1 - code]

    def node(self, pattern: tuple[int, ...], number: int) -> CellState:
        """Before layer `number`, where `pattern` holds the winners of all layers before it."""
        if number == 0:
            return self._root
        node = self._nodes.get(pattern)
        if node is None:
            cut = len(pattern) - self.program.widths[number - 1]
            before = self.node(pattern[:cut], number - 1)
            node = before.child([self.choice(code) for code in pattern[cut:]])
            if len(self._nodes) >= _MOST:
                self._nodes.clear()
            self._nodes[pattern] = node
        return node

    def wall(self, pattern: tuple[int, ...], label: Label) -> Form:
        """The form that is >= 0 on the cell's side of a facet, as whole numbers."""
        number, group, piece, rival = label
        if number == DOMAIN:
            return self.sides[group]
        cut = sum(self.program.widths[:number])
        key = (*pattern[:cut], label)
        if key not in self._walls:
            winner, loser = self.node(pattern[:cut], number).scores(group, (piece, rival))
            if len(self._walls) >= _MOST:
                self._walls.clear()
            self._walls[key] = primitive(difference(winner, loser))
        return self._walls[key]


def exact_cell(piece: SwitchPiece, job: int, pattern: tuple[int, ...], paths: Paths) -> ExactCell:
    """A cell with its true vertices: where its facets meet.

    In fast mode a vertex may have been given facets that do not meet in one point: then the float
    stands for itself.
    """
    facets = piece.labels[piece.fstart[job] : piece.fstart[job + 1]].tolist()
    labels: list[Label] = [(a, b, c, e) for a, b, c, e in facets]
    walls = [paths.wall(pattern, label) for label in labels]
    vertices, bits = [], []
    for v in range(piece.vstart[job], piece.vstart[job + 1]):
        on = sum(int(word) << 64 * w for w, word in enumerate(piece.bits[v]))
        vertex = meeting_point([wall for i, wall in enumerate(walls) if on >> i & 1])
        if vertex is None:
            vertex = homogeneous([Fraction(x) for x in piece.points[v].tolist()])
        vertices.append(vertex)
        bits.append(on)
    return ExactCell(tuple(vertices), tuple(bits), tuple(labels))
