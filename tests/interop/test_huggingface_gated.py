"""Gated units in stock Llama classes: products by silus, and folders that are proved."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import hardmax as hm
from hardmax.core import FeedForward, GatedFeedForward
from hardmax.interop import read_huggingface, write_huggingface
from hardmax.interop._standard_form import standard_form
from hardmax.interop.huggingface._tensors import from_bytes, to_bytes
from hardmax.numerics import format_named

UNIT = (-1.0, 1.0)
MODELS = {
    "x*y": {"x": UNIT, "y": UNIT},
    "x**3": {"x": UNIT},
    "max(x, y, z)*min(x, y)": {"x": UNIT, "y": UNIT, "z": UNIT},
    "exp(x*y) - x": {"x": UNIT, "y": (0.0, 1.0)},
}


@cache
def model(text: str) -> hm.Construction:
    return hm.compile(text, on=MODELS[text], error=1e-4, route="gated", float="float32")


@pytest.mark.parametrize("text", list(MODELS))
def test_folders_are_proved_and_stock_classes_compute_them(text: str, tmp_path: Path) -> None:
    import torch

    write_huggingface(model(text), tmp_path, "llama", dtype="float32")
    found = hm.certify_folder(tmp_path)
    assert found.verdict is hm.Verdict.PROVED
    assert found.claimed <= 1e-4
    read, domain = read_huggingface(tmp_path), model(text).claim.domain
    x = domain.sample(60, np.random.default_rng(1))
    with torch.no_grad():
        tokens = torch.tensor(read.embeddings(x), dtype=torch.float32)
        logits = read.load()(inputs_embeds=tokens).logits.double().numpy()
    wanted = np.array([model(text).claim.target(row) for row in x])
    answers = logits[:, read.stored.transformer.readout.token]
    assert np.abs(answers - wanted).max() <= found.formats["float32"]


def test_a_product_is_proved_to_the_rounding_of_float32(tmp_path: Path) -> None:
    """At 1e-6: two silus, the stock norm's roundings, and nothing else."""
    product = hm.compile("x*y", on=MODELS["x*y"], error=1e-6, route="gated")
    write_huggingface(product, tmp_path, dtype="float32")  # the home is found
    found = hm.certify_folder(tmp_path)
    assert found.verdict is hm.Verdict.PROVED
    assert found.method == "identity"
    assert found.formats["float32"] < 1e-6
    (layer,) = read_huggingface(tmp_path).stored.transformer.sublayers
    assert isinstance(layer, GatedFeedForward)
    assert (layer.activation, layer.products) == ("silu", ((0, 1),))


def test_plain_units_beside_products_are_steep(tmp_path: Path) -> None:
    """A layer of rectifiers alone stays one, whose silus are charged; products are gated."""
    write_huggingface(model("max(x, y, z)*min(x, y)"), tmp_path, "llama", dtype="float32")
    layers = read_huggingface(tmp_path).stored.transformer.sublayers
    kinds = [type(layer) for layer in layers]
    assert FeedForward in kinds
    assert GatedFeedForward in kinds


@pytest.mark.parametrize("home", ["t5", "gpt2"])
def test_other_homes_name_the_nearest(home: str, tmp_path: Path) -> None:
    with pytest.raises(hm.RequestError, match=r"gated hidden units.*nearest home.*llama"):
        write_huggingface(model("x*y"), tmp_path, home)


@pytest.mark.parametrize(
    ("part", "row", "column", "by"),
    [
        ("gate", 0, 0, 2.0**-9),
        ("up", 1, 1, 2.0**-9),
        ("down", -1, 0, 2.0**-9),
        ("gate", 1, -1, 1e-3),
    ],
)
def test_altered_gates_are_never_proved(
    part: str, row: int, column: int, by: float, tmp_path: Path
) -> None:
    """A pair that is broken is no product any more; what is left breaks the claim, and is told."""
    write_huggingface(model("x*y"), tmp_path, "llama", dtype="float32")
    path = tmp_path / "model.safetensors"
    tensors, dtype = from_bytes(path.read_bytes())
    name = f"model.layers.0.mlp.{part}_proj.weight"
    changed = tensors[name].copy()
    if row < 0:
        row = int(np.flatnonzero(changed.any(axis=1))[0])
    if column < 0:
        column = int(np.flatnonzero(changed.any(axis=0))[0])
    changed[row, column] += by
    path.write_bytes(to_bytes({**tensors, name: changed}, format_named(dtype)))
    found = hm.certify_folder(tmp_path)
    assert found.verdict is hm.Verdict.REFUTED
    assert found.measured > 2e-4


def test_an_outer_bias_becomes_one_times_one(tmp_path: Path) -> None:
    """Llama has no biases; a constant is a pair of units, exact for silus, too."""
    made = model("x*y")
    (layer,) = made.transformer.sublayers
    assert isinstance(layer, GatedFeedForward)
    parts = {**layer.parts(), "outer_bias": np.array([0.0, 0.0, 0.25])}
    shifted = hm.GatedFeedForward.of(parts, "relu")
    readout = hm.ReadOut(made.transformer.readout.weights, [-0.25])
    transformer = hm.Transformer(made.transformer.input, [shifted], readout)
    same = hm.Construction(transformer, made.claim, None, "by hand")
    write_huggingface(same, tmp_path, "llama", dtype="float32")
    found = hm.certify_folder(tmp_path)
    assert (found.verdict, found.method) == (hm.Verdict.PROVED, "identity")


def test_a_format_without_gates_refuses_them_in_its_standard_form() -> None:
    with pytest.raises(hm.SemanticsError, match="Sublayer 0 has gated hidden units"):
        standard_form(model("x*y").transformer)
    block = standard_form(model("x*y").transformer, gates=True).blocks[0].feed_forward
    assert block.gates is not None
    assert block.gates.multiplies.tolist() == [True, True]
