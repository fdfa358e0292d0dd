"""Certificates of folders: what floats can do to a stock class, a reader has to see or refuse."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import hardmax as hm
from hardmax import programs as p
from hardmax.interop import read_huggingface, write_huggingface
from hardmax.interop.huggingface._fold import trimmed_head
from hardmax.interop.huggingface._tensors import from_bytes, to_bytes
from hardmax.numerics import format_named

SHIFT = p.program(lambda s: s.tokens.at(s.index - 1))
Tensors = dict[str, np.ndarray]
HOMES = ("t5", "gpt2", "llama")


@cache
def model(name: str) -> hm.Construction:
    if name == "product":
        return hm.compile("x*y", on="[-1,1]^2", error=1e-2, float="float32")
    programs = {"shift": SHIFT, "seen before": p.seen_before}
    return hm.compile(programs[name], alphabet="abc", length=3, float="float32")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Path]:
    """Honest folders by home and model."""
    place = tmp_path_factory.mktemp("folders")
    found = {}
    for home in HOMES:
        for name in ("shift", "product"):
            found[home, name] = place / f"{home} {name}"
            write_huggingface(model(name), found[home, name], home, dtype="float32")
    return found


@pytest.mark.parametrize("home", HOMES)
@pytest.mark.parametrize("name", ["shift", "product"])
def test_folders_are_proved(home: str, name: str, folders: dict[tuple[str, str], Path]) -> None:
    """In their own format, with stock epsilons; what is assumed of the host is said."""
    found = hm.certify_folder(folders[home, name])
    assert found.verdict is hm.Verdict.PROVED
    assert found.format == "float32"
    assert found.formats["float32"] <= model(name).claim.error
    said = " ".join(found.assumptions)
    assert f"unmodified {home}" in said
    assert "rsqrt" in said
    assert ("variance is good to" in said) == (home == "gpt2")


@pytest.mark.parametrize("home", HOMES)
def test_folders_are_proved_in_bfloat16(home: str, tmp_path: Path) -> None:
    swap = p.program(lambda s: s.tokens.map({"a": "b", "b": "a"}))
    construction = hm.compile(swap, alphabet="ab", length=3, float="bfloat16")
    folder = write_huggingface(construction, tmp_path / "x", home, dtype="bfloat16").folder
    assert hm.certify_folder(folder).verdict is hm.Verdict.PROVED


# ---- what a host does is read from its files ---------------------------------------------------


def test_what_each_class_does_is_in_its_host(folders: dict[tuple[str, str], Path]) -> None:
    """Casts, masks and empty columns, as the classes' sources have them."""
    t5, gpt2, llama = (read_huggingface(folders[home, "shift"]).host for home in HOMES)
    assert {norm.variance_in for norm in t5.norms if norm} == {"float32"}
    assert {norm.computes_in for norm in t5.norms if norm} == {None}
    assert {norm.computes_in for norm in llama.norms if norm} == {"float32"}
    assert llama.softmax_in == "float32"  # of eager attention
    assert t5.mask == 2.0**100  # of the head that makes positions
    seen = read_huggingface(folders["gpt2", "shift"])
    assert gpt2.mask == llama.mask == format_named("float32").largest
    assert {norm.zeros for norm in gpt2.norms if norm} >= {1}
    assert all(host.classes for host in (t5, gpt2, llama))
    assert len(seen.labels) == len(gpt2.classes)


def test_a_mask_of_buckets_is_as_strong_as_it_says(tmp_path: Path) -> None:
    """What stands in the buckets of later tokens lowers scores, and no more."""
    folder = write_huggingface(model("seen before"), tmp_path / "x", "t5").folder
    assert read_huggingface(folder).host.mask == 2.0**100
    name = "transformer.encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"

    def weaker(tensors: Tensors) -> None:
        tensors[name][tensors[name] < -1e9] = -(2.0**30)

    altered(folder, weaker)
    assert read_huggingface(folder).host.mask == 2.0**30
    assert hm.certify_folder(folder).verdict is hm.Verdict.PROVED

    def louder(tensors: Tensors) -> None:
        weaker(tensors)
        for part, array in tensors.items():
            if part.endswith(("SelfAttention.q.weight", "SelfAttention.k.weight")):
                array *= 2.0**20

    altered(folder, louder)
    assert hm.certify_folder(folder).verdict is not hm.Verdict.PROVED


