"""What the two language models have in common: causal heads and one vocabulary for both ends."""

from __future__ import annotations

import numpy as np

from hardmax._errors import FileError
from hardmax.core import ReadOut, Transformer
from hardmax.interop.huggingface._home import Ids, Promise
from hardmax.interop.huggingface._labels import Labels, logit_rows, read_out_of
from hardmax.numerics import Format

STEEPNESS = {"float64": 2.0**45, "float32": 2.0**30, "bfloat16": 2.0**30}


def vocabulary(transformer: Transformer, ids: Ids) -> int:
    """How many rows an embedding has: for real inputs, as many as there are outputs."""
    return len(ids.tokens) if ids.symbols else transformer.outputs


def table_rows(table: np.ndarray, rows: int) -> np.ndarray:
    """An embedding with so many rows: real inputs use none of them, but for their constants."""
    return table if len(table) == rows else np.repeat(table[:1], rows, axis=0)


def answer_rows(
    transformer: Transformer, format: Format, labels: Labels | None, ids: Ids
) -> tuple[np.ndarray, np.ndarray]:
    """A row over our columns and a bias for every token of the vocabulary.

    A token that is no answer has a logit below that of every nearest code.
    """
    readout = transformer.readout
    if labels is None:
        return readout.weights, readout.bias
    exact = logit_rows(readout, labels, format)
    assert exact is not None  # `prepared` saw to it
    rows = np.zeros((len(ids.tokens), transformer.width))
    biases = np.full(len(ids.tokens), labels.lowest)
    places = [ids.tokens.index(text) for text in labels.texts]
    rows[places], biases[places] = exact
    return rows, biases


def read_answers(rows: np.ndarray, biases: np.ndarray, promise: Promise) -> ReadOut:
    """The read-out behind the rows of a vocabulary."""
    labels = promise.labels
    if labels is None:
        return ReadOut(rows, biases, promise.token)
    places = [promise.ids.tokens.index(text) for text in labels.texts]
    others = np.setdiff1d(np.arange(len(rows)), places)
    if rows[others].any() or (biases[others] != labels.lowest).any():
        raise FileError("has tokens that are no answers, and whose logits might win.")
    return read_out_of(rows[places], biases[places], labels, promise.token)
