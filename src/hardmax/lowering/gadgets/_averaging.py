"""A linear map is a head that averages."""

from __future__ import annotations

from collections.abc import Sequence

from hardmax.core import Hardmax
from hardmax.lowering.sketch import Column, HeadSketch, PromptHead, PromptRegister, single


def averaging_head(read: Sequence[PromptRegister], write: Sequence[Column]) -> PromptHead:
    """Add x[read[i]] times the column write[i], for all i, to the data token; causal.

    The prompt is (sink, data). Key width 0: all scores are 0, and each of the two tokens gets
    weight exactly 1/2, hard or soft at any coldness. The sink holds 0 in the registers `read`, so
    the mean is x[read]/2, and the output weights are 2 write: doubling a float is exact.

    This is how ReLUs of fixed sign pass: one weight each, no score, no softening error.
    """
    doubled = [{register: 2.0 * weight for register, weight in own.items()} for own in write]
    return HeadSketch("", [], [], [single(r) for r in read], doubled, Hardmax(), causal=True)
