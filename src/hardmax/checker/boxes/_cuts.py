"""A deep row that passes through a bottleneck is cut there.

Let F = P(u), where u = (u_1, u_2) are the few linear functionals through which the later atoms of F
read its variables and its first atoms: a product of x and of a long sum of gates that stands for
1/y. Searching F - V on the variables' box would follow all teeth of P in two dimensions at once,
bent by u. Instead, for any function Q,

    |F - V|  <=  sup |P - Q| over the box of u  +  sup |Q(u) - V| over the box of the variables.

The first is a search in u alone, where a product falls apart into two searches in one dimension;
the second has no teeth. Q is a quadratic function of u for which the sum is smallest at some
points (a linear program): a guess with exact coefficients, and nothing depends on its being good.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from flint import fmpq

from hardmax.checker._budget import PIVOT, PROGRAM, charge
from hardmax.checker.boxes._compile_tape import Problem, Unsuitable, needed, pose
from hardmax.checker.boxes._few_variables import Basis
from hardmax.checker.boxes._small_box import SmallBoxes, TooManyDimensions
from hardmax.checker.boxes._tape import run
from hardmax.checker.forms import (
    ONE,
    ZERO,
    Form,
    Graph,
    Variable,
    arguments,
    constant,
    nearest,
    rational,
    rebuilt,
    total,
)
from hardmax.numerics import inflate

DEEP = 6  # atoms beyond the cut, for it to be tried first
_MOST_LATER = 256
_POINTS = 3072
_DUST = 2.0**-12  # of the room

_Row = dict[int, fmpq]


@dataclass(frozen=True, eq=False)
class Cut:
    """F = inner(names) up to dust, where each name stands for one of the functionals."""

    functionals: tuple[Form, ...]
    names: tuple[Form, ...]
    inner: Form
    dust: float  # what rounded weights leave over


def bound_by_cut(
    boxes: SmallBoxes,
    ours: Form,
    theirs: Form,
    room: float,
    fewest: int = DEEP,
    also: Sequence[Form] = (),
) -> float:
    """A bound on |ours - theirs| from a cut with that many atoms behind it, else infinity.

    The absolute values of what is there `also` are added to it at every point.
    """
    try:
        cut = find_cut(boxes, ours, room, fewest)
        return math.inf if cut is None else _through(boxes, cut, theirs, room, also)
    except (TooManyDimensions, Unsuitable):  # of a side by itself; their difference may have few
        return math.inf


def _through(boxes: SmallBoxes, cut: Cut, theirs: Form, room: float, also: Sequence[Form]) -> float:
    graph = boxes.graph
    guess = _fitted(graph, cut, theirs, room, also)
    if guess is None:
        return math.inf
    beyond = boxes.bound(cut.inner - _written(graph, guess, cut.names), room)
    left = room - beyond - cut.dust
    if not left > 0.0:
        return math.inf
    own = _factored(graph, guess, cut.functionals) - theirs
    before = boxes.bound_sum([own, *also], left)
    return float(inflate(beyond + before + cut.dust, 2))


def find_cut(boxes: SmallBoxes, form: Form, room: float, fewest: int) -> Cut | None:
    """Where a form narrows to one or two functionals after its first atoms."""
    graph = boxes.graph
    order = needed(graph, form)
    first = [a for a in order if _is_first(graph, a)]
    columns = {a: i for i, a in enumerate(first)}
    later = [a for a in order if a not in columns]
    if not fewest <= len(later) <= _MOST_LATER:
        return None
    reading = [argument for a in later for argument in arguments(graph.atoms[a])]
    basis = Basis.of([_restricted(f, columns) for f in reading], len(first), graph.look)
    own = _restricted(form, columns)
    low, high = graph.range(_spelled(basis.residual(own), first))
    dust = max(abs(low), abs(high))
    if dust > _DUST * room:
        basis.admit(own)
        dust = 0.0
    if not 1 <= basis.rank <= 2:
        return None
    functionals = tuple(_spelled(row, first) for row in basis.rows)
    if all(graph.is_plain(functional) for functional in functionals):
        return None
    names = tuple(graph.variable(*boxes.reach(functional)) for functional in functionals)
    return Cut(functionals, names, _Rebuilt(graph, columns, basis, names).form(form), dust)


def _is_first(graph: Graph, atom: int) -> bool:
    """A variable, or an atom of variables alone."""
    return all(graph.is_plain(form) for form in arguments(graph.atoms[atom]))


def _spelled(row: _Row, atoms: list[int]) -> Form:
    return Form({atoms[i]: c for i, c in row.items()})


def _restricted(form: Form, columns: dict[int, int]) -> _Row:
    return {columns[a]: c for a, c in form.terms.items() if a in columns}


class _Rebuilt:
    """The later atoms again, over the names of the functionals."""

    def __init__(
        self, graph: Graph, columns: dict[int, int], basis: Basis, names: tuple[Form, ...]
    ) -> None:
        self.graph, self.columns, self.basis, self.names = graph, columns, basis, names
        self._made: dict[int, Form] = {}

    def form(self, form: Form) -> Form:
        shares = self.basis.coordinates(_restricted(form, self.columns))
        parts = [(c, name) for c, name in zip(shares, self.names, strict=True) if c != ZERO]
        parts += [(c, self._atom(a)) for a, c in form.terms.items() if a not in self.columns]
        return total([(ONE, constant(form.constant)), *parts])

    def _atom(self, number: int) -> Form:
        if number not in self._made:
            again = [self.form(form) for form in arguments(self.graph.atoms[number])]
            self._made[number] = rebuilt(self.graph, number, again)
        return self._made[number]


_Guess = dict[tuple[int, ...], fmpq]  # coefficients of monomials
_LINEAR = ((), (0,), (1,))
_MONOMIALS: dict[int, tuple[tuple[tuple[int, ...], ...], ...]] = {  # by the number of functionals
    1: (((), (0,)), ((), (0,), (0, 0))),
    2: (
        (*_LINEAR, (0, 0), (1, 1)),
        (*_LINEAR, (0, 1)),
        (*_LINEAR, (0, 0), (0, 1), (1, 1)),
    ),
}


def _written(graph: Graph, guess: _Guess, forms: tuple[Form, ...]) -> Form:
    """The guess as a form over these."""
    parts = []
    for powers, c in guess.items():
        factors = [forms[i] for i in powers]
        if not factors:
            parts.append((ONE, constant(c)))
        elif len(factors) == 1:
            parts.append((c, factors[0]))
        else:
            parts.append((c, graph.times(*factors)))
    return total(parts)


def _factored(graph: Graph, guess: _Guess, forms: tuple[Form, ...]) -> Form:
    """The same with one product of factors: what they share need not cancel any more.

    a u^2 + b v^2 with a b < 0 is a (u - k v)(u + k v) with k^2 = -b/a, and what a rounded k leaves
    of v^2: where u and v stand for x + r and x - r, the factors are multiples of r and of x. And
    a u v + b u + c v = a (u + c/a)(v + b/a) less a constant. Linear terms go into the squares.
    """
    a, b, c = (guess.get(m, ZERO) for m in ((0, 0), (1, 1), (0, 1)))
    if a * b < 0 and c == ZERO:
        shifts = guess.get((0,), ZERO) / (2 * a), guess.get((1,), ZERO) / (2 * b)
        u, v = (form + constant(shift) for form, shift in zip(forms, shifts, strict=True))
        k = rational(math.sqrt(nearest(-b / a)))
        rest = guess.get((), ZERO) - a * shifts[0] ** 2 - b * shifts[1] ** 2
        parts = [
            (ONE, constant(rest)),
            (a, graph.unwritten(u - v.scaled(k), u + v.scaled(k))),
            (a * k * k + b, graph.times(v, v)),
        ]
        return total(parts)
    if c != ZERO and a == ZERO and b == ZERO:
        shifts = guess.get((1,), ZERO) / c, guess.get((0,), ZERO) / c
        u, v = (form + constant(shift) for form, shift in zip(forms, shifts, strict=True))
        rest = guess.get((), ZERO) - c * shifts[0] * shifts[1]
        return constant(rest) + graph.unwritten(u, v).scaled(c)
    return _written(graph, guess, forms)


def _fitted(
    graph: Graph, cut: Cut, theirs: Form, room: float, also: Sequence[Form]
) -> _Guess | None:
    """The quadratic for which the two bounds add up to the least at some points.

    Without a product of different functionals it falls apart: that is tried first. None if even
    at these points no quadratic is good enough.
    """
    seen = _sample(graph, (*cut.functionals, theirs, *also))
    before, added = np.split(seen, [len(seen) - len(also)])
    beyond = _sample(graph, (*cut.names, cut.inner))
    if not np.isfinite(added).all():
        return None
    sizes = np.abs(added).sum(axis=0), np.zeros(_POINTS)
    for monomials in _MONOMIALS[len(cut.names)]:
        tables = _powers(before, monomials), _powers(beyond, monomials)
        if not all(np.isfinite(table).all() for table in tables):
            continue
        size, found = _least_sum(tables, sizes)
        if size < room:
            return {m: rational(c) for m, c in zip(monomials, found.tolist(), strict=True)}
    return None


def _sample(graph: Graph, forms: tuple[Form, ...]) -> np.ndarray:
    """Forms (rows) at points of their variables, roughly; many of the points are on the rim."""
    atoms = sorted({a for form in forms for a in needed(graph, form)})
    variables = [a for a in atoms if isinstance(graph.atoms[a], Variable)]
    rng = np.random.default_rng(0)
    share = np.clip(rng.uniform(-0.4, 1.4, size=(len(variables), _POINTS)), 0.0, 1.0)
    low, high = graph.bounds.low[variables][:, None], graph.bounds.high[variables][:, None]
    where = dict(zip(variables, low + (high - low) * share, strict=True))
    return np.stack([_values(pose(graph, form, math.inf), where) for form in forms])


def _powers(sample: np.ndarray, monomials: tuple[tuple[int, ...], ...]) -> np.ndarray:
    """Monomials in all rows but the last one (rows x points), and that one."""
    with np.errstate(over="ignore"):
        rows = [np.prod([sample[i] for i in m], axis=0) + 0.0 * sample[-1] for m in monomials]
    return np.stack([*rows, sample[-1]])


def _least_sum(
    tables: tuple[np.ndarray, np.ndarray], added: tuple[np.ndarray, np.ndarray]
) -> tuple[float, np.ndarray]:
    """The least max (|q @ rows - last| + added) of one table plus that of the other, and the q."""
    from scipy.optimize import linprog

    count = len(tables[0]) - 1
    scale = np.max([np.abs(table[:-1]).max(axis=1) for table in tables], axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    sides, limits = [], []
    for place, (table, more) in enumerate(zip(tables, added, strict=True)):
        for sign in (1.0, -1.0):
            slack = np.zeros((table.shape[1], 2))
            slack[:, place] = -1.0
            sides.append(np.hstack([sign * (table[:-1] / scale[:, None]).T, slack]))
            limits.append(sign * table[-1] - more)
    free = [(None, None)] * count + [(0, None)] * 2
    cost = np.r_[np.zeros(count), 1.0, 1.0]
    found = linprog(cost, np.vstack(sides), np.concatenate(limits), bounds=free)
    charge(PROGRAM + PIVOT * sum(side.size for side in sides))
    if found.x is None:
        return math.inf, np.zeros(count)
    return float(found.fun), found.x[:count] / scale


def _values(problem: Problem, where: dict[int, np.ndarray]) -> np.ndarray:
    """A problem's answer at points of its variables, roughly."""
    if not problem.variables:
        return np.full(_POINTS, problem.tape.answer.constant)
    points = problem.rows @ np.stack([where[a] for a in problem.variables])
    charge(problem.tape.work(_POINTS, nearby=False))
    twin, _ = run(problem.tape, points, points)
    return np.asarray(twin.centre.mid[0])
