"""The scalar multiplexer: a number picks one of several others."""

from __future__ import annotations

from collections.abc import Iterable

from hardmax.lowering.sketch import Ladder, WordForm, WordRegister, WordSketch


def multiplexer(
    sketch: WordSketch,
    sublayer: int,
    step: str,
    rungs: Iterable[WordForm],
    most: float,
    into: WordRegister,
) -> None:
    """Add g(a) + C a to a register, for a whole number a and 0 <= g_t <= C = most.

    `rungs` are the forms g_t + C (a - t), t = 0, 1, ... Then

        g(a) = sum_t [relu(g_t + C (a - t)) - relu(g_t + C (a - t) - C)] - C a,

    because a term with t < a is C, one with t > a is 0, and that with t = a is g_a; C of them are
    left over a times, which the reader takes off. Two hidden units an option.
    """
    law = Ladder(most)
    for rung in rungs:
        sketch.unit(sublayer, step, rung, {into: 1.0}, law)
        sketch.unit(sublayer, step, rung + -most, {into: -1.0}, law)
