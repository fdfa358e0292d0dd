"""One form from which every writer starts: blocks of uniform heads and hidden units.

A framework stores a stack of equal layers: as many heads in each, of one key width and one value
width, and hidden layers of one width. What a Transformer lacks of that is filled with zeros, which
add exact zeros to scores, values and hidden sums. A coldness is multiplied into the query weights
and the position biases, rounded once in float64: the score is a plain product then.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardmax._errors import SemanticsError
from hardmax.core import (
    Attention,
    FeedForward,
    GatedFeedForward,
    Hardmax,
    Input,
    ReadOut,
    Transformer,
)


@dataclass(frozen=True, eq=False)
class UniformAttention:
    """Heads of one layer, stacked; coldness is in the queries and biases.

    `sublayer` says which one of the Transformer it was; a block without heads has None and zeros.
    """

    sublayer: int | None
    query: np.ndarray  # heads x key width x width
    key: np.ndarray
    value: np.ndarray  # heads x value width x width
    output: np.ndarray  # heads x width x value width
    causal: np.ndarray  # heads, of bool
    bias: np.ndarray | None  # heads x tokens x tokens, without masks


@dataclass(frozen=True, eq=False)
class UniformFeedForward:
    """Hidden units of one layer: x + outer relu(inner x + inner_bias) + outer_bias.

    Of a gated layer `gates` says the rest: outer (act(gate x + gate_bias) * (inner x + ...)).
    """

    sublayer: int | None
    inner: np.ndarray
    inner_bias: np.ndarray
    outer: np.ndarray
    outer_bias: np.ndarray
    gates: UniformGates | None = None


@dataclass(frozen=True, eq=False)
class UniformGates:
    """The gates of hidden units."""

    activation: str
    gate: np.ndarray
    gate_bias: np.ndarray
    multiplies: np.ndarray  # hidden: whether a unit is one of a pair that makes a product


@dataclass(frozen=True, eq=False)
class Block:
    """A layer of a framework: attention, then a feed-forward part."""

    attention: UniformAttention
    feed_forward: UniformFeedForward


@dataclass(frozen=True, eq=False)
class StandardForm:
    """Input, uniform blocks, read-out."""

    input: Input
    blocks: tuple[Block, ...]
    readout: ReadOut
    heads: int
    key_width: int
    value_width: int
    hidden_width: int

    @property
    def width(self) -> int:
        return self.input.width


def standard_form(
    transformer: Transformer,
    *,
    heads: int = 0,
    key_width: int = 0,
    value_width: int = 0,
    hidden_width: int = 0,
    gates: bool = False,
) -> StandardForm:
    """The Transformer as uniform blocks; a host may ask for more heads and wider ones.

    A block is an attention sublayer with the feed-forward sublayer that directly follows, if one
    does; of what is missing there are zeros. Refused are hard heads, which no framework has, and
    gated hidden units unless the caller writes `gates`.
    """
    refuse_hard_heads(transformer)
    if not gates:
        _refuse_gates(transformer)
    every = transformer.heads
    fed = [s for s in transformer.sublayers if not isinstance(s, Attention)]
    heads = max([heads, *(len(s.heads) for s in transformer.sublayers if isinstance(s, Attention))])
    key_width = max([key_width, *(head.key_width for head in every)])
    value_width = max([value_width, *(head.value_width for head in every)])
    hidden_width = max([hidden_width, *(layer.hidden_width for layer in fed)])
    blocks = tuple(
        Block(
            _attention(transformer, attends, (heads, key_width, value_width)),
            _feed_forward(transformer, feeds, hidden_width),
        )
        for attends, feeds in _pairs(transformer)
    )
    return StandardForm(
        transformer.input,
        blocks,
        transformer.readout,
        heads,
        key_width,
        value_width,
        hidden_width,
    )


def refuse_hard_heads(transformer: Transformer) -> None:
    """A hardmax with ties runs in no framework: its ties share their weight equally."""
    for number, sublayer in enumerate(transformer.sublayers):
        if not isinstance(sublayer, Attention):
            continue
        for i, head in enumerate(sublayer.heads):
            if isinstance(head.weighting, Hardmax):
                raise SemanticsError(
                    f"Head {i} of sublayer {number} is a hardmax, and a hardmax with ties does "
                    f"not run in any framework: soften the construction first, "
                    f"hm.soften(construction, error=…)."
                )


def _refuse_gates(transformer: Transformer) -> None:
    for number, sublayer in enumerate(transformer.sublayers):
        if isinstance(sublayer, GatedFeedForward):
            raise SemanticsError(
                f"Sublayer {number} has gated hidden units, which this format does not take: write "
                f"the model for torch or for a Llama, or compile it by another route."
            )


def _pairs(transformer: Transformer) -> list[tuple[int | None, int | None]]:
    """Which sublayers make a block."""
    pairs: list[tuple[int | None, int | None]] = []
    for number, sublayer in enumerate(transformer.sublayers):
        if isinstance(sublayer, Attention):
            pairs.append((number, None))
        elif pairs and pairs[-1][1] is None:
            pairs[-1] = (pairs[-1][0], number)
        else:
            pairs.append((None, number))
    return pairs


def _attention(
    transformer: Transformer, number: int | None, shape: tuple[int, int, int]
) -> UniformAttention:
    heads, key_width, value_width = shape
    width, tokens = transformer.width, transformer.tokens
    query, key = np.zeros((2, heads, key_width, width))
    value = np.zeros((heads, value_width, width))
    output = np.zeros((heads, width, value_width))
    causal = np.zeros(heads, dtype=bool)
    bias: np.ndarray | None = None
    layer = None if number is None else transformer.sublayers[number]
    if isinstance(layer, Attention):
        for i, head in enumerate(layer.heads):
            k, v = head.key_width, head.value_width
            query[i, :k], key[i, :k] = head.coldness * head.query, head.key
            value[i, :v], output[i, :, :v] = head.value, head.output
            causal[i] = head.causal
            if head.position_bias is not None:
                bias = np.zeros((heads, tokens, tokens)) if bias is None else bias
                bias[i] = head.coldness * head.position_bias[:tokens, :tokens]
    return UniformAttention(number, query, key, value, output, causal, bias)


def _feed_forward(transformer: Transformer, number: int | None, hidden: int) -> UniformFeedForward:
    width = transformer.width
    inner, outer = np.zeros((hidden, width)), np.zeros((width, hidden))
    inner_bias, outer_bias = np.zeros(hidden), np.zeros(width)
    layer = None if number is None else transformer.sublayers[number]
    gates: UniformGates | None = None
    if isinstance(layer, FeedForward | GatedFeedForward):
        units = layer.hidden_width
        inner[:units], inner_bias[:units] = layer.inner, layer.inner_bias
        outer[:, :units], outer_bias[:] = layer.outer, layer.outer_bias
    if isinstance(layer, GatedFeedForward):
        gate, gate_bias = np.zeros((hidden, width)), np.zeros(hidden)
        gate[:units], gate_bias[:units] = layer.gate, layer.gate_bias
        paired = [unit for pair in layer.products for unit in pair]
        gates = UniformGates(layer.activation, gate, gate_bias, np.isin(np.arange(hidden), paired))
    return UniformFeedForward(number, inner, inner_bias, outer, outer_bias, gates)
