"""What has no linear regions because it multiplies."""

from __future__ import annotations

from hardmax._errors import SemanticsError
from hardmax.core import GatedFeedForward, Transformer


def refuse_products(model: Transformer) -> None:
    """Refuse gated feed-forward layers: their units are products of two reads, as x*y is."""
    if any(isinstance(layer, GatedFeedForward) for layer in model.sublayers):
        raise SemanticsError(
            "A gated feed-forward layer multiplies what it reads, so this model is not piecewise "
            "linear and has no linear regions: compile the function by another route, such as "
            "feedforward."
        )
