"""What TransformerLens is given, without it: weights, labels, folders, refusals.

The models themselves are run by `make test-lens`, in environments that have TransformerLens.
"""

from __future__ import annotations

import importlib.metadata
import json
import shutil
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import hardmax as hm
from hardmax import programs as p
from hardmax.core import embedded, evaluate
from hardmax.interop import export_lens_files, read_lens_files, write_transformer_lens
from hardmax.interop.huggingface._tensors import from_bytes, to_bytes
from hardmax.interop.lens._files import CONFIG, DESCRIPTION, LEGEND, WEIGHTS, read_lens_parts
from hardmax.interop.lens._models import power_of_four
from hardmax.interop.lens._parts import UNUSED, LensParts, lens_parts
from hardmax.numerics import FLOAT32

S = p.Sequence()
MIXED = p.sort_by_frequency


@cache
def model(name: str) -> hm.Construction:
    if name == "product":
        return hm.compile("x*y", on="[-1,1]^2", error=1e-3)
    return hm.compile(getattr(p, name), alphabet="abc", length=4)


# ---- the weights mean the construction -----------------------------------------------------------


def softmax(scores: np.ndarray) -> np.ndarray:
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)


def forward(parts: LensParts, stream: np.ndarray) -> np.ndarray:
    """What a HookedTransformer without norm and scale computes of its weights: logits."""
    for i in range(parts.sizes.n_layers):
        w = {
            name.removeprefix(f"blocks.{i}."): array
            for name, array in parts.tensors.items()
            if name.startswith(f"blocks.{i}.")
        }
        q, k, v = (
            np.einsum("btd,hdk->bhtk", stream, w[f"attn.W_{one}"]) + w[f"attn.b_{one}"][:, None]
            for one in "QKV"
        )
        scores = q @ k.swapaxes(-1, -2)
        if parts.causal:
            n = scores.shape[-1]
            scores = np.where(np.tri(n, dtype=bool), scores, -np.inf)
        stream = stream + np.einsum("bhtk,hkd->btd", softmax(scores) @ v, w["attn.W_O"])
        stream = stream + w["attn.b_O"]
        hidden = np.maximum(stream @ w["mlp.W_in"] + w["mlp.b_in"], 0.0)
        stream = stream + hidden @ w["mlp.W_out"] + w["mlp.b_out"]
    return stream @ parts.tensors["unembed.W_U"] + parts.tensors["unembed.b_U"]


@pytest.mark.parametrize("name", ["reverse", "sort", "histogram", "seen_before"])
def test_the_largest_logit_is_the_answer(name: str) -> None:
    """By NumPy from the weights as they are named there; the mask is that of all heads."""
    parts = lens_parts(model(name), None)
    assert parts.causal == (name == "seen_before")
    assert parts.labels is not None
    words = [list("abca"), list("ccba"), list("bbbb")]
    start = [] if parts.ids.start is None else [parts.ids.start]
    tokens = np.array([start + ["abc".index(symbol) for symbol in word] for word in words])
    places = parts.tensors["pos_embed.W_pos"][: tokens.shape[1]]
    logits = forward(parts, parts.tensors["embed.W_E"][tokens] + places)[:, len(start) :]
    codes = np.array(parts.labels.codes)[logits.argmax(axis=-1)]
    decode = model(name).claim.target.decode
    assert [decode(row[:, None]) for row in codes] == [model(name)(word) for word in words]
    y = np.array(evaluate(model(name).transformer, words))[..., 0]
    held = np.array(parts.labels.codes)
    np.testing.assert_allclose(logits, 2 * y[..., None] * held - held**2, atol=1e-9)  # |c| <= 4


def test_real_inputs_start_as_a_stream() -> None:
    parts = lens_parts(model("product"), None)
    source = parts.construction.transformer.input
    assert isinstance(source, hm.VectorInput)
    points = np.random.default_rng(0).uniform(-1, 1, (20, 2))
    stream = np.einsum("twi,bi->btw", source.maps, points) + source.offsets
    answers = forward(parts, stream)[:, parts.construction.transformer.readout.token]
    np.testing.assert_allclose(answers, evaluate(model("product").transformer, points), atol=1e-13)


