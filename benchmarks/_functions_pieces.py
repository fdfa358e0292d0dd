"""How many pieces a function of one variable takes: ours, and the least number there is."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks._functions_run import command
from benchmarks._report import Check, Report, Settings, Sheet
from hardmax.languages import parse
from hardmax.lowering.approximants import Curve, fit_knots

ERRORS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
ALLOWED = 0.03  # more than the least number; one piece is always allowed
Real = Callable[[float], float]


@dataclass(frozen=True)
class Bend:
    """A convex or concave function, where it has a given slope, and its pieces at 10^-4."""

    text: str
    low: float
    high: float
    value: Real
    where_slope: Real
    known: int


BENDS = [
    Bend("x**2", 0.0, 1.0, lambda x: x * x, lambda s: s / 2, 36),
    Bend("exp(x)", 0.0, 1.0, math.exp, math.log, 33),
    Bend("sin(x)", 0.0, math.pi / 2, math.sin, math.acos, 31),
    Bend("sqrt(x)", 0.0, 1.0, math.sqrt, lambda s: 0.25 / (s * s), 50),
    Bend("log(x)", 1.0, 2.0, math.log, lambda s: 1 / s, 18),
    Bend("1/x", 0.1, 1.0, lambda x: 1 / x, lambda s: math.sqrt(-1 / s), 153),
]


def greedy_pieces(bend: Bend, error: float) -> int:
    """The least number of pieces, by taking each as long as it can be.

    A line stays within e of a convex or concave f on a piece exactly when the chord's largest gap
    is at most 2e; the gap is largest where f has the chord's slope, and grows with the piece. So
    the longest first piece leaves the least to the others.
    """
    pieces, left = 0, bend.low
    while left < bend.high:
        left = _reach(bend, left, 2 * error)
        pieces += 1
    return pieces


def _reach(bend: Bend, left: float, gap: float) -> float:
    if _gap(bend, left, bend.high) <= gap:
        return bend.high
    low, high = left, bend.high
    while True:
        middle = (low + high) / 2
        if not low < middle < high:
            return low
        if _gap(bend, left, middle) <= gap:
            low = middle
        else:
            high = middle


def _gap(bend: Bend, left: float, right: float) -> float:
    """The largest distance of f from its chord."""
    slope = (bend.value(right) - bend.value(left)) / (right - left)
    try:
        where = min(max(bend.where_slope(slope), left), right)
    except (ValueError, ZeroDivisionError):  # the slope of a tiny piece, rounded beyond f's slopes
        return 0.0
    return abs(bend.value(left) + slope * (where - left) - bend.value(where))


def our_pieces(bend: Bend, error: float) -> int:
    (expression,) = parse(bend.text)
    return fit_knots(Curve.of(expression, "x", bend.low, bend.high), error).pieces


def most_allowed(least: int) -> float:
    return max((1 + ALLOWED) * least, least + 1)


def pieces(settings: Settings) -> Report:
    """Ours / the least number, for each function and error."""
    sheet = Sheet(
        command(settings, "pieces"),
        "Pieces of a continuous piecewise linear function, knots free: ours / the least number, by "
        f"a greedy search of its own.\nRequired: at most {ALLOWED:.0%} more, or one piece. "
        "Known: the least number at 1e-4, as published in the theory.",
        "·function",
        *(f"{error:g}" for error in ERRORS),
        "known",
        "·",
    )
    checks: list[Check] = []
    record: dict[str, list[tuple[int, int]]] = {}
    for bend in BENDS:
        name = f"{bend.text} on [{bend.low:g}, {bend.high:.4g}]"
        pairs = [(our_pieces(bend, error), greedy_pieces(bend, error)) for error in ERRORS]
        own = [
            Check(f"{name} at {error:g}: {ours} pieces, {least} are needed", ours <= most)
            for error, (ours, least) in zip(ERRORS, pairs, strict=True)
            for most in [most_allowed(least)]
        ]
        least = pairs[ERRORS.index(1e-4)][1]
        own.append(Check(f"{name}: greedy {least}, known {bend.known}", least == bend.known))
        shown = (f"{ours:,} / {best:,}" for ours, best in pairs)
        mark = next((check.mark for check in own if not check.holds), own[0].mark)
        sheet.table.add_row(name, *shown, str(bend.known), mark)
        checks += own
        record[name] = pairs
    return Report([sheet], checks, {"errors": ERRORS, "ours_and_least": record})
