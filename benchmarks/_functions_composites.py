"""Composite functions: compile time in a fresh process, and errors where they hide.

    python -m benchmarks._functions_composites NUMBER ROUTE

compiles one case and prints its CPU times as JSON; ROUTE may be "-", for the planner's choice.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks._functions_cases import COMPOSITES
from benchmarks._functions_run import command, run_offer
from benchmarks._measure import cpu_seconds, threads
from benchmarks._report import Check, Report, Settings, Sheet
from hardmax._workbench import compile

COMPILE_LIMIT = 5.0  # CPU seconds, with the start of Python and all imports
CHOICE = "-"


def composites(settings: Settings) -> Report:
    """Times first, then every route's error."""
    timed, measured = _times(settings), _errors(settings)
    return Report(
        timed.sheets + measured.sheets,
        timed.checks + measured.checks,
        timed.record | measured.record,
    )


def _times(settings: Settings) -> Report:
    sheet = Sheet(
        command(settings, "composites"),
        f"Required: hm.compile takes less than {COMPILE_LIMIT:g} s of CPU in a fresh process, the "
        "start of Python, imports and empty caches included.\nAgain: the same call once more. "
        f"Direct: route='direct', which asks no other route. On {threads()}.",
        *("·function", "·chosen", "start", "cold", "limit", "again", "direct, cold", "·"),
    )
    checks, record = list[Check](), list[dict[str, Any]]()
    for number, case in enumerate(COMPOSITES):
        chosen, direct = cold_times(number, CHOICE), cold_times(number, "direct")
        what = f"{case.name}: compiled in {chosen['cold']:.1f} s of CPU"
        checks.append(Check(what, chosen["cold"] < COMPILE_LIMIT, timed=True))
        sheet.table.add_row(
            case.name,
            chosen["route"],
            f"{chosen['start']:.2f}",
            f"{chosen['cold']:.2f}",
            f"{COMPILE_LIMIT:g}",
            f"{chosen['warm']:.2f}",
            f"{direct['cold']:.2f}",
            checks[-1].mark,
        )
        record.append({"case": case.name, "choice": chosen, "direct": direct})
    return Report([sheet], checks, {"compile_cpu_seconds": record})


def cold_times(number: int, route: str) -> dict[str, Any]:
    """CPU times of a case in a process of its own."""
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks._functions_composites", str(number), route],
        cwd=Path(__file__).resolve().parents[1],
        check=True,
        capture_output=True,
        text=True,
    )
    return dict(json.loads(ran.stdout))


def _errors(settings: Settings) -> Report:
    sheet = Sheet(
        command(settings, "composites"),
        f"Required: measured <= claimed <= error on {settings.points:,} points: corners, walls, "
        "near-ties, kinks and uniform ones.",
        *("·function", "·route", "layers", "heads", "width", "claimed", "measured", "ratio", "·"),
    )
    checks, runs = list[Check](), list[dict[str, Any]]()
    for case in COMPOSITES:
        for offer in case.plan.open:
            run = run_offer(case, offer, settings.points)
            checks.append(run.honesty)
            sheet.table.add_row(
                case.name,
                run.route,
                *(f"{run.counted[name]:,}" for name in ("layers", "heads", "width")),
                f"{run.claimed:.3e}",
                f"{run.measured:.3e}",
                f"{run.slack:.2f}",
                checks[-1].mark,
            )
            runs.append(run.as_dict())
    return Report([sheet], checks, {"runs": runs})


def _timed_here(number: int, route: str) -> dict[str, Any]:
    case = COMPOSITES[number]
    start = time.process_time()
    wanted = None if route == CHOICE else route
    made = compile(case.text, on=case.on, error=case.error, route=wanted)
    cold = time.process_time()
    warm = cpu_seconds(lambda: compile(case.text, on=case.on, error=case.error, route=wanted))
    return {"route": made.route, "start": start, "cold": cold, "warm": warm}


if __name__ == "__main__":
    print(json.dumps(_timed_here(int(sys.argv[1]), sys.argv[2])))
