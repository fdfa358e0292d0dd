"""CPWL functions as attention alone, one head over {itself, a sink} for each comparison."""

from __future__ import annotations

import numpy as np

from hardmax.core import Attention, Box, Head, Holding, ReadOut, Sublayer, Transformer, Witness
from hardmax.languages import MaxAffine, PiecewiseLinear
from hardmax.lowering.gadgets import rectifier_head
from hardmax.lowering.networks._layout import Layout, Prompt
from hardmax.lowering.networks._max_layers import max_stack
from hardmax.lowering.networks._relu_stream import DATA


def max_to_rectifiers(
    source: PiecewiseLinear | MaxAffine, domain: Box
) -> tuple[Transformer, Witness]:
    """A knock-out tournament of ReLU heads on one data token.

    Every affine piece starts in a slot of its own. One head turns the slot of a into
    a + relu(b - a) = max(a, b), in place; pairs are independent, so ceil(log2 k) attention layers
    leave the maximum of k pieces in one slot. Differences are taken between slots, never between
    weights, so the hard semantics is exact. k - 1 heads and 6 nonzero weights each.

    Soft error: max is 1-Lipschitz in the largest deviation, so each round adds
    `softmax_gap(2)`/beta, ceil(log2 k) times in all, and not once for every head.
    """
    stack = max_stack(source, domain)
    (layer,) = stack.layers
    layout = Layout()
    slots = [layout.slots(unit.rank) for unit in layer.units]
    flag = layout.slot()
    prompt = Prompt(2, layout.width, stack.inputs)
    prompt.offsets[:, flag] = (-0.5, 0.5)
    for unit, places in zip(layer.units, slots, strict=True):
        prompt.place(DATA, places, unit.weights, unit.biases)
    standing = [
        [(int(slot), [int(c)]) for slot, c in zip(places, unit.components, strict=True)]
        for unit, places in zip(layer.units, slots, strict=True)
    ]
    holdings = [_holding(-1, layer.affine_value, standing)]
    sublayers: list[Sublayer] = []
    while max(len(group) for group in standing) > 1:
        heads = [
            _comparison(layout.width, winner=a[0], rival=b[0], flag=flag)
            for group in standing
            for a, b in zip(group[::2], group[1::2], strict=False)
        ]
        sublayers.append(Attention(heads))
        standing = [_next_round(group) for group in standing]
        holdings.append(_holding(len(sublayers) - 1, layer.affine_value, standing))
    weights = np.zeros((1, layout.width))
    weights[0, [group[0][0] for group in standing]] = stack.weights[0]
    readout = ReadOut(weights, stack.bias, DATA)
    return Transformer(prompt.input(), sublayers, readout), Witness(holdings)


def _comparison(width: int, *, winner: int, rival: int, flag: int) -> Head:
    column = np.zeros(width)
    column[winner] = 1.0
    return rectifier_head(width, read={rival: 1.0, winner: -1.0}, flag=flag, write=column)


def _next_round(group: list[tuple[int, list[int]]]) -> list[tuple[int, list[int]]]:
    return [
        (group[i][0], group[i][1] + (group[i + 1][1] if i + 1 < len(group) else []))
        for i in range(0, len(group), 2)
    ]


def _holding(after: int, value: int, standing: list[list[tuple[int, list[int]]]]) -> Holding:
    """Each standing slot holds the maximum of the pieces it has met so far."""
    entries = [entry for group in standing for entry in group]
    longest = max(len(components) for _, components in entries)
    table = [components + [-1] * (longest - len(components)) for _, components in entries]
    slots = np.array([slot for slot, _ in entries])
    return Holding(after, DATA, slots, value, np.array(table), np.zeros(()))
