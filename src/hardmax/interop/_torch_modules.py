"""The modules behind `write_torch`. This file imports torch; nothing else in the room does.

Each class is built from the value that it mirrors, and from then on is PyTorch's own: weights
are parameters, masks are buffers, and forward is what a textbook would write.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from hardmax._errors import PrecisionError, RequestError, ShapeError
from hardmax.core import Attention, FeedForward, SequenceInput, Transformer, VectorInput
from hardmax.numerics import FORMATS


class TransformerModule(nn.Module):
    """Embedding, residual blocks, read-out: x <- x + block(x), without layer norm.

    For a vector input, `forward` takes (batch, inputs) or (inputs,) in the module's dtype and
    returns (batch, outputs) or (outputs,). For a sequence it takes symbol numbers, (batch,
    length) or (length,), as `ids` makes them; a read-out at every token adds a length axis.
    """

    def __init__(self, transformer: Transformer, dtype: torch.dtype) -> None:
        super().__init__()
        source, readout = transformer.input, transformer.readout
        self.embedding = (
            VectorEmbedding(source, dtype)
            if isinstance(source, VectorInput)
            else SequenceEmbedding(source, dtype)
        )
        self.blocks = nn.ModuleList(
            AttentionBlock(sublayer, transformer.tokens, dtype)
            if isinstance(sublayer, Attention)
            else FeedForwardBlock(sublayer, dtype)
            for sublayer in transformer.sublayers
        )
        self.readout = _linear(readout.weights, readout.bias, dtype)
        self.token = readout.token

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() == 1:
            return self.forward(x.unsqueeze(0)).squeeze(0)
        stream = self.embedding(x)
        for block in self.blocks:
            stream = block(stream)
        if self.token is None:
            return self.readout(stream[:, stream.shape[1] - x.shape[1] :])
        return self.readout(stream[:, self.token])

    def ids(self, sequence: Iterable[Hashable]) -> Tensor:
        """The symbols of one sequence as the numbers that `forward` takes."""
        if not isinstance(self.embedding, SequenceEmbedding):
            raise RequestError("This model reads a vector of numbers, not a sequence of symbols.")
        numbers = self.embedding.source.indices(sequence)
        return torch.tensor(numbers, dtype=torch.long, device=self.readout.weight.device)


class VectorEmbedding(nn.Module):
    """One linear map makes all tokens of the prompt."""

    def __init__(self, source: VectorInput, dtype: torch.dtype) -> None:
        super().__init__()
        self.shape = (source.tokens, source.width)
        maps = source.maps.reshape(source.tokens * source.width, source.inputs)
        self.linear = _linear(maps, source.offsets.ravel(), dtype)

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() != 2 or x.shape[1] != self.linear.in_features:
            raise ShapeError(
                f"The input needs shape (batch, {self.linear.in_features}), but it has "
                f"{tuple(x.shape)}."
            )
        return self.linear(x).unflatten(-1, self.shape)


class SequenceEmbedding(nn.Module):
    """A row per symbol, a row per position, and the start token if there is one."""

    def __init__(self, source: SequenceInput, dtype: torch.dtype) -> None:
        super().__init__()
        self.source = source
        rows = _tensor(source.embedding, dtype)
        self.symbols = nn.Embedding.from_pretrained(rows, freeze=False)
        self.positions = nn.Parameter(_tensor(source.positions, dtype))
        self.start = None if source.start is None else nn.Parameter(_tensor(source.start, dtype))

    def forward(self, ids: Tensor) -> Tensor:
        if ids.dim() != 2 or ids.shape[1] > self.source.longest:
            raise ShapeError(
                f"The symbols need shape (batch, length) with length at most "
                f"{self.source.longest}, but they have {tuple(ids.shape)}."
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
            query[members, :k] = _cold(group.query, group.coldness)
            key[members, :k] = group.key
            value[members, :v] = group.value
            output[:, members, :v] = group.output.swapaxes(0, 1)
        self.heads = heads
        self.query = _linear(query.reshape(-1, width), None, dtype)
        self.key = _linear(key.reshape(-1, width), None, dtype)
        self.value = _linear(value.reshape(-1, width), None, dtype)
        self.output = _linear(output.reshape(width, -1), None, dtype)
        self.register_buffer("mask", _mask(layer, tokens, dtype))

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.shape[1]
        mixed = functional.scaled_dot_product_attention(
            self._by_head(self.query(x)),
            self._by_head(self.key(x)),
            self._by_head(self.value(x)),
            attn_mask=None if self.mask is None else self.mask[:, :, :tokens, :tokens],
            scale=1.0,
        )
        return x + self.output(mixed.transpose(1, 2).flatten(2))

    def _by_head(self, x: Tensor) -> Tensor:
        """(batch, tokens, heads * width) as (batch, heads, tokens, width)."""
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def extra_repr(self) -> str:
        return f"heads={self.heads}"


class FeedForwardBlock(nn.Module):
    """x <- x + outer(relu(inner(x)))."""

    def __init__(self, layer: FeedForward, dtype: torch.dtype) -> None:
        super().__init__()
        self.inner = _linear(layer.inner, layer.inner_bias, dtype)
        self.outer = _linear(layer.outer, layer.outer_bias, dtype)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.outer(functional.relu(self.inner(x)))


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
            mask[0, members] = _tensor(_cold(bias, group.coldness), dtype)
        if group.causal:
            mask[0, members] = mask[0, members].masked_fill(unseen, -torch.inf)
    return mask


def _cold(scores: np.ndarray, coldness: np.ndarray) -> np.ndarray:
    """Weights that make scores, times each head's coldness; an overflow is left to `_tensor`."""
    with np.errstate(over="ignore"):
        return scores * coldness[:, None, None]


def _linear(weights: np.ndarray, bias: np.ndarray | None, dtype: torch.dtype) -> nn.Linear:
    """A linear layer with these weights; the user's random numbers are not touched."""
    outputs, inputs = weights.shape
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of empty weights, as of no hidden units
        layer = nn.Linear(inputs, outputs, bias=bias is not None, device="meta", dtype=dtype)
    layer.weight = nn.Parameter(_tensor(weights, dtype))
    if bias is not None:
        layer.bias = nn.Parameter(_tensor(bias, dtype))
    return layer


def _tensor(array: np.ndarray, dtype: torch.dtype) -> Tensor:
    """A copy of the array, rounded to nearest; refused if a number leaves the format's range."""
    tensor = torch.tensor(array).to(dtype)
    if not torch.isfinite(tensor).all():
        largest, format = np.abs(array).max(), FORMATS[str(dtype).removeprefix("torch.")]
        raise PrecisionError(
            f"The weights reach {largest:.3g} once coldness is multiplied in, but {dtype} ends at "
            f"{format.largest:.3g}: choose a wider dtype, or a larger error."
        )
    return tensor
