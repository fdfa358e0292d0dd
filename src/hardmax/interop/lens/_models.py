"""Models of TransformerLens from their parts: HookedTransformer in 3.9, TransformerBridge in 4.x.

Neither has a norm between the layers, so their numbers are the construction's, up to the rounding
of their own format. The bridge of 4.x stands on TransformerLens' own module (`boot_native`), which
divides every score by sqrt(d_head). So heads are widened with zeros to a power of 4, and queries
multiplied by that root, a power of two: both are exact.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

import numpy as np

from hardmax._errors import MissingExtra, RequestError
from hardmax.interop.lens._parts import LensParts, lens_config
from hardmax.interop.lens._words import LensWords

if TYPE_CHECKING:
    import torch
    from transformer_lens import HookedTransformer
    from transformer_lens.model_bridge import TransformerBridge
    from transformer_lens.model_bridge.generalized_components import GeneralizedComponent

FIRST, AFTER_LAST = (3, 9), (5, 0)  # versions of TransformerLens, as the extra says


def lens_version() -> tuple[int, ...]:
    """The installed version; what is missing or outside the range is named."""
    try:
        found = version("transformer-lens")
    except PackageNotFoundError:
        raise MissingExtra("transformer-lens", "lens") from None
    numbers = tuple(int(part) for part in found.split(".")[:2])
    if not FIRST <= numbers < AFTER_LAST:
        raise RequestError(
            f"transformer-lens {found} is installed, but versions from {FIRST[0]}.{FIRST[1]} to "
            f"below {AFTER_LAST[0]} are known. Try: pip install 'hardmax[lens]'"
        )
    return numbers


def lens_model(parts: LensParts) -> HookedTransformer | TransformerBridge:
    """The model of the installed version, with words, labels and circuit."""
    model = _native(parts) if lens_version() >= (4, 0) else _hooked(parts)
    words = LensWords(parts.construction, parts.labels, parts.ids, parts.legend, np.zeros(0))
    words = replace(words, circuit=parts.construction.circuit, step_hooks=parts.step_hooks)
    return with_words(model, words)


def with_words(
    model: HookedTransformer | TransformerBridge, words: LensWords
) -> HookedTransformer | TransformerBridge:
    """The model itself, given words and labels; of the legend, what it has hooks for."""
    known = {name: labels for name, labels in words.legend.items() if name in model.hook_dict}
    words = replace(words, legend=known)
    model.encode, model.decode, model.labelled = words.encode, words.decode, words.labelled
    model.legend, model.circuit, model.step_hooks = known, words.circuit, words.step_hooks
    return model.eval()


def _settings(parts: LensParts) -> dict[str, object]:
    """The config, with what a file has no word for."""
    import torch

    return {**lens_config(parts), "device": "cpu", "dtype": getattr(torch, parts.format.name)}


def _hooked(parts: LensParts) -> HookedTransformer:
    """A HookedTransformer; its buffers `mask` and `IGNORE` stay what they are."""
    from transformer_lens import HookedTransformer, HookedTransformerConfig

    settings = _settings(parts)
    with warnings.catch_warnings():
        # 3.9 says so of every HookedTransformer, and it is the class that was asked for.
        warnings.filterwarnings("ignore", "HookedTransformer is deprecated", DeprecationWarning)
        model = HookedTransformer(HookedTransformerConfig(**settings))
    buffers = {name: value for name, value in model.named_buffers() if name in model.state_dict()}
    model.load_state_dict({**buffers, **_tensors(parts)}, strict=True)
    return model


def _native(parts: LensParts) -> TransformerBridge:
    """A TransformerBridge on a native model, whose linear maps multiply from the left."""
    from transformer_lens.config import TransformerBridgeConfig
    from transformer_lens.model_bridge import TransformerBridge

    width = power_of_four(parts.sizes.d_head)
    settings = {**_settings(parts), "d_head": width, "use_attn_scale": True}
    kind = settings["dtype"]
    model = TransformerBridge.boot_native(
        TransformerBridgeConfig(**settings), device="cpu", dtype=kind, model_name="hardmax"
    )
    given = _tensors(parts)
    for i, block in enumerate(model.blocks):
        name, attention = f"blocks.{i}", block.attn
        for one, map_ in zip("QKV", (attention.q, attention.k, attention.v), strict=True):
            rows = _widened(given[f"{name}.attn.W_{one}"].transpose(1, 2), width)
            _put(map_, rows.flatten(0, 1) * (width**0.5 if one == "Q" else 1.0), None)
        rows = _widened(given[f"{name}.attn.W_O"], width)
        _put(attention.o, rows.flatten(0, 1).T, given[f"{name}.attn.b_O"])
        into, out = block.mlp.submodules["in"], block.mlp.submodules["out"]
        _put(into, given[f"{name}.mlp.W_in"].T, given[f"{name}.mlp.b_in"])
        _put(out, given[f"{name}.mlp.W_out"].T, given[f"{name}.mlp.b_out"])
    _put(model.embed, given["embed.W_E"], None)
    _put(model.pos_embed, given["pos_embed.W_pos"], None)
    _put(model.unembed, given["unembed.W_U"].T, given["unembed.b_U"])
    return model


def power_of_four(width: int) -> int:
    """The smallest one that is not less."""
    return int(4 ** -(-(width - 1).bit_length() // 2))


def _widened(heads: torch.Tensor, width: int) -> torch.Tensor:
    """Heads x d_head x stream with rows of zeros below."""
    import torch

    return torch.nn.functional.pad(heads, (0, 0, 0, width - heads.shape[1]))


def _put(component: GeneralizedComponent, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
    """Into the module behind a component of the bridge; a bias that is not given is zero."""
    import torch

    held = component.original_component
    with torch.no_grad():
        held.weight.copy_(weight)
        if bias is not None:
            held.bias.copy_(bias)
        elif getattr(held, "bias", None) is not None:
            held.bias.zero_()


def _tensors(parts: LensParts) -> dict[str, torch.Tensor]:
    import torch

    kind = getattr(torch, parts.format.name)
    return {name: torch.tensor(array, dtype=kind) for name, array in parts.tensors.items()}
