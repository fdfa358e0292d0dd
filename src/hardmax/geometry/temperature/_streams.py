"""What the heads of a Transformer see: its own stream, for many inputs at once."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike

from hardmax._errors import RequestError, ShapeError
from hardmax.core import (
    Attention,
    HeadGroup,
    SequenceInput,
    Transformer,
    VectorInput,
    embedded,
    streams,
)

_NUMBERS = 2**21  # of the largest array held for a chunk of inputs


def seen_by(transformer: Transformer, stream: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Each attention sublayer's number with the stream that its heads read, batch x tokens x width.

    The stream is the model's own: earlier heads work at their own coldness.
    """
    # The stream after the last sublayer is never asked for, so it is never computed.
    found = zip(transformer.sublayers, streams(transformer, stream), strict=False)
    for number, (sublayer, seen) in enumerate(found):
        if isinstance(sublayer, Attention):
            yield number, seen


def attention_of(group: HeadGroup, stream: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Queries, keys and values of every head, batch x heads x tokens x their width."""
    query, key, value = (
        stream[:, None] @ matrix.swapaxes(1, 2) for matrix in (group.query, group.key, group.value)
    )
    return query, key, value


def embedded_chunks(
    transformer: Transformer, inputs: ArrayLike
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The embedded inputs, batch x tokens x width, with their numbers; equal lengths together."""
    source = transformer.input
    match source:
        case VectorInput():
            points = _points(source, inputs)
            step = _step(transformer, source.tokens)
            for start in range(0, len(points), step):
                some = points[start : start + step]
                stream = np.einsum("twi,bi->btw", source.maps, some) + source.offsets
                yield np.arange(start, start + len(some)), stream
        case SequenceInput():
            words = [source.indices(word) for word in _words(source, inputs)]
            for length in sorted({len(word) for word in words}):
                members = [i for i, word in enumerate(words) if len(word) == length]
                step = _step(transformer, length + 1)
                for start in range(0, len(members), step):
                    chosen = np.array(members[start : start + step])
                    ids = np.array([words[i] for i in chosen], dtype=np.int64)
                    yield chosen, embedded(source, ids.reshape(len(chosen), length))


def in_stream_lengths(group: HeadGroup, value: np.ndarray) -> np.ndarray:
    """Values whose distances are those of what the head adds to the stream, in fewer coordinates.

    The output map is Q R with orthonormal columns in Q, so |output z| = |R z| for every z.
    """
    if group.value.shape[1] >= group.output.shape[1]:
        return value @ group.output.swapaxes(1, 2)
    factor = np.asarray(np.linalg.qr(group.output, mode="r"))
    return value @ factor.swapaxes(1, 2)


def _points(source: VectorInput, inputs: ArrayLike) -> np.ndarray:
    try:
        points = np.asarray(inputs, dtype=np.float64)
    except (TypeError, ValueError) as reason:
        raise ShapeError("The inputs must be rows of real numbers.") from reason
    if points.ndim == 1:
        points = points[None]
    if points.ndim != 2 or points.shape[1] != source.inputs or not len(points):
        raise ShapeError(
            f"The inputs must be rows of {source.inputs} numbers, but their shape is "
            f"{np.shape(inputs)}."
        )
    if not np.isfinite(points).all():
        raise ShapeError("The inputs must be finite numbers, but some are nan or infinite.")
    return points


def _words(source: SequenceInput, inputs: ArrayLike) -> list[Sequence[Hashable]]:
    """One word, if all items are symbols, or a list of words; each must have a token."""
    if not isinstance(inputs, str | Sequence | np.ndarray):
        raise ShapeError("The inputs must be a sequence of symbols, or a list of sequences.")
    items = list(inputs)
    single = isinstance(inputs, str) or all(
        isinstance(item, str | int) and item in source.alphabet for item in items
    )
    words = [items] if single else items
    if source.start is None and not all(len(word) for word in words):
        raise RequestError("The empty word has no tokens, so no head attends on it: leave it out.")
    return words


def _step(transformer: Transformer, tokens: int) -> int:
    """How many inputs fit at once: keys, values or weights of all heads are the largest array."""
    numbers = transformer.width
    for layer in transformer.sublayers:
        if isinstance(layer, Attention):
            each = [max(head.key_width, head.value_width, tokens) for head in layer.heads]
            numbers = max(numbers, sum(each))
        else:
            numbers = max(numbers, layer.hidden_width)
    return max(1, _NUMBERS // (tokens * numbers))
