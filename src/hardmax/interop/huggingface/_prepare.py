"""A construction as a home takes it: what stands in the folder is this one, up to rounding.

Every step is Construction -> Construction and keeps the answers; the witness and the legend follow.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace

import numpy as np

from hardmax._errors import RequestError
from hardmax.core import (
    Attention,
    Box,
    Claim,
    Construction,
    FeedForward,
    GatedFeedForward,
    Head,
    ReadOut,
    SequenceInput,
    Share,
    Softmax,
    Sublayer,
    Transformer,
    VectorInput,
    embedded,
    evaluate,
    streams,
    told_apart,
)
from hardmax.interop.huggingface._following import (
    answering_circuit,
    notes_of,
    opened_circuit,
    rebuilt,
    trimmed_circuit,
)
from hardmax.interop.huggingface._labels import Labels, logit_rows
from hardmax.interop.huggingface._prelude import widened_gates, with_prelude
from hardmax.numerics import Format

_SAMPLES = 64
SHARE = 2.0**-10  # of the error claimed: so far may answers move that a host takes as the same
_SEED = 5


@dataclass(frozen=True)
class Abilities:
    """What a home can do besides heads and units."""

    biases: bool  # outer biases of hidden layers
    causal: bool  # every head sees earlier tokens only
    distances: bool  # position biases, of the distance alone
    prelude: str | None  # how positions are made where there is no table
    gates: tuple[str, ...] = ()  # activations of gated units; a ReLU among pairs is any of them


def prepared(
    construction: Construction, format: Format, labels: Labels | None, home: Abilities
) -> Construction:
    """The construction in the form of a home; what does not fit is refused with the reason."""
    construction = replace(construction, claim=_roomy(construction.claim, format))
    _refuse_biases(construction.transformer, home)
    _refuse_gates(construction.transformer, home)
    construction = _with_cold_keys(_trimmed(construction))
    if home.causal:
        construction = _causal(_read_last(construction))
    if home.prelude is not None and isinstance(construction.transformer.input, SequenceInput):
        construction = _opened(construction, home.prelude)
    if labels is not None:
        construction = _answering(construction, labels, format)
    if not home.biases:
        construction = _without_outer_biases(construction)
    return construction


def sampled_streams(construction: Construction) -> list[np.ndarray]:
    """Streams before, between and after all sublayers on samples: batch x tokens x width."""
    return [
        stream
        for batch in embedded_samples(construction)
        for stream in streams(construction.transformer, batch)
    ]


def largest_squares(construction: Construction) -> float:
    """The largest sum of squares of a token's stream that samples have: no bound."""
    found = [
        np.square(stream).sum(axis=-1).max(initial=0.0) for stream in sampled_streams(construction)
    ]
    return float(max(found, default=0.0))


def embedded_samples(construction: Construction) -> list[np.ndarray]:
    source = construction.transformer.input
    samples = _samples(construction)
    if isinstance(source, VectorInput):
        return [np.einsum("twi,bi->btw", source.maps, samples) + source.offsets]
    ids = [source.indices(word) for word in samples]
    lengths = sorted({len(one) for one in ids} - {0})  # an empty word may have no token at all
    by_length = [np.array([one for one in ids if len(one) == n], dtype=np.int64) for n in lengths]
    return [embedded(source, batch) for batch in by_length]


def _samples(construction: Construction):  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(_SEED)
    return construction.claim.domain.sample(_SAMPLES, rng)


def _roomy(claim: Claim, format: Format) -> Claim:
    """The claim in the folder's format; what is left of the error asked for is the host's."""
    ledger = list(claim.ledger)
    if isinstance(claim.domain, Box) and claim.asked > claim.error:
        left = (claim.asked - claim.error) * (1.0 - SHARE)
        ledger.append(Share("margin", "norms, activations and roundings of the class", left))
    return Claim(claim.target, claim.domain, ledger, format=format.name, asked=claim.asked)


# ---- what is refused -----------------------------------------------------------------------------


def _refuse_biases(transformer: Transformer, home: Abilities) -> None:
    if not home.distances and any(head.position_bias is not None for head in transformer.heads):
        raise RequestError("it has heads with position biases, which this class does not have")


def _refuse_gates(transformer: Transformer, home: Abilities) -> None:
    gated = any(isinstance(layer, GatedFeedForward) for layer in transformer.sublayers)
    if gated and not home.gates:
        raise RequestError(
            "it has gated hidden units, which this class does not have (the nearest home that has "
            "them is llama)"
        )


# ---- steps ---------------------------------------------------------------------------------------


