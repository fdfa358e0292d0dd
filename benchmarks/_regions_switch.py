"""Regions of maxout networks and of hard Transformers with fixed keys: counts, and how fast."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks._measure import cpu_seconds
from benchmarks._report import Check, Report, Settings, Sheet
from hardmax.core import Attention, Box, FeedForward, Head, ReadOut, Transformer, VectorInput
from hardmax.geometry.bounds import attaining_keys, several_heads
from hardmax.geometry.bounds._depth_construction import depth_construction
from hardmax.geometry.counting.switch._counting import count_piece
from hardmax.geometry.counting.switch._piece import start_piece
from hardmax.geometry.counting.switch._regions import count_regions
from hardmax.geometry.counting.switch._sources import switch_program
from hardmax.languages import MaxoutNetwork

PEER = 57  # cells a second: the fastest of one research script for maxout, by peers.md
LEAST = 20_000  # cells a CPU second, in the plane
COMMAND = "python -m benchmarks.regions --only switch"


@dataclass(frozen=True)
class Case:
    """A source on a box; how many cells it has, where a formula says it."""

    name: str
    source: Any
    domain: Box
    expected: int | None = None
    required: bool = False  # whether the rate has to be reached


def switch(settings: Settings) -> Report:
    """Every source twice: all signs proved, and in fast mode."""
    sheet = Sheet(
        COMMAND,
        f"Required: counts equal to the formulas; maxout in the plane at {LEAST:,} cells a CPU "
        f"second or more (a peer's script: {PEER}).",
        "·source", "cells", "formula", "regions", "exact\nsigns", "cells/s\nexact", "cells/s\nfast",
        "cells/s\nwith regions", "·",
    )  # fmt: skip
    checks: list[Check] = []
    record = []
    for case in _cases(settings.quick):
        row = _measured(case, settings.rounds)
        found = _judged(case, row)
        checks += found
        rates = (f"{row[key]:,.0f}" for key in ("exact/s", "fast/s", "regions/s"))
        formula = "" if case.expected is None else f"{case.expected:,}"
        mark = Check(case.name, all(check.holds for check in found)).mark
        numbers = (f"{row['cells']:,}", formula, f"{row['regions']:,}", f"{row['decided']:,}")
        sheet.table.add_row(case.name, *numbers, *rates, mark)
        record.append(row)
    return Report([sheet], checks, {"switch": record})


def _measured(case: Case, rounds: int) -> dict[str, Any]:
    program = switch_program(case.source, case.domain)
    piece = start_piece(program, case.domain)
    merged = count_regions(program, case.domain)  # also loads the compiled loops
    count_piece(program, piece, fast=True)
    cells = merged.tally.cells
    return {
        "source": case.name,
        "cells": cells,
        "regions": merged.regions,
        "decided": merged.tally.decided,
        "exact/s": cells / _best(lambda: count_piece(program, piece), rounds),
        "fast/s": cells / _best(lambda: count_piece(program, piece, fast=True), rounds),
        "regions/s": cells / _best(lambda: count_regions(program, case.domain), rounds),
    }


def _best(call: Callable[[], object], rounds: int) -> float:
    """The shortest time: whatever else runs on the machine only adds to it."""
    return min(cpu_seconds(call) for _ in range(rounds))


def _judged(case: Case, row: dict[str, Any]) -> list[Check]:
    checks = []
    if case.expected is not None:
        what = f"{case.name}: {row['cells']:,} cells, the formula says {case.expected:,}"
        checks.append(Check(what, row["cells"] == case.expected))
    if case.required:
        what = f"{case.name}: {row['exact/s']:,.0f} cells/s, required {LEAST:,}"
        checks.append(Check(what, row["exact/s"] >= LEAST, timed=True))
    return checks


# ---- sources ---------------------------------------------------------------------------------


def _cases(quick: bool) -> list[Case]:
    found = [
        _maxout(2, (16, 16), 3),
        _maxout(2, (32, 32), 5),
        _maxout(2, (32, 32, 32), 3),
        _maxout(3, (8, 8), 3),
        _maxout(4, (6, 6), 3),
        _attaining(2, heads=12, tokens=8),
        _attaining(3, heads=5, tokens=6),
        _deep(tokens=4, teeth=1, dimension=2, layers=2),
        _fixed_keys(2, tokens=16, heads=4, layers=2, hidden=16),
        _fixed_keys(3, tokens=8, heads=2, layers=2, hidden=8),
    ]
    if not quick:
        found += [
            _maxout(2, (64, 64, 64), 3),
            _deep(tokens=4, teeth=1, dimension=2, layers=3),
            _deep(tokens=3, teeth=1, dimension=3, layers=2),
        ]
    return found


def _box(dimension: int, low: float = -1.0, high: float = 1.0) -> Box:
    return Box(np.full(dimension, low), np.full(dimension, high))


def _maxout(d: int, widths: tuple[int, ...], rank: int) -> Case:
    """Gaussian weights of variance 1/inputs, biases of 0.3, seed 0, one output."""
    rng = np.random.default_rng(0)
    weights, biases = [], []
    for into, out, pieces in zip(
        (d, *widths), (*widths, 1), [rank] * len(widths) + [1], strict=True
    ):
        weights.append(rng.normal(size=(pieces, out, into)) / np.sqrt(into))
        biases.append(0.3 * rng.normal(size=(pieces, out)))
    name = f"maxout {'-'.join(map(str, (d, *widths)))}, rank {rank}"
    return Case(name, MaxoutNetwork(weights, biases), _box(d), required=d == 2)


def _attaining(d: int, *, heads: int, tokens: int) -> Case:
    """One layer with as many cells as there can be, as a maxout layer with its keys."""
    keys = attaining_keys(tokens, heads, dimension=d)
    weights = np.stack([one.keys for one in keys], axis=1).astype(float)
    biases = np.stack([one.biases for one in keys], axis=1).astype(float)
    expected = several_heads(tokens, heads, dimension=d).value
    name = f"{heads} x {tokens} attaining keys, d = {d}"
    return Case(name, MaxoutNetwork([weights], [biases]), _box(d, -1e6, 1e6), expected)


def _deep(*, tokens: int, teeth: int, dimension: int, layers: int) -> Case:
    model = depth_construction(tokens=tokens, teeth=teeth, dimension=dimension, layers=layers)
    expected = (2 * teeth * tokens) ** (dimension * layers)
    name = f"depth construction, N = {tokens}, d = {dimension}, L = {layers}"
    return Case(name, model, _box(dimension, 0.0, 1.0), expected)


def _fixed_keys(d: int, *, tokens: int, heads: int, layers: int, hidden: int) -> Case:
    """Gaussian heads under a causal mask: constant tokens, then one that moves, whose key stays.

    The first d coordinates move, keys read the others, and only the first are written.
    """
    rng = np.random.default_rng(1)
    width = 2 * d
    maps, offsets = np.zeros((tokens + 1, width, d)), rng.normal(size=(tokens + 1, width))
    maps[-1, range(d), range(d)] = 1.0
    sublayers: list[Any] = []
    for _ in range(layers):
        sublayers.append(Attention([_head(rng, d, width) for _ in range(heads)]))
        inner, outer = rng.normal(size=(hidden, width)), rng.normal(size=(width, hidden)) / hidden
        outer[d:] = 0.0
        bias = 0.3 * rng.normal(size=hidden)
        sublayers.append(FeedForward(inner, bias, outer, np.zeros(width)))
    readout = ReadOut(rng.normal(size=(1, width)), np.zeros(1))
    model = Transformer(VectorInput(maps, offsets), sublayers, readout)
    name = f"{layers} layers of {heads} heads, {tokens} fixed keys, {hidden} ReLUs, d = {d}"
    return Case(name, model, _box(d, -2.0, 2.0))


def _head(rng: np.random.Generator, d: int, width: int) -> Head:
    query, key, value = rng.normal(size=(3, d, width))
    key[:, :d] = 0.0
    output = rng.normal(size=(width, d)) / 4
    output[d:] = 0.0
    return Head(query, key, value, output, causal=True)
