"""The stack behind `write_torch`: what a textbook would write, with points to hook.

Each class is built from the value that it mirrors, and from then on is PyTorch's own: weights
are parameters, masks are buffers.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from hardmax._errors import ShapeError
from hardmax.core import Attention, FeedForward, GatedFeedForward, SequenceInput, VectorInput
from hardmax.interop._torch_tensors import cold, linear, tensor


class HookPoint(nn.Identity):
    """A number on its way, for PyTorch's hooks: they see it, and what they return replaces it."""

    @property
    def watched(self) -> bool:
        """Whether anybody hooked here."""
        return bool(
            self._forward_hooks
            or self._forward_pre_hooks
            or self._backward_hooks
            or self._backward_pre_hooks
        )


class VectorEmbedding(nn.Module):
    """One linear map makes all tokens of the prompt."""

    def __init__(self, source: VectorInput, dtype: torch.dtype) -> None:
        super().__init__()
        self.shape = (source.tokens, source.width)
        maps = source.maps.reshape(source.tokens * source.width, source.inputs)
        self.linear = linear(maps, source.offsets.ravel(), dtype)

    def forward(self, x: Tensor) -> Tensor:
        check_vectors(x, self.linear.in_features)
        return self.linear(x).unflatten(-1, self.shape)


def check_vectors(x: Tensor, inputs: int) -> None:
    """Refuse what is no batch of vectors of so many numbers."""
    if x.dim() != 2 or x.shape[1] != inputs:
        raise ShapeError(f"The input needs shape (batch, {inputs}), but it has {tuple(x.shape)}.")


class SequenceEmbedding(nn.Module):
    """A row per symbol, a row per position, and the start token if there is one."""

    def __init__(self, source: SequenceInput, dtype: torch.dtype) -> None:
        super().__init__()
        self.longest = source.longest
        rows = tensor(source.embedding, dtype)
        self.symbols = nn.Embedding.from_pretrained(rows, freeze=False)
        self.positions = nn.Parameter(tensor(source.positions, dtype))
        self.start = None if source.start is None else nn.Parameter(tensor(source.start, dtype))

    def forward(self, ids: Tensor) -> Tensor:
        if ids.dim() != 2 or ids.shape[1] > self.longest:
            raise ShapeError(
                f"The symbols need shape (batch, length) with length at most "
                f"{self.longest}, but they have {tuple(ids.shape)}."
            )
        stream = self.symbols(ids)
        if self.start is not None:
            stream = torch.cat([self.start.expand(len(ids), 1, -1), stream], dim=1)
        return stream + self.positions[: stream.shape[1]]


class AttentionBlock(nn.Module):
    """All heads of a layer in one attention call: x <- x + output(attention(q, k, v)).

    Heads are padded with zeros to one key width and one value width, at least 1: zero columns
    add exact zeros to scores and to values that the output multiplies by zero. Masks and
    position biases are one additive mask, -inf where a token is not seen; its heads axis is 1
    if all heads share it, and it is absent if every head sees everything without bias.

    PyTorch's fused attention never shows its weights. They are made one by one, batch x heads x
    asking tokens x tokens asked, and go through `pattern`, only while somebody hooks there.
    """

    mask: Tensor | None

    def __init__(self, layer: Attention, tokens: int, dtype: torch.dtype) -> None:
        super().__init__()
        heads, width = len(layer.heads), layer.width
        key_width = max(1, *(head.key_width for head in layer.heads))
        value_width = max(1, *(head.value_width for head in layer.heads))
        query, key = np.zeros((2, heads, key_width, width))
        value = np.zeros((heads, value_width, width))
        output = np.zeros((width, heads, value_width))
        for group in layer.groups:
            members, k, v = list(group.members), group.query.shape[1], group.value.shape[1]
            query[members, :k] = cold(group.query, group.coldness)
            key[members, :k] = group.key
            value[members, :v] = group.value
            output[:, members, :v] = group.output.swapaxes(0, 1)
        self.heads = heads
        self.query = linear(query.reshape(-1, width), None, dtype)
        self.key = linear(key.reshape(-1, width), None, dtype)
        self.value = linear(value.reshape(-1, width), None, dtype)
        self.output = linear(output.reshape(width, -1), None, dtype)
        self.pattern = HookPoint()
        self.register_buffer("mask", _mask(layer, tokens, dtype))

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.shape[1]
        query, key, value = (self._by_head(m(x)) for m in (self.query, self.key, self.value))
        mask = None if self.mask is None else self.mask[:, :, :tokens, :tokens]
        if self.pattern.watched:
            logits = query @ key.transpose(2, 3)
            seen = torch.softmax(logits if mask is None else logits + mask, dim=-1)
            mixed = self.pattern(seen) @ value
        else:
            mixed = functional.scaled_dot_product_attention(
                query, key, value, attn_mask=mask, scale=1.0
            )
        return x + self.output(mixed.transpose(1, 2).flatten(2))

    def _by_head(self, x: Tensor) -> Tensor:
        """(batch, tokens, heads * width) as (batch, heads, tokens, width)."""
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def extra_repr(self) -> str:
        return f"heads={self.heads}"


class FeedForwardBlock(nn.Module):
    """x <- x + outer(relu(inner(x))); the hidden units can be hooked at `hidden`."""

    def __init__(self, layer: FeedForward, dtype: torch.dtype) -> None:
        super().__init__()
        self.inner = linear(layer.inner, layer.inner_bias, dtype)
        self.hidden = nn.ReLU()
        self.outer = linear(layer.outer, layer.outer_bias, dtype)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.outer(self.hidden(self.inner(x)))


class GatedFeedForwardBlock(nn.Module):
    """x <- x + outer(act(gate(x)) * inner(x)); the gated units can be hooked at `hidden`."""

    def __init__(self, layer: GatedFeedForward, dtype: torch.dtype) -> None:
        super().__init__()
        self.gate = linear(layer.gate, layer.gate_bias, dtype)
        self.inner = linear(layer.inner, layer.inner_bias, dtype)
        self.act = nn.ReLU() if layer.is_exact else nn.SiLU()
        self.hidden = nn.Identity()
        self.outer = linear(layer.outer, layer.outer_bias, dtype)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.outer(self.hidden(self.act(self.gate(x)) * self.inner(x)))


def _mask(layer: Attention, tokens: int, dtype: torch.dtype) -> Tensor | None:
    """What is added to the scores: (1, heads or 1, tokens, tokens), or None for nothing."""
    if not any(head.causal or head.position_bias is not None for head in layer.heads):
        return None
    shared = all(head.causal and head.position_bias is None for head in layer.heads)
    mask = torch.zeros(1, 1 if shared else len(layer.heads), tokens, tokens, dtype=dtype)
    unseen = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
    for group in layer.groups:
        members = [0] if shared else list(group.members)
        if group.position_bias is not None:
            bias = group.position_bias[:, :tokens, :tokens]
            mask[0, members] = tensor(cold(bias, group.coldness), dtype)
        if group.causal:
            mask[0, members] = mask[0, members].masked_fill(unseen, -torch.inf)
    return mask
