"""The power diagram of a head whose keys are fixed by a context."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

import numpy as np

from hardmax._errors import RequestError, ShapeError
from hardmax.core import Attention, Construction, Head, Transformer, trace
from hardmax.geometry.diagrams._diagram import PowerDiagram, power_diagram
from hardmax.geometry.diagrams._head_terms import fractions, head_terms
from hardmax.geometry.hulls._points import Row, depth_of

Space = Literal["query", "stream"]


def head_diagram(
    transformer: Transformer | Construction,
    layer: int,
    head: int,
    context: Sequence[Row] | Row,
    *,
    token: int = -1,
    space: Space = "query",
    on: object = None,
) -> PowerDiagram:
    """Which token a head attends to, for every query that it could be asked.

    The other tokens stand still. `layer` counts attention layers and `head` its heads, from 0.
    `context` is the stream that this layer reads (tokens x width), or an input of the model, whose
    stream is then computed: exactly, if all heads are hard. Key j is the token x_j's, its score
    <q, K x_j> + bias; so the cells are those of a power diagram over q in R^(key width). In the
    space "stream" they are cells of the asking token x itself: <Q x, K x_j> = <x, Q^T K x_j>.
    `token` is the place from which is asked; a causal head sees only what is not after it.

    >>> network = hm.ReluNetwork([[[1.0], [-1.0]], [[1.0, 1.0]]], [[0.0, 0.0], [0.0]])  # |x|
    >>> hard = hm.compile(network, on="[-1,1]", error=None)
    >>> hm.head_diagram(hard, 0, 0, context=[0.5]).dimension >= 1
    True
    """
    model = transformer.transformer if isinstance(transformer, Construction) else transformer
    if not isinstance(model, Transformer):
        raise RequestError(
            f"A head diagram needs a Transformer or a Construction, but {model!r:.40} came."
        )
    number, chosen = _head(model, layer, head)
    keys, biases = head_terms(chosen, _stream(model, number, context), token)
    if space not in ("query", "stream"):
        raise RequestError(f'The space must be "query" or "stream", but it is {space!r}.')
    if space == "stream":
        keys = keys @ fractions(chosen.query)
    return power_diagram(keys, biases, on)


def _head(model: Transformer, layer: int, head: int) -> tuple[int, Head]:
    """The number of the sublayer, and the head."""
    places = [n for n, part in enumerate(model.sublayers) if isinstance(part, Attention)]
    if not 0 <= layer < len(places):
        raise RequestError(
            f"The model has {len(places)} attention layers, counted from 0, so there is no layer "
            f"{layer}."
        )
    sublayer = model.sublayers[places[layer]]
    assert isinstance(sublayer, Attention)
    if not 0 <= head < len(sublayer.heads):
        raise RequestError(
            f"Layer {layer} has {len(sublayer.heads)} heads, counted from 0, so there is no head "
            f"{head}."
        )
    return places[layer], sublayer.heads[head]


def _stream(model: Transformer, number: int, context: Sequence[Row] | Row) -> np.ndarray:
    """What sublayer `number` reads, as Fractions: as it was given, or computed from an input."""
    if not np.iterable(context):
        raise ShapeError(
            f"The context is an input of the model or the stream that the layer reads, not a "
            f"{type(context).__name__}."
        )
    if depth_of(context) == 2:
        try:
            exact = fractions(np.asarray(context))
        except (TypeError, ValueError, OverflowError) as reason:
            raise ShapeError("The context must hold finite numbers.") from reason
        if exact.shape[1] != model.width or not len(exact):
            raise ShapeError(
                f"A context of this model has rows of width {model.width}, but its shape is "
                f"{exact.shape}."
            )
        return exact
    kind = Fraction if model.is_hard else float
    return fractions(np.array(trace(model, context, kind).streams[number], dtype=object))
