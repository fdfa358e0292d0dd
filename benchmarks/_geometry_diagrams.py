"""Power diagrams beside one bare call of Qhull, ties decided exactly, queries located."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._measure import cpu_seconds, interleaved_medians
from benchmarks._report import Check, Report, Settings, Sheet
from hardmax import PowerDiagram, power_diagram

COMMAND = "python -m benchmarks.geometry --only diagrams"
TIMES = 2.0  # of the baseline
GRID_SECONDS = 5.0
BLOCK = 4096  # queries of one matrix product


def diagrams(settings: Settings) -> Report:
    """Building, ties, locating."""
    for d in (2, 3):
        _everything(np.random.default_rng(1).normal(size=(60, d)), None)  # loads compiled loops
    parts = [_building(settings), _ties(settings), _locating(settings)]
    return Report(
        [part.sheets[0] for part in parts],
        [check for part in parts for check in part.checks],
        {name: value for part in parts for name, value in part.record.items()},
    )


def _everything(keys: np.ndarray, biases: np.ndarray | None) -> PowerDiagram:
    found = power_diagram(keys, biases)
    for part in ("live", "vertices", "neighbours"):  # made when they are asked for
        getattr(found, part)
    return found


def noisy(count: int, d: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian keys whose biases are -|k|^2/2 and a little noise."""
    rng = np.random.default_rng([count, d])
    keys = rng.normal(size=(count, d))
    return keys, -(keys**2).sum(axis=1) / 2 + noise * rng.normal(size=count)


def _building(settings: Settings) -> Report:
    from scipy.spatial import ConvexHull

    sheet = Sheet(
        COMMAND,
        f"Required: live cells, vertices and neighbours, every sign filtered, within {TIMES:g} "
        f"times one bare Qhull call on the lifted points,\nwith at least half the cells live. The "
        f"median of {settings.rounds}, by turns.",
        *("d", "keys", "live", "vertices", "walls", "exact\nsigns", "Qhull s", "ours s", "times"),
        "·",
    )
    checks: list[Check] = []
    record: list[dict[str, Any]] = []
    shrink = 10 if settings.quick else 1
    for d, count, noise in (
        (2, 100_000, 1e-6),
        (2, 100_000, 8e-5),
        (3, 10_000, 1e-3),
        (3, 10_000, 0.018),
    ):
        keys, biases = noisy(count // shrink, d, noise * shrink ** (2 / d))
        lifted = np.hstack([keys, biases[:, None]])
        calls: dict[str, Callable[[], object]] = {
            "qhull": lambda p=lifted: ConvexHull(p),
            "ours": lambda k=keys, b=biases: _everything(k, b),
        }
        seconds = interleaved_medians(calls, settings.rounds)
        found = _everything(keys, biases)
        ratio = seconds["ours"] / seconds["qhull"]
        name = f"{count // shrink:,} keys in {d} dimensions, {len(found.live):,} live"
        checks.append(Check(f"{name}: at least half live", 2 * len(found.live) >= len(keys)))
        checks.append(Check(f"{name}: {ratio:.2f} times Qhull", ratio <= TIMES, timed=True))
        numbers = (d, len(keys), len(found.live), len(found.vertices), len(found.neighbours))
        times = (f"{seconds['qhull']:.3f}", f"{seconds['ours']:.3f}", f"{ratio:.2f}")
        sheet.table.add_row(
            *(f"{one:,}" for one in (*numbers, found.decided)), *times, checks[-1].mark
        )
        record.append({"what": name, "ratio": ratio, **seconds})
    return Report([sheet], checks, {"building": record})


def _ties(settings: Settings) -> Report:
    side = 30 if settings.quick else 100
    sheet = Sheet(
        COMMAND,
        f"Required: a {side} x {side} grid of whole numbers, all ties, exactly, in under "
        f"{GRID_SECONDS:g} s.",
        *("keys", "live", "vertices", "walls", "exact\nsigns", "CPU s", "·"),
    )
    grid = np.array(list(itertools.product(range(side), repeat=2)), dtype=float)
    made: list[PowerDiagram] = []
    seconds = cpu_seconds(lambda: made.append(_everything(grid, -(grid**2).sum(axis=1) / 2)))
    found = made[0]
    right = (len(found.live), len(found.vertices), len(found.neighbours)) == (
        side * side,
        (side - 1) ** 2,
        2 * side * (side - 1),
    )
    checks = [
        Check("the grid's cells, vertices and walls", right),
        Check(f"the grid: {seconds:.2f} s", seconds < GRID_SECONDS, timed=True),
    ]
    numbers = (len(grid), len(found.live), len(found.vertices), len(found.neighbours))
    mark = Check("", right and seconds < GRID_SECONDS).mark
    sheet.table.add_row(*(f"{one:,}" for one in (*numbers, found.decided)), f"{seconds:.2f}", mark)
    return Report([sheet], checks, {"grid": {"cpu_seconds": seconds}})


def _locating(settings: Settings) -> Report:
    asked = 10**5 if settings.quick else 10**6
    sheet = Sheet(
        COMMAND,
        f"Required: {asked:,} queries located among 1,000 keys within {TIMES:g} times one matrix "
        f"product of these shapes, {BLOCK:,} queries at a time.",
        *("d", "live", "product s", "ours s", "times", "·"),
    )
    checks: list[Check] = []
    record: list[dict[str, Any]] = []
    for d, biased in ((2, True), (2, False), (3, True), (5, True)):
        keys, biases = noisy(1_000, d, 0.0)
        queries = np.random.default_rng(d).normal(size=(asked, d))
        found = power_diagram(keys, biases if biased else None)
        found.locate(queries[:10])
        calls: dict[str, Callable[[], object]] = {
            "product": lambda q=queries, k=keys: _product(q, k),
            "ours": lambda q=queries, one=found: one.locate(q),
        }
        seconds = interleaved_medians(calls, 3)
        ratio = seconds["ours"] / seconds["product"]
        name = f"locating, d = {d}, {len(found.live):,} live: {ratio:.2f} times a product"
        checks.append(Check(name, ratio <= TIMES, timed=True))
        times = (f"{seconds['product']:.3f}", f"{seconds['ours']:.3f}", f"{ratio:.2f}")
        sheet.table.add_row(str(d), f"{len(found.live):,}", *times, checks[-1].mark)
        record.append({"d": d, "live": len(found.live), "ratio": ratio, **seconds})
    return Report([sheet], checks, {"locating": record})


def _product(queries: np.ndarray, keys: np.ndarray) -> None:
    turned = np.ascontiguousarray(keys.T)
    for start in range(0, len(queries), BLOCK):
        queries[start : start + BLOCK] @ turned
