"""Arrays from NumPy's files. Nothing is unpickled, and nothing is inflated beyond a limit.

What a file says about sizes is compared before memory is taken: the directory of an archive with
the limit, and the header of every array with the bytes that are there. A file that lies about
either is refused.
"""

from __future__ import annotations

import io
import math
import warnings
import zipfile
from typing import Any

import numpy as np

from hardmax._errors import FileError

LARGEST_INFLATED = 2**29  # bytes of all arrays together, unless the file itself has as many
_UNREADABLE = "could not be read as arrays of numbers: it is foreign, truncated or altered."
_PLAIN = "Save plain arrays of numbers."
_MAGIC = b"\x93NUMPY"
# other methods hand back all that a piece inflates to, whatever was asked for
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def is_archive(data: bytes) -> bool:
    """Whether the bytes are meant as an archive of arrays, and not as a single one."""
    return not data.startswith(_MAGIC)


def arrays_in(data: bytes) -> dict[str, np.ndarray]:
    """The arrays of an .npz file by name; whatever else lies in the archive is passed over."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [m for m in archive.infolist() if m.filename.endswith(".npy")]
            _check_directory(members, len(data))
            return {m.filename.removesuffix(".npy"): _member(archive, m) for m in members}
    except FileError:
        raise
    except Exception as reason:  # a foreign or damaged file may trip its parser anywhere
        raise FileError(_UNREADABLE) from reason


def array_in(data: bytes, name: str = "") -> np.ndarray:
    """The array of an .npy file, or, by its `name`, of a member of an archive."""
    name = name and f" in {name}"
    try:
        dtype, shape, fortran, start = _header(data)
    except Exception as reason:  # a foreign or damaged file may trip its parser anywhere
        raise FileError(_UNREADABLE) from reason
    if dtype.hasobject:
        raise FileError(f"holds pickled objects{name}, and those are never opened. {_PLAIN}")
    needed = math.prod(shape) * dtype.itemsize
    if any(size < 0 for size in shape) or needed != len(data) - start:
        raise FileError(
            f"is truncated or altered: a header{name} asks for {needed:,} bytes of numbers, but "
            f"{len(data) - start:,} are there."
        )
    try:
        order: Any = "F" if fortran else "C"
        return np.ndarray(shape, dtype, data, start, order=order).copy(order="K")
    except (ValueError, MemoryError) as reason:  # a shape that no array can have
        raise FileError(f"has a header{name} that describes no array. {_PLAIN}") from reason


def _header(data: bytes) -> tuple[np.dtype, tuple[int, ...], bool, int]:
    """Type, shape, whether the first index runs fastest, and where the numbers begin."""
    file = io.BytesIO(data)
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }[np.lib.format.read_magic(file)]
    with warnings.catch_warnings():  # about headers that Python 2 wrote
        warnings.simplefilter("ignore")
        shape, fortran, dtype = read(file)
    return dtype, shape, fortran, file.tell()


def _check_directory(members: list[zipfile.ZipInfo], size: int) -> None:
    total = sum(member.file_size for member in members)
    if total > max(LARGEST_INFLATED, size):
        raise FileError(
            f"inflates from {size:,} to {total:,} bytes, but at most {LARGEST_INFLATED:,} are read "
            f"from an archive: save fewer arrays in it, or save it uncompressed."
        )
    if len({member.filename for member in members}) < len(members):
        raise FileError("holds two arrays of one name: save it again.")


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    name = member.filename.removesuffix(".npy")
    if member.compress_type not in _METHODS:
        raise FileError(f"holds {name} in a compression that NumPy does not write: save it again.")
    with archive.open(member) as file:
        content = file.read(member.file_size)
    return array_in(content, name)
