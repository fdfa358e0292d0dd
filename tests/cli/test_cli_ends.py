"""How commands end where their streams, their numbers or the files they are given are strange."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import hardmax as hm
from hardmax import _atomic
from hardmax._reading import read_file
from hardmax.cli import main
from hardmax.core import Words


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def refused(result: Result) -> str:
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1, result.stderr
    return result.stderr


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("ends") / "model.safetensors"
    hm.save(hm.compile("x", on={"x": (0, 1)}, error=0.1), place)
    return place


def process(*arguments: object, **streams: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hardmax", *map(str, arguments)]
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
    return subprocess.run(command, text=True, check=False, **given)  # type: ignore[call-overload]


# ---- streams ------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["--json", "--no-write"])
def test_a_closed_pipe_says_nothing_about_the_claim(option: str, model: Path) -> None:
    """1 would say that a proved claim is not; tables are printed by Rich, which ends in 1."""
    reader, writer = os.pipe()
    os.close(reader)
    ended = process("verify", model, option, stdout=writer)
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (141, "")


def test_help_that_cannot_be_written() -> None:
    with open("/dev/full", "wb") as full:
        ended = process("--help", stdout=full)
    assert ended.returncode == 2
    assert ended.stderr == "OSError: The output could not be written (No space left on device).\n"


def test_a_refusal_that_cannot_be_told_keeps_its_code(tmp_path: Path) -> None:
    with open("/dev/full", "wb") as full:
        assert process("verify", tmp_path / "none", stderr=full).returncode == 2


def test_a_closed_standard_input(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hardmax.cli import _points, _words

    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(hm.FileError, match="standard input is closed"):
        _points.points_from("-", 1)
    with pytest.raises(hm.FileError, match="standard input is closed"):
        _words.typed_words((), "-", ("a",))


# ---- files --------------------------------------------------------------------------------------


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="a file of Linux")
def test_a_file_that_the_kernel_makes_up_is_refused() -> None:
    """Some of them never end, some make readers wait."""
    with pytest.raises(hm.FileError, match="more than the 0 bytes that it says"):
        read_file("/proc/self/maps")


def test_a_missing_source_is_named_though_the_output_is_there(tmp_path: Path) -> None:
    (tmp_path / "there.json").touch()
    told = refused(run("verify", tmp_path / "none", "--certificate", tmp_path / "there.json"))
    assert "none was not found" in told


def test_an_output_that_no_file_can_be(model: Path) -> None:
    assert "could not be written" in refused(run("verify", model, "--certificate", "a\0b"))


@pytest.mark.parametrize("biases", [np.float64(3), np.ones(3)])
def test_biases_that_do_not_fit_the_heads(biases: np.ndarray, tmp_path: Path) -> None:
    np.savez(tmp_path / "keys.npz", keys=np.ones((2, 3, 2)), biases=biases)
    assert "biases of shape" in refused(run("diagram", tmp_path / "keys.npz"))


# between `open` and `with`, where nobody but the collector closes the file
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interruption_at_any_line_leaves_no_temporary_file(tmp_path: Path) -> None:
    place, line, finished = tmp_path / "file", 0, False
    while not finished:
        place.write_bytes(b"old")
        finished = _write_interrupted(place, line)
        assert os.listdir(tmp_path) == ["file"], line
        assert place.read_bytes() in (b"old", b"new")
        line += 1
    assert line > 20


def _write_interrupted(place: Path, line: int) -> bool:
    """Whether a write was done before Ctrl-C came, at the line number `line` of those it goes."""
    left = [line]

    def at_line(frame: object, event: str, _: object) -> object:
        left[0] -= event == "line"
        if left[0] < 0:
            left[0] = 10**9
            raise KeyboardInterrupt
        return at_line

    def anywhere(frame: FrameType, event: str, _: object) -> Any:
        return at_line if frame.f_code.co_filename == _atomic.__file__ else None

    before = sys.gettrace()
    sys.settrace(anywhere)
    try:
        _atomic.write_atomically(place, b"new")
    except KeyboardInterrupt:
        return False
    finally:
        sys.settrace(before)
    return True


# ---- numbers ------------------------------------------------------------------------------------


def test_volumes_beyond_all_floats(tmp_path: Path) -> None:
    np.savez(tmp_path / "keys.npz", keys=np.eye(2))
    ended = run("diagram", tmp_path / "keys.npz", "--on", "[0,1e300]^2", "--json")
    assert ended.exit_code == 0
    assert '"infinity"' in ended.stdout


@pytest.mark.parametrize("route", ["direct", "recipe"])
def test_weights_beyond_all_floats_are_refused(route: str) -> None:
    on = {"x": (0, 1e-320), "y": (0, 1)}
    with pytest.raises(hm.PrecisionError, match="weights beyond all floats"):
        hm.compile("x*y", on=on, route=route)
    assert hm.compile("x*y", on=on).route == "universal"


def test_words_are_not_longer_than_anything_can_attend_to() -> None:
    with pytest.raises(hm.DomainError, match="at most 1,000,000 symbols"):
        Words("ab", 10**30)
    assert Words("a", 10**6, 3).count == 10**6 - 2
    assert Words("ab", 10**5).count == 2 ** (10**5 + 1) - 2
