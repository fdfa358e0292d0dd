"""The rows of a witness: what a coordinate is said to hold, and rows on boxes, without a lemma."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from hardmax.checker._budget import charge
from hardmax.checker.boxes import (
    MOST_DIMENSIONS,
    Problem,
    SmallBoxes,
    TooManyDimensions,
    Unsuitable,
    bound_by_cut,
    pose,
    run,
)
from hardmax.checker.forms import (
    NOTHING,
    ONE,
    Form,
    Gradient,
    Graph,
    NoGradient,
    TargetForms,
    Unrolled,
    constant,
    rational,
    total,
)
from hardmax.checker.steps._deviations import Deviations
from hardmax.checker.steps._verified import Verified
from hardmax.core import Construction, Holding
from hardmax.numerics import STEP, inflate, pair_between, pair_ends, up

ROUNDED = 4096.0 * STEP  # relative: what a stated error may lose to our own rounding
_PIECES = 64  # parts of a box on which slopes are taken
_MOST_MOVING = 4
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
    scale = form.coefficient(atom)
    rest = form.without((atom,), form.constant)
    return (name - rest).scaled(ONE / scale)


def atoms_of(forms: list[Form], graph: Graph, *, several: bool) -> list[int]:
    """Atoms other than variables, in order; only of forms with `several`, if that is asked."""
    found: dict[int, None] = {}
    for form in forms:
        atoms = [] if graph.is_plain(form) else [a for a in form.atoms if a not in graph.variables]
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


def slopes_of(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Where the slopes of a problem's answer lie, from a few parts of its box."""
    k = problem.dimension
    cuts = max(1, int(_PIECES ** (1.0 / k)))
    edges = [np.linspace(a, b, cuts + 1) for a, b in zip(problem.low, problem.high, strict=True)]
    for edge, a, b in zip(edges, problem.low, problem.high, strict=True):
        edge[0], edge[-1] = a, b
    grid = np.stack([g.ravel() for g in np.meshgrid(*[np.arange(cuts)] * k, indexing="ij")])
    low = np.stack([edge[g] for edge, g in zip(edges, grid, strict=True)])
    high = np.stack([edge[g + 1] for edge, g in zip(edges, grid, strict=True)])
    charge(problem.tape.work(low.shape[1]))
    twin, _ = run(problem.tape, low, high)
    bottom, top = pair_ends(twin.box.slopes)
    middle, radius = pair_between(bottom.min(axis=1), top.max(axis=1))
    if not np.isfinite(radius).all():
        raise Rejected("The slope of a step is unbounded on its range.")
    return middle, radius


def movement(graph: Graph, form: Form, deviations: Mapping[int, float]) -> tuple[list[Form], float]:
    """How far deviations move V: forms whose absolute values, and a number, add up to a bound.

    With |d_i| <= D_i for the verified variables H_i,

        |V(H) - V(H - d)|  <=  sum_i |V_i(H)| D_i  +  sum_ij sup |V_ij| D_i D_j / 2.

    The first sum is a function of H, to be added to |F - V| at the same H before anything is
    searched: a quotient u/v is moved most where v is small, while the sum of gates that stands for
    1/v matters most where u is large. The second, with V_ij anywhere in the ranges of the
    variables, is small because it is of second order. May raise NoGradient.
    """
    slopes = {a: Gradient(graph, a).form(form) for a in deviations}
    if len(set(slopes.values())) > _MOST_MOVING:
        return [], math.inf
    shares: dict[Form, Form] = {}  # variables with one slope move it together
    for a, slope in slopes.items():
        shares[slope] = shares.get(slope, NOTHING) + slope.scaled(rational(deviations[a]))
    second = 0.0
    for (a, slope), b in itertools.product(slopes.items(), deviations):
        ends = graph.range(Gradient(graph, b).form(slope))
        second += 0.5 * max(map(abs, ends)) * deviations[a] * deviations[b]
    return [share for share in shares.values() if not share.is_zero], inflate(
        second, len(slopes) ** 2 + 4
    )


@dataclass(frozen=True, eq=False)
class RowBoxes:
    """[F - V](H) by branch and bound, and V(H) - V(H - d) by slopes of V."""

    small: SmallBoxes
    verified: Verified

    def deviation(self, row: Row) -> Deviations:
        """F - V of a row; apart if that is good enough, else jointly."""
        try:
            carried = self._carried(row)
            room = row.error - float(carried.size[0])
            found = self._searched(row.ours, row.theirs, room) if room > 0.0 else math.inf
            if not found <= room:
                carried, found = self.verified.none(), self._jointly(row)
        except Unsuitable as reason:
            raise Rejected(str(reason)) from reason
        except TooManyDimensions as many:
            raise Rejected(
                f"{row.where} depends on {many.dimension} verified values at once: more than can "
                f"be searched."
            ) from many
        whole = carried.shifted(np.zeros(1), np.array([found]))
        if not float(whole.size[0]) <= row.error * (1 + ROUNDED):
            raise Rejected(
                f"{row.where} could be shown only within {float(whole.size[0]):.3g}, not "
                f"{row.error:.3g}."
            )
        return whole

    def _searched(self, ours: Form, theirs: Form, room: float) -> float:
        """|ours - theirs|: part by part, through a cut, or at once, whichever is good enough."""
        if ours == theirs:
            return 0.0
        found = self.small.by_parts(ours - theirs, room)
        if not found <= room:
            found = bound_by_cut(self.small, ours, theirs, room)
        return found if found <= room else self.small.at_once(ours - theirs, room)

    def _jointly(self, row: Row) -> float:
        """|F(H) - V(H - d)|, where both brackets are added up before they are searched."""
        sizes = self.verified.sizes(row.theirs)
        try:
            shares, second = movement(self.small.graph, row.theirs, sizes)
        except NoGradient:
            return math.inf
        room = row.error - second
        if not shares or not room > 0.0:
            return math.inf
        found = bound_by_cut(self.small, row.ours, row.theirs, room, also=shares)
        if not found <= room:
            found = self.small.bound_sum([row.ours - row.theirs, *shares], room)
        return float(up(found + second))

    def _carried(self, row: Row) -> Deviations:
        """V(H) - V(H - d): slopes of V over the ranges of H and V, times d."""
        known = self.verified
        if not known.sizes(row.theirs):
            return known.none()
        problem = pose(self.small.graph, row.theirs, math.inf)
        if problem.dimension > MOST_DIMENSIONS + 2:
            raise Rejected(f"{row.where} depends on too many verified values at once.")
        middle, radius = slopes_of(problem)
        matrix = np.zeros((problem.dimension, len(known.index)))
        for column, atom in enumerate(problem.variables):
            if atom in known.index:
                matrix[:, known.index[atom]] = problem.rows[:, column]
        parts = known.deviations.combined(matrix).scaled(middle, radius)
        return parts.combined_rows()