def test_labels_are_by_the_names_of_hooks_and_parts_without_work_have_none() -> None:
    legend = lens_parts(model("reverse"), None).legend
    assert legend["blocks.1.attn.hook_pattern"] == (
        "answer = tokens at [there index == ((length - 1) - index)]",
    )
    said = model("reverse").legend
    assert said is not None
    named = legend["blocks.0.hook_resid_post"]
    assert named[: len(said.coordinates)] == said.coordinates
    assert set(named[len(said.coordinates) :]) <= {"the answer"}  # where its classes need a column
    steps = [step for layer in said.sublayers for step in layer]
    found = [
        label
        for hook, labels in legend.items()
        if hook.endswith(("hook_pattern", "hook_post"))
        for label in labels
        if label not in (UNUSED, "the answer")
    ]
    assert found == steps


def test_weights_are_numbers_of_the_format() -> None:
    tensors = lens_parts(model("sort"), "float32").tensors
    assert all(FLOAT32.holds(array).all() for array in tensors.values())
    assert not all(
        FLOAT32.holds(array).all() for array in lens_parts(model("product"), None).tensors.values()
    )


def test_the_next_power_of_four() -> None:
    """Of these the root is a power of two, by which queries are multiplied exactly."""
    assert [power_of_four(n) for n in (1, 2, 4, 5, 16, 17, 64)] == [1, 4, 4, 16, 16, 64, 64]


# ---- folders -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("name", ["reverse", "seen_before", "product"])
def test_round_trip(name: str, dtype: str, tmp_path: Path) -> None:
    written = export_lens_files(model(name), tmp_path / "new", dtype)
    assert (written.folder, written.dtype) == (tmp_path / "new", dtype)
    parts, read = lens_parts(model(name), dtype), read_lens_parts(tmp_path / "new")
    assert (read.sizes, read.causal, read.format) == (parts.sizes, parts.causal, parts.format)
    assert (read.legend, read.labels, read.ids) == (parts.legend, parts.labels, parts.ids)
    assert sorted(read.tensors) == sorted(parts.tensors)
    for tensor, array in parts.tensors.items():
        np.testing.assert_array_equal(read.tensors[tensor], array)


def test_weights_are_those_that_are_stored(tmp_path: Path) -> None:
    """Tuned ones come back; the description beside them is asked for none."""
    export_lens_files(model("reverse"), tmp_path)
    tensors, _ = from_bytes((tmp_path / WEIGHTS).read_bytes())
    tensors["unembed.b_U"] = tensors["unembed.b_U"] + 1.0
    (tmp_path / WEIGHTS).write_bytes(to_bytes(tensors, lens_parts(model("reverse"), None).format))
    np.testing.assert_array_equal(
        read_lens_parts(tmp_path).tensors["unembed.b_U"], tensors["unembed.b_U"]
    )


def test_equal_models_are_equal_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        export_lens_files(model("reverse"), tmp_path / name)
    for file in (tmp_path / "one").iterdir():
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes()


def test_files_say_what_they_are(tmp_path: Path) -> None:
    export_lens_files(model("sort"), tmp_path, "float32")
    config, legend = (json.loads((tmp_path / name).read_text()) for name in (CONFIG, LEGEND))
    assert config["dtype"] == "float32"
    assert config["normalization_type"] is None
    assert not config["use_attn_scale"]
    assert legend["tokens"] == ["a", "b", "c", "<pad>", "<s>"]
    assert len(legend["codes"]) == len(legend["answers"]) == config["d_vocab_out"]


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS, LEGEND, DESCRIPTION])
def test_a_file_that_is_missing_or_damaged_is_named(name: str, tmp_path: Path) -> None:
    export_lens_files(model("reverse"), tmp_path / "whole")
    for damage in (None, b"", b"{", b"[1]", (tmp_path / "whole" / name).read_bytes()[:-9]):
        shutil.rmtree(tmp_path / "one", ignore_errors=True)
        shutil.copytree(tmp_path / "whole", tmp_path / "one")
        (tmp_path / "one" / name).unlink()
        if damage is not None:
            (tmp_path / "one" / name).write_bytes(damage)
        with pytest.raises(hm.FileError, match="one"):
            read_lens_parts(tmp_path / "one")


