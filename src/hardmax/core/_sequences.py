"""The fast evaluator for sequences of symbols: all tokens of many sequences in one go."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from hardmax._errors import ShapeError
from hardmax.core._inputs import SequenceInput
from hardmax.core._layers import Attention, FeedForward, HeadGroup
from hardmax.core._transformer import Transformer

_LARGEST_SCORES = 2**22  # attention weights held at once, in numbers


def evaluate_sequences(transformer: Transformer, x: Any) -> Any:
    """The outputs for one sequence (a text or a list of symbols) or for a list of sequences.

    A list whose items are all symbols is one sequence. A read-out at one token gives an array of
    outputs; at every token, one row per symbol.
    """
    source = transformer.input
    assert isinstance(source, SequenceInput)
    if isinstance(x, str) or not _is_batch(x, source.alphabet):
        return _evaluate_batch(transformer, [source.indices(x)])[0]
    return _evaluate_batch(transformer, [source.indices(sequence) for sequence in x])


def _evaluate_batch(transformer: Transformer, ids: list[list[int]]) -> list[Any]:
    results: list[Any] = [None] * len(ids)
    source = transformer.input
    assert isinstance(source, SequenceInput)
    for length in {len(sequence) for sequence in ids}:
        if length == 0 and source.start is None and transformer.readout.token is None:
            nothing = np.zeros((0, transformer.outputs))  # no symbols, no rows
            results = [found if one else nothing for one, found in zip(ids, results, strict=True)]
            continue
        members = [i for i, sequence in enumerate(ids) if len(sequence) == length]
        scores = max(1, len(transformer.heads)) * (length + 1) ** 2
        step = max(1, _LARGEST_SCORES // scores)
        for start in range(0, len(members), step):
            chunk = members[start : start + step]
            table = np.array([ids[i] for i in chunk], dtype=np.int64).reshape(len(chunk), length)
            for i, result in zip(chunk, _run(transformer, table), strict=True):
                results[i] = result
    return results


def _is_batch(x: Any, alphabet: tuple[Hashable, ...]) -> bool:
    if not isinstance(x, Sequence | np.ndarray):
        raise ShapeError("The input must be a sequence of symbols, or a list of sequences.")
    return len(x) > 0 and not all(isinstance(item, str | int) and item in alphabet for item in x)


def _run(transformer: Transformer, ids: np.ndarray) -> np.ndarray:
    """batch x outputs, or batch x symbols x outputs."""
    source, readout = transformer.input, transformer.readout
    assert isinstance(source, SequenceInput)
    stream = source.embedding[ids]
    if source.start is not None:
        start = np.broadcast_to(source.start, (len(ids), 1, source.width))
        stream = np.concatenate([start, stream], axis=1)
    stream = stream + source.positions[: stream.shape[1]]
    for sublayer in transformer.sublayers:
        match sublayer:
            case Attention():
                stream = stream + sum(_attend(group, stream) for group in sublayer.groups)
            case FeedForward():
                hidden = np.maximum(stream @ sublayer.inner.T + sublayer.inner_bias, 0.0)
                stream = stream + hidden @ sublayer.outer.T + sublayer.outer_bias
    if readout.token is not None:
        return stream[:, readout.token] @ readout.weights.T + readout.bias
    first = int(source.start is not None)
    return stream[:, first:] @ readout.weights.T + readout.bias


def _attend(group: HeadGroup, stream: np.ndarray) -> np.ndarray:
    """One group of heads on a batch x tokens x width stream."""
    tokens = stream.shape[1]
    query = np.einsum("btw,hkw->bhtk", stream, group.query, optimize=True)
    key = np.einsum("btw,hkw->bhtk", stream, group.key, optimize=True)
    value = np.einsum("btw,hvw->bhtv", stream, group.value, optimize=True)
    scores = query @ key.swapaxes(2, 3)
    if group.position_bias is not None:
        scores = scores + group.position_bias[:, :tokens, :tokens]
    if group.causal:
        scores = np.where(np.tri(tokens, dtype=bool), scores, -np.inf)
    weights = attention_weights(scores, group.coldness[:, None, None], axis=-1)
    return np.einsum("bhtv,hwv->btw", weights @ value, group.output, optimize=True)


def attention_weights(scores: np.ndarray, coldness: np.ndarray, axis: int) -> np.ndarray:
    """Softmax weights along an axis; ties share equally where the coldness is infinite."""
    hard = np.broadcast_to(np.isinf(coldness), scores.shape)
    below = scores - scores.max(axis=axis, keepdims=True)
    with np.errstate(under="ignore"):
        powers = np.where(hard, below == 0.0, np.exp(np.where(hard, 1.0, coldness) * below))
    return powers / powers.sum(axis=axis, keepdims=True)
