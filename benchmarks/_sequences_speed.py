"""A thousand sequences in one call: time by length, and peak memory."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from typing import Any

from benchmarks._measure import threads
from benchmarks._report import Check, Report, Settings, Sheet
from benchmarks._sequences_run import ALPHABET, PROGRAMS

BATCH = 1000
LENGTHS = (10, 100, 1000)
EXPONENT = 2.0  # attention is quadratic in the length
NOISE = 0.15  # in the exponent: a factor of 1.4 between two times
MEMORY = 1024.0  # megabytes


def forward(settings: Settings) -> Report:
    """CPU time per sequence at each length, its growth, and the memory of the process."""
    sheet = Sheet(
        f"python -m benchmarks.sequences{' --quick' * settings.quick}",
        f"Required: {BATCH:,} sequences in one call take less than {MEMORY:,.0f} MB, and time that "
        f"grows at most as the square of the length.\nAlphabet {len(ALPHABET)}; each model in a "
        f"process of its own; CPU time on {threads()}.",
        *("·program", "length", "sequences", "parameters", "compile s", "CPU s", "ms each"),
        *("exponent", "peak MB", "of it before", "·"),
    )
    checks: list[Check] = []
    record: list[dict[str, Any]] = []
    for name in PROGRAMS:
        before: dict[str, Any] | None = None
        for length in LENGTHS[:2] if settings.quick else LENGTHS:
            row = measured_alone(name, length, 100 if settings.quick else BATCH)
            row["exponent"] = _exponent(before, row)
            more = _checked(row)
            sheet.table.add_row(*_cells(row), *(check.mark for check in more[-1:]))
            checks += more
            record.append(row)
            before = row
    refusals = [
        f"{r['program']} at {r['length']}: {r['refused']}" for r in record if "refused" in r
    ]
    return Report([sheet], checks, {"forward": record}, refusals)


def measured_alone(name: str, length: int, batch: int) -> dict[str, Any]:
    """One program at one length, in a process of its own."""
    rounds = 1 if length >= 1000 else 3
    command = [sys.executable, "-m", "benchmarks._sequences_run", name]
    command += [str(number) for number in (length, batch, rounds)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    row = {"program": name, "length": length, "sequences": batch, **json.loads(done.stdout)}
    if "seconds" in row:
        row["ms each"] = 1000.0 * row["seconds"] / batch
    return row


def _exponent(before: dict[str, Any] | None, row: dict[str, Any]) -> float | None:
    if before is None or "seconds" not in before or "seconds" not in row:
        return None
    growth = row["ms each"] / before["ms each"]
    return math.log(growth) / math.log(row["length"] / before["length"])


def _checked(row: dict[str, Any]) -> list[Check]:
    what = f"{row['program']} at length {row['length']}"
    if "refused" in row:
        return [Check(f"{what}: it is compiled", False)]
    checks = []
    if row["exponent"] is not None:
        said = f"{what}: time grows as length^{row['exponent']:.2f}, at most {EXPONENT:g}"
        checks.append(Check(said, row["exponent"] <= EXPONENT + NOISE, timed=True))
    said = f"{what}: {row['peak MB']:,.0f} MB, at most {MEMORY:,.0f}"
    return [*checks, Check(said, row["peak MB"] <= MEMORY)]


def _cells(row: dict[str, Any]) -> list[str]:
    start = [row["program"], f"{row['length']:,}", f"{row['sequences']:,}"]
    if "refused" in row:
        return [*start, "refused", "", "", "", "", "", ""]
    return [
        *start,
        f"{row['parameters']:,}",
        f"{row['compile s']:.1f}",
        f"{row['seconds']:.2f}",
        f"{row['ms each']:.3f}",
        "" if row["exponent"] is None else f"{row['exponent']:.2f}",
        f"{row['peak MB']:,.0f}",
        f"{row['before MB']:,.0f}",
    ]
