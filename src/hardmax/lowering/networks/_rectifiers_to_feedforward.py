"""A piecewise linear network inside the feed-forward part: the honest baseline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from hardmax.core import Box, Steps, Transformer, Witness
from hardmax.lowering.networks._rectifier_stream import RectifierStream
from hardmax.lowering.networks._rectifiers import (
    Held,
    Input,
    RectifierForm,
    Sums,
    units_read,
)
from hardmax.lowering.networks._steps_to_rectifiers import rectifier_form
from hardmax.lowering.sketch import Column, Form, PromptForm, PromptRegister, PromptUnit, UnitSketch


def rectifiers_to_feedforward(steps: Steps, domain: Box) -> tuple[Transformer, Witness]:
    """One token, no attention: the rectifiers of level l are hidden units of block l.

    The token starts as the input itself. Block 0 of a ReLU network computes relu(W_1 x + b_1) and
    adds W_2 relu(...) to slots that hold b_2; block l > 0 copies those slots into its hidden
    layer, where the ReLU acts, and adds the weights of all units that read it times the result.
    A unit that is read as it is passes as relu(z) - relu(-z) (relu(z) if it is never negative).
    Exact over the reals on the domain, hard or soft alike: there is nothing to soften.

    Nonzero weights of a ReLU network: its own, one per input, one per neuron of the hidden layers
    after the first, one per output.
    """
    form = rectifier_form(steps, domain)
    first = [sums for sums in form.sums if _is_rectified_at_once(form, sums)]
    stream = RectifierStream(form, sink=False, unstored=first)
    x = stream.x
    holdings = [stream.sketch.holding(0, x, 0, np.arange(len(x)))] if x else []
    holdings += stream.holdings(0)
    for level in range(form.depth):
        stream.sketch.feed(list(_hidden_units(stream, first, level)))
        holdings += stream.holdings(level + 1)
    return stream.transformer(), Witness(holdings)


def _is_rectified_at_once(form: RectifierForm, sums: Sums) -> bool:
    """Whether affine functions of the inputs are read by rectifiers alone: they need no slots."""
    if sums.level or not all(isinstance(term, Input) for term in sums.terms):
        return False
    own = set(sums.units.tolist())
    if own.intersection(form.answer.units.tolist()):
        return False
    terms = (term for other in form.sums for _, term in form.live_terms(other))
    return all(
        form.nonnegative[term.unit] if isinstance(term, Held) else term.alone is not None
        for term in terms
        if not isinstance(term, Input) and own.intersection(units_read(term))
    )


def _hidden_units(stream: RectifierStream, first: list[Sums], level: int) -> Iterator[PromptUnit]:
    unstored = {unit: (sums, row) for sums in first for row, unit in enumerate(sums.units.tolist())}
    for addend in stream.addends(level):
        unit = addend.term.unit if isinstance(addend.term, Held) else addend.term.alone
        if unit in unstored:
            inner = _of_inputs(stream, *unstored[unit])
        else:
            inner = stream.reading(addend.term)
        yield UnitSketch("", inner, addend.column)
        if isinstance(addend.term, Held) and not stream.form.nonnegative[addend.term.unit]:
            yield UnitSketch("", Form(_opposite(inner.terms)), _opposite(addend.column))


def _opposite(weights: Mapping[PromptRegister, float]) -> Column:
    return {register: -weight for register, weight in weights.items()}


def _of_inputs(stream: RectifierStream, sums: Sums, row: int) -> PromptForm:
    inputs = [stream.x[term.index] for term in sums.terms if isinstance(term, Input)]
    weights = sums.weights[row].tolist()
    return Form(dict(zip(inputs, weights, strict=True)), float(sums.bias[row]))
