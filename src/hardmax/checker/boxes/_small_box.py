"""|form| on the box of its variables: part by part if it falls apart, else at once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from hardmax.checker._budget import Clock
from hardmax.checker.boxes._ball_series import Line, bound_by_series
from hardmax.checker.boxes._compile_tape import Problem, pose
from hardmax.checker.boxes._parts import bound_by_parts, seen_range
from hardmax.checker.boxes._search import Search, Watch
from hardmax.checker.forms import ONE, Form, Graph, constant, rational, total
from hardmax.numerics import down, up

MOST_DIMENSIONS = 4
CLOSE = 0.004  # small boxes are searched until the bound is this close to what is attained
HARD = 1e-11  # errors below this are near what floats can tell apart: balls come first
_SURE = 1e-4  # ranges are found to this tolerance
_ROUGHLY = 1e-3  # where they have to be searched at once
_ROUGH = 0.1  # sums of several absolute values
_NEGLIGIBLE = 2.0**-8  # of the room: a bound below this need not be improved


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
