"""Branch and bound with plain intervals, the natural form: no slopes, no middles."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from benchmarks._checker_problem import Linear, Tape
from hardmax import numerics
from hardmax.numerics import Interval


def boxes_needed(problem: Any, wanted: float, most: int) -> int | None:
    """How many boxes are looked at until |answer| <= wanted on all; None beyond `most`."""
    low, high = problem.low[:, None], problem.high[:, None]
    looked = 0
    while low.shape[1]:
        looked += low.shape[1]
        if looked > most:
            return None
        is_open = _magnitudes(problem.tape, low, high) + problem.slack > wanted
        low, high = _halved(low[:, is_open], high[:, is_open])
    return looked


def _magnitudes(tape: Tape, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The largest |answer| on each box by interval arithmetic, operation by operation."""
    slots = [Interval(low[i], high[i]) for i in range(tape.variables)]
    for step in tape.steps:
        reads = [_linear(form, slots) for form in step.reads]
        match step.kind:
            case "times":
                slots.append(reads[0] * reads[1])
            case "gate":
                slots.append(numerics.sigmoid(reads[0]) * reads[1])
            case "relu":
                slots.append(reads[0].maximum(0.0))
            case name:
                slots.append(getattr(numerics, name)(reads[0]))
    return _linear(tape.answer, slots).magnitude


def _linear(form: Linear, slots: list[Interval]) -> Interval:
    terms = [c * slots[slot] for slot, c in zip(form.slots, form.coefficients, strict=True)]
    start = Interval.point(np.full(slots[0].shape, form.constant))
    return reduce(lambda a, b: a + b, terms, start)


def _halved(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every box in two, along its widest side."""
    at = (high - low).argmax(axis=0), np.arange(low.shape[1])
    middle = 0.5 * low[at] + 0.5 * high[at]
    left, right = high.copy(), low.copy()
    left[at] = right[at] = middle
    return np.concatenate([low, right], axis=1), np.concatenate([left, high], axis=1)
