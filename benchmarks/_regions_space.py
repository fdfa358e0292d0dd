"""Cells of ReLU networks in three and more dimensions: rates, stress, counts that are known."""

from __future__ import annotations

import json
import resource
import sys
from itertools import pairwise, product
from math import comb
from pathlib import Path
from typing import Any

import numpy as np

import hardmax as hm
from benchmarks._measure import cpu_seconds
from benchmarks._report import Check, Report, Settings, Sheet
from hardmax.geometry.counting._stack import Stack
from hardmax.geometry.counting._tally import Tally, count_unions
from hardmax.geometry.counting.space._counting import SpacePiece, count_piece, start_piece

DATA = Path(__file__).parent.parent / "tests" / "data" / "regions"
WANTED = {"d3_32x2": 100_000, "d4_16x2": 150_000, "d5_12x2": 150_000}  # cells a CPU second
STRESS = (((3, 64, 64, 1), 1), ((4, 32, 32, 1), 1), ((5, 20, 20, 1), 1))  # widths, seed
SPREAD = 0.2  # of the biases of these
MEGABYTES = 1_000  # allowed while counting
FOLDS = ((2, 2, 3), (3, 1, 3), (2, 3, 3), (3, 2, 3), (2, 2, 4), (2, 1, 8))  # teeth, layers, d
WALLS = ((20, 3), (16, 4), (14, 5), (12, 6), (12, 8))  # walls, d

COMMAND = "python -m benchmarks.regions --only space"


def space(settings: Settings) -> Report:
    """Rates on the stored networks, large counts, formulas."""
    parts = [_rates(settings), _stress(settings), _formulas()]
    return Report(
        [part.sheets[0] for part in parts],
        [check for part in parts for check in part.checks],
        {name: value for part in parts for name, value in part.record.items()},
        ["Compiled loops are loaded before the first measurement."],
    )


def on_box(
    network: hm.ReluNetwork, low: float = -1.0, high: float = 1.0
) -> tuple[Stack, SpacePiece]:
    d = network.weights[0].shape[1]
    stack = Stack.of(network, np.full(d, max(abs(low), abs(high))))
    return stack, start_piece(stack, np.full(d, low), np.full(d, high))


def stored(name: str) -> hm.ReluNetwork:
    with np.load(DATA / f"{name}.npz") as file:
        layers = range(1, 1 + sum(key.startswith("W") for key in file.files))
        return hm.ReluNetwork([file[f"W{k}"] for k in layers], [file[f"b{k}"] for k in layers])


def seeded(widths: tuple[int, ...], seed: int) -> hm.ReluNetwork:
    """Gaussian weights of variance 2 / inputs, then Gaussian biases."""
    rng = np.random.default_rng(seed)
    pairs = list(pairwise(widths))
    weights = [rng.standard_normal((m, n)) * np.sqrt(2.0 / n) for n, m in pairs]
    return hm.ReluNetwork(weights, [rng.standard_normal(m) * SPREAD for _, m in pairs])


def _rates(settings: Settings) -> Report:
    sheet = Sheet(
        COMMAND,
        "Required: counts after every layer as expected; cells per CPU second at least as wanted.",
        *("·network", "cells", "wanted/s", "exact/s", "fast/s", "with regions/s", "regions", "·"),
    )
    checks, record = [], []
    expected = json.loads((DATA / "expected_counts.json").read_text())["nets"]
    for name in sorted(expected):
        stack, piece = on_box(stored(name))
        right = tuple(expected[name]["regions_after_each_layer"])
        rates, joins = [], 0
        for options in ({}, {"fast": True}, {"regions": True}):
            tally, seconds = _best(stack, piece, settings.rounds, **options)
            checks.append(Check(f"{name}: {tally.layers}, expected {right}", tally.layers == right))
            rates.append(tally.cells / seconds)
            joins = count_unions(tally.silent)
        wanted = WANTED.get(name, 0)
        quick = Check(
            f"{name}: {rates[0]:,.0f} cells/s, wanted {wanted:,}", rates[0] >= wanted, True
        )
        checks.append(quick)
        sheet.table.add_row(
            name, f"{right[-1]:,}", f"{wanted:,}" if wanted else "", *(f"{r:,.0f}" for r in rates),
            f"{right[-1] - joins:,}", quick.mark,
        )  # fmt: skip
        record.append({"network": name, "layers": right, "exact/s": rates[0], "fast/s": rates[1]})
    return Report([sheet], checks, {"rates": record})


