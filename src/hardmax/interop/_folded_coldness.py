"""Queries and position biases, found again in their products with a coldness.

A host stores fl(c q), rounded once in float64 and once more to its format. In float64 division
gives back most q, not all: fl(fl(c q) / c) = q whenever c is a power of two and nothing underflows,
and otherwise it may be a neighbour. In a lower format f = fl(c q) stands for itself: fl(f / c),
multiplied in again, is off from f by 2 units of float64 at most, and rounds to f unless float64
underflows. Whatever is not found again is an exception, and named with its number. So are
position biases beyond the prompt, which hosts need not store.
"""

from __future__ import annotations

import numpy as np

from hardmax.core import Attention
from hardmax.numerics import Format

Exceptions = list[tuple[int, int, int, float]]  # head, row, column, number


def exceptions_of(
    layer: Attention,
    query: np.ndarray,
    bias: np.ndarray | None,
    tokens: int,
    format: Format,
) -> dict[str, Exceptions]:
    """What division by the coldness does not find again, and what is not stored at all.

    In float64 that is whatever differs in a bit. In a lower format the numbers that are stored
    stand for themselves: an exception is what, multiplied in and rounded again, gives another one.
    """
    found: dict[str, Exceptions] = {"query": [], "position_bias": []}
    for i, head in enumerate(layer.heads):
        pairs = {"query": (query[i, : head.key_width], head.query)}
        if bias is not None and head.position_bias is not None:
            pairs["position_bias"] = (bias[i], head.position_bias)
        for name, (folded, given) in pairs.items():
            back = np.full(given.shape, np.nan)
            inside = tuple(slice(n) for n in folded.shape)
            back[inside] = unfolded(_quietly_stored(folded, format), head.coldness)
            for row, column in np.argwhere(~_found_again(back, given, head.coldness, format)):
                kept = float(format.stored(given[row, column]))
                outside = row >= tokens or column >= tokens
                exact = name == "query" or not outside
                number = float(given[row, column]) if exact else kept
                found[name].append((i, int(row), int(column), number))
    return {name: some for name, some in found.items() if some}


def _quietly_stored(values: np.ndarray, format: Format) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(format.stored(values))


def unfolded(folded: np.ndarray, coldness: float) -> np.ndarray:
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(folded / coldness)


def _found_again(
    back: np.ndarray, given: np.ndarray, coldness: float, format: Format
) -> np.ndarray:
    """Zeros keep their signs on both ways: a coldness is positive."""
    if format.name == "float64":
        return np.asarray(back == given)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        again, before = (np.asarray(format.stored(coldness * one)) for one in (back, given))
    return np.asarray(again == before)
