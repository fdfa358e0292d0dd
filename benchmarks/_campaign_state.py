"""What a campaign has done so far: a file of JSON lines, one per chunk, that outlives a crash.

A line is appended by a single write, so that several processes may share the file; a line that a
killed process left unfinished is no JSON and counts as not done.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks._campaign_parts import Case, Part, faults

NAMES = ("part", "seed", "source", "start", "count", "counts", "failures", "cpu", "wall")


@dataclass(frozen=True)
class Chunk:
    """The cases start to start + count - 1 of a part."""

    part: Part
    seed: int
    start: int
    count: int

    @property
    def stop(self) -> int:
        return self.start + self.count


@dataclass(frozen=True)
class Shard:
    """One of several equal shares of a campaign, counted from 1."""

    number: int = 1
    of: int = 1

    @classmethod
    def parse(cls, text: str) -> Shard:
        number, _, of = text.partition("/")
        if not (number.isdigit() and of.isdigit() and 1 <= int(number) <= int(of)):
            raise ValueError(f"A shard is written 1/4, with a number from 1 to 4, not {text}.")
        return cls(int(number), int(of))

    def holds(self, part: Part, case: int) -> bool:
        return case // part.chunk % self.of == self.number - 1


@dataclass(frozen=True)
class Done:
    """What one chunk came to; `wall` is the share of the clock, processes side by side."""

    part: str
    seed: int
    source: str
    start: int
    count: int
    counts: dict[str, int]
    failures: list[Case] = field(default_factory=list)
    cpu: float = 0.0
    wall: float = 0.0

    @property
    def stop(self) -> int:
        return self.start + self.count


class State:
    """The lines of the file, and those to come."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = list(_read(path))

    def append(self, done: Done) -> None:
        self.lines.append(done)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps(asdict(done)) + "\n"
        with open(self.path, "a+b", buffering=0) as file:  # appends, whoever else does
            file.seek(max(0, file.seek(0, os.SEEK_END) - 1))
            unfinished = file.read() not in (b"", b"\n")
            file.write(("\n" * unfinished + line).encode())
            os.fsync(file.fileno())

    def of(self, part: Part, seed: int, source: str | None, count: int) -> list[Done]:
        """What is known of the first `count` cases; of any source, if none is named."""
        own = (d for d in self.lines if d.part == part.name and d.seed == seed and d.stop <= count)
        kept: list[Done] = []
        for done in own:
            if source in (None, done.source) and not any(_overlap(done, k) for k in kept):
                kept.append(done)
        return kept


def pending(part: Part, seed: int, count: int, shard: Shard, done: Iterable[Done]) -> list[Chunk]:
    """The chunks that are left: the gaps, cut at multiples of the part's chunk."""
    chunks, at = [], 0
    for start, stop in [*sorted((d.start, d.stop) for d in done), (count, count)]:
        while at < start:
            end = min(start, (at // part.chunk + 1) * part.chunk)
            chunks.append(Chunk(part, seed, at, end - at))
            at = end
        at = max(at, stop)
    return [chunk for chunk in chunks if shard.holds(part, chunk.start)]


def total(done: Iterable[Done]) -> tuple[Counter[str], list[Case]]:
    """The sum of the counts, and all that failed."""
    counts: Counter[str] = Counter()
    failures: list[Case] = []
    for one in done:
        counts.update(one.counts)
        failures += [(number, said) for number, said in one.failures]
    return counts, sorted(failures)


def is_clean(done: Iterable[Done]) -> bool:
    """Whether nothing is false, and no case was left out without a word."""
    return not any(faults(one.counts) or one.counts["cases"] < one.count for one in done)


def source_hash() -> str:
    """One hash of the package that is tested and of the benchmarks that test it."""
    digest = hashlib.sha256()
    for package in ("hardmax", "benchmarks"):
        spec = importlib.util.find_spec(package)
        for folder in sorted((spec.submodule_search_locations if spec else None) or []):
            for path in sorted(Path(folder).rglob("*.py")):
                digest.update(f"{path.relative_to(folder)}\n".encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _overlap(a: Done, b: Done) -> bool:
    return a.start < b.stop and b.start < a.stop


def _read(path: Path) -> Iterator[Done]:
    if not path.exists():
        return
    for line in path.read_text(errors="replace").splitlines():
        try:
            record: dict[str, Any] = json.loads(line)
            failures = [(int(number), str(said)) for number, said in record["failures"]]
            yield Done(**{name: record[name] for name in NAMES} | {"failures": failures})
        except (ValueError, LookupError, TypeError):
            continue
