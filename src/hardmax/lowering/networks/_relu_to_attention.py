"""A ReLU network with attention for the maxima and feed-forward layers for the affine maps."""

from __future__ import annotations

import numpy as np

from hardmax.core import Attention, Box, FeedForward, Sublayer, Transformer, Witness
from hardmax.languages import ReluNetwork
from hardmax.lowering.gadgets import rectifier_head
from hardmax.lowering.networks._activity import activity
from hardmax.lowering.networks._relu_stream import ReluStream
from hardmax.lowering.networks._relu_to_attention_only import layer_heads


def relu_to_attention(network: ReluNetwork, domain: Box) -> tuple[Transformer, Witness]:
    """Attention turns z into max(z, 0) in place; the feed-forward layer is affine on what results.

    A head that reads -z and adds relu(-z) to the slot of z leaves z + relu(-z) = relu(z) there,
    so no second slot is needed. The feed-forward layer then reads h = relu(z) >= 0, on which its
    own ReLU is the identity, and adds W h to the next slots, which hold the bias. On the sink
    h = 0 and nothing is added. Neurons that are never negative need no head.

    The last hidden layer has no affine layer after it but the read-out's: its heads carry the last
    weights in their output columns (as in the attention-only route), which saves two weights a
    neuron. Exact in the hard semantics on the whole domain. Nonzero weights: the network's own,
    5 per switching neuron (1 per passing one), 3 in the last hidden layer.
    """
    layers = activity(network, domain)
    stream = ReluStream(network, layers)
    sublayers: list[Sublayer] = []
    holdings = [stream.holding(0, after=-1)]
    for depth in range(len(layers) - 1):
        sublayers += _rectify_in_place(stream, depth)
        holdings.append(stream.holding(depth, after=len(sublayers) - 1, rectified=True))
        sublayers += _affine(stream, depth)
        holdings.append(stream.holding(depth + 1, after=len(sublayers) - 1))
    if layers:
        heads = layer_heads(stream, len(layers) - 1)
        sublayers += [Attention(heads)] if heads else []
        holdings.append(stream.holding(len(layers), after=len(sublayers) - 1))
    return stream.transformer(sublayers), Witness(holdings)


def _rectify_in_place(stream: ReluStream, depth: int) -> list[Sublayer]:
    heads = []
    for neuron in stream.layers[depth].switching:
        slot = stream.slot_of(depth, neuron)
        column = np.zeros(stream.width)
        column[slot] = 1.0
        heads.append(
            rectifier_head(stream.width, read={slot: -1.0}, flag=stream.flag, write=column)
        )
    return [Attention(heads)] if heads else []


def _affine(stream: ReluStream, depth: int) -> list[Sublayer]:
    read, write = stream.z[depth], stream.z[depth + 1]
    if not (read.size and write.size):
        return []
    inner = np.zeros((len(read), stream.width))
    inner[np.arange(len(read)), read] = 1.0
    outer = np.zeros((stream.width, len(read)))
    outer[write] = stream.incoming(depth + 1)[:, stream.rows[depth]]
    return [FeedForward(inner, np.zeros(len(read)), outer, np.zeros(stream.width))]
