"""From forms to a tape over as few search variables as the forms really depend on.

Let the forms that enter nonlinear atoms read the inputs through linear functionals. If these span
k < d dimensions, and so does what is left of the answer after everything has cancelled, then the
answer is a function of k functionals u = R x: max(x, y) - soft(x, y) depends on x - y alone. The
box becomes a zonotope in u; its bounding box is searched, without the parts that lie outside some
facet.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from flint import fmpq

from hardmax.checker._atoms import (
    Apply,
    Gate,
    HardMean,
    Maximum,
    Mean,
    Relu,
    Times,
    Variable,
    arguments,
)
from hardmax.checker._basis import Basis
from hardmax.checker._forms import ZERO, Form, nearest
from hardmax.checker._graph import Graph
from hardmax.checker._large_mean import LargeMean
from hardmax.checker._tape import Linear, Step, Tape
from hardmax.checker._tidy import tidied

_MANY = 24  # tokens, from which on a mean is evaluated over the near ones only
_CRUMB = 2.0**-20  # of the scale: what is smaller is bounded, not searched


class Unsuitable(Exception):
    """The forms have coefficients beyond what floats can follow."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Bound |answer| over a box of search variables; what was left aside adds at most `slack`."""

    tape: Tape
    low: np.ndarray
    high: np.ndarray
    slack: float
    rows: np.ndarray  # search variables x variables of the graph, to find a point again
    variables: tuple[int, ...]  # atoms of the graph, one per column
    facets: tuple[tuple[np.ndarray, float, float], ...] = ()

    @property
    def dimension(self) -> int:
        return len(self.low)


def pose(graph: Graph, answer: Form, scale: float) -> Problem:
    """The search problem for |answer|, an error of about `scale` being of interest."""
    dust = 0.0
    if math.isfinite(scale):
        answer, dust = tidied(graph, answer, scale)
    answer, slack = _without_crumbs(graph, answer, scale)
    slack += dust
    order = needed(graph, answer)
    variables = [a for a in order if isinstance(graph.atoms[a], Variable)]
    inner = [a for a in order if not isinstance(graph.atoms[a], Variable)]
    column = {a: i for i, a in enumerate(variables)}
    basis = Basis.of(functionals(graph, answer, column), len(variables))
    own = _linear_part(answer, column)
    rest = basis.residual(own)
    beyond = _reach(rest, graph, variables)
    if beyond > (_CRUMB * scale if math.isfinite(scale) else 0.0):
        basis.admit(own)
        beyond = 0.0
    compiler = _Compiler(graph, column, basis, inner)
    tape = Tape(basis.rank or 1, tuple(map(compiler.step, inner)), compiler.linear(answer))
    return _problem(graph, tape, basis, variables, slack + beyond)


def _problem(graph: Graph, tape: Tape, basis: Basis, variables: list[int], slack: float) -> Problem:
    rows = basis.rows
    floats = np.zeros((max(len(rows), 1), len(variables)))  # no rows: one box that is a point
    low, high = np.zeros(len(floats)), np.zeros(len(floats))
    for number, row in enumerate(rows):
        form = Form({variables[i]: c for i, c in row.items()})
        low[number], high[number] = graph.bounds.range(form)
        floats[number, list(row)] = [nearest(c) for c in row.values()]
        if len(row) == 1:  # a unit functional: the ends are the variable's own
            (only,) = row
            low[number], high[number] = graph.bounds[variables[only]]
    is_box = all(len(row) == 1 for row in rows)
    facets = () if is_box or len(rows) < 2 else _facets(floats, graph, variables)
    return Problem(tape, low, high, slack, floats, tuple(variables), facets)


def _without_crumbs(graph: Graph, answer: Form, scale: float) -> tuple[Form, float]:
    """The answer without terms too small to matter, and what they may add up to."""
    slack = 0.0
    kept: dict[int, fmpq] = {}
    for atom, c in answer.terms.items():
        low, high = graph.bounds.range(Form({atom: c}))
        size = max(abs(low), abs(high))
        if (
            math.isfinite(scale)
            and size <= _CRUMB * scale
            and not isinstance(graph.atoms[atom], Variable)
        ):
            slack += size
        else:
            kept[atom] = c
    return Form(kept, answer.constant), slack * (1 + 1e-9)


