"""Which token an answer depends on, and what becomes of everything else when a module is made.

A token is constant if its embedding is, and it sees constant tokens only. If all tokens that
matter are constant but one, and the answer is read there, that one is followed alone. What the
others hold is computed here, once, by the stack's own blocks in the module's own format.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import nn

from hardmax.core import Attention, FeedForward, HeadGroup, Sublayer, Transformer, VectorInput
from hardmax.interop._torch_folded import FoldedAttention, FoldedEmbedding, FoldedFeedForward
from hardmax.interop._torch_heads import folded_heads
from hardmax.interop._torch_held import Held
from hardmax.interop._torch_modules import AttentionBlock, FeedForwardBlock
from hardmax.interop._torch_tensors import tensor
from hardmax.interop._torch_transformer import Parts


@torch.no_grad()
def folded(transformer: Transformer, dtype: torch.dtype) -> Parts | None:
    """The followed token's way through the Transformer; None if there is no such token."""
    source, readout = transformer.input, transformer.readout
    token = followed_token(transformer)
    if token is None or not isinstance(source, VectorInput):
        return None
    needs = _in_reading_order(transformer, coordinates_read(transformer))
    maps, offsets = tensor(source.maps, dtype), tensor(source.offsets, dtype)
    moved = (maps[token] != 0).any(dim=1)
    slots = [i for i in needs[0] if moved[i]]
    still = offsets.clone()
    still[token, moved] = 0.0
    held = Held(token, slots, moved, still)
    blocks: list[nn.Module] = []
    coordinates = [held.slots]
    matters = transformer.tokens_that_matter[1:]
    for sublayer, matter, need in zip(transformer.sublayers, matters, needs[1:], strict=True):
        block, held = _block(sublayer, held, need, others=[t for t in matter if t != token])
        blocks.append(block)
        coordinates.append(held.slots)
    read = held.read(tensor(readout.weights, dtype), tensor(readout.bias, dtype))
    embedding = FoldedEmbedding(maps[token, slots], offsets[token, slots])
    return Parts(embedding, blocks, read, coordinates, token, folded=True)


def followed_token(transformer: Transformer) -> int | None:
    """The token that is read, if all others that matter are constant throughout; else None.

    A constant token stays one where no head lets it see the followed token: if all are causal,
    and it comes before. Where only the followed token still matters, all heads may see it.
    """
    source, matters = transformer.input, transformer.tokens_that_matter
    known = all(isinstance(layer, Attention | FeedForward) for layer in transformer.sublayers)
    if not known or not isinstance(source, VectorInput):
        return None
    (token,) = matters[-1]
    if any(source.maps[t].any() for t in matters[0] if t != token):
        return None
    for sublayer, after in zip(transformer.sublayers, matters[1:], strict=True):
        others = [t for t in after if t != token]
        if isinstance(sublayer, Attention) and others:
            causal = all(head.causal for head in sublayer.heads)
            if not causal or max(others) > token:
                return None
    return token


def coordinates_read(transformer: Transformer) -> list[np.ndarray]:
    """Which coordinates of the token that is read matter before each sublayer, and at the end."""
    need = (transformer.readout.weights != 0).any(axis=0)
    needs = [need]
    for sublayer in reversed(transformer.sublayers):
        need = need.copy()
        match sublayer:
            case Attention():
                for group in sublayer.groups:
                    alive = _alive(group, needs[-1])
                    for matrix in (group.query, group.key, group.value):
                        need |= (matrix[alive] != 0).any(axis=(0, 1))
            case FeedForward():
                alive = (sublayer.outer[needs[-1]] != 0).any(axis=0)
                need |= (sublayer.inner[alive] != 0).any(axis=0)
        needs.append(need)
    return needs[::-1]


def _in_reading_order(transformer: Transformer, needs: list[np.ndarray]) -> list[list[int]]:
    """The coordinates that matter, those first that the next sublayer reads, as it reads them.

    Its reading is a piece of the stream then, and nothing is copied.
    """
    ordered = []
    for sublayer, need in zip((*transformer.sublayers, None), needs, strict=True):
        match sublayer:
            case Attention():
                rows = [matrix for head in sublayer.heads for matrix in head.value]
            case FeedForward():
                rows = list(sublayer.inner)
            case None:
                rows = list(transformer.readout.weights)
        read = [int(i) for row in rows for i in np.flatnonzero(row)]
        ordered.append([i for i in dict.fromkeys([*read, *range(len(need))]) if need[i]])
    return ordered


def _alive(group: HeadGroup, need: np.ndarray | list[int]) -> np.ndarray:
    """Which heads write something that is needed."""
    return np.asarray((group.output[:, need] != 0).any(axis=(1, 2)))


def _block(
    sublayer: Sublayer, held: Held, need: list[int], others: list[int]
) -> tuple[nn.Module, Held]:
    """The folded block, and what the followed token and the `others` hold behind it."""
    still = held.still.clone()
    block: nn.Module
    match sublayer:
        case Attention():
            block, after = _attention(sublayer, held, need)
            if others:
                seen = max(others) + 1
                stack = AttentionBlock(sublayer, len(still), still.dtype)
                still[:seen] = stack(still[None, :seen])[0]
        case FeedForward():
            block, after = _feed_forward(sublayer, held, need)
            still[others] = FeedForwardBlock(sublayer, still.dtype)(still[others])
    still[held.token] = after.still[held.token]
    return block, replace(after, still=still)


def _attention(layer: Attention, held: Held, need: list[int]) -> tuple[nn.Module, Held]:
    made = [
        part for group in layer.groups for part in folded_heads(group, held, _alive(group, need))
    ]
    columns = [held.still.new_zeros(layer.width, 0), *(output for _, output in made)]
    change, carry, after = held.written(torch.cat(columns, dim=1), None, need)
    return FoldedAttention([heads for heads, _ in made], change, carry), after


def _feed_forward(layer: FeedForward, held: Held, need: list[int]) -> tuple[nn.Module, Held]:
    dtype, place = held.still.dtype, {i: k for k, i in enumerate(held.slots)}
    alive = np.flatnonzero((layer.outer[need] != 0).any(axis=0)).tolist()
    # units in the order of what they read, so that single reads need no copy
    alive.sort(key=lambda unit: [place.get(int(i), -1) for i in np.flatnonzero(layer.inner[unit])])
    inner, outer = tensor(layer.inner, dtype)[alive], tensor(layer.outer, dtype)[:, alive]
    hidden = held.read(inner, tensor(layer.inner_bias, dtype)[alive])
    change, carry, after = held.written(outer, tensor(layer.outer_bias, dtype), need)
    return FoldedFeedForward(hidden, change, carry), after
