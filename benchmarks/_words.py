"""Words in bulk: tables of symbol numbers, evaluation in a float format, wrong answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

import hardmax as hm
from hardmax.core import Attention, FeedForward, Head, SequenceInput, Transformer, Words
from hardmax.languages.programs import Code, ProgramTarget

FORMATS = ("float64", "float32")
_LARGEST = 2**22  # attention weights held at once


def tables_of(words: Words, chosen: Sequence[Sequence[object]]) -> Iterator[np.ndarray]:
    """Words as rows of symbol numbers, one table for each length; the empty word is left out."""
    number = {symbol: k for k, symbol in enumerate(words.alphabet)}
    by_length: dict[int, list[list[int]]] = {}
    for word in chosen:
        by_length.setdefault(len(word), []).append([number[symbol] for symbol in word])
    for length, rows in by_length.items():
        if length:
            yield np.array(rows, dtype=np.int64)


def all_tables(words: Words) -> Iterator[np.ndarray]:
    """Every word but the empty one."""
    for length in words.lengths:
        if length:
            yield words.numbers(length, 0, words.count_of(length))


def with_runs(words: Words, count: int, rng: np.random.Generator) -> list[tuple]:
    """Full-length words of few runs: counts that are large, and nearly or exactly equal."""
    found = []
    for _ in range(count):
        runs = int(rng.integers(2, 5))
        cuts = np.sort(rng.integers(0, words.longest + 1, size=runs - 1))
        lengths = np.diff(np.concatenate([[0], cuts, [words.longest]]))
        symbols = rng.integers(len(words.alphabet), size=runs)
        found.append(tuple(words.alphabet[k] for k in np.repeat(symbols, lengths)))
    return found


# ---- evaluation in a format --------------------------------------------------------------------


def evaluate_in(transformer: Transformer, ids: np.ndarray, dtype: str) -> np.ndarray:
    """batch x symbols x outputs, every weight cast to the format and every step done in it.

    Written apart from the evaluators of the library, which know float64 alone.
    """
    most = max((len(a.heads) for a in transformer.sublayers if isinstance(a, Attention)), default=1)
    step = max(1, _LARGEST // (most * (ids.shape[1] + 1) ** 2))
    parts = [_run(transformer, ids[i : i + step], dtype) for i in range(0, len(ids), step)]
    return np.concatenate(parts)


def _run(transformer: Transformer, ids: np.ndarray, dtype: str) -> np.ndarray:
    def cast(array: np.ndarray) -> np.ndarray:
        return array.astype(dtype)

    source, readout = transformer.input, transformer.readout
    assert isinstance(source, SequenceInput)
    assert readout.token is None
    stream = cast(source.embedding)[ids]
    first = 0
    if source.start is not None:
        first = 1
        start = np.broadcast_to(cast(source.start), (len(ids), 1, source.width))
        stream = np.concatenate([start, stream], axis=1)
    stream = stream + cast(source.positions)[: stream.shape[1]]
    for layer in transformer.sublayers:
        match layer:
            case Attention(heads=heads):
                stream = stream + sum(_attend(head, stream, dtype) for head in heads)
            case FeedForward():
                hidden = stream @ cast(layer.inner).T + cast(layer.inner_bias)
                stream = stream + np.maximum(hidden, 0) @ cast(layer.outer).T
                stream = stream + cast(layer.outer_bias)
    assert stream.dtype == dtype
    return stream[:, first:] @ cast(readout.weights).T + cast(readout.bias)


def _attend(head: Head, stream: np.ndarray, dtype: str) -> np.ndarray:
    tokens = stream.shape[1]
    query, key, value, output = (
        matrix.astype(dtype) for matrix in (head.query, head.key, head.value, head.output)
    )
    if head.key_width:
        scores = (stream @ query.T) @ (stream @ key.T).swapaxes(1, 2)
    else:
        scores = np.zeros((len(stream), tokens, tokens), dtype)
    if head.position_bias is not None:
        scores = scores + head.position_bias[:tokens, :tokens].astype(dtype)
    if head.causal:
        scores = np.where(np.tri(tokens, dtype=bool), scores, np.array(-np.inf, dtype))
    below = scores - scores.max(axis=2, keepdims=True)
    hard = np.isinf(head.coldness)
    with np.errstate(under="ignore"):
        powers = (
            (below == 0).astype(dtype)
            if hard
            else np.exp(below * np.dtype(dtype).type(head.coldness))
        )
    weights = powers / powers.sum(axis=2, keepdims=True)
    return weights @ (stream @ value.T) @ output.T


# ---- answers -----------------------------------------------------------------------------------


def codes_of(model: hm.Construction) -> Code:
    """How the answers of a program with one output are numbered."""
    target = model.claim.target
    assert isinstance(target, ProgramTarget)
    (output,) = target.program.outputs
    return target.codes[output]


def wrong_words(code: Code, found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Which words have an answer that is not nearest to the number wanted: a flag for each."""
    numbers = np.unique([float(code.number(one)) for one in code.items])
    middles = (numbers[1:] + numbers[:-1]) / 2
    seen = numbers[np.searchsorted(middles, found[..., 0].astype(float))]
    right = np.isclose(seen, wanted, rtol=0.0, atol=1e-9)  # fractions in lowest terms or as floats
    return ~(right & np.isfinite(found[..., 0])).all(axis=1)
