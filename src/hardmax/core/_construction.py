"""What crosses the waist: a Transformer with the promise made of it, and its bill.

The bill is counted from the weights and never from anybody's opinion.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from hardmax._errors import ShapeError
from hardmax._shown import Shown
from hardmax.core._batched import evaluate
from hardmax.core._circuit import Circuit
from hardmax.core._claim import Box, Claim, Witness
from hardmax.core._gated import GatedFeedForward
from hardmax.core._layers import Attention, FeedForward, Head, SequenceInput, VectorInput
from hardmax.core._legend import Legend
from hardmax.core._reference import reference
from hardmax.core._target import Named
from hardmax.core._transformer import Transformer, weight_arrays
from hardmax.core._words import Words

# ---- what it costs -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bill(Shown):
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

    def __repr__(self) -> str:
        return f"Bill({self})"

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


def _attentions(transformer: Transformer) -> list[Attention]:
    return [layer for layer in transformer.sublayers if isinstance(layer, Attention)]


def _feed_forwards(transformer: Transformer) -> list[FeedForward | GatedFeedForward]:
    return [layer for layer in transformer.sublayers if not isinstance(layer, Attention)]


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


def _feed_forward_size(layer: FeedForward | GatedFeedForward) -> int:
    size = 2 * layer.inner.size + layer.inner_bias.size + layer.outer_bias.size
    gates = layer.gate.size + layer.gate_bias.size if isinstance(layer, GatedFeedForward) else 0
    return size + gates


def _padded(transformer: Transformer) -> int:
    """Every layer with the most heads, the widest keys and values, and the widest hidden layer."""
    heads, width = transformer.heads, transformer.width
    most = max((len(layer.heads) for layer in _attentions(transformer)), default=0)
    key = max((head.key_width for head in heads), default=0)
    value = max((head.value_width for head in heads), default=0)
    biased = any(head.position_bias is not None for head in heads)
    attention = most * (2 * width * (key + value) + biased * transformer.tokens**2)
    fed = _feed_forwards(transformer)
    hidden = max((layer.hidden_width for layer in fed), default=0)
    reads = 2 if any(isinstance(layer, GatedFeedForward) for layer in fed) else 1
    feed_forward = ((reads + 1) * width * hidden + reads * hidden + width) if hidden else 0
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
        matrices = 3 if isinstance(layer, GatedFeedForward) else 2
        total += 2 * matrices * n * width * layer.hidden_width
        total += n * layer.hidden_width if matrices == 3 else 0  # the products of both factors
    return total


# ---- what crosses the waist ----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Construction(Shown):
    """A Transformer, the claim made of it, the witness behind the claim, and the route taken.

    The legend, if there is one, says in words what its parts are for; the circuit of a legible
    model, which steps they hold and who reads them.

    >>> model = hm.compile("x * y", on={"x": (-1, 1), "y": (-1, 1)}, error=1e-2)
    >>> abs(float(model(x=0.5, y=0.5)[0]) - 0.25) <= model.claim.error
    True
    >>> model.route, model.bill.layers
    ('direct', 1)
    """

    transformer: Transformer
    claim: Claim
    witness: Witness | None
    route: str
    legend: Legend | None = None
    circuit: Circuit | None = None

    def __post_init__(self) -> None:
        target = self.claim.target
        source = self.transformer.input
        if isinstance(self.claim.domain, Words):
            _check_words(self.transformer, self.claim)
        elif isinstance(source, SequenceInput):
            raise ShapeError(
                f"The Transformer reads sequences of symbols, but its claim is about "
                f"{self.claim.domain}: a claim about sequences has Words as its domain."
            )
        elif isinstance(source, VectorInput) and (
            (source.inputs, self.transformer.outputs) != (target.inputs, target.outputs)
            or source.inputs != self.claim.domain.dimension
        ):
            raise ShapeError(
                f"The Transformer maps {source.inputs} reals to {self.transformer.outputs}, but "
                f"its target maps {target.inputs} to {target.outputs} on a domain of dimension "
                f"{self.claim.domain.dimension}."
            )

    @cached_property
    def bill(self) -> Bill:
        """What it costs, counted from the weights."""
        domain = self.claim.domain if isinstance(self.claim.domain, Box) else None
        return count_bill(self.transformer, domain, source_parameters=self.claim.target.parameters)

    def __call__(self, x: Any = None, /, *more: object, **variables: Any) -> Any:
        """The outputs at x: one vector, or a batch with one row per input.

        Inputs can also be named, x=0.3, y=0.5 (x0, x1, ... for a network). Floats go through the
        batched evaluator; Fractions are evaluated exactly, which needs hard heads. A model of
        sequences takes a text, a list of symbols, or a list of sequences; where its target can
        decode numbers, it answers with items.
        """
        if isinstance(self.transformer.input, SequenceInput):
            if x is None or more or variables:
                raise ShapeError("Give a sequence of symbols, or a list of sequences.")
            answer = evaluate(self.transformer, x)
            decode = getattr(self.claim.target, "decode", None)
            return answer if decode is None else self._decoded(answer, decode)
        if more:
            raise ShapeError(
                f"Give the inputs as one list, model([{', '.join(self.names[:8])}]), or by their "
                f"names, but {1 + len(more)} arguments came one by one."
            )
        if x is None or variables:
            x = self._named(x, variables)
        array = np.asarray(x)
        if array.dtype == object and any(isinstance(v, Fraction) for v in array.flat):
            if array.ndim != 1:
                raise ShapeError("Exact evaluation takes one vector of Fractions at a time.")
            return np.array(reference(self.transformer, array, Fraction), dtype=object)
        return evaluate(self.transformer, x)

    def _decoded(self, answer: Any, decode: Callable[[Any], Any]) -> Any:
        """The items of one sequence, or of each in a list."""
        if isinstance(answer, list):
            return [self._decoded(one, decode) for one in answer]
        return decode(answer if answer.ndim == 2 else answer[None])

    @property
    def names(self) -> tuple[str, ...]:
        """The inputs' names: a function's variables, x0, x1, ... otherwise."""
        target = self.claim.target
        if isinstance(target, Named):
            return target.variables
        return tuple(f"x{i}" for i in range(target.inputs))

    def _named(self, x: object, variables: dict[str, Any]) -> np.ndarray:
        names = self.names
        if x is not None or set(variables) != set(names):
            wanted = ", ".join(names) if len(names) <= 8 else f"{names[0]} to {names[-1]}"
            raise ShapeError(f"Give the inputs as one array, or by their names {wanted}.")
        return np.stack(np.broadcast_arrays(*[variables[name] for name in names]), axis=-1)

    def __repr__(self) -> str:
        return (
            f"Construction({self.route}: {counted(self.bill.layers, 'layer')}, "
            f"{counted(self.bill.heads, 'head')}, width {self.bill.width}; "
            f"error <= {self.claim.error:.6g} on {self.claim.domain})"
        )


def _check_words(transformer: Transformer, claim: Claim) -> None:
    """The words must be readable, and the read-out must answer as the target does."""
    source, readout = transformer.input, transformer.readout
    words, target = claim.domain, claim.target
    if not isinstance(source, SequenceInput):
        raise ShapeError(f"The claim is about {words}, but the Transformer reads no sequences.")
    foreign = [symbol for symbol in words.alphabet if symbol not in source.alphabet]
    if foreign or words.longest > source.longest:
        raise ShapeError(
            f"The Transformer reads up to {source.longest} of {list(source.alphabet)}, but its "
            f"claim is about {words}."
        )
    each = readout.token is None
    if (each, readout.outputs) != (target.each_symbol, target.outputs):
        raise ShapeError(
            f"The Transformer answers {readout.outputs} numbers {_per(each)}, but its target "
            f"{target.outputs} {_per(target.each_symbol)}."
        )
    tokens = words.shortest + (source.start is not None)
    if readout.token is not None and not -tokens <= readout.token < tokens:
        raise ShapeError(
            f"The read-out reads token {readout.token}, which the shortest words do not have."
        )


def _per(each_symbol: bool) -> str:
    return "per symbol" if each_symbol else "per word"
