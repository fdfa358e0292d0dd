"""The stability of every head of a Transformer on given inputs."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from hardmax._errors import RequestError
from hardmax.core import Attention, Construction, HeadGroup, Transformer
from hardmax.geometry.temperature._arrays import measure
from hardmax.geometry.temperature._given import (
    CAUSAL,
    AttentionProblems,
    check_tolerance,
    coldness_of,
)
from hardmax.geometry.temperature._streams import (
    attention_of,
    embedded_chunks,
    in_stream_lengths,
    seen_by,
)
from hardmax.geometry.temperature._table import TOLERANCE, HeadStability, Stability, StabilityReport

_Place = tuple[int, int]  # sublayer, head
_Part = tuple[np.ndarray, Stability]  # which inputs, and inputs x tokens of one head


def stability(
    model: Construction | Transformer,
    inputs: ArrayLike | None = None,
    *,
    temperature: float | None = None,
    tolerance: float = TOLERANCE,
) -> StabilityReport:
    """How close each head of a model is to its hard skeleton, for every input and every token.

    `inputs` are points, one a row, or words. The heads of a layer see the model's own stream:
    earlier heads work as they are, whatever `temperature` says. It replaces the temperature of
    every head in what is guaranteed and measured of that head; without it each head has its own.
    A hard head then has the temperature 0: its gaps, walls and the temperature it could be
    softened to are told, and its bounds are 0 except in ties.

    Values are what a head adds to the stream, so distances of outputs are Euclidean distances in
    the stream. The guarantees are about the queries, keys and values that float64 gives.

        hm.stability(model, points, temperature=0.1).critical_coldness(1e-3)

    >>> model = hm.compile("x * y", on={"x": (-1, 1), "y": (-1, 1)}, error=1e-2)
    >>> len(hm.stability(model, [[0.5, 0.5]]).heads)
    1
    """
    if isinstance(model, Construction):
        transformer, legend = model.transformer, model.legend
    elif isinstance(model, Transformer):
        transformer, legend = model, None
    else:
        raise RequestError(
            f"stability takes a Construction or a Transformer, but got {type(model).__name__}. "
            f"For arrays of another model there is stability_of(q, k, v)."
        )
    if inputs is None:
        raise RequestError(
            "Say on which inputs: hm.stability(model, points) with one point a row, or words."
        )
    if not transformer.heads:
        raise RequestError("This model has no attention heads, so there is nothing to compare.")
    coldness = None if temperature is None else float(coldness_of(temperature))
    parts: dict[_Place, list[_Part]] = {}
    for numbers, stream in embedded_chunks(transformer, inputs):
        for sublayer, seen in seen_by(transformer, stream):
            layer = transformer.sublayers[sublayer]
            assert isinstance(layer, Attention)
            for group in layer.groups:
                table = _measure_group(group, seen, coldness)
                for place, member in enumerate(group.members):
                    head_table = table.of_head(place)
                    parts.setdefault((sublayer, member), []).append((numbers, head_table))
    steps = () if legend is None else legend.sublayers
    heads = [_stability_of_head(place, parts[place], steps) for place in sorted(parts)]
    return StabilityReport(tuple(heads), check_tolerance(tolerance))


def _measure_group(group: HeadGroup, stream: np.ndarray, coldness: float | None) -> Stability:
    tokens = stream.shape[1]
    bias = group.position_bias
    query, key, value = attention_of(group, stream)
    given = AttentionProblems.of(
        query,
        key,
        in_stream_lengths(group, value),
        mask=CAUSAL if group.causal else None,
        bias=None if bias is None else bias[:, :tokens, :tokens],
        scale=1.0,
        coldness=group.coldness if coldness is None else coldness,
    )
    return measure(given)


def _stability_of_head(
    place: _Place, parts: list[_Part], steps: tuple[tuple[str, ...], ...]
) -> HeadStability:
    """All queries of one head, by input and then by token."""
    numbers = [np.repeat(some, _tokens(some, one)) for some, one in parts]
    tokens = [np.tile(np.arange(_tokens(some, one)), len(some)) for some, one in parts]
    inputs, token = np.concatenate(numbers), np.concatenate(tokens)
    order = np.lexsort((token, inputs))
    table = Stability.joined([one for _, one in parts]).taken(order)
    sublayer, head = place
    named = steps[sublayer] if sublayer < len(steps) else ()
    return HeadStability(
        sublayer, head, inputs[order], token[order], table, named[head] if head < len(named) else ""
    )


def _tokens(numbers: np.ndarray, one: Stability) -> int:
    return one.winner.size // len(numbers)
