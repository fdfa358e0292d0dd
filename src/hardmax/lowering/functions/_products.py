"""Products and squares by warm heads: the softmax is used for what it natively is."""

from __future__ import annotations

from fractions import Fraction

from hardmax.lowering.approximants import identity_by_tanh, square_by_tanh
from hardmax.lowering.functions._made import Made, Pair, centred
from hardmax.lowering.stream import Form, Program, attention_after
from hardmax.numerics import above_float


def product_by_gates(
    program: Program,
    node: int,
    forms: tuple[Form, Form],
    ranges: tuple[Pair, Pair],
    heads: int,
    error: float,
) -> Made:
    """a b in one layer of 1, 2 or 3 heads.

    Write a = m + r x and b = n + s y with |x|, |y| <= 1. Then a b = r s x y + n a + m b - m n,
    where all but the first term is affine and free. A row is preloaded with -k s y; head i, whose
    value is minus that row and whose weight on itself is sigmoid(b_i x), adds
    share_i k s y sigmoid(b_i x). The shares add up to 2, so the row becomes

        k s y (sum_i share_i sigmoid(b_i x) - 1) = s y sum_i (share_i k/2) tanh(b_i x/2),

    and `identity_by_tanh` says how close the sum is to r x. Error r s times that; for one head
    r s b^2/48. One layer; width: one row for the gate, one for the product, one flag: b needs no
    row of its own, because its only reader reads the row that was preloaded with it.
    """
    (a, b), (m, r), (n, s) = forms, centred(ranges[0]), centred(ranges[1])
    fit = identity_by_tanh(heads, _rounded_down(error / float(r * s)))
    x, y = a.plus(-m).times(1 / r), b.plus(-n)
    row = _scaled_in_place(program, node, x, y.times(r), fit.scale, fit.coldness, fit.shares)
    program.view(b, row.times(-1 / (r * Fraction(fit.scale))).plus(n))
    form = Form.combination([(1, row), (n, a), (m, b)], -m * n)
    return Made(form, above_float(r * s * Fraction(fit.error)))


def square_by_gates(
    program: Program, node: int, form: Form, range: Pair, heads: int, error: float
) -> Made:
    """a^2 in one layer: as a product with itself, but the even remainder is spread by T_(2H+2).

    With a = m + r x: a^2 = r^2 x^2 + 2 m a - m^2, and x^2 = constant + x sum_i k_i tanh(b_i x/2)
    to within `square_by_tanh`; for one head r^2 b^2/96.
    """
    m, r = centred(range)
    fit = square_by_tanh(heads, _rounded_down(error / float(r * r)))
    x = form.plus(-m).times(1 / r)
    value = form.plus(-m).times(r)
    row = _scaled_in_place(program, node, x, value, fit.scale, fit.coldness, fit.shares)
    result = Form.combination([(1, row), (2 * m, form)], r * r * Fraction(fit.constant) - m * m)
    return Made(result, above_float(r * r * Fraction(fit.error)))


def _scaled_in_place(
    program: Program,
    node: int,
    gate: Form,
    value: Form,
    scale: float,
    coldness: tuple[float, ...],
    shares: tuple[float, ...],
) -> Form:
    row = program.row(value.times(-Fraction(scale)))
    stage = attention_after(program.ready(gate, value))
    own = Form.of_row(row).times(-1)
    for cold, share in zip(coldness, shares, strict=True):
        maker = program.gate(gate, own, coldness=cold, node=node, gain=abs(share), stage=stage)
        program.write(row, maker, share)
    return Form.of_row(row)


def _rounded_down(error: float) -> float:
    """To two digits, so that equal requests find the fit in the cache."""
    digits = f"{error:.2e}"
    return float(digits) if float(digits) <= error else float(digits) * 0.989
