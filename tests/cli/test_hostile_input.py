"""Files and texts that mean harm, disks that are full, faults of our own: one sentence, no harm."""

from __future__ import annotations

import fcntl
import io
import json
import math
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from benchmarks._regions_shared import cpu_seconds
from click.testing import CliRunner, Result

import hardmax as hm
from benchmarks import _driver
from hardmax import _atomic
from hardmax._archives import LARGEST_INFLATED, array_in, arrays_in
from hardmax._atomic import write_atomically
from hardmax.cli import main
from hardmax.cli._errors import telling_refusals
from hardmax.cli._records import print_json

ON = ("--on", "[-1,1]^2")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def refused(result: Result) -> str:
    """The one sentence of a refusal."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1, result.stderr
    return result.stderr


def relu() -> hm.ReluNetwork:
    return hm.ReluNetwork([np.eye(2), np.ones((1, 2))], [np.zeros(2), np.zeros(1)])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A compiled model, and a network net.npz beside it."""
    folder = tmp_path_factory.mktemp("hostile")
    hm.save(hm.compile("x", on={"x": (0, 1)}, error=0.1), folder / "model.safetensors")
    hm.save_network(relu(), folder / "net.npz")
    return folder / "model.safetensors"


# ---- archives ----------------------------------------------------------------------------------


def npy(array: Any, **header: Any) -> bytes:
    """An array as .npy holds it; a word of its header may be replaced."""
    buffer = io.BytesIO()
    np.save(buffer, np.asarray(array))
    data = buffer.getvalue()
    for old, new in header.items():
        head, tail = data.split(b"\n", 1)
        width = len(head)
        head = head.replace(old.encode(), new.encode()).rstrip()
        data = head.ljust(width) + b"\n" + tail
    return data