def _trimmed(construction: Construction) -> Construction:
    """Without heads and hidden units that do nothing: a reader would not see them."""
    legend = construction.legend
    kept: list[Sublayer] = []
    steps: list[tuple[str, ...]] = []
    last: list[int] = []
    working: list[list[int]] = []
    for number, sublayer in enumerate(construction.transformer.sublayers):
        found = _working(sublayer)
        working.append(found)
        said = () if legend is None else legend.sublayers[number]
        smaller = _only(sublayer, found)
        if smaller is not None:
            kept.append(smaller)
            steps.append(tuple(said[i] for i in found if i < len(said)))
        last.append(len(kept) - 1)
    transformer, circuit = construction.transformer, construction.circuit
    smaller_one = Transformer(transformer.input, kept, transformer.readout)

    def sublayers(k: int) -> int:
        return last[k] if k >= 0 else -1

    def place(number: int, head: int) -> int | None:
        return working[number].index(head) if head in working[number] else None

    if circuit is not None:
        circuit = trimmed_circuit(
            circuit, smaller_one, sublayers, lambda k, m: bisect_left(working[k], m)
        )
    return rebuilt(
        construction,
        smaller_one,
        sublayers,
        legend=None
        if legend is None
        else legend.with_parts(legend.coordinates, steps, sublayer=sublayers, head=place),
        circuit=circuit,
    )


def _with_cold_keys(construction: Construction) -> Construction:
    """Coldness goes into keys that are single numbers, where queries are sums.

    It would be multiplied into every weight of a query otherwise, and a sum that nearly cancels
    would be off by roundings of its large terms.
    """
    transformer = construction.transformer
    sublayers = [
        Attention(_with_cold_key(head) for head in layer.heads)
        if isinstance(layer, Attention)
        else layer
        for layer in transformer.sublayers
    ]
    changed = Transformer(transformer.input, sublayers, transformer.readout)
    return rebuilt(construction, changed, lambda k: k)


def _with_cold_key(head: Head) -> Head:
    sums, numbers = ((rows != 0.0).sum(axis=1) > 1 for rows in (head.query, head.key))
    if head.position_bias is not None or not sums.any() or numbers.any():
        return head
    return replace(head, key=head.coldness * head.key, weighting=Softmax(1.0))


def _working(sublayer: Sublayer) -> list[int]:
    if not isinstance(sublayer, Attention):
        alive = sublayer.outer.any(axis=0) & (
            sublayer.inner.any(axis=1) | (sublayer.inner_bias != 0)
        )
        if isinstance(sublayer, GatedFeedForward):
            alive &= sublayer.gate.any(axis=1) | (sublayer.gate_bias != 0)
        return [int(i) for i in np.flatnonzero(alive)]
    return [i for i, head in enumerate(sublayer.heads) if _moves(head)]


def _moves(head: Head) -> bool:
    return bool((head.value.any(axis=1) & head.output.any(axis=0)).any())


def _only(sublayer: Sublayer, found: list[int]) -> Sublayer | None:
    if isinstance(sublayer, Attention):
        return Attention(sublayer.heads[i] for i in found) if found else None
    if not found and not sublayer.outer_bias.any():
        return None
    inner, bias = sublayer.inner[found], sublayer.inner_bias[found]
    if isinstance(sublayer, GatedFeedForward):
        gate = sublayer.gate[found], sublayer.gate_bias[found]
        written = sublayer.outer[:, found], sublayer.outer_bias
        return GatedFeedForward(*gate, inner, bias, *written, sublayer.activation)
    return FeedForward(inner, bias, sublayer.outer[:, found], sublayer.outer_bias)


def _read_last(construction: Construction) -> Construction:
    """Tokens of a vector input in another order: the one that is read comes last.

    A Transformer without masks and position biases does not know the order.
    """
    transformer = construction.transformer
    source, token = transformer.input, transformer.readout.token
    if not isinstance(source, VectorInput) or token is None:
        return construction
    n = transformer.tokens
    if token % n == n - 1 or any(head.causal for head in transformer.heads):
        return construction
    order = [t for t in range(n) if t != token % n] + [token % n]
    turned = VectorInput(source.maps[order], source.offsets[order])
    readout = replace(transformer.readout, token=-1)
    return rebuilt(
        construction,
        Transformer(turned, transformer.sublayers, readout),
        lambda k: k,
        tokens=lambda t: order.index(t % n),
    )


def _causal(construction: Construction) -> Construction:
    """Every head sees earlier tokens only; refused where that changes sampled answers."""
    transformer = construction.transformer
    if all(head.causal for head in transformer.heads):
        return construction
    sublayers = [
        Attention(replace(head, causal=True) for head in layer.heads)
        if isinstance(layer, Attention)
        else layer
        for layer in transformer.sublayers
    ]
    masked = Transformer(transformer.input, sublayers, transformer.readout)
    moved = _difference(transformer, masked, construction)
    if moved > SHARE * construction.claim.error:
        raise RequestError(
            f"its heads look at later tokens, and this class is causal (its answers would move by "
            f"up to {moved:.2g})"
        )
    return rebuilt(construction, masked, lambda k: k)


def _difference(one: Transformer, other: Transformer, construction: Construction) -> float:
    samples = _samples(construction)
    pairs = zip(evaluate(one, samples), evaluate(other, samples), strict=True)
    return max((float(np.abs(a - b).max(initial=0.0)) for a, b in pairs), default=0.0)


