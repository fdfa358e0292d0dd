"""Branch and bound: the largest |answer| over a box, from above and from below.

A bound that holds on a box holds at its points. At the middle and at two corners of the leaves with
the largest bounds the answer is evaluated once more, from its exact coefficients and in balls: had
the vectorised arithmetic gone wrong, this is where it would show.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field

import numpy as np
from flint import arb

from hardmax.checker._budget import Clock, charge
from hardmax.checker.boxes._compile_tape import Problem
from hardmax.checker.boxes._tape import CHUNK, Enclosure, enclose, join_enclosures
from hardmax.numerics import STEP, stray

_AT_ONCE = 4 * CHUNK  # boxes that are halved in one round, at least
_NARROW = 256.0 * STEP  # of the domain's width: boxes are not halved further
_FIRST_POINTS = 2048
_CLIMBS = 32  # rounds of looking around the best point
_PLAIN = 32  # the cost of a tape for which that many boxes are taken at once
_LEAVES = 4  # that are confirmed in balls
_NOTHING = 2.0**-20  # of the limit: an error below this need not be resolved
_CONFIRMED = 3000  # jets' worth of balls per search

Watch = Callable[[float, float, int], object]  # certified, measured, boxes


@dataclass(frozen=True, eq=False)
class Leaf:
    """|answer| <= most was found on a box."""

    most: float
    low: np.ndarray
    high: np.ndarray

    @property
    def middle(self) -> np.ndarray:
        return np.asarray(0.5 * self.low + 0.5 * self.high)

    @property
    def points(self) -> tuple[np.ndarray, ...]:
        return self.middle, self.low, self.high


def contradicted(problem: Problem, leaves: Sequence[Leaf]) -> bool:
    """Whether balls find more than was said to be possible, somewhere on a leaf."""
    if problem.exact is None:
        return False
    every = [(leaf.most, point) for leaf in leaves for point in leaf.points]
    for most, point in every[: max(1, _CONFIRMED // (1 + problem.tape.cost))]:
        value = problem.exact.at(point)
        if value is not None and bool(abs(value) > arb(most) + arb(problem.slack)):
            return True
    return False


@dataclass(frozen=True, eq=False)
class Found:
    """certified >= sup |answer| >= measured, which is attained at `point`."""

    certified: float
    measured: float
    point: np.ndarray
    boxes: int
    is_complete: bool  # certified is at most what was asked for
    leaves: tuple[Leaf, ...] = ()  # with the largest bounds, confirmed


@dataclass
class _Frontier:
    """Boxes that are still open, and the largest bound among those that are closed."""

    low: np.ndarray
    high: np.ndarray
    most: np.ndarray
    split: np.ndarray
    closed: float = 0.0
    leaves: list[Leaf] = field(default_factory=list)

    @property
    def certified(self) -> float:
        return max(self.closed, float(self.most.max(initial=0.0)))

    def take(self, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The boxes with the largest bounds, removed from the frontier and near each other."""
        if len(self.most) > count:
            order = np.argpartition(-self.most, count - 1)
        else:
            order = np.arange(len(self.most))
        chosen, rest = order[:count], order[count:]
        chosen = chosen[np.lexsort(self.low[:, chosen])]
        taken = self.low[:, chosen], self.high[:, chosen], self.split[chosen]
        self.low, self.high = self.low[:, rest], self.high[:, rest]
        self.most, self.split = self.most[rest], self.split[rest]
        return taken

    def put(self, low: np.ndarray, high: np.ndarray, seen: Enclosure, enough: float) -> None:
        done = seen.most <= enough
        if done.any():
            worst = int(np.where(done, seen.most, -1.0).argmax())
            self.closed = max(self.closed, float(seen.most[worst]))
            self.leaves.append(Leaf(float(seen.most[worst]), low[:, worst], high[:, worst]))
        self.low = np.concatenate([self.low, low[:, ~done]], axis=1)
        self.high = np.concatenate([self.high, high[:, ~done]], axis=1)
        self.most = np.concatenate([self.most, seen.most[~done]])
        self.split = np.concatenate([self.split, seen.split[~done]])


