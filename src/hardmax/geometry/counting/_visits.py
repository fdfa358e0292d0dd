"""How many cells a data set visits: distinct patterns of a network, or of a hard skeleton."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hardmax._errors import RequestError, ShapeError
from hardmax.core import Attention, FeedForward, HeadGroup, Transformer, VectorInput
from hardmax.languages import ReluNetwork
from hardmax.numerics import stray

_ROWS = 4096  # inputs at a time


@dataclass(frozen=True, eq=False)
class Visits:
    """The cells in which inputs lie: how many there are, and how often each is visited.

    Patterns come from float64. `ties` counts inputs at which a winner leads by so little that it is
    known up to rounding only.
    """

    cells: int
    inputs: int
    often: np.ndarray = field(repr=False)  # visits of each cell, falling
    which: np.ndarray = field(repr=False)  # the cell of each input
    ties: int = 0

    def as_dict(self) -> dict[str, Any]:
        return {
            "cells_visited": self.cells,
            "inputs": self.inputs,
            "most_visited": self.often[:20].tolist(),
            "ties": self.ties,
        }

    def __repr__(self) -> str:
        return f"Visits({self.inputs:,} inputs in {self.cells:,} cells)"


def visits(source: Any, inputs: Any) -> Visits:
    """Every input's pattern: which neurons are on, who wins at every token of every head.

    A softmax Transformer is followed as its hard skeleton, layer by layer.
    """
    points = np.atleast_2d(_numbers(inputs))
    chunks = [points[k : k + _ROWS] for k in range(0, len(points), _ROWS)]
    match source:
        case ReluNetwork():
            _check(points, source.inputs)
            found = [_relu_patterns(source, chunk) for chunk in chunks]
        case Transformer(input=VectorInput(inputs=width)):
            _check(points, width)
            found = [_hard_patterns(source, chunk) for chunk in chunks]
        case _:
            raise RequestError(
                "Visited cells are counted for ReLU networks and for Transformers that read "
                "vectors."
            )
    patterns = np.concatenate([pattern for pattern, _ in found])
    _, which, often = np.unique(patterns, axis=0, return_inverse=True, return_counts=True)
    order = np.argsort(-often, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    ties = int(sum(tied.sum() for _, tied in found))
    return Visits(len(often), len(points), often[order], place[which.reshape(-1)], ties)


def _numbers(inputs: Any) -> np.ndarray:
    try:
        points = np.asarray(inputs, dtype=np.float64)
    except (TypeError, ValueError) as reason:
        raise ShapeError("The inputs must be rows of real numbers.") from reason
    if not np.isfinite(points).all() or not points.size:
        raise ShapeError("The inputs must be finite numbers, and at least one row of them.")
    return points


def _check(points: np.ndarray, width: int) -> None:
    if points.ndim != 2 or points.shape[1] != width:
        raise ShapeError(
            f"The inputs must be rows of {width} numbers, but their shape is {points.shape}."
        )


def _relu_patterns(network: ReluNetwork, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    parts, tied = [], np.zeros(len(x), dtype=bool)
    for W, b in zip(network.weights[:-1], network.biases[:-1], strict=True):
        with np.errstate(over="ignore", invalid="ignore"):  # such a sign is not known
            z = x @ W.T + b
            size = np.abs(x) @ np.abs(W).T + np.abs(b)
        tied |= ~(np.abs(z) > stray(W.shape[1] + 2, size)).all(axis=1)
        parts.append(np.packbits(z > 0, axis=1))
        x = np.maximum(z, 0.0)
    return np.concatenate([*parts, np.zeros((len(x), 1), np.uint8)], axis=1), tied


def _hard_patterns(model: Transformer, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Patterns of the tokens that can influence the read-out, as `regions` counts them."""
    assert isinstance(model.input, VectorInput)
    stream = np.einsum("twi,bi->btw", model.input.maps, x) + model.input.offsets
    parts, tied = [np.zeros((len(x), 1), np.int32)], np.zeros(len(x), dtype=bool)
    for sublayer, asking in zip(model.sublayers, _asking(model), strict=True):
        match sublayer:
            case Attention():
                change = np.zeros_like(stream)
                for group in sublayer.groups:
                    winners, close, sent = _attended(group, stream, asking)
                    parts.append(winners.reshape(len(x), -1).astype(np.int32))
                    tied |= close
                    change += sent
                stream = stream + change
            case FeedForward():
                z = stream @ sublayer.inner.T + sublayer.inner_bias
                parts.append((z[:, asking] > 0).reshape(len(x), -1).astype(np.int32))
                stream = stream + np.maximum(z, 0.0) @ sublayer.outer.T + sublayer.outer_bias
    return np.concatenate(parts, axis=1), tied


def _asking(model: Transformer) -> list[list[int]]:
    """The tokens whose values behind each sublayer can still influence the read-out."""
    token = model.readout.token
    assert token is not None  # a vector input has one answer
    needed = [[token % model.tokens]]
    for sublayer in reversed(model.sublayers[1:]):
        after = needed[0]
        if isinstance(sublayer, Attention):
            causal = all(head.causal for head in sublayer.heads)
            last = max(after) + 1 if causal else model.tokens
            after = sorted({*after, *range(last)})
        needed.insert(0, after)
    return needed[: len(model.sublayers)]


def _attended(
    group: HeadGroup, stream: np.ndarray, asking: list[int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Who wins where it matters, whether some lead there is rounding, and what all are sent.

    Winners that tie are told by the first, the last, and how many they are.
    """
    tokens = stream.shape[1]
    query, key, value = (
        stream[:, None] @ matrix.swapaxes(1, 2) for matrix in (group.query, group.key, group.value)
    )
    scores = query @ key.swapaxes(2, 3)
    size = np.abs(query) @ np.abs(key).swapaxes(2, 3)
    if group.position_bias is not None:
        scores = scores + group.position_bias[:, :tokens, :tokens]
    if group.causal:
        scores = np.where(np.tri(tokens, dtype=bool), scores, -np.inf)
    lead = scores.max(axis=3, keepdims=True) - scores
    shared = lead == 0.0
    near = ~(lead <= 0.0) & ~(lead > 4.0 * stray(group.key.shape[1] + 2, size))
    mixed = (shared / shared.sum(axis=3, keepdims=True)) @ value
    sent = np.einsum("bhtv,hwv->btw", mixed, group.output, optimize=True)
    seen = shared[:, :, asking]
    last = tokens - 1 - seen[..., ::-1].argmax(axis=3)
    winners = np.stack([seen.argmax(axis=3), last, seen.sum(axis=3)], axis=-1)
    return winners, near[:, :, asking].any(axis=(1, 2, 3)), sent
