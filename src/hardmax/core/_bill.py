"""What a Transformer costs, counted from its weights and never from anybody's opinion."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from hardmax.core._domain import Box
from hardmax.core._inputs import SequenceInput, VectorInput
from hardmax.core._layers import Attention, FeedForward, Head
from hardmax.core._transformer import Transformer


@dataclass(frozen=True)
class Bill:
    """The resources of a Transformer.

    A layer is an attention sublayer with an optional feed-forward sublayer after it.

    `parameters` are dense: every entry of every matrix, embeddings, prompt tokens and read-out
    included, each head at its own key and value width. `padded_parameters` are those of the same
    function in a stack of uniform layers and heads, as a framework stores it. `largest_weight` and
    `largest_logit` include the coldness, which a framework folds into the query weights; the logit
    is an upper bound over the claim's domain, for all questions on which the answer depends.
    `flops` and `attention_memory` (bytes of attention weights held at once, in float64) are for
    one input at the full length of `tokens`.

    >>> bill = hm.compile("x * y", on={"x": (-1, 1), "y": (-1, 1)}, error=1e-2).bill
    >>> bill.layers, bill.heads, bill.parameters
    (1, 1, 28)
    """

    layers: int
    heads: int
    width: int
    tokens: int
    key_width: int
    value_width: int
    hidden_width: int
    parameters: int
    padded_parameters: int
    nonzero_parameters: int
    source_parameters: int | None
    largest_weight: float
    largest_logit: float
    flops: int
    attention_memory: int

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        parts = [
            counted(self.layers, "layer"),
            counted(self.heads, "head"),
            counted(self.tokens, "token"),
            f"width {self.width}",
            f"{self.parameters:,} parameters ({self.nonzero_parameters:,} nonzero)",
            f"largest logit {self.largest_logit:.4g}",
        ]
        if self.source_parameters:
            ratio = self.nonzero_parameters / self.source_parameters
            parts.insert(5, f"source {self.source_parameters:,} ({ratio:.2f}x nonzero)")
        return " · ".join(parts)


def counted(number: int, noun: str) -> str:
    """1 layer, 2 layers."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


LogitBound = Callable[[Transformer, Box | None], float]
_logit_bounds: list[LogitBound] = []


def bound_logits_with(bound: LogitBound) -> None:
    """Say how the largest logit over a domain is bounded.

    It takes the ranges of the stream, which the room `analysis` finds; that room lies above the
    waist and hands its bound down when it is loaded, so that bills need no import of it.
    """
    _logit_bounds[:] = [bound]


def count_bill(
    transformer: Transformer,
    domain: Box | None,
    *,
    source_parameters: int | None = None,
    largest_logit: float | None = None,
) -> Bill:
    """Count everything. The domain is where the largest logit is bounded, unless it is known."""
    heads = transformer.heads
    if largest_logit is None:
        largest_logit = _logit_bounds[0](transformer, domain) if heads else 0.0
    hidden = [layer.hidden_width for layer in _feed_forwards(transformer)]
    per_layer = [len(layer.heads) for layer in _attentions(transformer)]
    return Bill(
        layers=_layers(transformer),
        heads=len(heads),
        width=transformer.width,
        tokens=transformer.tokens,
        key_width=max((head.key_width for head in heads), default=0),
        value_width=max((head.value_width for head in heads), default=0),
        hidden_width=max(hidden, default=0),
        parameters=_ends(transformer)
        + sum(map(_head_size, heads))
        + sum(map(_feed_forward_size, _feed_forwards(transformer))),
        padded_parameters=padded_parameters(transformer),
        nonzero_parameters=sum(int(np.count_nonzero(a)) for a in weight_arrays(transformer)),
        source_parameters=source_parameters,
        largest_weight=_largest_weight(transformer),
        largest_logit=largest_logit,
        flops=_flops(transformer),
        attention_memory=8 * max(per_layer, default=0) * transformer.tokens**2,
    )