def test_what_is_left_of_the_error_asked_for_is_the_hosts(tmp_path: Path) -> None:
    """A sigmoid on its own route is exact to 1e-7, and asked for to 1e-2: the class may take it."""
    sigmoid = hm.compile("sigmoid(x)", on="[-1,1]", error=1e-2, route="direct", float="float32")
    assert sigmoid.claim.error < 1e-6
    folder = write_huggingface(sigmoid, tmp_path / "x", "gpt2").folder
    found = hm.certify_folder(folder)
    assert found.verdict is hm.Verdict.PROVED
    assert 0.99e-2 < found.claimed <= 1e-2
    assert found.formats["float32"] > sigmoid.claim.error


def test_a_coldness_in_the_queries_is_a_coldness_again(
    folders: dict[tuple[str, str], Path],
) -> None:
    """Powers of two apart, queries are multiples of it; the score is the same number."""
    for home in HOMES:
        head = read_huggingface(folders[home, "product"]).stored.transformer.heads[0]
        assert head.coldness != 1.0
        assert set(np.frexp(np.abs(head.query[head.query != 0.0]))[0]) == {0.5}


@pytest.mark.parametrize(
    ("query", "key", "cold"),
    [
        ([3.0, 0.0], [1.0, 0.5], 3.0),  # 3 times a power of two
        ([3.0, 6.0], [1.0, 0.5], 6.0),
        ([1.0, 0.3], [0.0, 5.0], 5.0),  # a key that is one number
        ([1.0, 0.3], [5.0, 5.0], 1.0),  # 5 x1 + 5 x2 are two products, each of them rounded
        ([1.0, 0.3], [0.0, 0.3], 0.3),
    ],
)
def test_where_a_coldness_is_found(query: list[float], key: list[float], cold: float) -> None:
    rows = [np.array([row]) for row in (query, key, [1.0, 0.0])]
    head = trimmed_head(*rows, np.array([[0.0], [1.0]]), causal=True)
    assert head is not None
    assert head.coldness == cold
    product = head.coldness * head.query[0][:, None] * head.key[0]
    assert np.array_equal(product, np.outer(query, key))


# ---- attacks -----------------------------------------------------------------------------------


def altered(folder: Path, change: Callable[[Tensors], None]) -> Path:
    file = folder / "model.safetensors"
    tensors, dtype = from_bytes(file.read_bytes())
    tensors = {name: array.copy() for name, array in tensors.items()}
    change(tensors)
    file.write_bytes(to_bytes(tensors, format_named(dtype)))
    return folder


_T5 = "transformer.encoder.block.0.layer"
_GPT2 = "transformer.h.0"
_LLAMA = "model.layers.0"
HUGE = 3e38


def cancelling_ballast(t: Tensors) -> None:
    """Two large constants whose products cancel over the reals and swallow all else in floats."""
    table = t["transformer.shared.weight"]
    table[:, -2] = table[:, -1]
    t[f"{_T5}.1.DenseReluDense.wi.weight"][0, -2:] = 1.0, -1.0


def a_bias_through_the_last_norm(t: Tensors) -> None:
    """The norm divides it, and not the bias beside it."""
    t["classifier.bias"][:] -= 1.0
    t["classifier.weight"][:, model_width(t)] += 1.0


def model_width(t: Tensors) -> int:
    """The first column that holds 1 for every symbol."""
    table = t["transformer.shared.weight"]
    return int(np.flatnonzero((table == 1.0).all(axis=0))[-1])


def infinity_times_nothing(t: Tensors) -> None:
    """A key of infinity for a query of 0: no number, and so no score."""
    name, q = f"{_T5}.0.SelfAttention.k.weight", t[f"{_T5}.0.SelfAttention.q.weight"]
    row = int(np.flatnonzero(~q.any(axis=1))[0])
    t[name][row, 0] = HUGE
    t["transformer.shared.weight"][0, 0] = 4.0


