"""One file holds a compiled model: weights, structure, claim, target, witness and certificate.

It is an ordinary safetensors file whose metadata has one entry, `hardmax`: the description of
the construction as canonical JSON, with a SHA-256 digest of itself and of every tensor. One
entry, because safetensors writes several in a random order, and the same model should be the
same bytes. The digest tells damage and edits from the original; it is no signature.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import cast

import numpy as np

from hardmax._atomic import write_atomically
from hardmax._errors import FileError, HardmaxError, RequestError
from hardmax._reading import naming, read_file
from hardmax.core import Construction
from hardmax.interop._description import StoredConstruction, Tensors, describe, rebuild
from hardmax.interop._parts import Description

KEY = "hardmax"
VERSION = 1
LONGEST_HEADER = 100_000_000  # safetensors reads no longer one
_PREFIX = 8  # bytes that hold the header's length


def write_safetensors(
    construction: Construction,
    path: str | os.PathLike[str],
    *,
    certificate: Mapping[str, object] | None = None,
) -> None:
    """Save a construction so that nothing else is needed to load and verify it.

    Every float comes back with the same bits. Equal constructions give equal files. The file
    at `path` is replaced at once or, if anything fails, not at all. A target that cannot be
    encoded is stored as opaque: the model runs, but its claim cannot be verified from the file.
    A certificate is plain data that says what it is about; whether that is this construction is
    for those to ask who know certificates.
    """
    if not isinstance(construction, Construction):
        raise RequestError(
            f"write_safetensors takes a Construction, as hm.compile makes it, not a "
            f"{type(construction).__name__}."
        )
    with naming(path):
        write_atomically(path, to_bytes(construction, certificate))


def read_safetensors(path: str | os.PathLike[str]) -> StoredConstruction:
    """Load what `write_safetensors` saved; anything else is refused in one sentence.

    The file is read once, as a whole, so that it cannot change between the check of its digest
    and the use of its weights.
    """
    with naming(path):
        return from_bytes(read_file(path))


def read_metadata(path: str | os.PathLike[str]) -> Mapping[str, object]:
    """What any safetensors file, ours or not, says of itself; empty if it says nothing."""
    with naming(path):
        return _metadata(read_file(path))


def to_bytes(construction: Construction, certificate: Mapping[str, object] | None) -> bytes:
    from safetensors.numpy import save

    described, arrays = describe(construction)
    description: dict[str, object] = {"format": KEY, "version": VERSION, **described}
    tensors = {name: _storable(name, array) for name, array in arrays.items()}
    try:
        if certificate is not None:
            description["certificate"] = json.loads(_canonical(dict(certificate)))
        description["sha256"] = _digest(description, tensors)
        data = save(tensors, metadata={KEY: _canonical(description)})
    except (TypeError, ValueError, RecursionError) as reason:
        raise FileError(f"was not written: the model is not plain data ({reason}).") from reason
    if int.from_bytes(data[:_PREFIX], "little") > LONGEST_HEADER:
        raise FileError("was not written: the description is too long for a safetensors file.")
    return data


def _storable(name: str, array: np.ndarray) -> np.ndarray:
    """The array in C order and little-endian, as safetensors takes it on trust."""
    if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8:
        raise FileError(f"was not written: no file can hold {name}, of type {array.dtype}.")
    return np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")


def from_bytes(data: bytes) -> StoredConstruction:
    text = _metadata(data).get(KEY)
    if not isinstance(text, str):
        raise FileError("is a safetensors file but not a hardmax model.")
    description = _parse_description(text)
    digest = description.pop("sha256", None)
    tensors = _tensors(data)
    if digest != _digest(description, tensors):
        raise FileError("was altered after it was written: its digest does not match.")
    try:
        return rebuild(cast(Description, description), tensors)
    except FileError:
        raise
    except HardmaxError as reason:
        raise FileError(f"holds parts that do not make a model: {reason}") from reason
    except (LookupError, TypeError, ValueError, ArithmeticError) as reason:
        raise FileError("has a malformed description of its model.") from reason


def _metadata(data: bytes) -> Mapping[str, object]:
    """The header's own entry; says precisely what is wrong with a file that has no header.

    A safetensors file is the length of its header in eight bytes, the header as JSON, and the
    tensors' bytes. A header begins with a brace, which tells a truncated file from a foreign one.
    """
    length = int.from_bytes(data[:_PREFIX], "little")
    there = len(data) - _PREFIX
    if not data:
        raise FileError("is empty.")
    if length > LONGEST_HEADER or data[_PREFIX : _PREFIX + 1] != b"{":
        raise FileError("is not a safetensors file.")
    if there < length:
        raise FileError(f"is truncated: its header has {length} bytes, but {there} are there.")
    try:
        header = json.loads(data[_PREFIX : _PREFIX + length])
        own = header.pop("__metadata__", {})
        needed = max((tensor["data_offsets"][1] for tensor in header.values()), default=0)
        missing = needed - (there - length)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as reason:
        raise FileError("is not a safetensors file, or its header is damaged.") from reason
    if missing > 0:
        raise FileError(f"is truncated: {missing} of its {len(data) + missing} bytes are missing.")
    return own if isinstance(own, dict) else {}


def _parse_description(text: str) -> dict[str, object]:
    """The description, if it is the very text that this version of the format would write."""
    try:
        description = json.loads(text)
        faithful = isinstance(description, dict) and _canonical(description) == text
    except (ValueError, RecursionError) as reason:
        raise FileError("is damaged: its description is not valid JSON.") from reason
    if not isinstance(description, dict) or not isinstance(description.get("version"), int):
        raise FileError("has a malformed description: it names no format version.")
    if description["version"] > VERSION:
        raise FileError(
            f"was written in format {description['version']}, but this hardmax reads format "
            f"{VERSION}: install a newer one."
        )
    if not faithful:
        raise FileError("was altered after it was written: its description was rewritten.")
    return description


def _tensors(data: bytes) -> Tensors:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return Tensors(load(data))
    except (SafetensorError, LookupError, TypeError, ValueError) as reason:
        raise FileError(f"is damaged: its tensors cannot be read ({reason}).") from reason


def _canonical(value: object) -> str:
    """One text per JSON value: sorted keys, no spaces, plain ASCII, no infinities."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _digest(description: Mapping[str, object], tensors: Mapping[str, np.ndarray]) -> str:
    """SHA-256 of the description and of every tensor's name, type, shape and bytes.

    JSON holds no raw line break, and type and shape tell how many bytes follow, so no two
    contents are hashed from the same bytes.
    """
    digest = hashlib.sha256(_canonical(description).encode() + b"\n")
    for name in sorted(tensors):
        array = tensors[name]
        digest.update(_canonical([name, array.dtype.str, list(array.shape)]).encode() + b"\n")
        digest.update(array.tobytes())
    return digest.hexdigest()
