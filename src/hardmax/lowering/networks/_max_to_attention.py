"""Maxima by attention over one token per piece; feed-forward layers write the next pieces."""

from __future__ import annotations

from hardmax.core import Box, Holding, Steps, Transformer, Witness
from hardmax.lowering.gadgets import GatedPiece, gated_pieces, maximum_head
from hardmax.lowering.networks._max_layers import MaxLayer, max_stack
from hardmax.lowering.networks._max_stream import MaxStream, roomy
from hardmax.lowering.sketch import Column, PromptUnit
from hardmax.numerics import down


def max_to_attention(steps: Steps, domain: Box) -> tuple[Transformer, Witness]:
    """One token per piece, one head per unit, one feed-forward layer between two layers of maxima.

    Token j holds piece j of unit i in slot u_i; the head of unit i (`maximum_head`) writes
    y_i = max_j u_ij into every token. The embedding writes the first layer's pieces, a
    `gated_pieces` layer the later ones, into slots that hold the piece's bias on its token. A
    unit with fewer pieces than tokens holds, on the tokens left over, a number that is never
    above its maximum. The read-out is the identity, the last affine layer, or the difference of
    two maxima.

    Exact in the hard semantics on the domain. Nonzero weights besides the network's own: 4 a unit,
    and after the first layer 2 a piece and 1 a unit more; k (k + 1) for the codes of k tokens.
    """
    stack = max_stack(steps, domain)
    stream = MaxStream(stack, codes=len(stack.layers) > 1)
    holdings: list[Holding] = []
    for depth, layer in enumerate(stack.layers):
        if depth:
            bounds = [roomy(unit.linear.magnitude.max()) for unit in layer.units]
            stream.sketch.feed(*_pieces(stream, depth, layer, bounds))
            _fill(stream, depth, layer, bounds)
        holdings += stream.piece_holdings(depth)
        stream.sketch.attend(
            [
                maximum_head(u, y, one=stream.one)
                for u, y in zip(stream.u[depth], stream.y[depth], strict=True)
            ]
        )
        holdings += stream.maximum_holdings(depth)
    return stream.transformer(), Witness(holdings)


def _pieces(
    stream: MaxStream, depth: int, layer: MaxLayer, bounds: list[float]
) -> tuple[list[PromptUnit], Column]:
    pieces = [
        GatedPiece(unit.weights[j], register, stream.codes[j], bound)
        for unit, register, bound in zip(layer.units, stream.u[depth], bounds, strict=True)
        for j in range(unit.rank)
    ]
    return gated_pieces(stream.y[depth - 1], pieces)


def _fill(stream: MaxStream, depth: int, layer: MaxLayer, bounds: list[float]) -> None:
    """Biases on the tokens that have a piece; elsewhere -bound is left, lowered if need be."""
    for unit, register, bound in zip(layer.units, stream.u[depth], bounds, strict=True):
        register.start[: unit.rank, -1] = unit.biases
        register.start[unit.rank :, -1] = min(0.0, down(unit.low + bound))