def padded_parameters(transformer: Transformer) -> int:
    """The parameters of a stack of uniform layers and heads, embedding and read-out included."""
    return _ends(transformer) + _padded(transformer)


def weight_arrays(transformer: Transformer) -> Iterator[np.ndarray]:
    """Every stored weight."""
    source = transformer.input
    match source:
        case VectorInput():
            yield from (source.maps, source.offsets)
        case SequenceInput():
            yield from (source.embedding, source.positions)
            if source.start is not None:
                yield source.start
    for head in transformer.heads:
        yield from (head.query, head.key, head.value, head.output)
        if head.position_bias is not None:
            yield head.position_bias
    for layer in _feed_forwards(transformer):
        yield from (layer.inner, layer.inner_bias, layer.outer, layer.outer_bias)
    yield from (transformer.readout.weights, transformer.readout.bias)


def _attentions(transformer: Transformer) -> list[Attention]:
    return [layer for layer in transformer.sublayers if isinstance(layer, Attention)]


def _feed_forwards(transformer: Transformer) -> list[FeedForward]:
    return [layer for layer in transformer.sublayers if isinstance(layer, FeedForward)]


def _layers(transformer: Transformer) -> int:
    """Attention sublayers, and feed-forward sublayers that do not directly follow one."""
    count, after_attention = 0, False
    for sublayer in transformer.sublayers:
        attends = isinstance(sublayer, Attention)
        count += attends or not after_attention
        after_attention = attends
    return count


def _ends(transformer: Transformer) -> int:
    """Embedding and read-out. A prompt token whose map is zero stores its vector only."""
    source, readout = transformer.input, transformer.readout
    match source:
        case VectorInput():
            mapped = int(source.maps.any(axis=(1, 2)).sum())
            start = source.offsets.size + mapped * source.width * source.inputs
        case SequenceInput():
            start = source.embedding.size
            start += source.positions.size if source.positions.any() else 0  # none: nothing stored
            start += 0 if source.start is None else source.start.size
    return start + readout.weights.size + readout.bias.size


def _head_size(head: Head) -> int:
    bias = 0 if head.position_bias is None else head.position_bias.size
    return 2 * (head.query.size + head.value.size) + bias


def _feed_forward_size(layer: FeedForward) -> int:
    return 2 * layer.inner.size + layer.inner_bias.size + layer.outer_bias.size


def _padded(transformer: Transformer) -> int:
    """Every layer with the most heads, the widest keys and values, and the widest hidden layer."""
    heads, width = transformer.heads, transformer.width
    most = max((len(layer.heads) for layer in _attentions(transformer)), default=0)
    key = max((head.key_width for head in heads), default=0)
    value = max((head.value_width for head in heads), default=0)
    biased = any(head.position_bias is not None for head in heads)
    attention = most * (2 * width * (key + value) + biased * transformer.tokens**2)
    hidden = max((layer.hidden_width for layer in _feed_forwards(transformer)), default=0)
    feed_forward = (2 * width * hidden + hidden + width) if hidden else 0
    return _layers(transformer) * (attention + feed_forward)


def _largest_weight(transformer: Transformer) -> float:
    largest = max(float(np.abs(a).max(initial=0.0)) for a in weight_arrays(transformer))
    for head in transformer.heads:
        if np.isfinite(head.coldness):
            folded = float(np.abs(head.query).max(initial=0.0)) * head.coldness
            largest = max(largest, folded)
    return largest


def _flops(transformer: Transformer) -> int:
    n, width = transformer.tokens, transformer.width
    total = 2 * width * transformer.outputs
    if isinstance(transformer.input, VectorInput):
        total += 2 * transformer.input.maps.size
    for head in transformer.heads:
        total += 4 * n * width * (head.key_width + head.value_width)
        total += n * n * (2 * head.key_width + 2 * head.value_width + 5)
    for layer in _feed_forwards(transformer):
        total += 4 * n * width * layer.hidden_width
    return total
