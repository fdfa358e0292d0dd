"""What became of mutants: lines of JSON, appended whole, read again by the next run."""

from __future__ import annotations

import fcntl
import json
import os
import tomllib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.mutants._mutation import Site

KILLED, SURVIVED, UNDECIDED = "killed", "survived", "undecided"
EXPLAINED = Path(__file__).with_name("explained.toml")


@dataclass(frozen=True)
class Result:
    """One mutant and its fate."""

    key: str
    path: str
    line: int
    function: str
    room: str
    kind: str
    operator: str
    before: str
    after: str
    fate: str
    test: str = ""  # that killed it
    why: str = ""  # what the test said, or why there is no verdict
    tests: int = 0  # that were run, the failing one included
    cpu: float = 0.0

    @classmethod
    def of(cls, site: Site, fate: str, **details: str | int | float) -> Result:
        same = ("key", "path", "line", "function", "room", "kind", "operator", "before", "after")
        return cls(**{name: getattr(site, name) for name in same}, fate=fate, **details)


def append(file: Path, result: Result) -> None:
    """One write under a lock: parts that run beside each other do not mix their lines."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        os.write(stream.fileno(), (json.dumps(asdict(result)) + "\n").encode())


def read(file: Path) -> dict[str, Result]:
    """The last fate of every mutant; a line cut short by a crash is not there."""
    found = {}
    for line in file.read_text().splitlines() if file.exists() else []:
        try:
            result = Result(**json.loads(line))
        except (ValueError, TypeError):
            continue
        found[result.key] = result
    return found


def explanations(file: Path = EXPLAINED) -> dict[tuple[str, str, str, str], str]:
    """Why survivors are harmless, by file, function, operator and the line's text."""
    if not file.exists():
        return {}
    entries = tomllib.loads(file.read_text()).get("survivor", [])
    return {(e["file"], e["function"], e["operator"], e["line"]): e["why"] for e in entries}


def explained(result: Result, known: dict[tuple[str, str, str, str], str]) -> str:
    return known.get((result.path, result.function, result.operator, result.before), "")


def still_open(sites: Iterable[Site], results: dict[str, Result], *, again: bool) -> list[Site]:
    """The mutants without a verdict; with `again`, also those that survived."""
    done = {KILLED} if again else {KILLED, SURVIVED}
    return [one for one in sites if one.key not in results or results[one.key].fate not in done]
