"""How tight certificates are: certified divided by measured."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import hardmax as hm
from benchmarks._checker_cases import Wanted, deeper, one_layer, solids
from benchmarks._measure import cpu_seconds
from benchmarks._report import Check, Report, Settings, Sheet

LATEST = 30.0  # seconds: two dimensions at 1e-4
BUDGET = "1.2e8 work"


def command(settings: Settings, part: str) -> str:
    return f"python -m benchmarks.checker --only {part}" + " --quick" * settings.quick


def tightness(settings: Settings) -> Report:
    """One layer, one and two dimensions, 1e-2 to 1e-4."""
    return _report(
        command(settings, "tightness"),
        "Required: certified/measured <= 1.01 in 1-D and 1.02 in 2-D for every one-layer route; "
        f"2-D at 1e-4 within {LATEST:g} s.",
        one_layer(settings),
    )


def three_dimensions(settings: Settings) -> Report:
    return _report(
        command(settings, "solids"),
        "Required: certified/measured <= 1.1 in 3-D at 1e-2 for every one-layer route.",
        solids(settings),
    )


def deep(settings: Settings) -> Report:
    return _report(
        command(settings, "deep"),
        "Required: certified/measured <= 1.05 in 1-D and 1.2 in 2-D for deeper routes at 1e-3.",
        deeper(settings),
    )


def _report(title: str, requirement: str, wanted: Iterable[Wanted]) -> Report:
    names = ("·function", "·route", "claimed", "certified", "measured", "ratio", "limit", "boxes")
    sheet = Sheet(title, requirement, *names, "CPU s", "·method", "·verdict", "·")
    checks, record = list[Check](), list[dict[str, Any]]()
    for one in wanted:
        row, own = _certified(one)
        checks += own
        sheet.table.add_row(*_cells(one, row), " ".join(check.mark for check in own))
        record.append(row)
    return Report([sheet], checks, {"runs": record})


def _certified(one: Wanted) -> tuple[dict[str, Any], list[Check]]:
    """Until the ratio is within the limit: half of what it allows is asked of the search."""
    construction = one.build()
    found: list[hm.Certificate] = []
    seconds = cpu_seconds(
        lambda: found.append(hm.certify(construction, tolerance=one.limit - 1.0, budget=BUDGET))
    )
    certificate = found[0]
    ratio = certificate.certified / certificate.measured if certificate.measured else float("inf")
    proved = certificate.verdict is hm.Verdict.PROVED
    checks = [Check(f"{one.name}: PROVED, ratio {ratio:.4f}", bool(proved and ratio <= one.limit))]
    if one.dimension == 2 and one.case.error == 1e-4:
        checks.append(Check(f"{one.name}: {seconds:.1f} s", seconds <= LATEST, timed=True))
    row = {
        "case": one.case.name,
        "route": one.offer.route,
        "limit": one.limit,
        "ratio": ratio,
        "cpu_seconds": seconds,
        **{name: getattr(certificate, name) for name in ("claimed", "certified", "measured")},
        "boxes": certificate.boxes,
        "method": certificate.method,
        "verdict": certificate.verdict.name,
    }
    return row, checks


def _cells(one: Wanted, row: dict[str, Any]) -> list[str]:
    return [
        one.case.name,
        row["route"],
        *(f"{row[name]:.4e}" for name in ("claimed", "certified", "measured")),
        f"{row['ratio']:.4f}",
        f"{one.limit:g}",
        f"{row['boxes']:,}",
        f"{row['cpu_seconds']:.2f}",
        row["method"],
        row["verdict"],
    ]
