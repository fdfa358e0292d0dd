"""How large the error is over the reals: the methods of proof, in the order that pays.

`METHODS` is the whole strategy. A method looks at the question and at what has been found, decides
whether it applies, adds what it establishes, and says whether anything is left to ask. The budget
is one for all: a method that others come after gets a share of what is left.

Two things decide the order. Boxes cost 2^(dimension) for each halving and steps cost nothing of the
kind, so that steps come first, unless there is one dimension only, or the bound is wanted close to
the truth (a `tolerance`), which steps, adding up what each of them may be off, seldom are.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hardmax.checker._budget import PROGRAM, Clock, Spent, charge
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
from hardmax.checker.forms import Graph, TargetForms, Unrolled
from hardmax.checker.reals._question import (
    Difference,
    Findings,
    Question,
    undefined_near,
    worst_seen,
)
from hardmax.checker.steps import Rejected, validate
from hardmax.core import Construction

_FEW_INPUTS = 8  # beyond, a model is never written out as a whole
_SHARE = 0.5  # of what is left, for the first of two methods
_WRITING = 0.25  # for writing a model out as a whole


@dataclass(frozen=True)
class Method:
    """One way to a bound: to what it applies, and what it does.

    `run` adds what it establishes to the findings, and says whether anything is left to ask. What
    that is, and what it costs, is said where it is defined.
    """

    applies: Callable[[Question, Findings], bool]
    run: Callable[[Question, Findings], bool]


def bound_error(question: Question, found: Findings) -> None:
    """Find what can be said within the budget."""
    try:
        for method in METHODS:
            if method.applies(question, found) and method.run(question, found):
                return
    except Spent:
        found.reasons.append("The budget was spent before the model was written out.")
    except (Unsuitable, TooManyDimensions) as reason:
        found.reasons.append(str(reason))
    else:
        if found.certified == math.inf and not _is_searchable(question, found):
            d = question.claim.domain.dimension
            found.reasons.append(
                f"In {d} dimensions boxes are too many (about 2^{10 * min(d, 999)} for three "
                f"digits)."
            )


# ---- when a method applies ---------------------------------------------------------------------


def _always(question: Question, found: Findings) -> bool:
    return True


def _has_no_steps(question: Question, found: Findings) -> bool:
    return question.steps is None


def _has_few_inputs(question: Question, found: Findings) -> bool:
    return question.claim.domain.dimension <= _FEW_INPUTS


def _is_searchable(question: Question, found: Findings) -> bool:
    """Every output was written out, in few enough dimensions."""
    return found.differences is not None and all(
        d.problem.dimension <= MOST_DIMENSIONS for d in found.differences
    )


def _is_on_lines(found: Findings) -> bool:
    return all(d.problem.dimension <= 1 for d in found.differences or ())


def _boxes_come_first(question: Question, found: Findings) -> bool:
    wanted = _is_on_lines(found) or question.tolerance is not None
    return wanted and _is_searchable(question, found)


def _boxes_come_last(question: Question, found: Findings) -> bool:
    return _is_searchable(question, found) and not _boxes_come_first(question, found)


# ---- the methods -------------------------------------------------------------------------------


def measure(question: Question, found: Findings) -> bool:
    """An error that is attained, confirmed in balls; the claim is refuted if it is too large.

    Costs some thousand evaluations in floats.
    """
    question.look(found, worst_seen(question.construction))
    return found.measured > question.claim.error


def against_enclosures(question: Question, found: Findings) -> bool:
    """A bound for a target that can only be asked for its values over boxes: all there is to try.

    Costs boxes, 1/error of them in each dimension.
    """
    claim, clock = question.claim, question.clock
    if claim.domain.dimension > MOST_DIMENSIONS:
        found.reasons.append("The target has no steps, and the domain has too many dimensions.")
        return True
    graph = Graph(clock.look)
    outputs = Unrolled(question.construction.transformer, graph, graph.inputs(claim.domain))
    worst = 0.0
    for index, form in enumerate(outputs.outputs()):
        problem = pose_against(graph, form, claim.target, index, claim.domain)
        searched = Search(
            problem,
            clock,
            enough=question.limit,
            tolerance=question.tolerance,
            executor=question.executor if _travels(problem) else None,
            watch=question.watch_boxes(found),
        ).run()
        question.count(found, searched.boxes, on_clock=False)
        worst = max(worst, searched.certified)
        question.look(found, np.clip(searched.point, claim.domain.low, claim.domain.high))
    found.take(worst, "boxes")
    if clock.is_spent:
        found.reasons.append(
            "The budget was spent; of a target without steps only enclosures are known, and the "
            "boxes they need grow as 1/error in each dimension."
        )
    return True


def _travels(problem: Problem) -> bool:
    """Whether another process could be asked: a lambda, for one, cannot be sent to it."""
    try:
        pickle.dumps(problem.tape)
    except Exception:  # whatever a user's class raises
        return False
    return True


def find_holes(question: Question, found: Findings) -> bool:
    """That the target is finite on the domain; elsewhere nothing is proved, whatever cancels.

    Costs a walk through the steps for each of a few boxes.
    """
    assert question.steps is not None
    hole = undefined_near(question.steps, question.claim.domain, question.clock)
    if hole is None:
        return False
    where = ", ".join(f"{v:.6g}" for v in hole[:4]) + ", ..." * (len(hole) > 4)
    found.reasons.append(f"The target may be undefined near ({where}): shrink the domain.")
    return True


def compare_forms(question: Question, found: Findings) -> bool:
    """Both sides as exact forms: 0 if they are the same, else the differences to be searched.

    Costs the size of the model, written out over its inputs: a quarter of the budget at most.
    """
    steps, transformer = question.steps, question.construction.transformer
    assert steps is not None
    graph = Graph(question.clock.part(_WRITING).look)
    inputs = graph.inputs(question.claim.domain)
    try:
        goals = TargetForms(steps, graph, inputs).outputs()
        outputs = Unrolled(transformer, graph, inputs).outputs()
        found.differences = tuple(
            Difference(graph, ours, theirs, pose(graph, ours - theirs, question.limit))
            for ours, theirs in zip(outputs, goals, strict=True)
            if ours != theirs
        )
    except (Unsuitable, Spent) as reason:
        found.reasons.append(str(reason) or "The model is too large to be written out as a whole.")
        return False
    graph.look = question.clock.look
    if not found.differences:
        found.take(0.0, "identity")
    return not found.differences


def search_boxes_first(question: Question, found: Findings) -> bool:
    """A bound as close to the truth as is asked for.

    Costs 2^dimension boxes for each halving: all of the budget on a line, where nothing does
    better; a share of it before the steps.
    """
    return _search_boxes(question, found, 1.0 if _is_on_lines(found) else _SHARE)


def search_boxes_last(question: Question, found: Findings) -> bool:
    """The same where the witness was not enough, with all that is left."""
    return _search_boxes(question, found, 1.0)


def _search_boxes(question: Question, found: Findings, share: float) -> bool:
    differences, clock = found.differences or (), question.clock.part(share)
    bounds: list[float] = []
    for difference in differences:
        bounds.append(_bound_of(question, found, difference, clock))
        if found.measured > question.claim.error or clock.is_spent:
            break
    if len(bounds) == len(differences):
        found.take(max(0.0, *bounds), "boxes")
    if clock.is_spent:
        found.reasons.append("The budget was spent before all boxes were small enough.")
    return question.is_settled_by(found)


def _bound_of(question: Question, found: Findings, difference: Difference, clock: Clock) -> float:
    """One output: part by part, through a cut, or at once, whichever is good enough first."""
    graph, problem, limit = difference.graph, difference.problem, question.limit
    watch = question.watch_boxes(found)
    small = SmallBoxes(graph, clock, question.executor, watch)
    aim = question.aim(found)
    best, boxes = bound_by_parts(graph, difference.form, limit, clock, question.executor)
    if not best <= aim and problem.dimension > 1:
        best = min(best, bound_by_cut(small, difference.ours, difference.theirs, aim, fewest=1))
    question.count(found, boxes + small.boxes)
    if best <= aim:
        return best
    if aim < HARD and (balls := in_balls(problem, aim, clock)) <= aim:
        return balls
    searched = Search(
        problem,
        clock,
        enough=limit,
        tolerance=question.tolerance,
        executor=question.executor,
        watch=watch,
        known=found.measured,
        added=question.rounding,
    ).run()
    question.count(found, searched.boxes)
    middles = (leaf.middle for leaf in searched.leaves)
    for place in (searched.point, *middles):  # what balls find there must not exceed the bound
        point = _back(problem, place, question.construction)
        if point is not None:
            question.look(found, point)
    aim = question.aim(found)
    if searched.certified <= aim * (1 + 1e-9) or found.measured > limit:
        return min(best, searched.certified)
    return min(best, searched.certified, in_balls(problem, aim, clock))


def search_cuts(question: Question, found: Findings) -> bool:
    """A bound for models that fall apart, or that pass through a bottleneck.

    Costs boxes in one or two dimensions; other models are left at once.
    """
    worst = 0.0
    for difference in found.differences or ():
        small = SmallBoxes(
            difference.graph,
            question.clock.part(_SHARE),
            question.executor,
            question.watch_boxes(found),
        )
        bound = small.by_parts(difference.form, question.limit)
        if not bound <= question.limit:
            bound = bound_by_cut(small, difference.ours, difference.theirs, question.limit)
        worst = max(worst, bound)
        question.count(found, small.boxes)
        if not worst <= question.limit:
            return False
    found.take(worst, "boxes")
    return question.is_settled_by(found)


def follow_steps(question: Question, found: Findings) -> bool:
    """A bound from the witness, row by row, in any number of dimensions.

    Costs the length of the witness, and a small box for each row that no lemma covers; a share of
    the budget if boxes are still to come.
    """
    clock = question.clock.part(_SHARE if _boxes_come_last(question, found) else 1.0)
    stage = "boxes"

    def watch(_certified: float, _measured: float, boxes: int) -> None:
        """Rows have bounds of their own, which say nothing yet about the claim."""
        question.tell(found.certified, found.measured, found.boxes + boxes, stage)

    def verified(done: int, of: int) -> None:
        nonlocal stage
        stage = f"boxes, {done} of {of} lines of the witness verified"
        watch(math.inf, 0.0, 0)

    try:
        certified, boxes, _ = validate(
            question.construction, clock, executor=question.executor, watch=watch, verified=verified
        )
    except (Rejected, Spent) as reason:
        found.reasons.append(str(reason) or "The budget was spent before the steps were verified.")
        question.count(found, clock.boxes)
        return False
    question.count(found, boxes)
    found.take(certified, "steps")
    return question.is_settled_by(found)


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


METHODS = (
    Method(_always, measure),
    Method(_has_no_steps, against_enclosures),
    Method(_always, find_holes),
    Method(_has_few_inputs, compare_forms),
    Method(_boxes_come_first, search_boxes_first),
    Method(_boxes_come_last, search_cuts),
    Method(_always, follow_steps),
    Method(_boxes_come_last, search_boxes_last),
)
