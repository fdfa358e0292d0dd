"""Which ReLUs of a network switch on the domain, and which keep their sign."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardmax.core import Box
from hardmax.languages import ReluNetwork
from hardmax.numerics import Interval


@dataclass(frozen=True, eq=False)
class LayerActivity:
    """One hidden layer on a domain: neurons by what their sign does."""

    switching: np.ndarray  # may be positive and negative: needs a head
    passing: np.ndarray  # never negative: relu is the identity

    @property
    def alive(self) -> np.ndarray:
        """Neurons that are not always off, in order."""
        return np.sort(np.concatenate([self.switching, self.passing]))


def activity(network: ReluNetwork, domain: Box) -> list[LayerActivity]:
    """Each hidden layer's neurons by sign, from intervals propagated neuron by neuron.

    Outward rounding makes the answer safe: a neuron called passing or off is so for every point
    of the domain, ties at 0 included. Neurons from which no weight leads to the output count as
    neither: nothing depends on them.
    """
    layers = []
    box: Interval = domain.interval
    for weights, bias in zip(network.weights[:-1], network.biases[:-1], strict=True):
        before = weights @ box + bias
        off, passing = before.hi <= 0.0, before.lo >= 0.0
        layers.append(
            LayerActivity(np.flatnonzero(~off & ~passing), np.flatnonzero(passing & ~off))
        )
        box = before.maximum(0.0)
    return _read_by_somebody(network, layers)


def _read_by_somebody(network: ReluNetwork, layers: list[LayerActivity]) -> list[LayerActivity]:
    kept: list[LayerActivity] = []
    readers = np.arange(network.outputs)
    for layer, weights in zip(reversed(layers), reversed(network.weights), strict=False):
        read = np.asarray(weights[readers].any(axis=0))
        layer = LayerActivity(
            layer.switching[read[layer.switching]], layer.passing[read[layer.passing]]
        )
        kept.append(layer)
        readers = layer.alive
    return kept[::-1]
