"""`hardmax export`: what it writes runs, and what it refuses is one sentence."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from click.testing import CliRunner, Result

import hardmax as hm
from hardmax.cli import main
from hardmax.cli._export import TOOLS
from hardmax.core import fingerprint
from hardmax.interop import export_lens_files, read_huggingface, read_onnx


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def answer(*arguments: object) -> dict:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def refusal(*arguments: object) -> str:
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    return result.stderr


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certified model of x*y in a file."""
    path = tmp_path_factory.mktemp("models") / "product.safetensors"
    model = hm.compile("x*y", on="[-1,1]^2", error=1e-2)
    hm.save(model, path, hm.certify(model))
    return path


@pytest.fixture(scope="module")
def reverse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "reverse.safetensors"
    hm.save(hm.compile(hm.programs.reverse, alphabet="abc", length=3), path)
    return path


def test_onnx(product: Path, tmp_path: Path) -> None:
    place = tmp_path / "product.onnx"
    said = answer("export", product, "--to", "onnx", "-o", place, "--dtype", "float32")
    model, certificate = hm.load_certified(product)
    assert said == {
        "to": "onnx",
        "written": str(place),
        "bytes": place.stat().st_size,
        "dtype": "float32",
        "certified": certificate.formats["float32"],
        "fingerprint": fingerprint(model.transformer),
    }
    session = onnxruntime.InferenceSession(place)
    (found,) = session.run(None, {"x": np.array([[0.5, -0.5]], dtype=np.float32)})
    assert abs(found[0, 0] + 0.25) <= certificate.formats["float32"]
    texts = {prop.key: prop.value for prop in onnx.load(place).metadata_props}
    assert json.loads(texts["hardmax.certificate"]) == json.loads(json.dumps(certificate.as_dict()))


def test_the_claims_format_is_the_default(product: Path, tmp_path: Path) -> None:
    result = run("export", product, "--to", "onnx", "-o", tmp_path / "m.onnx")
    assert result.exit_code == 0
    assert "(float64, " in result.stdout
    assert "<= 0.00975 claimed, in float64" in result.stdout
    transformer = hm.load(product).transformer
    assert fingerprint(read_onnx(tmp_path / "m.onnx")) == fingerprint(transformer)


def test_a_format_without_a_proof_is_said(product: Path, reverse: Path, tmp_path: Path) -> None:
    place = tmp_path / "m.onnx"
    half = run("export", product, "--to", "onnx", "-o", place, "--dtype", "float16")
    assert "but not below the 0.00975 claimed, in float16" in half.stdout
    without = run("export", reverse, "--to", "onnx", "-o", place)
    assert "nothing in float64: FILE holds no proof" in without.stdout


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_folders_of_frameworks(framework: str, reverse: Path, tmp_path: Path) -> None:
    place = tmp_path / "f"
    said = answer("export", reverse, "--to", framework, "-o", place, "--dtype", "float32")
    names = {"config.json", "model.py", "params.safetensors"}
    assert {path.name for path in place.iterdir()} == names
    assert said["bytes"] == sum(path.stat().st_size for path in place.iterdir())
    assert said["certified"] is None
    assert json.loads((place / "config.json").read_text())["fingerprint"] == said["fingerprint"]


def test_huggingface(reverse: Path, tmp_path: Path) -> None:
    place = tmp_path / "f"
    said = answer("export", reverse, "--to", "huggingface", "-o", place, "--architecture", "t5")
    assert (said["architecture"], said["class"]) == ("t5", "T5ForTokenClassification")
    assert (said["norm"], said["certified"]) == ("ballast", None)
    assert read_huggingface(place).class_name == said["class"]
    shown = run("export", reverse, "--to", "huggingface", "-o", place, "--norm", "epsilon")
    assert "transformers.T5ForTokenClassification.from_pretrained(" in shown.stdout
    assert "norm        epsilon" in shown.stdout
    assert f"certified   by itself: hardmax verify {place} --write" in shown.stdout