def zipped(method: int = zipfile.ZIP_STORED, **members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return buffer.getvalue()


def with_declared_size(data: bytes, size: int) -> bytes:
    """The archive with another size of its first member in the directory."""
    place = data.index(b"PK\x01\x02") + 24
    return data[:place] + size.to_bytes(4, "little") + data[place + 4 :]


def test_an_archive_is_refused_by_the_size_in_its_directory(tmp_path: Path) -> None:
    """Before anything is inflated: the member itself is tiny, and its directory lies."""
    data = with_declared_size(zipped(W1=npy(np.eye(2))), 2**30)
    (tmp_path / "bomb.npz").write_bytes(data)
    told = refused(run("regions", tmp_path / "bomb.npz", *ON))
    assert "1,073,741,824 bytes" in told
    assert f"at most {LARGEST_INFLATED:,}" in told
    with pytest.raises(hm.FileError, match="1,073,741,824 bytes"):
        hm.load_network(tmp_path / "bomb.npz")


def test_an_archive_that_inflates_beyond_the_limit_is_refused(monkeypatch: Any) -> None:
    monkeypatch.setattr("hardmax._archives.LARGEST_INFLATED", 10_000)
    zeros = npy(np.zeros(10_000))
    with pytest.raises(hm.FileError, match="inflates from"):
        arrays_in(zipped(zipfile.ZIP_DEFLATED, a=zeros))
    assert arrays_in(zipped(a=zeros))["a"].shape == (10_000,)  # the file itself is as large


LYING = {
    "a header that asks for more": (zipped(a=npy(np.eye(2), **{"(2, 2)": "(2, 99)"})), "1,584"),
    "a header that asks for less": (zipped(a=npy(np.eye(3), **{"(3, 3)": "(3, 1)"})), "24 bytes"),
    "a negative shape": (zipped(a=npy(np.eye(2), **{"(2, 2)": "(-2,-2)"})), "truncated or altered"),
    "an enormous shape": (zipped(a=npy(np.eye(2), **{"(2, 2)": "(2**9,)"})), "could not be read"),
    "items of no size": (zipped(a=npy(np.eye(2), **{"<f8": "|V0"})), "truncated or altered"),
    "objects": (zipped(a=npy(np.eye(2), **{"<f8": "|O"})), "pickled objects in a"),
    "another compression": (zipped(zipfile.ZIP_LZMA, a=npy(np.eye(2))), "does not write"),
    "a directory that says less": (with_declared_size(zipped(a=npy(np.eye(2))), 130), "could not"),
    "no archive": (b"PK\x03\x04 nothing", "could not be read"),
    "nothing": (b"", "could not be read"),
}


@pytest.mark.parametrize("what", LYING)
def test_archives_that_lie_are_refused(what: str) -> None:
    data, told = LYING[what]
    with pytest.raises(hm.FileError, match=told):
        arrays_in(data)


def test_two_arrays_of_one_name_are_refused() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        buffer = io.BytesIO(zipped(a=npy(np.eye(2))))
        with zipfile.ZipFile(buffer, "a") as archive:
            archive.writestr("a.npy", npy(np.eye(3)))
    with pytest.raises(hm.FileError, match="two arrays of one name"):
        arrays_in(buffer.getvalue())


@pytest.mark.parametrize(
    "array", [np.zeros((0, 3)), np.arange(6).reshape(2, 3).T, np.float32(1.5), np.array("relu")]
)
def test_arrays_come_back(array: np.ndarray) -> None:
    found = array_in(npy(array))
    assert found.dtype == array.dtype
    assert np.array_equal(found, array)
    assert found.flags.writeable


def test_weights_of_a_huge_empty_shape_take_no_memory(tmp_path: Path) -> None:
    """0 numbers in 10^15 rows: the bias that is missing would have as many."""
    header = json.dumps(
        {"0.weight": {"dtype": "F64", "shape": [10**15, 0], "data_offsets": [0, 0]}}
    ).encode()
    (tmp_path / "n.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(hm.HardmaxError):
        hm.load_network(tmp_path / "n.safetensors")


# ---- what is no ordinary file ------------------------------------------------------------------


@contextmanager
def pipe(path: Path) -> Iterator[Path]:
    """A FIFO with a writer that waits for a reader: whoever opens it sees an empty file."""
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: open(path, "wb").close())
    writer.start()
    try:
        yield path
    finally:
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        writer.join()
        os.close(reader)


PIPED: dict[str, Callable[[Path, Path], tuple[object, ...]]] = {
    "regions": lambda p, m: ("regions", p, *ON),
    "compile": lambda p, m: ("compile", p, *ON),
    "verify": lambda p, m: ("verify", p),
    "show": lambda p, m: ("show", p),
    "run": lambda p, m: ("run", p, "1"),
    "diagram": lambda p, m: ("diagram", p),
    "stability": lambda p, m: ("stability", p),
    "points": lambda p, m: ("run", m, "--input", p),
    "checkpoint": lambda p, m: ("regions", m.parent / "net.npz", *ON, "--checkpoint", p),
    "program": lambda p, m: ("run", "--program", p, "--alphabet", "ab", "--length", 2, "ab"),
    "function": lambda p, m: ("compile", p, "--on", "x=0:1"),
}


@pytest.mark.parametrize("door", PIPED)
def test_a_pipe_is_refused_at_once(door: str, model: Path, tmp_path: Path) -> None:
    suffix = {
        "verify": ".safetensors",
        "run": ".safetensors",
        "program": ".txt",
        "function": ".txt",
    }
    with pipe(tmp_path / f"pipe{suffix.get(door, '.npz')}") as place:
        told = refused(run(*PIPED[door](place, model)))
    assert "not an ordinary file" in told


def test_devices_and_folders_are_refused(model: Path, tmp_path: Path) -> None:
    assert "a device" in refused(run("run", model, "--input", "/dev/zero"))
    assert "is a directory" in refused(run("run", model, "--input", tmp_path))
    assert "a device" in refused(run("verify", "/dev/zero"))


def test_a_file_of_many_gigabytes_is_refused_by_its_size(tmp_path: Path) -> None:
    with open(tmp_path / "sparse.safetensors", "wb") as file:
        file.truncate(2**40)
    assert "has 1,099,511,627,776 bytes" in refused(run("verify", tmp_path / "sparse.safetensors"))


# ---- files of processes that were killed ------------------------------------------------------


def leave_one(folder: Path, owner: str | None = None) -> Path:
    """What a killed process leaves, as this machine or another one names it."""
    place = folder / f"{_atomic._OURS if owner is None else owner}0123456789abcdef.tmp"
    place.write_bytes(b"half")
    return place


def test_the_next_write_removes_what_a_killed_process_left(tmp_path: Path) -> None:
    leave_one(tmp_path)
    write_atomically(tmp_path / "new", b"whole")
    assert [p.name for p in tmp_path.iterdir()] == ["new"]


def test_a_file_that_is_being_written_stays(tmp_path: Path) -> None:
    with open(leave_one(tmp_path), "rb") as live:
        fcntl.flock(live, fcntl.LOCK_EX)
        write_atomically(tmp_path / "new", b"whole")
        assert len(list(tmp_path.iterdir())) == 2
    write_atomically(tmp_path / "new", b"whole")
    assert [p.name for p in tmp_path.iterdir()] == ["new"]


def test_files_of_other_machines_stay_for_a_day(tmp_path: Path) -> None:
    """Their locks may not be seen from here."""
    other = leave_one(tmp_path, ".hardmax-")
    write_atomically(tmp_path / "new", b"whole")
    assert other.exists()
    yesterday = time.time() - 25 * 3600
    os.utime(other, (yesterday, yesterday))
    write_atomically(tmp_path / "new", b"whole")
    assert not other.exists()


def test_a_writer_whose_file_was_taken_for_abandoned_makes_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its making and its lock a file looks abandoned."""
    lock, taken = _atomic._lock, []

    def snatch(descriptor: int, *, waiting: bool) -> None:
        if waiting and not taken:
            taken.extend(tmp_path.glob(".hardmax-*"))
            _atomic._remove_abandoned(tmp_path)
        lock(descriptor, waiting=waiting)

    monkeypatch.setattr(_atomic, "_lock", snatch)
    write_atomically(tmp_path / "new", b"whole")
    assert len(taken) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["new"]
    assert (tmp_path / "new").read_bytes() == b"whole"


def test_links_and_pipes_with_such_names_stay(tmp_path: Path) -> None:
    (tmp_path / "precious").write_bytes(b"data")
    (tmp_path / f"{_atomic._OURS}1.tmp").symlink_to(tmp_path / "precious")
    os.mkfifo(tmp_path / f"{_atomic._OURS}2.tmp")
    write_atomically(tmp_path / "new", b"whole")
    assert len(list(tmp_path.iterdir())) == 4


# ---- places that cannot be written ------------------------------------------------------------


@contextmanager
def small_disk(size: int) -> Iterator[None]:
    """The kernel takes no more than `size` bytes of a file, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_leaves_the_old_file(model: Path, tmp_path: Path) -> None:
    model_file, picture = tmp_path / "m.safetensors", tmp_path / "p.svg"
    model_file.write_bytes(model.read_bytes())
    picture.write_bytes(b"old")
    compiled = ("compile", "x", "--on", "x=0:1", "--error", 0.1, "--points", 10)
    checkpoint = ("regions", model.parent / "net.npz", *ON, "--checkpoint", tmp_path / "c.npz")
    with small_disk(100):
        for arguments in [
            (*compiled, "-o", model_file),
            (*compiled, "--plot", picture),
            ("verify", model_file, "--write"),
            ("verify", model_file, "--certificate", tmp_path / "c.json"),
            checkpoint,
        ]:
            assert "could not be written (File too large)" in refused(run(*arguments))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.safetensors", "p.svg"]
    assert model_file.read_bytes() == model.read_bytes()
    assert picture.read_bytes() == b"old"


def test_outputs_that_are_no_files_are_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "away").symlink_to(tmp_path / "nowhere" / "file")
    compiled = ("compile", "x", "--on", "x=0:1", "--error", 0.1, "-o")
    assert "is not an ordinary file" in refused(run(*compiled, "/dev/full"))
    assert "leads back to itself" in refused(run(*compiled, tmp_path / "loop"))
    assert "There is no folder" in refused(run(*compiled, tmp_path / "away"))
    with pytest.raises(hm.FileError, match="leads back to itself"):
        write_atomically(tmp_path / "loop", b"whole")


