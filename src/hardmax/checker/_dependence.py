"""On what an answer depends: the tokens that are read, those that ask, the coordinates that matter.

All of it is found backwards, sublayer by sublayer, from what is read out. By the shape of the
layers alone whole tokens are followed; by their weights, single coordinates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from hardmax.core import (
    Attention,
    FeedForward,
    GatedFeedForward,
    HeadGroup,
    ReadOut,
    SequenceInput,
    Sublayer,
    Transformer,
)

Need = TypeVar("Need")


def tokens_read(transformer: Transformer, tokens: int) -> list[int]:
    """The tokens that are read off so many: each symbol's, or one; none if that is not there."""
    token, source = transformer.readout.token, transformer.input
    if token is None:
        first = int(isinstance(source, SequenceInput) and source.start is not None)
        return list(range(first, tokens))
    return [token % tokens] if -tokens <= token < tokens else []


def _backwards(
    sublayers: Sequence[Sublayer], need: Need, before: Callable[[Sublayer, Need], Need]
) -> list[Need]:
    """What is needed before the first sublayer, after it, ... and after the last."""
    needs = [need]
    for sublayer in reversed(sublayers):
        needs.append(before(sublayer, needs[-1]))
    return needs[::-1]


def tokens_asking(sublayers: Sequence[Sublayer], read: Sequence[int], tokens: int) -> list[range]:
    """For each sublayer the tokens whose change has a say in what is read out.

    A feed-forward layer is asked for those that come after it, attention for all that they see.
    """

    def before(sublayer: Sublayer, need: range) -> range:
        if not isinstance(sublayer, Attention):
            return need
        return range(need.stop if all(head.causal for head in sublayer.heads) else tokens)

    last = range(min(read), max(read) + 1) if read else range(0)
    return _backwards(sublayers, last, before)[1:]


def coordinates_needed(
    sublayers: Sequence[Sublayer], readout: ReadOut, reads: list[int], tokens: int
) -> list[np.ndarray]:
    """Which coordinates (width x tokens) matter before each sublayer, and after the last."""

    def before(sublayer: Sublayer, need: np.ndarray) -> np.ndarray:
        matters = need.copy()
        match sublayer:
            case FeedForward():
                used = _reach(sublayer.outer.T, need)
                matters |= _reach(sublayer.inner.T, used)
            case GatedFeedForward():
                used = _reach(sublayer.outer.T, need)
                matters |= _reach(sublayer.inner.T, used) | _reach(sublayer.gate.T, used)
            case Attention():
                for group in sublayer.groups:
                    matters |= _read_by(group, asks(group, need))
        return matters

    need = np.zeros((readout.weights.shape[1], tokens), dtype=bool)
    need[:, reads] = (readout.weights != 0.0).any(axis=0)[:, None]
    return _backwards(sublayers, need, before)


def asks(group: HeadGroup, need: np.ndarray) -> np.ndarray:
    """Which heads (rows) write something that matters to which tokens (columns).

    A token of which everything matters asks all heads: also one that writes nothing may overflow.
    """
    return _reach((group.output != 0.0).any(axis=2), need) | need.all(axis=0)


def _read_by(group: HeadGroup, asking: np.ndarray) -> np.ndarray:
    """What the heads look at when these tokens ask them."""
    if group.causal:  # token j is seen by everyone from j on
        seen = np.flip(np.logical_or.accumulate(np.flip(asking, axis=1), axis=1), axis=1)
    else:
        seen = np.broadcast_to(asking.any(axis=1, keepdims=True), asking.shape)
    looked_at = (group.key != 0.0).any(axis=1) | (group.value != 0.0).any(axis=1)
    read = _reach(looked_at.T, seen) | _reach((group.query != 0.0).any(axis=1).T, asking)
    return np.asarray(read)


def _reach(matrix: np.ndarray, mask: np.ndarray) -> np.ndarray:
    return np.asarray((matrix != 0).astype(float) @ mask.astype(float) > 0.0)
