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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from flint import fmpq

from hardmax.checker._budget import CALL, TERM, VISIT, charge
from hardmax.checker.boxes._bank import AffineRows, Bank
from hardmax.checker.boxes._exact import Exact
from hardmax.checker.boxes._few_variables import Basis, tidied
from hardmax.checker.boxes._large_mean import LargeMean
from hardmax.checker.boxes._tape import Linear, Step, Tape, Wide
from hardmax.checker.forms import (
    ONE,
    ZERO,
    Apply,
    Form,
    Gate,
    Graph,
    HardMean,
    Maximum,
    Mean,
    Relu,
    Times,
    Variable,
    arguments,
    direction_of,
    nearest,
)
from hardmax.numerics import FAINT, above_float, below_float, stray, sum_up

_MANY = 24  # tokens of a mean or gates of a sum, from which on only the near ones are followed
_EXTREME = 1e20 * FAINT  # smaller weights, and larger ones than 1 over this, are not followed
_CRUMB = 2.0**-20  # of the scale: what is smaller is bounded, not searched
_KINDS = {
    **{Gate: "gate", Mean: "mean", HardMean: "hard", Relu: "relu"},
    **{Maximum: "maximum", Times: "times"},
}


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
    exact: Exact | None = None  # the same answer, for ball arithmetic

    @property
    def dimension(self) -> int:
        return len(self.low)

    def whole(self, bound: float) -> float:
        """The least float that bounds |answer| if |the tape's answer| is within `bound`."""
        if not (self.slack and math.isfinite(bound) and math.isfinite(self.slack)):
            return bound + self.slack
        return above_float(Fraction(bound) + Fraction(self.slack))

    def left(self, limit: float) -> float:
        """The largest bound on the tape's answer for which |answer| stays within a limit."""
        if not (self.slack and math.isfinite(limit) and math.isfinite(self.slack)):
            return limit if math.isinf(limit) else limit - self.slack
        return below_float(Fraction(limit) - Fraction(self.slack))

    def holds(self, points: np.ndarray) -> np.ndarray:
        """Whether points of the search variables come from points of the domain."""
        inside = np.ones(points.shape[1], dtype=bool)
        for normal, bottom, top in self.facets:
            along = normal @ points
            pad = 4e-12 * (abs(bottom) + abs(top))
            inside &= (along >= bottom + pad) & (along <= top - pad)
        return inside


def pose(graph: Graph, answer: Form, scale: float) -> Problem:
    """The search problem for |answer|, an error of about `scale` being of interest."""
    dust = 0.0
    if math.isfinite(scale):
        answer, dust = tidied(graph, answer, scale)
    answer, crumbs = _without_crumbs(graph, answer, scale)
    order = needed(graph, answer)
    variables = [a for a in order if isinstance(graph.atoms[a], Variable)]
    column = {a: i for i, a in enumerate(variables)}
    basis = Basis.of(functionals(graph, answer, column), len(variables), graph.look)
    own = _linear_part(answer, column)
    rest = basis.residual(own)
    beyond = _reach(rest, graph, variables)
    if beyond > (_CRUMB * scale if math.isfinite(scale) else 0.0):
        basis.admit(rest)
        beyond = 0.0
    return over_basis(graph, answer, basis, variables, float(sum_up([*crumbs, dust, beyond])))


def over_basis(
    graph: Graph, answer: Form, basis: Basis, variables: list[int], slack: float
) -> Problem:
    """The search problem over the coordinates of a basis that spans what the atoms read."""
    column = {a: i for i, a in enumerate(variables)}
    inner = [a for a in needed(graph, answer) if a not in column]
    compiler = _Compiler(graph, column, basis, inner, answer)
    tape = Tape(basis.rank or 1, compiler.steps(), compiler.linear(answer))
    problem = _problem(graph, tape, basis, variables, slack)
    return replace(problem, exact=Exact(graph, answer, basis, column))


