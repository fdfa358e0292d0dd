"""`hardmax stability`: models with points or words, bare arrays, refusals in one sentence."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import hardmax as hm
from hardmax.cli._stability import show_stability
from hardmax.geometry.temperature import stability, stability_of


def arrays_in(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as file:
        return dict(file)


def run(*arguments: object, given: str | None = None) -> Result:
    return CliRunner().invoke(show_stability, [str(a) for a in arguments], input=given)


def answer(*arguments: object) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of points with points, a model of words, and arrays of three heads."""
    place = tmp_path_factory.mktemp("stability")
    rng = np.random.default_rng(0)
    hm.save(hm.compile("max(x, y)", on={"x": (-1, 1), "y": (-1, 1)}), place / "max.safetensors")
    np.savez(place / "points.npz", points=rng.uniform(-1, 1, size=(6, 2)))
    words = hm.compile(hm.programs.reverse, alphabet="abc", length=4)
    hm.save(words, place / "reverse.safetensors")
    (place / "words.txt").write_text("abca\nb\n")
    q, k, v = rng.normal(size=(3, 3, 5, 4))
    np.savez(place / "heads.npz", q=q, k=k, v=v)
    np.savez(place / "masked.npz", q=q, k=k, v=v, mask=np.tri(5, dtype=bool), bias=np.ones((5, 5)))
    return place


def test_points(folder: Path) -> None:
    record = answer(folder / "max.safetensors", folder / "points.npz", "--tolerance", "0.05")
    model = hm.load(folder / "max.safetensors")
    points = arrays_in(folder / "points.npz")["points"]
    assert (
        record["heads"] == stability(model.transformer, points, tolerance=0.05).as_dict()["heads"]
    )
    assert (record["tolerance"], record["error"], record["plot"]) == (0.05, None, None)


def test_another_temperature_and_the_critical_coldness(folder: Path) -> None:
    files = (folder / "max.safetensors", folder / "points.npz")
    record = answer(*files, "--temperature", "0.5", "--error", "0.01")
    points = arrays_in(files[1])["points"]
    report = stability(hm.load(files[0]), points, temperature=0.5)
    assert record["heads"][0]["for_share"]["temperature"] == 0.5
    assert record["critical_coldness"] == report.critical_coldness(0.01)
    text = run(*files, "--temperature", "0.5", "--error", "0.01").stdout
    assert text.startswith(str(report))
    told = re.search(r"from coldness (\S+) on \(temperature (\S+) and below\)", text)
    assert told is not None
    needed = report.critical_coldness(0.01)  # what is told is rounded to the safe side
    assert needed <= float(told[1]) <= needed * 1.0001
    assert 0.9999 / needed <= float(told[2]) <= 1.0 / needed


def test_words_from_a_file_and_from_the_command_line(folder: Path) -> None:
    model = folder / "reverse.safetensors"
    typed = answer(model, "--words", "abca", "--words", "b")
    assert typed == answer(model, folder / "words.txt")
    wanted = stability(hm.load(model).transformer, ["abca", "b"]).as_dict()
    assert typed["heads"] == wanted["heads"]
    assert run(model, "-", given="abca\nb\n").stdout == run(model, folder / "words.txt").stdout


def test_arrays(folder: Path) -> None:
    arrays = arrays_in(folder / "heads.npz")
    q, k, v = (arrays[name] for name in "qkv")
    record = answer(folder / "heads.npz", "--scale", "0.5", "--causal", "--temperature", "0.25")
    wanted = stability_of(q, k, v, "causal", 0.5, 0.25).report().as_dict()
    assert record["heads"] == wanted["heads"]
    masked = answer(folder / "masked.npz")
    wanted = stability_of(q, k, v, "causal", bias=np.ones((5, 5))).report().as_dict()
    assert masked["heads"] == wanted["heads"]


def test_a_table_and_a_picture(folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "heads.svg"
    result = run(folder / "heads.npz", "--plot", place)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("3 heads, 15 queries: ")
    assert result.stdout.endswith(f"drawn {place}\n")
    assert max(map(len, result.stdout.splitlines()[:-1])) <= 80
    assert "tolerance 0.01" in place.read_text()
    assert answer(folder / "heads.npz", "--plot", place)["plot"] == str(place)


def test_ties_and_errors_that_need_nothing_are_told(folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "tied.npz"
    np.savez(place, q=np.zeros((2, 1)), k=np.ones((2, 1)), v=np.eye(2))
    assert "no coldness guarantees an output error of 0.1" in run(place, "--error", "0.1").stdout
    assert answer(place, "--error", "0.1")["critical_coldness"] is None
    assert "any temperature guarantees" in run(place, "--error", "2").stdout


def test_help_has_an_example() -> None:
    text = run("--help").stdout
    assert "hardmax stability product.safetensors points.npz" in text


def test_refusals(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.npz").write_bytes(b"no archive")
    np.savez(tmp_path / "short.npz", q=np.ones((2, 1)))
    np.savez(tmp_path / "pickled.npz", q=np.array([{}]), k=np.ones((1, 1)), v=np.ones((1, 1)))
    np.savez(tmp_path / "wide.npz", points=np.ones((3, 5)))
    np.savez(tmp_path / "nan.npz", points=np.full((3, 2), np.nan))
    model, words, heads = (
        folder / n for n in ("max.safetensors", "reverse.safetensors", "heads.npz")
    )
    points = folder / "points.npz"
    cases: list[tuple[tuple[object, ...], str]] = [
        ((model, points, "--temperature", "0"), "A temperature must be a finite number > 0"),
        ((model, points, "--temperature", "cold"), "--temperature takes a number, but 'cold'"),
        ((model, points, "--tolerance", "nan"), "--tolerance takes a finite number"),
        ((model, points, "--tolerance", "2"), "between 0 and 1"),
        ((model, points, "--error", "0"), "error must be a finite number > 0"),
        ((model, points, "--scale", "0.5"), "--scale belongs to arrays"),
        ((model, points, "--causal"), "--causal belongs to arrays"),
        ((model,), "Say on which inputs: an .npz, .npy or text file with rows of 2 numbers."),
        ((model, tmp_path / "wide.npz"), "must hold rows of 2 numbers"),
        ((model, tmp_path / "nan.npz"), "must be finite numbers"),
        ((model, "--words", "ab"), "--words are for models of sequences"),
        ((model, points, "--plot", tmp_path / "x.gif"), "A picture is an .svg, a .png or a .pdf"),
        ((words,), "Say on which word"),
        ((words, "--words", "xyz"), "not in the alphabet"),
        ((heads, points), "give the .npz file alone"),
        ((heads, "--scale", "-1"), "scale must be a finite number > 0"),
        ((folder / "masked.npz", "--causal"), "holds a mask of its own"),
        ((tmp_path / "none.npz",), "was not found"),
        ((tmp_path / "none.safetensors", points), "was not found"),
        ((tmp_path / "broken.npz",), "could not be read as arrays"),
        ((tmp_path / "short.npz",), "must hold k and v, but it holds q"),
        ((tmp_path / "pickled.npz",), "holds pickled objects in"),
    ]
    for arguments, sentence in cases:
        result = run(*arguments)
        assert result.exit_code == 2, arguments
        assert sentence in result.stderr, (arguments, result.stderr)
        assert len(result.stderr.splitlines()) == 1
        assert result.stdout == ""
