"""The maximum over tokens is one head."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from hardmax.core import Hardmax
from hardmax.lowering.gadgets._site import Approximation, Site
from hardmax.lowering.sketch import (
    BoxForm,
    BoxSketch,
    Chooser,
    HeadSketch,
    PromptHead,
    PromptRegister,
    exact_form,
    single,
)
from hardmax.numerics import inflate, short_above, softmax_gap


def maximum_head(
    read: PromptRegister,
    write: PromptRegister,
    *,
    one: PromptRegister,
    null: PromptRegister | None = None,
    handicap: float = 0.0,
) -> PromptHead:
    """Add max_j x_j[read] to the register `write` of every token.

    The query is the constant x[one] = 1 and the key is the number itself, so token j scores
    x_j[read] whoever asks. The hardmax averages the maximisers, and all of them hold the maximum:
    ties are harmless. Error 0 at any length; with a softmax of coldness beta over n tokens the
    result falls short by at most `softmax_gap(n)`/beta. One head, four nonzero weights.

    With a null token (x[null] = 1 and x[one] = -1 there, x[null] = 0 elsewhere, x_null[read] = 0)
    and a handicap larger than every |x_j[read]|, data tokens score the null token -handicap and
    never take it, while the null token scores itself +handicap and the others at most
    |x_j[read]|: it takes its own 0 and stays empty. One weight more.
    """
    held = single(read)
    key = held if null is None else held + single(null, -handicap)
    return HeadSketch("", [single(one)], [key], [held], [{write: 1.0}], Hardmax())


def maximum_by_head(site: Site, error: float) -> Approximation:
    """The maximum of n affine functions of the input by one head over n tokens.

    Token j holds the j-th function; it scores what it holds. The softmax mean falls short of the
    maximum by at most W((n-1)/e)/b (`softmax_gap`), attained when all losers sit
    (1 + W((n-1)/e))/b below the winner; half of that is added back.
    """
    sketch, tokens = site.sketch, site.tokens
    table = np.stack([_over_inputs(sketch, form) for form in site.forms])
    table = np.concatenate([table, np.repeat(table[-1:], tokens - len(table), axis=0)])
    coldness = float(short_above(softmax_gap(tokens) / (2 * error)))
    short = softmax_gap(tokens) / coldness
    ends = table_ends(sketch, table)
    held = float(ends[0].max()) - short, float(ends[1].max())
    asked = (exact_form(1),)
    maker = sketch.choose(
        Chooser(0, asked, (table,), table, coldness, site.node, 1.0, ends, held, contest=True)
    )
    return Approximation(sketch.written(maker) + short / 2, inflate(short / 2, 4))


def is_of_inputs(form: BoxForm) -> bool:
    """Whether a form is an affine function of the inputs, held by no head."""
    return all(not register.writes for register in form.terms)


def _over_inputs(sketch: BoxSketch, form: BoxForm) -> np.ndarray:
    weights = [Fraction(0)] * sketch.domain.dimension
    constant = form.constant
    for register, factor in form.terms.items():
        constant += factor * register.offset
        for i, weight in register.inputs.items():
            weights[i] += factor * weight
    return np.array([float(w) for w in (*weights, constant)])


def table_ends(sketch: BoxSketch, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The smallest and the largest value of every token's entry over the domain."""
    low, high = sketch.domain.low, sketch.domain.high
    positive, negative = np.maximum(table[:, :-1], 0.0), np.minimum(table[:, :-1], 0.0)
    least = positive @ low + negative @ high + table[:, -1]
    return least, positive @ high + negative @ low + table[:, -1]
