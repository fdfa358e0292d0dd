"""Weights that are numbers of a float format from the start."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hardmax.core import (
    Attention,
    FeedForward,
    GatedFeedForward,
    Head,
    ReadOut,
    Sublayer,
    Transformer,
    VectorInput,
)
from hardmax.numerics import FLOAT64, Format


def stored_in(transformer: Transformer, format: Format) -> Transformer:
    """The Transformer with every weight rounded to the format, a coldness included.

    Casting is idempotent, so what is evaluated in the format is the same as before; but over the
    reals the stored weights say now what is evaluated, and a checker charges no weight for being
    rounded, worst cases added up, because none is. A coldness that is a number of the format
    leaves one rounding where it is multiplied into the query. Weights that the format cannot hold
    at all, being too large, are left as they are: no bound is finite there.
    """
    if format is FLOAT64:
        return transformer
    source = transformer.input
    if isinstance(source, VectorInput):
        source = VectorInput(_cast(source.maps, format), _cast(source.offsets, format))
    readout = transformer.readout
    return Transformer(
        source,
        [_stored_sublayer(sublayer, format) for sublayer in transformer.sublayers],
        ReadOut(_cast(readout.weights, format), _cast(readout.bias, format), readout.token),
    )


def _stored_sublayer(sublayer: Sublayer, format: Format) -> Sublayer:
    match sublayer:
        case Attention():
            return Attention(_stored_head(head, format) for head in sublayer.heads)
        case FeedForward():
            parts = sublayer.inner, sublayer.inner_bias, sublayer.outer, sublayer.outer_bias
            return FeedForward(*(_cast(part, format) for part in parts))
        case GatedFeedForward():
            cast = {name: _cast(part, format) for name, part in sublayer.parts().items()}
            return GatedFeedForward.of(cast, sublayer.activation)


def _stored_head(head: Head, format: Format) -> Head:
    return replace(
        head,
        query=_cast(head.query, format),
        key=_cast(head.key, format),
        value=_cast(head.value, format),
        output=_cast(head.output, format),
    )


def _cast(array: np.ndarray, format: Format) -> np.ndarray:
    rounded = format.stored(array)
    return rounded if format.fits(np.abs(rounded)) else array
