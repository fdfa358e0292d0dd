"""How long it takes to decide a claim, in CPU time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hardmax as hm
from benchmarks._checker_tightness import command
from benchmarks._functions_cases import UNIT
from benchmarks._measure import cpu_seconds, threads
from benchmarks._report import Check, Report, Settings, Sheet
from benchmarks._sources import large_network

PRODUCT = {"x": UNIT, "y": UNIT}
Build = Callable[[], hm.Construction]


def _function(text: str, on: dict[str, tuple[float, float]], error: float, route: str) -> Build:
    return lambda: hm.compile(text, on=on, error=error, route=route)


def _network(route: str) -> Build:
    return lambda: hm.compile(large_network(), on="[-1,1]^64", error=1e-3, route=route)


CASES: dict[str, tuple[Build, float]] = {  # and the limit in seconds
    "x*y at 1e-3, direct": (_function("x*y", PRODUCT, 1e-3, "direct"), 2.0),
    "x*y at 1e-3, recipe": (_function("x*y", PRODUCT, 1e-3, "recipe"), 10.0),
    "sin(x) at 1e-4, direct": (_function("sin(x)", {"x": UNIT}, 1e-4, "direct"), 1.0),
    "exp(x) at 1e-4, anchors": (_function("exp(x)", {"x": (0.0, 1.0)}, 1e-4, "anchors"), 1.0),
    "1/x at 1e-4, direct": (_function("1/x", {"x": (0.1, 1.0)}, 1e-4, "direct"), 1.0),
    "1/x at 1e-4, recipe": (_function("1/x", {"x": (0.1, 1.0)}, 1e-4, "recipe"), 1.0),
    "sqrt(x) at 1e-4, recipe": (_function("sqrt(x)", {"x": (0.0, 1.0)}, 1e-4, "recipe"), 1.0),
    "64-256-256-10, attention": (_network("attention"), 5.0),
    "64-256-256-10, attention-only": (_network("attention-only"), 5.0),
    "64-256-256-10, feedforward": (_network("feedforward"), 5.0),
}


def speed(settings: Settings) -> Report:
    """From a construction in memory to a verdict, the first time; imports are not counted."""
    sheet = Sheet(
        command(settings, "speed"),
        "Required: PROVED within the limit, in CPU time, nothing cached (the claim is decided, no "
        f"tolerance asked). On {threads()}.",
        *("·model", "CPU s", "limit", "boxes", "·method", "·verdict", "·"),
    )
    hm.certify(hm.compile("x + y", on=PRODUCT))  # imports
    checks, record = list[Check](), list[dict[str, Any]]()
    for name, (build, limit) in CASES.items():
        construction = build()
        found: list[hm.Certificate] = []
        seconds = cpu_seconds(lambda: found.append(hm.certify(construction)))  # noqa: B023
        certificate = found[0]
        own = [
            Check(f"{name}: {certificate.verdict.name}", certificate.verdict is hm.Verdict.PROVED),
            Check(f"{name}: {seconds:.2f} s", seconds < limit, timed=True),
        ]
        checks += own
        sheet.table.add_row(
            name,
            f"{seconds:.2f}",
            f"{limit:g}",
            f"{certificate.boxes:,}",
            certificate.method,
            certificate.verdict.name,
            " ".join(check.mark for check in own),
        )
        record.append(
            {
                "case": name,
                "cpu_seconds": seconds,
                "limit": limit,
                "boxes": certificate.boxes,
                "method": certificate.method,
                "verdict": certificate.verdict.name,
            }
        )
    return Report([sheet], checks, {"runs": record})