@pytest.mark.parametrize("source", ["reverse", "product"])
def test_lens(source: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Files for TransformerLens, which need not be there; weights are rounded to the format."""
    given, place = request.getfixturevalue(source), tmp_path / "f"
    said = answer("export", given, "--to", "lens", "-o", place, "--dtype", "float32")
    model, certificate = hm.load_certified(given)
    proved = None if certificate is None else certificate.formats["float32"]
    assert (said["to"], said["written"], said["certified"]) == ("lens", str(place), proved)
    assert said["bytes"] == sum(path.stat().st_size for path in place.iterdir())
    assert (said["dtype"], said["fingerprint"]) == ("float32", fingerprint(model.transformer))
    export_lens_files(model, tmp_path / "same", "float32")
    for path in (tmp_path / "same").iterdir():
        assert (place / path.name).read_bytes() == path.read_bytes()
    shown = run("export", given, "--to", "lens", "-o", place).stdout
    assert f"open it     hardmax.interop.read_lens_files({str(place)!r})" in shown


def test_gated_models_name_their_home(tmp_path: Path) -> None:
    gated = hm.compile("x*y", on="[-1,1]^2", error=1e-3, route="gated")
    hm.save(gated, tmp_path / "gated.safetensors")
    for kind in ("lens", "huggingface"):
        to = ("--to", kind, "-o", tmp_path / "m")
        home = () if kind == "lens" else ("--architecture", "t5")
        said = refusal("export", tmp_path / "gated.safetensors", *to, *home)
        assert "does not fit: it has gated hidden units" in said
        assert "nearest home that has them is llama" in said


def test_what_is_refused(product: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "m"
    to = ("--to", "onnx", "-o", place)
    assert "--to is one of huggingface, onnx, torch, jax, lens, not 'keras'" in refusal(
        "export", product, "--to", "keras", "-o", place
    )
    assert "are for --to huggingface, not for onnx" in refusal(
        "export", product, *to, "--norm", "epsilon"
    )
    assert "no float format 'half'" in refusal("export", product, *to, "--dtype", "half")
    assert "do not compute in bfloat16" in refusal("export", product, *to, "--dtype", "bfloat16")
    assert "architecture is one of" in refusal(
        "export", product, "--to", "huggingface", "-o", place, "--architecture", "bert"
    )
    assert "is the model itself" in refusal("export", product, "--to", "onnx", "-o", product)
    assert "is a file, but --to jax writes a folder" in refusal(
        "export", product, "--to", "jax", "-o", product
    )
    assert "was not found" in refusal("export", tmp_path / "nothing", *to)
    assert "not in float16" in refusal(
        "export", product, "--to", "lens", "-o", place, "--dtype", "float16"
    )

    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr("hardmax.interop._guests.version", missing)
    assert "pip install 'hardmax[onnx]'" in refusal("export", product, *to)
    assert not list(tmp_path.iterdir())


def test_a_hard_model_is_told_to_be_softened(tmp_path: Path) -> None:
    network = hm.PiecewiseLinear.from_knots([0, 1, 2], [0.0, 1.0, 0.0])
    hm.save(hm.compile(network, on=(0, 2), error=None), tmp_path / "hard.safetensors")
    for kind in TOOLS:
        said = refusal("export", tmp_path / "hard.safetensors", "--to", kind, "-o", tmp_path / "m")
        assert said.startswith("SemanticsError: Head 0 of sublayer 0 is a hardmax")


def test_help_names_every_tool() -> None:
    shown = run("export", "--help").stdout
    assert all(f"  {name} " in shown for name in TOOLS)


# ---- suites --------------------------------------------------------------------------------------


def test_a_suite_is_written_and_each_folder_is_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hardmax.suites._model.LARGEST", 20_000)
    options = ("--programs", "histogram, addition", "--symbols", "2", "--length", "4")
    place = tmp_path / "suite"
    shown = run("export", "--suite", place, *options).stdout
    assert f"written     {place}: 1 program, proved folder by folder" in shown
    assert "left out    addition: The legible model has" in shown
    said = answer("export", "--suite", place, *options)
    assert said["programs"] == ["histogram"]
    for part in ("hardmax.safetensors", "huggingface", "lens"):
        proved = answer("verify", place / "histogram" / part)
        assert (proved["verdict"], proved["holds"]) == ("PROVED", True)


def test_what_no_suite_is_ends_in_a_sentence(product: Path, tmp_path: Path) -> None:
    assert "hardmax export --suite FOLDER" in refusal("export")
    assert "hardmax export FILE --to TOOL -o PLACE" in refusal("export", product)
    place = tmp_path / "s"
    assert "leave FILE and -o out" in refusal("export", product, "--suite", place, "-o", place)
    given = ("export", product, "--to", "onnx", "-o", tmp_path / "m.onnx", "--seed", "1")
    assert "This is for --suite: leave --seed out" in refusal(*given)
    assert "no program 'rot13'" in refusal("export", "--suite", place, "--programs", "rot13")
    assert "only is one of hf, lens" in refusal("export", "--suite", place, "--only", "onnx")
    assert not place.exists()


def test_an_interrupted_suite_says_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran, own = [], hm.interop.export_lens_files

    def stopped(*given: object) -> object:
        ran.append(given)
        if len(ran) == 2:
            raise KeyboardInterrupt
        return own(*given)

    monkeypatch.setattr(hm.interop, "export_lens_files", stopped)
    options = ("--programs", "histogram,shift", "--symbols", "2", "--length", "2", "--only", "lens")
    result = CliRunner().invoke(main, ["export", "--suite", str(tmp_path / "s"), *options])
    assert result.exit_code == 130
    assert "a suite with 1 of 2 (the same command goes on with it) was written" in result.stderr
    assert sorted(path.name for path in (tmp_path / "s").iterdir()) == ["histogram", "index.json"]
