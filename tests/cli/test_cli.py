"""The command line: what it prints and what it writes."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import hardmax as hm
from hardmax.cli import main
from hardmax.core import fingerprint, to_text

POINTS = ("--points", "2000")


def run(*arguments: object, given: str | bytes | None = None) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments], input=given)


def answer(*arguments: object, given: str | bytes | None = None) -> dict:
    result = run(*arguments, "--json", given=given)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def real(*arguments: object, **options: object) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "hardmax", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


def relu(*widths: int) -> hm.ReluNetwork:
    rng = np.random.default_rng(7)
    pairs = list(zip(widths[1:], widths[:-1], strict=True))
    weights = [rng.normal(size=pair) / math.sqrt(pair[1]) for pair in pairs]
    return hm.ReluNetwork(weights, [rng.normal(size=out) for out, _ in pairs])


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of networks, points, and a compiled model t.safetensors of two inputs."""
    folder = tmp_path_factory.mktemp("zoo")
    small = relu(2, 6, 2)
    hm.save_network(relu(8, 32, 32, 1), folder / "net.npz")
    hm.save_network(small, folder / "small.npz")
    pieces = np.random.default_rng(1).normal(size=(3, 2, 2))
    hm.save_network(hm.MaxoutNetwork([pieces], [pieces[..., 0]]), folder / "maxout.npz")
    model = folder / "t.safetensors"
    hm.save(hm.compile(small, on="[-1,1]^2", error=1e-3), model)
    np.save(folder / "points.npy", [[0.3, -0.5], [0.1, 0.2]])
    np.savez(folder / "points.npz", np.array([[0.3, -0.5]]))
    (folder / "rows.csv").write_text("0.3, -0.5\n\n0.1, 0.2\n")
    return folder