def _opened(construction: Construction, kind: str) -> Construction:
    opened = with_prelude(construction.transformer, kind, construction.bill.largest_logit)
    legend, new = construction.legend, len(opened.sublayers)
    if legend is not None:
        coordinates = told_apart((*legend.coordinates, *opened.columns))
        steps = (*opened.sublayers, *legend.sublayers)
        legend = legend.with_parts(coordinates, steps, sublayer=lambda k: k + new)
    started, circuit, column = opened.started, construction.circuit, construction.transformer.width
    if circuit is not None and new:
        circuit = opened_circuit(circuit, opened.transformer, column + 1, kind, lambda k: k + new)
    return rebuilt(
        construction,
        opened.transformer,
        lambda k: k + new,
        tokens=lambda t: t + started if t >= 0 else t,
        legend=legend,
        circuit=circuit,
    )


def _answering(construction: Construction, labels: Labels, format: Format) -> Construction:
    """With the answer in a column of its own, where the classes' rows are not exact without."""
    transformer = construction.transformer
    if logit_rows(transformer.readout, labels, format) is not None:
        return construction
    width = transformer.width
    row, bias = transformer.readout.weights, transformer.readout.bias
    inner = np.pad(np.concatenate([row, -row]), ((0, 0), (0, 1)))
    outer = np.zeros((width + 1, 2))
    outer[width] = 1.0, -1.0
    units = FeedForward(inner, np.concatenate([bias, -bias]), outer, np.zeros(width + 1))
    last = np.zeros((1, width + 1))
    last[0, width] = 1.0
    sublayers = [*(_wider(layer) for layer in transformer.sublayers), units]
    readout = ReadOut(last, np.zeros(1), transformer.readout.token)
    legend = construction.legend
    if legend is not None:
        steps = (*legend.sublayers, ("the answer",) * 2)
        legend = legend.with_parts(told_apart((*legend.coordinates, "the answer")), steps)
    found = Transformer(_wider_input(transformer.input), sublayers, readout)
    circuit = construction.circuit
    if circuit is not None:
        notes = notes_of(construction.claim.target)
        circuit = answering_circuit(circuit, found, transformer.readout, notes)
    return rebuilt(construction, found, lambda k: k, legend=legend, circuit=circuit)


def _wider_input(source: VectorInput | SequenceInput) -> VectorInput | SequenceInput:
    if isinstance(source, VectorInput):
        maps = np.pad(source.maps, ((0, 0), (0, 1), (0, 0)))
        return VectorInput(maps, np.pad(source.offsets, ((0, 0), (0, 1))))
    start = None if source.start is None else np.pad(source.start, (0, 1))
    embedding, positions = (
        np.pad(rows, ((0, 0), (0, 1))) for rows in (source.embedding, source.positions)
    )
    return SequenceInput(source.alphabet, embedding, positions, start)


def _wider(layer: Sublayer) -> Sublayer:
    """A sublayer over one more column, which it neither reads nor writes."""
    read, written = ((0, 0), (0, 1)), ((0, 1), (0, 0))
    if isinstance(layer, FeedForward):
        inner, outer = np.pad(layer.inner, read), np.pad(layer.outer, written)
        return FeedForward(inner, layer.inner_bias, outer, np.pad(layer.outer_bias, (0, 1)))
    if isinstance(layer, GatedFeedForward):
        return widened_gates(layer, layer.width + 1)
    return Attention(
        replace(
            head,
            query=np.pad(head.query, read),
            key=np.pad(head.key, read),
            value=np.pad(head.value, read),
            output=np.pad(head.output, written),
        )
        for head in layer.heads
    )


def _without_outer_biases(construction: Construction) -> Construction:
    """An outer bias becomes a hidden unit that is always 1."""
    transformer, legend = construction.transformer, construction.legend
    sublayers: list[Sublayer] = []
    steps = [] if legend is None else list(legend.sublayers)
    for number, layer in enumerate(transformer.sublayers):
        if isinstance(layer, FeedForward) and layer.outer_bias.any():
            layer = FeedForward(
                np.pad(layer.inner, ((0, 1), (0, 0))),
                np.append(layer.inner_bias, 1.0),
                np.column_stack([layer.outer, layer.outer_bias]),
                np.zeros(layer.width),
            )
            if legend is not None:
                steps[number] = (*steps[number], "a constant")
        if isinstance(layer, GatedFeedForward) and layer.outer_bias.any():
            nothing, bias = ((0, 2), (0, 0)), layer.outer_bias
            layer = GatedFeedForward(  # one times one, whatever the activation
                np.pad(layer.gate, nothing),
                np.append(layer.gate_bias, [1.0, -1.0]),
                np.pad(layer.inner, nothing),
                np.append(layer.inner_bias, [1.0, 1.0]),
                np.column_stack([layer.outer, bias, -bias]),
                np.zeros(layer.width),
                layer.activation,
            )
            if legend is not None:
                steps[number] = (*steps[number], *("a constant",) * 2)
        sublayers.append(layer)
    return rebuilt(
        construction,
        Transformer(transformer.input, sublayers, transformer.readout),
        lambda k: k,
        legend=None if legend is None else legend.with_parts(legend.coordinates, steps),
    )
