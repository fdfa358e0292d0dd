"""Many words of one length at once: every output enclosed, for the reals and a float format.

Each word is followed on its own, so the balls hold rounding and nothing else. Scores are compared
only where the balls allow it; a hard head whose winner cannot be told apart returns the hull of
all candidates, which is where any mean of some of them lies.
"""

from __future__ import annotations

import numpy as np

from hardmax.checker._budget import CALL, ENTRY, EXP, FLOPS, charge
from hardmax.checker._dependence import tokens_read
from hardmax.checker.sequences._layers import feed_forward, passed_gates, read_out, updated
from hardmax.checker.sequences._reading import Reading, readings
from hardmax.checker.sequences._scores import (
    is_hard,
    power_error,
    scores_by_token,
    seen_pairs,
    underflow,
)
from hardmax.checker.sequences._stream import (
    Stream,
    check,
    check_sums,
    sequence_input,
    stored,
    strays,
)
from hardmax.core import Attention, FeedForward, GatedFeedForward, Head, Host, Transformer
from hardmax.numerics import (
    FLOAT64,
    Format,
    MidRadius,
    down,
    inflate,
    is_power_of_two,
    stray,
    sum_up,
    up,
)


def enclose_words(
    transformer: Transformer, ids: np.ndarray, format: Format, host: Host | None = None
) -> MidRadius:
    """The outputs for words of one length: words x rows x outputs.

    `ids` holds the symbols' numbers in the Transformer's alphabet, a word per row. The rows are
    those of all symbols, or the one that the read-out asks for.
    """
    stream = _embed(transformer, ids, format)
    *ways, last = readings(host, transformer, format)
    for sublayer, reading in zip(transformer.sublayers, ways, strict=True):
        match sublayer:
            case FeedForward():
                stream = feed_forward(stream, sublayer, reading)
            case GatedFeedForward():
                stream = passed_gates(stream, sublayer, reading)
            case Attention():
                stream = _attend(stream, sublayer, reading)
    tokens = np.array(tokens_read(transformer, stream.leading[-1]), dtype=np.int64)
    return read_out(stream.at_tokens(tokens), transformer.readout, last).blocks[()]


def _embed(transformer: Transformer, ids: np.ndarray, format: Format) -> Stream:
    source = sequence_input(transformer)
    symbols = stored(source.embedding, format)
    tables = [symbols.middle[ids], symbols.radius[ids]]
    if source.start is not None:
        start = stored(source.start, format)
        shape = (len(ids), 1, source.width)
        tables = [
            np.concatenate([np.broadcast_to(own, shape), rest], axis=1)
            for own, rest in zip(start, tables, strict=True)
        ]
    tokens = MidRadius(*tables)
    places = stored(source.positions[: tokens.middle.shape[1]], format)
    shape = tokens.middle.shape
    places = MidRadius(*(np.broadcast_to(part, shape).copy() for part in places))
    both = np.tile(np.eye(source.width), 2)
    return Stream.of(tokens, 2).beside(Stream.of(places, 2)).affine(both, None, format)


def _attend(stream: Stream, layer: Attention, reading: Reading) -> Stream:
    read, format = reading.of(stream), reading.for_attention
    keyed = reading.keys(stream)
    changes = [(_head(read, keyed, head, format), head.output) for head in layer.heads]
    return updated(stream, changes, None, format)


