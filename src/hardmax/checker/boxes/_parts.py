"""An answer that is a sum of functions of different variables is bounded part by part.

x*y from squares of u = x + y and v = x - y errs by e(u) - e(v): two searches in one dimension
instead of one in two. If E = sum_i E_i with |E_i - c_i| <= r_i, then |E| <= |sum c_i| + sum r_i,
and on a product of intervals, with c_i in the middle of the range of E_i, that is attained.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from concurrent.futures import Executor
from dataclasses import replace
from fractions import Fraction

import numpy as np
from flint import fmpq

from hardmax.checker._budget import Clock
from hardmax.checker._work import charge
from hardmax.checker.boxes._compile_tape import Problem, functionals, needed, pose
from hardmax.checker.boxes._search import Search
from hardmax.checker.boxes._tape import run
from hardmax.checker.boxes._tidy import tidied
from hardmax.checker.forms import (
    ONE,
    ZERO,
    Basis,
    Form,
    Graph,
    Times,
    Variable,
    arguments,
    constant,
    rational,
    total,
)
from hardmax.numerics import above_float, stray, up

_CLOSE = 0.002  # parts are searched to this tolerance
_LOOKS = 513


def apart(graph: Graph, answer: Form) -> list[Form]:
    """The answer as a sum of forms that share no search variable; one form if there is no such."""
    split = _Split(graph, answer)
    if split.basis.rank < 2:
        return [answer]
    split.sort_terms()
    groups = split.groups()
    if len(groups) == 1 or not all(support for _, support in split.atoms):
        return [answer]
    first, *others = map(split.part, groups)
    return [first + constant(answer.constant), *others]


class _Split:
    """The terms of an answer, and the basis functionals that each of them depends on."""

    def __init__(self, graph: Graph, answer: Form) -> None:
        self.graph, self.answer = graph, answer
        self.order = needed(graph, answer)
        variables = [a for a in self.order if isinstance(graph.atoms[a], Variable)]
        self.column = {a: i for i, a in enumerate(variables)}
        read = functionals(graph, answer, self.column)
        self.basis = Basis.of(read, len(variables), graph.look)
        own = {self.column[a]: c for a, c in answer.terms.items() if a in self.column}
        self.basis.admit(self.basis.residual(own))  # what is merely added is a part of its own
        self.linear = self.basis.coordinates(own)
        self.rows = [Form({variables[i]: c for i, c in row.items()}) for row in self.basis.rows]
        self.atoms: list[tuple[int, frozenset[int]]] = []
        self.squares = _Squares(self.basis.rank)
        self._supports: dict[int, frozenset[int]] = {}

    def sort_terms(self) -> None:
        """Products of functionals into squares, the other atoms by themselves."""
        for atom in self.order:
            self.support(atom)  # in this order none of them has far to look
        for atom, c in self.answer.terms.items():
            match self.graph.atoms[atom]:
                case Variable():
                    continue
                case Times(first=f, second=g) if self._is_linear(f) and self._is_linear(g):
                    self.squares.add(c, self._coordinates(f), self._coordinates(g))
                case _:
                    self.atoms.append((atom, self.support(atom)))

    def groups(self) -> list[set[int]]:
        """Functionals that meet in some term belong together."""
        joins = [*(support for _, support in self.atoms), *self.squares.pairs()]
        return _groups(self.basis.rank, joins)

    def part(self, group: set[int]) -> Form:
        """What the functionals of a group make of the answer."""
        graph, rows = self.graph, self.rows
        chosen = [(self.linear[i], rows[i]) for i in group]
        chosen += [(self.answer.terms[a], Form({a: ONE})) for a, s in self.atoms if s & group]
        chosen += [
            (c, graph.square_of(rows[i])) if i == j else (c, graph.unwritten(rows[i], rows[j]))
            for (i, j), c in self.squares.terms.items()
            if i in group and c != ZERO
        ]
        return total(chosen)

    def support(self, atom: int) -> frozenset[int]:
        """The basis functionals that an atom depends on; those of what it reads come first."""
        if atom not in self._supports:
            self.graph.look()
            found: set[int] = set()
            for form in arguments(self.graph.atoms[atom]):
                found |= self._read(form)
            self._supports[atom] = frozenset(found)
        return self._supports[atom]

    def _read(self, form: Form) -> set[int]:
        found = {i for i, c in enumerate(self._coordinates(form)) if c != ZERO}
        return found.union(*(self.support(a) for a in form.atoms if a not in self.column))

    def _is_linear(self, form: Form) -> bool:
        return not form.constant and all(a in self.column for a in form.atoms)

    def _coordinates(self, form: Form) -> list[fmpq]:
        row = {self.column[a]: c for a, c in form.terms.items() if a in self.column}
        return self.basis.coordinates(row)


class _Squares:
    """A quadratic form in the basis coordinates."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.terms: dict[tuple[int, int], fmpq] = {}

    def add(self, factor: fmpq, first: list[fmpq], second: list[fmpq]) -> None:
        for i, a in enumerate(first):
            for j, b in enumerate(second):
                if a != ZERO and b != ZERO:
                    key = min(i, j), max(i, j)
                    self.terms[key] = self.terms.get(key, ZERO) + factor * a * b

    def pairs(self) -> list[set[int]]:
        return [{i, j} for (i, j), c in self.terms.items() if c != ZERO]


