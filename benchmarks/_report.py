"""What a benchmark hands back: tables for people, numbers for machines, checks that may fail."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

WORDS = "·"  # before the name of a column of words, which are set to the left


@dataclass(frozen=True)
class Settings:
    """How much is measured, and where pictures go."""

    quick: bool = False
    seeds: int = 5
    points: int = 100_000
    rounds: int = 7  # how often a time is measured
    steps: int = 2  # values of the coldness in a decade
    out: Path = Path("out")

    @classmethod
    def of(cls, *, quick: bool, out: Path = Path("out")) -> Settings:
        if quick:
            return cls(True, seeds=2, points=10_000, rounds=3, steps=1, out=out)
        return cls(out=out)

    @property
    def coldnesses(self) -> list[float]:
        """10 to 10^6."""
        return [10.0 ** (k / self.steps) for k in range(self.steps, 6 * self.steps + 1)]

    def command(self, part: str) -> str:
        return f"python -m benchmarks.networks --only {part}" + " --quick" * self.quick


@dataclass(frozen=True)
class Check:
    """A requirement and whether it was met. Times are reported, but decide nothing."""

    what: str
    holds: bool
    timed: bool = False

    @property
    def mark(self) -> str:
        return "[green]met[/]" if self.holds else "[bold red]missed[/]"


class Sheet:
    """A table headed by the command that makes it and by what is required of it."""

    def __init__(self, command: str, requirement: str, *columns: str) -> None:
        self.heading = f"[bold]$ {escape(command)}[/]\n{escape(requirement)}"
        self.table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
        for column in columns:
            words = column.startswith(WORDS)
            name = escape(column.removeprefix(WORDS))
            self.table.add_column(name, justify="left" if words else "right", no_wrap=True)


@dataclass(frozen=True)
class Report:
    """One part of the benchmark."""

    sheets: list[Sheet]
    checks: list[Check]
    record: dict[str, Any]
    notes: list[str] = field(default_factory=list)


def failed(checks: list[Check]) -> bool:
    """Whether a requirement that is not a time was missed."""
    return not all(check.holds or check.timed for check in checks)
