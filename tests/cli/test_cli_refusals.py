"""What the command line refuses: one line on stderr, exit code 2, and nothing written."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import hardmax as hm
from hardmax.cli import _compile, _run, _show, main

ON = ("--on", "[-1,1]^2", "--points", "100")


def run(*arguments: object, given: str | bytes | None = None) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments], input=given)


def listing(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def bad_networks(folder: Path) -> None:
    (folder / "notes.txt").write_text("not a network\n")
    (folder / "garbage.npz").write_bytes(b"PK\x03\x04 and nothing more")
    np.savez(folder / "foreign.npz", image=np.zeros((3, 3)))
    shapes = {"W1": (4, 2), "b1": (4,), "W2": (1, 5), "b2": (1,)}
    np.savez(folder / "unchained.npz", **{name: np.ones(shape) for name, shape in shapes.items()})
    np.savez(folder / "nan.npz", W1=[[math.nan, 1.0]], b1=[0.0])


def bad_models(folder: Path) -> None:
    from safetensors.numpy import save_file

    good = (folder / "t.safetensors").read_bytes()
    (folder / "truncated.safetensors").write_bytes(good[:-100])
    (folder / "altered.safetensors").write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    save_file({"image": np.zeros((3, 3))}, folder / "foreign.safetensors")


def bad_points(folder: Path) -> None:
    np.save(folder / "wide.npy", np.zeros((4, 3)))
    np.save(folder / "empty.npy", np.zeros((0, 2)))
    np.save(folder / "words.npy", np.array(["a", "b"]))
    np.savez(folder / "pair.npz", np.zeros((1, 2)), np.zeros((1, 2)))
    (folder / "ragged.csv").write_text("0.3, -0.5\n0.1\n")
    (folder / "binary.csv").write_bytes(b"\xff\xfe\xfd")


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small network net.npz, its model t.safetensors, and files with everything wrong."""
    folder = tmp_path_factory.mktemp("zoo")
    rng = np.random.default_rng(7)
    weights = [rng.normal(size=(6, 2)), rng.normal(size=(1, 6))]
    network = hm.ReluNetwork(weights, [rng.normal(size=6), rng.normal(size=1)])
    hm.save_network(network, folder / "net.npz")
    pieces = rng.normal(size=(3, 2, 2))
    hm.save_network(hm.MaxoutNetwork([pieces], [pieces[..., 0]]), folder / "maxout.npz")
    hm.save(hm.compile(network, on="[-1,1]^2", error=1e-3), folder / "t.safetensors")
    bad_networks(folder)
    bad_models(folder)
    bad_points(folder)
    (folder / "folder").mkdir()
    return folder


