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
    """An ordinary `torch.nn.Module` that computes what the Transformer means, up to rounding.

    It runs on batches of any size and words of any length, has gradients, is tuned and saved by
    its `state_dict`. Of words, `encode` makes symbol numbers and `decode` makes answers. A head's
    coldness b is part of its weights: the score b (q . k + bias) is (b q) . k + b bias, so query
    weights and position biases are multiplied by b once, here, and PyTorch's own scale is 1.

    There are two forms. The **stack** is what a textbook would write: all tokens, a linear layer
    for every matrix, one `scaled_dot_product_attention` a layer; its attention patterns can be
    hooked and are named in `legend`. A model of words is always a stack, and so is what is written
    with `fold=False`.

    The **folded** form runs functions and networks in about the time of the network: there one
    token depends on the input, and the others, which it asks, are constants. It follows this token
    alone, and of its coordinates those that are read; what the others hold is computed here. Heads
    over two tokens are gates, heads over more a softmax over constant keys. What is 0 by structure
    is not stored, so tuning leaves it 0. It has no patterns. Where more than one token depends on
    the input, as in most maxout networks and in deep ReLU networks on the route "attention-only",
    there is nothing to fold, and the stack is returned.

    **Rounding.** A certificate bounds what a format does to the weights in any order of summation.
    Both forms are such evaluations, and within the bound by that: folding leaves out zeros, adds
    constants first, in the format itself, and multiplies two numbers beforehand only if one of
    them is a power of two. What is assumed of exp is assumed of PyTorch's sigmoid, too, and tested.
    This is about the dtype asked for here, not about one that `.to` changes to later.

    `dtype` is "float64" (the default), "float32", "float16" or "bfloat16", or that dtype of torch;
    every weight is rounded to it to nearest, after the multiplication. A weight beyond its range
    is refused. So is a hardmax: ties share their weight equally, and PyTorch has no attention that
    does.

    >>> import torch
    >>> model = hm.compile(hm.programs.reverse, alphabet="abcde", length=5)
    >>> module = hm.interop.write_torch(model, "float32")
    >>> ids = module.encode(["cab", "add"])
    >>> module.decode(module(ids))
    [['b', 'a', 'c'], ['d', 'd', 'a']]
    >>> {name: tuple(seen.shape) for name, seen in module.patterns(ids).items()}
    {'blocks.0.pattern': (2, 1, 3, 3), 'blocks.1.pattern': (2, 1, 3, 3)}
    """
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
