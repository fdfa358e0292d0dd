"""How large the error is over the reals: identity, boxes and steps, in the order that pays."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field

import numpy as np

from hardmax.checker._budget import PROGRAM, Clock, Spent, Standing, charge
from hardmax.checker._defined import undefined_near
from hardmax.checker._measure import confirmed, worst_seen
from hardmax.checker.boxes import (
    HARD,
    MOST_DIMENSIONS,
    Problem,
    Search,
    SmallBoxes,
    TooManyDimensions,
    Unsuitable,
    bound_by_cut,
    bound_by_parts,
    in_balls,
    pose,
    pose_against,
)
from hardmax.checker.forms import Form, Graph, TargetForms, Unrolled
from hardmax.checker.steps import Rejected, validate
from hardmax.core import Construction

_FEW_INPUTS = 8  # beyond, a model is never written out as a whole
_SHARE = 0.5  # of what is left, for the first of two methods
_WRITING = 0.25  # for writing a model out as a whole

Report = Callable[[Standing], object]


@dataclass
class RealBound:
    """measured <= sup |T - f| <= certified over the reals, and how that was found."""

    construction: Construction
    limit: float  # certified must not exceed it
    clock: Clock
    tolerance: float | None
    executor: Executor | None = None
    report: Report | None = None
    certified: float = math.inf
    measured: float = 0.0
    worst: np.ndarray = field(default_factory=lambda: np.zeros(0))
    method: str = "none"
    boxes: int = 0
    reasons: list[str] = field(default_factory=list)
    stage: str = "boxes"  # what the steps are at
    rounding: float = 0.0  # of float64, to be added to what is certified over the reals

    @property
    def is_settled(self) -> bool:
        """Nothing more is asked for."""
        if not self.certified <= self.limit:
            return False
        if self.tolerance is None or self.certified <= 1e-6 * self.limit:
            return True
        return self.certified <= self.aim * (1 + 1e-9)

    @property
    def aim(self) -> float:
        """A bound that is good enough; rounding, which comes on top, has its place in it."""
        if self.tolerance is None:
            return self.limit
        spare = self.tolerance * self.measured
        return min(self.limit, self.measured + spare - min(self.rounding, 0.9 * spare))

    def look(self, point: np.ndarray) -> None:
        """Confirm the error at a point; keep it if it is the largest so far."""
        size = confirmed(self.construction, point, self.construction.claim.domain)
        if size > self.measured or not len(self.worst):
            self.measured, self.worst = max(size, self.measured), point

    def take(self, certified: float, method: str) -> None:
        if certified < self.certified:
            self.certified, self.method = certified, method

    def watch(self, certified: float, measured: float, boxes: int) -> None:
        self._tell(min(self.certified, certified), max(self.measured, measured), boxes, "boxes")

    def watch_steps(self, _certified: float, _measured: float, boxes: int) -> None:
        """Rows have bounds of their own, which say nothing yet about the claim."""
        self._tell(self.certified, self.measured, boxes, self.stage)

    def verified(self, done: int, of: int) -> None:
        """So many lines of the witness."""
        self.stage = f"boxes, {done} of {of} lines of the witness verified"
        self.watch_steps(math.inf, 0.0, 0)

    def _tell(self, certified: float, measured: float, boxes: int, phase: str) -> None:
        if self.report is not None:
            error = self.construction.claim.error
            self.report(Standing(certified, measured, error, self.boxes + boxes, phase))


@dataclass(frozen=True, eq=False)
class Whole:
    """The error of one output, as a form and as a problem to search."""

    graph: Graph
    ours: Form
    theirs: Form
    problem: Problem

    @property
    def error(self) -> Form:
        return self.ours - self.theirs


def bound_error(state: RealBound) -> None:
    """Fill in what can be said within the budget."""
    state.look(worst_seen(state.construction))
    if state.measured > state.construction.claim.error:
        return
    try:
        _bound(state)
    except Spent:
        state.reasons.append("The budget was spent before the model was written out.")
    except (Unsuitable, TooManyDimensions) as reason:
        state.reasons.append(str(reason))


def _bound(state: RealBound) -> None:
    """The methods, one after the other."""
    steps = state.construction.claim.target.steps()
    if steps is None:
        _against_enclosures(state)
        return
    hole = undefined_near(steps, state.construction.claim.domain, state.clock)
    if hole is not None:
        where = ", ".join(f"{v:.6g}" for v in hole[:4]) + ", ..." * (len(hole) > 4)
        state.reasons.append(f"The target may be undefined near ({where}): shrink the domain.")
        return
    problems = _whole(state) if state.construction.claim.domain.dimension <= _FEW_INPUTS else None
    if problems is not None and not problems:
        state.take(0.0, "identity")
        return
    searchable = problems is not None and all(
        p.problem.dimension <= MOST_DIMENSIONS for p in problems
    )
    easy = searchable and all(p.problem.dimension <= 1 for p in problems or [])
    boxes_first = easy or state.tolerance is not None
    if boxes_first and searchable:
        _by_boxes(state, problems or [], 1.0 if easy else _SHARE)
    elif searchable:
        _by_cuts(state, problems or [])
    if not state.is_settled:
        _by_steps(state, _SHARE if searchable and not boxes_first else 1.0)
    if not state.is_settled and searchable and not boxes_first:
        _by_boxes(state, problems or [], 1.0)
    if not searchable and state.certified == math.inf:
        d = state.construction.claim.domain.dimension
        state.reasons.append(
            f"In {d} dimensions boxes are too many (about 2^{10 * min(d, 999)} for three digits)."
        )


def _whole(state: RealBound) -> list[Whole] | None:
    """The error of every output as a search problem; none if all of them are identically 0."""
    construction = state.construction
    steps = construction.claim.target.steps()
    assert steps is not None
    domain, graph = construction.claim.domain, Graph(state.clock.part(_WRITING).look)
    inputs = graph.inputs(domain)
    try:
        goals = TargetForms(steps, graph, inputs).outputs()
        outputs = Unrolled(construction.transformer, graph, inputs).outputs()
        wholes = [
            Whole(graph, ours, theirs, pose(graph, ours - theirs, state.limit))
            for ours, theirs in zip(outputs, goals, strict=True)
            if ours != theirs
        ]
    except (Unsuitable, Spent) as reason:
        state.reasons.append(str(reason) or "The model is too large to be written out as a whole.")
        return None
    graph.look = state.clock.look
    return wholes


def _against_enclosures(state: RealBound) -> None:
    """A target that can only be asked for its values over boxes."""
    claim = state.construction.claim
    if claim.domain.dimension > MOST_DIMENSIONS:
        state.reasons.append("The target has no steps, and the domain has too many dimensions.")
        return
    graph = Graph(state.clock.look)
    inputs = graph.inputs(claim.domain)
    worst = 0.0
    for index, form in enumerate(Unrolled(state.construction.transformer, graph, inputs).outputs()):
        problem = pose_against(graph, form, claim.target, index, claim.domain)
        search = Search(
            problem,
            state.clock,
            enough=state.limit,
            tolerance=state.tolerance,
            executor=state.executor if _travels(problem) else None,
            watch=state.watch,
        )
        found = search.run()
        state.boxes += found.boxes
        worst = max(worst, found.certified)
        state.look(np.clip(found.point, claim.domain.low, claim.domain.high))
    state.take(worst, "boxes")
    if state.clock.is_spent:
        state.reasons.append(
            "The budget was spent; of a target without steps only enclosures are known, and the "
            "boxes they need grow as 1/error in each dimension."
        )


def _travels(problem: Problem) -> bool:
    """Whether another process could be asked: a lambda, for one, cannot be sent to it."""
    try:
        pickle.dumps(problem.tape)
    except Exception:  # whatever a user's class raises
        return False
    return True


def _by_boxes(state: RealBound, wholes: list[Whole], share: float) -> None:
    worst = 0.0
    clock = state.clock.part(share)
    for whole in wholes:
        worst = max(worst, _bound_of(state, whole, clock))
        if state.measured > state.construction.claim.error or clock.is_spent:
            break
    if whole is wholes[-1]:
        state.take(worst, "boxes")
    if clock.is_spent:
        state.reasons.append("The budget was spent before all boxes were small enough.")


def _by_cuts(state: RealBound, wholes: list[Whole]) -> None:
    """Models that fall apart, or that pass through a bottleneck; others are left at once."""
    worst = 0.0
    for whole in wholes:
        small = SmallBoxes(whole.graph, state.clock.part(_SHARE), state.executor, state.watch)
        found = small.by_parts(whole.error, state.limit)
        if not found <= state.limit:
            found = bound_by_cut(small, whole.ours, whole.theirs, state.limit)
        worst = max(worst, found)
        state.boxes += small.boxes
        state.clock.boxes += small.boxes
        if not worst <= state.limit:
            return
    state.take(worst, "boxes")


def _bound_of(state: RealBound, whole: Whole, clock: Clock) -> float:
    """One output: part by part, through a cut, or at once, whichever is good enough first."""
    small = SmallBoxes(whole.graph, clock, state.executor, state.watch)
    aim = state.aim
    best, boxes = bound_by_parts(whole.graph, whole.error, state.limit, clock, state.executor)
    if not best <= aim and whole.problem.dimension > 1:
        best = min(best, bound_by_cut(small, whole.ours, whole.theirs, aim, fewest=1))
    state.boxes += boxes + small.boxes
    state.clock.boxes += boxes + small.boxes
    if best <= aim:
        return best
    if aim < HARD and (balls := in_balls(whole.problem, aim, clock)) <= aim:
        return balls
    search = Search(
        whole.problem,
        clock,
        enough=state.limit,
        tolerance=state.tolerance,
        executor=state.executor,
        watch=state.watch,
        known=state.measured,
        added=state.rounding,
    )
    found = search.run()
    state.boxes += found.boxes
    state.clock.boxes += found.boxes
    middles = (leaf.middle for leaf in found.leaves)
    for place in (found.point, *middles):  # what balls find there must not exceed the bound
        point = _back(whole.problem, place, state.construction)
        if point is not None:
            state.look(point)
    if found.certified <= state.aim * (1 + 1e-9) or state.measured > state.limit:
        return min(best, found.certified)
    return min(best, found.certified, in_balls(whole.problem, state.aim, clock))


def _by_steps(state: RealBound, share: float) -> None:
    clock = state.clock.part(share)
    try:
        certified, boxes, _ = validate(
            state.construction,
            clock,
            executor=state.executor,
            watch=state.watch_steps,
            verified=state.verified,
        )
    except (Rejected, Spent) as reason:
        state.reasons.append(str(reason) or "The budget was spent before the steps were verified.")
        state.boxes += clock.boxes
        state.clock.boxes += clock.boxes
        return
    state.boxes += boxes
    state.clock.boxes += boxes
    state.take(certified, "steps")


def _back(problem: Problem, point: np.ndarray, construction: Construction) -> np.ndarray | None:
    """A point of the domain with these search variables, if one can be found."""
    from scipy.optimize import lsq_linear

    domain = construction.claim.domain
    x = 0.5 * domain.low + 0.5 * domain.high
    columns = list(problem.variables)  # the inputs come first in the graph
    if any(c >= domain.dimension for c in columns):
        return None
    low, high = domain.low[columns], domain.high[columns]
    if problem.rows.shape == (len(columns), len(columns)) and np.array_equal(
        problem.rows, np.eye(len(columns))
    ):
        x[columns] = point
        return np.asarray(np.clip(x, domain.low, domain.high))
    free = high > low
    inner = problem.rows[:, free]
    goal = point - problem.rows[:, ~free] @ low[~free]
    part = low.copy()
    if free.any():
        charge(PROGRAM)
        part[free] = lsq_linear(inner, goal, (low[free], high[free])).x
    x[columns] = part
    return np.asarray(np.clip(x, domain.low, domain.high))