def test_a_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there" / "m")
    leave_one(tmp_path / "there")
    write_atomically(tmp_path / "link", b"whole")
    assert (tmp_path / "link").is_symlink()
    assert [p.name for p in (tmp_path / "there").iterdir()] == ["m"]


def test_a_folder_that_is_read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    told = refused(run("compile", "x", "--on", "x=0:1", "-o", tmp_path / "m"))
    assert "cannot be written to" in told


def test_a_full_standard_output(model: Path) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "hardmax", "show", model],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr == "OSError: The output could not be written (No space left on device).\n"


# ---- texts --------------------------------------------------------------------------------------


DEEP = 10**5
MEGABYTE = 10**6
TEXTS = {
    "parentheses": "(" * DEEP + "x" + ")" * DEEP,
    "a few parentheses": "(" * 250 + "x" + ")" * 250,
    "signs": "-" * 90_000 + "x",
    "a sum": "+".join(["x"] * (MEGABYTE // 2)),
    "spaces": " " * MEGABYTE + "x",
    "bytes": "x\0y",
    "letters": "x" * MEGABYTE,
}


@pytest.mark.parametrize("what", TEXTS)
def test_texts_that_mean_harm_are_refused(what: str, tmp_path: Path) -> None:
    place = tmp_path / "text.txt"
    place.write_text(TEXTS[what])
    result = run("compile", place, "--on", "x=0:1")
    assert result.exit_code == 2
    assert len(result.stderr) < 500
    assert len(result.stderr.splitlines()) in (1, 3)  # three with a caret under the place
    place.write_text(TEXTS[what].replace("x", "tokens"))
    program = ("compile", "--program", place, "--alphabet", "ab", "--length", "3")
    assert len(refused(run(*program))) < 500


def test_functions_and_programs_are_read_from_files(tmp_path: Path) -> None:
    (tmp_path / "f.txt").write_text("x\n  + 1\n")
    (tmp_path / "p.txt").write_text("last = length - 1\nturned = tokens.at(last - index)\n")
    ran = run("compile", tmp_path / "f.txt", "--on", "x=0:1", "--error", 0.1, "--points", 10)
    assert ran.exit_code == 0
    words = ("--alphabet", "ab", "--length", "3", "abb")
    assert "bba" in run("run", "--program", tmp_path / "p.txt", *words).stdout
    (tmp_path / "f.txt").write_bytes(b"\xff\xfe")
    assert "holds no text" in refused(run("compile", tmp_path / "f.txt", "--on", "x=0:1"))
    assert "was not found" in refused(run("compile", tmp_path / "g.txt", "--on", "x=0:1"))


def test_what_python_cannot_write_is_refused_all_the_same() -> None:
    """`ast.parse` reads trees that `ast.unparse`, which tells of them, does not write."""
    with pytest.raises(hm.RequestError, match="deeply nested part"):
        hm.programs.parse_program("x.y = " + "-" * 1000 + "index")


def test_nesting_beyond_pythons_stack_is_a_refusal() -> None:
    program = hm.programs.parse_program("(" + "~" * 300 + "(there(tokens) == 'a')).count()")
    with pytest.raises(hm.RequestError, match="nested too deeply"):
        hm.compile(program, alphabet="ab", length=2)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[" * 10**5, "nested too deeply"),
        (json.dumps({"nodes": [{"kind": "constant", "item": ["1e999999999"]}]}), "of a fraction"),
        (json.dumps({"nodes": [{"kind": "constant", "item": ["1/0"]}]}), "cannot be read"),
        (
            json.dumps(
                {
                    "nodes": [{"kind": "tokens"}],
                    "outputs": [0],
                    "name": "",
                    "at": None,
                    "words": f"words over {'[' * 10**5}] of length 1",
                }
            ),
            "could not be read",
        ),
    ],
)
def test_stored_programs_that_mean_harm(text: str, reason: str) -> None:
    from hardmax.languages.programs import ProgramTarget

    with pytest.raises(hm.HardmaxError, match=reason):
        ProgramTarget.decode_text(text)


# ---- the last net -------------------------------------------------------------------------------


def failing(reason: BaseException) -> click.Command:
    @click.command()
    @telling_refusals
    def fail() -> None:
        raise reason

    return fail


def test_an_unforeseen_exception_is_one_sentence() -> None:
    result = CliRunner().invoke(failing(ZeroDivisionError("division\nby zero")), [])
    assert result.exit_code == 70
    assert result.stdout == ""
    assert result.stderr == (
        "internal error: ZeroDivisionError: division by zero. This is a fault of hardmax: please "
        "report it, with what --debug shows.\n"
    )


def test_debug_shows_the_traceback() -> None:
    result = CliRunner().invoke(failing(KeyError("x" * 1000)), ["--debug"])
    assert result.exit_code == 70
    assert result.stderr.startswith("Traceback (most recent call last):")
    assert len(result.stderr.splitlines()[-1]) < 400


@pytest.mark.parametrize("before", [True, False])
def test_debug_stands_before_or_after_the_command(before: bool, tmp_path: Path) -> None:
    words = ["verify", str(tmp_path / "none")]
    result = run(*(["--debug", *words] if before else [*words, "--debug"]))
    assert result.exit_code == 2
    assert "Traceback" in result.stderr
    assert result.stderr.splitlines()[-1].endswith("was not found.")


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        (RecursionError(), 2),
        (MemoryError(), 2),
        (OSError(28, "No space left on device"), 2),
        (hm.RequestError("No."), 2),
        (KeyboardInterrupt(), 130),
        (click.exceptions.Exit(1), 1),
        (AssertionError(), 70),
    ],
)
def test_every_end_has_its_code(reason: BaseException, code: int) -> None:
    result = CliRunner().invoke(failing(reason), [])
    assert result.exit_code == code
    assert len(result.stderr.splitlines()) == (code != 1)


