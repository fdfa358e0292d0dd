"""One file holds a model: what is written comes back bit for bit, and nothing else is accepted."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from hardmax import FileError
from hardmax.core import (
    Attention,
    Box,
    Claim,
    Construction,
    EncodedTarget,
    FeedForward,
    Hardmax,
    Head,
    Holding,
    ReadOut,
    SequenceInput,
    Share,
    Softmax,
    Transformer,
    VectorInput,
    Witness,
    Words,
    fingerprint,
)
from hardmax.interop import read_safetensors, write_safetensors
from hardmax.interop._description import describe, rebuild


@dataclass(frozen=True)
class SomeTarget:
    """A target that computes nothing: a file never calls it."""

    inputs: int
    outputs: int
    encoded: EncodedTarget | None = None
    parameters: int | None = None

    def __call__(self, x: Any, /) -> Any:
        raise AssertionError("a file has no business evaluating the target")

    def steps(self) -> None:
        return None

    def encode(self) -> EncodedTarget | None:
        return self.encoded


@dataclass(frozen=True)
class SomeWordTarget:
    """The same on words."""

    outputs: int
    each_symbol: bool
    encoded: EncodedTarget | None = None
    parameters: int | None = None

    def __call__(self, word: Any, /) -> Any:
        raise AssertionError("a file has no business evaluating the target")

    def steps(self) -> None:
        return None

    def encode(self) -> EncodedTarget | None:
        return self.encoded


@dataclass
class Maker:
    """Random parts, the same ones for the same seed, with signed zeros among the weights."""

    width: int = 3
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))

    def array(self, *shape: int) -> np.ndarray:
        array = self.rng.normal(size=shape)
        array[self.rng.random(shape) < 0.3] = -0.0
        return array

    def head(self, key_width: int = 1, value_width: int = 1, bias: int = 0, **rest: Any) -> Head:
        w, k, v = self.width, key_width, value_width
        position_bias = self.array(bias, bias) if bias else None
        parts = self.array(k, w), self.array(k, w), self.array(v, w), self.array(w, v)
        return Head(*parts, position_bias=position_bias, **rest)

    def feed_forward(self, hidden: int) -> FeedForward:
        w = self.width
        return FeedForward(
            self.array(hidden, w), self.array(hidden), self.array(w, hidden), self.array(w)
        )

    def vector(self, inputs: int = 2, tokens: int = 2) -> VectorInput:
        w = self.width
        return VectorInput(self.array(tokens, w, inputs), self.array(tokens, w))

    def sequence(self, alphabet: tuple[Any, ...], start: bool) -> SequenceInput:
        w = self.width
        rows, positions = self.array(len(alphabet), w), self.array(4, w)
        return SequenceInput(alphabet, rows, positions, self.array(w) if start else None)

    def readout(self, outputs: int = 2, token: int | None = -1) -> ReadOut:
        return ReadOut(self.array(outputs, self.width), self.array(outputs), token)


def mixed_attention(make: Maker) -> Attention:
    """Heads of five shapes and masks, interleaved, so that groups are not runs."""
    return Attention(
        [
            make.head(1, 1, weighting=Softmax(0.1)),
            make.head(2, 1, weighting=Hardmax()),
            make.head(1, 1, weighting=Hardmax()),
            make.head(0, 2, weighting=Softmax(40.0), causal=True),
            make.head(2, 1, weighting=Softmax(1e300)),
            make.head(1, 1, bias=4, weighting=Softmax(1 / 3)),
            make.head(1, 1, causal=True),
            make.head(1, 1, bias=5),
            make.head(0, 2, causal=True),
            make.head(1, 1, bias=4),
            make.head(1, 1),
        ]
    )


def claimed(transformer: Transformer, encoded: EncodedTarget | None = None) -> Construction:
    source = transformer.input
    inputs = source.inputs if isinstance(source, VectorInput) else 1
    target = SomeTarget(inputs, transformer.outputs, encoded)
    domain = Box(np.full(inputs, -0.1), np.full(inputs, 1 / 3))
    if not isinstance(source, VectorInput):
        target = SomeWordTarget(transformer.outputs, transformer.readout.token is None, encoded)
        domain = Words(source.alphabet, 2, 1)
    ledger = [Share("softening", "sublayer 0", 0.1), Share("margin", "2% for “the checker”", 0)]
    return Construction(transformer, Claim(target, domain, ledger), None, "attention")


def witness() -> Witness:
    return Witness(
        [
            Holding(-1, 0, [0, 1], 0, [0, 1], 0.0),
            Holding(0, -1, [2, 0, 1], 1, [[0, 3], [1, -1], [2, 0]], [0.5, 1e-300, 0.1]),
            Holding(1, 1, [], 2, np.zeros((0, 4)), []),
            Holding(1, 0, [1], 2, [[5, 4, 3]], [1 / 3]),
        ]
    )


def vector_model() -> Construction:
    make = Maker()
    layers = [mixed_attention(make), make.feed_forward(4), Attention([make.head()])]
    encoded = EncodedTarget("network", "relu é \ud800 \n", {"w": make.array(3, 2)})
    construction = claimed(Transformer(make.vector(), layers, make.readout(token=0)), encoded)
    return replace(construction, witness=witness())


def small_model() -> Construction:
    make = Maker(width=2)
    layers = [
        Attention([make.head(1, 1, weighting=Softmax(1e-5)), make.head(0, 1, bias=2)]),
        make.feed_forward(1),
    ]
    transformer = Transformer(make.vector(1), layers, make.readout(1))
    encoded = EncodedTarget("network", "t", {"w": make.array(2)})
    held = Witness([Holding(0, 1, [1], 1, [0], 0.25)])
    return replace(claimed(transformer, encoded), witness=held)


def sequence_model(alphabet: tuple[Any, ...], start: bool, token: int | None) -> Construction:
    make = Maker()
    source = make.sequence(alphabet, start)
    layers = [make.feed_forward(0), mixed_attention(make)]
    return claimed(Transformer(source, layers, make.readout(token=token)))


MODELS: dict[str, Callable[[], Construction]] = {
    "vector": vector_model,
    "small": small_model,
    "no sublayers": lambda: claimed(Transformer(Maker().vector(), [], Maker().readout())),
    "letters": lambda: sequence_model(("a", "b", "é", '"', "\\"), start=False, token=None),
    "numbers": lambda: sequence_model((0, -1, 10**30), start=True, token=-2),
    "both": lambda: sequence_model((1, "1", ""), start=True, token=None),
}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """The small model in a file, every byte of which the tests below can afford to try."""
    path = tmp_path / "small.safetensors"
    write_safetensors(small_model(), path)
    return path


def refusal(path: Path) -> str:
    """The sentence with which the file is refused, after its name."""
    with pytest.raises(FileError) as caught:
        read_safetensors(path)
    message = str(caught.value)
    assert message.startswith(f"{path} ")
    assert message.endswith(".")
    assert "\n" not in message
    return message.removeprefix(f"{path} ")


# What is written comes back.


@pytest.mark.parametrize("name", MODELS)
def test_round_trip(name: str, tmp_path: Path) -> None:
    """The fingerprint covers structure and the bytes of every weight, in the order of the heads."""
    construction = MODELS[name]()
    write_safetensors(construction, tmp_path / "model.safetensors")
    stored = read_safetensors(tmp_path / "model.safetensors")
    assert fingerprint(stored.transformer) == fingerprint(construction.transformer)
    there, here = stored.domain, construction.claim.domain
    if isinstance(here, Words):
        assert there == here
    else:
        assert (there.low.tobytes(), there.high.tobytes()) == (
            here.low.tobytes(),
            here.high.tobytes(),
        )
    assert stored.ledger == construction.claim.ledger
    assert stored.route == "attention"
    assert stored.certificate is None
    source = construction.transformer.input
    if isinstance(source, SequenceInput):
        assert stored.transformer.input.alphabet == source.alphabet


def test_heads_come_back_in_their_order(tmp_path: Path) -> None:
    construction = vector_model()
    write_safetensors(construction, tmp_path / "m")
    there = read_safetensors(tmp_path / "m").transformer.sublayers[0]
    here = construction.transformer.sublayers[0]
    assert isinstance(there, Attention)
    assert isinstance(here, Attention)
    assert len(here.groups) > 4
    assert [repr(head) for head in there.heads] == [repr(head) for head in here.heads]
    for a, b in zip(there.heads, here.heads, strict=True):
        assert a.weighting == b.weighting
        assert a.query.tobytes() == b.query.tobytes()


def test_signed_zeros_and_extreme_numbers_survive(tmp_path: Path) -> None:
    numbers = [-0.0, 0.0, 5e-324, -1.7976931348623157e308, 0.1, 2.0**-1074]
    readout = ReadOut([numbers], [-0.0])
    make = Maker(width=len(numbers))
    write_safetensors(claimed(Transformer(make.vector(), [], readout)), tmp_path / "m")
    weights = read_safetensors(tmp_path / "m").transformer.readout.weights
    assert weights.tobytes() == np.array([numbers]).tobytes()


def test_the_witness_comes_back(tmp_path: Path) -> None:
    write_safetensors(vector_model(), tmp_path / "m")
    stored = read_safetensors(tmp_path / "m").witness
    assert stored is not None
    for there, here in zip(stored.holdings, witness().holdings, strict=True):
        assert (there.sublayer, there.token, there.value) == (here.sublayer, here.token, here.value)
        for name in ("coordinates", "components", "errors"):
            a, b = getattr(there, name), getattr(here, name)
            assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())


@pytest.mark.parametrize("held", [None, Witness([])])
def test_no_witness_and_an_empty_one_differ(held: Witness | None, tmp_path: Path) -> None:
    write_safetensors(replace(vector_model(), witness=held), tmp_path / "m")
    stored = read_safetensors(tmp_path / "m").witness
    assert (stored is None) == (held is None)
    assert stored is None or stored.holdings == ()


def test_an_encoded_target_comes_back(tmp_path: Path) -> None:
    """Also with tensors that safetensors would write wrongly if it got them as they are."""
    tensors = {
        "transposed": np.arange(6.0).reshape(2, 3).T,
        "big-endian": np.array([1, 2], dtype=">i8"),
        "a number": np.array(-0.0),
        "truths": np.array([True, False]),
        "single": np.float32([0.1]),
        "nothing": np.zeros((0, 3)),
    }
    encoded = EncodedTarget("expression", 'max("x", y)\n', tensors)
    transformer = Transformer(Maker().vector(), [], Maker().readout())
    write_safetensors(claimed(transformer, encoded), tmp_path / "m")
    stored = read_safetensors(tmp_path / "m").encoded_target
    assert stored is not None
    assert (stored.kind, stored.text) == (encoded.kind, encoded.text)
    assert stored.tensors.keys() == tensors.keys()
    for name, array in tensors.items():
        assert stored.tensors[name].dtype == array.dtype.newbyteorder("<")
        assert stored.tensors[name].shape == array.shape
        assert np.array_equal(stored.tensors[name], array)
    assert np.signbit(stored.tensors["a number"])


def test_an_opaque_target_is_none(tmp_path: Path) -> None:
    write_safetensors(claimed(vector_model().transformer), tmp_path / "m")
    assert read_safetensors(tmp_path / "m").encoded_target is None
    assert _contents(tmp_path / "m")[0]["target"] == {"kind": "opaque"}


def test_join_makes_the_construction_again(tmp_path: Path) -> None:
    construction = vector_model()
    write_safetensors(construction, tmp_path / "m")
    again = read_safetensors(tmp_path / "m").join(construction.claim.target)
    assert again.claim.error == construction.claim.error
    assert again.claim.target is construction.claim.target
    assert again.route == construction.route
    write_safetensors(again, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()


def test_the_same_model_is_the_same_bytes(tmp_path: Path) -> None:
    for name in "abcdef":
        write_safetensors(vector_model(), tmp_path / name)
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1


def test_a_certificate_is_kept(tmp_path: Path) -> None:
    certificate = {"verdict": "PROVED", "certified": 0.1, "at": {10: None, 9: [1, -0.0]}}
    write_safetensors(vector_model(), tmp_path / "m", certificate=certificate)
    expected = {"verdict": "PROVED", "certified": 0.1, "at": {"10": None, "9": [1, -0.0]}}
    assert read_safetensors(tmp_path / "m").certificate == expected


def test_many_heads_are_few_tensors(tmp_path: Path) -> None:
    make = Maker()
    heads = [make.head(weighting=Softmax(1.0 + i)) for i in range(512)]
    layers = [Attention(heads)]
    write_safetensors(claimed(Transformer(make.vector(), layers, make.readout())), tmp_path / "m")
    _, tensors = _contents(tmp_path / "m")
    assert len(tensors) == 8  # two of the input, four of the layer, two of the read-out
    assert tensors["sublayers.0.0.query"].shape == (512, 1, 3)


# Nothing else is accepted.


def _contents(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    data = path.read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return json.loads(header["__metadata__"]["hardmax"]), safetensors.numpy.load(data)


def _forge(path: Path, description: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
    """Write a file with a true digest, computed from the format's specification."""

    def canonical(value: Any) -> str:
        return json.dumps(value, sort_keys=True, separators=(",", ":"))

    body = {key: value for key, value in description.items() if key != "sha256"}
    digest = hashlib.sha256(canonical(body).encode() + b"\n")
    for name in sorted(tensors):
        array = tensors[name]
        digest.update(canonical([name, array.dtype.str, list(array.shape)]).encode() + b"\n")
        digest.update(array.tobytes())
    text = canonical(body | {"sha256": digest.hexdigest()})
    path.write_bytes(safetensors.numpy.save(tensors, metadata={"hardmax": text}))


