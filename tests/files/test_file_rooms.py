"""The rooms that touch files, line by line: locks, ages, limits and headers at their edges."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

from hardmax import _archives, _atomic, _reading
from hardmax._archives import array_in, arrays_in, is_archive
from hardmax._atomic import write_atomically
from hardmax._errors import FileError
from hardmax._reading import read_file, reason_in_words

NOW, DAY = 2.0e9, 24 * 3600


# ---- writing -----------------------------------------------------------------------------------


def test_a_file_is_locked_until_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename, seen = os.replace, []

    def look(temporary: Path, destination: Path) -> None:
        with open(temporary, "rb") as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        seen.append(temporary)
        rename(temporary, destination)

    monkeypatch.setattr(os, "replace", look)
    write_atomically(tmp_path / "new", b"whole")
    assert len(seen) == 1
    assert (tmp_path / "new").read_bytes() == b"whole"


def test_a_writer_waits_for_its_lock_and_whoever_removes_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{_atomic._OURS}1.tmp").write_bytes(b"half")
    lock, asked = fcntl.flock, []

    def note(descriptor: int, how: int) -> None:
        asked.append(how)
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", note)
    write_atomically(tmp_path / "new", b"whole")
    assert asked == [fcntl.LOCK_EX | fcntl.LOCK_NB, fcntl.LOCK_EX]


def test_nobody_waits_for_a_pipe_or_follows_a_link_that_looks_abandoned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{_atomic._OURS}1.tmp").write_bytes(b"half")
    asked = opened_with(monkeypatch)
    write_atomically(tmp_path / "new", b"whole")
    assert asked[0] == os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW


def opened_with(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The flags of every file that is opened from here on."""
    plain, asked = os.open, []

    def note(path: Path, flags: int, *rest: int, **named: int) -> int:
        asked.append(flags)
        return plain(path, flags, *rest, **named)

    monkeypatch.setattr(os, "open", note)
    return asked


@pytest.mark.parametrize(("age", "stays"), [(DAY, True), (DAY + 1, False), (-DAY - 1, True)])
def test_files_of_other_machines_stay_for_exactly_a_day(
    age: int, stays: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / ".hardmax-elsewhere-1.tmp"
    other.write_bytes(b"half")
    os.utime(other, (NOW - age, NOW - age))
    monkeypatch.setattr(time, "time", lambda: NOW)
    write_atomically(tmp_path / "new", b"whole")
    assert other.exists() == stays


@pytest.mark.parametrize(("age", "stays"), [(10, True), (DAY + 1, False)])
def test_without_locks_our_own_files_stay_for_a_day_too(
    age: int, stays: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = tmp_path / f"{_atomic._OURS}1.tmp"
    ours.write_bytes(b"half")
    os.utime(ours, (NOW - age, NOW - age))

    def refuse(descriptor: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    monkeypatch.setattr(time, "time", lambda: NOW)
    write_atomically(tmp_path / "new", b"whole")
    assert ours.exists() == stays
    assert (tmp_path / "new").read_bytes() == b"whole"


def test_only_names_of_ours_are_removed(tmp_path: Path) -> None:
    kept = [tmp_path / name for name in (f"{_atomic._OURS}1.keep", "notes.tmp")]
    for file in kept:
        file.write_bytes(b"data")
        os.utime(file, (1.0, 1.0))
    write_atomically(tmp_path / "new", b"whole")
    assert all(file.exists() for file in kept)


# ---- reading -----------------------------------------------------------------------------------


def test_files_are_read_up_to_the_limit_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_reading, "LARGEST_FILE", 10)
    (tmp_path / "ten").write_bytes(b"0123456789")
    (tmp_path / "eleven").write_bytes(b"0123456789a")
    assert read_file(tmp_path / "ten") == b"0123456789"
    with pytest.raises(FileError, match="has 11 bytes, but at most 10 are read"):
        read_file(tmp_path / "eleven")


def test_files_are_opened_without_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"data")
    asked = opened_with(monkeypatch)
    assert read_file(tmp_path / "file") == b"data"
    assert asked == [os.O_RDONLY | os.O_NONBLOCK]


class Silent(io.BytesIO):
    """A file without data yet, opened without waiting."""

    def read(self, size: int | None = -1, /) -> bytes:
        return None  # type: ignore[return-value]


def test_what_a_file_says_is_what_is_read() -> None:
    assert _reading._whole(io.BytesIO(b"four"), 4) == b"four"
    assert _reading._whole(io.BytesIO(b""), 0) == b""
    for file, size in ((io.BytesIO(b"four"), 3), (io.BytesIO(b"a"), 0), (Silent(), 2)):
        with pytest.raises(FileError, match=f"more than the {size} bytes that it says"):
            _reading._whole(file, size)


def test_errors_of_the_system_are_told_without_number_and_path() -> None:
    assert reason_in_words(FileNotFoundError(2, "No such file or directory", "x")) == (
        "No such file or directory"
    )
    assert reason_in_words(ValueError("embedded null byte")) == "embedded null byte"


# ---- arrays ------------------------------------------------------------------------------------


def saved(array: np.ndarray, version: tuple[int, int] = (1, 0)) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version=version)
    return file.getvalue()


