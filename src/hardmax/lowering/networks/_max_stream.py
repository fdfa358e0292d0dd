"""The sketch that both routes of a stack of maxima share: one token per piece."""

from __future__ import annotations

import numpy as np

from hardmax.core import Holding, Transformer
from hardmax.lowering.networks._max_layers import MaxStack
from hardmax.lowering.sketch import Form, PromptForm, PromptRegister, PromptSketch

_ROOM = 1.0 + 2.0**-4  # between a bound and the values it bounds, so that soft ones fit too


def roomy(bound: float) -> float:
    """A bound with room to spare, and never 0."""
    return float(bound) * _ROOM or 1.0


class MaxStream:
    """Registers for every layer's pieces u (different on each token) and maxima y (on all alike).

    A null token, if there is one, comes last; it has a flag of its own, and -1 for the constant
    `one` of the others. Codes are +1 on a token of their own and -1 elsewhere.
    """

    def __init__(self, stack: MaxStack, *, codes: bool, null: bool = False) -> None:
        self.stack = stack
        self.data = max(layer.rank for layer in stack.layers)
        self.sketch = PromptSketch(self.data + null, stack.inputs)
        self.u = [self._registers("piece", len(layer.units)) for layer in stack.layers]
        self.y = [self._registers("maximum", len(layer.units)) for layer in stack.layers]
        last = [0.0] * self.data + [1.0] * null
        self.one = self.sketch.register("one", 1.0 - 2.0 * np.array(last))
        self.null_flag = self.sketch.register("null", last) if null else None
        own = 2.0 * np.eye(self.sketch.tokens)[: self.data if codes else 0] - 1.0
        self.codes = [self.sketch.register("code", token) for token in own]
        for unit, register in zip(stack.layers[0].units, self.u[0], strict=True):
            register.start[: unit.rank, :-1] = unit.weights
            register.start[: unit.rank, -1] = unit.biases
            register.start[unit.rank : self.data, -1] = unit.low

    def _registers(self, name: str, count: int) -> list[PromptRegister]:
        return [self.sketch.register(f"{name} {i}") for i in range(count)]

    def transformer(self) -> Transformer:
        """Outputs are affine functions of the last layer's maxima, which every token holds."""
        answers: list[PromptForm] = [
            Form(dict(zip(self.y[-1], row, strict=True)), bias)
            for row, bias in zip(self.stack.weights.tolist(), self.stack.bias.tolist(), strict=True)
        ]
        return self.sketch.transformer(answers, 0)

    def piece_holdings(self, depth: int) -> list[Holding]:
        """Each data token holds its own pieces by now."""
        layer = self.stack.layers[depth]
        holdings = []
        for token in range(layer.rank):
            units = [i for i, unit in enumerate(layer.units) if token < unit.rank]
            components = np.array([layer.units[i].components[token] for i in units])
            registers = [self.u[depth][i] for i in units]
            holdings.append(self.sketch.holding(token, registers, layer.affine_value, components))
        return holdings

    def maximum_holdings(self, depth: int) -> list[Holding]:
        """Every data token holds all maxima by now."""
        value, every = self.stack.layers[depth].value, np.arange(len(self.y[depth]))
        return [
            self.sketch.holding(token, self.y[depth], value, every) for token in range(self.data)
        ]
