"""Stacks of maxima as attention alone: maxima over tokens, then one switched head per piece."""

from __future__ import annotations

import numpy as np

from hardmax.core import Attention, Box, Holding, ReadOut, Steps, Sublayer, Transformer, Witness
from hardmax.lowering.gadgets import maximum_head, switched_map_head
from hardmax.lowering.networks._max_layers import MaxLayer, max_stack
from hardmax.lowering.networks._max_stream import MaxStream, roomy
from hardmax.lowering.networks._max_to_attention import max_to_attention


def max_to_attention_only(steps: Steps, domain: Box) -> tuple[Transformer, Witness]:
    """One token per piece and a null token; two attention layers per layer of maxima.

    `maximum_head` writes y_i = max_j u_ij into every data token and leaves the null token empty.
    Then head j (`switched_map_head`) adds the matrix of the pieces number j to the slots of the
    next layer on token j alone; those slots hold the biases. Exact in the hard semantics on the
    domain.

    Against the construction that spends a head on every pair (unit, piece), 4-16-16-1 of rank 4
    needs 41 heads instead of 132 and 1.2 times the network's weights instead of 1.52, for five
    attention layers instead of three. Nonzero weights besides the network's own: 5 a unit, k times
    the inputs of every layer after the first, and about (k + 1)(k + 2) for codes.
    A single layer of maxima needs neither null token nor feed-forward layer (`max_to_attention`).
    """
    stack = max_stack(steps, domain)
    if len(stack.layers) == 1:
        return max_to_attention(steps, domain)
    stream = MaxStream(stack, codes=True, null=True)
    prompt = stream.prompt()
    prompt.offsets[:, stream.one] = 1.0
    prompt.offsets[stream.null, stream.one] = -1.0
    prompt.offsets[stream.null, stream.null_flag] = 1.0
    sublayers: list[Sublayer] = []
    holdings: list[Holding] = []
    for depth, layer in enumerate(stack.layers):
        if depth:
            sublayers.append(_switched_maps(stream, depth, layer))
            for unit, slot in zip(layer.units, stream.u[depth], strict=True):
                prompt.offsets[: unit.rank, slot] = unit.biases
                prompt.offsets[unit.rank : stream.null, slot] = unit.low
        holdings += stream.piece_holdings(depth, after=len(sublayers) - 1)
        sublayers.append(_maxima(stream, depth, layer))
        holdings += stream.maximum_holdings(depth, after=len(sublayers) - 1)
    readout = ReadOut(stream.read_last(stack.weights), stack.bias, 0)
    return Transformer(prompt.input(), sublayers, readout), Witness(holdings)


def _maxima(stream: MaxStream, depth: int, layer: MaxLayer) -> Sublayer:
    return Attention(
        maximum_head(
            stream.width,
            read=u,
            write=y,
            one=stream.one,
            null=stream.null_flag,
            handicap=roomy(unit.pieces.magnitude.max()),
        )
        for unit, u, y in zip(layer.units, stream.u[depth], stream.y[depth], strict=True)
    )


def _switched_maps(stream: MaxStream, depth: int, layer: MaxLayer) -> Sublayer:
    heads = []
    for token in range(layer.rank):
        write = np.zeros((stream.width, len(stream.y[depth - 1])))
        for unit, slot in zip(layer.units, stream.u[depth], strict=True):
            if token < unit.rank:
                write[slot] = unit.weights[token]
        heads.append(
            switched_map_head(
                stream.width,
                read=stream.y[depth - 1],
                write=write,
                code=stream.codes[token],
                one=stream.one,
            )
        )
    return Attention(heads)