def needed(graph: Graph, answer: Form) -> list[int]:
    """The atoms that the answer depends on, in the order in which they were made."""
    seen: set[int] = set()
    todo = list(answer.atoms)
    while todo:
        atom = todo.pop()
        if atom in seen:
            continue
        seen.add(atom)
        for form in arguments(graph.atoms[atom]):
            todo.extend(a for a in form.atoms if a not in seen)
    return sorted(seen)


def functionals(graph: Graph, answer: Form, column: dict[int, int]) -> list[dict[int, fmpq]]:
    """The linear functionals through which the atoms behind an answer read the variables."""
    atoms = [graph.atoms[a] for a in needed(graph, answer)]
    return [_linear_part(form, column) for atom in atoms for form in arguments(atom)]


def _linear_part(form: Form, column: dict[int, int]) -> dict[int, fmpq]:
    return {column[a]: c for a, c in form.terms.items() if a in column}


def _reach(row: dict[int, fmpq], graph: Graph, variables: list[int]) -> float:
    low, high = graph.bounds.range(Form({variables[i]: c for i, c in row.items()}))
    return max(abs(low), abs(high))


class _Compiler:
    def __init__(
        self, graph: Graph, column: dict[int, int], basis: Basis, inner: Iterable[int]
    ) -> None:
        self.graph, self.column, self.basis = graph, column, basis
        self.width = basis.rank or 1
        self.slot = {atom: self.width + i for i, atom in enumerate(inner)}

    def linear(self, form: Form) -> Linear:
        """A form over slots; what it has outside the basis was put into the slack."""
        terms = {
            slot: c
            for slot, c in enumerate(self.basis.coordinates(_linear_part(form, self.column)))
            if c != ZERO
        }
        terms |= {self.slot[a]: c for a, c in form.terms.items() if a in self.slot}
        return Linear(tuple(terms), tuple(map(_plain, terms.values())), _plain(form.constant))

    def step(self, number: int) -> Step | LargeMean:
        atom = self.graph.atoms[number]
        if isinstance(atom, Mean) and len(atom.logits) >= _MANY:
            large = self._large(atom)
            if large is not None:
                return large
        reads = tuple(self.linear(form) for form in arguments(atom))
        match atom:
            case Gate():
                return Step("gate", reads)
            case Mean():
                return Step("mean", reads)
            case HardMean():
                return Step("hard", reads)
            case Relu():
                return Step("relu", reads)
            case Maximum():
                return Step("maximum", reads)
            case Times(first=first, second=second):
                same = first == second
                return Step("times", (reads[0], reads[0]) if same else reads)
            case Apply(name=name, exponent=exponent):
                return Step(name, reads, exponent)
        raise AssertionError("variables are no steps")

    def _large(self, mean: Mean) -> LargeMean | None:
        """The mean as matrices, if its logits are affine in the inputs and its values constant."""
        if not all(value.is_constant for value in mean.values):
            return None
        rows = [self.linear(form) for form in mean.logits]
        if any(slot >= self.width for row in rows for slot in row.slots):
            return None
        slopes = np.zeros((len(rows), self.width))
        for i, row in enumerate(rows):
            slopes[i, list(row.slots)] = row.coefficients
        offsets = np.array([row.constant for row in rows])
        return LargeMean.beside(slopes, offsets, np.array([_plain(v.constant) for v in mean.values]))


def _plain(value: fmpq) -> float:
    """The nearest float of a coefficient, which must not be lost to under- or overflow."""
    result = nearest(value)
    if value != ZERO and not 1e-280 < abs(result) < 1e280:
        raise Unsuitable("A weight is so extreme that floats cannot follow it.")
    return result


def _facets(
    rows: np.ndarray, graph: Graph, variables: list[int]
) -> tuple[tuple[np.ndarray, float, float], ...]:
    """Normals of the zonotope R [box], with its range along each, outward."""
    k, d = rows.shape
    low, high = graph.bounds.low[variables], graph.bounds.high[variables]
    facets = []
    for chosen in itertools.islice(itertools.combinations(range(d), k - 1), 64):
        _, sizes, axes = np.linalg.svd(rows[:, chosen].T)
        if sizes.min() < 1e-9:
            continue
        normal = axes[-1]
        along = normal @ rows
        size = np.abs(along) @ np.maximum(np.abs(low), np.abs(high))
        pad = 1e-12 * (size + 1e-300)
        bottom = np.minimum(along * low, along * high).sum() - pad
        facets.append((normal, bottom, np.maximum(along * low, along * high).sum() + pad))
    return tuple(facets)
