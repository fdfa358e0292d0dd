"""A Transformer as a plain PyTorch module."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hardmax._errors import MissingExtra, RequestError, SemanticsError
from hardmax.core import Attention, Construction, Hardmax, Transformer
from hardmax.numerics import FORMATS

if TYPE_CHECKING:
    import torch

    from hardmax.interop._torch_modules import TransformerModule


def write_torch(
    model: Construction | Transformer, dtype: str | torch.dtype | None = None
) -> TransformerModule:
    """An ordinary `torch.nn.Module` that computes what the Transformer means, up to rounding.

    A stack of `scaled_dot_product_attention` and linear layers, ready to run, to fine-tune and
    to save by its `state_dict`. A head's coldness b is part of its weights: the score
    b (q . k + bias) is (b q) . k + b bias, so query weights and position biases are multiplied
    by b once, here, and PyTorch's own scale is 1.

    `dtype` is "float64" (the default), "float32", "float16" or "bfloat16", or that dtype of torch;
    every weight is rounded to it to nearest, after the multiplication. A weight beyond its range
    is refused.

    A hardmax is refused: ties share their weight equally, and PyTorch has no attention that
    does.
    """
    transformer = model.transformer if isinstance(model, Construction) else model
    if not isinstance(transformer, Transformer):
        raise RequestError(
            f"write_torch takes a Construction or a Transformer, not a {type(model).__name__}."
        )
    _refuse_hardmax(transformer)
    try:
        import torch
    except ModuleNotFoundError:
        raise MissingExtra("torch", "torch") from None
    from hardmax.interop._torch_modules import TransformerModule

    named = "float64" if dtype is None else dtype
    kind = getattr(torch, named, None) if isinstance(named, str) else named
    if not isinstance(kind, torch.dtype) or kind not in [getattr(torch, n) for n in FORMATS]:
        known = ", ".join(f'"{name}"' for name in FORMATS)
        raise RequestError(
            f"dtype must be one of {known}, or a torch dtype of these: not {dtype!r}."
        )
    return TransformerModule(transformer, kind)


def _refuse_hardmax(transformer: Transformer) -> None:
    for number, sublayer in enumerate(transformer.sublayers):
        if not isinstance(sublayer, Attention):
            continue
        hard = [i for i, h in enumerate(sublayer.heads) if isinstance(h.weighting, Hardmax)]
        if hard:
            raise SemanticsError(
                f"Head {hard[0]} of sublayer {number} is a hardmax, and a hardmax with ties does "
                f"not run in PyTorch: soften the construction first, "
                f"hm.soften(construction, error=…)."
            )
