"""Smooth functions of one argument: piecewise linear by heads or units, or sums of sigmoids."""

from __future__ import annotations

from fractions import Fraction

from hardmax.lowering.approximants import (
    Curve,
    PiecewiseFit,
    SigmoidSum,
    coldness_for,
    fit_knots,
    softening,
)
from hardmax.lowering.functions._made import Made
from hardmax.lowering.stream import Form, Program, attention_after, feed_forward_after

SOFT_SHARE = 0.12  # of a soft piecewise linear function's error: pieces are dearer than coldness


def curve_by_soft_pieces(
    program: Program, node: int, curve: Curve, argument: Form, error: float, most: int
) -> Made:
    """The best free-knot piecewise linear function, every kink one soft ReLU head, one layer.

    f is within the fit's error of a + b x + sum c_i relu(x - t_i), and replacing every
    relu(z) by z sigmoid(coldness z) moves that by at most `softening`, centred. The affine part
    is free, so N pieces are N - 1 heads.
    """
    fit = fit_knots(curve, (1 - SOFT_SHARE) * error, most=most)
    return soft_pieces(program, node, fit, argument, error)


def soft_pieces(
    program: Program, node: int, fit: PiecewiseFit, argument: Form, error: float
) -> Made:
    """A piecewise linear fit by soft heads, cold enough for the error that the fit leaves."""
    coldness = coldness_for(fit, error - fit.error)
    loss = softening(fit, coldness)
    stage = attention_after(program.ready(argument))
    row = program.row(_first_piece(fit, argument))
    for knot, kink in _kinks(fit):
        z = argument.plus(-knot)
        maker = program.gate(z, z, coldness=coldness, node=node, gain=abs(float(kink)), stage=stage)
        program.write(row, maker, kink)
    form = Form.of_row(row).plus(loss.shift)
    return Made(form, fit.error + loss.centred, softening=loss.centred)


def curve_by_units(program: Program, node: int, curve: Curve, argument: Form, error: float) -> Made:
    """The same piecewise linear function, exactly, by one feed-forward layer of N - 1 units."""
    return hard_pieces(program, node, fit_knots(curve, error), argument)


def hard_pieces(program: Program, node: int, fit: PiecewiseFit, argument: Form) -> Made:
    """A piecewise linear fit by hidden units."""
    stage = feed_forward_after(program.ready(argument))
    row = program.row(_first_piece(fit, argument))
    for knot, kink in _kinks(fit):
        gain = abs(float(kink))
        maker = program.unit(argument.plus(-knot), node=node, gain=gain, stage=stage)
        program.write(row, maker, kink)
    return Made(Form.of_row(row), fit.error)


def curve_by_sigmoids(
    program: Program,
    node: int,
    fit: SigmoidSum,
    argument: Form,
    factor: Form | None = None,
    factor_size: float = 1.0,
) -> Made:
    """offset + slope x + sum_h (c_h + d_h x) sigmoid(w_h x + b_h): one head a term, one layer.

    A softmax over {data, sink} is a sigmoid of the score difference, natively; the head's value is
    the flag 1, or an affine function of x. With a `factor` y the value is y instead, and the layer
    computes y f(x) at once (the fit must then have d = slope = 0): a quotient costs no product.
    """
    if factor is None:
        preload = argument.times(fit.slope).plus(fit.offset)
        values = [argument.times(term.slope).plus(term.constant) for term in fit.terms]
    else:
        preload = factor.times(fit.offset)
        values = [factor.times(term.constant) for term in fit.terms]
    stage = attention_after(program.ready(argument, *([] if factor is None else [factor])))
    row = program.row(preload)
    for term, value in zip(fit.terms, values, strict=True):
        gate = argument.times(term.steepness).plus(term.shift)
        maker = program.gate(gate, value, coldness=1.0, node=node, gain=1.0, stage=stage)
        program.write(row, maker, 1)
    return Made(Form.of_row(row), fit.error * factor_size)


def _first_piece(fit: PiecewiseFit, argument: Form) -> Form:
    slope = _slopes(fit)[0]
    return (
        argument.plus(-Fraction(float(fit.knots[0])))
        .times(slope)
        .plus(Fraction(float(fit.values[0])))
    )


def _slopes(fit: PiecewiseFit) -> list[Fraction]:
    knots = [Fraction(float(t)) for t in fit.knots]
    values = [Fraction(float(v)) for v in fit.values]
    return [(values[i + 1] - values[i]) / (knots[i + 1] - knots[i]) for i in range(len(knots) - 1)]


def _kinks(fit: PiecewiseFit) -> list[tuple[Fraction, Fraction]]:
    """(knot, change of slope) at each inner knot."""
    slopes = _slopes(fit)
    return [
        (Fraction(float(fit.knots[i + 1])), slopes[i + 1] - slopes[i])
        for i in range(len(slopes) - 1)
        if slopes[i + 1] != slopes[i]
    ]
