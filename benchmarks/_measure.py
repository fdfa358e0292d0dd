"""Small instruments: CPU time, slopes, peaks, and points beside the kinks of a network."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Mapping
from statistics import median

import numpy as np

import hardmax as hm
from benchmarks import THREADS
from hardmax.core import Maximum, Univariate


def cpu_seconds(call: Callable[[], object]) -> float:
    """CPU time of one call, all threads of this process together."""
    start = time.process_time()
    call()
    return time.process_time() - start


def threads() -> str:
    """How many threads linear algebra may use, as the environment says it."""
    counts = {os.environ.get(name, "any number of") for name in THREADS}
    named = counts.pop() if len(counts) == 1 else "a mixed number of"
    return f"{named} thread" + "s" * (named != "1")


def interleaved_medians(calls: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The median CPU time of each call over rounds in which every call has its turn.

    A machine that slows down for a while slows all of them down alike, so ratios survive. One
    round before the first warms caches up and is not counted.
    """
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds + 1):
        for name, call in calls.items():
            spent = cpu_seconds(call)
            if number:
                seconds[name].append(spent)
    return {name: median(spent) for name, spent in seconds.items()}


def loglog_slope(x: np.ndarray, y: np.ndarray) -> float:
    """The least-squares slope of log y against log x."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def peak(
    f: Callable[[np.ndarray], np.ndarray], low: float, high: float, *, grid: int = 600
) -> tuple[float, float]:
    """The largest value of f on [low, high], 0 < low, and where it is.

    A geometric grid, then grids between the neighbours of the best point, until a grid is one
    part in 10^6 wide: a maximum is flat, so the value is good to a part in 10^12.
    """
    best, where = -np.inf, low
    while True:
        points = np.geomspace(low, high, grid)
        values = f(points)
        at = int(values.argmax())
        if values[at] > best:
            best, where = float(values[at]), float(points[at])
        if high <= low * (1 + 1e-6):
            return best, where
        low, high = points[max(at - 1, 0)], points[min(at + 1, grid - 1)]


def points_beside_kinks(
    network: hm.ReluNetwork | hm.MaxoutNetwork, *, distance: float, count: int, seed: int
) -> np.ndarray:
    """Up to `count` points of [-1,1]^d where two pieces of some unit differ by `distance`.

    Soft units err most beside their kinks, in a layer as thin as 1/beta, which uniform points
    miss. For random segments and random pairs of pieces the crossing is found by bisection;
    segments that hold none are dropped.
    """
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(-1.0, 1.0, size=(2, count, network.inputs))
    gaps = _piece_gaps(network, a)
    pick = rng.integers(len(gaps), size=count)
    level = distance * rng.choice([-1.0, 1.0], size=count)
    ends = [_piece_gaps(network, x)[pick, np.arange(count)] - level for x in (a, b)]
    crossing = ends[0] * ends[1] < 0
    a, b, pick, level = a[crossing], b[crossing], pick[crossing], level[crossing]
    rising = ends[1][crossing] > 0
    low, high = np.zeros(len(a)), np.ones(len(a))
    for _ in range(52):
        middle = (low + high) / 2
        gap = _piece_gaps(network, a + middle[:, None] * (b - a))[pick, np.arange(len(a))]
        beyond = (gap > level) == rising
        low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
    return a + low[:, None] * (b - a)


def _piece_gaps(network: hm.ReluNetwork | hm.MaxoutNetwork, points: np.ndarray) -> np.ndarray:
    """For every pair of pieces of every unit the difference of the two, kinks x points."""
    program = network.steps()
    values = program.values(points.T)
    gaps = []
    for step in program.steps:
        match step:
            case Univariate(sources=(source,)):
                gaps.append(values[source])
            case Maximum(sources=(source,), groups=groups):
                pairs = itertools.combinations(groups.T, 2)
                gaps += [values[source][one] - values[source][other] for one, other in pairs]
    return np.concatenate(gaps)
