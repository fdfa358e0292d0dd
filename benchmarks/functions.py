"""Functions compiled, measured and held against their requirements.

    python -m benchmarks.functions                      everything
    python -m benchmarks.functions --only pieces        one part: products, reciprocals, maxima,
                                                        pieces, composites, slack, bills
    python -m benchmarks.functions --quick              fewer points
    python -m benchmarks.functions --json numbers.json  all numbers, for machines
    python -m benchmarks.functions --out DIR            the same in DIR/functions.json

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

from benchmarks._functions_composites import composites
from benchmarks._functions_heads import maxima, products, reciprocals
from benchmarks._functions_honesty import bills, slack
from benchmarks._functions_pieces import pieces
from benchmarks._report import Check, Report, Settings, failed

PARTS: dict[str, Callable[[Settings], Report]] = {
    "products": products,
    "reciprocals": reciprocals,
    "maxima": maxima,
    "pieces": pieces,
    "composites": composites,
    "slack": slack,
    "bills": bills,
}
WIDTH = 160  # columns: the widest table, also when the output is not a terminal


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts asked for, print them, and say by the exit code whether all is met."""
    options = _parser().parse_args(arguments)
    settings = Settings.of(quick=options.quick)
    console = Console()
    if console.width < WIDTH:
        console = Console(width=WIDTH)
    reports: dict[str, Report] = {}
    for part in options.only or PARTS:
        reports[part] = PARTS[part](settings)
        _show(console, reports[part])
    checks = [check for report in reports.values() for check in report.checks]
    _conclude(console, checks)
    for path in _paths(options):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(_as_record(reports), indent=2) + "\n")
    return int(failed(checks))


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


def _paths(options: argparse.Namespace) -> list[Path]:
    own = [] if options.out is None else [options.out / "functions.json"]
    return own + ([] if options.json is None else [options.json])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.functions",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="fewer points")
    parser.add_argument("--only", action="append", choices=PARTS, help="one part; may be repeated")
    parser.add_argument("--out", type=Path, help="also write all numbers to a file in this folder")
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