def _problem(graph: Graph, tape: Tape, basis: Basis, variables: list[int], slack: float) -> Problem:
    rows = basis.rows
    floats = np.zeros((max(len(rows), 1), len(variables)))  # no rows: one box that is a point
    low, high = np.zeros(len(floats)), np.zeros(len(floats))
    for number, row in enumerate(rows):
        form = Form({variables[i]: c for i, c in row.items()})
        low[number], high[number] = graph.bounds.range(form)
        floats[number, list(row)] = [nearest(c) for c in row.values()]
        if len(row) == 1:  # the functional is a variable, and its ends are the variable's own
            ((only, lead),) = row.items()
            assert lead == ONE
            low[number], high[number] = graph.bounds[variables[only]]
    is_box = all(len(row) == 1 for row in rows)
    facets = () if is_box or len(rows) < 2 else _facets(floats, graph, variables)
    return Problem(tape, low, high, slack, floats, tuple(variables), facets)


def _without_crumbs(graph: Graph, answer: Form, scale: float) -> tuple[Form, list[float]]:
    """The answer without terms too small to matter, and how large each of these may be."""
    crumbs = []
    kept: dict[int, fmpq] = {}
    for atom, c in answer.terms.items():
        low, high = graph.bounds.range(Form({atom: c}))
        size = max(abs(low), abs(high))
        if (
            math.isfinite(scale)
            and size <= _CRUMB * scale
            and not isinstance(graph.atoms[atom], Variable)
        ):
            crumbs.append(size)
        else:
            kept[atom] = c
    return Form(kept, answer.constant), crumbs


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
            charge(VISIT, 4 + len(form.atoms))
            todo.extend(a for a in form.atoms if a not in seen)
    return sorted(seen)


def functionals(graph: Graph, answer: Form, column: dict[int, int]) -> Iterator[dict[int, fmpq]]:
    """The linear functionals through which the atoms behind an answer read the variables."""
    for atom in needed(graph, answer):
        graph.look()
        for form in arguments(graph.atoms[atom]):
            yield _linear_part(form, column)


def _linear_part(form: Form, column: dict[int, int]) -> dict[int, fmpq]:
    return {column[a]: c for a, c in form.terms.items() if a in column}


def _reach(row: dict[int, fmpq], graph: Graph, variables: list[int]) -> float:
    low, high = graph.bounds.range(Form({variables[i]: c for i, c in row.items()}))
    return max(abs(low), abs(high))