@pytest.mark.parametrize(
    ("field", "value"), [("d_model", 7), ("attention_dir", "causal"), ("use_attn_scale", True)]
)
def test_a_config_of_another_model_is_refused(field: str, value: object, tmp_path: Path) -> None:
    export_lens_files(model("reverse"), tmp_path)
    config = json.loads((tmp_path / CONFIG).read_text()) | {field: value}
    (tmp_path / CONFIG).write_text(json.dumps(config))
    with pytest.raises(hm.FileError, match=r"config\.json that is not that of the construction"):
        read_lens_parts(tmp_path)


def test_weights_of_another_model_are_refused(tmp_path: Path) -> None:
    export_lens_files(model("reverse"), tmp_path)
    own = (tmp_path / WEIGHTS).read_bytes()
    tensors, _ = from_bytes(own)
    format = lens_parts(model("reverse"), None).format
    for changed, sentence in (
        (tensors | {"embed.W_E": tensors["embed.W_E"][:, :-1]}, r"embed\.W_E of shape"),
        (tensors | {"foreign": np.ones(1)}, "foreign ones: foreign"),
        ({k: v for k, v in tensors.items() if k != "unembed.b_U"}, r"lacks .* unembed\.b_U"),
    ):
        (tmp_path / WEIGHTS).write_bytes(to_bytes(changed, format))
        with pytest.raises(hm.FileError, match=sentence):
            read_lens_parts(tmp_path)


# ---- what is refused -----------------------------------------------------------------------------


def test_what_transformer_lens_lacks_is_refused_with_the_nearest_home(tmp_path: Path) -> None:
    mixed = hm.compile(MIXED, alphabet="abc", length=4)
    with pytest.raises(
        hm.RequestError, match=r"one mask .* but 1 of these 4 heads .* 't5'\) takes"
    ):
        export_lens_files(mixed, tmp_path / "one")
    biased = hm.compile(p.dyck(["()", "[]"]), alphabet="()[]", length=4)
    with pytest.raises(
        hm.RequestError, match=r"no position biases, but 1 of these 5 .* write_torch"
    ):
        export_lens_files(biased, tmp_path / "one")
    network = hm.ReluNetwork([np.ones((2, 2)), np.ones((1, 2))], [np.zeros(2), np.zeros(1)])
    hard = hm.compile(network, on="[-1,1]^2", error=None)
    with pytest.raises(hm.SemanticsError, match="soften the construction first"):
        export_lens_files(hard, tmp_path / "one")
    gated = hm.compile("x*y", on="[-1,1]^2", error=1e-3, route="gated")
    with pytest.raises(hm.RequestError, match=r"^TransformerLens does not fit: .* gated .* llama"):
        export_lens_files(gated, tmp_path / "one")
    with pytest.raises(hm.PrecisionError, match="in float64, float32, bfloat16, not in float16"):
        export_lens_files(model("reverse"), tmp_path / "one", "float16")
    with pytest.raises(hm.RequestError, match="takes a Construction, as hm"):
        export_lens_files(model("reverse").transformer, tmp_path / "one")  # type: ignore[arg-type]
    assert not (tmp_path / "one").exists()


def test_a_missing_extra_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr("hardmax.interop.lens._models.version", missing)
    export_lens_files(model("reverse"), tmp_path)
    for call in (
        lambda: write_transformer_lens(model("reverse")),
        lambda: read_lens_files(tmp_path),
        lambda: hm.interop.open_in_lens(tmp_path),
    ):
        with pytest.raises(hm.MissingExtra, match=r"transformer-lens is not .* 'hardmax\[lens\]'"):
            call()


def test_embedded_is_what_the_table_says() -> None:
    parts = lens_parts(model("reverse"), None)
    source = parts.construction.transformer.input
    table, places = parts.tensors["embed.W_E"], parts.tensors["pos_embed.W_pos"]
    tokens = np.array([[0, 1, 2, 0]])
    np.testing.assert_array_equal(table[tokens] + places[:4], embedded(source, tokens))
