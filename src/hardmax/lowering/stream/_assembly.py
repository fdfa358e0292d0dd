"""From a program to weights."""

from __future__ import annotations

import numpy as np

from hardmax.core import (
    Attention,
    FeedForward,
    Head,
    ReadOut,
    Softmax,
    Sublayer,
    Transformer,
    VectorInput,
)
from hardmax.lowering.stream._arrangement import Arrangement, ChooserHead, GateHead
from hardmax.lowering.stream._form import Form
from hardmax.lowering.stream._program import Chooser, Gate, Unit

SINK = 0


def assemble(arrangement: Arrangement) -> Transformer:
    """Every number of the program as a weight, rounded once to float64."""
    sublayers: list[Sublayer] = []
    for stage in arrangement.stages:
        if stage in arrangement.heads:
            sublayers.append(Attention(_head(arrangement, h) for h in arrangement.heads[stage]))
        else:
            sublayers.append(_feed_forward(arrangement, arrangement.units[stage]))
    outputs = arrangement.program.outputs
    weights = np.stack([_linear(arrangement, form) for form in outputs])
    bias = np.array([float(form.constant) for form in outputs])
    return Transformer(_prompt(arrangement), sublayers, ReadOut(weights, bias, arrangement.data))


def _prompt(a: Arrangement) -> VectorInput:
    inputs = a.program.domain.dimension
    maps, offsets = np.zeros((a.tokens, a.width, inputs)), np.zeros((a.tokens, a.width))
    for r, c in a.coordinate.items():
        row = a.program.rows[r]
        offsets[a.data, c] = float(row.offset)
        for i, weight in row.inputs.items():
            maps[a.data, c, i] = float(weight)
    for number, table in enumerate(a.tables):
        c = len(a.coordinate) + number
        whole = table[np.minimum(np.arange(a.tokens), len(table) - 1)]
        maps[:, c], offsets[:, c] = whole[:, :-1], whole[:, -1]
    for c, mean in sink_means(a).items():
        maps[SINK, c], offsets[SINK, c] = -mean[:-1], -mean[-1]
    if a.flag is not None:
        offsets[SINK, a.flag], offsets[a.data, a.flag] = -0.5, 0.5
    if a.one is not None:
        offsets[a.data, a.one] = 1.0
    return VectorInput(maps, offsets)


def sink_means(a: Arrangement) -> dict[int, np.ndarray]:
    """What choosers will add to the sink's rows, which must stay 0 for the gates.

    The sink asks a chooser nothing (its rows and its flag `one` are 0), so every score is 0 and it
    receives the plain mean of the values: an affine function of the input, known beforehand.
    """
    means: dict[int, np.ndarray] = {}
    if a.flag is None:
        return means
    for r, c in a.coordinate.items():
        for m, weight in a.program.rows[r].writes.items():
            maker = a.program.makers[m]
            if isinstance(maker, Chooser):
                share = float(weight) * maker.values.mean(axis=0)
                means[c] = means.get(c, np.zeros_like(share)) + share
    return means


def _linear(a: Arrangement, form: Form) -> np.ndarray:
    row = np.zeros(a.width)
    for r, weight in form.terms.items():
        row[a.coordinate[r]] = float(weight)
    return row


def _query(a: Arrangement, form: Form) -> np.ndarray:
    """A form as the data token asks it: its constant comes from the flag, 1/2 there."""
    row = _linear(a, form)
    if form.constant:
        assert a.flag is not None
        row[a.flag] = 2.0 * float(form.constant)
    return row


def _value(a: Arrangement, form: Form) -> np.ndarray:
    """A form that is 0 on the sink."""
    row = _linear(a, form)
    if form.constant:
        assert a.one is not None
        row[a.one] = float(form.constant)
    return row


def _written(a: Arrangement, maker: int) -> np.ndarray:
    column = np.zeros(a.width)
    for r, c in a.coordinate.items():
        weight = a.program.rows[r].writes.get(maker)
        if weight is not None:
            column[c] = float(weight)
    return column


def _head(a: Arrangement, head: GateHead | ChooserHead) -> Head:
    makers = a.program.makers
    if isinstance(head, GateHead):
        gates = [makers[m] for m in head.members]
        first = gates[0]
        assert isinstance(first, Gate)
        assert a.flag is not None
        key = np.zeros((1, a.width))
        key[0, a.flag] = 1.0
        return Head(
            query=_query(a, first.gate)[None],
            key=key,
            value=np.stack([_value(a, g.value) for g in gates if isinstance(g, Gate)]),
            output=np.stack([_written(a, m) for m in head.members], axis=1),
            weighting=Softmax(first.coldness),
            causal=True,
        )
    chooser = makers[head.member]
    assert isinstance(chooser, Chooser)
    key = np.zeros((len(head.keys), a.width))
    key[np.arange(len(head.keys)), list(head.keys)] = 1.0
    value = np.zeros((1, a.width))
    value[0, head.value] = 1.0
    return Head(
        query=np.stack([_value(a, form) for form in chooser.query]),
        key=key,
        value=value,
        output=_written(a, head.member)[:, None],
        weighting=Softmax(chooser.coldness),
    )


def _feed_forward(a: Arrangement, units: list[int]) -> FeedForward:
    makers = [a.program.makers[m] for m in units]
    values = [maker.value for maker in makers if isinstance(maker, Unit)]
    return FeedForward(
        np.stack([_linear(a, form) for form in values]),
        np.array([float(form.constant) for form in values]),
        np.stack([_written(a, m) for m in units], axis=1),
        np.zeros(a.width),
    )
