"""Positions for hosts that have no table of them: a head and a layer of hidden units in front.

A start token carries a flag. A head that sees earlier tokens only, and whose value is the flag,
finds it with the weight that its softmax gives to token 0: a known decreasing function p(t) of the
own place. Hidden units then write the polygon through the points (p(t), position t).

**uniform** (no bias at all): p(t) = 1/(t + 1).
**linear** (a bias b(t - j) of the distance): with A_t = e^b(0) + ... + e^b(t) the weight of token 0
is e^b(t)/A_t = 1 - A_(t-1)/A_t. The choice A_t = T^t/t! makes it 1 - t/T for t < T: the places are
evenly spaced, b(0) = 0, b(t) = log(T^t/t! (1 - t/T)) is at most T, and an index takes one unit.

With knots at the places themselves the polygon is exact over the reals of p. Noise e of p moves a
column by at most (largest slope) e: T per step of the column (linear), t^2 (uniform).

A program without a start token gets one, and its heads must not see it: a key coordinate that is
the flag, asked for with -2^k, 2^k being more than twice the largest logit and 256 more, leaves the
start a weight below e^-256.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from hardmax.core import (
    Attention,
    FeedForward,
    GatedFeedForward,
    Head,
    ReadOut,
    SequenceInput,
    Softmax,
    Sublayer,
    Transformer,
)

PRELUDES = ("linear", "uniform")


@dataclass(frozen=True, eq=False)
class Opened:
    """A Transformer whose positions come from within, and what was put in front of it."""

    transformer: Transformer
    columns: tuple[str, ...]  # what the new coordinates hold
    sublayers: tuple[tuple[str, ...], ...]  # what the new sublayers do
    started: bool  # whether a start token was added


def with_prelude(transformer: Transformer, kind: str, largest_logit: float) -> Opened:
    """The same answers from a Transformer whose table of positions is zero.

    Cost: nothing if all symbols have one position; else one head, at most a hidden unit for each
    token, and two columns, and a third one if there was no start token.
    """
    source = transformer.input
    assert isinstance(source, SequenceInput)
    first = int(source.start is not None)
    table = source.positions
    symbols = source.embedding + (table[first] if len(table) > first else 0.0)
    start = None if source.start is None else source.start + table[0]
    moving = table[first:] - table[first : first + 1]
    if not moving.any():
        plain = SequenceInput(source.alphabet, symbols, np.zeros_like(table), start)
        return Opened(Transformer(plain, transformer.sublayers, transformer.readout), (), (), False)
    started = start is None
    names = ("1 at the start", "p(t)", *(("1 everywhere",) if started else ()))
    width, wide = source.width, source.width + len(names)
    rows = np.zeros((len(symbols), wide))
    rows[:, :width] = symbols
    opening = np.zeros(wide)
    opening[:width] = 0.0 if start is None else start
    opening[width] = 1.0
    if started:
        rows[:, width + 2] = opening[width + 2] = 1.0
    tokens = len(table) + started
    plain = SequenceInput(source.alphabet, rows, np.zeros((tokens, wide)), opening)
    hidden = _hidden_start(largest_logit) if started else 0.0
    kept = [_widened(layer, wide, tokens, hidden) for layer in transformer.sublayers]
    writer = _polygon(moving, kind, wide, tokens)
    locate = Attention([_locating(kind, width, wide, tokens)])
    sublayers: list[Sublayer] = [locate, writer, *kept]
    steps = (("p(t) from the start",), ("positions from p(t)",) * writer.hidden_width)
    return Opened(
        Transformer(plain, sublayers, _read_later(transformer, wide, started)),
        names,
        steps,
        started,
    )


def linear_bias(tokens: int) -> np.ndarray:
    """b(t) for t = 0, ..., tokens - 1, so that token 0 weighs 1 - t/tokens at token t."""
    size = math.log(tokens)
    return np.array(
        [t * size - math.lgamma(t + 1) + math.log1p(-t / tokens) for t in range(tokens)]
    )


def by_distance(values: np.ndarray) -> np.ndarray:
    """The square matrix whose entry t, j is values[t - j] for j <= t, and 0 above."""
    apart = np.arange(len(values))[:, None] - np.arange(len(values))
    return np.where(apart >= 0, values[np.maximum(apart, 0)], 0.0)


def _hidden_start(largest_logit: float) -> float:
    return -math.ldexp(1.0, math.frexp(2.0 * largest_logit + 256.0)[1])


def _locating(kind: str, flag: int, wide: int, tokens: int) -> Head:
    """Writes p(t) into the column after the flag."""
    value, output = np.zeros((1, wide)), np.zeros((wide, 1))
    value[0, flag] = output[flag + 1, 0] = 1.0
    nothing = np.zeros((0, wide))
    bias = by_distance(linear_bias(tokens)) if kind == "linear" else None
    return Head(nothing, nothing, value, output, Softmax(1.0), causal=True, position_bias=bias)


def _polygon(moving: np.ndarray, kind: str, wide: int, tokens: int) -> FeedForward:
    """Hidden units that write row i of `moving` at the i-th symbol, and 0 at an earlier token.

    linear: unit k is max(t - k, 0), and the weights are second differences. uniform: unit k is
    max(1 - (k + 1) p, 0); between places t and t + 1 a rise D has the slope D (t + 1)(t + 2) in
    -p, and a unit has the slope k + 1.
    """
    count, width = moving.shape
    first = tokens - count
    place = np.arange(first, tokens - 1)[:, None]
    slopes = np.diff(moving, axis=0) * ((place + 1) * (place + 2) if kind == "uniform" else 1)
    turns = np.diff(slopes, axis=0, prepend=np.zeros((1, width)))
    turns = turns / (place + 1) if kind == "uniform" else turns
    used = turns.any(axis=1)
    place, turns = place[used, 0], turns[used]
    inner, outer = np.zeros((len(place), wide)), np.zeros((wide, len(place)))
    inner[:, width + 1] = -(place + 1.0) if kind == "uniform" else -tokens
    inner_bias = np.ones(len(place)) if kind == "uniform" else tokens - place
    outer[:width] = turns.T
    return FeedForward(inner, inner_bias.astype(float), outer, np.zeros(wide))


def _widened(layer: Sublayer, wide: int, tokens: int, hidden: float) -> Sublayer:
    """A sublayer over the wider stream; heads do not see the start if that is to be hidden."""
    new = wide - layer.width
    if isinstance(layer, FeedForward):
        inner = np.pad(layer.inner, ((0, 0), (0, new)))
        outer = np.pad(layer.outer, ((0, new), (0, 0)))
        return FeedForward(inner, layer.inner_bias, outer, np.pad(layer.outer_bias, (0, new)))
    if isinstance(layer, GatedFeedForward):
        return widened_gates(layer, wide)
    return Attention(_widened_head(head, wide, tokens, hidden) for head in layer.heads)


def widened_gates(layer: GatedFeedForward, wide: int) -> GatedFeedForward:
    """A gated layer over a wider stream, of which it reads and writes the first columns."""
    read, written = ((0, 0), (0, wide - layer.width)), ((0, wide - layer.width), (0, 0))
    return GatedFeedForward(
        np.pad(layer.gate, read),
        layer.gate_bias,
        np.pad(layer.inner, read),
        layer.inner_bias,
        np.pad(layer.outer, written),
        np.pad(layer.outer_bias, written[0]),
        layer.activation,
    )


def _widened_head(head: Head, wide: int, tokens: int, hidden: float) -> Head:
    new = wide - head.width
    query, key = (np.pad(rows, ((0, 0), (0, new))) for rows in (head.query, head.key))
    weighting, bias = head.weighting, head.position_bias
    if hidden:
        asked, flagged = np.zeros((2, 1, wide))
        asked[0, head.width + 2], flagged[0, head.width] = hidden, 1.0
        query = np.concatenate([head.coldness * query, asked])
        key = np.concatenate([key, flagged])
        weighting = Softmax(1.0)
        bias = None if bias is None else _shifted(head.coldness * bias, tokens)
    value = np.pad(head.value, ((0, 0), (0, new)))
    output = np.pad(head.output, ((0, new), (0, 0)))
    return Head(query, key, value, output, weighting, head.causal, bias)


def _shifted(bias: np.ndarray, tokens: int) -> np.ndarray:
    """A position bias after one more token in front, of the distance alone if it was before."""
    bias = bias[: tokens - 1, : tokens - 1]
    distances = of_distance(bias)
    if distances is None:
        return np.pad(bias, ((1, 0), (1, 0)))
    place = np.arange(tokens)
    return np.pad(distances, 1)[place - place[:, None] + tokens - 1]


def of_distance(bias: np.ndarray) -> np.ndarray | None:
    """What a square bias adds for j - t = 1 - n, ..., n - 1; None if that is not all it knows."""
    n = len(bias)
    values = np.concatenate([bias[::-1, 0], bias[0, 1:]])
    place = np.arange(n)
    same = np.array_equal(values[place - place[:, None] + n - 1], bias)
    return values if same else None


def _read_later(transformer: Transformer, wide: int, started: bool) -> ReadOut:
    readout = transformer.readout
    weights = np.pad(readout.weights, ((0, 0), (0, wide - transformer.width)))
    token = readout.token
    if started and token is not None and token >= 0:
        token += 1
    return replace(readout, weights=weights, token=token)
