"""The sketch of a Transformer whose registers start as affine functions of the input: networks.

Every register has a start of its own on every token, so a sketch says by itself what each token
is: a sink, the data, a piece. Heads and units are those of every sketch, in floats, because the
numbers of a network are copied and never added.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hardmax.core import Holding, Transformer, VectorInput
from hardmax.lowering.sketch._layers import (
    EMBEDDING,
    Assembly,
    Form,
    HeadSketch,
    Layers,
    UnitSketch,
)


@dataclass(frozen=True, eq=False)
class PromptRegister:
    """One number that every token holds; at first start[token] @ (input, 1)."""

    name: str
    start: np.ndarray  # tokens x (inputs + 1), the constant last; filled in while one draws
    bound: ClassVar[float] = math.inf  # ranges are found from the weights
    beyond: ClassVar[float] = math.inf


PromptForm = Form[PromptRegister, float]
PromptHead = HeadSketch[PromptRegister, float]
PromptUnit = UnitSketch[PromptRegister, float]
Column = dict[PromptRegister, float]  # how much of a number is added to which registers


def single(register: PromptRegister, weight: float = 1.0) -> PromptForm:
    """So many times a register."""
    return Form({register: weight})


class PromptSketch:
    """Registers and sublayers, drawn one after the other; all registers get coordinates."""

    def __init__(self, tokens: int, inputs: int) -> None:
        self.tokens, self.inputs = tokens, inputs
        self.place: dict[PromptRegister, int] = {}  # coordinates, in the order of their making
        self.layers: Layers[PromptRegister, float] = Layers()
        self.last = EMBEDDING  # the sublayer that was drawn last

    def register(self, name: str, constants: Iterable[float] | None = None) -> PromptRegister:
        """A new register, 0 at first, or a constant of its own on every token."""
        start = np.zeros((self.tokens, self.inputs + 1))
        if constants is not None:
            start[:, -1] = list(constants)
        register = PromptRegister(name, start)
        self.place[register] = len(self.place)
        return register

    def attend(self, heads: Sequence[PromptHead]) -> None:
        """Draw a sublayer of heads, if there are any."""
        if heads:
            self.last += 2 - self.last % 2
            self.layers.heads[self.last] = list(heads)

    def feed(self, units: Sequence[PromptUnit], offsets: Column | None = None) -> None:
        """Draw a sublayer of hidden units, if there are any, and what it adds in any case."""
        if units:
            self.last += 1 + self.last % 2
            self.layers.units[self.last] = list(units)
            self.layers.offsets[self.last] = offsets or {}

    def holding(
        self,
        token: int,
        registers: Iterable[PromptRegister],
        value: int,
        components: np.ndarray,
    ) -> Holding:
        """That registers hold components of a value after the sublayer that was drawn last."""
        places = np.array([self.place[register] for register in registers], dtype=np.int64)
        return Holding(self._drawn - 1, token, places, value, components, np.zeros(()))

    def transformer(self, answers: Sequence[PromptForm], token: int) -> Transformer:
        """The weights; answers are read at a token."""
        start = np.zeros((self.tokens, len(self.place), self.inputs + 1))
        for register, place in self.place.items():
            start[:, place] = register.start
        source = VectorInput(start[:, :, :-1], start[:, :, -1])
        assembly = Assembly(self.layers, self.place, len(self.place))
        return assembly.transformer(source, answers, token)

    @property
    def attention_parameters(self) -> int:
        """Every entry of what heads and prompt will be, each head at its own widths."""
        width = len(self.place)
        count = self.tokens * width * (self.inputs + 1)
        for head in self.layers.all_heads:
            count += 2 * width * (len(head.key) + len(head.value))
            count += 0 if head.bias is None else head.bias.size
        return count

    @property
    def _drawn(self) -> int:
        return len(self.layers.heads) + len(self.layers.units)
