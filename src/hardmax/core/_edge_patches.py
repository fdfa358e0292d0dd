"""Edges of a circuit patched, many words at once: one port reads other contents than the block has.

Only what the reading node sends on changes, so that a run goes on from the sublayer of that node.
Where nothing is changed, nothing is added but zeros: the patch of an edge that is not there, whose
weights are zeros, has no effect at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from hardmax.core._circuit import Circuit
from hardmax.core._circuit_parts import Block, Node
from hardmax.core._layers import Attention, FeedForward, Head, SequenceInput
from hardmax.core._sequences import attention_weights, embedded, read_out, streams
from hardmax.core._transformer import Transformer

_MOST_LENGTHS = 64  # that are looked at to tell what changes with the length


class EdgePatches:
    """Words of one length, a row of `ids` each, and what a Transformer does with them."""

    def __init__(self, transformer: Transformer, ids: np.ndarray) -> None:
        self.transformer = transformer
        source = transformer.input
        assert isinstance(source, SequenceInput)
        self.streams = list(streams(transformer, embedded(source, ids)))

    @cached_property
    def outputs(self) -> np.ndarray:
        """Words x positions that answer x outputs."""
        return self._answers(self.streams[-1])

    def held(self, block: Block) -> np.ndarray:
        """What a block holds from its sublayer on: words x tokens x coordinates, to be changed."""
        return self.streams[block.sublayer + 1][:, :, block.first : block.stop].copy()

    def patched(self, node: Node, port: str, block: Block, held: np.ndarray) -> np.ndarray:
        """The outputs if the port of a node reads what is held instead of the block."""
        at = node.sublayer
        read = self.streams[at].copy()
        read[:, :, block.first : block.stop] = held
        if at == len(self.transformer.sublayers):
            return self._answers(read)
        layer = self.transformer.sublayers[at]
        if isinstance(layer, Attention):
            changed = _sent(layer.heads[node.first], self.streams[at], {port: read})
            changed = changed - _sent(layer.heads[node.first], self.streams[at], {})
        else:
            assert isinstance(layer, FeedForward)
            some = slice(node.first, node.stop)
            ways = (_awake(layer, some, one) for one in (read, self.streams[at]))
            changed = (next(ways) - next(ways)) @ layer.outer[:, some].T
        for last in streams(self.transformer, self.streams[at + 1] + changed, at + 1):
            stream = last
        return self._answers(stream)

    def _answers(self, stream: np.ndarray) -> np.ndarray:
        found = read_out(self.transformer, stream)
        return found if found.ndim == 3 else found[:, None]


def _sent(head: Head, stream: np.ndarray, instead: Mapping[str, np.ndarray]) -> np.ndarray:
    """What every token is sent by a head, some ports of which read another stream."""
    query, key, value = (
        instead.get(port, stream) @ matrix.T
        for port, matrix in zip("qkv", (head.query, head.key, head.value), strict=True)
    )
    scores, tokens = query @ key.swapaxes(1, 2), stream.shape[1]
    if head.position_bias is not None:
        scores = scores + head.position_bias[:tokens, :tokens]
    if head.causal:
        scores = np.where(np.tri(tokens, dtype=bool), scores, -np.inf)
    weights = attention_weights(scores, np.array(head.coldness), axis=-1)
    return np.asarray(weights @ value @ head.output.T)


def _awake(layer: FeedForward, some: slice, stream: np.ndarray) -> np.ndarray:
    return np.maximum(stream @ layer.inner[some].T + layer.inner_bias[some], 0.0)


# ---- which kinds there can be --------------------------------------------------------------------


def blocks_of_tokens(circuit: Circuit) -> set[int]:
    """The blocks to which a path of edges leads from the embedding of tokens.

    All others are the same in all words of one length: nothing that differs between such words
    reaches them.
    """
    found: set[int] = set()
    for node in circuit.nodes:
        read = {k for _, numbers in node.reads for k in numbers}
        if node.name == "embed" or read & found:
            found.update(node.writes)
    return found


def kinds_of_blocks(transformer: Transformer, circuit: Circuit, lengths: range) -> list[str]:
    """For every block the kind that its edges have if they are shown, on words of such lengths.

    `word` for blocks of tokens; what others hold is read off one word of each length, as the codes
    that are nearest. Of more than 64 lengths so many are looked at, the ends included.
    """
    of_tokens = blocks_of_tokens(circuit)
    others = [k for k in range(len(circuit.blocks)) if k not in of_tokens]
    held: dict[int, list[list[bytes]]] = {k: [] for k in others}
    source = transformer.input
    assert isinstance(source, SequenceInput)
    some = np.unique(np.linspace(0, len(lengths) - 1, min(len(lengths), _MOST_LENGTHS)).round())
    for length in [lengths[int(k)] for k in some] if others else ():
        if length:
            stream = embedded(source, np.zeros((1, length), dtype=int))
            for number, after in enumerate(streams(transformer, stream), -1):
                for k in others:
                    if circuit.blocks[k].sublayer == number:
                        held[k].append(_codes(circuit.blocks[k], after[0, 1:]))
                if all(circuit.blocks[k].sublayer <= number for k in others):
                    break
    return [_kind(held[k]) if k in held else "word" for k in range(len(circuit.blocks))]


def _codes(block: Block, stream: np.ndarray) -> list[bytes]:
    """Which code a block is nearest to, position by position."""
    some = stream[:, block.first : block.stop]
    if block.form == "share":
        with np.errstate(divide="ignore"):
            some = np.rint(1.0 / some)
    elif block.form == "one-hot":
        some = np.rint(some)
    else:
        items = np.array([float(item) for item in block.items])
        some = np.abs(some - items).argmin(axis=1)
    return [one.tobytes() for one in some]


def _kind(words: list[list[bytes]]) -> str:
    """What is held at each position, in a word of each length."""
    longest = max(map(len, words), default=0)
    by_place = [{word[t] for word in words if t < len(word)} for t in range(longest)]
    if len({one for held in by_place for one in held}) <= 1:
        return "constant"
    return "position" if all(len(held) == 1 for held in by_place) else "length"