def test_a_forgery_that_changes_nothing_is_the_same_file(saved: Path) -> None:
    """The tests below rest on `_forge`, and the digest is what its description says."""
    before = saved.read_bytes()
    _forge(saved, *_contents(saved))
    assert saved.read_bytes() == before


def test_every_flipped_bit_is_refused(saved: Path) -> None:
    """One bit in each byte of the file: weights, offsets, names, digest and description."""
    data = bytearray(saved.read_bytes())
    for place in range(len(data)):
        bit = 1 << (5 if chr(data[place]).isalpha() else place % 8)  # 5 turns e into E
        data[place] ^= bit
        saved.write_bytes(data)
        refusal(saved)
        data[place] ^= bit
    saved.write_bytes(data)
    read_safetensors(saved)


def test_a_flipped_weight_was_altered(saved: Path) -> None:
    data = bytearray(saved.read_bytes())
    data[-1] ^= 1
    saved.write_bytes(data)
    assert "was altered after it was written" in refusal(saved)


@pytest.mark.parametrize("edit", ["route", "ledger", "spaces", "digest"])
def test_an_edited_description_was_altered(edit: str, saved: Path) -> None:
    description, tensors = _contents(saved)
    text = json.dumps(description, sort_keys=True, separators=(",", ":"))
    changed = {
        "route": text.replace('"attention"', '"Attention"'),
        "ledger": text.replace("0.1]", "0.2]"),
        "spaces": text + " ",
        "digest": text.replace(description["sha256"], "0" * 64),
    }[edit]
    assert changed != text
    saved.write_bytes(safetensors.numpy.save(tensors, metadata={"hardmax": changed}))
    assert "was altered after it was written" in refusal(saved)


