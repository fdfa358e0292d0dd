"""Models of TransformerLens, of either version: right words, the waist's numbers, live hooks."""

from __future__ import annotations

import importlib.metadata
import itertools
import json
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

import hardmax as hm
from hardmax.analysis import rounding_bound
from hardmax.core import ReadOut, Transformer, embedded, evaluate, reference, streams

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples"))  # which is not installed

import gallery

FREE = [name for name, entry in gallery.GALLERY.items() if gallery.is_free(entry)]
MIXED = ("sort_by_key", "sort_by_frequency")
CLASS = {"3": "HookedTransformer", "4": "TransformerBridge"}
DTYPES = ("float64", "float32")


@cache
def program(name: str) -> hm.Construction:
    """A program of the gallery, over three symbols and words of up to four."""
    entry = gallery.GALLERY[name]
    source, words = entry(3, 4) if gallery.is_free(entry) else entry()
    return hm.compile(source, alphabet=words.alphabet, length=min(words.longest, 4))


@cache
def function(name: str) -> hm.Construction:
    if name == "product":
        return hm.compile("x*y", on="[-1,1]^2", error=1e-3)
    rng = np.random.default_rng(4)
    weights = [rng.normal(size=shape) for shape in ((7, 2), (5, 7), (2, 5))]
    network = hm.ReluNetwork(weights, [rng.normal(size=len(w)) for w in weights])
    return hm.compile(network, on="[-1,1]^2", error=1e-3, route=name)


def words_of(model: hm.Construction) -> list[list[list[object]]]:
    """All words but the empty one, by their lengths."""
    source = model.transformer.input
    return [
        [list(word) for word in itertools.product(source.alphabet, repeat=n)]
        for n in range(1, source.longest + 1)
    ]


def with_readout(
    construction: hm.Construction, weights: np.ndarray, bias: np.ndarray
) -> Transformer:
    transformer = construction.transformer
    readout = ReadOut(weights, bias, transformer.readout.token)
    return Transformer(transformer.input, transformer.sublayers, readout)


def classes(construction: hm.Construction) -> tuple[np.ndarray, np.ndarray]:
    """The rows 2 c w and the biases 2 c b - c^2 of the answers' codes c."""
    target, readout = construction.claim.target, construction.transformer.readout
    code = target.codes[target.program.outputs[0]]
    codes = np.array([float(code.number(item)) for item in code.items])
    return 2 * codes[:, None] * readout.weights, 2 * codes * readout.bias - codes**2


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [name for name in FREE if name not in MIXED])
def test_every_word_is_answered_rightly(name: str, dtype: str) -> None:
    construction = program(name)
    model = hm.interop.write_transformer_lens(construction, dtype)
    assert type(model).__name__ == CLASS[importlib.metadata.version("transformer-lens")[0]]
    assert next(model.parameters()).dtype == getattr(torch, dtype)
    for words in words_of(construction):
        with torch.no_grad():
            answers = model.decode(model(model.encode(words)))
        assert answers == [construction(word) for word in words]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["reverse", "shift", "ternary_map", "detect", "if_else"])
def test_logits_are_the_construction_s_within_the_rounding_bound(name: str, dtype: str) -> None:
    """The logits are a read-out 2 c w, 2 c b - c^2 of the same stream, to which the bound applies.

    Of these programs the bound is small enough to see a wrong weight.
    """
    construction = program(name)
    model = hm.interop.write_transformer_lens(construction, dtype)
    answering = with_readout(construction, *classes(construction))
    bound = rounding_bound(answering, None, dtype) + rounding_bound(answering, None)
    words = words_of(construction)[-1]
    tokens = model.encode(words)
    with torch.no_grad():
        logits = model(tokens).double().numpy()[:, tokens.shape[1] - len(words[0]) :]
    apart = np.abs(logits - np.array(evaluate(answering, words)))
    assert (apart <= bound).all()
    assert (bound <= 1e-2).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["product", "attention", "attention-only"])
def test_functions_start_at_layer_0_and_keep_the_rounding_bound(name: str, dtype: str) -> None:
    construction = function(name)
    model = hm.interop.write_transformer_lens(construction, dtype)
    transformer, domain = construction.transformer, construction.claim.domain
    points = domain.sample(40, np.random.default_rng(1)).astype(dtype)
    with torch.no_grad():
        answers = model.decode(model(model.encode(points), start_at_layer=0))
    bound = rounding_bound(transformer, domain, dtype) + rounding_bound(transformer, domain)
    meant = np.array([reference(transformer, point.astype(float)) for point in points])
    assert (np.abs(answers - meant) <= bound).all()
    assert (bound <= 1e-2 * np.abs(meant).max()).all()


