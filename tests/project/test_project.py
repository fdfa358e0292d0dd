"""The project itself: what is installed, what it loads, and whether the README tells the truth."""

from __future__ import annotations

import doctest
import importlib.metadata
import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner

import hardmax as hm
from hardmax.cli import main

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "hardmax"
README = (ROOT / "README.md").read_text(encoding="utf-8")
GUIDE = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
HEAVY = {"torch", "onnx", "jax", "matplotlib", "scipy", "numba", "flint", "pandas", "hypothesis"}


@pytest.fixture
def beside_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path)


def modules_after(program: str) -> set[str]:
    """The top-level modules that a fresh interpreter has loaded after a program."""
    report = "\nimport sys, json; print(json.dumps(sorted({m.split('.')[0] for m in sys.modules})))"
    done = subprocess.run(
        [sys.executable, "-c", program + report], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def fenced(language: str, page: str = README) -> list[str]:
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE)
    return [text for name, text in blocks if name == language]


def test_the_wheel_is_tested_and_not_the_source_folder() -> None:
    installed = Path(hm.__file__).resolve().parent
    places = {Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")}
    assert SOURCE.resolve() != installed
    assert installed.parent in places, f"{installed} is not in site-packages: run make test"


def test_the_wheel_holds_the_sources_of_today() -> None:
    installed = Path(hm.__file__).resolve().parent
    sources = {p.relative_to(SOURCE): p.read_bytes() for p in SOURCE.rglob("*.py")}
    assert {p: (installed / p).read_bytes() for p in sources if (installed / p).exists()} == sources
    assert {p.relative_to(installed) for p in installed.rglob("*.py")} == set(sources)
    command = "_hardmax_command.py"  # which the shell calls, beside the package
    assert (installed.parent / command).read_bytes() == (SOURCE.parent / command).read_bytes()


def test_one_version() -> None:
    assert PROJECT["project"]["version"] == hm.__version__
    assert importlib.metadata.version("hardmax") == hm.__version__
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{hm.__version__}]" in changes


def test_importing_hardmax_loads_nothing_and_its_values_numpy_alone() -> None:
    known = set(sys.stdlib_module_names) | modules_after("")
    assert modules_after("import hardmax") - known == {"hardmax"}
    loaded = modules_after("import hardmax; hardmax.Box, hardmax.compile, hardmax.regions") - known
    assert loaded == {"hardmax", "numpy"}


@pytest.mark.parametrize("arguments", [["--help"], ["compile", "--help"], ["--version"]])
def test_help_starts_without_heavy_guests(arguments: list[str]) -> None:
    program = f"from hardmax.cli import main\nmain({arguments!r}, standalone_mode=False)"
    loaded = modules_after(program)
    assert "click" in loaded
    assert not loaded & (HEAVY | {"rich", "safetensors"})
    assert ("numpy" in loaded) == ("compile" in arguments)


def test_the_help_says_of_each_command_what_the_command_says() -> None:
    context = click.Context(main)
    shown = main.get_help(context)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        assert command.name == name
        said = " ".join(command.get_short_help_str(limit=100).split())
        assert re.search(rf"^  {name} +{re.escape(said)}$", shown, flags=re.MULTILINE), name
    assert main.get_command(context, "conjure") is None


def test_the_readme_starts_with_code() -> None:
    before = README.split("```")[0]
    assert len(before.split()) <= 60
    assert any(block.startswith("make run ") for block in fenced(""))


NUMBER = re.compile(r"\d[\d,]*\.?\d*(?:e[-+]?\d+)?")


def agree(said: str, written: str) -> bool:
    """The same words and the same counts; measured numbers may differ by a per cent.

    A count is a whole number, with commas from 1,000 on. The rest is analysis, whose last digits
    change when a bound gets a little sharper, and that is no reason to rewrite the README.
    """
    if _words(said) != _words(written):
        return False
    pairs = zip(NUMBER.findall(said), NUMBER.findall(written), strict=True)
    return all(a == b or (_analytic(a) and _close(a, b)) for a, b in pairs)


def _words(text: str) -> str:
    return NUMBER.sub("#", re.sub("─+", "─", " ".join(text.split())))


def _analytic(number: str) -> bool:
    return bool(set(".e") & set(number)) or ("," not in number and int(number) >= 1000)


def _close(a: str, b: str) -> bool:
    first, second = (float(number.replace(",", "")) for number in (a, b))
    return abs(first - second) <= max(0.01 * second, 1e-9)  # float64 rounding is far below 1e-9


class Agreement(doctest.OutputChecker):
    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return agree(got, want)


@pytest.mark.usefixtures("beside_examples")
def test_the_readmes_python_session() -> None:
    session = "".join(fenced("python"))  # the second goes on where the first ends
    test = doctest.DocTestParser().get_doctest(session, {}, "README", "README.md", 0)
    assert len(test.examples) > 5
    said: list[str] = []
    runner = doctest.DocTestRunner(checker=Agreement())
    assert runner.run(test, out=said.append).failed == 0, "".join(said)
    assert hm.load_certificate("product.safetensors").verdict is hm.Verdict.PROVED


EFFORT = re.compile(r"(,? *[\d,]+ boxes)?, [\d.]+ s$", re.MULTILINE)  # of a proof: work and time


