"""The rows of a witness: what a coordinate holds, and what it is said to hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hardmax.checker.forms import (
    ONE,
    Form,
    Graph,
    TargetForms,
    Unrolled,
    Variable,
    constant,
    rational,
    total,
)
from hardmax.core import Construction, Holding
from hardmax.numerics import STEP

ROUNDED = 4096.0 * STEP  # relative: what a stated error may lose to our own rounding
Pair = tuple[Form, Form]


class Rejected(Exception):
    """The witness could not be verified; says where and why."""


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


def solved(form: Form, atom: int, name: Form) -> Form:
    """The atom, from form = name."""
    scale = form.terms[atom]
    rest = Form({a: c for a, c in form.terms.items() if a != atom}, form.constant)
    return (name - rest).scaled(ONE / scale)


def atoms_of(forms: list[Form], graph: Graph, *, several: bool) -> list[int]:
    """Atoms other than variables, in order; only of forms with `several`, if that is asked."""
    found: dict[int, None] = {}
    for form in forms:
        atoms = [a for a in form.atoms if not isinstance(graph.atoms[a], Variable)]
        if len(atoms) > int(several):
            found |= dict.fromkeys(atoms)
    return list(found)


def check_holding(construction: Construction, holding: Holding, last: int) -> None:
    """A holding must speak of things that exist."""
    steps = construction.claim.target.steps()
    assert steps is not None
    transformer = construction.transformer
    exists = (
        -1 <= holding.sublayer <= last
        and -transformer.tokens <= holding.token < transformer.tokens
        and 0 <= holding.value <= len(steps.steps)
        and bool((holding.coordinates >= 0).all())
        and bool((holding.coordinates < transformer.width).all())
        and bool((holding.components < steps.size(holding.value)).all())
    )
    if not exists:
        raise Rejected("The witness speaks of a token, coordinate or value that does not exist.")
