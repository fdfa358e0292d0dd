"""Files that are either the old one or the new one, never half of each."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from hardmax._errors import FileError


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Put `data` at `path` at once: readers see the old bytes until all of the new ones are there.

    The bytes go to a temporary file in the same directory, so that the last step is a rename
    within one file system, which is atomic; they are flushed to the disk first, so that a crash
    cannot leave a renamed but empty file. Whatever interrupts this, a KeyboardInterrupt
    included, the temporary file goes and the old file stays.

    A symbolic link keeps pointing where it points. Devices, pipes and directories are refused:
    renaming would replace them.
    """
    try:
        destination = Path(os.path.realpath(os.fspath(path)))
        if destination.exists() and not destination.is_file():
            kind = "a directory" if destination.is_dir() else "not an ordinary file"
            raise FileError(f"is {kind}: name a file to write to.")
        _write_beside(destination, data)
    except FileError:
        raise
    except (OSError, ValueError) as reason:  # ValueError: a name that no file can have
        raise FileError(f"could not be written ({reason}).") from reason


def _write_beside(destination: Path, data: bytes) -> None:
    temporary = destination.with_name(f".hardmax-{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, destination)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
