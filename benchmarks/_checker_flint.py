"""The checker's tape in python-flint, box by box: what a plain loop over balls would cost.

The same form as the checker's: values and slopes at the middle of the box, values, slopes and
curvatures over it, and the smallest of the three bounds that these give. A jet is a list: the
value, k slopes, and for second order the k (k + 1)/2 curvatures.
"""

from __future__ import annotations

import itertools
from typing import Any

import flint
import numpy as np
from flint import arb

from benchmarks._checker_problem import Tape

BITS = 53
Jet = list[Any]


def enclose_in_a_loop(tape: Tape, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """An upper bound of |answer| on each box (variables x boxes)."""
    with flint.ctx.workprec(BITS):
        boxes = zip(low.T.tolist(), high.T.tolist(), strict=True)
        return np.array([_bound(tape, a, b) for a, b in boxes])


def _bound(tape: Tape, low: list[float], high: list[float]) -> float:
    k = len(low)
    middle = [arb(0.5 * a + 0.5 * b) for a, b in zip(low, high, strict=True)]
    reach = [arb(0.5 * (b - a) * (1 + 1e-15)) for a, b in zip(low, high, strict=True)]
    centre = _run(tape, middle, 1)
    box = _run(tape, [arb(m, r) for m, r in zip(middle, reach, strict=True)], 2)
    first = sum((abs(s) * r for s, r in zip(box[1 : 1 + k], reach, strict=True)), abs(centre[0]))
    second = abs(centre[0])
    for s, r in zip(centre[1 : 1 + k], reach, strict=True):
        second += abs(s) * r
    for number, (i, j) in enumerate(_pairs(k)):
        second += abs(box[1 + k + number]) * reach[i] * reach[j] * (0.5 if i == j else 1.0)
    return min(float(b.upper()) for b in (abs(box[0]), first, second))


def _pairs(k: int) -> list[tuple[int, int]]:
    return list(itertools.combinations_with_replacement(range(k), 2))


def _run(tape: Tape, values: list[arb], order: int) -> Jet:
    k = len(values)
    zero, one = arb(0), arb(1)
    bends = [zero] * (k * (k + 1) // 2 if order == 2 else 0)
    slots = [
        [value, *(one if j == i else zero for j in range(k)), *bends]
        for i, value in enumerate(values)
    ]
    for step in tape.steps:
        reads = [_linear(form, slots) for form in step.reads]
        slots.append(_atom(step.kind, reads, k, order))
    return _linear(tape.answer, slots)


def _linear(form: Any, slots: list[Jet]) -> Jet:
    """constant + sum of coefficient * jet."""
    total = [arb(0)] * len(slots[0])
    for slot, c in zip(form.slots, form.coefficients, strict=True):
        total = [t + c * p for t, p in zip(total, slots[slot], strict=True)]
    total[0] = total[0] + form.constant
    return total


def _atom(kind: str, reads: list[Jet], k: int, order: int) -> Jet:
    match kind:
        case "times":
            return _product(reads[0], reads[1], k, order)
        case "gate":
            s = 1 / (1 + (-reads[0][0]).exp())
            first = s * (1 - s)
            gate = _composed(s, first, first * (1 - 2 * s), reads[0], k, order)
            return _product(gate, reads[1], k, order)
        case "exp":
            e = reads[0][0].exp()
            return _composed(e, e, e, reads[0], k, order)
        case "sin":
            s, c = reads[0][0].sin_cos()
            return _composed(s, c, -s, reads[0], k, order)
    raise NotImplementedError(f"{kind} is not among the models of this comparison.")


def _composed(value: arb, first: arb, second: arb, u: Jet, k: int, order: int) -> Jet:
    result = [value, *(first * s for s in u[1 : 1 + k])]
    if order == 2:
        for number, (i, j) in enumerate(_pairs(k)):
            result.append(second * u[1 + i] * u[1 + j] + first * u[1 + k + number])
    return result


def _product(u: Jet, v: Jet, k: int, order: int) -> Jet:
    result = [u[0] * v[0], *(u[0] * v[1 + i] + v[0] * u[1 + i] for i in range(k))]
    if order == 2:
        for number, (i, j) in enumerate(_pairs(k)):
            bend = u[0] * v[1 + k + number] + v[0] * u[1 + k + number]
            result.append(bend + u[1 + i] * v[1 + j] + u[1 + j] * v[1 + i])
    return result
