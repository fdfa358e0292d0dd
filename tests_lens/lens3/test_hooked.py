"""What is true of TransformerLens 3.9 alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformer_lens import HookedTransformer

import hardmax as hm


def test_a_hooked_transformer_without_norm_scale_or_drawn_weights() -> None:
    before = torch.get_rng_state()
    construction = hm.compile(hm.programs.seen_before, alphabet="abc", length=3)
    model = hm.interop.write_transformer_lens(construction)
    assert torch.equal(before, torch.get_rng_state())
    assert isinstance(model, HookedTransformer)
    cfg = model.cfg
    assert (cfg.normalization_type, cfg.use_attn_scale, cfg.attention_dir) == (
        None,
        False,
        "causal",
    )
    assert not cfg.default_prepend_bos
    assert not model.training
    assert {"blocks.0.attn.mask", "blocks.0.attn.IGNORE"} <= set(model.state_dict())


def test_folders_need_the_bridge_of_4(tmp_path: Path) -> None:
    construction = hm.compile(hm.programs.reverse, alphabet="abc", length=3)
    hm.interop.write_huggingface(construction, tmp_path)
    with pytest.raises(hm.RequestError, match=r"bridge of TransformerLens 4, but version 3\.9"):
        hm.interop.open_in_lens(tmp_path)
