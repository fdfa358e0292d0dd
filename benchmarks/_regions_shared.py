"""Counting by two processes beside one, and a peer from the package index in the same run."""

from __future__ import annotations

import os
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import hardmax as hm
from benchmarks._report import Check, Report, Settings, Sheet

DATA = Path(__file__).parent.parent / "tests" / "data" / "regions"
SPEED_UP = 1.7
SECONDS = 20.0  # that the count should take in one process


def shared(settings: Settings) -> Report:
    """One process against two, wall time, on one network of many cells."""
    hidden = (24, 24) if settings.quick else (88, 88)
    network = _network(4, hidden, seed=4)
    box = "[-1,1]^4"
    sheet = Sheet(
        "python -m benchmarks.regions --only shared" + " --quick" * settings.quick,
        f"Required: two processes at least {SPEED_UP} times faster than one, on a count of over "
        f"{SECONDS:g} s (wall time, {os.cpu_count()} cores), with the same answer.",
        *("network", "cells", "one s", "two s", "times", "·"),
    )
    _ = hm.regions(hm.load_network(DATA / "d4_16x2.npz"), on=box).cells  # loads compiled loops
    start = time.perf_counter()
    alone = hm.regions(network, on=box).layers
    one = time.perf_counter() - start
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        _ = hm.regions(hm.load_network(DATA / "d4_16x2.npz"), on=box, executor=pool).cells
        start = time.perf_counter()
        both = hm.regions(network, on=box, executor=pool).layers
        two = time.perf_counter() - start
    times = one / two
    shape = "-".join(map(str, (4, *hidden, 1)))
    checks = [
        Check(f"{shape}: {alone} alone, {both} shared", alone == both),
        Check(f"{shape}: {times:.2f} times faster by two", times >= SPEED_UP, timed=True),
        Check(f"{shape}: {one:.0f} s in one process", one > SECONDS, timed=True),
    ]
    mark = Check("", all(check.holds for check in checks)).mark
    sheet.table.add_row(shape, f"{alone[-1]:,}", f"{one:.1f}", f"{two:.1f}", f"{times:.2f}", mark)
    record = {"cells": alone[-1], "one_seconds": one, "two_seconds": two}
    return Report([sheet], checks, {"shared": record})


def _network(inputs: int, hidden: tuple[int, ...], seed: int) -> hm.ReluNetwork:
    rng = np.random.default_rng(seed)
    widths = (inputs, *hidden, 1)
    sizes = list(zip(widths[1:], widths[:-1], strict=True))
    weights = [rng.normal(size=s) * np.sqrt(2 / s[1]) for s in sizes]
    return hm.ReluNetwork(weights, [rng.normal(size=s[0]) / 4 for s in sizes])


def peer(settings: Settings) -> Report:
    """relucent, if it is installed here: its search over the cells of the same networks."""
    sheet = Sheet(
        "python -m benchmarks.regions --only peer",
        "The peer relucent on the same networks and boxes, in this run. Required: the same counts.",
        *("·network", "our cells", "our cells/s", "its cells", "its cells/s", "times", "·"),
    )
    try:
        import relucent
    except ImportError:
        told = "relucent is not installed (pip install relucent): no peer was run."
        return Report([sheet], [], {"peer": None}, [told])
    record: list[dict[str, Any]] = []
    checks: list[Check] = []
    for name in ("d2_16x2",) if settings.quick else ("d2_16x2", "d2_32x3", "d3_16x2"):
        network = hm.load_network(DATA / f"{name}.npz")
        box = f"[-1,1]^{network.inputs}"
        _ = hm.regions(network, on=box).cells
        start = cpu_seconds()
        for _ in range(20):
            ours = hm.regions(network, on=box).cells
        rate = 20 * ours / (cpu_seconds() - start)
        found, its = _relucent(relucent, network)
        row = {"network": name, "cells": ours, "rate": rate, "its_cells": found, "its_rate": its}
        record.append(row)
        checks.append(Check(f"{name}: {ours:,} cells, the peer has {found:,}", ours == found))
        numbers = (f"{ours:,}", f"{rate:,.0f}", f"{found:,}", f"{its:,.0f}", f"{rate / its:,.0f}")
        sheet.table.add_row(name, *numbers, checks[-1].mark)
    return Report([sheet], checks, {"peer": record})


def _relucent(relucent: Any, network: hm.ReluNetwork) -> tuple[int, float]:
    """How many cells it finds in the box, and how fast (CPU time, children included)."""
    import torch

    layers: list[Any] = []
    for W, b in zip(network.weights, network.biases, strict=True):
        layer = torch.nn.Linear(W.shape[1], W.shape[0], dtype=torch.float64)
        layer.weight.data, layer.bias.data = torch.tensor(np.array(W)), torch.tensor(np.array(b))
        layers += [layer, torch.nn.ReLU()]
    found = relucent.Complex(relucent.convert(torch.nn.Sequential(*layers[:-1])))
    start = cpu_seconds()
    found.bfs(nworkers=1, cube_radius=1.0, cube_mode="intersect", verbose=0)
    return len(found), len(found) / (cpu_seconds() - start)


def cpu_seconds() -> float:
    """What this process and its children that have ended took of the CPU: a search with one worker
    may well do its work in a child."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)
