"""The stream that both attention routes of a ReLU network share: (sink, data), one flag."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from hardmax.core import Holding, ReadOut, Sublayer, Transformer
from hardmax.languages import ReluNetwork
from hardmax.lowering.networks._activity import LayerActivity
from hardmax.lowering.networks._layout import Layout, Prompt

SINK, DATA = 0, 1


class ReluStream:
    """Slots for the pre-activations of every layer, dead neurons left out.

    z[0] starts as the first layer applied to the input, z[l] as that layer's bias; the last z is
    the network's output. The sink holds 0 everywhere but in the flag.
    """

    def __init__(self, network: ReluNetwork, layers: list[LayerActivity]) -> None:
        self.network, self.layers = network, layers
        layout = Layout()
        self.rows = [layer.alive for layer in layers] + [np.arange(network.outputs)]
        self.z = [layout.slots(len(rows)) for rows in self.rows]
        self.flag = layout.slot()
        self.width = layout.width

    def slot_of(self, depth: int, neuron: int) -> int:
        """The coordinate that holds one neuron's pre-activation."""
        return int(self.z[depth][np.searchsorted(self.rows[depth], neuron)])

    def incoming(self, depth: int) -> np.ndarray:
        """The weights into the neurons that are kept."""
        return self.network.weights[depth][self.rows[depth]]

    def holding(self, depth: int, *, after: int, rectified: bool = False) -> Holding:
        """The slots of layer `depth` hold its pre-activations, or their ReLUs."""
        value = 2 * depth + 1 + rectified
        return Holding(after, DATA, self.z[depth], value, self.rows[depth], np.zeros(()))

    def transformer(self, sublayers: Iterable[Sublayer]) -> Transformer:
        prompt = Prompt(2, self.width, self.network.inputs)
        prompt.place(DATA, self.z[0], self.incoming(0), self.network.biases[0][self.rows[0]])
        for depth in range(1, len(self.z)):
            prompt.offsets[DATA, self.z[depth]] = self.network.biases[depth][self.rows[depth]]
        prompt.offsets[:, self.flag] = (-0.5, 0.5)
        weights = np.zeros((self.network.outputs, self.width))
        weights[np.arange(self.network.outputs), self.z[-1]] = 1.0
        readout = ReadOut(weights, np.zeros(self.network.outputs), DATA)
        return Transformer(prompt.input(), sublayers, readout)