def a_dead_unit(t: Tensors) -> None:
    """A gate of infinity that is multiplied by 0."""
    gate = t[f"{_LLAMA}.mlp.gate_proj.weight"]
    gate[0] = HUGE
    t[f"{_LLAMA}.mlp.up_proj.weight"][0] = 0.0


def empty_columns_that_cancel(t: Tensors) -> None:
    """Over the reals they hold 0; a norm makes minus the rounded mean of both."""
    rows = t[f"{_GPT2}.mlp.c_fc.weight"]
    table = t["transformer.wte.weight"]
    empty = np.flatnonzero(~table.any(axis=0) & ~t["transformer.wpe.weight"].any(axis=0))
    spare = [c for c in empty if not rows[c].any() and c >= 8][-2:]
    rows[spare[0], 0], rows[spare[1], 0] = 2.0**90, -(2.0**90)


def positions_of_real_inputs(t: Tensors) -> None:
    """GPT-2 adds them to inputs_embeds, too."""
    t["transformer.wpe.weight"][1, 0] = 3.0


ATTACKS = [
    ("t5", "shift", cancelling_ballast, "one column that holds 1"),
    ("t5", "shift", a_bias_through_the_last_norm, "classes that read constant columns"),
    ("llama", "shift", a_dead_unit, "hidden units of several slopes"),
    ("gpt2", "shift", empty_columns_that_cancel, "empty columns that cancel"),
    ("gpt2", "product", positions_of_real_inputs, "adds positions to real inputs"),
]


@pytest.mark.parametrize(
    ("home", "name", "attack", "refusal"), ATTACKS, ids=[a[2].__name__ for a in ATTACKS]
)
def test_attacks_by_rounding_are_refused(
    home: str,
    name: str,
    attack: Callable[[Tensors], None],
    refusal: str,
    folders: dict[tuple[str, str], Path],
    tmp_path: Path,
) -> None:
    shutil.copytree(folders[home, name], tmp_path / "copy")
    with pytest.raises(hm.FileError, match=refusal):
        hm.certify_folder(altered(tmp_path / "copy", attack))


def test_infinity_times_nothing_is_no_proof(
    folders: dict[tuple[str, str], Path], tmp_path: Path
) -> None:
    shutil.copytree(folders["t5", "shift"], tmp_path / "copy")
    folder = altered(tmp_path / "copy", infinity_times_nothing)
    assert hm.certify_folder(folder).verdict is not hm.Verdict.PROVED


@pytest.mark.parametrize(
    ("file", "change", "refusal"),
    [
        ("tokenizer_config.json", {"extra_special_tokens": ["ab"]}, "extra_special_tokens"),
        ("tokenizer_config.json", {"tokenizer_class": "BertTokenizer"}, "tokenizer_class"),
        ("tokenizer_config.json", {"model_input_names": ["input_ids"]}, "model_input_names"),
        ("tokenizer_config.json", {"padding_side": "left"}, "padding_side"),
        ("config.json", {"torch_dtype": "bfloat16"}, "torch_dtype"),
        ("config.json", {"relative_attention_max_distance": 4}, "relative_attention_max_distance"),
        ("config.json", {"quantization_config": {"load_in_8bit": True}}, "quantization_config"),
        ("adapter_config.json", {}, "holds adapter_config.json, which changes what is loaded"),
        ("added_tokens.json", {"ab": 1}, "holds added_tokens.json"),
        ("special_tokens_map.json", {}, "holds special_tokens_map.json"),
    ],
)
def test_files_that_change_what_is_loaded(
    file: str,
    change: dict[str, object],
    refusal: str,
    folders: dict[tuple[str, str], Path],
    tmp_path: Path,
) -> None:
    shutil.copytree(folders["t5", "shift"], tmp_path / "copy")
    place = tmp_path / "copy" / file
    before = json.loads(place.read_text()) if place.exists() else {}
    place.write_text(json.dumps({**before, **change}))
    with pytest.raises(hm.FileError, match=refusal):
        hm.open_folder(tmp_path / "copy")


