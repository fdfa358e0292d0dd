"""How many cells a data set visits: distinct patterns of a network, or of a hard skeleton."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from hardmax._errors import RequestError, ShapeError
from hardmax.core import Attention, FeedForward, HeadGroup, Transformer, VectorInput
from hardmax.geometry.counting._chain import Chain, Stepwise, chain_of
from hardmax.geometry.counting._products import refuse_products
from hardmax.geometry.tropical._tropical import Tropical, TropicalRational
from hardmax.numerics import inflate, stray

_ROWS = 4096  # inputs at a time


@dataclass(frozen=True, eq=False)
class Visits:
    """The cells in which inputs lie: how many there are, and how often each is visited.

    Patterns come from float64. `ties` counts inputs at which some sign or winner is known up to
    rounding only, the roundings of earlier layers carried along.
    """

    cells: int
    inputs: int
    often: np.ndarray = field(repr=False)  # visits of each cell, falling
    which: np.ndarray = field(repr=False)  # the cell of each input
    ties: int = 0

    def as_dict(self) -> dict[str, object]:
        return {
            "cells_visited": self.cells,
            "inputs": self.inputs,
            "most_visited": self.often[:20].tolist(),
            "ties": self.ties,
        }

    def __repr__(self) -> str:
        return f"Visits({self.inputs:,} inputs in {self.cells:,} cells)"


def visits(
    source: Transformer | Stepwise | Tropical | TropicalRational, inputs: ArrayLike
) -> Visits:
    """Every input's pattern: who wins in every unit, or at every token of every head.

    A softmax Transformer is followed as its hard skeleton, layer by layer.
    """
    points = np.atleast_2d(_numbers(inputs))
    chunks = [points[k : k + _ROWS] for k in range(0, len(points), _ROWS)]
    if not isinstance(source, Transformer):
        chain = chain_of(source)
        _check(points, chain.inputs)
        parts = [_chain_patterns(chain, chunk) for chunk in chunks]
    elif isinstance(source.input, VectorInput):
        _check(points, source.input.inputs)
        parts = [_hard_patterns(source, chunk) for chunk in chunks]
    else:
        raise RequestError(
            "Visited cells are those of real inputs, but this Transformer reads sequences of "
            "symbols. Give one that reads vectors (VectorInput)."
        )
    patterns = np.concatenate([pattern for pattern, _ in parts])
    _, which, often = np.unique(patterns, axis=0, return_inverse=True, return_counts=True)
    order = np.argsort(-often, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    ties = int(sum(tied.sum() for _, tied in parts))
    return Visits(len(often), len(points), often[order], place[which.reshape(-1)], ties)


def _numbers(inputs: ArrayLike) -> np.ndarray:
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


class _Known(NamedTuple):
    """Numbers as float64 computes them, and how far they may be from the true ones.

    The evaluators of `core` say values alone. Which winners are sure needs their errors beside
    them, after every product and sum, so that these are followed together here.
    Not a number is off by anything: comparisons with it decide nothing.
    """

    value: np.ndarray
    off: np.ndarray

    def times(self, matrix: np.ndarray) -> _Known:
        """value @ matrix: what is off is carried on, and the sum strays."""
        terms, sizes = matrix.shape[-2], np.abs(matrix)
        rounded = stray(terms + 1, inflate(np.abs(self.value) @ sizes, terms + 4))
        return _Known(self.value @ matrix, inflate(self.off @ sizes + rounded, terms + 4))

    def plus(self, *others: _Known | np.ndarray) -> _Known:
        value, off, size = self.value, self.off, np.abs(self.value)
        for other in others:
            number, away = other if isinstance(other, _Known) else (other, 0.0)
            value, off, size = value + number, off + away, size + np.abs(number)
        rounded = stray(len(others), inflate(size, len(others)))
        return _Known(value, inflate(off + rounded, len(others) + 2))

    def rectify(self) -> tuple[_Known, np.ndarray]:
        """max(value, 0), and which signs are sure; a number that is not off is what it is."""
        sure = (np.abs(self.value) > self.off) | (self.off == 0.0)
        off = np.where(sure & ~(self.value > 0.0), 0.0, self.off)
        return _Known(np.maximum(self.value, 0.0), off), sure


def _exactly(values: np.ndarray) -> _Known:
    return _Known(values, np.zeros_like(values))


def _chain_patterns(chain: Chain, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Who wins in every unit that decides; of equal rows the first, which names the cell as well.

    On one cell rows are equal throughout or on walls alone. So cells with one pattern before a
    layer have different first winners, and an input on a wall is given to a cell beside it.
    """
    if not chain.is_float:
        raise RequestError(
            "Visited cells are followed in floats, but floats do not hold all coefficients here."
        )
    parts, tied, known = [], np.zeros(len(x), dtype=bool), _exactly(x)
    with np.errstate(over="ignore", invalid="ignore"):  # such a sign is not known
        for layer in chain.layers:
            z = known.times(layer.weights.T).plus(layer.biases)
            if layer.groups is None:
                known, sure = z.rectify()
                parts.append(np.packbits(z.value > 0, axis=1))
            else:
                known, sure, winners = _maximise_groups(layer.groups, z)
                chosen = np.ascontiguousarray(winners[:, : layer.deciding], dtype=np.int32)
                parts.append(chosen.view(np.uint8))
            tied |= ~sure.all(axis=1)
    return np.concatenate([*parts, np.zeros((len(x), 1), np.uint8)], axis=1), tied


