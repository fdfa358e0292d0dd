"""Plans and sizing curves as tables for people. Opening this file loads Rich."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console

from hardmax import Function, Offer, Plan
from hardmax.cli._records import equation
from hardmax.cli._tables import plain_console, plain_table, print_table
from hardmax.core import Target
from hardmax.lowering import RouteCurve, SizingCurve

_SHOWN = ("layers", "heads", "parameters", "largest_logit", "largest_weight")
_STAR = "* no other route takes less of one thing and no more of the rest"
_LONGEST = 160
_ROOMY = 90
_PICKED = {
    None: "fewest parameters",
    "default": "the default for networks",
    "parameters": "fewest parameters",
    "layers": "fewest layers",
    "heads": "fewest heads",
    "logit": "smallest logit",
    "float32": "fewest parameters of those that do with float32",
}


def print_plan(target: Target, found: Plan, prefer: str | None, picked: str | None) -> None:
    """One row a route, the Pareto-best with a star; reasons of refusals below."""
    console = plain_console()
    if prefer is None and not isinstance(target, Function):
        prefer = "default"
    where = "" if found.format == "float64" else f" in {found.format}"
    heading = f"{equation(target)} on {found.domain}, error {found.error:g}{where}"
    console.print(heading, soft_wrap=True)
    titles = ("layers", "heads", "width", "parameters", "largest\nlogit", "largest\nweight")
    table = plain_table("route", *titles, "float\nformat", "claimed", gap=_gap(console))
    for offer in found.offers:
        name = f"{offer.route} *" if offer.route in found.best else offer.route
        table.add_row(name, *(["refused"] if offer.refusal is not None else _cells(offer)))
    print_table(console, table)
    console.print(
        "\n* no other route takes less of one thing and no more of the rest", soft_wrap=True
    )
    if picked is None:
        said = "only the baseline makes an offer: hardmax compile takes it by --route alone"
    else:
        said = f"picked {picked}: {_PICKED[prefer]} of the routes with attention"
    console.print(said, soft_wrap=True)
    refusals = [(o.route, o.refusal) for o in found.offers if o.refusal is not None]
    for line in _reasons(refusals):
        console.print(line, soft_wrap=True)


def print_curve(curve: SizingCurve, plot: str | None) -> None:
    """Every route at every error; then how it grows, fitted beside proved."""
    console = plain_console()
    console.print(f"{equation(curve.target)} on {curve.domain}", soft_wrap=True)
    titles = ("layers", "heads", "parameters", "largest\nlogit", "largest\nweight")
    table = plain_table("route", "error", *titles, "claimed", gap=_gap(console))
    for route in curve.routes:
        for number, point in enumerate(route.points):
            name = route.route if number == 0 else ""
            cells = ["refused"] if point.resources is None else _amounts(point.amounts())
            table.add_row(name, f"{point.error:.3g}", *cells)
        table.add_section()
    print_table(console, table)
    grown = plain_table("growth", "over", *titles, gap=_gap(console))
    for route in curve.routes:
        over = f"{len(route.offered)} of {len(route.points)}"
        grown.add_row(route.route, over, *(_growth(route, name) for name in _SHOWN))
    print_table(console, grown)
    console.print(
        "\nfitted exponent of 1/error, and in brackets what theory says: log for a logarithm, "
        "? for what is not proved",
        soft_wrap=True,
    )
    for line in _reasons(_refusals(curve)):
        console.print(line, soft_wrap=True)
    if plot is not None:
        console.print(f"drawn {plot}", soft_wrap=True)


def _gap(console: Console) -> int:
    """Nine columns of numbers fit a terminal of 80, but only just."""
    return 2 if console.width >= _ROOMY else 1


def _cells(offer: Offer) -> list[str]:
    row = offer.resources
    counts = [f"{row[name]:,}" for name in ("layers", "heads", "width", "parameters")]
    sizes = [f"{row[name]:.3g}" for name in ("largest_logit", "largest_weight")]
    return [*counts, *sizes, offer.float_format or "none", f"{offer.error:.4g}"]


def _amounts(row: Mapping[str, float]) -> list[str]:
    counts = [f"{row[name]:,}" for name in ("layers", "heads", "parameters")]
    return [*counts, *(f"{row[n]:.3g}" for n in ("largest_logit", "largest_weight", "claimed"))]


def _growth(route: RouteCurve, resource: str) -> str:
    """0.50 (1/2), 0.07 (log?), 0.3 (?)."""
    fitted, proved = route.fitted(resource), route.proved[resource]
    said = "?" if proved.exponent is None else str(proved).replace(", not proved", "?")
    if fitted is None:
        return f"- ({said})"
    return f"{fitted:.2f} ({said})" if fitted or said != "0" else "0"


def _refusals(curve: SizingCurve) -> list[tuple[str, str]]:
    """For each route the first error that it refuses, and why."""
    found = []
    for route in curve.routes:
        refused = [point for point in route.points if point.resources is None]
        if refused:
            first = f"{route.route} at {refused[0].error:.3g}"
            found.append((first, refused[0].refusal or ""))
    return found


def _reasons(refusals: list[tuple[str, str]]) -> list[str]:
    """One line for each reason, with all that gave it; its first sentence says enough."""
    said: dict[str, list[str]] = {}
    for who, reason in refusals:
        said.setdefault(_shorten(reason), []).append(who)
    return [f"refused by {', '.join(who)}: {reason}" for reason, who in said.items()]


def _shorten(reason: str) -> str:
    first = reason.split(". ")[0].rstrip(".")
    return first if len(first) <= _LONGEST else first[: _LONGEST - 3] + "..."
