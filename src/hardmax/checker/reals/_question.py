"""What is asked about an error over the reals, and what has been found: one is fixed, one grows."""

from __future__ import annotations

import math
from concurrent.futures import Executor
from dataclasses import dataclass, field

import numpy as np

from hardmax.checker._budget import Clock, Progress, Standing
from hardmax.checker.boxes import Problem, Watch
from hardmax.checker.forms import Form, Graph
from hardmax.checker.reals._measure import attained_error
from hardmax.core import Claim, Construction, Steps


@dataclass(frozen=True, eq=False)
class Difference:
    """Transformer less target, for one output: as forms, and as a problem to search."""

    graph: Graph
    ours: Form
    theirs: Form
    problem: Problem

    @property
    def form(self) -> Form:
        return self.ours - self.theirs


@dataclass(eq=False)
class Findings:
    """measured <= sup |T - f| <= certified over the reals, and how that was found.

    The one value that changes during a check. It is made before anything else and owned by the
    driver, so that an interruption in the middle of a method finds all that was known by then.
    """

    certified: float = math.inf
    method: str = "none"  # that gave `certified`
    measured: float = 0.0
    worst: np.ndarray = field(default_factory=lambda: np.zeros(0))
    boxes: int = 0
    reasons: list[str] = field(default_factory=list)  # why not more is known
    differences: tuple[Difference, ...] | None = None  # of the outputs, if they were written out

    def take(self, certified: float, method: str) -> None:
        if certified < self.certified:
            self.certified, self.method = certified, method


@dataclass(frozen=True, eq=False)
class Question:
    """What is asked, and what may be spent on it: is sup |T - f| <= limit over the reals?"""

    construction: Construction
    limit: float
    rounding: float  # of float64, to be added to what is certified over the reals
    tolerance: float | None
    clock: Clock
    executor: Executor | None = None
    report: Progress | None = None

    @property
    def claim(self) -> Claim:
        return self.construction.claim

    @property
    def steps(self) -> Steps | None:
        return self.claim.target.steps()

    def aim(self, found: Findings) -> float:
        """A bound that is good enough; rounding, which comes on top, has its place in it."""
        if self.tolerance is None:
            return self.limit
        spare = self.tolerance * found.measured
        return min(self.limit, found.measured + spare - min(self.rounding, 0.9 * spare))

    def is_settled_by(self, found: Findings) -> bool:
        """Nothing more is asked for."""
        if not found.certified <= self.limit:
            return False
        if self.tolerance is None or found.certified <= 1e-6 * self.limit:
            return True
        return found.certified <= self.aim(found) * (1 + 1e-9)

    def look(self, found: Findings, point: np.ndarray) -> None:
        """Confirm the error at a point; keep it if it is the largest so far."""
        size = attained_error(self.construction, point, self.claim.domain)
        if size > found.measured or not len(found.worst):
            found.measured, found.worst = max(size, found.measured), point

    def count(self, found: Findings, boxes: int, *, on_clock: bool = True) -> None:
        """So many more boxes; searches put theirs on the clock that they are given."""
        found.boxes += boxes
        if on_clock:
            self.clock.boxes += boxes

    def tell(self, certified: float, measured: float, boxes: int, phase: str) -> None:
        """Report where the check stands."""
        if self.report is not None:
            self.report(Standing(certified, measured, self.claim.error, boxes, phase))

    def watch_boxes(self, found: Findings) -> Watch:
        """A reporter for searches of the error itself."""

        def watch(certified: float, measured: float, boxes: int) -> None:
            certified, measured = min(found.certified, certified), max(found.measured, measured)
            self.tell(certified, measured, found.boxes + boxes, "boxes")

        return watch
