"""Folders of stock classes in the bridge of TransformerLens 4: right words, labels, and numbers."""

from __future__ import annotations

import itertools
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

import hardmax as hm
from hardmax.core import evaluate

PROGRAMS = {
    "t5": ("reverse", "sort", "seen_before", "sort_by_frequency"),
    "gpt2": ("seen_before",),
    "llama": ("seen_before",),
}
CASES = [(home, name) for home, names in PROGRAMS.items() for name in names]


@cache
def model(name: str) -> hm.Construction:
    if name == "product":
        return hm.compile("x*y", on="[-1,1]^2", error=1e-2, float="float32")
    if name == "wave":
        return hm.compile("sin(3*x)*y+x**2", on="[-1,1]^2", error=1e-3)
    return hm.compile(getattr(hm.programs, name), alphabet="abc", length=4)


def opened(name: str, home: str, dtype: str, folder: Path) -> object:
    hm.interop.write_huggingface(model(name), folder, home, dtype=dtype)
    return hm.interop.open_in_lens(folder)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("home", "name"), CASES)
def test_every_word_is_answered_rightly(home: str, name: str, dtype: str, tmp_path: Path) -> None:
    bridge = opened(name, home, dtype, tmp_path)
    assert next(bridge.parameters()).dtype == getattr(torch, dtype)
    for n in range(1, 5):
        words = [list(word) for word in itertools.product("abc", repeat=n)]
        with torch.no_grad():
            answers = bridge.decode(bridge(bridge.encode(words)))
        assert answers == [model(name)(word) for word in words]


@pytest.mark.parametrize("home", ["t5", "gpt2", "llama"])
def test_functions_are_called_by_their_embeddings(home: str, tmp_path: Path) -> None:
    bridge = opened("product", home, "float32", tmp_path)
    points = model("product").claim.domain.sample(50, np.random.default_rng(0))
    with torch.no_grad():
        answers = bridge.decode(bridge(bridge.encode(points)))
    certificate = hm.certify_folder(tmp_path)
    assert certificate.verdict is hm.Verdict.PROVED
    rounded = points.astype(np.float32).astype(float)
    off = np.abs(answers[:, 0] - rounded.prod(axis=1)).max()
    assert off <= certificate.formats["float32"]


@pytest.mark.parametrize(("home", "name"), CASES)
def test_heads_and_units_have_their_labels(home: str, name: str, tmp_path: Path) -> None:
    """Every step of the construction is the label of some head or unit, and has numbers."""
    bridge = opened(name, home, "float64", tmp_path)
    _, seen = bridge.run_with_cache(bridge.encode("abca"))
    labelled = bridge.labelled(seen)
    values = ("hook_z", "hook_post")
    named = {
        label.rsplit(" (", 1)[0] if label.endswith(")") and label[-2].isdigit() else label
        for hook, parts in labelled.items()
        if hook.endswith(values)
        for label in parts
    }
    legend = model(name).legend
    assert legend is not None
    for steps in legend.sublayers:
        for step in steps:
            assert any(step.startswith(one) or one.startswith(step) for one in named)


def test_what_the_bridge_calls_patterns_of_t5_has_no_labels(tmp_path: Path) -> None:
    bridge = opened("seen_before", "t5", "float64", tmp_path)
    assert not [name for name in bridge.legend if "pattern" in name or "scores" in name]
    assert "blocks.0.attn.hook_z" in bridge.legend


@pytest.mark.parametrize(("home", "name"), CASES)
def test_labels_stand_where_heads_work(home: str, name: str, tmp_path: Path) -> None:
    """A head without a label writes nothing, whatever the word; one with a label, for some word."""
    bridge = opened(name, home, "float64", tmp_path)
    words = [list(word) for word in itertools.product("abc", repeat=4)]
    _, seen = bridge.run_with_cache(bridge.encode(words))
    for i in range(bridge.cfg.n_layers):
        hook = f"blocks.{i}.attn.hook_z"
        writes = seen[hook].flatten(0, 1).any(dim=0).any(dim=-1).tolist()
        assert writes == [label != "unused" for label in bridge.legend[hook]]


# ---- why a float64 model may err by 1e-4 ---------------------------------------------------------


def deviation(bridge: object, folder: Path, name: str) -> float:
    """From what the folder's own weights mean, without norms and rotary positions."""
    transformer = hm.interop.read_huggingface(folder).stored.transformer
    points = model(name).claim.domain.sample(200, np.random.default_rng(0))
    with torch.no_grad():
        answers = bridge.decode(bridge(bridge.encode(points)))
    return float(np.abs(answers - evaluate(transformer, points)).max())


def test_the_bridge_takes_softmax_in_float32_for_rotary_classes_alone(tmp_path: Path) -> None:
    """A pattern of numbers of float32 in a float64 model, and what that does to answers."""
    single, off = {}, {}
    for home in ("t5", "gpt2", "llama"):
        bridge = opened("wave", home, "float64", tmp_path / home)
        points = model("wave").claim.domain.sample(20, np.random.default_rng(0))
        _, seen = bridge.run_with_cache(bridge.encode(points))
        patterns = [seen[hook] for hook in seen if hook.endswith("hook_pattern")]
        if home != "t5":  # of which there are none
            single[home] = all(
                torch.equal(pattern, pattern.float().double()) for pattern in patterns
            )
            assert patterns
        off[home] = deviation(bridge, tmp_path / home, "wave")
    assert single == {"gpt2": False, "llama": True}
    assert max(off["t5"], off["gpt2"]) < 1e-12 < 1e-6 < off["llama"]


def test_softmax_in_float64_brings_llama_back_to_its_norm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cause, taken away: what remains are the norm's float32 and rotary positions."""
    before = deviation(opened("wave", "llama", "float64", tmp_path), tmp_path, "wave")
    own = torch.nn.functional.softmax
    monkeypatch.setattr(
        torch.nn.functional, "softmax", lambda scores, dim, dtype=None: own(scores, dim=dim)
    )
    after = deviation(hm.interop.open_in_lens(tmp_path), tmp_path, "wave")
    assert after < before / 5


@pytest.mark.parametrize("name", ["reverse", "sort_by_frequency", "histogram"])
def test_the_bridge_holds_the_steps_where_the_circuit_says(name: str, tmp_path: Path) -> None:
    """Of T5, whose positions are made by a layer in front, so that layers are other ones."""
    made = hm.compile(getattr(hm.programs, name), alphabet="abc", length=4, route="legible")
    hm.interop.write_huggingface(made, tmp_path, "t5")
    bridge = hm.interop.open_in_lens(tmp_path)
    words = [list(word) for word in itertools.product("abc", repeat=4)][::5]
    _, seen = bridge.run_with_cache(bridge.encode(words))
    steps = made.claim.target.steps()
    known = [steps.values(made.transformer.input.indices(word)) for word in words]
    block_of = {(b.name, b.first): b for b in bridge.circuit.blocks}
    count = 0
    for hook, held in bridge.step_hooks.items():
        stream = seen[hook].double().numpy()[:, 1:]
        for one in held:
            first, stop = one["coordinates"]
            block = block_of[one["step"], first]
            if block.form != "share" and block.step >= 0:
                codes = [[block.code(v) for v in values[block.step]] for values in known]
                assert np.abs(stream[..., first:stop] - np.array(codes)).max() < 1e-6
                count += 1
    assert count >= (2 if name == "histogram" else 3)  # which holds tokens and answers alone
