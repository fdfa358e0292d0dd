"""Convex piecewise linear functions, as one maximum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np

from hardmax.core import Affine, EncodedTarget, Maximum, Numbers, Steps, affine_rows, by_arithmetic
from hardmax.languages.networks._layers import checked_layers, needed_tensor, number_and_noun
from hardmax.numerics import Interval


@dataclass(frozen=True, eq=False)
class MaxAffine:
    """x -> max_p (weights[p] @ x + biases[p]): every convex piecewise linear function is one.

    The single output is an axis of length 1. Pieces that never win are allowed.

        >>> MaxAffine([[1.0], [-1.0]], [0.0, 0.0])([-0.5])
        array([0.5])
    """

    weights: np.ndarray
    biases: np.ndarray

    def __post_init__(self) -> None:
        (W,), (b,) = checked_layers([self.weights], [self.biases], ndim=2)
        object.__setattr__(self, "weights", W)
        object.__setattr__(self, "biases", b)

    @property
    def inputs(self) -> int:
        return self.weights.shape[1]

    @property
    def outputs(self) -> int:
        return 1

    @property
    def pieces(self) -> int:
        return self.weights.shape[0]

    @property
    def parameters(self) -> int:
        return self.weights.size + self.biases.size

    @overload
    def __call__(self, x: Interval, /) -> Interval: ...
    @overload
    def __call__(self, x: Numbers, /) -> np.ndarray: ...
    def __call__(self, x: Numbers | Interval, /) -> np.ndarray | Interval:
        return by_arithmetic(
            x, self.inputs, rows=self._rows, columns=lambda box: self._program.values(box)[-1]
        )

    def _rows(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(affine_rows(x, self.weights, self.biases).max(axis=1, keepdims=True))

    def steps(self) -> Steps:
        """All pieces, then their maximum."""
        return self._program

    @cached_property
    def _program(self) -> Steps:
        pieces = Affine((0,), self.weights, self.biases)
        return Steps(self.inputs, [pieces, Maximum((1,), np.arange(self.pieces)[None])])

    def encode(self) -> EncodedTarget:
        pieces = number_and_noun(self.pieces, "affine function")
        text = f"maximum of {pieces} of {number_and_noun(self.inputs, 'variable')}"
        return EncodedTarget("max-affine", text, {"W1": self.weights, "b1": self.biases})

    @classmethod
    def decode(cls, tensors: Mapping[str, np.ndarray]) -> MaxAffine:
        """The function whose encoding holds these tensors."""
        return cls(needed_tensor(tensors, "W1"), needed_tensor(tensors, "b1"))

    def __repr__(self) -> str:
        pieces = number_and_noun(self.pieces, "piece")
        return f"MaxAffine({self.inputs}-1, {pieces}, {self.parameters} parameters)"
