"""The fast evaluator: many inputs at once, in float64, from a recipe made once per Transformer.

Streams are kept as one (width, batch) array per token, so that a weight matrix whose rows hold
one entry each, as compiled heads do, becomes a gather of rows instead of a matrix product.
Tokens that do not depend on the input keep a batch of 1, and tokens that nobody reads any more
are not computed. What it means is said by `reference`, against which it is tested.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from hardmax._errors import ShapeError
from hardmax.core._gated import GatedFeedForward
from hardmax.core._layers import Attention, FeedForward, HeadGroup, SequenceInput, VectorInput
from hardmax.core._sequences import attention_weights, evaluate_sequences
from hardmax.core._transformer import Transformer

_CHUNK = 1024  # inputs at a time: the rows of a layer then stay in cache
Streams = dict[int, np.ndarray]


def evaluate(transformer: Transformer, x: Any) -> Any:
    """The outputs at one input or at a batch of them.

    Vector inputs: shape (inputs,) gives (outputs,), shape (batch, inputs) gives (batch, outputs).
    Sequence inputs: one sequence, or a list of sequences, whose lengths may differ.
    """
    if isinstance(transformer.input, SequenceInput):
        return evaluate_sequences(transformer, x)
    try:
        given = np.asarray(x)
        if given.dtype.kind == "c":
            raise TypeError("complex numbers")
        points = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as reason:
        raise ShapeError("The input must be an array of real numbers.") from reason
    if points.ndim not in (1, 2) or points.shape[-1] != transformer.input.inputs:
        raise ShapeError(
            f"The input needs {transformer.input.inputs} numbers in a row, but its shape is "
            f"{points.shape}."
        )
    if not np.isfinite(points).all():
        raise ShapeError("The input must be finite numbers.")
    recipe = _recipe(transformer)
    batch = np.atleast_2d(points)
    result = np.empty((len(batch), transformer.outputs))
    for start in range(0, len(batch), _CHUNK):
        chunk = batch[start : start + _CHUNK]
        result[start : start + _CHUNK] = recipe.run(np.ascontiguousarray(chunk.T)).T
    return result if points.ndim == 2 else result[0]


@dataclass(frozen=True, eq=False)
class Projection:
    """matrix @ X by the cheapest means: a gather where rows have one entry, else a product.

    Matrices of compiled heads are mostly empty.
    """

    columns: np.ndarray
    matrix: np.ndarray | None  # rows x len(columns), or None for a gather
    scales: np.ndarray | None  # the gathered rows' factors, or None where all are 1

    @classmethod
    def of(cls, matrix: np.ndarray) -> Projection:
        entries = matrix != 0.0
        if matrix.shape[0] and entries.sum(axis=1).max(initial=0) <= 1:
            columns = entries.argmax(axis=1)
            scales = matrix[np.arange(len(matrix)), columns]
            return cls(columns, None, None if (scales == 1.0).all() else scales[:, None])
        columns = np.flatnonzero(entries.any(axis=0))
        return cls(columns, np.ascontiguousarray(matrix[:, columns]), None)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        picked = x[self.columns]
        if self.matrix is not None:
            return self.matrix @ picked
        return picked if self.scales is None else picked * self.scales


@dataclass(frozen=True, eq=False)
class Update:
    """Add matrix @ y to those rows of a stream in which the matrix has entries."""

    rows: np.ndarray
    projection: Projection

    @classmethod
    def of(cls, matrix: np.ndarray) -> Update:
        rows = np.flatnonzero((matrix != 0.0).any(axis=1))
        return cls(rows, Projection.of(matrix[rows]))

    def add(self, stream: np.ndarray, y: np.ndarray) -> np.ndarray:
        if not self.rows.size:
            return stream
        change = self.projection(y)
        if change.shape[1] > stream.shape[1]:
            stream = np.repeat(stream, change.shape[1], axis=1)
        stream[self.rows] += change
        return stream


@dataclass(frozen=True, eq=False)
class GroupRecipe:
    """A group of heads, ready to run."""

    heads: int
    key_width: int
    value_width: int
    query: Projection
    key: Projection
    value: Projection
    output: Update
    coldness: np.ndarray  # heads x 1
    causal: bool
    position_bias: np.ndarray | None

    @classmethod
    def of(cls, group: HeadGroup) -> GroupRecipe:
        heads, key_width, width = group.query.shape
        value_width = group.value.shape[1]
        return cls(
            heads,
            key_width,
            value_width,
            Projection.of(group.query.reshape(-1, width)),
            Projection.of(group.key.reshape(-1, width)),
            Projection.of(group.value.reshape(-1, width)),
            Update.of(group.output.transpose(1, 0, 2).reshape(width, -1)),
            group.coldness[:, None],
            group.causal,
            group.position_bias,
        )

    def run(self, before: Streams, after: Streams) -> None:
        """Add every head's output to the tokens in `after`."""
        last = max(after) if self.causal else max(before)
        seen = [j for j in before if j <= last]
        keys = {j: self._by_head(self.key(before[j]), self.key_width) for j in seen}
        values = {j: self._by_head(self.value(before[j]), self.value_width) for j in seen}
        for t in after:
            visible = [j for j in seen if j <= t] if self.causal else seen
            query = self._by_head(self.query(before[t]), self.key_width)
            if len(visible) == 2 and self.all_soft and self.position_bias is None:
                first, second = visible
                lead = self._lead(query, keys[first], keys[second])
                mixed = _logistic_mix(lead, values[first], values[second])
            else:
                scores = [self._score(query, keys[j], t, j) for j in visible]
                mixed = self._mix(scores, [values[j] for j in visible])
            after[t] = self.output.add(after[t], mixed.reshape(self.heads * self.value_width, -1))

    @property
    def all_soft(self) -> bool:
        return self.key_width > 0 and bool(np.isfinite(self.coldness).all())

    def _lead(self, query: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """The logit of the first token minus that of the second; heads x 1 x batch."""
        difference = (first - second) * self.coldness[:, :, None]
        if self.key_width == 1:
            return query * difference
        return (query * difference).sum(axis=1, keepdims=True)

    def _by_head(self, rows: np.ndarray, width: int) -> np.ndarray:
        return rows.reshape(self.heads, width, rows.shape[1])

    def _score(self, query: np.ndarray, key: np.ndarray, t: int, j: int) -> np.ndarray:
        score = query[:, 0] * key[:, 0] if self.key_width == 1 else (query * key).sum(axis=1)
        return score if self.position_bias is None else score + self.position_bias[:, t, j, None]

    def _mix(self, scores: list[np.ndarray], values: list[np.ndarray]) -> np.ndarray:
        """sum_j weight_j value_j, heads x value width x batch."""
        if len(scores) == 1:
            return values[0]
        if self.key_width == 0 and self.position_bias is None:
            return sum(values[1:], start=values[0]) / len(values)
        stacked = np.stack(np.broadcast_arrays(*scores))
        if self.all_soft:
            weights = _softmax(stacked, self.coldness)
        else:
            weights = attention_weights(stacked, self.coldness, axis=0)
        return sum(
            (w[:, None] * v for w, v in zip(weights[1:], values[1:], strict=True)),
            start=weights[0][:, None] * values[0],
        )


def _softmax(scores: np.ndarray, coldness: np.ndarray) -> np.ndarray:
    """Weights along the first axis, in place; logits are cut at -500 as in `_logistic_mix`."""
    scores -= scores.max(axis=0)
    scores *= coldness
    powers = np.exp(np.maximum(scores, -500.0, out=scores), out=scores)
    powers /= powers.sum(axis=0)
    return powers


def _logistic_mix(lead: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The softmax of two logits is a logistic function of their difference; works in place.

    Beyond 500 the smaller weight is below 1e-217 and stays there: exp is several times slower
    where it over- or underflows.
    """
    with np.errstate(under="ignore"):
        odds = np.exp(np.clip(lead, -500.0, 500.0, out=lead), out=lead)
        odds += 1.0
        if first.shape[2] == 1 and not first.any():
            return second / odds
        weight = 1.0 / odds
        return (1.0 - weight) * first + weight * second


@dataclass(frozen=True, eq=False)
class FeedForwardRecipe:
    """A feed-forward layer, ready to run."""

    inner: Projection
    inner_bias: np.ndarray
    outer: Update
    outer_bias: np.ndarray | None

    @classmethod
    def of(cls, layer: FeedForward) -> FeedForwardRecipe:
        bias = layer.outer_bias[:, None]
        return cls(
            Projection.of(layer.inner),
            layer.inner_bias[:, None],
            Update.of(layer.outer),
            bias if bias.any() else None,
        )

    def run(self, before: Streams, after: Streams) -> None:
        for t in after:
            hidden = np.maximum(self.inner(before[t]) + self.inner_bias, 0.0)
            after[t] = self.outer.add(after[t], hidden)
            if self.outer_bias is not None:
                after[t] += self.outer_bias


@dataclass(frozen=True, eq=False)
class GatedRecipe:
    """A gated feed-forward layer, ready to run."""

    layer: GatedFeedForward
    gate: Projection
    inner: Projection
    outer: Update

    @classmethod
    def of(cls, layer: GatedFeedForward) -> GatedRecipe:
        read = Projection.of(layer.gate), Projection.of(layer.inner)
        return cls(layer, *read, Update.of(layer.outer))

    def run(self, before: Streams, after: Streams) -> None:
        layer = self.layer
        for t in after:
            gates = layer.act(self.gate(before[t]) + layer.gate_bias[:, None])
            hidden = gates * (self.inner(before[t]) + layer.inner_bias[:, None])
            after[t] = self.outer.add(after[t], hidden)
            after[t] += layer.outer_bias[:, None]


PartRecipe = GroupRecipe | FeedForwardRecipe | GatedRecipe


@dataclass(frozen=True, eq=False)
class Recipe:
    """A Transformer on vectors, parsed once: what to compute for which tokens, in which order."""

    source: VectorInput
    stages: tuple[tuple[tuple[PartRecipe, ...], tuple[int, ...]], ...]
    first: tuple[int, ...]
    token: int
    weights: np.ndarray
    bias: np.ndarray

    @classmethod
    def of(cls, transformer: Transformer) -> Recipe:
        assert isinstance(transformer.input, VectorInput)
        assert transformer.readout.token is not None
        first, *asking = transformer.tokens_that_matter
        stages = []
        for sublayer, queries in zip(transformer.sublayers, asking, strict=True):
            parts: tuple[PartRecipe, ...]
            match sublayer:
                case Attention():
                    parts = tuple(GroupRecipe.of(group) for group in sublayer.groups)
                case FeedForward():
                    parts = (FeedForwardRecipe.of(sublayer),)
                case GatedFeedForward():
                    parts = (GatedRecipe.of(sublayer),)
            stages.append((parts, queries))
        readout = transformer.readout
        return cls(
            transformer.input,
            tuple(stages),
            first,
            transformer.readout.token % transformer.tokens,
            readout.weights,
            readout.bias[:, None],
        )

    def run(self, x: np.ndarray) -> np.ndarray:
        """Outputs x batch, for x of shape inputs x batch."""
        streams = {t: self._embed(t, x) for t in self.first}
        for parts, queries in self.stages:
            after = {t: streams[t].copy() for t in queries}
            for part in parts:
                part.run(streams, after)
            streams = after
        read = self.weights @ streams[self.token] + self.bias
        return np.broadcast_to(read, (len(read), x.shape[1]))

    def _embed(self, t: int, x: np.ndarray) -> np.ndarray:
        offset = self.source.offsets[t][:, None]
        rows = np.flatnonzero(self.source.maps[t].any(axis=1))
        if not rows.size:
            return offset.copy()
        stream = np.repeat(offset, x.shape[1], axis=1)
        stream[rows] += self.source.maps[t][rows] @ x
        return stream


_recipes: WeakKeyDictionary[Transformer, Recipe] = WeakKeyDictionary()


def _recipe(transformer: Transformer) -> Recipe:
    if transformer not in _recipes:
        _recipes[transformer] = Recipe.of(transformer)
    return _recipes[transformer]