class _Compiler:
    """Slots hold the search variables, then the banks, then every atom that is read by itself."""

    def __init__(
        self,
        graph: Graph,
        column: dict[int, int],
        basis: Basis,
        inner: Iterable[int],
        answer: Form,
    ) -> None:
        self.graph, self.column, self.basis = graph, column, basis
        self.width = basis.rank or 1
        self.banks: dict[Form, int] = {}  # sums of many gates, up to their scale
        self.slot: dict[int, int] = {}
        flat = [a for a in inner if self._is_flat(a)]
        self.flat: set[int] = set(flat) if len(flat) >= _MANY else set()
        self.inner = [a for a in inner if a not in self.flat]
        alone: set[int] = set()
        readers = [form for a in self.inner for form in arguments(graph.atoms[a])]
        for form in [*readers, answer]:
            many = self._banked(form)
            if many is None:
                alone |= self.flat.intersection(form.atoms)
            else:
                self.banks.setdefault(direction_of(many)[0], self.width + len(self.banks))
        self.inner = sorted([*self.inner, *alone])
        start = self.width + len(self.banks)
        self.slot = {atom: start + i for i, atom in enumerate(self.inner)}

    def steps(self) -> tuple[Step | Wide, ...]:
        return (*map(self._bank, self.banks), *map(self.step, self.inner))

    def _is_flat(self, atom: int) -> bool:
        """A gate or rectifier that reads the search variables alone."""
        made = self.graph.atoms[atom]
        return isinstance(made, Gate | Relu) and all(
            a in self.column for form in arguments(made) for a in form.atoms
        )

    def _banked(self, form: Form) -> Form | None:
        """The part of a form that is a sum of many flat gates, all of one kind."""
        many = {a: c for a, c in form.terms.items() if a in self.flat}
        if len(many) < _MANY or len({type(self.graph.atoms[a]) for a in many}) > 1:
            return None
        return Form(many)

    def linear(self, form: Form) -> Linear:
        """A form over slots; what it has outside the basis was put into the slack."""
        self.graph.look()
        charge(TERM, 4 + len(form.atoms))
        terms = {
            slot: c
            for slot, c in enumerate(self.basis.coordinates(_linear_part(form, self.column)))
            if c != ZERO
        }
        many = self._banked(form) if self.banks else None
        if many is not None:
            direction, scale = direction_of(many)
            terms[self.banks[direction]] = scale
        apart = () if many is None else many.atoms
        terms |= {
            self.slot[a]: c for a, c in form.terms.items() if a in self.slot and a not in apart
        }
        return Linear(tuple(terms), tuple(map(_plain, terms.values())), _plain(form.constant))

    def _bank(self, total: Form) -> Bank:
        """sum_i c_i gate_i, the factors c_i taken into the values."""
        logits, values = [], []
        for atom, c in total.terms.items():
            made = self.graph.atoms[atom]
            assert isinstance(made, Gate | Relu)
            logit = made.logit if isinstance(made, Gate) else made.argument
            value = made.value if isinstance(made, Gate) else made.argument
            logits.append(self.linear(logit))
            values.append(self.linear(value.scaled(c)))
        first = self.graph.atoms[next(iter(total.atoms))]
        return Bank(self._affine(logits), self._affine(values), isinstance(first, Relu))

    def _affine(self, rows: list[Linear]) -> AffineRows:
        slopes = np.zeros((len(rows), self.width))
        for i, row in enumerate(rows):
            slopes[i, list(row.slots)] = row.coefficients
        return AffineRows(slopes, np.array([row.constant for row in rows]))

    def step(self, number: int) -> Step | Wide:
        atom = self.graph.atoms[number]
        if isinstance(atom, Mean) and len(atom.logits) >= _MANY:
            large = self._large(atom)
            if large is not None:
                return large
        reads = tuple(self.linear(form) for form in arguments(atom))
        match atom:
            case Times(first=first, second=second) if first == second:
                return Step("times", (reads[0], reads[0]))
            case Apply(name=name, exponent=exponent):
                return Step(name, reads, exponent)
        return Step(_KINDS[type(atom)], reads)

    def _large(self, mean: Mean) -> LargeMean | None:
        """The mean as matrices, if its logits are affine in the inputs and its values constant."""
        if not all(value.is_constant for value in mean.values):
            return None
        rows = [self.linear(form) for form in mean.logits]
        if any(slot >= self.width for row in rows for slot in row.slots):
            return None
        affine = self._affine(rows)
        values = np.array([_plain(v.constant) for v in mean.values])
        return LargeMean.beside(affine.slopes, affine.offsets, values)


def _plain(value: fmpq) -> float:
    """The nearest float of a coefficient, which must not be lost to under- or overflow."""
    result = nearest(value)
    if value != ZERO and not _EXTREME < abs(result) < 1.0 / _EXTREME:
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
        charge(CALL, 24)
        _, sizes, axes = np.linalg.svd(rows[:, chosen].T)
        if sizes.min() < 1e-9:
            continue
        normal = axes[-1]
        along = normal @ rows
        spread = np.abs(normal) @ np.abs(rows) @ np.maximum(np.abs(low), np.abs(high))
        pad = stray(k + d + 6, spread)  # rows are rounded, and the sums over k and over d
        bottom = np.minimum(along * low, along * high).sum() - pad
        facets.append((normal, bottom, np.maximum(along * low, along * high).sum() + pad))
    return tuple(facets)