@pytest.mark.usefixtures("beside_examples")
def test_the_readmes_commands() -> None:
    product = hm.compile("x*y", on={"x": (-1, 1), "y": (-1, 1)})
    hm.save(product, "product.safetensors", hm.certify(product))
    blocks = [block for block in fenced("") if block.startswith("$ hardmax")]
    assert [block.split()[2] for block in blocks] == ["verify", "run", "plan", "compile"]
    for block in blocks:
        command, _, expected = block.partition("\n")
        arguments = [word.strip('"') for word in command.split()[2:]]
        result = CliRunner().invoke(main, arguments, env={"COLUMNS": "100"})
        assert result.exit_code == 0, result.stderr
        told, promised = (EFFORT.sub("", text).splitlines() for text in (result.stdout, expected))
        for said, written in zip(told, promised, strict=True):
            assert agree(said, written), f"README: {written}\nreally: {said}"


@pytest.mark.usefixtures("beside_examples")
def test_the_guides_snippets_run() -> None:
    snippets = fenced("python", GUIDE)
    assert len(snippets) >= 3
    exec("\n".join(snippets), {})  # one after another: later ones go on where the first ended
    assert Path("attention.svg").read_bytes().startswith(b"<?xml")


@pytest.mark.usefixtures("beside_examples")
def test_the_guides_commands_run() -> None:
    commands = "".join(fenced("", GUIDE)).splitlines()
    assert len(commands) >= 3
    for command in commands:
        name, *arguments = shlex.split(command)
        assert name == "hardmax"
        result = CliRunner().invoke(main, arguments, env={"COLUMNS": "100"})
        assert result.exit_code == 0, f"{command}\n{result.stderr}"


def test_the_readmes_pictures_are_there() -> None:
    pictures = re.findall(r"!\[[^]]+\]\(([^)]+)\)", README)
    says = {"docs/product.svg": "claimed: proved", "docs/diagram.svg": "temperature 0.1"}
    assert set(pictures) == set(says)
    for place in pictures:
        text = (ROOT / place).read_text(encoding="utf-8")
        assert text.startswith("<?xml")
        assert says[place] in text


def test_make_run_certifies() -> None:
    (command,) = re.findall(r"hardmax compile \"x\*y\" .*", (ROOT / "Makefile").read_text())
    assert " --certify " in command


def test_the_readmes_table_of_routes() -> None:
    network = hm.load_network(ROOT / "examples" / "bump.npz")
    rows = [line.strip("|").split("|") for line in README.splitlines() if line.startswith("| `")]
    assert [row[0].strip(" `") for row in rows] == ["attention", "attention-only", "feedforward"]
    for row in rows:
        bill = hm.compile(network, on="[-1,1]^2", error=1e-3, route=row[0].strip(" `")).bill
        counts = [bill.layers, bill.heads, bill.parameters, bill.nonzero_parameters]
        numbers = [*(f"{count:,}" for count in counts), f"{bill.largest_logit:.4g}"]
        assert agree("|".join(numbers), "|".join(cell.strip() for cell in row[3:])), numbers


def test_bump_is_what_its_maker_makes() -> None:
    made = runpy.run_path(str(ROOT / "examples" / "make_bump.py"))["bump"]().encode()
    stored = hm.load_network(ROOT / "examples" / "bump.npz").encode()
    assert stored.kind == made.kind
    assert stored.tensors.keys() == made.tensors.keys()
    for name, array in made.tensors.items():
        assert np.array_equal(stored.tensors[name], array)


def test_the_tour_runs(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "tour.py"), run_name="__main__")
    told = capsys.readouterr().out
    assert "measured on 100,000 points" in told
    assert told.count("claimed: proved") == 2


def test_the_doors_run(capsys: pytest.CaptureFixture[str]) -> None:
    """All but TransformerLens, which is run in its own environment."""
    for name in ("doors_onnx", "doors_jax", "doors_huggingface", "doors_torch"):
        runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
    told = capsys.readouterr().out
    assert told.count("PROVED in float32") == 2
    assert "cabea -> aebac\n" in told
    assert "products: [-0.2" in told
    assert "backwards: ['bac', 'aed']" in told
    assert "0.5 * -0.5 = -0.250, slopes [-0.4" in told
    assert "a folder with config.json, model.py, params.safetensors" in told
    assert "  abacab  [3, 2, 3, 1, 3, 2]\n" in told
    assert "read back: True\n" in told
    assert " 0.50 * -0.50 = -0.2" in told


def test_the_import_rules_cover_every_room() -> None:
    (layers,) = [c for c in PROJECT["tool"]["importlinter"]["contracts"] if c["type"] == "layers"]
    listed = {room.strip() for layer in layers["layers"] for room in re.split(r"[|:]", layer)}
    rooms = {p.stem for p in SOURCE.glob("*.py")} - {"__init__"}
    rooms |= {p.parent.name for p in SOURCE.glob("*/__init__.py")}
    assert listed | set(layers.get("exhaustive_ignores", ())) == rooms
    assert layers["exhaustive"] is True
    assert re.search(r"^\t\$\(BIN\)/lint-imports", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_every_function_is_typed() -> None:
    assert PROJECT["tool"]["mypy"]["disallow_untyped_defs"] is True
    assert "\t$(BIN)/mypy\n" in (ROOT / "Makefile").read_text()


def test_ci_runs_the_readmes_command() -> None:
    script = ROOT / ".ci" / "run"
    made = [line for line in script.read_text().splitlines() if line.startswith("make ")]
    assert made == ["make test", "make docs", "make test-lens", "make test-lens LENS=3"]
    assert os.access(script, os.X_OK)


def test_the_licence_is_whole() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert "2026 the hardmax authors" in text