def _groups(count: int, joins: Iterable[AbstractSet[int]]) -> list[set[int]]:
    groups = [{i} for i in range(count)]
    for join in joins:
        touched = [g for g in groups if g & join]
        if touched:
            groups = [g for g in groups if not g & join] + [set().union(*touched)]
    return sorted(groups, key=min)


def bound_by_parts(
    graph: Graph,
    answer: Form,
    scale: float,
    clock: Clock,
    executor: Executor | None = None,
) -> tuple[float, int]:
    """A bound on |answer| from its parts, and the boxes it took; infinite if there is one part."""
    answer, dust = tidied(graph, answer, scale) if math.isfinite(scale) else (answer, 0.0)
    parts = apart(graph, answer)
    if len(parts) == 1:
        return math.inf, 0
    problems = [pose(graph, part, scale) for part in parts]
    ranges = [seen_range(graph, problem) for problem in problems]
    if sum(high - low for low, high in ranges) > 2.0 * scale:
        return math.inf, 0  # the bound would not be better than that
    offset, radius, boxes = Fraction(0), Fraction(dust), 0
    for problem, (low, high) in zip(problems, ranges, strict=True):
        shift = 0.5 * (low + high)
        found = Search(
            _shifted(problem, shift),
            clock,
            enough=math.inf,
            tolerance=_CLOSE,
            executor=executor,
            least=2.0**-12 * scale,
        ).run()
        boxes += found.boxes
        if not found.is_complete:
            return math.inf, boxes
        offset, radius = offset + Fraction(shift), radius + Fraction(found.certified)
    return above_float(abs(offset) + radius), boxes


def _shifted(problem: Problem, by: float) -> Problem:
    """The answer less a number, which rounds its constant once more.

    It was rounded before: that is counted with what is left of it, which may be much smaller.
    """
    before = problem.tape.answer.constant
    answer = replace(problem.tape.answer, constant=before - by)
    slack = float(up(problem.slack + stray(2, abs(before) + abs(by))))
    exact = problem.exact
    if exact is not None:
        exact = replace(exact, answer=exact.answer - constant(rational(by)))
    return replace(problem, tape=replace(problem.tape, answer=answer), exact=exact, slack=slack)


def seen_range(graph: Graph, problem: Problem) -> tuple[float, float]:
    """The least and the largest answer at some points of the domain, roughly."""
    variables = list(problem.variables)
    rng = np.random.default_rng(0)
    share = rng.random((len(variables), _LOOKS))
    share[:, : _LOOKS // 2] = rng.integers(0, 2, size=(len(variables), _LOOKS // 2))
    low, high = graph.bounds.low[variables][:, None], graph.bounds.high[variables][:, None]
    points = problem.rows @ (low * (1 - share) + high * share)
    if problem.dimension == 1:
        points = np.linspace(problem.low, problem.high, _LOOKS, axis=1)
    points = np.clip(points, problem.low[:, None], problem.high[:, None])
    charge(problem.tape.work(points.shape[1], nearby=False))
    twin, _ = run(problem.tape, points, points)
    seen = twin.centre.mid[0]
    seen = seen[np.isfinite(seen)]
    return (float(seen.min()), float(seen.max())) if len(seen) else (0.0, 0.0)