def test_gradients_reach_real_inputs() -> None:
    """The same products and sums as in PyTorch, in which gradients are taken in the same way."""
    model = hm.interop.write_transformer_lens(function("product"))
    module = hm.interop.write_torch(function("product"), fold=False)
    one, other = (torch.tensor([[0.3, -0.7]], dtype=torch.float64).requires_grad_() for _ in "ab")
    token = function("product").transformer.readout.token
    model(model.encode(one), start_at_layer=0)[:, token].sum().backward()
    module(other).sum().backward()
    torch.testing.assert_close(one.grad, other.grad)
    assert one.grad is not None
    assert one.grad.abs().min() > 0.1


def test_what_encode_and_decode_take() -> None:
    model = hm.interop.write_transformer_lens(program("reverse"))
    logits = model(model.encode("abca"))
    assert model.decode(logits) == [["a", "c", "b", "a"]]
    assert model.decode(logits[0]) == ["a", "c", "b", "a"]
    with pytest.raises(hm.HardmaxError, match="need one length, but they have 1 to 2 symbols"):
        model.encode(["a", "ab"])
    with pytest.raises(hm.HardmaxError, match="'x' at place 1 is not in the alphabet"):
        model.encode("ax")
    with pytest.raises(hm.HardmaxError, match="these have 1 axes"):
        model.decode(logits[0, 0])
    with pytest.raises(hm.HardmaxError, match="rows of 2 numbers, but their shape is"):
        hm.interop.write_transformer_lens(function("product")).encode([1.0, 2.0, 3.0])


# ---- hooks ---------------------------------------------------------------------------------------


def test_the_stream_holds_what_the_legend_says() -> None:
    """Before all layers and behind them, coordinate by coordinate, the numbers are the waist's."""
    construction = program("reverse")
    model = hm.interop.write_transformer_lens(construction)
    words = words_of(construction)[-1]
    _, seen = model.run_with_cache(model.encode(words))
    source = construction.transformer.input
    first, *_, last = streams(
        construction.transformer,
        embedded(source, np.array([source.indices(word) for word in words])),
    )
    width = construction.transformer.width
    everything = with_readout(construction, np.eye(width), np.zeros(width))
    bound = 2 * rounding_bound(everything, None)
    labelled = model.labelled(seen)
    assert construction.legend is not None
    names = construction.legend.coordinates
    for place, name in enumerate(names):
        number = names[:place].count(name) + 1
        shown = name if number == 1 else f"{name} ({number})"
        before = labelled["blocks.0.hook_resid_pre"][shown].numpy()
        np.testing.assert_array_equal(before, first[..., place])
        after = labelled[f"blocks.{model.cfg.n_layers - 1}.hook_resid_post"][shown].numpy()
        assert (np.abs(after - last[..., place]) <= bound[place]).all()
    assert bound.max() < 1e-9


def test_heads_look_where_their_labels_say() -> None:
    model = hm.interop.write_transformer_lens(program("reverse"))
    _, seen = model.run_with_cache(model.encode("abca"))
    found = {
        label: pattern[0]
        for name, parts in model.labelled(seen).items()
        if name.endswith("hook_pattern")
        for label, pattern in parts.items()
    }
    mirrored = found["answer = tokens at [there index == ((length - 1) - index)]"]
    assert mirrored.argmax(dim=-1).tolist() == [3, 2, 1, 0]


def test_every_label_is_of_a_hook_and_every_width_fits() -> None:
    for name in ("reverse", "machine", "substitution"):
        model = hm.interop.write_transformer_lens(program(name))
        assert set(model.legend) <= set(model.hook_dict)
        assert {"blocks.0.attn.hook_pattern", "blocks.0.mlp.hook_post"} <= set(model.legend)
        _, seen = model.run_with_cache(
            model.encode([list(program(name).claim.domain.alphabet)[:1]])
        )
        for hook, labels in model.legend.items():
            if hook in seen:
                axis = -3 if "pattern" in hook or "scores" in hook else -2
                axis = axis if ".attn." in hook else -1
                assert seen[hook].shape[axis] == len(labels)


def test_switching_a_head_off_changes_answers() -> None:
    """The hooks are in the way of what is computed, and not copies of it."""
    model = hm.interop.write_transformer_lens(program("reverse"))
    tokens = model.encode("abca")

    def first(pattern: torch.Tensor, hook: object) -> torch.Tensor:
        return torch.nn.functional.one_hot(torch.zeros_like(pattern[..., 0]).long(), 4).to(pattern)

    last = max(name for name in model.hook_dict if name.endswith("attn.hook_pattern"))
    patched = model.run_with_hooks(tokens, fwd_hooks=[(last, first)])
    assert model.decode(patched) == [["a"] * 4]
    assert model.decode(model(tokens)) == [["a", "c", "b", "a"]]


