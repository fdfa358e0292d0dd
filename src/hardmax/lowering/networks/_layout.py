"""What each stream coordinate holds: slots handed out one after the other."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hardmax.core import VectorInput


def row(width: int, entries: Mapping[int, float]) -> np.ndarray:
    """A matrix of one row with the given entries."""
    result = np.zeros((1, width))
    for column, weight in entries.items():
        result[0, column] = weight
    return result


class Layout:
    """Hands out stream coordinates. All slots are fresh: residual layers only ever add."""

    def __init__(self) -> None:
        self.width = 0

    def slot(self) -> int:
        """One coordinate."""
        return int(self.slots(1)[0])

    def slots(self, count: int) -> np.ndarray:
        """Several coordinates in a row."""
        taken = np.arange(self.width, self.width + count)
        self.width += count
        return taken


class Prompt:
    """The tokens as they start, filled in piece by piece."""

    def __init__(self, tokens: int, width: int, inputs: int) -> None:
        self.maps = np.zeros((tokens, width, inputs))
        self.offsets = np.zeros((tokens, width))

    def place(self, token: int, slots: np.ndarray, weights: np.ndarray, bias: np.ndarray) -> None:
        """Start `slots` of a token as weights @ x + bias."""
        self.maps[token, slots] = weights
        self.offsets[token, slots] = bias

    def input(self) -> VectorInput:
        return VectorInput(self.maps, self.offsets)
