"""Errors and bills of small random networks, route by route."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import Any

import hardmax as hm
from benchmarks._measure import cpu_seconds
from benchmarks._report import Check, Report, Settings, Sheet
from benchmarks._sources import DOMAIN, ERROR, small_networks
from hardmax.lowering import routes_for

LIMITS = {
    ("ReLU 8-32-32-1", "attention"): 1.2,
    ("ReLU 8-32-32-1", "attention-only"): 1.3,  # whose slots are used again: fewer dense ones
    ("maxout 4-16-16-1, rank 4", "attention"): 1.3,
    ("maxout 4-16-16-1, rank 4", "attention-only"): 1.6,
}
# The attention-only constructions one would write first: nonzero weights, source's, layers, heads.
# A head per neuron; and for maxout a head per pair (unit, piece).
FIRST_CONSTRUCTIONS = {
    "ReLU 8-32-32-1": (1569, 1377, 2, 64),
    "maxout 4-16-16-1, rank 4": (2248, 1476, 3, 132),
}
COLUMNS = (
    "·route",
    "measured",
    "claimed",
    "claimed/\nmeasured",
    "nonzero",
    "times\nsource",
    "limit",
    "dense",
    "padded",
    "layers",
    "heads",
    "width",
    "largest\nlogit",
    "CPU s",
    "·",
)


def bills(settings: Settings) -> Report:
    """Compile, measure and count every network on every route it can take."""
    runs = [
        _run(name, network, route, seed, settings.points)
        for seed in range(settings.seeds)
        for name, network in small_networks(seed).items()
        for route in routes_for(network)
    ]
    sheets, checks = [], []
    for name in FIRST_CONSTRUCTIONS:
        made, more = _sheet(settings, name, [run for run in runs if run["network"] == name])
        sheets.append(made)
        checks += more
    return Report(sheets, checks, {"runs": runs})


def _sheet(settings: Settings, name: str, runs: list[dict[str, Any]]) -> tuple[Sheet, list[Check]]:
    sheet = Sheet(
        settings.command("bills"),
        f"{name} on [-1,1]^d, error {ERROR:g}. Required: measured <= claimed <= {ERROR:g} on every "
        "route; nonzero weights, embedding and read-out\nincluded, within the limit. The worst of "
        f"{settings.seeds} seeds, {settings.points:,} points each; dense and padded weights as "
        "multiples of the source's; compile time: median.",
        *COLUMNS,
    )
    checks: list[Check] = []
    for route in dict.fromkeys(run["route"] for run in runs):
        group = [run for run in runs if run["route"] == route]
        own = _checks(name, route, group)
        mark = next((check.mark for check in own if not check.holds), own[0].mark)
        sheet.table.add_row(*_row(name, route, group), mark)
        checks += own
    nonzero, source, layers, heads = FIRST_CONSTRUCTIONS[name]
    times = ("first attention-only", "", "", "", f"{nonzero:,}", f"{nonzero / source:.3f}")
    sheet.table.add_row(*times, "", "", "", str(layers), str(heads), style="dim")
    return sheet, checks


def _run(name: str, network: Any, route: str, seed: int, points: int) -> dict[str, Any]:
    made: list[hm.Construction] = []
    seconds = cpu_seconds(
        lambda: made.append(hm.compile(network, on=DOMAIN, error=ERROR, route=route))
    )
    construction = made[0]
    bill, source = construction.bill, network.parameters
    return {
        "network": name,
        "route": route,
        "seed": seed,
        "measured": hm.measure(construction, points, seed=seed).error,
        "claimed": construction.claim.error,
        "nonzero_ratio": bill.nonzero_parameters / source,
        "dense_ratio": bill.parameters / source,
        "padded_ratio": bill.padded_parameters / source,
        "compile_cpu_seconds": seconds,
        "bill": bill.as_dict(),
    }


def _checks(name: str, route: str, group: list[dict[str, Any]]) -> list[Check]:
    honest = all(run["measured"] <= run["claimed"] <= ERROR for run in group)
    checks = [Check(f"{name}, {route}: measured <= claimed <= {ERROR:g}", honest)]
    if (name, route) in LIMITS:
        ratio, limit = max(run["nonzero_ratio"] for run in group), LIMITS[name, route]
        what = f"{name}, {route}: {ratio:.3f} times the source's weights, at most {limit}"
        checks.append(Check(what, ratio <= limit))
    return checks


def _row(name: str, route: str, group: list[dict[str, Any]]) -> Iterable[str]:
    slack = [run["claimed"] / max(run["measured"], 5e-324) for run in group]
    limit = LIMITS.get((name, route))

    def worst(key: str) -> Any:
        return max(run[key] if key in run else run["bill"][key] for run in group)

    return (
        route,
        f"{worst('measured'):.2e}",
        f"{worst('claimed'):.3e}",
        f"{min(slack):,.1f} … {max(slack):,.1f}",
        f"{worst('nonzero_parameters'):,}",
        f"{worst('nonzero_ratio'):.3f}",
        "" if limit is None else f"{limit}",
        f"{worst('dense_ratio'):.1f}",
        f"{worst('padded_ratio'):.1f}",
        *(str(worst(key)) for key in ("layers", "heads", "width")),
        f"{worst('largest_logit'):,.0f}",
        f"{median(run['compile_cpu_seconds'] for run in group):.2f}",
    )
