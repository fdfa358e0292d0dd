"""How much of a claim is needed, and whether a bill stated is the bill counted."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks._functions_cases import (
    COMPOSITES,
    FLOAT32_PRODUCT,
    MAXIMUM,
    PRIMITIVES,
    PRODUCTS,
    RECIPROCALS,
    Case,
)
from benchmarks._functions_run import (
    AGREEMENT,
    REAL_FIELDS,
    ROUNDING_ONLY,
    Run,
    command,
    run_offer,
)
from benchmarks._report import Check, Report, Settings, Sheet

ROUTES = ("direct", "recipe", "feedforward")
SLACK = 3.0


def slack(settings: Settings) -> Report:
    """Claimed divided by measured, for every primitive and route."""
    sheet = Sheet(
        command(settings, "slack"),
        f"Claimed divided by measured, primitives, error 1e-3, {settings.points:,} hard points. "
        f"Required: at most {SLACK:g}.\nClaims below {ROUNDING_ONLY:g} are rounding alone (r) and "
        "excepted.",
        *("·function", *ROUTES, "·"),
    )
    checks, runs = list[Check](), list[Run]()
    for case in PRIMITIVES:
        row = [run_offer(case, case.plan.offer(route), settings.points) for route in ROUTES]
        own = [check for run in row for check in (_tight(run), run.honesty)]
        shown = ("r" if run.rounding_only else f"{run.slack:.3f}" for run in row)
        mark = next((check.mark for check in own if not check.holds), own[0].mark)
        sheet.table.add_row(case.name, *shown, mark)
        checks += own
        runs += row
    return Report([sheet], checks, {"runs": [run.as_dict() for run in runs]})


def _tight(run: Run) -> Check:
    what = f"{run.case}, {run.route}: claimed {run.slack:.3g} times the measured error"
    return Check(what, run.rounding_only or run.slack <= SLACK)


def bills(settings: Settings) -> Report:
    """Stated before anything is built, counted afterwards."""
    sheet = Sheet(
        command(settings, "bills"),
        "The bill stated by the plan and the one counted from the weights, all functions and "
        f"routes. Required: integers equal, the largest logit and weight\nwithin {AGREEMENT:g}, "
        "relative. Shown: one row per function with the worst route.",
        *("·function", "routes", "integers", "logit", "·worst", "weight", "·worst", "·"),
    )
    checks, record = list[Check](), dict[str, dict[str, float]]()
    for case in _all_cases():
        runs = [run_offer(case, offer, 8) for offer in case.plan.open]
        own = [_agreement(run) for run in runs]
        wrong = sorted({name for run in runs for name in run.wrong_integers})
        cells = [len(runs), ", ".join(wrong) or "equal"]
        for name in REAL_FIELDS:
            off, route = max((run.difference(name), run.route) for run in runs)
            cells += [f"{off:.1e}", route]
        mark = next((check.mark for check in own if not check.holds), own[0].mark)
        sheet.table.add_row(case.name, *map(str, cells), mark)
        checks += own
        record[case.name] = {run.route: run.difference("largest_logit") for run in runs}
    return Report([sheet], checks, {"logit_differences": record})


def _agreement(run: Run) -> Check:
    parts = [
        f"{name} stated {run.stated[name]}, counted {run.counted[name]}"
        for name in run.wrong_integers
    ]
    parts += [f"{name} off by {run.difference(name):.1e}" for name in REAL_FIELDS]
    return Check(f"{run.case}, {run.route}: {', '.join(parts)}", run.bill_agrees)


def _all_cases() -> Iterator[Case]:
    yield from PRODUCTS
    yield FLOAT32_PRODUCT
    yield from RECIPROCALS
    yield MAXIMUM
    yield from COMPOSITES
    yield from PRIMITIVES
