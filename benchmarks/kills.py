"""Processes killed at random moments of every writer: the old file or the new one, and no litter.

    python -m benchmarks.kills                          1,000 kills
    python -m benchmarks.kills --count 100 --seed 7     fewer, others
    python -m benchmarks.kills --start 412 --count 1    one of them again

A warm process is forked, begins to write, and is killed by SIGKILL: at a random line of the code
that writes files, in the middle of its bytes, or at a random time. Afterwards the file must be the
old one or the new one, whole; its neighbours must be as they were; and the next write must succeed,
and remove what the killed process left, but not the temporary file of a process that lives. Exit
code 1 says that something was lost or left.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from benchmarks._kill_writers import Writer, writers
from hardmax import _atomic

COUNTS = ("killed", "finished", "old", "new", "lost", "litter")
_PIECES = 8  # in which a file's bytes are written, with a moment to be killed after each
_SUFFIXES = {"export of a picture": ".svg", "checkpoint": ".npz", "write_onnx": ".onnx"}


def run_part(start: int, count: int, seed: int, faults: list[str] | None = None) -> dict[str, int]:
    """Kills number start, ..., start + count - 1 of a seed, and what was found after them.

    Each is made from its own number and the seed alone. "finished" are those that came too late.
    """
    counts = Counter(dict.fromkeys(COUNTS, 0))
    with tempfile.TemporaryDirectory() as folder, _live_writer(Path(folder)) as live:
        scenes = [_Scene.of(writer, Path(folder), live) for writer in writers()]
        for number in range(start, start + count):
            scene = scenes[number % len(scenes)]
            for outcome in scene.kill(np.random.default_rng([seed, number])):
                counts[outcome.partition(":")[0]] += 1
                if outcome.startswith(("lost", "litter")) and faults is not None:
                    faults.append(f"kill {number} of seed {seed}, {scene.writer.name}, {outcome}")
    return dict(counts)


@contextmanager
def _live_writer(folder: Path) -> Iterator[Path]:
    """The temporary file of a process that lives: locked, as its writer keeps it."""
    place = folder / f"{_atomic._OURS}live.tmp"
    with open(place, "xb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield place


@dataclass(frozen=True)
class _Scene:
    """A writer in a folder, with what stood there before it began."""

    writer: Writer
    place: Path
    old: bytes | None
    kept: dict[Path, bytes]  # neighbours, which nobody may touch
    steps: int  # moments at which its writing can be killed
    seconds: float

    @classmethod
    def of(cls, writer: Writer, folder: Path, live: Path) -> _Scene:
        """Once through, so that everything is imported and compiled before anything is forked."""
        place = folder / f"target{_SUFFIXES.get(writer.name, '.safetensors')}"
        if writer.first is not None:
            writer.first(place)
        old = place.read_bytes() if place.exists() else None
        writer.write(place)
        if not writer.is_new(place):
            raise RuntimeError(f"{writer.name} does not know its own file")
        counted: list[int] = []
        begun = time.perf_counter()
        with _steps(lambda: counted.append(1)):
            writer.write(place)
        seconds = time.perf_counter() - begun
        place.unlink()
        kept = {path: path.read_bytes() for path in folder.iterdir()}
        return cls(writer, place, old, kept | {live: b""}, len(counted), seconds)

    def kill(self, rng: np.random.Generator) -> Iterator[str]:
        self._set()
        step = int(rng.integers(self.steps)) if rng.random() < 0.75 else None
        ended = self._killed_at_step(step) if step is not None else self._killed_at_time(rng)
        yield "killed" if ended == -signal.SIGKILL else "finished"
        yield self._state()
        yield from self._next_write()

    def _set(self) -> None:
        for path in self.place.parent.iterdir():
            if path not in self.kept:
                path.unlink()
        if self.old is not None:
            self.place.write_bytes(self.old)

    def _killed_at_step(self, step: int) -> int:
        left = [step]

        def count() -> None:
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)

        def work() -> None:
            with _steps(count):
                self.writer.write(self.place)

        return _ended(_forked(work))

    def _killed_at_time(self, rng: np.random.Generator) -> int:
        child = _forked(lambda: self.writer.write(self.place))
        time.sleep(rng.uniform(0.0, self.seconds))
        os.kill(child, signal.SIGKILL)
        return _ended(child)

    def _state(self) -> str:
        """Which file is there now."""
        for path, data in self.kept.items():
            if not path.exists() or path.read_bytes() != data:
                return f"lost: {path.name}, a neighbour"
        now = self.place.read_bytes() if self.place.exists() else None
        if now == self.old:
            return "old"
        try:
            whole = now is not None and self.writer.is_new(self.place)
        except Exception as reason:
            return f"lost: {type(reason).__name__}: {reason}"
        return "new" if whole else "lost: neither the old file nor the new one"

    def _next_write(self) -> Iterator[str]:
        if _ended(_forked(lambda: self.writer.write(self.place))) != 0:
            yield "lost: the next write failed"
        elif not self.writer.is_new(self.place):
            yield "lost: the next write wrote something else"
        if litter := {*self.place.parent.iterdir()} - {*self.kept, self.place}:
            yield f"litter: {', '.join(path.name for path in litter)}"
        if any(not path.exists() for path in self.kept):
            yield "lost: the file of a process that lives"


# ---- processes -----------------------------------------------------------------------------------


def _forked(work: Callable[[], None]) -> int:
    """The number of a child that does the work and ends, silently."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        with open(os.devnull, "w") as nothing, contextlib.redirect_stderr(nothing):
            work()
        code = 0
    finally:
        os._exit(code)


def _ended(child: int) -> int:
    """How a child ended: its exit code, or minus the signal that killed it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@contextmanager
def _steps(step: Callable[[], Any]) -> Iterator[None]:
    """Call `step` at every line of the code that writes files, and between pieces of its bytes."""

    def in_file(frame: Any, event: str, _: Any) -> Any:
        if event == "line":
            step()
        return in_file

    def anywhere(frame: Any, event: str, _: Any) -> Any:
        return in_file if frame.f_code.co_filename == _atomic.__file__ else None

    def opened(path: Path, mode: str) -> Any:
        return _InPieces(open(path, mode), step)

    before = sys.gettrace()
    vars(_atomic)["open"] = opened
    sys.settrace(anywhere)
    try:
        yield
    finally:
        sys.settrace(before)
        del vars(_atomic)["open"]


class _InPieces:
    """A file whose bytes go to the disk piece by piece."""

    def __init__(self, file: BinaryIO, step: Callable[[], Any]) -> None:
        self._file, self._step = file, step

    def write(self, data: bytes) -> None:
        size = max(1, -(-len(data) // _PIECES))
        for start in range(0, len(data), size):
            self._file.write(data[start : start + size])
            self._file.flush()
            self._step()

    def __enter__(self) -> _InPieces:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kills",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--start", type=int, default=0, help="the first kill (0)")
    parser.add_argument("--count", type=int, default=1000, help="how many (1,000)")
    parser.add_argument("--seed", type=int, default=0, help="which ones (0)")
    options = parser.parse_args(arguments)
    faults: list[str] = []
    counts = run_part(options.start, options.count, options.seed, faults)
    for line in faults:
        print(line)
    used = sum(os.times()[:4])
    told = ", ".join(f"{number:,} {name}" for name, number in counts.items())
    print(f"{options.count:,} kills of {len(writers())} writers: {told}, in {used:.0f} CPU s")
    return int(bool(faults))


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.exit(main())