@pytest.fixture
def inside(zoo: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(zoo)
    return zoo


COMPILE = [
    (("nowhere.npz", *ON), "FileError: There is no file nowhere.npz"),
    (("garbage.npz", *ON), "FileError: .*foreign, truncated or altered"),
    (("foreign.npz", *ON), "FileError: .*holds no weights"),
    (("foreign.safetensors", *ON), "FileError: .*holds no weights"),
    (("t.safetensors", *ON), "FileError: .*holds a compiled model, not a network.*hardmax show"),
    (("unchained.npz", *ON), "ShapeError: .*Layer 2 reads 5 numbers, but layer 1 makes 4"),
    (("nan.npz", *ON), "ShapeError: .*(nan|finite)"),
    (("net.npz",), r'DomainError: .*2 inputs.*--on "\[-1,1\]\^2"'),
    (("net.npz", "--on", "[-inf,inf]^2"), "DomainError: The domain is unbounded"),
    (("net.npz", "--on", "[1,-1]^2"), "DomainError: The domain is inverted in coordinate 0"),
    (("net.npz", "--on", "[-1,1]^3"), "DomainError: .*2 inputs, but the domain has 3"),
    (("net.npz", "--on", "everywhere"), 'DomainError: The domain "everywhere" could not be read'),
    (("net.npz", *ON, "--error", "0"), "RequestError: The error must be a number > 0"),
    (("net.npz", *ON, "--error", "-1"), "RequestError: The error must be a number > 0"),
    (("net.npz", *ON, "--error", "nan"), "RequestError: The error must be a number > 0"),
    (("net.npz", *ON, "--error", "small"), "RequestError: The error must be .*but it is 'small'"),
    (("net.npz", *ON, "--error", "1e-30"), "PrecisionError: .*allows no less than"),
    (("net.npz", *ON, "--error", "1", "--hard"), "RequestError: --hard .*Drop one"),
    (("net.npz", *ON, "--route", "teleport"), "RequestError: There is no route 'teleport'"),
    (
        ("maxout.npz", *ON, "--route", "feedforward"),
        "RequestError: There is no route 'feedf.*Maxout",
    ),
    (("net.npz", *ON, "-o", "missing/t.safetensors"), "FileError: There is no folder .*missing"),
    (("net.npz", *ON, "-o", "folder"), "FileError: folder is a folder"),
    (("net.npz", *ON, "-o", "net.npz"), "FileError: net.npz is the network itself"),
]

RUN = [
    (("nowhere.safetensors", "1", "2"), "FileError: nowhere.safetensors was not found"),
    (("net.npz", "1", "2"), "FileError: net.npz is no compiled model.*compile it first"),
    (("notes.txt", "1", "2"), "FileError: notes.txt is not a safetensors file"),
    (("foreign.safetensors", "1", "2"), "FileError: .*not a hardmax model"),
    (("truncated.safetensors", "1", "2"), "FileError: .*truncated"),
    (("altered.safetensors", "1", "2"), "FileError: .*altered"),
    (("t.safetensors",), "RequestError: Say where to evaluate: 2 numbers"),
    (("t.safetensors", "1"), "ShapeError: The model reads 2 numbers, but 1 came"),
    (("t.safetensors", "1", "2", "3"), "ShapeError: The model reads 2 numbers, but 3 came"),
    (("t.safetensors", "1", "two"), "RequestError: 'two' is not a number"),
    (("t.safetensors", "-o", "1"), "RequestError: '-o' is not a number"),
    (("t.safetensors", "1", "-inf"), "ShapeError: .*finite"),
    (("t.safetensors", "x0=1", "y=2"), "RequestError: There is no input 'y'.*x0 to x1"),
    (("t.safetensors", "x0=1", "x0=2"), "RequestError: x0 is given twice"),
    (("t.safetensors", "x0=1"), "RequestError: x1 is missing"),
    (("t.safetensors", "x0=1", "2"), "RequestError: '2' has no name"),
    (("t.safetensors", "1", "2", "--input", "-"), "RequestError: .*not both"),
    (("t.safetensors", "--input", "nowhere.npy"), "FileError: nowhere.npy was not found"),
    (("t.safetensors", "--input", "nowhere.csv"), "FileError: nowhere.csv was not found"),
    (("t.safetensors", "--input", "wide.npy"), r"ShapeError: .*rows of 2 numbers.*\(4, 3\)"),
    (("t.safetensors", "--input", "empty.npy"), r"ShapeError: .*rows of 2 numbers.*\(0, 2\)"),
    (("t.safetensors", "--input", "words.npy"), "FileError: .*array of numbers"),
    (("t.safetensors", "--input", "pair.npz"), "FileError: .*one array, but it holds 2"),
    (("t.safetensors", "--input", "notes.txt"), "FileError: notes.txt .*line 1"),
    (("t.safetensors", "--input", "ragged.csv"), "ShapeError: .*1 numbers in line 2"),
    (("t.safetensors", "--input", "binary.csv"), "FileError: .*holds no text"),
    (("t.safetensors", "--input", "-"), "ShapeError: The standard input must hold rows"),
]

SHOW = [
    (("nowhere.npz",), "FileError: There is no file nowhere.npz"),
    (("nowhere.safetensors",), "FileError: nowhere.safetensors was not found"),
    (("folder",), "FileError: folder is a directory"),
    (("notes.txt",), "FileError: notes.txt is not a safetensors file"),
    (("foreign.npz",), "FileError: .*holds no weights"),
    (("nan.npz",), "ShapeError: .*(nan|finite)"),
    (("truncated.safetensors",), "FileError: .*truncated"),
    (("altered.safetensors",), "FileError: .*altered"),
    (("net.npz", "--weights"), "RequestError: --weights .*net.npz holds a network"),
]

CASES = [("compile", *case) for case in COMPILE]
CASES += [("run", *case) for case in RUN] + [("show", *case) for case in SHOW]


@pytest.mark.parametrize("json", [(), ("--json",)], ids=["", "json"])
@pytest.mark.parametrize(("command", "arguments", "sentence"), CASES)
def test_one_line_and_nothing_written(
    inside: Path, command: str, arguments: tuple[str, ...], sentence: str, json: tuple[str, ...]
) -> None:
    before = listing(inside)
    output = ("-o", "new.safetensors") if command == "compile" and "-o" not in arguments else ()
    result = run(command, *arguments, *output, *json)
    assert re.match(sentence, result.stderr)
    assert result.stderr.count("\n") == 1
    assert result.stderr.endswith("\n")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert listing(inside) == before


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("compile",), "Missing argument 'SOURCE'"),
        (("compile", "net.npz", "--points", "0"), "'--points'"),
        (("compile", "net.npz", "--seed", "-1"), "'--seed'"),
        (("run", "t.safetensors", "--jsn"), "No such option.*--jsn"),
        (("fly",), "No such command 'fly'"),
    ],
)
def test_usage_errors_exit_with_2(inside: Path, arguments: tuple[str, ...], reason: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert re.search(rf"^Error: .*{reason}", result.stderr, re.MULTILINE)
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("place", ["missing/t.safetensors", "closed/t.safetensors"])
def test_the_output_is_checked_before_the_work(
    inside: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    (tmp_path / "closed").mkdir()
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda p, m: "closed" not in str(p) and allowed(p, m))
    monkeypatch.setattr(_compile, "compile", lambda *_, **__: pytest.fail("worked in vain"))
    result = run("compile", "net.npz", *ON, "-o", tmp_path / place)
    assert result.exit_code == 2
    assert re.match(r"FileError: (There is no|The) folder .*(missing|closed)", result.stderr)


@pytest.mark.parametrize("json", [(), ("--json",)], ids=["", "json"])
def test_a_broken_claim_is_told_and_not_saved(
    inside: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, json: tuple[str, ...]
) -> None:
    place = tmp_path / "t.safetensors"
    monkeypatch.setattr(_compile, "measure", lambda *_, **__: hm.Measurement(0.5, (0.0, 0.0), 1))
    result = run("compile", "net.npz", *ON, "-o", place, *json)
    assert result.exit_code == 1
    assert result.stderr == "The measured error breaks the claim: nothing was saved.\n"
    assert "0.5" in result.stdout
    assert "measured <=" not in result.stdout
    assert "saved " not in result.stdout
    assert not place.exists()


def test_a_broken_claim_is_told_by_run(inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = hm.load("t.safetensors")
    loose = hm.Construction(
        model.transformer,
        hm.Claim(model.claim.target, model.claim.domain, ()),
        model.witness,
        model.route,
    )
    monkeypatch.setattr(_run, "open_model", lambda _: loose)
    result = run("run", "t.safetensors", "0.3", "0.5")
    assert result.exit_code == 1
    assert result.stderr == "A difference breaks the claim: do not use this model.\n"
    assert run("run", "t.safetensors", "3", "5").exit_code == 0  # outside nothing is claimed


def test_an_interruption_after_saving_names_the_file(
    inside: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    place = tmp_path / "t.safetensors"
    monkeypatch.setattr(_compile, "_report", interrupt)
    result = run("compile", "net.npz", *ON, "-o", place)
    assert result.exit_code == 130
    assert result.stderr == f"Interrupted; {place} was written.\n"
    assert hm.load(place).claim.error <= 1e-3


@pytest.mark.parametrize(
    ("failure", "sentence"),
    [
        (OSError(28, "No space left"), "OSError: The output could not be written (No space left)."),
        (MemoryError(), "MemoryError: This does not fit into memory; try a smaller source."),
    ],
)
def test_a_machine_that_gives_up(
    inside: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception, sentence: str
) -> None:
    def fail(_: object) -> None:
        raise failure

    monkeypatch.setattr(_show, "print_json", fail)
    result = run("show", "net.npz", "--json")
    assert (result.exit_code, result.stderr) == (2, f"{sentence}\n")
