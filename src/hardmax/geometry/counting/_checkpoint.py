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


class Checkpoint:
    """The tallies of finished pieces, by number, for one job; written at once or not at all."""

    def __init__(self, path: str | Path, job: str) -> None:
        self.path, self.job = Path(path), job
        self.done: dict[int, Tally] = self._read() if self.path.exists() else {}
        self._written = time.monotonic()

    def add(self, number: int, tally: Tally) -> None:
        self.done[number] = tally
        if time.monotonic() - self._written > _EVERY:
            self.write()

    def write(self) -> None:
        numbers = sorted(self.done)
        tallies = [self.done[n] for n in numbers]
        silent = [one.silent for one in tallies] or [np.zeros((0, 4), dtype=np.uint64)]
        buffer = io.BytesIO()
        np.savez(
            buffer,
            job=np.frombuffer(self.job.encode(), dtype=np.uint8),
            numbers=np.array(numbers, dtype=np.int64),
            layers=np.array([one.layers for one in tallies], dtype=np.int64),
            decided=np.array([one.decided for one in tallies], dtype=np.int64),
            lengths=np.array([len(one.silent) for one in tallies], dtype=np.int64),
            silent=np.concatenate(silent),
        )
        try:
            write_atomically(self.path, buffer.getvalue())
        except FileError as reason:
            raise FileError(f"{self.path} {reason}") from reason
        self._written = time.monotonic()

    def _read(self) -> dict[int, Tally]:
        try:
            with self.path.open("rb") as file, np.load(file, allow_pickle=False) as found:
                job = found["job"].tobytes().decode()
                ends = np.cumsum(found["lengths"])
                parts = np.split(found["silent"], ends[:-1]) if len(ends) else []
                rows = zip(
                    found["numbers"].tolist(),
                    found["layers"].tolist(),
                    found["decided"].tolist(),
                    parts,
                    strict=True,
                )
                done = {n: Tally(tuple(one), decided, part) for n, one, decided, part in rows}
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
