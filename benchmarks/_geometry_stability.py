"""Stability of 12 heads x 1,024 tokens x 64 dimensions, against the bare matrix products."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._measure import interleaved_medians, threads
from benchmarks._report import Check, Report, Settings, Sheet
from hardmax.geometry.temperature import PublishedExample, Stability, stability_of

SHAPE = (12, 1024, 64)
LIMIT = 1.0  # CPU seconds
MEMORY = 200e6  # bytes: all scores at once would be 100 MB for each of the tables in use


def stability(settings: Settings) -> Report:
    """How long, how much memory, and what the published example says in both readings."""
    q, k, v = np.random.default_rng(0).normal(size=(3, *SHAPE))
    half = np.random.default_rng(1).random(SHAPE[1:2] * 2) < 0.5
    half[:, 0] = True
    masks: dict[str, Any] = {"none": None, "causal": "causal", "half at random": half}
    calls: dict[str, Callable[[], object]] = {
        name: lambda mask=mask: _everything(q, k, v, mask) for name, mask in masks.items()
    }
    calls["q k^T, softmax, times v"] = lambda: _attention(q, k, v)
    seconds = interleaved_medians(calls, settings.rounds)
    peaks = {name: _peak(call) for name, call in calls.items()}
    sheet = Sheet(
        "python -m benchmarks.geometry --only stability" + " --quick" * settings.quick,
        f"Required: winners, gaps, walls and all guarantees of 12 heads x 1,024 tokens x 64 in "
        f"less than {LIMIT:g} s of CPU. The median of {settings.rounds}, on {threads()}.",
        *("·mask", "CPU s", "limit", "peak MB", "·"),
    )
    checks = []
    for name in calls:
        check = Check(f"stability, mask {name}: {seconds[name]:.2f} s", seconds[name] < LIMIT, True)
        limited = name in masks
        limit, mark = (f"{LIMIT:g}", check.mark) if limited else ("", "")
        sheet.table.add_row(name, f"{seconds[name]:.3f}", limit, f"{peaks[name] / 1e6:.0f}", mark)
        if limited:
            kept = peaks[name] < MEMORY
            checks += [check, Check(f"stability, mask {name}: {peaks[name] / 1e6:.0f} MB", kept)]
    example = PublishedExample()
    checks.append(Check("Example VI.2's Hessian exceeds its bound", _exceeds(example)))
    record = {"cpu_seconds": seconds, "peak_bytes": peaks, "example": str(example)}
    return Report([sheet], checks, record, [str(example)])


def _everything(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: Any) -> Stability:
    """The bounds are made when they are asked for: ask."""
    found = stability_of(q, k, v, mask, scale=SHAPE[2] ** -0.5)
    for name in ("weight_bound", "output_bound", "jacobian_bound", "jacobian_from_weights"):
        getattr(found, name)
    found.temperature_needed(), found.critical_coldness(0.1)
    return found


def _attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """What a forward pass computes, head by head."""
    outputs = np.empty_like(v)
    for head in range(len(q)):
        scores = q[head] @ k[head].T * SHAPE[2] ** -0.5
        scores -= scores.max(axis=1, keepdims=True)
        np.exp(scores, out=scores)
        outputs[head] = (scores @ v[head]) / scores.sum(axis=1, keepdims=True)
    return outputs


def _peak(call: Callable[[], object]) -> int:
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def _exceeds(example: PublishedExample) -> bool:
    temperature = example.width**-0.5
    return example.true_hessian(temperature) > example.published_hessian(temperature)
