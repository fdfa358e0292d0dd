"""What a campaign consists of and what it found, as tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from benchmarks._campaign_parts import MUST_BE_ZERO, Case, Part, faults
from benchmarks._campaign_state import Done, total

_MOST_FAILURES = 40


def parts_table(parts: Iterable[Part]) -> Table:
    """The parts, and where their cases are tried."""
    table = _table("part", "cases", "what", "where")
    for part in parts:
        table.add_row(part.name, f"{part.cases:,}", part.what, part.where)
    return table


def results_table(found: Mapping[Part, list[Done]], left: Mapping[Part, int]) -> Table:
    """One line per part: how many cases, what must be 0, what else was counted, what it took."""
    table = _table("part", "cases", "left", "must be 0", "counted", "CPU", "wall")
    everything: list[Done] = []
    for part, done in found.items():
        table.add_row(part.name, *_row(done, left[part], counted=True))
        everything += done
    table.add_section()
    table.add_row("all", *_row(everything, sum(left.values()), counted=False))
    return table


def failures_table(failures: Mapping[Part, list[Case]], seed: int) -> Table:
    """The cases that failed, as the command that tries them again."""
    table = _table("replay", "what went wrong", style="bold red")
    for part, cases in failures.items():
        for number, said in cases[:_MOST_FAILURES]:
            table.add_row(f"--replay {part.name} {seed} {number}", escape(said))
        if len(cases) > _MOST_FAILURES:
            table.add_row(f"{part.name}", f"and {len(cases) - _MOST_FAILURES:,} more")
    return table


def _row(done: list[Done], left: int, *, counted: bool) -> list[str]:
    counts, _ = total(done)
    others = [
        f"{count:,} {name}"
        for name, count in counts.items()
        if name != "cases" and name not in MUST_BE_ZERO
    ]
    return [
        f"{counts['cases']:,}",
        f"[bold red]{left:,}[/]" if left else "0",
        _zeros(counts),
        ", ".join(others) if counted else "",
        _time(sum(one.cpu for one in done)),
        _time(sum(one.wall for one in done)),
    ]


def _zeros(counts: Mapping[str, int]) -> str:
    """The counts that must be 0, those that a part never speaks of left out."""
    wrong = faults(counts)
    if wrong:
        return "[bold red]" + ", ".join(f"{count:,} {name}" for name, count in wrong.items())
    named = [name for name in MUST_BE_ZERO if name in counts]
    return ", ".join(f"0 {name}" for name in named) or "0"


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"


def _table(*names: str, style: str = "bold") -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style=style)
    for name in names:
        right = name in ("cases", "left", "CPU", "wall")
        table.add_column(name, justify="right" if right else "left", no_wrap=right)
    return table
