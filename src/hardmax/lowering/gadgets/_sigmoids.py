"""Sigmoids: a softmax over {data, sink} is one natively, and sums of them are smooth functions."""

from __future__ import annotations

from hardmax.lowering.approximants import SigmoidSum
from hardmax.lowering.gadgets._site import Approximation, Site
from hardmax.lowering.sketch import BoxForm, attention_from, exact_form


def curve_by_sigmoids(
    site: Site,
    fit: SigmoidSum,
    argument: BoxForm,
    factor: BoxForm | None = None,
    factor_size: float = 1.0,
) -> Approximation:
    """offset + slope x + sum_h (c_h + d_h x) sigmoid(w_h x + b_h): one head a term, one layer.

    A softmax over {data, sink} is a sigmoid of the score difference, natively; the head's value is
    the flag 1, or an affine function of x. With a `factor` y the value is y instead, and the layer
    computes y f(x) at once (the fit must then have d = slope = 0): a quotient costs no product.
    """
    if factor is None:
        preload = argument * fit.slope + fit.offset
        values = [argument * term.slope + term.constant for term in fit.terms]
    else:
        preload = factor * fit.offset
        values = [factor * term.constant for term in fit.terms]
    sketch = site.sketch
    sublayer = attention_from(sketch.ready(argument, *([] if factor is None else [factor])))
    register = sketch.register(preload)
    for term, value in zip(fit.terms, values, strict=True):
        gate = argument * term.steepness + term.shift
        maker = sketch.gate(gate, value, coldness=1.0, node=site.node, gain=1.0, sublayer=sublayer)
        sketch.write(register, maker, 1)
    return Approximation(exact_form(0, register), fit.error * factor_size)


def sigmoid_by_gate(
    site: Site, argument: BoxForm, factor: BoxForm | None = None, *, is_tanh: bool
) -> Approximation:
    """sigmoid(x), or tanh(x) = 2 sigmoid(2 x) - 1, times a factor, by one head without error."""
    double = 2 if is_tanh else 1
    value = exact_form(1) if factor is None else factor
    maker = site.sketch.gate(argument, value, coldness=double, node=site.node, gain=double)
    register = site.sketch.register(None if factor is None else factor * (1 - double))
    site.sketch.write(register, maker, double)
    return Approximation(exact_form(1 - double if factor is None else 0, register), 0.0)
