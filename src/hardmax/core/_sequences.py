"""The fast evaluator for sequences of symbols: all tokens of many sequences in one go."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from hardmax._errors import RequestError, ShapeError
from hardmax.core._gated import GatedFeedForward
from hardmax.core._layers import Attention, FeedForward, HeadGroup, SequenceInput
from hardmax.core._transformer import Transformer

_LARGEST_SCORES = 2**22  # attention weights held at once, in numbers


def evaluate_sequences(transformer: Transformer, x: Any) -> Any:
    """The outputs for one sequence (a text or a list of symbols) or for a list of sequences.

    A list whose items are all symbols is one sequence. A read-out at one token gives an array of
    outputs; at every token, one row per symbol.
    """
    source = transformer.input
    assert isinstance(source, SequenceInput)
    if isinstance(x, str) or not is_batch_of_words(x, source.alphabet):
        return _evaluate_batch(transformer, [source.indices(x)])[0]
    return _evaluate_batch(transformer, [source.indices(sequence) for sequence in x])


def _evaluate_batch(transformer: Transformer, ids: list[list[int]]) -> list[np.ndarray]:
    results: list[np.ndarray] = [np.zeros(0)] * len(ids)
    source = transformer.input
    assert isinstance(source, SequenceInput)
    for length in {len(sequence) for sequence in ids}:
        if length == 0 and source.start is None and transformer.readout.token is None:
            nothing = np.zeros((0, transformer.outputs))  # no symbols, no rows
            results = [found if one else nothing for one, found in zip(ids, results, strict=True)]
            continue
        check_readable(transformer, length)
        members = [i for i, sequence in enumerate(ids) if len(sequence) == length]
        scores = max(1, len(transformer.heads)) * (length + 1) ** 2
        step = max(1, _LARGEST_SCORES // scores)
        for start in range(0, len(members), step):
            chunk = members[start : start + step]
            table = np.array([ids[i] for i in chunk], dtype=np.int64).reshape(len(chunk), length)
            for i, result in zip(chunk, _run(transformer, table), strict=True):
                results[i] = result
    return results


def is_batch_of_words(x: object, alphabet: tuple[Hashable, ...]) -> bool:
    """Whether this is a list of sequences; a list whose items are all symbols is one sequence."""
    if not isinstance(x, Sequence | np.ndarray):
        raise ShapeError("The input must be a sequence of symbols, or a list of sequences.")
    if not all(isinstance(item, str | int | np.integer | Sequence | np.ndarray) for item in x):
        raise ShapeError("The input must be a sequence of symbols, or a list of sequences.")
    return len(x) > 0 and not all(isinstance(item, str | int) and item in alphabet for item in x)


def _run(transformer: Transformer, ids: np.ndarray) -> np.ndarray:
    """batch x outputs, or batch x symbols x outputs."""
    source = transformer.input
    assert isinstance(source, SequenceInput)
    for stream in streams(transformer, embedded(source, ids)):
        last = stream  # earlier ones are let go
    return read_out(transformer, last)


def streams(transformer: Transformer, stream: np.ndarray, first: int = 0) -> Iterator[np.ndarray]:
    """The stream before every sublayer and after the last one, batch x tokens x width.

    It starts from an embedded one, be it of words or of vectors: sublayers do not ask. Or it starts
    before another sublayer than the first.
    """
    yield stream
    for sublayer in transformer.sublayers[first:]:
        match sublayer:
            case Attention():
                stream = attended(sublayer, stream, group_weights(sublayer, stream))
            case FeedForward() | GatedFeedForward():
                stream = fed_forward(sublayer, stream)
        yield stream


def check_readable(transformer: Transformer, length: int) -> None:
    """Refuse words that do not have the token from which the answer is read."""
    source, token = transformer.input, transformer.readout.token
    assert isinstance(source, SequenceInput)
    tokens = length + (source.start is not None)
    if token is not None and not -tokens <= token < tokens:
        raise RequestError(
            f"This model answers at token {token}, which a word of {length} symbols does not have."
        )


def embedded(source: SequenceInput, ids: np.ndarray) -> np.ndarray:
    """The stream before the first sublayer, batch x tokens x width."""
    stream = source.embedding[ids]
    if source.start is not None:
        start = np.broadcast_to(source.start, (len(ids), 1, source.width))
        stream = np.concatenate([start, stream], axis=1)
    return stream + source.positions[: stream.shape[1]]


def attended(layer: Attention, stream: np.ndarray, weights: list[np.ndarray]) -> np.ndarray:
    """The stream after an attention layer whose groups of heads attend by these weights."""
    pairs = zip(layer.groups, weights, strict=True)
    return stream + sum(_received(group, stream, by) for group, by in pairs)


def fed_forward(layer: FeedForward | GatedFeedForward, stream: np.ndarray) -> np.ndarray:
    """The stream after a feed-forward layer."""
    hidden = stream @ layer.inner.T + layer.inner_bias
    match layer:
        case FeedForward():
            hidden = np.maximum(hidden, 0.0)
        case GatedFeedForward():
            hidden = layer.act(stream @ layer.gate.T + layer.gate_bias) * hidden
    return stream + hidden @ layer.outer.T + layer.outer_bias


def read_out(transformer: Transformer, stream: np.ndarray) -> np.ndarray:
    """batch x outputs, or batch x symbols x outputs, from the last stream."""
    source, readout = transformer.input, transformer.readout
    assert isinstance(source, SequenceInput)
    if readout.token is not None:
        return stream[:, readout.token] @ readout.weights.T + readout.bias
    first = int(source.start is not None)
    return stream[:, first:] @ readout.weights.T + readout.bias


def group_weights(layer: Attention, stream: np.ndarray) -> list[np.ndarray]:
    """How each group of heads attends: batch x heads x asking tokens x tokens asked."""
    return [_weights(group, stream) for group in layer.groups]


def _weights(group: HeadGroup, stream: np.ndarray) -> np.ndarray:
    tokens = stream.shape[1]
    query = np.einsum("btw,hkw->bhtk", stream, group.query, optimize=True)
    key = np.einsum("btw,hkw->bhtk", stream, group.key, optimize=True)
    scores = query @ key.swapaxes(2, 3)
    if group.position_bias is not None:
        scores = scores + group.position_bias[:, :tokens, :tokens]
    if group.causal:
        scores = np.where(np.tri(tokens, dtype=bool), scores, -np.inf)
    return attention_weights(scores, group.coldness[:, None, None], axis=-1)


def _received(group: HeadGroup, stream: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """What every token is sent by a group of heads, batch x tokens x width."""
    value = np.einsum("btw,hvw->bhtv", stream, group.value, optimize=True)
    return np.einsum("bhtv,hwv->btw", weights @ value, group.output, optimize=True)


def attention_weights(scores: np.ndarray, coldness: np.ndarray, axis: int) -> np.ndarray:
    """Softmax weights along an axis; ties share equally where the coldness is infinite."""
    hard = np.broadcast_to(np.isinf(coldness), scores.shape)
    below = scores - scores.max(axis=axis, keepdims=True)
    with np.errstate(under="ignore"):
        powers = np.where(hard, below == 0.0, np.exp(np.where(hard, 1.0, coldness) * below))
    return powers / powers.sum(axis=axis, keepdims=True)
