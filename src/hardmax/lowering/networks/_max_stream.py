"""The stream that both routes of a stack of maxima share: one token per piece."""

from __future__ import annotations

import numpy as np

from hardmax.core import Holding
from hardmax.lowering.networks._layout import Layout, Prompt
from hardmax.lowering.networks._max_layers import MaxStack

_ROOM = 1.0 + 2.0**-4  # between a bound and the values it bounds, so that soft ones fit too


def roomy(bound: float) -> float:
    """A bound with room to spare, and never 0."""
    return float(bound) * _ROOM or 1.0


class MaxStream:
    """Slots for every layer's pieces u (different on each token) and maxima y (the same on all)."""

    def __init__(self, stack: MaxStack, *, codes: bool, null: bool = False) -> None:
        self.stack = stack
        self.data = max(layer.rank for layer in stack.layers)
        self.null = self.data  # the null token, if any, comes last
        self.tokens = self.data + null
        layout = Layout()
        self.u = [layout.slots(len(layer.units)) for layer in stack.layers]
        self.y = [layout.slots(len(layer.units)) for layer in stack.layers]
        self.one = layout.slot()
        self.null_flag = layout.slot() if null else -1
        self.codes = [layout.slot() for _ in range(self.data)] if codes else []
        self.width = layout.width

    def prompt(self) -> Prompt:
        """The first layer's pieces, and the tokens' codes: +1 on its own token, -1 elsewhere."""
        prompt = Prompt(self.tokens, self.width, self.stack.inputs)
        for unit, slot in zip(self.stack.layers[0].units, self.u[0], strict=True):
            prompt.maps[: unit.rank, slot] = unit.weights
            prompt.offsets[: unit.rank, slot] = unit.biases
            prompt.offsets[unit.rank : self.data, slot] = unit.low
        for token, code in enumerate(self.codes):
            prompt.offsets[:, code] = -1.0
            prompt.offsets[token, code] = 1.0
        return prompt

    def piece_holdings(self, depth: int, *, after: int) -> list[Holding]:
        """Each data token holds its own pieces."""
        layer = self.stack.layers[depth]
        holdings = []
        for token in range(layer.rank):
            units = [i for i, unit in enumerate(layer.units) if token < unit.rank]
            components = [layer.units[i].components[token] for i in units]
            holdings.append(
                Holding(
                    after,
                    token,
                    self.u[depth][units],
                    layer.affine_value,
                    np.array(components),
                    np.zeros(()),
                )
            )
        return holdings

    def maximum_holdings(self, depth: int, *, after: int) -> list[Holding]:
        """Every data token holds all maxima."""
        layer = self.stack.layers[depth]
        every = np.arange(len(layer.units))
        return [
            Holding(after, token, self.y[depth], layer.value, every, np.zeros(()))
            for token in range(self.data)
        ]

    def read_last(self, weights: np.ndarray) -> np.ndarray:
        """Read-out weights on the last layer's maxima."""
        result = np.zeros((len(weights), self.width))
        result[:, self.y[-1]] = weights
        return result
