"""Stacks of maxima as attention alone: maxima over tokens, then one switched head per piece."""

from __future__ import annotations

from hardmax.core import Box, Holding, Steps, Transformer, Witness
from hardmax.lowering.gadgets import maximum_head, switched_map_head
from hardmax.lowering.networks._max_layers import MaxLayer, max_stack
from hardmax.lowering.networks._max_stream import MaxStream, roomy
from hardmax.lowering.networks._max_to_attention import max_to_attention
from hardmax.lowering.sketch import Column, PromptHead


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
    holdings: list[Holding] = []
    for depth, layer in enumerate(stack.layers):
        if depth:
            stream.sketch.attend(_switched_maps(stream, depth, layer))
            for unit, register in zip(layer.units, stream.u[depth], strict=True):
                register.start[: unit.rank, -1] = unit.biases
                register.start[unit.rank : stream.data, -1] = unit.low
        holdings += stream.piece_holdings(depth)
        stream.sketch.attend(_maxima(stream, depth, layer))
        holdings += stream.maximum_holdings(depth)
    return stream.transformer(), Witness(holdings)


def _maxima(stream: MaxStream, depth: int, layer: MaxLayer) -> list[PromptHead]:
    return [
        maximum_head(
            u,
            y,
            one=stream.one,
            null=stream.null_flag,
            handicap=roomy(unit.pieces.magnitude.max()),
        )
        for unit, u, y in zip(layer.units, stream.u[depth], stream.y[depth], strict=True)
    ]


def _switched_maps(stream: MaxStream, depth: int, layer: MaxLayer) -> list[PromptHead]:
    heads = []
    for token in range(layer.rank):
        columns: list[Column] = [{} for _ in stream.y[depth - 1]]
        for unit, register in zip(layer.units, stream.u[depth], strict=True):
            if token < unit.rank:
                for column, weight in zip(columns, unit.weights[token].tolist(), strict=True):
                    column[register] = weight
        heads.append(
            switched_map_head(
                stream.y[depth - 1], columns, code=stream.codes[token], one=stream.one
            )
        )
    return heads
