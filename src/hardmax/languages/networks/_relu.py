"""Feed-forward networks with rectifiers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, overload

import numpy as np
from numpy.typing import ArrayLike

from hardmax.core import (
    Affine,
    EncodedTarget,
    Numbers,
    Steps,
    Univariate,
    affine_rows,
    by_arithmetic,
)
from hardmax.languages.networks._beside_torch import check_against_module
from hardmax.languages.networks._layers import (
    Arrays,
    checked_layers,
    count,
    named_layers,
    numbered_layers,
    widths,
)
from hardmax.languages.networks._torch_layers import torch_layers
from hardmax.numerics import Interval

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True, eq=False)
class ReluNetwork:
    """x -> W_L relu( ... relu(W_1 x + b_1) ... ) + b_L: a rectifier after every layer but the last.

    Matrices are out x in. Weights are float64 and denote exact rationals, so the network is an
    exact piecewise linear function; calling it on Fractions gives its true values.

        >>> absolute = ReluNetwork([[[1.0], [-1.0]], [[1.0, 1.0]]], [[0.0, 0.0], [0.0]])
        >>> absolute([-0.5])
        array([0.5])
    """

    weights: Arrays
    biases: Arrays

    def __init__(self, weights: Iterable[ArrayLike], biases: Iterable[ArrayLike]) -> None:
        Ws, bs = checked_layers(weights, biases, ndim=2)
        object.__setattr__(self, "weights", Ws)
        object.__setattr__(self, "biases", bs)

    @classmethod
    def from_torch(cls, module: nn.Module) -> ReluNetwork:
        """The function of an `nn.Sequential` of `nn.Linear` and `nn.ReLU` by turns.

        float16, bfloat16 and float32 weights are float64 numbers already, so nothing is lost.
        `nn.Flatten`, `nn.Identity` and `nn.Dropout` are passed over: the network means what the
        module computes in evaluation mode on flat inputs.
        """
        network = cls(*torch_layers(module))
        check_against_module(module, network.steps(), (network.inputs,))
        return network

    @property
    def inputs(self) -> int:
        return self.weights[0].shape[1]

    @property
    def outputs(self) -> int:
        return self.weights[-1].shape[0]

    @property
    def parameters(self) -> int:
        return count(self.weights, self.biases)

    @overload
    def __call__(self, x: Interval, /) -> Interval: ...
    @overload
    def __call__(self, x: Numbers, /) -> np.ndarray: ...
    def __call__(self, x: Numbers | Interval, /) -> np.ndarray | Interval:
        return by_arithmetic(
            x, self.inputs, rows=self._rows, columns=lambda box: self._program.values(box)[-1]
        )

    def _rows(self, x: np.ndarray) -> np.ndarray:
        for W, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = affine_rows(x, W, b)
            np.maximum(x, 0, out=x)
        return affine_rows(x, self.weights[-1], self.biases[-1])

    def steps(self) -> Steps:
        """Affine, relu, affine, ..., affine: value 2l - 1 is layer l before its rectifier."""
        return self._program

    @cached_property
    def _program(self) -> Steps:
        steps: list[Affine | Univariate] = []
        for W, b in zip(self.weights, self.biases, strict=True):
            if steps:
                steps.append(Univariate((len(steps),), "relu", steps[-1].size))
            steps.append(Affine((len(steps),), W, b))
        return Steps(self.inputs, steps)

    def encode(self) -> EncodedTarget:
        text = f"relu network {widths(self.weights)}"
        return EncodedTarget("relu", text, named_layers(self.weights, self.biases))

    @classmethod
    def decode(cls, tensors: Mapping[str, np.ndarray]) -> ReluNetwork:
        """The network whose encoding holds these tensors."""
        return cls(*numbered_layers(tensors))

    def __repr__(self) -> str:
        return f"ReluNetwork({widths(self.weights)}, {self.parameters} parameters)"
