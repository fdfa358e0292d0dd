"""What every benchmark program does: run its parts, print them, write them down, conclude."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape

from benchmarks._report import Check, Report, Settings, failed

WIDTH = 160  # columns: the widest table, also when the output is not a terminal

Part = Callable[[Settings], Report]


def run(options: argparse.Namespace, parts: Mapping[str, Part], settings: Settings) -> int:
    """Run the parts asked for, print them, and say by the exit code whether all is met."""
    console = Console()
    if console.width < WIDTH:
        console = Console(width=WIDTH)
    reports: dict[str, Report] = {}
    for part in options.only or parts:
        reports[part] = parts[part](settings)
        _show(console, reports[part])
    checks = [check for report in reports.values() for check in report.checks]
    _conclude(console, checks)
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(as_json(_as_record(reports)))
    return int(failed(checks))


def parse(
    program: str,
    description: str | None,
    parts: Mapping[str, Part],
    arguments: Sequence[str] | None,
) -> argparse.Namespace:
    """The options that all benchmark programs share."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {program}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="fewer seeds, points, repetitions")
    parser.add_argument("--only", action="append", choices=parts, help="one part; may be repeated")
    parser.add_argument("--out", type=Path, default=Path("out"), help="where plots go (out/)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers to FILE")
    return parser.parse_args(arguments)


def _show(console: Console, report: Report) -> None:
    for sheet in report.sheets:
        console.print(sheet.heading, sheet.table, sep="\n")
    for note in report.notes:
        console.print(escape(note), "")


def _conclude(console: Console, checks: list[Check]) -> None:
    for check in checks:
        if not check.holds:
            kind = " (a time; not counted)" if check.timed else ""
            console.print(f"{check.mark}{kind}: {escape(check.what)}")
    console.print(f"{sum(check.holds for check in checks)} of {len(checks)} requirements met.")


def as_json(record: dict[str, Any]) -> str:
    """The record as text; NumPy's numbers and arrays, which json does not know, as Python's.

    Infinities and nan, which JSON lacks though Python writes them, become texts.
    """
    finite = json.loads(json.dumps(record, default=_plain), parse_constant=str.lower)
    return json.dumps(finite, indent=2, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"a record holds a {type(value).__name__}, which no JSON file can hold")


def _as_record(reports: dict[str, Report]) -> dict[str, Any]:
    return {
        part: report.record
        | {"checks": [{"what": c.what, "holds": c.holds, "timed": c.timed} for c in report.checks]}
        for part, report in reports.items()
    }