def test_every_truncation_is_refused(saved: Path) -> None:
    data = saved.read_bytes()
    for length in range(len(data)):
        saved.write_bytes(data[:length])
        message = refusal(saved)
        assert length <= 8 or "is truncated" in message


def test_added_bytes_are_refused(saved: Path) -> None:
    saved.write_bytes(saved.read_bytes() + b"\0" * 8)
    assert "is damaged" in refusal(saved)


FOREIGN = {
    "empty": (b"", "is empty"),
    "short": (b"\x02\0\0", "is not a safetensors file"),
    "text": (b"hello, world, this is text", "is not a safetensors file"),
    "random": (np.random.default_rng(1).bytes(5000), "is not a safetensors file"),
    "absurd header": ((2**62).to_bytes(8, "little") + b"{}", "is not a safetensors file"),
    "no JSON": ((3).to_bytes(8, "little") + b"{,}", "its header is damaged"),
    "deep JSON": ((10**5).to_bytes(8, "little") + b'{"a":' * (2 * 10**4), "its header is damaged"),
    "odd JSON": ((7).to_bytes(8, "little") + b'{"a":1}', "its header is damaged"),
    "no tensors": ((2).to_bytes(8, "little") + b"{}", "not a hardmax model"),
    "foreign": (safetensors.numpy.save({"w": np.ones(3)}), "but not a hardmax model"),
    "foreign metadata": (
        safetensors.numpy.save({"w": np.ones(3)}, metadata={"format": "pt"}),
        "is a safetensors file but not a hardmax model",
    ),
    "broken JSON": (safetensors.numpy.save({}, metadata={"hardmax": "{"}), "not valid JSON"),
    "no object": (safetensors.numpy.save({}, metadata={"hardmax": "[]"}), "malformed"),
    "no version": (safetensors.numpy.save({}, metadata={"hardmax": "{}"}), "malformed"),
    "infinity": (
        safetensors.numpy.save({}, metadata={"hardmax": '{"version":Infinity}'}),
        "not valid JSON",
    ),
    "newer": (
        safetensors.numpy.save({}, metadata={"hardmax": '{"version":2}'}),
        "was written in format 2, but this hardmax reads format 1",
    ),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_files_are_refused(name: str, tmp_path: Path) -> None:
    data, reason = FOREIGN[name]
    (tmp_path / "f").write_bytes(data)
    assert reason in refusal(tmp_path / "f")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / "nothing") == "was not found."
    assert "is a directory" in refusal(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert "is not an ordinary file" in refusal(tmp_path / "pipe")
    assert "could not be read" in refusal(tmp_path / "a\0b")


def test_every_missing_or_misshapen_tensor_is_refused(saved: Path) -> None:
    description, tensors = _contents(saved)
    for name, array in tensors.items():
        _forge(saved, description, {key: value for key, value in tensors.items() if key != name})
        assert f"lacks the tensor {name}" in refusal(saved)
        if name.startswith("target."):
            continue  # a language judges those
        for wrong in (array[None], np.full(array.shape, np.nan), array[:0]):
            if array.size == wrong.size == 0 and array.ndim == wrong.ndim:
                continue  # nothing of nothing is nothing else
            _forge(saved, description, tensors | {name: wrong})
            refusal(saved)


def test_parts_that_make_no_model_are_refused_with_the_reason(saved: Path) -> None:
    description, tensors = _contents(saved)
    _forge(saved, description, tensors | {"readout.bias": np.array([np.nan])})
    reason = "holds parts that do not make a model: read-out bias must be finite"
    assert reason in refusal(saved)


def _edits(value: Any) -> Iterator[Any]:
    """Every JSON value that differs from `value` in one place: gone, or replaced by nonsense."""
    yield from (None, True, -1, 10**400, 0.5, "x", [], {}, [[]], {"kind": "x"})
    if not isinstance(value, dict | list):
        return
    for key, part in value.items() if isinstance(value, dict) else enumerate(value):
        without = copy.copy(value)
        del without[key]
        yield without
        for edited in _edits(part):
            changed = copy.copy(value)
            changed[key] = edited
            yield changed


def test_a_forged_description_never_escapes_the_tree_of_errors(saved: Path) -> None:
    """With a true digest, too: what cannot be a model is refused, and no traceback leaks."""
    description, tensors = _contents(saved)
    del description["sha256"]
    refused = 0
    for edited in _edits(description):
        if not isinstance(edited, dict):
            continue
        _forge(saved, edited, tensors)
        try:
            read_safetensors(saved)
        except FileError:
            refused += 1
    assert refused > 300


# A file is the old one or the new one.


@pytest.mark.parametrize("failure", [OSError("disk full"), KeyboardInterrupt(), MemoryError()])
@pytest.mark.parametrize("where", ["os.fsync", "os.replace", "safetensors.numpy.save"])
def test_a_failure_leaves_the_old_file(
    where: str, failure: BaseException, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = saved.read_bytes()

    def fail(*args: Any, **kwargs: Any) -> None:
        raise failure

    monkeypatch.setattr(where, fail)
    with pytest.raises((FileError, type(failure))):
        write_safetensors(vector_model(), saved)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


def test_an_existing_file_is_replaced(saved: Path) -> None:
    write_safetensors(vector_model(), saved)
    stored = read_safetensors(saved)
    assert fingerprint(stored.transformer) == fingerprint(vector_model().transformer)
    assert list(saved.parent.iterdir()) == [saved]


def test_a_link_keeps_pointing_where_it_points(saved: Path) -> None:
    link = saved.parent / "link"
    link.symlink_to(saved)
    write_safetensors(vector_model(), link)
    assert link.is_symlink()
    assert read_safetensors(saved).transformer.outputs == 2


def test_a_new_file_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    write_safetensors(small_model(), tmp_path / "m")
    assert (tmp_path / "m").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_places_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()
    for path, reason in [
        (tmp_path, "is a directory"),
        (tmp_path / "pipe", "is not an ordinary file"),
        (tmp_path / "nowhere" / "m", "could not be written"),
        (tmp_path / "file" / "m", "could not be written"),
        (tmp_path / "a\0b", "could not be written"),
    ]:
        with pytest.raises(FileError, match=reason) as caught:
            write_safetensors(small_model(), path)
        assert str(caught.value).startswith(f"{path} ")
    assert {path.name for path in tmp_path.iterdir()} == {"pipe", "file"}


def test_what_no_file_can_hold_is_refused(tmp_path: Path) -> None:
    transformer = vector_model().transformer
    for array in (np.array([object()]), np.array(["text"]), np.array([1j])):
        encoded = EncodedTarget("network", "", {"w": array})
        with pytest.raises(FileError, match=r"no file can hold target\.w"):
            write_safetensors(claimed(transformer, encoded), tmp_path / "m")
    for certificate in ({"a": float("inf")}, {"a": object()}):
        with pytest.raises(FileError, match="not plain data"):
            write_safetensors(vector_model(), tmp_path / "m", certificate=certificate)
    assert list(tmp_path.iterdir()) == []


def test_the_door_loads_no_guest() -> None:
    code = (
        "import sys, hardmax.interop; "
        "sys.exit(any(m in sys.modules for m in ('torch', 'safetensors', 'onnx', 'jax')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_claims_of_older_files_are_about_float64() -> None:
    """They say neither a format nor what was asked: that is the error claimed."""
    target, shares = SomeTarget(1, 1), [Share("rounding", "float32 evaluation", 0.25)]
    source = VectorInput(np.ones((1, 1, 1)), np.zeros((1, 1)))
    transformer = Transformer(source, [], ReadOut(np.ones((1, 1)), np.zeros(1), 0))
    claim = Claim(target, Box([0.0], [1.0]), shares, format="float32", asked=0.5)
    description, tensors = describe(Construction(transformer, claim, None, "none"))
    kept = rebuild(description, tensors).join(target).claim
    assert (kept.format, kept.asked) == ("float32", 0.5)
    del description["claim"]["format"], description["claim"]["asked"]
    older = rebuild(description, tensors).join(target).claim
    assert (older.format, older.asked) == ("float64", 0.25)