@pytest.fixture
def inside(zoo: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(zoo)
    return zoo


def test_the_issues_own_command(zoo: Path, tmp_path: Path) -> None:
    place = tmp_path / "t.safetensors"
    command = ("compile", zoo / "net.npz", "--on", "[-1,1]^8", "--error", "1e-3")
    done = real(*command, "--route", "attention", "-o", place, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    record = json.loads(done.stdout)
    model = hm.load(place)
    assert record["bill"] == model.bill.as_dict()
    assert record["bill"]["source_parameters"] == 1377
    claim = record["claim"]
    assert claim["domain"] == "[-1,1]^8"
    assert math.fsum(share["amount"] for share in claim["ledger"]) == claim["error"]
    assert {"softening", "rounding", "margin"} <= {share["cause"] for share in claim["ledger"]}
    assert all(share["where"] for share in claim["ledger"])
    assert 0 < record["measured"] <= claim["error"] <= 1e-3
    assert record["measurement"]["points"] == 100_000
    worst = np.array(record["measurement"]["at"])
    assert abs(model(worst) - model.claim.target(worst)).max() == pytest.approx(
        record["measured"],
        abs=1e-12,  # one point and a batch may be summed in another order
    )
    assert record["route"] == "attention"
    assert record["fingerprint"] == fingerprint(model.transformer)
    assert record["saved"] == str(place)


@pytest.mark.parametrize("route", ["attention", "attention-only", "feedforward"])
def test_people_see_the_whole_bill_and_a_ledger_that_adds_up(zoo: Path, route: str) -> None:
    result = run("compile", zoo / "small.npz", "--on", "[-1,1]^2", "--route", route, *POINTS)
    assert (result.exit_code, result.stderr) == (0, "")
    record = answer("compile", zoo / "small.npz", "--on", "[-1,1]^2", "--route", route, *POINTS)
    rows = [line.split("  ") for line in result.stdout.splitlines()]
    labels = {row[0].removesuffix(" (bytes)").replace(" ", "_") for row in rows}
    assert set(record["bill"]) - {"source_parameters"} <= labels
    ratio = record["bill"]["nonzero_parameters"] / record["bill"]["source_parameters"]
    assert f"{ratio:.2f}x" in result.stdout
    for share in record["claim"]["ledger"]:
        assert any(r[0] == share["cause"] and f"{share['amount']:.6g}" in r[-1] for r in rows)
    assert any(r[0] == "claimed" and f"{record['claim']['error']:.6g}" in r[-1] for r in rows)
    line = f"{record['measured']:.6g} measured <= {record['claim']['error']:.6g} claimed <= 0.001"
    assert line in result.stdout
    assert "not saved" in result.stdout
    assert route in result.stdout


def test_hard_keeps_the_skeleton(zoo: Path, tmp_path: Path) -> None:
    place = tmp_path / "hard.safetensors"
    record = answer(
        "compile", zoo / "small.npz", "--on", "[-1,1]^2", "--hard", "-o", place, *POINTS
    )
    assert record["semantics"] == "hardmax"
    assert hm.load(place).transformer.is_hard
    assert record["claim"]["error"] < 1e-12  # rounding of a dozen additions of numbers near 1
    assert {share["cause"] for share in record["claim"]["ledger"]} == {"rounding", "margin"}


def test_seed_and_points_choose_the_sample(zoo: Path) -> None:
    command = ("compile", zoo / "small.npz", "--on", "[-1,1]^2", "--points", 500, "--seed")
    first, again, other = answer(*command, 3), answer(*command, 3), answer(*command, 4)
    assert first == again
    assert first["measurement"]["points"] == 500
    assert first["measurement"]["at"] != other["measurement"]["at"]


@pytest.mark.parametrize("command", ["compile", "run", "show"])
def test_help_comes_with_an_example(command: str) -> None:
    for flag in ("--help", "-h"):
        result = run(command, flag)
        assert result.exit_code == 0
        assert "Example" in result.stdout
        assert f"hardmax {command} " in result.stdout.split("Example")[1]


def test_bare_call_and_version() -> None:
    bare = run()
    assert bare.exit_code == 0
    assert bare.stdout == run("--help").stdout
    assert {"compile", "run", "show"} <= set(bare.stdout.split("Commands:")[1].split())
    for command in ("compile", "run", "show"):
        assert f"\n    hardmax {command} " in bare.stdout
    assert run("--version").stdout == f"hardmax {hm.__version__}\n"


@pytest.mark.parametrize(
    "values",
    [
        ("-0.3", "0.5", "--json"),
        ("--json", "-0.3", "0.5"),
        ("-3e-1", "--json", "+.5"),
        ("x1=0.5", "x0=-0.3", "--json"),
        ("--json", "--", "-0.3", "0.5"),
    ],
)
def test_a_point_as_people_type_it(inside: Path, values: tuple[str, ...]) -> None:
    result = run("run", "t.safetensors", *values)
    assert result.exit_code == 0, result.stderr
    (point,) = json.loads(result.stdout)["points"]
    model = hm.load("t.safetensors")
    assert point["input"] == [-0.3, 0.5]
    assert point["output"] == model([[-0.3, 0.5]])[0].tolist()
    assert point["target"] == model.claim.target([[-0.3, 0.5]])[0].tolist()
    assert point["difference"] <= model.claim.error
    assert point["inside"] is True


def test_run_prints_model_target_and_bound(inside: Path) -> None:
    result = run("run", "t.safetensors", "0.3", "-0.5")
    model = hm.load("t.safetensors")
    assert (result.exit_code, result.stderr) == (0, "")
    for value in (*model([0.3, -0.5]), *model.claim.target([0.3, -0.5])):
        assert f"{value:.9g}" in result.stdout
    assert f"{model.claim.error:.6g}" in result.stdout


@pytest.mark.parametrize(
    ("place", "given", "count"),
    [
        ("points.npy", None, 2),
        ("points.npz", None, 1),
        ("rows.csv", None, 2),
        ("-", "0.3 -0.5\n", 1),
        ("-", "0.3,-0.5\n0.1 0.2", 2),
    ],
)
def test_many_points(inside: Path, place: str, given: str | None, count: int) -> None:
    points = answer("run", "t.safetensors", "--input", place, given=given)["points"]
    assert [p["input"] for p in points] == [[0.3, -0.5], [0.1, 0.2]][:count]


def test_long_tables_say_what_they_leave_out(inside: Path) -> None:
    rows = "0.5 0.5\n" * 100
    result = run("run", "t.safetensors", "--input", "-", given=rows)
    assert "and 80 more points" in result.stdout  # two outputs, forty lines
    assert len(answer("run", "t.safetensors", "--input", "-", given=rows)["points"]) == 100


def test_no_promise_outside_the_domain(inside: Path) -> None:
    result = run("run", "t.safetensors", "0", "-1.5")
    assert result.exit_code == 0
    assert result.stderr == "outside the claimed domain [-1,1]^2: no promise\n"
    assert "none" in result.stdout
    mixed = run("run", "t.safetensors", "--input", "-", "--json", given="0 2\n-1 1\n")
    assert mixed.stderr.startswith("1 of 2 points lie outside the claimed domain")
    assert [p["inside"] for p in json.loads(mixed.stdout)["points"]] == [False, True]


def test_show_a_model(inside: Path) -> None:
    model = hm.load("t.safetensors")
    record = answer("show", "t.safetensors")
    assert record["bill"] == model.bill.as_dict()
    assert record["claim"]["error"] == model.claim.error
    assert record["fingerprint"] == fingerprint(model.transformer)
    assert len(record["witness"]) == len(model.witness.holdings)
    text = run("show", "t.safetensors").stdout
    for part in (record["fingerprint"], "relu network 2-6-2", "[-1,1]^2", "witness", "softening"):
        assert part in text
    weights = to_text(model.transformer)
    assert run("show", "t.safetensors", "--weights").stdout == weights
    assert answer("show", "t.safetensors", "--weights")["weights"] == weights


def test_show_a_network(inside: Path) -> None:
    record = answer("show", "net.npz")
    assert (record["kind"], record["parameters"]) == ("relu", 1377)
    assert record["tensors"]["W2"] == [32, 32]
    assert record["routes"] == ["attention", "attention-only", "feedforward"]
    assert answer("show", "maxout.npz")["routes"] == ["attention", "attention-only"]
    text = run("show", "net.npz").stdout
    assert "8-32-32-1" in text
    assert "1,377 parameters" in text
    assert "32 x 32" in text


def test_show_a_network_in_safetensors(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    save_file({"0.weight": np.ones((1, 2)), "0.bias": np.zeros(1)}, tmp_path / "net.safetensors")
    assert answer("show", tmp_path / "net.safetensors")["kind"] == "relu"


@pytest.mark.parametrize("option", ["--help", "--json", "--weights", None])
def test_a_closed_pipe_is_no_error(zoo: Path, option: str | None) -> None:
    command = [sys.executable, "-m", "hardmax", "show", str(zoo / "t.safetensors")]
    command += [option] if option else []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], []])
