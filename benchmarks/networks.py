"""Networks compiled, measured and held against their requirements.

    python -m benchmarks.networks                      everything
    python -m benchmarks.networks --only coldness      one part: bills, speed, coldness, economy
    python -m benchmarks.networks --quick              fewer seeds, points and repetitions
    python -m benchmarks.networks --json numbers.json  all numbers, for machines

Exit code 1 says that a requirement was missed. Times are flagged in the tables but never decide:
they depend on the machine.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from benchmarks._bills import bills
from benchmarks._coldness import coldness
from benchmarks._economy import economy
from benchmarks._report import Report, Settings, failed
from benchmarks._speed import speed

PARTS: dict[str, Callable[[Settings], Report]] = {
    "bills": bills,
    "speed": speed,
    "coldness": coldness,
    "economy": economy,
}
WIDTH = 160  # columns: the widest table, also when the output is not a terminal


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts asked for, print them, and say by the exit code whether all is met."""
    options = _parser().parse_args(arguments)
    settings = Settings.of(quick=options.quick, out=options.out)
    console = Console()
    if console.width < WIDTH:
        console = Console(width=WIDTH)
    reports: dict[str, Report] = {}
    for part in options.only or PARTS:
        reports[part] = PARTS[part](settings)
        for sheet in reports[part].sheets:
            console.print(sheet.heading, sheet.table, sep="\n")
        for note in reports[part].notes:
            console.print(escape(note), "")
    checks = [check for report in reports.values() for check in report.checks]
    for check in checks:
        if not check.holds:
            kind = " (a time; not counted)" if check.timed else ""
            console.print(f"{check.mark}{kind}: {escape(check.what)}")
    console.print(f"{sum(check.holds for check in checks)} of {len(checks)} requirements met.")
    if options.json is not None:
        options.json.write_text(json.dumps(_as_record(reports), indent=2) + "\n")
    return int(failed(checks))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.networks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="fewer seeds, points, repetitions")
    parser.add_argument("--only", action="append", choices=PARTS, help="one part; may be repeated")
    parser.add_argument("--out", type=Path, default=Path("out"), help="where plots go (out/)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers to FILE")
    return parser


def _as_record(reports: dict[str, Report]) -> dict[str, Any]:
    return {
        part: report.record
        | {"checks": [{"what": c.what, "holds": c.holds, "timed": c.timed} for c in report.checks]}
        for part, report in reports.items()
    }


if __name__ == "__main__":
    sys.exit(main())