def _maximise_groups(groups: np.ndarray, rows: _Known) -> tuple[_Known, np.ndarray, np.ndarray]:
    """The maximum of each group, whether its winner is sure, and the winner's place in the group.

    A winner is sure if it leads by more than both rows may be off and their difference rounds, or
    if none of the two is off. Then the maximum is off as the winner is, else as any row may be.
    """
    points = len(rows.value)
    value = np.concatenate([rows.value, np.full((points, 1), -np.inf)], axis=1)[:, groups]
    off = np.concatenate([rows.off, np.zeros((points, 1))], axis=1)[:, groups]
    first = value.argmax(axis=2)[..., None]
    most, own = (np.take_along_axis(table, first, axis=2) for table in (value, off))
    lead, doubt = most - value, inflate(own + off)
    beyond = lead > inflate(doubt + stray(1, np.abs(lead)))
    is_first = np.arange(groups.shape[1]) == first
    sure = (beyond | (doubt == 0.0) | is_first | (groups < 0)).all(axis=2)
    error = np.where(sure, own[..., 0], off.max(axis=2))
    return _Known(most[..., 0], error), sure, first[..., 0]


def _hard_patterns(model: Transformer, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Patterns of the tokens that can influence the read-out, as `regions` counts them."""
    refuse_products(model)
    assert isinstance(model.input, VectorInput)
    maps = model.input.maps.reshape(-1, model.input.inputs)
    parts, tied = [np.zeros((len(x), 1), np.int32)], np.zeros(len(x), dtype=bool)
    twins = _Twins.of(model.input)
    with np.errstate(over="ignore", invalid="ignore"):
        flat = _exactly(x).times(maps.T).plus(model.input.offsets.ravel())
        stream = _Known(*(part.reshape(len(x), *model.input.offsets.shape) for part in flat))
        for sublayer, matter in zip(model.sublayers, model.tokens_that_matter[1:], strict=True):
            asking = list(matter)
            match sublayer:
                case Attention():
                    sent = []
                    for group in sublayer.groups:
                        winners, close, change = _attend(group, stream, asking, twins)
                        parts.append(winners.reshape(len(x), -1).astype(np.int32))
                        tied |= close
                        sent.append(change)
                    stream, twins = stream.plus(*sent), twins.behind(sublayer)
                case FeedForward():
                    z = stream.times(sublayer.inner.T).plus(sublayer.inner_bias)
                    hidden, sure = z.rectify()
                    parts.append((z.value[:, asking] > 0).reshape(len(x), -1).astype(np.int32))
                    tied |= ~sure[:, asking].all(axis=(1, 2))
                    stream = stream.plus(hidden.times(sublayer.outer.T), sublayer.outer_bias)
    return np.concatenate(parts, axis=1), tied


@dataclass(frozen=True, eq=False)
class _Twins:
    """Which tokens are the same, whatever the input: their scores tie exactly."""

    same: np.ndarray  # tokens x tokens

    @classmethod
    def of(cls, source: VectorInput) -> _Twins:
        rows = np.concatenate([source.maps.reshape(source.tokens, -1), source.offsets], axis=1)
        return cls((rows[:, None] == rows[None]).all(axis=2))

    def behind(self, layer: Attention) -> _Twins:
        """Twins stay twins where heads look at everything alike, wherever they stand."""
        if any(head.causal or head.position_bias is not None for head in layer.heads):
            return _Twins(np.eye(len(self.same), dtype=bool))
        return self


def _attend(
    group: HeadGroup, stream: _Known, asking: list[int], twins: _Twins
) -> tuple[np.ndarray, np.ndarray, _Known]:
    """Who wins where it matters, whether some lead there is rounding, and what all are sent.

    Winners that tie are told by the first, the last, and how many they are. A tie is sure between
    twins, and between scores that are not off.
    """
    tokens = stream.value.shape[1]
    here = _Known(stream.value[:, None], stream.off[:, None])
    query, key, value = (
        here.times(matrix.swapaxes(1, 2)) for matrix in (group.query, group.key, group.value)
    )
    scores = _products(query, _Known(*(part.swapaxes(2, 3) for part in key)))
    if group.position_bias is not None:
        scores = scores.plus(group.position_bias[:, :tokens, :tokens])
    seen = np.tri(tokens, dtype=bool) if group.causal else np.ones((tokens, tokens), dtype=bool)
    scores = _Known(np.where(seen, scores.value, -np.inf), scores.off)
    first = scores.value.argmax(axis=3)
    most = np.take_along_axis(scores.value, first[..., None], axis=3)
    doubt = inflate(np.take_along_axis(scores.off, first[..., None], axis=3) + scores.off)
    lead = most - scores.value
    shared = lead == 0.0
    alike = twins.same[first] if group.position_bias is None else first[..., None] < 0
    sure = np.where(shared, alike | (doubt == 0.0), lead > inflate(doubt + stray(1, np.abs(lead))))
    sure |= ~seen | (np.arange(tokens) == first[..., None])
    shares = _exactly(shared / shared.sum(axis=3, keepdims=True))
    mixed = _products(shares, value, more=1)
    sent = _add_up_heads(group, mixed)
    told = shared[:, :, asking]
    last = tokens - 1 - told[..., ::-1].argmax(axis=3)
    winners = np.stack([told.argmax(axis=3), last, told.sum(axis=3)], axis=-1)
    return winners, ~sure[:, :, asking].all(axis=(1, 2, 3)), sent


def _products(a: _Known, b: _Known, more: int = 0) -> _Known:
    """a @ b; each product has `more` roundings behind it besides."""
    terms, (x, off_x), (y, off_y) = a.value.shape[-1], a, b
    size = inflate(np.abs(x) @ np.abs(y), terms + 4)
    carried = np.abs(x) @ off_y + off_x @ (np.abs(y) + off_y)
    off = inflate(carried + stray(terms + 1 + more, size), terms + 8)
    return _Known(x @ y, off)


def _add_up_heads(group: HeadGroup, mixed: _Known) -> _Known:
    """What all heads of a group write, added up: b x tokens x width."""
    rows, heads, tokens, width = mixed.value.shape
    flat = _Known(*(p.transpose(0, 2, 1, 3).reshape(rows, tokens, heads * width) for p in mixed))
    return flat.times(group.output.transpose(0, 2, 1).reshape(heads * width, -1))
