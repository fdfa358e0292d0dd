"""ONNX: what is written comes back bit for bit and runs within the rounding bound."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import hardmax as hm
from hardmax.checker.rounding import float_bounds
from hardmax.core import (
    Attention,
    Box,
    Claim,
    Construction,
    Hardmax,
    ReadOut,
    Softmax,
    Transformer,
    Words,
    evaluate,
    fingerprint,
    reference,
)
from hardmax.interop import read_onnx, write_onnx
from hardmax.interop._guests import TRIED
from hardmax.interop._runnable import runnable, transformer_of
from hardmax.numerics import format_named
from hardmax.testing import random_relu

sys.path.append(str(Path(__file__).parent))
from test_files import Maker, SomeWordTarget, claimed, mixed_attention

ROOT = Path(__file__).resolve().parents[2]
DTYPES = ("float64", "float32", "float16")


def mixed_softmax(make: Maker, largest: float = 40.0) -> Attention:
    """Every mask, shape and position bias of `mixed_attention`, with tempered softmax heads."""

    def warm(head: hm.Head) -> hm.Head:
        finite = isinstance(head.weighting, Softmax) and head.coldness <= largest
        return head if finite else replace(head, weighting=Softmax(0.17))

    return Attention(warm(head) for head in mixed_attention(make).heads)


@cache
def mixed(kind: str, token: int | None = -1, warm: bool = False) -> Construction:
    """Heads of all kinds, and feed-forward layers, one without hidden units.

    A warm one has scores so small that the bound on its rounding says something in float32.
    """
    make = Maker()
    layers = [mixed_softmax(make, 1.0 if warm else 40.0), make.feed_forward(4)]
    layers += [] if warm else [make.feed_forward(0), mixed_softmax(make)]
    start = kind == "start"
    source = make.vector(2, 4) if kind == "reals" else make.sequence(("a", "b", 3), start)
    return claimed(Transformer(source, layers, make.readout(2, token)))


@cache
def gated(activation: str) -> Construction:
    """Two inputs through gated units, one of them with a signed zero for a weight."""
    rng = np.random.default_rng(2)
    gate, inner, outer = rng.normal(size=(3, 5, 2)) / 2
    gate[0, 0] = -0.0
    layer = hm.GatedFeedForward(
        gate, np.ones(5), inner, np.zeros(5), outer.T, [0.0, 1.0], activation
    )
    source = hm.VectorInput(np.eye(2)[None], np.zeros((1, 2)))
    return claimed(Transformer(source, [layer], ReadOut(np.eye(2), np.zeros(2))))


CASES = [("reals", -1), ("reals", 1), ("words", -1), ("words", None), ("start", 0), ("start", None)]


def session(path: Path) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def answers(path: Path, given: np.ndarray) -> np.ndarray:
    opened = session(path)
    (name,) = (one.name for one in opened.get_inputs())
    (found,) = opened.run(["outputs"], {name: given})
    return np.asarray(found)


# ---- round trips ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "token"), CASES)
def test_float64_comes_back_bit_for_bit(kind: str, token: int | None, tmp_path: Path) -> None:
    model = mixed(kind, token)
    write_onnx(model, tmp_path / "m.onnx")
    assert fingerprint(read_onnx(tmp_path / "m.onnx")) == fingerprint(model.transformer)


def test_signed_zeros_come_back(tmp_path: Path) -> None:
    """Among them those of a query and of a bias that a coldness is multiplied into."""
    model = mixed("words")
    head = model.transformer.heads[5]
    assert head.position_bias is not None
    assert (np.signbit(head.position_bias) & (head.position_bias == 0.0)).any()
    write_onnx(model, tmp_path / "m.onnx")
    again = read_onnx(tmp_path / "m.onnx").heads[5].position_bias
    assert again is not None
    assert again.tobytes() == head.position_bias.tobytes()


@pytest.mark.parametrize("dtype", DTYPES[1:])
def test_lower_formats_come_back_as_they_are_stored(dtype: str, tmp_path: Path) -> None:
    """Weights are those rounded to nearest, and of folded ones coldness * query is the stored one:
    whoever writes the Transformer that was read writes the same graph."""
    model, format = mixed("start"), format_named(dtype)
    write_onnx(model, tmp_path / "m.onnx", dtype=dtype)
    found = read_onnx(tmp_path / "m.onnx")
    for given, stored in zip(model.transformer.heads, found.heads, strict=True):
        assert stored.weighting == given.weighting
        assert np.array_equal(stored.key, format.stored(given.key))
        folded = format.stored(given.coldness * given.query)
        assert np.array_equal(format.stored(stored.coldness * stored.query), folded)
    write_onnx(replace(model, transformer=found), tmp_path / "again.onnx", dtype=dtype)
    graphs = [onnx.load(tmp_path / name).graph for name in ("m.onnx", "again.onnx")]
    assert graphs[0] == graphs[1]
    assert fingerprint(read_onnx(tmp_path / "again.onnx")) == fingerprint(found)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_coldness_that_division_does_not_undo_is_undone(dtype: str) -> None:
    """(q c) / c is not q for some floats: these are named, and few."""
    rng, one = np.random.default_rng(0), np.ones((1, 40))
    query, coldness = rng.normal(size=(1, 40)), 3.3
    off = (query * coldness) / coldness != query
    assert off.any()
    head = hm.Head(query, one, one, one.T, weighting=Softmax(coldness))
    source = hm.VectorInput(np.ones((2, 40, 1)), np.zeros((2, 40)))
    transformer = Transformer(source, [Attention([head])], ReadOut(one, np.zeros(1)))
    made = runnable(transformer, format_named(dtype))
    exceptions = made.structure["layers"][0].get("exceptions", {})
    if dtype == "float64":
        assert len(exceptions["query"]) == off.sum()
        again = transformer_of(made.structure, made.arrays)
        assert fingerprint(again) == fingerprint(transformer)
    else:
        assert exceptions == {}


def test_equal_models_are_equal_bytes(tmp_path: Path) -> None:
    for name in "abc":
        write_onnx(mixed.__wrapped__("start"), tmp_path / name)
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1


# ---- running -------------------------------------------------------------------------------------


@cache
def bound(model: Construction, dtype: str) -> np.ndarray:
    """How far the format and the evaluation in float64 that it is compared with may be apart."""
    domain = model.claim.domain if isinstance(model.claim.domain, Box) else None
    found = float_bounds(model.transformer, domain, (dtype, "float64"))
    return np.asarray(found[dtype] + found["float64"])


@pytest.mark.parametrize(
    ("kind", "token", "dtype"),
    [(*case, dtype) for case, dtype in zip(CASES, DTYPES[:2] * 3, strict=True)],
)
def test_batch_and_length_are_open(
    kind: str, token: int | None, dtype: str, tmp_path: Path
) -> None:
    """Every mask, at every length, within the bound that the checker derives from the weights."""
    model, path = mixed(kind, token, warm=True), tmp_path / "m.onnx"
    write_onnx(model, path, dtype=dtype)
    rng, most = np.random.default_rng(1), bound(model, dtype)
    assert most.max() < (1e-9 if dtype == "float64" else 1e-1)
    for batch, length in [(1, 1), (5, 2), (3, 3)]:
        if kind == "reals":
            given = rng.uniform(-0.1, 0.3, size=(batch, 2)).astype(dtype)
            meant = evaluate(model.transformer, given.astype(np.float64))
        else:
            given = rng.integers(0, 3, size=(batch, length))
            alphabet = ("a", "b", 3)
            words = [[alphabet[i] for i in row] for row in given]
            meant = np.array(evaluate(model.transformer, words))
        found = answers(path, given)
        assert found.dtype == dtype
        assert found.shape == meant.shape
        assert (np.abs(found - meant) <= most).all()


NETWORK = random_relu(3, 3, 7, 5, 2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("route", ["attention", "feedforward"])
def test_outputs_lie_within_the_rounding_bound(route: str, dtype: str, tmp_path: Path) -> None:
    model, path = hm.compile(NETWORK, on=(-1, 1), error=1e-2, route=route), tmp_path / "m.onnx"
    write_onnx(model, path, dtype=dtype)
    points = model.claim.domain.sample(20, np.random.default_rng(1)).astype(dtype)
    expected = [reference(model.transformer, point.astype(float)) for point in points]
    most = bound(model, dtype)
    assert (np.abs(answers(path, points) - expected) <= most).all()
    assert most.max() <= (0.5 if dtype == "float16" else 1e-4) * np.abs(expected).max()


@pytest.mark.parametrize("activation", ["relu", "silu"])
def test_gated_layers_run_and_come_back(activation: str, tmp_path: Path) -> None:
    model, path = gated(activation), tmp_path / "m.onnx"
    for dtype in DTYPES[:2]:
        write_onnx(model, path, dtype=dtype)
        points = model.claim.domain.sample(20, np.random.default_rng(1)).astype(dtype)
        expected = evaluate(model.transformer, points.astype(np.float64))
        assert (np.abs(answers(path, points) - expected) <= bound(model, dtype)).all()
    write_onnx(model, path)
    assert fingerprint(read_onnx(path)) == fingerprint(model.transformer)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ["sort", "reverse", "histogram"])
def test_programs_answer_at_every_length(name: str, dtype: str, tmp_path: Path) -> None:
    model, path = hm.compile(getattr(hm.programs, name), alphabet="abc", length=5), tmp_path / "m"
    write_onnx(model, path, dtype=dtype)
    opened = session(path)
    source, target = model.transformer.input, model.claim.target
    for length in (1, 2, 5):
        words = [[*np.random.default_rng(i).choice([*"abc"], length)] for i in range(6)]
        ids = np.array([source.indices(word) for word in words])
        (rows,) = opened.run(None, {"ids": ids})
        assert [target.decode(row) for row in rows] == model(words)


def test_a_word_that_is_too_long_is_refused_by_the_runtime(tmp_path: Path) -> None:
    """Also where one position would be broadcast over the word without a complaint."""
    make = Maker()
    source = replace(make.sequence(("a", "b"), False), positions=np.ones((1, 3)))
    transformer = Transformer(source, [], make.readout(1))
    claim = Claim(SomeWordTarget(1, False), Words(source.alphabet, 1, 1), [])
    short = Construction(transformer, claim, None, "none")
    write_onnx(short, tmp_path / "m")
    opened = session(tmp_path / "m")
    assert opened.run(None, {"ids": np.zeros((2, 1), np.int64)})[0].shape == (2, 1)
    with pytest.raises(Exception, match="out of data bounds"):
        opened.run(None, {"ids": np.zeros((2, 2), np.int64)})


# ---- what a file says ----------------------------------------------------------------------------


def texts(path: Path) -> dict[str, str]:
    return {prop.key: prop.value for prop in onnx.load(path).metadata_props}


def test_metadata_of_words(tmp_path: Path) -> None:
    model = hm.compile(hm.programs.histogram, alphabet="ab", length=3)
    certificate = hm.certify(model)
    write_onnx(model, tmp_path / "m", dtype="float32", certificate=certificate.as_dict())
    said = texts(tmp_path / "m")
    assert said["hardmax.fingerprint"] == fingerprint(model.transformer)
    assert json.loads(said["hardmax.structure"])["input"]["alphabet"] == ["a", "b"]
    assert json.loads(said["hardmax.codes"]) == [
        {"items": [0, 1, 2, 3], "numbers": [0.0, 1.0, 2.0, 3.0]}
    ]
    assert json.loads(said["hardmax.claim"])["domain"]["lengths"] == [0, 3]
    again = hm.Certificate.from_dict(json.loads(said["hardmax.certificate"]))
    assert again == certificate


def test_labels_are_for_names_of_the_graph(tmp_path: Path) -> None:
    """Each axis that is named has as many labels as it is long."""
    model = hm.compile(hm.programs.histogram, alphabet="ab", length=3)
    write_onnx(model, tmp_path / "m")
    labels = json.loads(texts(tmp_path / "m")["hardmax.legend"])
    assert labels["embedding"] == list(model.legend.coordinates)
    drawn = onnx.load(tmp_path / "m")
    for name in labels:
        drawn.graph.output.append(onnx.ValueInfoProto(name=name))
    opened = onnxruntime.InferenceSession(drawn.SerializeToString())
    for name, seen in zip(labels, opened.run([*labels], {"ids": [[0, 1]]}), strict=True):
        axis = 1 if name.endswith("pattern") else -1
        assert seen.shape[axis] == len(labels[name])


# ---- refusals ------------------------------------------------------------------------------------


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    model, place = mixed("reals"), tmp_path / "m.onnx"
    with pytest.raises(hm.RequestError, match="write_onnx takes a Construction"):
        write_onnx(model.transformer, place)  # type: ignore[arg-type]
    with pytest.raises(hm.RequestError, match="no float format 'single'"):
        write_onnx(model, place, dtype="single")
    with pytest.raises(hm.RequestError, match="do not compute in bfloat16: choose one of float64"):
        write_onnx(model, place, dtype="bfloat16")
    with pytest.raises(hm.RequestError, match="A file is named by a text"):
        write_onnx(model, 3)  # type: ignore[arg-type]
    with pytest.raises(hm.RequestError, match="about other weights"):
        write_onnx(model, place, certificate={"fingerprint": "0"})
    hard = [Attention([replace(h, weighting=Hardmax()) for h in model.transformer.heads[:1]])]
    hard_model = replace(model, transformer=replace_layers(model.transformer, hard))
    with pytest.raises(hm.SemanticsError, match=r"soften the construction first, hm\.soften"):
        write_onnx(hard_model, place)
    cold = [Attention([replace(h, weighting=Softmax(1e300)) for h in model.transformer.heads[:1]])]
    cold_model = replace(model, transformer=replace_layers(model.transformer, cold))
    with pytest.raises(hm.PrecisionError, match=r"float32 ends at 3\.4e\+38: choose a wider dtype"):
        write_onnx(cold_model, place, dtype="float32")
    assert not list(tmp_path.iterdir())


def replace_layers(transformer: Transformer, layers: list[Any]) -> Transformer:
    return Transformer(transformer.input, layers, transformer.readout)


def test_missing_and_untried_packages_are_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def older(package: str) -> str:
        return "1.15.0rc1"

    monkeypatch.setattr("hardmax.interop._guests.version", older)
    with pytest.raises(hm.RequestError, match=r"onnx 1\.15\.0rc1 is installed, but .* 1\.16 to"):
        write_onnx(mixed("reals"), tmp_path / "m")

    def missing(package: str) -> str:
        raise importlib.metadata.PackageNotFoundError(package)

    monkeypatch.setattr("hardmax.interop._guests.version", missing)
    with pytest.raises(hm.MissingExtra, match=r"pip install 'hardmax\[onnx\]'"):
        read_onnx(tmp_path / "m")


def test_tried_versions_are_those_of_the_extras() -> None:
    """pyproject.toml and the check at run time say the same."""
    with open(ROOT / "pyproject.toml", "rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    for package, (lowest, below) in TRIED.items():
        first, end = (".".join(map(str, numbers)) for numbers in (lowest, below))
        assert extras[package] == [f"{package}>={first},<{end}"]


def refusal(path: Path) -> str:
    with pytest.raises(hm.FileError) as caught:
        read_onnx(path)
    assert str(caught.value).startswith(f"{path} ")
    return str(caught.value).removeprefix(f"{path} ")


def test_what_is_no_file_of_ours_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / "nothing") == "was not found."
    for number, data in enumerate([b"", b"text", np.random.default_rng(1).bytes(500)]):
        (tmp_path / str(number)).write_bytes(data)
        assert refusal(tmp_path / str(number)).startswith("is ")
    foreign = onnx.helper.make_model(onnx.helper.make_graph([], "g", [], []))
    (tmp_path / "f").write_bytes(foreign.SerializeToString())
    assert "is no model that write_onnx wrote" in refusal(tmp_path / "f")


def alterations(model: onnx.ModelProto) -> Iterator[onnx.ModelProto]:
    """Everything that could compute something else, changed in one place."""

    def copied() -> onnx.ModelProto:
        other = onnx.ModelProto()
        other.CopyFrom(model)
        return other

    for place, tensor in enumerate(model.graph.initializer):
        flipped = bytearray(tensor.raw_data)
        flipped[0] ^= 1
        other = copied()
        other.graph.initializer[place].raw_data = bytes(flipped)
        yield other
        other = copied()
        del other.graph.initializer[place]
        yield other
        other = copied()
        other.graph.initializer[place].data_location = onnx.TensorProto.EXTERNAL
        yield other
    for place in range(len(model.graph.node)):
        other = copied()
        other.graph.node[place].op_type = "Identity"
        yield other
        other = copied()
        del other.graph.node[place]
        yield other
    for name in ("opset_import", "metadata_props"):
        other = copied()
        other.ClearField(name)
        yield other
    other = copied()
    other.graph.input[0].name = "y"
    yield other


def test_every_altered_file_is_refused(tmp_path: Path) -> None:
    write_onnx(mixed("start", warm=True), tmp_path / "m")
    model = onnx.load(tmp_path / "m")
    count = 0
    for altered in alterations(model):
        (tmp_path / "a").write_bytes(altered.SerializeToString())
        refusal(tmp_path / "a")
        count += 1
    assert count > 100


def _edits(value: Any) -> Iterator[Any]:
    """Every JSON value that differs from `value` in one place: gone, or replaced by nonsense."""
    yield from (None, True, -1, 10**9, 0.5, "x", [], {}, [[]])
    if not isinstance(value, dict | list):
        return
    for key, part in value.items() if isinstance(value, dict) else enumerate(value):
        without = value.copy()
        del without[key]
        yield without
        for edited in _edits(part):
            changed = value.copy()
            changed[key] = edited
            yield changed


def test_no_altered_structure_is_believed(tmp_path: Path) -> None:
    """What cannot be a model is refused, what is another one, too, and no traceback leaks."""
    make = Maker()
    layers = [Attention(mixed_softmax(make).heads[5:7]), make.feed_forward(1)]
    small = claimed(Transformer(make.sequence(("a",), True), layers, make.readout(1)))
    write_onnx(small, tmp_path / "m")
    model = onnx.load(tmp_path / "m")
    (prop,) = (one for one in model.metadata_props if one.key == "hardmax.structure")
    given, original = json.loads(prop.value), prop.value
    count = 0
    for edited in _edits(given):
        prop.value = json.dumps(edited, sort_keys=True, separators=(",", ":"))
        if prop.value != original:
            (tmp_path / "a").write_bytes(model.SerializeToString())
            refusal(tmp_path / "a")
            count += 1
    assert count > 400


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    write_onnx(mixed("reals"), tmp_path / "m")
    data = (tmp_path / "m").read_bytes()
    for length in range(0, len(data), 397):
        (tmp_path / "a").write_bytes(data[:length])
        refusal(tmp_path / "a")


@pytest.mark.parametrize("where", ["os.fsync", "os.replace", "onnx.helper.make_model"])
def test_a_failure_leaves_the_old_file(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_onnx(mixed("reals"), tmp_path / "m")
    before = (tmp_path / "m").read_bytes()

    def fail(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(where, fail)
    with pytest.raises(KeyboardInterrupt):
        write_onnx(mixed("words"), tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == before
    assert os.listdir(tmp_path) == ["m"]


def test_nothing_heavy_is_needed(tmp_path: Path) -> None:
    """Writing and reading loads no torch, no jax and no runtime."""
    code = (
        "import sys, hardmax as hm; hm.interop.write_onnx(hm.compile('x*y', on='[-1,1]^2'), 'm');"
        "hm.interop.read_onnx('m');"
        "sys.exit(any(m in sys.modules for m in ('torch', 'jax', 'onnxruntime')))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, cwd=tmp_path)
    assert done.returncode == 0