def _head(stream: Stream, keyed: Stream, head: Head, format: Format) -> Stream:
    words, tokens = stream.leading
    pairs = words * tokens * tokens
    widths = len(head.query) + head.value_width
    charge(100 * CALL + pairs * (24 * ENTRY + 2 * EXP + 4 * widths // FLOPS))
    scores = scores_by_token(stream, head, format, keyed)
    values = stream.affine(head.value, None, format)
    visible = seen_pairs(head, tokens)
    mix = hard_mean if is_hard(head) else soft_mean
    mixed = mix(scores, visible, values, format)
    return Stream({(): mixed}, values.grid - np.ceil(np.log2(tokens)), stream.lead)


def hard_mean(scores: MidRadius, visible: np.ndarray, values: Stream, format: Format) -> MidRadius:
    """The mean of the values of all tokens with the largest score."""
    floor = np.where(visible, scores.low, -np.inf).max(axis=-1, keepdims=True)
    winners = visible & (scores.high >= floor)
    count = winners.sum(axis=-1, keepdims=True)
    told = (count == 1) | ~(winners & (scores.radius > 0.0)).any(axis=-1, keepdims=True)
    v, rv = values.blocks[()]
    weights = winners / count
    tokens = visible.shape[0]
    middle, radius = weights @ v, inflate(weights @ rv, tokens + 8)
    size = np.broadcast_to(np.abs(v).max(axis=-2, keepdims=True), middle.shape)
    size = size + np.broadcast_to(rv.max(axis=-2, keepdims=True), middle.shape)
    loose = (winners.astype(float) @ (rv > 0.0)) > 0.0
    fine = values.grid - np.ceil(np.log2(tokens))
    even = ~loose & is_power_of_two(count.astype(float))
    here, there = (stray(tokens + 3, size, one) for one in (FLOAT64, format))
    lost = np.where(even & FLOAT64.is_exact(size, fine), 0.0, here)
    lost = lost + np.where(even & format.is_exact(size, fine), 0.0, there)
    check(format, size + np.where(count == 1, 0.0, lost))
    mixed = MidRadius(middle, inflate(radius + np.where(count == 1, 0.0, lost)))
    if not told.all():
        _put_hulls(mixed, ~told[..., 0], winners, values.blocks[()], here + there)
    return mixed


def _put_hulls(
    mixed: MidRadius, unclear: np.ndarray, winners: np.ndarray, values: MidRadius, lost: np.ndarray
) -> None:
    """Where the winners are unclear: everything between the candidates' values."""
    words, asking = np.nonzero(unclear)
    chosen = winners[words, asking][..., None]
    low = np.where(chosen, values.low[words], np.inf).min(axis=1)
    high = np.where(chosen, values.high[words], -np.inf).max(axis=1)
    hull = MidRadius.between(low, high)
    mixed.middle[words, asking] = hull.middle
    mixed.radius[words, asking] = up(hull.radius + lost[words, asking])


def soft_mean(logits: MidRadius, visible: np.ndarray, values: Stream, format: Format) -> MidRadius:
    """sum_j w_j v_j for softmax weights w.

    A float evaluation subtracts its own largest logit, which is within the largest radius of ours,
    and cancels in the quotient; the difference d_j is then off by its radius and by a rounding, the
    exponential by a few units, and may underflow. Weights that add up to 1 can be changed only
    against each other: sum_j (w'_j - w_j) v_j = sum_j (w'_j - w_j)(v_j - m) for every m.
    """
    v, rv = values.blocks[()]
    tokens = visible.shape[0]
    weights, change = _softmax(logits, visible, format)
    middle = weights @ v
    radius = (weights + change) @ rv
    for row in range(v.shape[-1]):
        away = np.abs(v[..., None, :, row] - middle[..., :, None, row])
        radius[..., row] += (change * away).sum(axis=-1)
    size = inflate((weights + change) @ (np.abs(v) + rv), tokens + 8)
    lost = strays(2 * tokens + 8, size, format)
    check_sums(format, tokens, np.abs(v) + rv)
    alone = (visible.sum(axis=-1) == 1)[:, None]
    check(format, size + np.where(alone, 0.0, lost))
    return MidRadius(middle, inflate(radius + np.where(alone, 0.0, lost), tokens + 8))


def _softmax(
    logits: MidRadius, visible: np.ndarray, format: Format
) -> tuple[np.ndarray, np.ndarray]:
    """Weights, and how far each can be off.

    A weight is largest where its own power is high and all others are low.
    """
    spread = np.where(visible, logits.radius, 0.0)
    off = spread.max(axis=-1, keepdims=True)
    below = logits.middle - np.where(visible, logits.middle, -np.inf).max(axis=-1, keepdims=True)
    spread = inflate(spread + strays(2, np.abs(below) + 2 * off, format))
    factor, faint = power_error(len(visible), format), underflow(format)
    sharp = visible & (off <= 0.5)  # the largest is 1 up to e^off, and what is faint grows to less
    faint = 2 * faint
    with np.errstate(under="ignore", over="ignore"):
        high = np.exp(np.minimum(below + spread, 2.0)) * (1 + factor) + faint
        low = np.maximum(np.exp(below - spread) * (1 - factor) - faint, 0.0)
        powers = np.where(visible, np.exp(np.minimum(below, 0.0)), 0.0)
    top = (below == 0.0) & (spread == 0.0)  # exp(0) is 1, in every format
    high, low = np.where(top, 1.0, high), np.where(top, 1.0, low)
    high, low = np.where(visible, high, 0.0), np.where(sharp, low, 0.0)
    weights = powers / powers.sum(axis=-1, keepdims=True)
    slack = stray(2 * len(visible), low.sum(axis=-1, keepdims=True))
    rest_low = np.maximum(low.sum(axis=-1, keepdims=True) - low - slack, 0.0)
    rest_high = up(sum_up(high, -1)[..., None] - high)
    most = np.where(sharp, up(high / np.maximum(down(high + rest_low), FLOAT64.normal)), 1.0)
    least = np.where(sharp, down(low / up(low + rest_high)), 0.0)
    change = np.maximum(up(most - weights), up(weights - least))
    return weights, np.where(visible, np.maximum(change, 0.0), 0.0)
