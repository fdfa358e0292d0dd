"""What is done of a long count, on disk: it survives whatever ends the process."""

from __future__ import annotations

import io
import time
from pathlib import Path

import numpy as np

from hardmax._atomic import write_atomically
from hardmax._errors import FileError, RequestError
from hardmax.geometry.counting._tally import Tally

_EVERY = 1.0  # seconds between two writings
_NAMES = ("numbers", "layers", "decided", "lengths", "silent")


class Checkpoint:
    """The tallies of finished pieces, by number, of one job; written at once or not at all.

    A file holds both parts of a job, "cells" and "regions", each with its own pieces.
    """

    def __init__(self, path: str | Path, job: str, part: str) -> None:
        self.path, self.job, self.part = Path(path), job, part
        self.parts: dict[str, dict[int, Tally]] = self._read() if self.path.exists() else {}
        self.done = self.parts.setdefault(part, {})
        self._written = time.monotonic()

    def add(self, number: int, tally: Tally) -> None:
        self.done[number] = tally
        if time.monotonic() - self._written > _EVERY:
            self.write()

    def write(self) -> None:
        arrays = {"job": np.frombuffer(self.job.encode(), dtype=np.uint8)}
        for part, done in self.parts.items():
            arrays |= {f"{part}_{name}": array for name, array in _packed(done).items()}
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)  # type: ignore[arg-type]  # names are names of arrays
        try:
            write_atomically(self.path, buffer.getvalue())
        except FileError as reason:
            raise FileError(f"{self.path} {reason}") from reason
        self._written = time.monotonic()

    def _read(self) -> dict[str, dict[int, Tally]]:
        try:
            with self.path.open("rb") as file, np.load(file, allow_pickle=False) as found:
                job = found["job"].tobytes().decode()
                parts = [name.removesuffix("_numbers") for name in found if "_numbers" in name]
                done = {
                    part: _unpacked({name: found[f"{part}_{name}"] for name in _NAMES})
                    for part in parts
                }
        except Exception as reason:  # a foreign or damaged file may trip its parser anywhere
            raise FileError(
                f"{self.path} is no checkpoint of a count. Name another file, or remove it."
            ) from reason
        if job != self.job:
            raise RequestError(
                f"{self.path} belongs to another count: the source, the domain or the mode differ. "
                f"Name another file, or remove it."
            )
        return done


def _packed(done: dict[int, Tally]) -> dict[str, np.ndarray]:
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


def _unpacked(arrays: dict[str, np.ndarray]) -> dict[int, Tally]:
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
