"""What is asked about an error over the reals, and what has been found: one is fixed, one grows.

Two answers need no method of proof: an error that is attained somewhere, a good lower bound of the
largest one (sampled in floats, confirmed in balls), and whether the target is defined on all of the
domain, whatever cancels in it later.
"""

from __future__ import annotations

import math
from concurrent.futures import Executor
from dataclasses import dataclass, field

import numpy as np

from hardmax.checker._balls import Undefined, error_at_point
from hardmax.checker._budget import CALL, ENTRY, Clock, Progress, Standing, charge
from hardmax.checker._dependence import tokens_asking, tokens_read
from hardmax.checker.boxes import Problem, Watch
from hardmax.checker.forms import Form, Graph
from hardmax.core import (
    Attention,
    Box,
    Claim,
    Construction,
    Steps,
    Transformer,
    Univariate,
    evaluate,
)
from hardmax.numerics import STEP, Interval, record_of

_POINTS = 4096
_AROUND = 64
_ROUNDS = 24

_MOST_BOXES = 1 << 15
_NARROW = 4096.0 * STEP  # of the domain's width: boxes are not halved further


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
    rounding: float  # in the claim's format, to be added to what is certified over the reals
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


# ---- an error that is attained -------------------------------------------------------------------


def worst_seen(construction: Construction, seed: int = 0) -> np.ndarray:
    """A point of the domain where the error is large, as far as floats can tell."""
    domain = construction.claim.domain
    rng = np.random.default_rng(seed)
    count = _POINTS if construction.transformer.tokens < 256 else _POINTS // 8
    points = domain.sample(count, rng)
    best, size = _best(construction, points)
    width = domain.high - domain.low
    radius = 0.05
    for _ in range(_ROUNDS):
        step = radius * width * rng.uniform(-1.0, 1.0, size=(_AROUND, domain.dimension))
        if domain.dimension > 4:
            step *= rng.random(step.shape) < 4.0 / domain.dimension
        point, there = _best(construction, np.clip(best + step, domain.low, domain.high))
        if there > size:
            best, size = point, there
        else:
            radius *= 0.6
    return best


def units(transformer: Transformer) -> int:
    """Heads and hidden units."""
    return sum(
        len(part.heads) if isinstance(part, Attention) else part.hidden_width
        for part in transformer.sublayers
    )


def work_of_rounding(transformer: Transformer) -> int:
    """Ticks for bounds on rounding, by the size of the model: they are found once, not in parts."""
    sublayers, tokens = transformer.sublayers, transformer.tokens
    asking = tokens_asking(sublayers, tokens_read(transformer, tokens), tokens)
    asked = sum(
        len(who) if isinstance(part, Attention) else 1
        for part, who in zip(sublayers, asking, strict=True)
    )
    everywhere = transformer.width * units(transformer) * transformer.tokens
    return CALL * (20_000 * asked + 75 * transformer.tokens) + 175 * ENTRY * everywhere


def _best(construction: Construction, points: np.ndarray) -> tuple[np.ndarray, float]:
    transformer = construction.transformer
    charge(50 * CALL, 1 + len(transformer.sublayers))
    numbers = transformer.tokens * (3 + transformer.width + units(transformer))
    charge(6 * ENTRY * len(points), numbers)
    with np.errstate(all="ignore"):
        off = np.abs(evaluate(construction.transformer, points) - construction.claim.target(points))
    off = np.where(np.isnan(off), np.inf, off).max(axis=1)
    at = int(off.argmax())
    return points[at], float(off[at])


def attained_error(construction: Construction, point: np.ndarray, domain: Box) -> float:
    """An error that is attained at the point, from below; 0 where none can be confirmed."""
    target = construction.claim.target
    point = np.clip(point, domain.low, domain.high)
    goal = target.steps() or np.asarray(target(point)).reshape(-1).tolist()
    try:
        return error_at_point(construction.transformer, goal, point.tolist())[0]
    except Undefined:
        return 0.0


# ---- holes ---------------------------------------------------------------------------------------


def undefined_near(steps: Steps, domain: Box, clock: Clock) -> np.ndarray | None:
    """A point near which some step could not be shown to be finite; None if all of them are.

    Enclosures of steps that depend on each other may be infinite on large boxes: these are halved,
    along their widest side, as long as there are few.
    """
    low, high = domain.low[:, None].astype(float), domain.high[:, None].astype(float)
    width = np.where(domain.high > domain.low, domain.high - domain.low, 1.0)[:, None]
    while True:
        open_ = ~_are_finite(steps, low, high)
        low, high = low[:, open_], high[:, open_]
        if not low.shape[1]:
            return None
        middle = 0.5 * low + 0.5 * high
        if 2 * low.shape[1] > _MOST_BOXES or clock.is_spent:
            return np.asarray(middle[:, 0])
        side = ((high - low) / width).argmax(axis=0), np.arange(low.shape[1])
        if not (high[side] - low[side] > _NARROW * width[side[0], 0]).all():
            return np.asarray(middle[:, 0])
        left, right = high.copy(), low.copy()
        left[side] = right[side] = middle[side]
        low, high = np.concatenate([low, right], axis=1), np.concatenate([left, high], axis=1)


def _are_finite(steps: Steps, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """For each box, whether all values are defined and finite on it."""
    sizes = [steps.size(number) for number in range(len(steps.steps) + 1)]
    charge(8 * CALL * len(sizes) + 16 * ENTRY * sum(sizes) * low.shape[1])
    with np.errstate(all="ignore"):
        values = steps.values(Interval(low, high))
    finite = np.ones(low.shape[1], dtype=bool)
    for value in values:
        known = np.isfinite(value.lo) & np.isfinite(value.hi)
        finite &= known.reshape(-1, low.shape[1]).all(axis=0)
    for step in steps.steps:
        least = _least_argument(step) if isinstance(step, Univariate) else None
        if least is not None:  # enclosures ignore what is below
            for source in step.sources:
                argument = values[source].lo.reshape(-1, low.shape[1])
                finite &= (argument >= least).all(axis=0)
    return finite


def _least_argument(step: Univariate) -> float | None:
    """From where on a function is defined; None if that is no question of size."""
    condition = record_of(step.name, step.exponent).condition
    return None if condition is None else condition.floor
