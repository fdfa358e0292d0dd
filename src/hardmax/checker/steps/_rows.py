"""The rows of a witness: what a coordinate holds, and what it is said to hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hardmax.checker.forms import ONE, Form, TargetForms, Unrolled, constant, rational, total
from hardmax.core import Holding

Pair = tuple[Form, Form]


@dataclass(frozen=True, eq=False)
class Row:
    """One statement: `ours` lies within `error` of `theirs`; `written_out` gives both unnamed."""

    ours: Form
    theirs: Form
    error: float
    where: str
    written_out: Callable[[], Pair]


@dataclass(frozen=True, eq=False)
class Sides:
    """The Transformer's stream and the target's values, as forms over one graph."""

    stream: Unrolled
    target: TargetForms

    def held(self, holding: Holding, i: int) -> Pair:
        """Row i of a holding."""
        theirs = self.target.largest(holding.value, components(holding, i))
        token = holding.token % self.stream.transformer.tokens
        if holding.weights is None or holding.constants is None:
            coordinate = int(holding.coordinates[i])
            return self.stream.coordinate(holding.sublayer, token, coordinate), theirs
        parts = [
            (rational(w), self.stream.coordinate(holding.sublayer, token, int(c)))
            for w, c in zip(holding.weights[i], holding.coordinates, strict=True)
            if w
        ]
        return total([*parts, (ONE, constant(rational(holding.constants[i])))]), theirs

    def read_out(self) -> list[Pair]:
        """All outputs."""
        return list(zip(self.stream.outputs(), self.target.outputs(), strict=True))


def components(holding: Holding, i: int) -> list[int]:
    """The components whose maximum row i of a holding is about."""
    return [int(c) for c in holding.components[i] if c >= 0]


def row_of(holding: Holding, i: int, sides: Sides, written_out: Callable[[], Sides]) -> Row:
    ours, theirs = sides.held(holding, i)
    where = f"value {holding.value} is held after sublayer {holding.sublayer}, row {i},"
    error = float(holding.errors[i])
    return Row(ours, theirs, error, where, lambda: written_out().held(holding, i))
