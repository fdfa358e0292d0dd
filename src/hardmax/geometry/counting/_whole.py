"""Layers, lines and maps in whole numbers: floats are dyadic, a power of 2 makes them whole."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np


@dataclass(frozen=True, eq=False)
class WholeLayer:
    """2^shift W and 2^shift b as whole numbers."""

    weights: np.ndarray
    biases: np.ndarray
    shift: int

    @classmethod
    def of(cls, weights: np.ndarray, biases: np.ndarray) -> WholeLayer:
        flat = [x.as_integer_ratio() for x in [*weights.ravel().tolist(), *biases.tolist()]]
        shift = max((under.bit_length() - 1 for _, under in flat), default=0)
        whole = [over << (shift - under.bit_length() + 1) for over, under in flat]
        table = np.empty(len(whole), dtype=object)
        table[:] = whole
        return cls(table[: weights.size].reshape(weights.shape), table[weights.size :], shift)


def whole_line(start: Sequence[Fraction], end: Sequence[Fraction]) -> tuple[np.ndarray, int]:
    """The line as whole numbers over one denominator: columns (end - start, start) times it."""
    first = [Fraction(x) for x in start]
    way = [Fraction(y) - x for x, y in zip(first, end, strict=True)]
    under = math.lcm(*(x.denominator for x in [*first, *way]))
    table = np.empty((len(first), 2), dtype=object)
    table[:, 0] = [int(x * under) for x in way]
    table[:, 1] = [int(x * under) for x in first]
    return table, under


def multiply_maps(weights: np.ndarray, maps: np.ndarray) -> np.ndarray:
    """weights @ maps over the first axis of maps; a sum of nothing is 0."""
    shape = (len(weights), *maps.shape[1:])
    if not weights.size:
        return np.zeros(shape, dtype=int).astype(object)
    return np.asarray(weights @ maps.reshape(len(maps), -1)).reshape(shape)


def lowest_terms(maps: np.ndarray, under: int) -> tuple[np.ndarray, int]:
    """The same rationals maps / under with the denominator as small as it can be."""
    common = math.gcd(under, *maps.ravel().tolist())
    return maps // common, under // common
