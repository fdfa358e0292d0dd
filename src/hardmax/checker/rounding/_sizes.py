"""What has to be followed at all: the coordinates on which the answer depends.

Numbers nobody reads may be rounded as they like. But they must not overflow: 0 times infinity is
no number, and a dense matrix product reads everything.
"""

from __future__ import annotations

import numpy as np

from hardmax.checker.rounding._format import check, check_accumulated, moved, relative
from hardmax.core import Attention, FeedForward, HeadGroup, ReadOut, Sublayer
from hardmax.numerics import Format, inflate, matmul_up


def check_sizes(
    sublayers: tuple[Sublayer, ...],
    readout: ReadOut,
    size: np.ndarray,
    tokens: int,
    format: Format,
) -> None:
    """Raise unless nothing can overflow at any token, by sizes alone.

    `size` bounds every token's stream after the embedding. A mean of values is no larger than the
    largest value; a sum of k terms is computed as at most 1 + gamma_k times the sum of sizes, and
    weights of n tokens, divided by their sum, add up to at most 1 + gamma_2n.
    """
    size = size[:, None]
    for sublayer in sublayers:
        change = np.zeros(size.shape)
        match sublayer:
            case FeedForward():
                hidden = _sized(sublayer.inner, size, format, sublayer.inner_bias)
                change = _sized(sublayer.outer, hidden, format, sublayer.outer_bias)
                size = _grown(size + change, 1, format)
            case Attention():
                mixing = 1.0 + float(relative(2 * tokens + 2, format))
                for group in sublayer.groups:
                    change = change + _written(group, size, tokens, mixing, format)
                size = _grown(size + change, len(sublayer.groups) + 1, format)
        check(format, size)
    _sized(readout.weights, size, format, readout.bias)


def _sized(
    matrix: np.ndarray, size: np.ndarray, format: Format, bias: np.ndarray | None = None
) -> np.ndarray:
    entries = np.abs(matrix) + moved(matrix, format)
    total = matmul_up(entries, size)
    if bias is not None:
        total = total + (np.abs(bias) + moved(bias, format))[:, None]
    total = _grown(total, int((matrix != 0.0).sum(axis=-1).max(initial=0)) + 2, format)
    check(format, total)
    return total


def _grown(size: np.ndarray, roundings: int, format: Format) -> np.ndarray:
    return inflate(size * (1.0 + relative(roundings, format)) + format.smallest * roundings)


def _written(
    group: HeadGroup, size: np.ndarray, tokens: int, mixing: float, format: Format
) -> np.ndarray:
    """What a group of heads adds to a token; their logits and sums are checked on the way.

    A difference of logits may overflow: its exponential is 0 then, which is counted.
    """
    heads, key_width, width = group.query.shape
    cold = np.where(np.isinf(group.coldness), 1.0, group.coldness)
    with np.errstate(over="ignore"):
        folded = group.query * cold[:, None, None]
    check(format, np.abs(folded))
    query = _sized(folded.reshape(-1, width), size, format)
    key = _sized(group.key.reshape(-1, width), size, format)
    logit = (query * key).reshape(heads, key_width).sum(axis=1)
    if group.position_bias is not None:
        with np.errstate(over="ignore"):
            logit = logit + _grown(np.abs(group.position_bias).max(axis=(1, 2)) * cold, 2, format)
    check(format, _grown(logit, key_width + 2, format))
    value = _sized(group.value.reshape(-1, width), size, format)
    mean = _grown(mixing * value, 2, format)
    check(format, mean)
    soft = np.repeat(np.isfinite(group.coldness), group.value.shape[1])
    check_accumulated(format, inflate(tokens * mean[soft]), tokens)
    joined = group.output.transpose(1, 0, 2).reshape(width, -1)
    return _sized(joined, mean, format)
