"""Constants that heads write: where a deviation can be centred once a coordinate has been read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from hardmax.core import (
    Affine,
    Attention,
    Construction,
    FeedForward,
    GatedFeedForward,
    Holding,
    Sublayer,
    Transformer,
    VectorInput,
)


@dataclass(frozen=True)
class Writer:
    """A number in a head's weights that is added to one coordinate of one token, and nowhere else.

    It stands in the value row, beside what else that reads, or in the output column.
    """

    sublayer: int
    head: int
    row: int  # of the values
    read: int  # the coordinate that holds 1 on the token looked at
    token: int
    written: int

    in_output: bool


def constant_writers(transformer: Transformer) -> dict[tuple[int, int, int], Writer]:
    """By sublayer, token and coordinate written: the first such number.

    The head's scores are position biases alone. The token looks at one that holds 1 in a
    coordinate which never changes, while the others look at tokens that hold 0 there.
    """
    found: dict[tuple[int, int, int], Writer] = {}
    ones = _lasting(transformer)
    if ones.any():
        for number, sublayer in enumerate(transformer.sublayers):
            for writer in _writers(number, sublayer, ones):
                found.setdefault((number, writer.token, writer.written), writer)
    return found


def _lasting(transformer: Transformer) -> np.ndarray:
    """Constants of the prompt that nothing ever writes, tokens x width; 0 for other coordinates."""
    source = transformer.input
    if not isinstance(source, VectorInput):
        return np.zeros((0, transformer.width))
    lasts = ~source.maps.any(axis=(0, 2))
    for sublayer in transformer.sublayers:
        match sublayer:
            case Attention():
                for head in sublayer.heads:
                    lasts &= ~head.output.any(axis=1)
            case FeedForward() | GatedFeedForward():
                lasts &= ~sublayer.outer.any(axis=1) & (sublayer.outer_bias == 0.0)
    return np.where(lasts, source.offsets, 0.0)


def _writers(number: int, sublayer: Sublayer, ones: np.ndarray) -> Iterator[Writer]:
    if not isinstance(sublayer, Attention):
        return
    for index, head in enumerate(sublayer.heads):
        if head.key_width or head.position_bias is None or head.causal:
            continue
        seen = ones[head.position_bias[: len(ones), : len(ones)].argmax(axis=1)]
        alone = (seen != 0.0).sum(axis=0) == 1
        for read in np.flatnonzero(alone & (seen.sum(axis=0) == 1.0)).tolist():
            token = int(seen[:, read].argmax())
            for row in range(head.value_width):
                places = np.flatnonzero(head.output[:, row]).tolist()
                if len(places) == 1 and head.output[places[0], row] == 1.0:
                    yield Writer(number, index, row, read, token, places[0], False)
                elif _is_unit(head.value[row], read):
                    for place in places:
                        yield Writer(number, index, row, read, token, place, True)


def _is_unit(row: np.ndarray, at: int) -> bool:
    return bool(row[at] == 1.0 and np.count_nonzero(row) == 1)


def with_constants(
    transformer: Transformer,
    writers: Mapping[tuple[int, int, int], Writer],
    shifts: Mapping[int, np.ndarray],
) -> Transformer:
    """With these numbers, tokens x width for some sublayers, added to the constants written."""
    sublayers = list(transformer.sublayers)
    for number, shift in shifts.items():
        sublayer = sublayers[number]
        assert isinstance(sublayer, Attention)
        heads = list(sublayer.heads)
        for token, place in np.argwhere(shift).tolist():
            writer = writers[number, token, place]
            head, more = heads[writer.head], float(shift[token, place])
            value, output = head.value.copy(), head.output.copy()
            if writer.in_output:
                output[place, writer.row] += more
            else:
                value[writer.row, writer.read] += more
            heads[writer.head] = replace(head, value=value, output=output)
        sublayers[number] = Attention(heads)
    return Transformer(transformer.input, sublayers, transformer.readout)


def _affine_holdings(construction: Construction) -> list[Holding]:
    """Where the target's affine values live: there a bias is stored, and a constant is free."""
    witness, steps = construction.witness, construction.claim.target.steps()
    if witness is None or steps is None:
        return []
    return [
        holding
        for holding in witness.holdings
        if holding.value and isinstance(steps.steps[holding.value - 1], Affine)
    ]


def centrable(construction: Construction) -> np.ndarray:
    """The affine values' coordinates, by token."""
    transformer = construction.transformer
    centre = np.zeros((transformer.tokens, transformer.width), dtype=bool)
    for holding in _affine_holdings(construction):
        centre[holding.token, holding.coordinates] = True
    return centre


def centred_where_written(
    construction: Construction, writers: dict[tuple[int, int, int], Writer]
) -> dict[int, np.ndarray]:
    """The same by sublayers, for values that come with a constant that a head writes."""
    transformer = construction.transformer
    found: dict[int, np.ndarray] = {}
    for holding in _affine_holdings(construction):
        number, token = holding.sublayer, holding.token % transformer.tokens
        for place in holding.coordinates.tolist():
            if (number, token, place) in writers:
                nothing = np.zeros((transformer.tokens, transformer.width), dtype=bool)
                found.setdefault(number, nothing)[token, place] = True
    return found
