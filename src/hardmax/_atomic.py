"""Files that are either the old one or the new one, never half of each."""

from __future__ import annotations

import contextlib
import os
import platform
import secrets
import shutil
import stat
import time
import zlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from hardmax._errors import FileError
from hardmax._reading import reason_in_words

try:
    import fcntl
except ImportError:  # where there is none, a file that somebody has open cannot be removed
    fcntl = None  # type: ignore[assignment]

_PREFIX, _SUFFIX, _FOLDER = ".hardmax-", ".tmp", ".folder"
_MACHINE = f"{zlib.crc32(platform.node().encode()):08x}"
_OURS = f"{_PREFIX}{_MACHINE}-"
_WITHOUT_WAITING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
_OLD = 24 * 3600.0  # seconds after which a file of another machine is nobody's any more


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Put `data` at `path` at once: readers see the old bytes until all of the new ones are there.

    The bytes go to a temporary file in the same directory, so that the last step is a rename
    within one file system, which is atomic; they are flushed to the disk first, so that a crash
    cannot leave a renamed but empty file. Whatever interrupts this, a KeyboardInterrupt
    included, the temporary file goes and the old file stays. What kills the process leaves the
    temporary file, and the next write into the same directory removes it.

    A symbolic link keeps pointing where it points. Devices, pipes and directories are refused:
    renaming would replace them.
    """
    try:
        destination = destination_of(path)
        _remove_abandoned(destination.parent)
        _write_beside(destination, data)
    except FileError:
        raise
    except (OSError, ValueError) as reason:  # ValueError: a name that no file can have
        raise FileError(f"could not be written ({reason_in_words(reason)}).") from reason


def write_folder_atomically(
    path: str | os.PathLike[str], files: Mapping[str, bytes], known: Collection[str]
) -> None:
    """Put a folder with these files at `path`: a new one, or in place of one of `known` names.

    It is made whole beside its place and renamed. An old folder is renamed out of its way first and
    removed afterwards, so that there is never a folder with files of both, whenever this stops. A
    folder that holds anything else is somebody's, and refused.
    """
    try:
        place = Path(os.path.realpath(os.fspath(path)))
        if place.exists() and not place.is_dir():
            raise FileError("could not be written: it is a file, and a folder is needed.")
        others = sorted(set(os.listdir(place)) - set(known)) if place.exists() else []
        if others:
            raise FileError(f"holds {others[0]}, which is not ours: name a new or empty folder.")
        place.parent.mkdir(parents=True, exist_ok=True)
        _rename_folder(place, files)
    except FileError:
        raise
    except (OSError, ValueError) as reason:
        raise FileError(f"could not be written ({reason_in_words(reason)}).") from reason


def _rename_folder(place: Path, files: Mapping[str, bytes]) -> None:
    with folder_made_whole(place) as made:
        for name, data in files.items():
            _write_beside(made / name, data)


@contextlib.contextmanager
def folder_made_whole(place: Path) -> Iterator[Path]:
    """An empty folder to be filled, which then stands at `place`; nowhere if this is interrupted.

    What stood at `place` is renamed out of its way first and removed afterwards.
    """
    _remove_old_folders(place.parent)
    number = secrets.token_hex(8)
    made, old = (place.with_name(f"{_OURS}{number}.{kind}{_FOLDER}") for kind in ("new", "old"))
    try:
        made.mkdir()
        yield made
        if place.exists():
            os.rename(place, old)
        try:
            os.rename(made, place)
        except BaseException:
            if old.exists():
                os.rename(old, place)
            raise
    finally:
        shutil.rmtree(made, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)


def _remove_old_folders(parent: Path) -> None:
    """Folders that a process left which was killed a day ago or more."""
    for left in parent.glob(f"{_PREFIX}*.new{_FOLDER}"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > _OLD:
                shutil.rmtree(left, ignore_errors=True)


def destination_of(path: str | os.PathLike[str]) -> Path:
    """The file behind a path, links followed; refused if it is there and no ordinary file."""
    try:
        destination = Path(os.path.realpath(os.fspath(path)))
        mode = os.lstat(destination).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return destination
    except (OSError, ValueError) as reason:  # ValueError: a name that no file can have
        raise FileError(f"could not be written ({reason_in_words(reason)}).") from reason
    if stat.S_ISLNK(mode):
        raise FileError("is a link that leads back to itself: name a file to write to.")
    if not stat.S_ISREG(mode):
        kind = "a directory" if stat.S_ISDIR(mode) else "not an ordinary file"
        raise FileError(f"is {kind}: name a file to write to.")
    return destination


def _write_beside(destination: Path, data: bytes) -> None:
    """Write a new file beside the destination, locked, so that nobody takes it for abandoned.

    Somebody may do so in the instant before it is locked. Then its name is gone, and another one
    is made. Its name is known before it is there: whenever this is interrupted, it goes.
    """
    written = False
    while not written:
        temporary = destination.with_name(f"{_OURS}{secrets.token_hex(8)}{_SUFFIX}")
        try:
            with open(temporary, "xb") as file:
                written = _fill_and_rename(file, temporary, destination, data)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise


def _fill_and_rename(file: BinaryIO, temporary: Path, destination: Path, data: bytes) -> bool:
    """Fill a new file and rename it; False if it was taken away before it was locked."""
    with contextlib.suppress(OSError):  # a file system without locks
        _lock(file.fileno(), waiting=True)
    if not temporary.exists():
        return False
    file.write(data)
    file.flush()
    os.fsync(file.fileno())
    if fcntl is None:
        file.close()  # without locks, systems do not rename what is open
    os.replace(temporary, destination)
    return True


def _remove_abandoned(folder: Path) -> None:
    """Remove the temporary files of processes that are gone, and of nobody else.

    A writer keeps its file locked, and the system takes the lock from a process that ends, however
    it ends. So a file of this machine that can be locked is abandoned, and it is removed before
    the lock is given back: a writer that waits for it sees that its file is gone. The locks of
    other machines, and of file systems that have none, may be invisible here; such files are
    removed when they are a day old.
    """
    try:
        names = os.listdir(folder)
    except OSError:  # a folder may be written to without being listed
        return
    for name in names:
        if name.startswith(_PREFIX) and name.endswith(_SUFFIX):
            with contextlib.suppress(OSError):
                _remove_if_abandoned(folder / name)


def _remove_if_abandoned(temporary: Path) -> None:
    descriptor = os.open(temporary, os.O_RDONLY | _WITHOUT_WAITING)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return
        ours = temporary.name.startswith(_OURS)
        try:
            _lock(descriptor, waiting=False)
        except BlockingIOError:
            return
        except OSError:
            ours = False
        if ours or time.time() - status.st_mtime > _OLD:
            temporary.unlink()
    finally:
        os.close(descriptor)


def _lock(descriptor: int, *, waiting: bool) -> None:
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if waiting else fcntl.LOCK_NB))