def test_a_closed_pipe_is_no_error_without_a_command(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "hardmax", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_an_interruption_while_the_package_is_loaded_is_told_in_a_line() -> None:
    """Sent from inside the import of the command."""
    program = (
        "import builtins, os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "class Stop:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'hardmax.cli._main':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Stop())\n"
        "from importlib.metadata import entry_points\n"
        "(command,) = entry_points(group='console_scripts', name='hardmax')\n"
        "command.load()()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "Interrupted; nothing was written.\n")


def test_an_interruption_before_a_command_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(main, "get_help", interrupted)
    result = CliRunner().invoke(main, [])
    assert (result.exit_code, result.stderr) == (130, "Interrupted; nothing was written.\n")


def test_an_interruption_writes_nothing(zoo: Path, tmp_path: Path) -> None:
    place = tmp_path / "t.safetensors"
    program = (
        "import os, signal\n"
        "from hardmax.cli import _compile, main\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # ignored in the background
        "_compile.measure = lambda *_, **__: os.kill(os.getpid(), signal.SIGINT)\n"
        f"main(['compile', {str(zoo / 'small.npz')!r}, '--on', '[-1,1]^2', '-o', {str(place)!r}])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "Interrupted; nothing was written.\n")
    assert done.stdout == ""
    assert os.listdir(tmp_path) == []


def test_names_that_neither_terminal_nor_markup_spoil(zoo: Path, tmp_path: Path) -> None:
    ascii_only = os.environ | {"PYTHONIOENCODING": "ascii"}
    place = tmp_path / "h[bold]ü.safetensors"
    command = ("compile", zoo / "small.npz", "--on", "[-1,1]^2", "-o", place, *POINTS)
    done = real(*command, env=ascii_only)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("h[bold]\\xfc.safetensors\n")
    assert place.exists()
