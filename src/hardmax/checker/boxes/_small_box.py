"""|form| on the box of its variables: part by part if it falls apart, else at once.

x*y from squares of u = x + y and v = x - y errs by e(u) - e(v): two searches in one dimension
instead of one in two. If E = sum_i E_i with |E_i - c_i| <= r_i, then |E| <= |sum c_i| + sum r_i,
and on a product of intervals, with c_i in the middle of the range of E_i, that is attained.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from flint import fmpq

from hardmax.checker._budget import Clock, charge
from hardmax.checker.boxes._ball_series import Line, bound_by_series
from hardmax.checker.boxes._compile_tape import Problem, functionals, needed, pose
from hardmax.checker.boxes._few_variables import Basis, tidied
from hardmax.checker.boxes._search import Search, Watch
from hardmax.checker.boxes._tape import run
from hardmax.checker.forms import (
    ONE,
    ZERO,
    Form,
    Graph,
    Times,
    Variable,
    arguments,
    constant,
    rational,
    total,
)
from hardmax.numerics import above_float, down, stray, up

MOST_DIMENSIONS = 4
CLOSE = 0.004  # small boxes are searched until the bound is this close to what is attained
HARD = 1e-11  # errors below this are near what floats can tell apart: balls come first
_SURE = 1e-4  # ranges are found to this tolerance
_ROUGHLY = 1e-3  # where they have to be searched at once
_ROUGH = 0.1  # sums of several absolute values
_NEGLIGIBLE = 2.0**-8  # of the room: a bound below this need not be improved
_PARTS_CLOSE = 0.002  # parts are searched to this tolerance
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
            tolerance=_PARTS_CLOSE,
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


class TooManyDimensions(Exception):
    """A form depends on more variables than can be searched."""

    def __init__(self, dimension: int) -> None:
        super().__init__(f"{dimension} dimensions")
        self.dimension = dimension


@dataclass
class SmallBoxes:
    """Searches one form after another, and counts the boxes that it took."""

    graph: Graph
    clock: Clock
    executor: Executor | None = None
    watch: Watch | None = None
    boxes: int = 0

    def bound(self, form: Form, room: float, *, close: float = CLOSE, least: float = 0.0) -> float:
        """An upper bound on |form|; whether it is within `room` is for the caller to see.

        It comes `close` to what is attained, or is at most `least`.
        """
        if form.is_zero:
            return 0.0
        parted = self.by_parts(form, room)
        return (
            parted
            if parted <= room
            else min(parted, self.at_once(form, room, close=close, least=least))
        )

    def bound_sum(self, forms: Sequence[Form], room: float) -> float:
        """A bound on sum_i |f_i|: the largest |f_0 +- f_1 +- ...|, for every choice of signs."""
        if len(forms) == 1:
            return self.bound(forms[0], room)
        choices = []
        for signs in itertools.product((ONE, -ONE), repeat=len(forms) - 1):
            form = total([(s, f) for s, f in zip((ONE, *signs), forms, strict=True)])
            ends = seen_range(self.graph, self.posed(form, room))
            choices.append((max(map(abs, ends)), form))
        worst = 0.0
        for _, form in sorted(choices, key=lambda choice: -choice[0]):  # then few are searched
            worst = max(worst, self.bound(form, room, close=_ROUGH, least=worst))
            if not worst <= room:
                return math.inf
        return worst

    def by_parts(self, form: Form, room: float) -> float:
        """A bound from parts that share no variable; infinite if there is one part."""
        self.posed(form, room)
        parted, boxes = bound_by_parts(self.graph, form, room, self.clock, self.executor)
        self.boxes += boxes
        return parted

    def at_once(
        self, form: Form, room: float, *, close: float = CLOSE, least: float = 0.0
    ) -> float:
        """A bound from one search over all variables."""
        problem = self.posed(form, room)
        if room < HARD and (balls := in_balls(problem, room, self.clock)) <= room:
            return balls
        search = Search(
            problem,
            self.clock,
            enough=room,
            tolerance=close,
            executor=self.executor,
            watch=self.watch,
            least=max(least, _NEGLIGIBLE * room),
            gives_up=True,
        )
        found = search.run()
        self.boxes += found.boxes
        if found.certified <= room or found.measured > room:
            return found.certified
        return min(found.certified, in_balls(problem, room, self.clock))

    def reach(self, form: Form) -> tuple[float, float]:
        """A range of a form, narrowed by a search."""
        low, high = self.graph.range(form)
        if self.graph.is_plain(form):
            return low, high
        problem = pose(self.graph, form, math.inf)
        about = 0.5 * sum(seen_range(self.graph, problem))
        shifted = form - constant(rational(about))
        room = max(high - about, about - low)
        if problem.facets:  # which parts forget; all of the room may be attained: a little more
            radius = self.at_once(shifted, room * (1 + 2 * _ROUGHLY), close=_ROUGHLY)
        else:
            radius = self.bound(shifted, room * (1 + 2 * _SURE), close=_SURE)
        return max(low, down(about - radius)), min(high, up(about + radius))

    def posed(self, form: Form, room: float) -> Problem:
        problem = pose(self.graph, form, room)
        if problem.dimension > MOST_DIMENSIONS:
            raise TooManyDimensions(problem.dimension)
        return problem


def in_balls(problem: Problem, room: float, clock: Clock) -> float:
    """A hard case on a line, which floats could not decide, in ball arithmetic."""
    enough = problem.left(room)
    if problem.exact is None or problem.dimension > 1 or not enough > 0.0:
        return math.inf
    line = Line(problem.exact, float(problem.low[0]), float(problem.high[0]))
    return problem.whole(bound_by_series(line, enough, clock))
