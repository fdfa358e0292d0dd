"""Files that are read: ordinary ones, whole, and without waiting for anybody."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from hardmax._errors import FileError, RequestError

LARGEST_FILE = 2**32  # bytes: a file is read as a whole, and a larger one is no model of ours

_KINDS = {
    stat.S_IFDIR: "a directory: name the file in it.",
    stat.S_IFIFO: "not an ordinary file but a pipe: save its content in a file first.",
    stat.S_IFSOCK: "not an ordinary file but a socket: save its content in a file first.",
    stat.S_IFCHR: "not an ordinary file but a device: save its content in a file first.",
    stat.S_IFBLK: "not an ordinary file but a device: save its content in a file first.",
}


def read_file(path: str | os.PathLike[str]) -> bytes:
    """All bytes of an ordinary file; what is wrong is said without the path, from its verb on.

    A pipe blocks whoever opens it until somebody writes to it, and a terminal whoever reads. So
    the kind is asked before the file is opened, it is opened without waiting, and the kind of what
    was opened is asked again: nothing that is put in its place in between can make this hang.
    """
    try:
        _check_ordinary(os.stat(path))
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            _check_ordinary(status)
            return _whole(file, status.st_size)
    except FileNotFoundError as reason:
        raise FileError("was not found.") from reason
    except MemoryError as reason:
        raise FileError("could not be read (it does not fit into memory).") from reason
    except FileError:
        raise
    except (OSError, ValueError) as reason:  # ValueError: a name that no file can have
        raise FileError(f"could not be read ({reason_in_words(reason)}).") from reason


def path_of(given: object) -> Path:
    """The path that was given; a first guess that is none is refused in a sentence."""
    if not isinstance(given, str | os.PathLike):
        raise RequestError(f"A file is named by a text or a path, not by a {type(given).__name__}.")
    return Path(given)


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """What is refused in here is about this file, and begins with its name."""
    path_of(path)
    try:
        yield
    except FileError as reason:
        raise FileError(f"{os.fsdecode(path)} {reason}") from reason.__cause__


def reason_in_words(reason: BaseException) -> str:
    """What an error of the operating system says, without its number and the path."""
    return getattr(reason, "strerror", None) or str(reason)


def _whole(file: BinaryIO, size: int) -> bytes:
    """As many bytes as a file says that it has.

    Files that the kernel makes up say 0, and have any number, or none until somebody writes them.
    """
    data = file.read(size)
    if data is None or file.read(1) != b"":
        raise FileError(
            f"has more than the {size:,} bytes that it says: save its content in a file first."
        )
    return data


def _check_ordinary(status: os.stat_result) -> None:
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        raise FileError(f"is {_KINDS.get(kind, 'not an ordinary file: name one.')}")
    if status.st_size > LARGEST_FILE:
        raise FileError(
            f"has {status.st_size:,} bytes, but at most {LARGEST_FILE:,} are read: give a smaller "
            f"file."
        )