def _best(stack: Stack, piece: SpacePiece, rounds: int, **options: Any) -> tuple[Tally, float]:
    """The count, and the least CPU time of some rounds; one before them compiles."""
    tally = count_piece(stack, piece, **options)
    return tally, min(
        cpu_seconds(lambda: count_piece(stack, piece, **options)) for _ in range(rounds)
    )


def _stress(settings: Settings) -> Report:
    sheet = Sheet(
        COMMAND,
        f"Seeded networks, biases of spread {SPREAD}. Required: exact and fast agree, "
        f"memory below {MEGABYTES:,} MB.",
        *("·network", "seed", "cells", "exact signs", "CPU s", "exact/s", "MB more", "peak MB"),
    )
    checks, record = [], []
    for widths, seed in STRESS:
        stack, piece = on_box(seeded(widths, seed))
        before = _peak_megabytes()
        tally, seconds = _best(stack, piece, 1)
        peak = _peak_megabytes()
        name = "-".join(map(str, widths))
        same = count_piece(stack, piece, fast=True).layers == tally.layers
        checks.append(Check(f"{name}: fast and exact counts agree", same))
        checks.append(Check(f"{name}: peak memory {peak:,.0f} MB", peak < MEGABYTES))
        sheet.table.add_row(
            name, f"{seed}", f"{tally.cells:,}", f"{tally.decided:,}", f"{seconds:.2f}",
            f"{tally.cells / seconds:,.0f}", f"{peak - before:,.0f}", f"{peak:,.0f}",
        )  # fmt: skip
        record.append({"network": name, "seed": seed, "layers": tally.layers, "CPU s": seconds})
    return Report([sheet], checks, {"stress": record})


def _formulas() -> Report:
    sheet = Sheet(
        COMMAND,
        "Required: p^(Ld) cells of folding networks in the open cube; sums of binomials for walls.",
        *("·network", "cells", "formula", "exact signs", "CPU s", "·"),
    )
    checks: list[Check] = []
    record: list[dict[str, Any]] = []
    cases = [
        (f"folding, p = {p}, L = {n}, d = {d}", folding(p, n, d), (0.0, 1.0), p ** (n * d))
        for p, n, d in FOLDS
    ]
    for n, d in WALLS:
        wanted = sum(comb(n, j) for j in range(d + 1))
        cases.append((f"{n} walls, d = {d}", walls(n, d), (-1e6, 1e6), wanted))
    for name, network, box, wanted in cases:
        tally, seconds = _best(*on_box(network, *box), 1)
        check = Check(f"{name}: {tally.cells:,} cells, {wanted:,} wanted", tally.cells == wanted)
        checks.append(check)
        sheet.table.add_row(
            name, f"{tally.cells:,}", f"{wanted:,}", f"{tally.decided:,}", f"{seconds:.3f}",
            check.mark,
        )  # fmt: skip
        record.append({"network": name, "cells": tally.cells, "CPU s": seconds})
    return Report([sheet], checks, {"formulas": record})


def folding(p: int, layers: int, d: int) -> hm.ReluNetwork:
    """p teeth a coordinate and layer, on the unit cube, in whole numbers."""
    first, level = np.zeros((p * d, d)), np.zeros(p * d)
    tooth = np.zeros((d, p * d))
    for c, m in product(range(d), range(p)):
        first[c * p + m, c], level[c * p + m] = p, -m
        tooth[c, c * p + m] = 1 if m == 0 else 2 * (-1) ** m
    inner = [first @ tooth] * (layers - 1)
    return hm.ReluNetwork([first, *inner, tooth], [*[level] * layers, np.zeros(d)])


def walls(n: int, d: int) -> hm.ReluNetwork:
    """n Gaussian walls."""
    rng = np.random.default_rng([n, d])
    W, b = rng.standard_normal((n, d)), rng.standard_normal(n)
    return hm.ReluNetwork([W, np.ones((1, n))], [b, np.zeros(1)])


def _peak_megabytes() -> float:
    """The largest memory this process ever held; kernels differ in the unit."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
