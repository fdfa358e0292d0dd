"""Soft heads whose weights do not depend on the word: a sum in which some tokens count more.

Where scores depend on the tokens' places alone, so do the weights, and the head writes a weighted
sum of values, known for all words at once: the part that depends on slots must have one weight for
all tokens of a row that matter, or is a sum that no slot holds. A start token that outweighs all
others makes a head that adds: weights r/(1 + r n), errors relative to r.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardmax.checker.sequences._scores import is_hard, power_error, underflow
from hardmax.checker.sequences._stream import strays
from hardmax.checker.sequences.slots._choices import AsRead, fixed_scores
from hardmax.checker.sequences.slots._slots import Slots
from hardmax.core import Head
from hardmax.numerics import Format, inflate

_NEGLIGIBLE = 45.0  # logits below the largest: such tokens are leak
_TIED = 1e-6  # weights that agree to so much are a tie, which has a proof of its own


@dataclass(frozen=True, eq=False)
class Graded:
    """Weights of the tokens asked (rows: asking tokens), good to a relative error per row.

    Negligible ones are 0 here, and `leak` bounds them together.
    """

    weights: np.ndarray
    error: np.ndarray
    leak: np.ndarray


def graded(read: AsRead, head: Head, slots: Slots, format: Format) -> Graded | None:
    """The weights, if they are the same for all words and neither all or nothing nor a tie.

    A logit within a of its middle makes a weight within a factor e^a, its sum as well: together at
    most e^(2 a). The logits' differences are rounded, which counts as a; and powers are off by a
    factor 1 + r, together (1 + r)/(1 - r) <= 1 + 4 r.
    """
    if is_hard(head):
        return None
    scores = fixed_scores(read, head, slots, format)
    if scores is None:
        return None
    middle, radius, seen = scores
    logits = np.where(seen, middle, -np.inf)
    below = logits - logits.max(axis=1, keepdims=True)
    matters = below > -_NEGLIGIBLE
    with np.errstate(under="ignore"):
        powers = np.exp(below)
    between = matters & (powers < 1.0 - _TIED)
    if not between.any():
        return None
    kept = np.where(matters, powers, 0.0)
    total = kept.sum(axis=1, keepdims=True)
    faint = 8 * underflow(format)  # it grows by a factor e^(2 a) < 8
    depth = np.where(matters, -below, 0.0).max(axis=1)
    loose = np.where(seen, radius, 0.0).max(axis=1) + strays(2, depth, format)
    if not (loose < 1.0).all():
        return None  # logits so uncertain say nothing about weights
    grown = np.expm1(2 * loose)
    error = grown + 4 * power_error(slots.tokens, format) * (1 + grown)
    error = error + 2 * faint / kept[kept > 0.0].min()
    leak = (np.where(matters, 0.0, powers) * (1 + error[:, None])).sum(axis=1)
    leak = leak + slots.tokens * faint
    steps = slots.tokens + 24
    return Graded(kept / total, inflate(error, steps), inflate(leak, steps))
