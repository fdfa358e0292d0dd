"""A Transformer as a plain PyTorch module."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hardmax._errors import MissingExtra, RequestError
from hardmax.core import Construction, Transformer
from hardmax.interop._standard_form import refuse_hard_heads
from hardmax.numerics import FORMATS

if TYPE_CHECKING:
    import torch

    from hardmax.interop._torch_transformer import TransformerModule


def write_torch(
    model: Construction | Transformer,
    dtype: str | torch.dtype | None = None,
    *,
    fold: bool = True,
) -> TransformerModule:
    transformer = model.transformer if isinstance(model, Construction) else model
    if not isinstance(transformer, Transformer):
        raise RequestError(
            f"write_torch takes a Construction or a Transformer, not a {type(model).__name__}."
        )
    refuse_hard_heads(transformer)
    try:
        import torch
    except ModuleNotFoundError:
        raise MissingExtra("torch", "torch") from None
    from hardmax.interop._torch_folding import folded
    from hardmax.interop._torch_transformer import TransformerModule, stacked

    named = "float64" if dtype is None else dtype
    kind = getattr(torch, named, None) if isinstance(named, str) else named
    if not isinstance(kind, torch.dtype) or kind not in [getattr(torch, n) for n in FORMATS]:
        known = ", ".join(f'"{name}"' for name in FORMATS)
        raise RequestError(
            f"dtype must be one of {known}, or a torch dtype of these: not {dtype!r}."
        )
    parts = folded(transformer, kind) if fold else None
    return TransformerModule(parts or stacked(transformer, kind), model)