def test_every_command_has_the_net() -> None:
    for name, command in main.commands.items():
        assert "--debug" in {o for p in command.params for o in p.opts}, name


def test_warnings_are_for_debugging(recwarn: pytest.WarningsRecorder) -> None:
    @click.command()
    @telling_refusals
    def warn() -> None:
        warnings.warn("overflow encountered in multiply", RuntimeWarning, stacklevel=1)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert CliRunner().invoke(warn, []).exit_code == 0
        assert not recwarn.list
        assert CliRunner().invoke(warn, ["--debug"]).exit_code == 0
        assert len(recwarn.list) == 1


def test_json_has_infinities_as_texts(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": [math.inf, -math.inf, 1.5], "b": (math.nan, {"c": math.inf})})
    told = json.loads(capsys.readouterr().out)
    assert told == {"a": ["infinity", "-infinity", 1.5], "b": ["nan", {"c": "infinity"}]}


# ---- benchmarks ---------------------------------------------------------------------------------


def test_records_with_numbers_of_numpy_become_json() -> None:
    record = {"cells": np.int64(3), "rate": np.float64(0.5), "all": np.arange(2)}
    assert json.loads(_driver.as_json(record)) == {"cells": 3, "rate": 0.5, "all": [0, 1]}
    endless = {"a": math.inf, "b": np.float32(math.nan), "c": np.array([-math.inf])}
    told = {"a": "infinity", "b": "nan", "c": ["-infinity"]}
    assert json.loads(_driver.as_json(endless)) == told
    with pytest.raises(TypeError, match="holds a object"):
        _driver.as_json({"cells": object()})


def test_the_cpu_time_of_children_counts() -> None:
    """A child that counts to 10^7 takes more of the CPU than its parent, which waits."""
    before, own = cpu_seconds(), time.process_time()
    child = os.fork()
    if child == 0:
        sum(range(10**7))
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert cpu_seconds() - before > 2 * (time.process_time() - own)
