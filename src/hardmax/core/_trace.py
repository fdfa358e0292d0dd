"""One word on its way through a Transformer: who attends to whom, and what every token holds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from hardmax._errors import RequestError
from hardmax.core._circuit import Circuit
from hardmax.core._decoded import Said, Shares, said_of, shares_of
from hardmax.core._gated import GatedFeedForward
from hardmax.core._layers import Attention, FeedForward, SequenceInput
from hardmax.core._legend import Legend
from hardmax.core._readable import decoded, readable, said_in_blocks
from hardmax.core._sequences import (
    attended,
    check_readable,
    embedded,
    fed_forward,
    group_weights,
    read_out,
)
from hardmax.core._transformer import Transformer

START = "start"  # what the token before the first symbol is called


@dataclass(frozen=True, eq=False)
class HeadTrace:
    """How one head attends: a row for each asking token, which adds up to 1."""

    sublayer: int
    head: int
    step: str
    weights: np.ndarray  # asking tokens x tokens asked
    adds_up: bool = False  # what symbols send, beside a start token with nearly all the weight
    has_start: bool = False

    @property
    def shares(self) -> tuple[Shares, ...]:
        """For every asking token the positions that it selects, and what it leaves to start.

        >>> model = hm.compile(hm.programs.sort, alphabet="abc", length=4)
        >>> [round(share, 6) for share in hm.trace(model, "cab").heads[0].shares[1].of_rest]
        [0.333333, 0.333333, 0.333333]
        """
        return tuple(shares_of(row, self.has_start, self.adds_up) for row in self.weights)


@dataclass(frozen=True, eq=False)
class SequenceTrace:
    """What the evaluator saw on one word.

    `streams` starts with the embedding and has the stream after every sublayer. `attention` has
    heads x asking tokens x tokens asked for every sublayer, without heads for a feed-forward.
    """

    word: tuple[str | int, ...]
    tokens: tuple[str, ...]  # how they are called: the start token, if any, then the symbols
    streams: tuple[np.ndarray, ...]  # tokens x width
    attention: tuple[np.ndarray, ...]
    outputs: np.ndarray  # symbols x outputs, or outputs
    legend: Legend | None = None
    circuit: Circuit | None = None

    @property
    def in_words(self) -> str:
        """Which positions each head selects and what every step holds.

        Of a compact model what each coordinate that changes says, by the legend: the value, and in
        brackets the number that codes it.

        >>> model = hm.compile(hm.programs.histogram, alphabet="ab", length=3, route="legible")
        >>> hm.trace(model, "aba").in_words.splitlines()[-1].split()
        ['m0.answer', 'answer', '·', '2', '1', '2']
        """
        if self.circuit is not None:
            return readable(self.circuit, self.headings, self._along_axes, self.attention)
        heads: list[list[tuple[str, bool, tuple[Shares, ...]]]] = [[] for _ in self.attention]
        for one in self.heads:
            heads[one.sublayer].append((one.step, one.adds_up, one.shares))
        units = ["; ".join(self.steps(number)) for number in range(len(self.attention))]
        return decoded(self.headings, heads, units, self.said, self.has_start)

    @property
    def said(self) -> tuple[Said, ...]:
        """What each sublayer changes, decoded by the legend: values, and the numbers behind them.

        >>> model = hm.compile(hm.programs.histogram, alphabet="ab", length=3)
        >>> hm.trace(model, "aba").said[-1].texts[1:]
        ('2', '1', '2')
        """
        if self.circuit is not None:
            return tuple(said_in_blocks(self.circuit, self._along_axes))
        return tuple(said_of(self.legend, self.streams, self.coordinates, self.has_start))

    @property
    def _along_axes(self) -> tuple[np.ndarray, ...]:
        """The streams of a legible model; of a turned one, along the axes of its frame."""
        turned = None if self.circuit is None else self.circuit.frame
        return self.streams if turned is None else tuple(x @ turned.matrix for x in self.streams)

    @property
    def has_start(self) -> bool:
        """Whether the first token is a start token, which no symbol stands for."""
        return len(self.tokens) > len(self.word)

    @property
    def headings(self) -> tuple[str, ...]:
        """The tokens, symbols with their positions: a word may hold a symbol twice."""
        first = len(self.tokens) - len(self.word)
        return tuple(
            token if place < first else f"{place - first}:{token}"
            for place, token in enumerate(self.tokens)
        )

    def __repr__(self) -> str:
        heads = sum(len(weights) for weights in self.attention)
        return (
            f"SequenceTrace({self.word!r}: {len(self.attention)} sublayers, {heads} heads, "
            f"width {self.streams[0].shape[1]})"
        )

    @property
    def coordinates(self) -> tuple[str, ...]:
        """What each coordinate of the stream holds; without a legend, its number."""
        width = self.streams[0].shape[1]
        named = () if self.legend is None else self.legend.coordinates
        return tuple(named[i] if i < len(named) else f"coordinate {i}" for i in range(width))

    @property
    def heads(self) -> tuple[HeadTrace, ...]:
        """Every head with the step that it does, in the order in which they work."""
        return tuple(
            HeadTrace(
                sublayer,
                head,
                self._step(sublayer, head),
                by,
                self.legend is not None and (sublayer, head) in self.legend.sums,
                self.has_start,
            )
            for sublayer, weights in enumerate(self.attention)
            for head, by in enumerate(weights)
        )

    def steps(self, sublayer: int) -> tuple[str, ...]:
        """The different steps of a sublayer; none without a legend."""
        if self.legend is None or sublayer >= len(self.legend.sublayers):
            return ()
        return tuple(dict.fromkeys(self.legend.sublayers[sublayer]))

    def _step(self, sublayer: int, head: int) -> str:
        known = () if self.legend is None else self.legend.sublayers[sublayer : sublayer + 1]
        steps = known[0] if known else ()
        return steps[head] if head < len(steps) else f"head {head}"


def trace_sequence(
    transformer: Transformer,
    word: Iterable[str | int],
    legend: Legend | None = None,
    circuit: Circuit | None = None,
) -> SequenceTrace:
    """The attention of every head and the stream after every sublayer, for one word."""
    source = transformer.input
    if not isinstance(source, SequenceInput):
        raise RequestError("Only a model that reads sequences of symbols can be traced on a word.")
    symbols = tuple(word)
    ids = np.array([source.indices(symbols)], dtype=np.int64)
    tokens = (*((START,) if source.start is not None else ()), *map(str, symbols))
    if not tokens:
        raise RequestError("The empty word has no tokens, so there is nothing to trace.")
    check_readable(transformer, len(symbols))
    streams, attention = [embedded(source, ids)], []
    for sublayer in transformer.sublayers:
        match sublayer:
            case Attention():
                weights = group_weights(sublayer, streams[-1])
                streams.append(attended(sublayer, streams[-1], weights))
                attention.append(_by_head(sublayer, weights))
            case FeedForward() | GatedFeedForward():
                streams.append(fed_forward(sublayer, streams[-1]))
                attention.append(np.zeros((0, len(tokens), len(tokens))))
    outputs = read_out(transformer, streams[-1])[0]
    seen = tuple(stream[0] for stream in streams)
    return SequenceTrace(symbols, tokens, seen, tuple(attention), outputs, legend, circuit)


def _by_head(layer: Attention, weights: list[np.ndarray]) -> np.ndarray:
    """The groups' weights on one word, in the order of the layer's heads."""
    tokens = weights[0].shape[-1]
    ordered = np.empty((len(layer.heads), tokens, tokens))
    for group, by in zip(layer.groups, weights, strict=True):
        ordered[list(group.members)] = by[0]
    return ordered
