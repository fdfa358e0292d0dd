"""The door: a construction as a model of TransformerLens."""

from __future__ import annotations

from typing import Any

from hardmax.core import Construction
from hardmax.interop.lens._models import lens_model, lens_version
from hardmax.interop.lens._parts import lens_parts


def write_transformer_lens(construction: Construction, dtype: str | None = None) -> Any:
    """A model of TransformerLens: a HookedTransformer in 3.9, a TransformerBridge in 4.x."""
    parts = lens_parts(construction, dtype)
    lens_version()
    return lens_model(parts)
