"""|form| on the box of its variables: part by part if it falls apart, else at once."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass

from hardmax.checker._budget import Clock
from hardmax.checker._compile_tape import Problem, pose
from hardmax.checker._forms import Form
from hardmax.checker._graph import Graph
from hardmax.checker._parts import bound_by_parts
from hardmax.checker._search import Search, Watch

MOST_DIMENSIONS = 4
CLOSE = 0.004  # small boxes are searched until the bound is this close to what is attained
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

    def bound(self, form: Form, room: float, *, close: float = CLOSE) -> float:
        """An upper bound on |form|; whether it is within `room` is for the caller to see."""
        if form.is_zero:
            return 0.0
        parted = self.by_parts(form, room)
        return parted if parted <= room else min(parted, self.at_once(form, room, close=close))

    def by_parts(self, form: Form, room: float) -> float:
        """A bound from parts that share no variable; infinite if there is one part."""
        self.posed(form, room)
        parted, boxes = bound_by_parts(self.graph, form, room, self.clock, self.executor)
        self.boxes += boxes
        return parted

    def at_once(self, form: Form, room: float, *, close: float = CLOSE) -> float:
        """A bound from one search over all variables."""
        search = Search(
            self.posed(form, room),
            self.clock,
            enough=room,
            tolerance=close,
            executor=self.executor,
            watch=self.watch,
            least=_NEGLIGIBLE * room,
            gives_up=True,
        )
        found = search.run()
        self.boxes += found.boxes
        return found.certified

    def posed(self, form: Form, room: float) -> Problem:
        problem = pose(self.graph, form, room)
        if problem.dimension > MOST_DIMENSIONS:
            raise TooManyDimensions(problem.dimension)
        return problem