class Search:
    """One run of branch and bound; `enough` may rise with what is measured."""

    def __init__(
        self,
        problem: Problem,
        clock: Clock,
        *,
        enough: float,
        tolerance: float | None = None,
        executor: Executor | None = None,
        watch: Watch | None = None,
        known: float = 0.0,
        least: float = 0.0,
        gives_up: bool = False,
        added: float = 0.0,
    ) -> None:
        self.problem, self.clock = problem, clock
        self.limit, self.tolerance = enough, tolerance
        self.executor, self.watch = executor, watch
        self.added = added  # to the bound afterwards, and within the tolerance, too
        self.gives_up = gives_up  # when more is attained than is allowed
        self.least = least  # a bound below this need not be improved
        self.known = known  # attained elsewhere: no need to get below it
        self.measured, self.point, self.boxes = 0.0, 0.5 * problem.low + 0.5 * problem.high, 0

    @property
    def enough(self) -> float:
        """A bound that need not be improved."""
        if self.tolerance is None:
            return self.problem.left(self.limit)
        best = max(self.measured, self.known)
        spared = min(self.added, 0.9 * self.tolerance * best)  # for speed: when to stop
        aim = (1.0 + self.tolerance) * best - spared
        aim = max(aim, self.least, _NOTHING * self.limit if math.isfinite(self.limit) else 0.0)
        return self.problem.left(min(self.limit, aim))

    def run(self) -> Found:
        self._sample()
        frontier = self._start()
        while len(frontier.most) and not self.clock.is_spent and not self._is_hopeless(frontier):
            self._report(frontier)
            low, high, split = frontier.take(self._at_once(len(frontier.most)))
            low, high = _halved(low, high, split)
            low, high = self._inside(low, high)
            if low.shape[1]:
                frontier.put(low, high, self._enclose(low, high), self.enough)
            self._close(frontier)
        self._report(frontier)
        complete = not len(frontier.most)
        certified = self.problem.whole(frontier.certified)
        leaves = tuple(sorted(frontier.leaves, key=lambda leaf: -leaf.most)[:_LEAVES])
        if contradicted(self.problem, leaves):
            certified, complete = math.inf, False
        return Found(certified, self.measured, self.point, self.boxes, complete, leaves)

    def _at_once(self, there: int) -> int:
        """Fewer boxes of a costly tape, so that the clock is looked at in time."""
        most = max(_AT_ONCE * _PLAIN // max(self.problem.tape.cost, _PLAIN), CHUNK // 16)
        return max(most, min(there // 4, 8 * most))

    def _start(self) -> _Frontier:
        low, high = self.problem.low[:, None], self.problem.high[:, None]
        seen = self._enclose(low, high)
        frontier = _Frontier(low[:, :0], high[:, :0], np.zeros(0), np.zeros(0, dtype=np.int64))
        frontier.put(low, high, seen, self.enough)
        return frontier

    def _close(self, frontier: _Frontier) -> None:
        """Since the last look more may have become good enough."""
        done = frontier.most <= self.enough
        if done.any():
            frontier.closed = max(frontier.closed, float(frontier.most[done].max()))
            keep = ~done
            frontier.low, frontier.high = frontier.low[:, keep], frontier.high[:, keep]
            frontier.most, frontier.split = frontier.most[keep], frontier.split[keep]

    def _is_hopeless(self, frontier: _Frontier) -> bool:
        """The claim is broken, or the worst box cannot be halved any more."""
        if self.measured > self.limit and (self.tolerance is None or self.gives_up):
            return True
        worst = int(frontier.most.argmax())
        width = frontier.high[:, worst] - frontier.low[:, worst]
        size = self.problem.high - self.problem.low + np.abs(self.problem.low)
        return bool((width <= _NARROW * size).all())

    def _enclose(self, low: np.ndarray, high: np.ndarray) -> Enclosure:
        charge(self.problem.tape.work(low.shape[1]))
        self.boxes += low.shape[1]
        self.clock.boxes += low.shape[1]
        seen = self._enclosed(low, high)
        least = np.where(self.problem.holds(seen.point), seen.least, -1.0)
        best = int(least.argmax())
        if least[best] > self.measured:
            self.measured, self.point = float(least[best]), seen.point[:, best].copy()
        return seen

    def _enclosed(self, low: np.ndarray, high: np.ndarray) -> Enclosure:
        if self.executor is None or low.shape[1] <= CHUNK:
            return enclose(self.problem.tape, low, high)
        order = np.arange(low.shape[1])
        if self.problem.tape.looks_nearby:
            order = np.lexsort(low)  # so that neighbours stay together, as without an executor
            low, high = low[:, order], high[:, order]
        jobs = [
            self.executor.submit(
                enclose,
                self.problem.tape,
                low[:, start : start + CHUNK],
                high[:, start : start + CHUNK],
            )
            for start in range(0, low.shape[1], CHUNK)
        ]
        return join_enclosures([job.result() for job in jobs])[np.argsort(order)]

    def _sample(self) -> None:
        """Look at points first, so that the search knows early what it cannot beat."""
        rng = np.random.default_rng(0)
        low, high = self.problem.low[:, None], self.problem.high[:, None]
        share = rng.random((self.problem.dimension, _FIRST_POINTS))
        share[:, : _FIRST_POINTS // 4] = rng.integers(0, 3, size=(len(low), _FIRST_POINTS // 4)) / 2
        points = np.clip(low * (1.0 - share) + high * share, low, high)
        self._look(points)
        radius = 0.02 * (high - low)
        for _ in range(_CLIMBS):
            if not self.measured > 0 or self.clock.is_spent:
                break
            step = rng.uniform(-1.0, 1.0, size=(self.problem.dimension, 64)) * radius
            before = self.measured
            self._look(np.clip(self.point[:, None] + step, low, high))
            radius = radius * (1.0 if self.measured > 1.001 * before else 0.5)

    def _look(self, points: np.ndarray) -> None:
        points = points[:, self.problem.holds(points)]
        if points.shape[1]:
            self._enclose(points, points)

    def _inside(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Without the boxes that lie outside the domain's image."""
        keep = np.ones(low.shape[1], dtype=bool)
        for normal, bottom, top in self.problem.facets:
            ends = np.stack([normal[:, None] * low, normal[:, None] * high])
            pad = stray(len(normal) + 2, np.abs(ends).max(axis=0).sum(axis=0))
            keep &= ends.max(axis=0).sum(axis=0) + pad >= bottom
            keep &= ends.min(axis=0).sum(axis=0) - pad <= top
        return low[:, keep], high[:, keep]

    def _report(self, frontier: _Frontier) -> None:
        if self.watch is not None:
            certified = self.problem.whole(frontier.certified)
            self.watch(certified if certified < math.inf else math.inf, self.measured, self.boxes)


def _halved(low: np.ndarray, high: np.ndarray, split: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every box in two, along its own variable."""
    at = split, np.arange(low.shape[1])
    middle = 0.5 * low[at] + 0.5 * high[at]
    left, right = high.copy(), low.copy()
    left[at] = right[at] = middle
    return np.concatenate([low, right], axis=1), np.concatenate([left, high], axis=1)
