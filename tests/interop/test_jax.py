"""JAX: a tree and a pure function, within the rounding bound; and folders that run alone."""

from __future__ import annotations

import doctest
import importlib.util
import inspect
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import numpy as np
import pytest
import torch

import hardmax as hm
from hardmax.checker.rounding import float_bounds
from hardmax.core import (
    Attention,
    Construction,
    Hardmax,
    Softmax,
    Transformer,
    evaluate,
    fingerprint,
)
from hardmax.interop import to_jax, write_standalone
from hardmax.interop._runnable import transformer_of

sys.path.append(str(Path(__file__).parent))
from test_onnx import CASES, bound, gated, mixed


@pytest.fixture(autouse=True)
def x64() -> Iterator[None]:
    """Each test leaves JAX as it found it."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def inputs(model: Construction, batch: int, length: int) -> np.ndarray:
    """A batch for the model, whose numbers float32 holds, too."""
    rng = np.random.default_rng(batch)
    if isinstance(model.transformer.input, hm.VectorInput):
        return rng.uniform(-0.1, 0.3, size=(batch, 2)).astype(np.float32)
    return rng.integers(0, 3, size=(batch, length))


def meant(model: Construction, given: np.ndarray) -> np.ndarray:
    """What the evaluator says of a batch."""
    source = model.transformer.input
    if isinstance(source, hm.VectorInput):
        return np.asarray(evaluate(model.transformer, given.astype(np.float64)))
    words = [[source.alphabet[i] for i in row] for row in given]
    return np.array(evaluate(model.transformer, words))


@pytest.mark.parametrize(
    ("kind", "token", "dtype"),
    [("reals", -1, "float64"), ("start", None, "float32")],
)
def test_every_mask_within_the_rounding_bound(kind: str, token: int | None, dtype: str) -> None:
    """The bound is that of the checker, from the weights, at every length."""
    model = mixed(kind, token, warm=True)
    params, apply = to_jax(model, dtype)
    given = inputs(model, 3, 3)
    found = np.asarray(jax.jit(apply)(params, given))
    assert found.dtype == dtype
    assert (np.abs(found - meant(model, given)) <= bound(model, dtype)).all()


@pytest.mark.parametrize("framework", ["apply", "torch", "jax"])
def test_gated_layers(framework: str, tmp_path: Path) -> None:
    for activation in ("relu", "silu"):
        model, folder = gated(activation), tmp_path / activation
        given = inputs(model, 3, 2)
        if framework == "apply":
            params, apply = to_jax(model, "float32")
            found = np.asarray(jax.jit(apply)(params, given))
        else:
            write_standalone(model, folder, framework, dtype="float32")
            found = run(folder, framework, given)
        assert (np.abs(found - meant(model, given)) <= bound(model, "float32")).all()


PRODUCT = hm.compile("x*y", on="[-1,1]^2", error=1e-2)


def test_batches_lengths_and_single_inputs() -> None:
    model = hm.compile(hm.programs.reverse, alphabet="abc", length=3)
    params, apply = to_jax(model, "float32")
    compiled, most = jax.jit(apply), bound(model, "float32")
    for shape in [(1, 1), (2, 3)]:
        given = np.random.default_rng(0).integers(0, 3, size=shape)
        assert (np.abs(compiled(params, given) - meant(model, given)) <= most).all()
    one = compiled(params, given[0])
    assert (np.abs(one - meant(model, given)[0]) <= most).all()


def test_jit_vmap_and_grad() -> None:
    """Under a transformation it is the same function, up to the bound; gradients of the weights
    have their shapes, and that of the input is the quotient of differences. Such a quotient is off
    by a third of what it moves when the step is doubled, up to higher orders and rounding.
    """
    params, apply = to_jax(PRODUCT)
    x = np.array([[0.5, -0.5], [1.0, 0.25]])
    most = bound(PRODUCT, "float64")
    mapped = jax.jit(jax.vmap(apply, in_axes=(None, 0)))(params, x)
    assert (np.abs(mapped - meant(PRODUCT, x)) <= most).all()
    slopes = jax.jit(jax.grad(lambda weights: apply(weights, x).sum()))(params)
    assert jax.tree.structure(slopes) == jax.tree.structure(params)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slopes))
    along, quotients = np.array([1.0, -1.0]), []
    slope = jax.jit(jax.grad(lambda point: apply(params, point)[0]))(x[0]) @ along
    for step in (2.0**-8, 2.0**-9):
        ahead, behind = meant(PRODUCT, np.array([x[0] + step * along, x[0] - step * along]))
        quotients.append((ahead - behind)[0] / (2 * step))
    twice, once = quotients
    assert abs(once - slope) <= abs(twice - once) + float(most.max()) / step
    assert abs(twice - once) < 1e-4 * abs(slope)


def test_gradients_pass_masks() -> None:
    """-inf under a causal mask makes no nan, in weights of the layers and of the embedding."""
    params, apply = to_jax(mixed("start", None, warm=True))
    given = np.array([[0, 1, 2]])
    slopes = jax.jit(jax.grad(lambda weights: apply(weights, given).sum()))(params)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slopes))
    assert any(np.asarray(leaf).any() for leaf in jax.tree.leaves(slopes["input"]))


def test_short_formats_are_there() -> None:
    """bfloat16 here; float16 goes through the benchmark of doors."""
    x, dtype = np.array([[0.5, -0.5]]), "bfloat16"
    params, apply = to_jax(PRODUCT, dtype)
    found = jax.jit(apply)(params, x)
    most = float_bounds(PRODUCT.transformer, PRODUCT.claim.domain, (dtype,))[dtype]
    off = np.abs(np.asarray(found, dtype=np.float64) - meant(PRODUCT, x))
    assert found.dtype == dtype
    assert (off <= most + bound(PRODUCT, "float64")).all()


def test_signed_zeros_and_weights_are_those_of_the_model() -> None:
    model = mixed("words").transformer
    params, _ = to_jax(model)
    assert isinstance(model.input, hm.SequenceInput)
    found = np.asarray(params["input"]["embedding"])
    assert found.tobytes() == model.input.embedding.tobytes()
    assert (np.signbit(found) & (found == 0.0)).any()


def test_foreign_symbols_are_nan_and_wrong_shapes_are_refused() -> None:
    params, apply = to_jax(mixed("words", None, warm=True))
    found = np.asarray(jax.jit(apply)(params, np.array([[0], [-1], [3]])))
    assert np.isnan(found).all(axis=(1, 2)).tolist() == [False, True, True]
    with pytest.raises(hm.ShapeError, match=r"length at most 4, but they have \(1, 5\)"):
        apply(params, np.zeros((1, 5), dtype=int))
    params, apply = to_jax(mixed("reals"))
    with pytest.raises(hm.ShapeError, match=r"needs shape \(2,\) or \(batch, 2\)"):
        apply(params, np.zeros(3))


def test_what_cannot_be_made_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = mixed("reals").transformer
    with pytest.raises(hm.RequestError, match="to_jax takes a Construction or a Transformer"):
        to_jax("x")  # type: ignore[arg-type]
    with pytest.raises(hm.RequestError, match="no float format 'half'"):
        to_jax(model, "half")

    def with_head(head: hm.Head) -> Transformer:
        return Transformer(model.input, [Attention([head])], model.readout)

    with pytest.raises(hm.SemanticsError, match=r"hm\.soften\(construction"):
        to_jax(with_head(replace(model.heads[0], weighting=Hardmax())))
    with pytest.raises(hm.PrecisionError, match="but float32 ends at"):
        to_jax(with_head(replace(model.heads[0], weighting=Softmax(1e300))), "float32")
    monkeypatch.setattr("hardmax.interop._guests.version", lambda _: "0.3.1")
    with pytest.raises(hm.RequestError, match=r"jax 0\.3\.1 is installed, but models are"):
        to_jax(model)


def test_float64_is_not_silently_float32() -> None:
    jax.config.update("jax_enable_x64", False)
    with pytest.raises(hm.RequestError, match=r"jax\.config\.update\(.jax_enable_x64., True\)"):
        to_jax(mixed("reals"), "float64")
    params, apply = to_jax(PRODUCT)
    assert {leaf.dtype.name for leaf in jax.tree.leaves(params)} == {"float32"}
    assert jax.eval_shape(apply, params, np.zeros(2)).dtype == np.float32


@pytest.mark.parametrize(
    "name", ["write_onnx", "read_onnx", "to_jax", "write_standalone", "StandaloneFolder"]
)
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = inspect.getdoc(getattr(hm.interop, name)) or ""
    test = doctest.DocTestParser().get_doctest(text, {"hm": hm, "np": np}, name, None, 0)
    assert test.examples
    assert doctest.DocTestRunner().run(test).failed == 0


# ---- folders that run by themselves --------------------------------------------------------------


def opened(folder: Path) -> ModuleType:
    """The file of Python in a folder of our own making."""
    spec = importlib.util.spec_from_file_location("model", folder / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(folder: Path, framework: str, given: Any) -> np.ndarray:
    module = opened(folder)
    if framework == "torch":
        with torch.no_grad():
            return module.Model.load(folder)(torch.as_tensor(given)).numpy()
    params, apply, _ = module.load(folder)
    return np.asarray(jax.jit(apply)(params, given))


@pytest.mark.parametrize(
    ("framework", "kind", "token"),
    [("torch", *CASES[0]), ("torch", *CASES[-1]), ("jax", *CASES[0])],  # words: see above
)
def test_folders_run_every_mask(
    framework: str, kind: str, token: int | None, tmp_path: Path
) -> None:
    model, dtype = mixed(kind, token, warm=True), "float32" if kind == "reals" else "float64"
    write_standalone(model, tmp_path, framework, dtype=dtype)
    given = inputs(model, 3, 3)
    found = run(tmp_path, framework, given)
    assert found.dtype == dtype
    assert (np.abs(found - meant(model, given)) <= bound(model, dtype)).all()


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_folders_take_and_answer_words(framework: str, tmp_path: Path) -> None:
    model = hm.compile(hm.programs.reverse, alphabet="abc", length=4)
    certificate = hm.certify(model).as_dict()
    write_standalone(model, tmp_path / "f", framework, dtype="float32", certificate=certificate)
    module = opened(tmp_path / "f")
    for words in (["cab", "abb"], [["a"]]):
        if framework == "torch":
            loaded = module.Model.load(tmp_path / "f")
            assert loaded.decode(loaded(loaded.encode(words))) == model(words)
            with pytest.raises(ValueError, match="at most 4 symbols, but these have 5"):
                loaded(loaded.encode(["abcab"]))
        else:
            params, apply, config = module.load(tmp_path / "f")
            answered = jax.jit(apply)(params, module.encode(config, words))
            assert module.decode(config, answered) == model(words)
            with pytest.raises(ValueError, match=r"length at most 4"):
                apply(params, module.encode(config, ["abcab"]))


def test_a_folder_holds_the_model(tmp_path: Path) -> None:
    """Weights and structure make the Transformer again; equal models are equal bytes."""
    from safetensors.numpy import load_file

    model = mixed("start", None)
    folders = [tmp_path / name for name in "ab"]
    for folder in folders:
        write_standalone(model, folder, "torch")
    config = json.loads((folders[0] / "config.json").read_text())
    arrays = load_file(folders[0] / "params.safetensors")
    assert fingerprint(transformer_of(config["structure"], arrays)) == config["fingerprint"]
    assert config["fingerprint"] == fingerprint(model.transformer)
    for name in ("config.json", "params.safetensors", "model.py"):
        assert len({(folder / name).read_bytes() for folder in folders}) == 1


def test_what_no_folder_can_hold_is_refused(tmp_path: Path) -> None:
    model = mixed("reals")
    with pytest.raises(hm.RequestError, match="framework is one of torch, jax, not 'flax'"):
        write_standalone(model, tmp_path / "f", "flax")
    with pytest.raises(hm.RequestError, match="write_standalone takes a Construction"):
        write_standalone(model.transformer, tmp_path / "f", "jax")  # type: ignore[arg-type]
    with pytest.raises(hm.RequestError, match="dtype is one of float64, float32, float16"):
        write_standalone(model, tmp_path / "f", "jax", dtype="bfloat16")
    (tmp_path / "file").touch()
    with pytest.raises(hm.FileError, match="file could not be written"):
        write_standalone(model, tmp_path / "file", "jax")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
