"""Switch programs: one normal form for everything that chooses by an argmax of affine forms.

A state, affine in the input on every cell, passes through layers. A layer has groups; a group has
pieces, each with a score and a payload, affine in the state. The piece with the largest score wins
and its payload is added to the next state, which starts from an affine base of the old one. Last
comes an affine read-out. A rectifier is a group with the scores z and 0 and the same payloads; a
maxout unit's payloads are its scores; a hard head asks with fixed keys, and its payloads are the
attended tokens' values. Payloads that are no scores make the map jump at walls.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from hardmax._errors import RequestError
from hardmax.geometry.counting.switch._arrays import LayerTables
from hardmax.geometry.counting.switch._rows import Row, matrix, mean, nearest_floats

if TYPE_CHECKING:
    from flint import fmpq_mat


class QuadraticWalls(RequestError):
    """Scores are quadratic in the input, so that walls are conics and not hyperplanes."""


@dataclass(frozen=True)
class Piece:
    """A score, a payload row for each target of the group, and who stands behind it.

    Pieces with one score share the win equally: they become one piece with several names whose
    payload is the mean.
    """

    score: Row
    payload: tuple[Row, ...]
    names: tuple[int, ...]


@dataclass(frozen=True)
class Group:
    """Pieces of which the largest score wins; payload k is added to coordinate targets[k]."""

    pieces: tuple[Piece, ...]
    targets: tuple[int, ...]

    @classmethod
    def of(cls, pieces: Iterable[Piece], targets: Sequence[int]) -> Group:
        """Without pieces that can never win: of equal slopes only the highest can."""
        highest: dict[Row, list[Piece]] = {}
        for piece in pieces:
            best = highest.setdefault(piece.score[:-1], [piece])
            if best[0] is piece:
                continue
            if piece.score[-1] > best[0].score[-1]:
                best[:] = [piece]
            elif piece.score[-1] == best[0].score[-1]:
                best.append(piece)
        return cls(tuple(share_win(tied) for tied in highest.values()), tuple(targets))


def share_win(tied: Sequence[Piece]) -> Piece:
    """What tied pieces do together: the mean of their payloads, over all names behind them."""
    if len(tied) == 1:
        return tied[0]
    names = tuple(sorted(name for piece in tied for name in piece.names))
    columns = zip(*(piece.payload for piece in tied), strict=True)
    weights = [len(piece.names) for piece in tied]
    payload = tuple(
        row if all(row == other for other in rows) else mean(rows, weights)
        for rows in columns
        for row in rows[:1]
    )
    return Piece(tied[0].score, payload, names)


@dataclass(frozen=True, eq=False)
class SwitchLayer:
    """Groups over a state of `width` coordinates, and the base rows of the next state.

    All scores, payloads and base rows are listed once, in `rows`: a cell composes them with its
    state once, and each of its children only adds up what it has won. `branching` names the groups
    on whose winners the meaning of the next state depends.
    """

    width: int
    groups: tuple[Group, ...]
    base: tuple[Row | None, ...]
    branching: tuple[int, ...] = ()

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        return tuple(self._numbers)

    @cached_property
    def _numbers(self) -> dict[Row, int]:
        numbers: dict[Row, int] = {}
        for group in self.groups:
            for piece in group.pieces:
                for row in (piece.score, *piece.payload):
                    numbers.setdefault(row, len(numbers))
        for base in self.base:
            if base is not None:
                numbers.setdefault(base, len(numbers))
        return numbers

    @cached_property
    def matrix(self) -> fmpq_mat:
        """The rows, as a matrix of exact rationals."""
        return matrix(self.rows, self.width + 1)

    @cached_property
    def tables(self) -> LayerTables:
        return _tables_of(self)


def _tables_of(layer: SwitchLayer) -> LayerTables:
    number = layer._numbers
    most = max([len(group.targets) for group in layer.groups], default=0)
    pieces = [piece for group in layer.groups for piece in group.pieces]
    payload = np.full((len(pieces), most), -1, dtype=np.int64)
    target = np.full((len(layer.groups), most), -1, dtype=np.int64)
    for p, piece in enumerate(pieces):
        payload[p, : len(piece.payload)] = [number[row] for row in piece.payload]
    for g, group in enumerate(layer.groups):
        target[g, : len(group.targets)] = group.targets
    rows = np.array([nearest_floats(row) for row in layer.rows]).reshape(-1, layer.width + 1)
    weights = np.ascontiguousarray(rows[:, :-1])
    return LayerTables(
        weights=weights,
        sizes=np.abs(weights),
        levels=np.ascontiguousarray(rows[:, -1]),
        starts=np.cumsum([0, *(len(group.pieces) for group in layer.groups)], dtype=np.int64),
        score=np.array([number[piece.score] for piece in pieces], dtype=np.int64),
        payload=payload,
        target=target,
        base=np.array([-1 if b is None else number[b] for b in layer.base], dtype=np.int64),
        most=max([len(group.pieces) for group in layer.groups], default=1),
        continuous=all(row == piece.score for piece in pieces for row in piece.payload),
    )


class SwitchProgram(Protocol):
    """Layers that may depend on the cell through a context, a number that the program hands out.

    A maxout network has one context. A Transformer's tokens may be constant on a cell, with values
    that differ from cell to cell: what is constant belongs to the context.
    """

    @property
    def dimension(self) -> int: ...

    @property
    def depth(self) -> int: ...

    @property
    def outputs(self) -> int: ...

    @property
    def widths(self) -> tuple[int, ...]:
        """How many groups each layer has, in every context."""

    def layer(self, number: int, context: int) -> SwitchLayer | None:
        """The layer in a context; None if its scores are not affine in the state there."""

    def after(self, number: int, context: int, winners: tuple[Piece, ...]) -> int:
        """The context behind a layer, from what its branching groups have chosen."""

    def recast(self, number: int, context: int, forms: Sequence[Row]) -> int:
        """The context on one cell, where the state is known as forms of the input, exactly.

        The new state is the input itself. Refused if scores are quadratic even so.
        """

    def readout(self, context: int) -> tuple[Row, ...]:
        """The outputs as rows over the last state."""