# ---- folders, and what is refused ----------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*DTYPES, "bfloat16"])
def test_a_folder_gives_the_same_model(dtype: str, tmp_path: Path) -> None:
    written = hm.interop.export_lens_files(program("reverse"), tmp_path, dtype)
    assert written.dtype == dtype
    one, other = (
        hm.interop.read_lens_files(tmp_path),
        hm.interop.write_transformer_lens(program("reverse"), dtype),
    )
    tokens = other.encode([list("abca"), list("ccba")])
    with torch.no_grad():
        assert torch.equal(one(tokens), other(tokens))
    assert one.legend == other.legend
    assert one.decode(one(tokens)) == [list("acba"), list("abcc")]


@pytest.mark.parametrize("name", MIXED)
def test_mixed_masks_are_refused_with_the_nearest_home(name: str) -> None:
    with pytest.raises(hm.RequestError, match=r"one mask for all heads, but 1 of these .* 't5'"):
        hm.interop.write_transformer_lens(program(name))


@pytest.mark.parametrize(("found", "fits"), [("3.8.1", False), ("3.9.0", True), ("5.0.0", False)])
def test_versions_outside_the_range_are_named(
    found: str, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hardmax.interop.lens._models import lens_version

    monkeypatch.setattr("hardmax.interop.lens._models.version", lambda _: found)
    if fits:
        assert lens_version() == (3, 9)
        return
    with pytest.raises(hm.RequestError, match=rf"transformer-lens {found} is installed, but .*pip"):
        hm.interop.write_transformer_lens(program("reverse"))


# ---- circuits ------------------------------------------------------------------------------------


@cache
def legible(name: str) -> hm.Construction:
    entry = hm.programs.GALLERY[name]
    source, words = entry(3, 4)
    return hm.compile(source, on=words, route="legible")


@pytest.mark.parametrize("name", ["reverse", "sort_by_frequency", "histogram"])
def test_hooks_hold_the_steps_where_the_circuit_says(name: str) -> None:
    """The block's coordinates, at the hook that is named, are the code of what the step is."""
    construction = legible(name)
    model = hm.interop.write_transformer_lens(construction)
    words = words_of(construction)[-1]
    _, seen = model.run_with_cache(model.encode(words))
    steps = construction.claim.target.steps()
    known = [steps.values(construction.transformer.input.indices(word)) for word in words]
    block_of = {(b.name, b.first): b for b in model.circuit.blocks}
    assert model.step_hooks
    for hook, held in model.step_hooks.items():
        stream = seen[hook].double().numpy()[:, 1:]
        for one in held:
            first, stop = one["coordinates"]
            block = block_of[one["step"], first]
            if block.form != "share":
                codes = [[block.code(v) for v in values[block.step]] for values in known]
                assert np.abs(stream[..., first:stop] - np.array(codes)).max() < 1e-9


def test_a_hook_on_a_block_is_an_intervention() -> None:
    program = hm.programs.parse_program("back = length - 1 - index; tokens.at(back)")
    construction = hm.compile(program, alphabet="abc", length=4, route="legible")
    model = hm.interop.write_transformer_lens(construction)
    block = model.circuit.blocks_of("back")[0]
    (hook,) = (h for h, held in model.step_hooks.items() if any(o["step"] == "back" for o in held))

    def overwrite(stream: torch.Tensor, hook: object) -> torch.Tensor:
        stream[:, 2, block.first : block.stop] = torch.tensor(block.code(3)).to(stream)
        return stream

    said = model.run_with_hooks(model.encode("abca"), fwd_hooks=[(hook, overwrite)])
    assert model.decode(said) == [program("abca", where={"back": {1: 3}})]
    assert program("abca", where={"back": {1: 3}}) != program("abca")


def test_a_suite_s_folder_opens(tmp_path: Path) -> None:
    hm.write_suite(tmp_path / "suite", programs=["reverse"], symbols=3, length=4)
    model = hm.interop.read_lens_files(tmp_path / "suite" / "reverse" / "lens")
    assert model.circuit is not None
    for line in (tmp_path / "suite" / "reverse" / "words.jsonl").read_text().splitlines():
        said = json.loads(line)
        if said["word"]:
            assert model.decode(model(model.encode(said["word"]))) == [said["answer"]]