def zipped(members: list[tuple[str, bytes]], method: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return file.getvalue()


@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
@pytest.mark.parametrize(
    "array", [np.array(2.5), np.arange(6.0).reshape(2, 3), np.zeros((0, 3)), np.zeros((2, 3)).T]
)
def test_arrays_come_back_in_both_versions(version: tuple[int, int], array: np.ndarray) -> None:
    data = saved(array, version)
    assert not is_archive(data)
    found = array_in(data)
    assert found.shape == array.shape
    assert np.array_equal(found, array)
    assert found.flags["F_CONTIGUOUS"] == array.flags["F_CONTIGUOUS"]


def test_other_versions_are_foreign() -> None:
    with pytest.raises(FileError, match="foreign, truncated or altered"):
        array_in(saved(np.ones(2), (3, 0)))


@pytest.mark.parametrize(
    "data",
    [
        saved(np.ones((2, 3))) + b"\0",
        saved(np.ones((2, 3)))[:-1],
        saved(np.ones((2, 3))).replace(b"(2, 3)", b"(-2,-3)"),
        saved(np.ones((2, 3))).replace(b"(2, 3)", b"(3, 3)"),
    ],
)
def test_headers_that_ask_for_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(FileError, match="altered"):
        array_in(data)


def test_who_is_refused_is_named_by_its_member() -> None:
    broken = saved(np.ones(3))[:-1]
    with pytest.raises(FileError, match=r"a header asks for 24 bytes of numbers, but 23 are"):
        array_in(broken)
    with pytest.raises(FileError, match=r"a header in b asks for 24 bytes"):
        arrays_in(zipped([("a.npy", saved(np.ones(1))), ("b.npy", broken)]))


def test_archives_are_inflated_up_to_the_limit_or_their_own_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    member = saved(np.zeros(100))
    compressed = zipped([("a.npy", member)], zipfile.ZIP_DEFLATED)
    assert len(compressed) < len(member)
    monkeypatch.setattr(_archives, "LARGEST_INFLATED", len(member))
    assert arrays_in(compressed)["a"].shape == (100,)
    monkeypatch.setattr(_archives, "LARGEST_INFLATED", len(member) - 1)
    with pytest.raises(FileError, match=f"to {len(member):,} bytes, but at most"):
        arrays_in(compressed)
    assert arrays_in(zipped([("a.npy", member)]))["a"].shape == (100,)  # stored: nothing inflates


def test_members_have_one_name_each_and_a_plain_method() -> None:
    with pytest.warns(UserWarning, match="Duplicate name"):
        twice = zipped([("a.npy", saved(np.ones(1)))] * 2)
    with pytest.raises(FileError, match="two arrays of one name"):
        arrays_in(twice)
    with pytest.raises(FileError, match="a compression that NumPy does not write"):
        arrays_in(zipped([("a.npy", saved(np.ones(1)))], zipfile.ZIP_BZIP2))
    assert set(arrays_in(zipped([("a.npy", saved(np.ones(1))), ("note", b"hello")]))) == {"a"}
