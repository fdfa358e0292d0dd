"""A ReLU network as attention alone: no feed-forward layer anywhere."""

from __future__ import annotations

import numpy as np

from hardmax.core import Attention, Box, Head, Sublayer, Transformer, Witness
from hardmax.languages import ReluNetwork
from hardmax.lowering.gadgets import averaging_head, rectifier_head
from hardmax.lowering.networks._activity import activity
from hardmax.lowering.networks._relu_stream import ReluStream


def relu_to_attention_only(network: ReluNetwork, domain: Box) -> tuple[Transformer, Witness]:
    """One head per switching neuron, one attention layer per hidden layer.

    The prompt is (sink, data), all heads are causal. The data token starts with the first layer's
    pre-activations and with the biases of all later layers, each in slots of its own. The head of
    neuron i (`rectifier_head`) computes relu(z_i) and its output column holds the *next* layer's
    weights from neuron i, so the attention layer as a whole adds W relu(z) to slots that hold b:
    the next pre-activations. Neurons that are never negative on the domain share one
    `averaging_head`; neurons that are never positive are left out, weights and all.

    Exact in the hard semantics for every point of the domain: weights are copied or doubled,
    never added. Nonzero weights: the network's own, 3 per switching and 1 per passing neuron,
    2 flags and one read-out weight per output.
    """
    layers = activity(network, domain)
    stream = ReluStream(network, layers)
    sublayers: list[Sublayer] = []
    holdings = [stream.holding(0, after=-1)]
    for depth in range(len(layers)):
        heads = layer_heads(stream, depth)
        if heads:
            sublayers.append(Attention(heads))
        holdings.append(stream.holding(depth + 1, after=len(sublayers) - 1))
    return stream.transformer(sublayers), Witness(holdings)


def layer_heads(stream: ReluStream, depth: int) -> list[Head]:
    """The heads that turn pre-activations `depth` into pre-activations `depth + 1`."""
    layer, width = stream.layers[depth], stream.width
    heads = []
    for neuron in layer.switching:
        column = np.zeros(width)
        column[stream.z[depth + 1]] = stream.incoming(depth + 1)[:, neuron]
        slot = stream.slot_of(depth, neuron)
        heads.append(rectifier_head(width, read={slot: 1.0}, flag=stream.flag, write=column))
    if layer.passing.size:
        write = np.zeros((width, len(layer.passing)))
        write[stream.z[depth + 1]] = stream.incoming(depth + 1)[:, layer.passing]
        read = np.array([stream.slot_of(depth, neuron) for neuron in layer.passing])
        heads.append(averaging_head(read, write, width=width))
    return heads
