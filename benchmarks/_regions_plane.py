"""Cells and regions of ReLU networks in the plane: counts, rates, size, degenerate networks."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._report import Check, Report, Settings, Sheet
from hardmax.geometry.counting._stack import Stack
from hardmax.geometry.counting._tally import Tally, count_unions
from hardmax.geometry.counting.plane._counting import count_piece, start_piece
from hardmax.languages import ReluNetwork

COMMAND = "python -m benchmarks.regions --only plane"
DATA = Path(__file__).parent.parent / "tests" / "data" / "regions"
# peers.md: edge subdivision, SplineCam, relucent; cells per CPU second
PEERS = {"d2_16x2": (5_800, 109, 33), "d2_32x3": (16_000, 384, 19), "d2_64x3": (21_000, 469, 9)}
# cells per CPU second: fast cells, exact cells, fast regions, exact regions
REQUIRED = {"d2_64x3": (700_000, 400_000, 700_000 / 3, 400_000 / 3)}
MODES = [(True, False), (False, False), (True, True), (False, True)]  # fast, regions
MOST_MEMORY = 1_000  # megabytes


def plane(settings: Settings) -> Report:
    """Saved networks, large networks, folding networks."""
    parts = [_rates(settings), _large(settings), _folding()]
    return Report(
        [part.sheets[0] for part in parts],
        [check for part in parts for check in part.checks],
        {name: value for part in parts for name, value in part.record.items()},
        [f"Peak memory of the whole process, with libraries: {_peak_megabytes():,.0f} MB."],
    )


# ---- networks ------------------------------------------------------------------------------------


def saved(name: str) -> ReluNetwork:
    with np.load(DATA / f"{name}.npz") as data:
        layers = range(1, 1 + sum(key.startswith("W") for key in data.files))
        return ReluNetwork([data[f"W{k}"] for k in layers], [data[f"b{k}"] for k in layers])


def gaussian(seed: int, *hidden: int, centre: float = 0.0) -> ReluNetwork:
    """Weights of variance 2 / inputs, biases of deviation 1/10, walls moved to a centre."""
    rng = np.random.default_rng([seed, *hidden])
    widths = [2, *hidden, 1]
    weights = [rng.normal(size=(m, n)) * np.sqrt(2 / n) for n, m in pairwise(widths)]
    biases = [rng.normal(size=m) / 10 for m in widths[1:]]
    biases[0] -= weights[0].sum(axis=1) * centre
    return ReluNetwork(weights, biases)


def folding(teeth: int, layers: int, inner: ReluNetwork | None = None) -> ReluNetwork:
    """Each coordinate of [0, teeth]^2 folded `teeth` times onto [0, teeth], `layers` times.

    Then comes the inner network, if any: every one of the teeth^(2 layers) squares is mapped onto
    the whole domain, so there are that many times its cells. For 2 and 4 teeth the product of its
    first weights and the last fold is exact in floats.
    """
    first = np.kron(np.eye(2), np.ones((teeth, 1)))
    starts = -np.tile(np.arange(teeth, dtype=float), 2)
    slopes = [2.0 * teeth * (-1) ** k if k else teeth for k in range(teeth)]
    fold = np.kron(np.eye(2), np.array([slopes]))
    weights = [first, *[first @ fold] * (layers - 1)]
    biases = [starts] * layers
    if inner is None:
        return ReluNetwork([*weights, fold], [*biases, np.zeros(2)])
    return ReluNetwork(
        [*weights, inner.weights[0] @ fold, *inner.weights[1:]], [*biases, *inner.biases]
    )


def count(
    network: ReluNetwork, low: int, high: int, *, fast: bool, regions: bool
) -> Callable[[], Tally]:
    """Counting on a square, ready to run."""
    square = [(low, low), (high, low), (high, high), (low, high)]
    stack = Stack.of(network, [max(abs(low), abs(high))] * 2)
    whole = start_piece(stack, [(Fraction(x), Fraction(y)) for x, y in square])
    return lambda: count_piece(stack, whole, fast=fast, regions=regions)


# ---- parts ---------------------------------------------------------------------------------------


def _rates(settings: Settings) -> Report:
    sheet = Sheet(
        COMMAND,
        "Required: the independent counts after every layer; 2-64-64-64: 700,000 cells per CPU\n"
        "second fast, 400,000 exact, and no less than a third of that when regions are counted.",
        *("·network", "cells", "regions", "fast cells/s", "exact cells/s", "fast regions",
          "exact regions", "unsure", "peers, cells/s", "·"),
    )  # fmt: skip
    expected = json.loads((DATA / "expected_counts.json").read_text())["nets"]
    checks, record = [], []
    for name, peers in PEERS.items():
        rates, tallies = [], []
        for fast, regions in MODES:
            run = count(saved(name), -1, 1, fast=fast, regions=regions)
            tallies.append(run())
            rates.append(tallies[-1].cells / _best(run, 20 * settings.rounds))
        wanted = expected[name]["regions_after_each_layer"]
        right = Check(f"{name}: {wanted}", all(list(t.layers) == wanted for t in tallies))
        quick = [
            Check(f"{name}: {rate:,.0f} of {least:,.0f} cells/s", rate >= least, timed=True)
            for rate, least in zip(rates, REQUIRED.get(name, ()), strict=False)
        ]
        joins = count_unions(tallies[3].silent)
        cells, unsure = tallies[3].cells, tallies[3].decided
        sheet.table.add_row(
            name, f"{cells:,}", f"{cells - joins:,}", *(f"{rate:,.0f}" for rate in rates),
            f"{unsure}", " / ".join(f"{peer:,}" for peer in peers), right.mark,
        )  # fmt: skip
        checks += [right, *quick]
        record.append({"network": name, "layers": wanted, "rates": rates, "unsure": unsure})
    return Report([sheet], checks, {"rates": record})


def _large(settings: Settings) -> Report:
    sheet = Sheet(
        COMMAND,
        "Required: more than 10^6 and more than 10^7 cells, exact, in under 1 GB. Behind folds "
        "there are exactly\np^(2 L) times the cells of the inner network.",
        *("·network", "·square", "cells", "formula", "CPU s", "cells/s", "unsure", "peak MB", "·"),
    )
    checks: list[Check] = []
    record: list[dict[str, Any]] = []
    for name, network, low, high, least, wanted in _large_networks(settings):
        start = time.process_time()
        tally = count(network, low, high, fast=False, regions=False)()
        seconds, peak = time.process_time() - start, _peak_megabytes()
        new = [
            Check(f"{name}: {tally.cells:,} cells, more than {least:,}", tally.cells > least),
            Check(f"{name}: {peak:,.0f} MB, under {MOST_MEMORY:,}", peak < MOST_MEMORY),
            Check(f"{name}: {tally.cells:,} of {wanted or tally.cells:,} cells",
                  wanted in (None, tally.cells)),
        ]  # fmt: skip
        sheet.table.add_row(
            name, f"[{low}, {high}]^2", f"{tally.cells:,}", f"{wanted:,}" if wanted else "",
            f"{seconds:.1f}", f"{tally.cells / seconds:,.0f}", f"{tally.decided:,}", f"{peak:,.0f}",
            min(new, key=lambda check: check.holds).mark,
        )  # fmt: skip
        checks += new
        record.append({"network": name, "layers": tally.layers, "seconds": seconds, "MB": peak})
    return Report([sheet], checks, {"large": record})


def _large_networks(settings: Settings) -> list[tuple[str, ReluNetwork, int, int, int, int | None]]:
    """Name, network, square, a number of cells to exceed, and the exact number where known."""
    hidden, folds = ((256, 256), 2) if settings.quick else ((1024, 1024), 3)
    inner = gaussian(0, 32, 32, 32, centre=2.0)
    cells = count(inner, 0, 4, fast=False, regions=False)().cells
    folded = f"2-{'8-' * folds}32-32-32-1: {folds} folds by 4, then seed 0"
    return [
        (f"2-{hidden[0]}-{hidden[1]}-1, seed 0", gaussian(0, *hidden), -1, 1,
         50_000 if settings.quick else 10**6, None),
        (folded, folding(4, folds, inner), 0, 4,
         500_000 if settings.quick else 10**7, 4 ** (2 * folds) * cells),
    ]  # fmt: skip


def _folding() -> Report:
    sheet = Sheet(
        COMMAND,
        "Required: folding networks have exactly p^(2 L) cells in the open square, every time.",
        *("teeth p", "layers L", "cells", "p^(2 L)", "regions", "unsure", "exact cells/s", "·"),
    )
    checks, record = [], []
    for teeth, layers in [(2, 1), (2, 2), (2, 3), (2, 5), (3, 2), (3, 3), (4, 2), (4, 3), (5, 2)]:
        network, wanted = folding(teeth, layers), teeth ** (2 * layers)
        tally = count(network, 0, teeth, fast=False, regions=True)()
        regions = tally.cells - count_unions(tally.silent)
        seconds = _best(count(network, 0, teeth, fast=False, regions=False), 3)
        check = Check(
            f"folding p = {teeth}, L = {layers}: {tally.cells:,} of {wanted:,} cells",
            tally.cells == regions == wanted,
        )
        sheet.table.add_row(
            f"{teeth}", f"{layers}", f"{tally.cells:,}", f"{wanted:,}", f"{regions:,}",
            f"{tally.decided:,}", f"{wanted / seconds:,.0f}", check.mark,
        )  # fmt: skip
        checks.append(check)
        record.append({"teeth": teeth, "layers": layers, "cells": tally.cells, "seconds": seconds})
    return Report([sheet], checks, {"folding": record})


def _best(run: Callable[[], object], rounds: int) -> float:
    """The least CPU time of one run; kernels are compiled by then."""
    seconds = []
    for _ in range(rounds):
        start = time.process_time()
        run()
        seconds.append(time.process_time() - start)
    return min(seconds)


def _peak_megabytes() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024**2 if sys.platform == "darwin" else 1024)