def quantised(data: bytes, code: str, every: bool) -> bytes:
    """A whole file of safetensors in which the first tensor, or each, has another type."""
    length = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    size, parts, offset = {"F16": 2}.get(code, 1), [], 0
    for number, name in enumerate(sorted(header.keys() - {"__metadata__"})):
        first, last = header[name]["data_offsets"]
        part = body[first:last]
        if every or not number:
            part, header[name]["dtype"] = bytes(len(part) // 4 * size), code
        header[name]["data_offsets"] = [offset, offset + len(part)]
        parts.append(part)
        offset += len(part)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + b"".join(parts)


@pytest.mark.parametrize("every", [True, False], ids=["each", "one"])
@pytest.mark.parametrize("code", ["I8", "U8", "F8_E4M3", "F8_E5M2", "F16"])
def test_weights_of_few_bits_are_refused(
    code: str, every: bool, folders: dict[tuple[str, str], Path], tmp_path: Path
) -> None:
    """Whole files as quantisers store them, which say what they are."""
    shutil.copytree(folders["t5", "shift"], tmp_path / "copy")
    file = tmp_path / "copy" / "model.safetensors"
    file.write_bytes(quantised(file.read_bytes(), code, every))
    with pytest.raises(hm.FileError, match=f"as {code}, but quantised weights") as refused:
        hm.certify_folder(tmp_path / "copy")
    assert "\n" not in str(refused.value)


def test_a_claim_that_tells_no_answers_apart_is_refused(tmp_path: Path) -> None:
    """Within 10 of a code everything is; the labels would be anybody's."""
    folder = write_huggingface(model("shift"), tmp_path / "x", "t5").folder
    loose = hm.load(folder / "hardmax.safetensors")
    shares = [type(one)(one.cause, one.where, 10.0) for one in loose.claim.ledger]
    claim = type(loose.claim)(loose.claim.target, loose.claim.domain, shares)
    hm.save(
        type(loose)(loose.transformer, claim, None, loose.route), folder / "hardmax.safetensors"
    )
    with pytest.raises(hm.FileError, match="at which its answers are not told apart"):
        hm.certify_folder(folder)


def test_large_codes_are_not_proved_in_a_short_format(tmp_path: Path) -> None:
    """Logits of 4001 are 3e7, which float32 knows to 2; those of 0 and 1 are small."""
    for codes, proved in (((0, 4000, 4001), False), ((0, 1, 2), True)):
        program = p.program(lambda s, c=codes: s.tokens.map(dict(zip("abc", c, strict=True))))
        construction = hm.compile(program, alphabet="abc", length=2, float="float32")
        folder = write_huggingface(construction, tmp_path / f"{codes[1]}", "t5").folder
        assert (hm.certify_folder(folder).verdict is hm.Verdict.PROVED) == proved


# ---- certificates in folders -------------------------------------------------------------------


def test_a_certificate_lies_beside_its_files(tmp_path: Path) -> None:
    folder = write_huggingface(model("shift"), tmp_path / "x", "t5").folder
    found = hm.certify_folder(folder, write=True)
    record = json.loads((folder / "certificate.json").read_text())
    assert set(record["sha256"]) == {path.name for path in folder.iterdir()} - {
        "README.md",
        "certificate.json",
    }
    opened = hm.open_folder(folder)
    assert opened.certificate is not None
    assert opened.certificate.verdict is found.verdict
    assert opened.altered == ()
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config))
    assert hm.open_folder(folder).altered == ("config.json",)
    (folder / "certificate.json").write_text("[]")
    with pytest.raises(hm.FileError, match="is no certificate of a folder"):
        hm.open_folder(folder)


# ---- folders are put in place whole ------------------------------------------------------------


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(hm.FileError, match=r"holds notes\.txt, which is not ours"):
        write_huggingface(model("shift"), tmp_path, "t5")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_write_that_fails_leaves_the_old_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    folder = write_huggingface(model("shift"), tmp_path / "x", "t5").folder
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    real, calls = os.replace, []

    def failing(source: object, target: object) -> None:
        calls.append(target)
        if len(calls) == 3:
            raise OSError(28, "No space left on device")
        real(source, target)  # type: ignore[arg-type]

    monkeypatch.setattr("hardmax._atomic.os.replace", failing)
    with pytest.raises(hm.FileError, match="could not be written"):
        write_huggingface(model("seen before"), folder, "t5")
    assert len(calls) == 3
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
