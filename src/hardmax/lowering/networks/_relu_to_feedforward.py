"""A ReLU network inside the feed-forward part: the honest baseline."""

from __future__ import annotations

import numpy as np

from hardmax.core import Box, FeedForward, Holding, ReadOut, Sublayer, Transformer, Witness
from hardmax.languages import ReluNetwork
from hardmax.lowering.networks._activity import activity
from hardmax.lowering.networks._layout import Layout, Prompt


def relu_to_feedforward(network: ReluNetwork, domain: Box) -> tuple[Transformer, Witness]:
    """One token, no attention: hidden layer l of the network is the hidden layer of block l.

    The token starts as the input itself. Block 1 computes relu(W_1 x + b_1) and adds
    W_2 relu(...) to slots that hold b_2; block l > 1 copies those slots into its hidden layer,
    where the ReLU acts, and adds W_{l+1} times the result to the next ones. Exact over the reals
    on the domain, hard or soft alike: there is nothing to soften. Neurons that are never positive
    are left out.

    Nonzero weights: the network's own, one per input, one per neuron of the hidden layers after
    the first, one per output.
    """
    layers = activity(network, domain)
    rows = [layer.alive for layer in layers] + [np.arange(network.outputs)]
    layout = Layout()
    x = layout.slots(network.inputs if layers else 0)
    slots = [layout.slots(len(kept)) for kept in (rows[1:] if layers else rows)]
    prompt = Prompt(1, layout.width, network.inputs)
    if not layers:
        prompt.place(0, slots[0], network.weights[0], network.biases[0])
    else:
        prompt.place(0, x, np.eye(network.inputs), np.zeros(network.inputs))
        for depth, slot in enumerate(slots, start=1):
            prompt.offsets[0, slot] = network.biases[depth][rows[depth]]
    sublayers: list[Sublayer] = []
    holdings = [Holding(-1, 0, x, 0, np.arange(len(x)), np.zeros(()))] if layers else []
    for depth in range(len(layers)):
        inner = np.zeros((len(rows[depth]), layout.width))
        bias = np.zeros(len(rows[depth]))
        if depth == 0:
            inner[:, x] = network.weights[0][rows[0]]
            bias = network.biases[0][rows[0]]
        else:
            inner[np.arange(len(rows[depth])), slots[depth - 1]] = 1.0
        outer = np.zeros((layout.width, len(rows[depth])))
        outer[slots[depth]] = network.weights[depth + 1][np.ix_(rows[depth + 1], rows[depth])]
        if rows[depth].size:
            sublayers.append(FeedForward(inner, bias, outer, np.zeros(layout.width)))
        after, value = len(sublayers) - 1, 2 * depth + 3
        holdings.append(Holding(after, 0, slots[depth], value, rows[depth + 1], np.zeros(())))
    if not layers:
        holdings.append(Holding(-1, 0, slots[0], 1, rows[0], np.zeros(())))
    weights = np.zeros((network.outputs, layout.width))
    weights[np.arange(network.outputs), slots[-1]] = 1.0
    readout = ReadOut(weights, np.zeros(network.outputs), 0)
    return Transformer(prompt.input(), sublayers, readout), Witness(holdings)
