"""What is done of a long count, on disk: it survives whatever ends the process."""

from __future__ import annotations

import hashlib
import io
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from hardmax._archives import arrays_in
from hardmax._atomic import write_atomically
from hardmax._errors import FileError, RequestError
from hardmax._reading import naming, read_file
from hardmax.geometry.counting._tally import Tally

_EVERY = 1.0  # seconds between two writings
_NAMES = ("numbers", "layers", "decided", "lengths", "silent")
_DIGEST = "sha256"


class Checkpoint:
    """The tallies of finished pieces, by number, of one job; written at once or not at all.

    A file holds both parts of a job, "cells" and "regions", each with its own pieces, and a digest
    that tells damage and edits from the original. It is no signature: whoever writes a file with
    other counts on purpose is believed.
    """

    def __init__(self, path: str | Path, job: str, part: str, pieces: int) -> None:
        self.path, self.job, self.part, self.pieces = Path(path), f"{job} {pieces}", part, pieces
        self.parts: dict[str, dict[int, Tally]] = self._read_parts() if self.path.exists() else {}
        self.done = self.parts.setdefault(part, {})
        self._written = time.monotonic()

    def add(self, number: int, tally: Tally) -> None:
        if any(len(one.layers) != len(tally.layers) for one in self.done.values()):
            raise self._foreign()
        self.done[number] = tally
        if time.monotonic() - self._written > _EVERY:
            self.write()

    def write(self) -> None:
        arrays = {"job": np.frombuffer(self.job.encode(), dtype=np.uint8)}
        for part, done in self.parts.items():
            arrays |= {f"{part}_{name}": array for name, array in _tallies_to_arrays(done).items()}
        arrays[_DIGEST] = _digest(arrays)
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)  # type: ignore[arg-type]  # names are names of arrays
        with naming(self.path):
            write_atomically(self.path, buffer.getvalue())
        self._written = time.monotonic()

    def _read_parts(self) -> dict[str, dict[int, Tally]]:
        with naming(self.path):
            data = read_file(self.path)
        try:
            arrays = arrays_in(data)
            if not np.array_equal(arrays.pop(_DIGEST), _digest(arrays)):
                raise FileError("was altered")
            job = arrays["job"].tobytes().decode()
            parts = [name.removesuffix("_numbers") for name in arrays if "_numbers" in name]
            done = {
                part: _arrays_to_tallies(
                    {name: arrays[f"{part}_{name}"] for name in _NAMES}, self.pieces
                )
                for part in (parts if job == self.job else ())
            }
        except Exception as reason:  # a foreign or damaged file may trip its parser anywhere
            raise self._foreign() from reason
        if job != self.job:
            raise RequestError(
                f"{self.path} belongs to another count: the source, the domain or the mode differ. "
                f"Name another file, or remove it."
            )
        return done

    def _foreign(self) -> FileError:
        return FileError(
            f"{self.path} is no checkpoint of a count, or it was altered. Name another file, or "
            f"remove it."
        )


def _digest(arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """SHA-256 of names, types, shapes and numbers; the first two tell how many bytes follow."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(repr((name, array.dtype.str, array.shape)).encode() + b"\n")
        digest.update(array.tobytes())
    return np.frombuffer(digest.digest(), dtype=np.uint8)


def _tallies_to_arrays(done: dict[int, Tally]) -> dict[str, np.ndarray]:
    numbers = sorted(done)
    tallies = [done[n] for n in numbers]
    silent = [one.silent for one in tallies] or [np.zeros((0, 4), dtype=np.uint64)]
    return {
        "numbers": np.array(numbers, dtype=np.int64),
        "layers": np.array([one.layers for one in tallies], dtype=np.int64),
        "decided": np.array([one.decided for one in tallies], dtype=np.int64),
        "lengths": np.array([len(one.silent) for one in tallies], dtype=np.int64),
        "silent": np.concatenate(silent),
    }


def _arrays_to_tallies(arrays: dict[str, np.ndarray], pieces: int) -> dict[int, Tally]:
    _check(arrays, pieces)
    ends = np.cumsum(arrays["lengths"])
    parts = np.split(arrays["silent"], ends[:-1]) if len(ends) else []
    rows = zip(
        arrays["numbers"].tolist(),
        arrays["layers"].tolist(),
        arrays["decided"].tolist(),
        parts,
        strict=True,
    )
    return {n: Tally(tuple(layers), decided, part) for n, layers, decided, part in rows}


def _check(arrays: dict[str, np.ndarray], pieces: int) -> None:
    """Refuse what `_tallies_to_arrays` does not write, however it came about."""
    whole = [arrays[name] for name in ("numbers", "layers", "decided", "lengths")]
    silent, count = arrays["silent"], len(arrays["numbers"])
    if any(a.dtype != np.int64 or len(a) != count or (a < 0).any() for a in whole):
        raise FileError("counts something else")
    numbers = arrays["numbers"].tolist()
    if len(set(numbers)) < count or max(numbers, default=0) >= pieces:
        raise FileError("counts pieces that there are not")
    if silent.dtype != np.uint64 or silent.shape != (arrays["lengths"].sum(), 4):
        raise FileError("counts facets that there are not")
