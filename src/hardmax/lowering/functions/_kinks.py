"""ReLUs and maxima: one head each, softly; or one hidden unit each, exactly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from hardmax.lowering.functions._made import Made
from hardmax.lowering.stream import Chooser, Form, Program
from hardmax.numerics import inflate, softmax_gap

Rectify = Callable[[Program, int, Form, float], Made]


def relu_by_gate(program: Program, node: int, form: Form, error: float) -> Made:
    """max(z, 0) as z sigmoid(b z): short by at most W(1/e)/b = 0.2784.../b, and centred.

    The shortfall is one-sided, so half of it added to the result halves the error, and the
    coldness is 0.1392.../error. One head; see `rectifier_head` for the proof.
    """
    coldness = _short_above(softmax_gap(2) / (2 * error))
    short = softmax_gap(2) / coldness
    maker = program.gate(form, form, coldness=coldness, node=node, gain=1.0)
    row = program.row()
    program.write(row, maker, 1)
    return Made(Form.of_row(row).plus(short / 2), inflate(short / 2, 4))


def relu_by_unit(program: Program, node: int, form: Form, error: float) -> Made:
    """max(z, 0) exactly, by one hidden unit."""
    maker = program.unit(form, node=node, gain=1.0)
    row = program.row()
    program.write(row, maker, 1)
    return Made(Form.of_row(row), 0.0)


def maximum_by_tree(
    program: Program, node: int, forms: Sequence[Form], error: float, rectify: Rectify
) -> Made:
    """A tournament: max(a, b) = b + relu(a - b), ceil(log2 n) layers.

    A maximum errs no more than the worse of its arguments, so errors add up along the depth and
    not over the matches: each round has error/depth.
    """
    depth = max((len(forms) - 1).bit_length(), 1)
    round_error, entrants = error / depth, [Made(form, 0.0) for form in forms]
    while len(entrants) > 1:
        pairs = [entrants[i : i + 2] for i in range(0, len(entrants), 2)]
        entrants = [
            pair[0] if len(pair) == 1 else _match(program, node, pair, round_error, rectify)
            for pair in pairs
        ]
    return entrants[0]


def _match(program: Program, node: int, pair: list[Made], error: float, rectify: Rectify) -> Made:
    a, b = pair
    lead = Form.combination([(1, a.form), (-1, b.form)])
    won = rectify(program, node, lead, error)
    form = Form.combination([(1, b.form), (1, won.form)])
    return Made(form, max(a.error, b.error) + won.error)


def maximum_by_head(
    program: Program, node: int, forms: Sequence[Form], error: float, tokens: int
) -> Made:
    """The maximum of n affine functions of the input by one head over n tokens.

    Token j holds the j-th function; it scores what it holds. The softmax mean falls short of the
    maximum by at most W((n-1)/e)/b (`softmax_gap`), attained when all losers sit
    (1 + W((n-1)/e))/b below the winner; half of that is added back.
    """
    table = np.stack([_over_inputs(program, form) for form in forms])
    table = np.concatenate([table, np.repeat(table[-1:], tokens - len(table), axis=0)])
    coldness = _short_above(softmax_gap(tokens) / (2 * error))
    short = softmax_gap(tokens) / coldness
    ends = table_ends(program, table)
    held = float(ends[0].max()) - short, float(ends[1].max())
    query = (Form.of_number(1),)
    maker = program.choose(
        Chooser(0, query, (table,), table, coldness, node, 1.0, ends, held, contest=True)
    )
    row = program.row()
    program.write(row, maker, 1)
    return Made(Form.of_row(row).plus(short / 2), inflate(short / 2, 4))


def is_of_inputs(program: Program, form: Form) -> bool:
    """Whether a form is an affine function of the inputs, held by no head."""
    return all(not program.rows[row].writes for row in form.terms)


def _over_inputs(program: Program, form: Form) -> np.ndarray:
    weights = [Fraction(0)] * program.domain.dimension
    constant = form.constant
    for row, factor in form.terms.items():
        constant += factor * program.rows[row].offset
        for i, weight in program.rows[row].inputs.items():
            weights[i] += factor * weight
    return np.array([float(w) for w in (*weights, constant)])


def table_ends(program: Program, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The smallest and the largest value of every token's entry over the domain."""
    low, high = program.domain.low, program.domain.high
    positive, negative = np.maximum(table[:, :-1], 0.0), np.minimum(table[:, :-1], 0.0)
    least = positive @ low + negative @ high + table[:, -1]
    return least, positive @ high + negative @ low + table[:, -1]


def _short_above(number: float) -> float:
    """A float of few bits, at most 0.1% above."""
    mantissa, exponent = np.frexp(number)
    return float(np.ldexp(np.ceil(mantissa * 2**12) / 2**12, exponent))
