"""Maxima by attention over one token per piece; feed-forward layers write the next pieces."""

from __future__ import annotations

from hardmax.core import Attention, Box, Holding, ReadOut, Steps, Sublayer, Transformer, Witness
from hardmax.lowering.gadgets import GatedPiece, gated_pieces, maximum_head
from hardmax.lowering.networks._layout import Prompt
from hardmax.lowering.networks._max_layers import MaxLayer, max_stack
from hardmax.lowering.networks._max_stream import MaxStream, roomy
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
    prompt = stream.prompt()
    prompt.offsets[:, stream.one] = 1.0
    sublayers: list[Sublayer] = []
    holdings: list[Holding] = []
    for depth, layer in enumerate(stack.layers):
        if depth:
            bounds = [roomy(unit.linear.magnitude.max()) for unit in layer.units]
            sublayers.append(_pieces(stream, depth, layer, bounds))
            _fill(stream, prompt, depth, layer, bounds)
        holdings += stream.piece_holdings(depth, after=len(sublayers) - 1)
        sublayers.append(
            Attention(
                maximum_head(stream.width, read=u, write=y, one=stream.one)
                for u, y in zip(stream.u[depth], stream.y[depth], strict=True)
            )
        )
        holdings += stream.maximum_holdings(depth, after=len(sublayers) - 1)
    readout = ReadOut(stream.read_last(stack.weights), stack.bias, 0)
    return Transformer(prompt.input(), sublayers, readout), Witness(holdings)


def _pieces(stream: MaxStream, depth: int, layer: MaxLayer, bounds: list[float]) -> Sublayer:
    pieces = [
        GatedPiece(unit.weights[j], int(slot), stream.codes[j], bound)
        for unit, slot, bound in zip(layer.units, stream.u[depth], bounds, strict=True)
        for j in range(unit.rank)
    ]
    return gated_pieces(stream.width, read=stream.y[depth - 1], pieces=pieces)


def _fill(
    stream: MaxStream, prompt: Prompt, depth: int, layer: MaxLayer, bounds: list[float]
) -> None:
    """Biases on the tokens that have a piece; elsewhere -bound is left, lowered if need be."""
    for unit, slot, bound in zip(layer.units, stream.u[depth], bounds, strict=True):
        prompt.offsets[: unit.rank, slot] = unit.biases
        lower = down(unit.low + bound)
        prompt.offsets[unit.rank :, slot] = min(0.0, lower)
