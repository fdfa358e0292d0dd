"""How far the scores of a head can be from where they are computed to be."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hardmax.checker.sequences._stream import Overflow, Stream, check, check_weights
from hardmax.core import Head
from hardmax.numerics import (
    FLOAT64,
    Format,
    MidRadius,
    gamma,
    inflate,
    is_power_of_two,
    lowest_bit,
    stray,
)


class Asks(NamedTuple):
    """Queries or keys: bounds on their sizes and radii, tokens x key width, and their grid."""

    size: np.ndarray
    radius: np.ndarray
    grid: np.ndarray


def seen_pairs(head: Head, tokens: int) -> np.ndarray:
    """Whom each token sees: asking token x token asked."""
    return np.tri(tokens, dtype=bool) if head.causal else np.ones((tokens, tokens), dtype=bool)


def scores_by_token(
    stream: Stream, head: Head, format: Format, keyed: Stream | None = None
) -> MidRadius:
    """Scores, or logits if the head is soft, of a stream without slots: asking x asked, last.

    Keys are made of `keyed`, if that is read otherwise.
    """
    query = stream.affine(head.query, None, format)
    key = (stream if keyed is None else keyed).affine(head.key, None, format)
    (q, rq), (k, rk) = query.blocks[()], key.blocks[()]
    middle = q @ k.swapaxes(-1, -2)
    if head.position_bias is not None:
        tokens = stream.leading[-1]
        middle = middle + head.position_bias[:tokens, :tokens]
    asking, asked = Asks(np.abs(q), rq, query.grid), Asks(np.abs(k), rk, key.grid)
    radius = score_radius(asking, asked, stream.magnitude, head, format)
    return MidRadius(middle * (1.0 if is_hard(head) else head.coldness), radius)


def is_hard(head: Head) -> bool:
    return bool(np.isinf(head.coldness))


def score_radius(
    asking: Asks, asked: Asks, stream: np.ndarray, head: Head, format: Format
) -> np.ndarray:
    """The radius of the scores query . key + bias, times the coldness; asking token x token asked.

    |q k - q' k'| <= |q| |k - k'| + |q - q'| |k'|, term by term, and one more sum in any order. The
    coldness may also be folded into the query weights. Unless it is a power of two that rounds
    them, and relative errors of the weights pass through all sums; unless it is such a power from 1
    on, products with them may underflow where others do not. `stream` bounds |x|.
    """
    tokens = stream.shape[-2]
    k, rk = asked.size.swapaxes(-1, -2), asked.radius.swapaxes(-1, -2)
    radius = asking.size @ rk + asking.radius @ (k + rk)
    size = (asking.size + asking.radius) @ (k + rk)
    grid = np.min(asking.grid + asked.grid, initial=np.inf)
    terms, cold = head.key_width, 1.0 if is_hard(head) else head.coldness
    bias = np.zeros((tokens, tokens))
    if head.position_bias is not None:
        bias = head.position_bias[:tokens, :tokens]
        grid, terms = min(grid, float(lowest_bit(bias).min(initial=np.inf))), terms + 1
    kept = format.holds(bias)
    size = inflate(size + np.abs(bias), terms + 8)
    tight = radius == 0.0
    lost = np.where(tight & FLOAT64.is_exact(size, grid), 0.0, stray(terms + 3, size))
    exactly = tight & kept & format.is_exact(size, grid)
    lost = lost + np.where(exactly, 0.0, stray(terms + 3, size, format))
    radius = inflate(radius + lost, terms + 8)
    check(format, (size + radius) * max(cold, 1.0))  # the coldness may also come last
    radius = radius * cold
    _check_folded(stream, head.query, cold, format)
    if is_power_of_two(np.asarray(cold)) and cold >= 1.0:
        return np.asarray(radius)
    full = (stream @ np.abs(head.query).T) @ (stream @ np.abs(head.key).T).swapaxes(-1, -2)
    steps = 2 * head.width + terms + 8
    full = inflate(full + np.abs(bias), steps) * cold
    lost = stray(steps, full, format) + stray(2, size * cold)
    faint = format.smallest * head.width * (k + rk).sum(axis=-2, keepdims=True)
    return np.asarray(inflate(radius + lost + np.where(full > 0.0, faint, 0.0), terms + 8))


def _check_folded(stream: np.ndarray, query: np.ndarray, cold: float, format: Format) -> None:
    """Refuse queries that may overflow once the coldness is multiplied into their weights."""
    with np.errstate(over="ignore"):
        folded = query * cold
    check_weights(format, folded)
    size = inflate(stream @ np.abs(folded).T, query.shape[1] + 8)
    check(format, size + stray(query.shape[1] + 3, size, format))


def power_error(tokens: int, format: Format) -> float:
    """The relative error of a softmax's powers: of its exp, of ours, and of 8 roundings here."""
    there, here = gamma(format.power_units(tokens), format), gamma(FLOAT64.exp_units + 8)
    if not there + here < 0.25:
        raise Overflow(f"Nothing can be said in {format.name}: a softmax has too many tokens.")
    return float(inflate(there + here + there * here))


def underflow(format: Format) -> float:
    """What a power gains or loses besides: it may vanish in the format, and underflow here.

    The latter is less than what the sum is inflated by.
    """
    return float(inflate(format.vanished + format.smallest))
