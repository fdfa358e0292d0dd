"""Feed-forward networks whose units take the maximum of several affine pieces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from hardmax.core import Affine, EncodedTarget, Maximum, Numbers, Steps, affine_rows, by_arithmetic
from hardmax.languages.networks._layers import (
    Arrays,
    checked_layers,
    count,
    named_layers,
    numbered_layers,
    widths,
)
from hardmax.numerics import Interval


@dataclass(frozen=True, eq=False)
class MaxoutNetwork:
    """Every unit of every layer, the last one too, is max_p (W[p, unit] @ x + b[p, unit]).

    Weights are pieces x out x in, biases pieces x out; the rank (the number of pieces) may
    differ from layer to layer, and a layer of rank 1 is affine.

        >>> absolute = MaxoutNetwork([[[[1.0]], [[-1.0]]]], [[[0.0], [0.0]]])
        >>> absolute([-0.5])
        array([0.5])
    """

    weights: Arrays
    biases: Arrays

    def __init__(self, weights: Iterable[ArrayLike], biases: Iterable[ArrayLike]) -> None:
        Ws, bs = checked_layers(weights, biases, ndim=3)
        object.__setattr__(self, "weights", Ws)
        object.__setattr__(self, "biases", bs)

    @property
    def inputs(self) -> int:
        return self.weights[0].shape[2]

    @property
    def outputs(self) -> int:
        return self.weights[-1].shape[1]

    @property
    def parameters(self) -> int:
        return count(self.weights, self.biases)

    @property
    def ranks(self) -> tuple[int, ...]:
        """How many pieces the units of each layer have."""
        return tuple(W.shape[0] for W in self.weights)

    @overload
    def __call__(self, x: Interval, /) -> Interval: ...
    @overload
    def __call__(self, x: Numbers, /) -> np.ndarray: ...
    def __call__(self, x: Numbers | Interval, /) -> np.ndarray | Interval:
        return by_arithmetic(
            x, self.inputs, rows=self._rows, columns=lambda box: self._program.values(box)[-1]
        )

    def _rows(self, x: np.ndarray) -> np.ndarray:
        for W, b in zip(self.weights, self.biases, strict=True):
            pieces, out, into = W.shape
            x = affine_rows(x, W.reshape(pieces * out, into), b.reshape(-1))
            if pieces > 1:
                x = x.reshape(-1, pieces, out).max(axis=1)
        return x

    def steps(self) -> Steps:
        """Per layer all pieces of all units (row = piece * out + unit), then their maxima."""
        return self._program

    @cached_property
    def _program(self) -> Steps:
        steps: list[Affine | Maximum] = []
        for W, b in zip(self.weights, self.biases, strict=True):
            pieces, out, into = W.shape
            steps.append(Affine((len(steps),), W.reshape(pieces * out, into), b.reshape(-1)))
            if pieces > 1:
                groups = np.arange(pieces * out).reshape(pieces, out).T
                steps.append(Maximum((len(steps),), groups))
        return Steps(self.inputs, steps)

    def _rank(self) -> str:
        ranks = self.ranks
        return f"rank {ranks[0]}" if len(set(ranks)) == 1 else f"ranks {','.join(map(str, ranks))}"

    def encode(self) -> EncodedTarget:
        text = f"maxout network {widths(self.weights)} of {self._rank()}"
        return EncodedTarget("maxout", text, named_layers(self.weights, self.biases))

    @classmethod
    def decode(cls, tensors: Mapping[str, np.ndarray]) -> MaxoutNetwork:
        """The network whose encoding holds these tensors."""
        return cls(*numbered_layers(tensors))

    def __repr__(self) -> str:
        return (
            f"MaxoutNetwork({widths(self.weights)}, {self._rank()}, {self.parameters} parameters)"
        )
