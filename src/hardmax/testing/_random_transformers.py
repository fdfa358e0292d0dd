"""Small random Transformers of every kind: for cases whose truth can be known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardmax.core import (
    Attention,
    FeedForward,
    GatedFeedForward,
    Hardmax,
    Head,
    ReadOut,
    SequenceInput,
    Softmax,
    Sublayer,
    Transformer,
    VectorInput,
    Weighting,
)

ALPHABET = "abc"


@dataclass(frozen=True)
class Kind:
    """What is drawn: coarse numbers k/8, which tie, or floats with all digits; which heads."""

    coarse: bool
    hard: float  # the share of hard heads
    steady: bool = False  # queries read coordinate 0 alone, which is 1 and is never written
    continuous: float = 0.0  # the share of heads whose value is their key: maxima and minima
    gated: float = 0.0  # the share of feed-forward layers whose units are gated
    silu: float = 0.0  # the share of these whose gates are silus


def random_numbers(rng: np.random.Generator, shape: tuple[int, ...], coarse: bool) -> np.ndarray:
    """Numbers of about size 1, a quarter of them 0."""
    fine = rng.integers(-12, 13, shape) / 8 if coarse else rng.normal(size=shape)
    return np.where(rng.random(shape) < 0.25, 0.0, fine)


def random_vector_transformer(
    rng: np.random.Generator, inputs: int, outputs: int, kind: Kind
) -> Transformer:
    """One or two attention layers with masks, biases and feed-forward layers between them."""
    tokens, width = int(rng.choice([1, 2, 2, 3, 4])), int(rng.integers(2, 4))
    maps = random_numbers(rng, (tokens, width, inputs), kind.coarse)
    offsets = random_numbers(rng, (tokens, width), kind.coarse)
    maps[:, 0], offsets[:, 0] = 0.0, 1.0
    readout = ReadOut(
        random_numbers(rng, (outputs, width), kind.coarse),
        random_numbers(rng, (outputs,), kind.coarse),
        int(rng.integers(-tokens, tokens)),
    )
    return Transformer(VectorInput(maps, offsets), _sublayers(rng, tokens, width, kind), readout)


def random_sequence_transformer(
    rng: np.random.Generator, symbols: int, longest: int, outputs: int, kind: Kind
) -> Transformer:
    """The same for words, with or without a start token, read at one token or at each."""
    start = bool(rng.random() < 0.5)
    tokens, width = longest + start, int(rng.integers(2, 4))
    draw = lambda *shape: random_numbers(rng, shape, kind.coarse)  # noqa: E731
    source = SequenceInput(
        tuple(ALPHABET[:symbols]),
        draw(symbols, width),
        draw(tokens, width),
        draw(width) if start else None,
    )
    readout = ReadOut(draw(outputs, width), draw(outputs), None if rng.random() < 0.5 else -1)
    return Transformer(source, _sublayers(rng, tokens, width, kind), readout)


def _sublayers(rng: np.random.Generator, tokens: int, width: int, kind: Kind) -> list[Sublayer]:
    layers: list[Sublayer] = []
    for _ in range(int(rng.choice([1, 1, 1, 2]))):
        heads = int(rng.choice([1, 1, 2]))
        layers.append(Attention(_head(rng, tokens, width, kind) for _ in range(heads)))
        if rng.random() < 0.4:
            is_gated = kind.gated > 0.0 and bool(rng.random() < kind.gated)
            layers.append((_gated if is_gated else _feed_forward)(rng, width, kind))
    return layers


def _head(rng: np.random.Generator, tokens: int, width: int, kind: Kind) -> Head:
    draw = lambda *shape: random_numbers(rng, shape, kind.coarse)  # noqa: E731
    keys, values = int(rng.choice([1, 1, 2])), int(rng.choice([1, 1, 2]))
    query, key, value = draw(keys, width), draw(keys, width), draw(values, width)
    output, bias = draw(width, values), draw(tokens, tokens) if rng.random() < 0.3 else None
    if kind.steady:
        query[:, 1:] = 0.0
    if rng.random() < kind.continuous:
        query, key, output, bias = query[:1], key[:1], output[:, :1], None
        value = key
    output[0] = 0.0
    coldness = float(rng.choice([0.5, 1.0, 3.0, 3.0, 10.0]))
    weighting: Weighting = Hardmax() if rng.random() < kind.hard else Softmax(coldness)
    causal = bool(rng.random() < 0.3)
    return Head(query, key, value, output, weighting, causal=causal, position_bias=bias)


def _feed_forward(rng: np.random.Generator, width: int, kind: Kind) -> FeedForward:
    hidden = int(rng.integers(1, 4))
    outer = random_numbers(rng, (width, hidden), kind.coarse)
    bias = random_numbers(rng, (width,), kind.coarse)
    outer[0], bias[0] = 0.0, 0.0
    return FeedForward(
        random_numbers(rng, (hidden, width), kind.coarse),
        random_numbers(rng, (hidden,), kind.coarse),
        outer,
        bias,
    )


def _gated(rng: np.random.Generator, width: int, kind: Kind) -> GatedFeedForward:
    """Units of which some come in pairs that multiply, in any order and with either sign."""
    draw = lambda *shape: random_numbers(rng, shape, kind.coarse)  # noqa: E731
    hidden, pairs = int(rng.integers(1, 3)), int(rng.integers(0, 3))
    gate, inner, outer = draw(hidden, width), draw(hidden, width), draw(width, hidden)
    biases = draw(2, hidden)
    outer[0] = 0.0
    for _ in range(min(pairs, hidden)):
        k, sign = int(rng.integers(hidden)), float(rng.choice([-1.0, 1.0]))
        gate, inner = np.vstack([gate, -gate[[k]]]), np.vstack([inner, sign * inner[[k]]])
        outer = np.hstack([outer, -sign * outer[:, [k]]])
        biases = np.hstack([biases, [[-biases[0, k]], [sign * biases[1, k]]]])
    order = rng.permutation(len(gate))
    bias = draw(width)
    bias[0] = 0.0
    return GatedFeedForward(
        *(gate[order], biases[0][order], inner[order], biases[1][order], outer[:, order], bias),
        activation="silu" if rng.random() < kind.silu else "relu",
    )
