"""Lines: breakpoints a second through stored networks, and hard Transformers with moving tokens."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np

from benchmarks._measure import cpu_seconds
from benchmarks._report import Check, Report, Settings, Sheet
from hardmax import ReluNetwork
from hardmax.core import Attention, Head, ReadOut, Transformer, VectorInput, reference
from hardmax.geometry.counting.line._attention import transformer_line
from hardmax.geometry.counting.line._quadratic import between, rational
from hardmax.geometry.counting.line._segments import LineRegions, line_breakpoints, network_line

STORED = Path(__file__).parent.parent / "tests" / "data" / "regions"
REQUIRED = 1e6  # breakpoints a CPU second, fast, through 2-64-64-64
NETWORKS = ("d2_64x3", "d2_32x3", "d2_16x2", "d5_12x2")
COMPARED = 20  # lines that are also done in whole numbers from end to end

COMMAND = "python -m benchmarks.regions --only line"


def line(settings: Settings) -> Report:
    """Networks, then Transformers."""
    parts = [_networks(settings), _transformers(settings)]
    return Report(
        [part.sheets[0] for part in parts],
        [check for part in parts for check in part.checks],
        {name: value for part in parts for name, value in part.record.items()},
    )


def stored(name: str) -> ReluNetwork:
    """A network of shared/data/regions, of which the tests hold a copy."""
    with np.load(STORED / f"{name}.npz") as file:
        layers = range(1, len(file["widths"]))
        return ReluNetwork([file[f"W{i}"] for i in layers], [file[f"b{i}"] for i in layers])


def _networks(settings: Settings) -> Report:
    sheet = Sheet(
        COMMAND,
        f"Random segments in [-1,1]^d, uniform ends. Required: {REQUIRED:,.0f} breakpoints a CPU "
        f"second through d2_64x3 in fast mode;\nfast and exact breakpoints equally many, and the "
        f"first {COMPARED} lines equal to whole-number arithmetic.",
        *("·network", "lines", "breakpoints", "fast a s", "exact a s", "decided", "·rate", "·same"),
    )
    checks, record = [], []
    for name in NETWORKS:
        row = _network_row(name, settings)
        same = Check(f"{name}: {row['wrong']} lines differ from exact ones", row["wrong"] == 0)
        checks.append(same)
        mark = ""
        if name == NETWORKS[0]:
            what = f"{name}: {row['fast a s']:,.0f} breakpoints a CPU second, {REQUIRED:,.0f} asked"
            checks.append(Check(what, row["fast a s"] >= REQUIRED, timed=True))
            mark = checks[-1].mark
        numbers = ("lines", "breakpoints", "fast a s", "exact a s", "decided")
        sheet.table.add_row(name, *(f"{row[key]:,.0f}" for key in numbers), mark, same.mark)
        record.append({"network": name} | row)
    return Report([sheet], checks, {"networks": record})


def _network_row(name: str, settings: Settings) -> dict[str, float]:
    network, lines = stored(name), 4_000 if settings.quick else 20_000
    starts, ends = np.random.default_rng(0).uniform(-1, 1, (2, lines, network.inputs))
    fast = line_breakpoints(network, starts, ends, fast=True)  # the kernels are compiled here
    exact = line_breakpoints(network, starts, ends)
    times = [
        min(
            cpu_seconds(lambda f=mode: line_breakpoints(network, starts, ends, fast=f))  # type: ignore[misc]
            for _ in range(settings.rounds)
        )
        for mode in (True, False)
    ]
    wrong = sum(
        len(network_line(network, starts[j], ends[j]).exact_breakpoints) + 1 != exact.cells[j]
        for j in range(COMPARED)
    )
    return {
        "lines": lines,
        "breakpoints": len(exact.points),
        "fast a s": len(fast.points) / times[0],
        "exact a s": len(exact.points) / times[1],
        "decided": exact.decided,
        "wrong": wrong + int((fast.counts != exact.counts).sum()),
    }


def moving_tokens(
    tokens: int, *, layers: int, heads: int, width: int = 8, key_width: int = 4, seed: int = 0
) -> Transformer:
    """Gaussian weights; every token is an affine function of an input of `width` numbers."""
    rng = np.random.default_rng([seed, tokens, layers, heads])
    shrink = width**-0.5

    def draw(*shape: int) -> np.ndarray:
        return rng.normal(size=shape) * shrink

    sublayers = [
        Attention(
            Head(
                draw(key_width, width),
                draw(key_width, width),
                draw(key_width, width),
                draw(width, key_width),
            )
            for _ in range(heads)
        )
        for _ in range(layers)
    ]
    prompt = VectorInput(draw(tokens, width, width), draw(tokens, width))
    return Transformer(prompt, sublayers, ReadOut(draw(1, width), draw(1)))


def _transformers(settings: Settings) -> Report:
    sheet = Sheet(
        COMMAND,
        "Hard Transformers, every token moves along a segment; exact, roots of quadratics. Counted "
        "at tokens that reach the read-out.\nRequired: at two rational points of eight cells or "
        "more the model's exact value is that of the cell's map (tests compare all roots).",
        *(
            "tokens",
            "layers",
            "heads",
            "cells",
            "regions",
            "irrational",
            "CPU s",
            "decided",
            "·maps",
        ),
    )
    checks, record = [], []
    sizes = [(8, 2, 2), (16, 2, 2), (8, 3, 2)]
    for tokens, layers, heads in sizes if settings.quick else [*sizes, (32, 2, 4), (16, 4, 4)]:
        model = moving_tokens(tokens, layers=layers, heads=heads)
        start, end = np.random.default_rng(1).normal(size=(2, model.input.inputs)) * 2  # type: ignore[union-attr]
        seconds = cpu_seconds(lambda m=model, a=start, b=end: transformer_line(m, a, b))  # type: ignore[misc]
        found = transformer_line(model, start, end)
        irrational = sum(not x.is_rational for x in found.exact_breakpoints)
        what = f"{tokens} tokens, {layers} layers, {heads} heads: maps"
        checks.append(Check(what, _maps_hold(model, found)))
        numbers = (tokens, layers, heads, found.cells, found.count, irrational)
        sheet.table.add_row(
            *(f"{x:,}" for x in numbers), f"{seconds:.3f}", f"{found.decided:,}", checks[-1].mark
        )
        names = ("tokens", "layers", "heads", "cells", "regions", "irrational")
        record.append(dict(zip(names, numbers, strict=True)) | {"CPU s": seconds})
    return Report([sheet], checks, {"transformers": record})


def _maps_hold(model: Transformer, found: LineRegions) -> bool:
    """In some cells, all of them where there are few: the evaluator in Fractions is slow."""
    cells = list(found)
    for cell in cells[:: max(len(cells) // 8, 1)]:
        first = between(cell.start, cell.end)
        for t in (first, between(cell.start, rational(first))):
            if reference(model, found.segment.at(t), Fraction) != cell.at(t):
                return False
    return True
