"""Sizing curves as four panels: heads, parameters, largest logit, largest weight."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from hardmax.lowering import RouteCurve, SizingCurve
from hardmax.plots._picture import (
    COLOURS,
    GREY,
    MARKERS,
    check_picture,
    finished,
    new_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANELS = ("heads", "parameters", "largest_logit", "largest_weight")
_APART = 0.075  # of a panel's height: the least distance of two labels
_Line = tuple[list[str], list[tuple[float, float]], str]


def draw_sizing(curve: SizingCurve, path: str | Path | None = None, *, title: str = "") -> Figure:
    """Every route's resources against the error, log-log, each line named where it ends.

    The label says the fitted exponent of 1/error and, in brackets, what is proved. Routes that
    need the same are one line; amounts of 0, which no logarithm shows, are told in words.
    """
    check_picture(path)
    figure = new_figure((11.0, 7.6))
    panels = figure.subplots(2, 2, sharex=True).flat
    for axes, resource in zip(panels, _PANELS, strict=True):
        _draw_panel(axes, curve, resource)
    figure.suptitle(f"{title}\nfitted exponent of 1/error (proved)".strip(), fontsize=11)
    figure.supxlabel("error", fontsize=10)
    return finished(figure, path)


def _draw_panel(axes: Axes, curve: SizingCurve, resource: str) -> None:
    colours = {route.route: i for i, route in enumerate(curve.routes)}
    lines, nothing = _lines(curve, resource)
    ends = []
    for names, pairs, label in lines:
        style = colours[names[0]] % len(COLOURS)
        errors, amounts = [e for e, _ in pairs], [a for _, a in pairs]
        axes.plot(errors, amounts, color=COLOURS[style], marker=MARKERS[style], markersize=4)
        ends.append((amounts[-1], label, COLOURS[style]))
    axes.set(xscale="log", yscale="log")
    axes.set_xlim(1.6 * max(curve.errors), min(curve.errors) / 1.6)
    axes.set_title(resource.replace("_", " "), fontsize=10, loc="left")
    axes.minorticks_off()  # a power of ten has nine, and they take most of the drawing's time
    axes.grid(which="major", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    if not lines:
        axes.set_yticks([])
    elif len({amount for _, pairs, _ in lines for _, amount in pairs}) == 1:
        axes.set_ylim(ends[0][0] / 10, ends[0][0] * 10)
    _label(axes, ends)
    if nothing:
        axes.set_title(f"0 for {', '.join(nothing)}", fontsize=8, color=GREY, loc="right")


def _lines(curve: SizingCurve, resource: str) -> tuple[list[_Line], list[str]]:
    """Lines with the routes that share them, and the routes with nothing but zeros."""
    shared: dict[tuple[tuple[float, float], ...], list[RouteCurve]] = {}
    nothing = []
    for route in curve.routes:
        pairs = [(error, amount) for error, amount in route.values(resource) if amount > 0]
        if pairs:
            shared.setdefault(tuple(pairs), []).append(route)
        elif route.offered:
            nothing.append(route.route)
    lines: list[_Line] = []
    for points, routes in shared.items():
        names = [route.route for route in routes]
        lines.append(
            (names, list(points), f"{', '.join(names)}  {_exponents(routes[0], resource)}")
        )
    return lines, nothing


def _exponents(route: RouteCurve, resource: str) -> str:
    fitted, proved = route.fitted(resource), route.proved[resource]
    known = "?" if proved.exponent is None else str(proved).replace(", not proved", "?")
    return f"({known})" if fitted is None else f"{fitted:.2f} ({known})"


def _label(axes: Axes, ends: list[tuple[float, str, str]]) -> None:
    """Names to the right of the panel, at the height where their line ends, moved apart."""
    low, high = (math.log(y) for y in axes.get_ylim())
    placed = sorted((max(math.log(y) - low, 0.0) / (high - low), text, c) for y, text, c in ends)
    heights = _apart([height for height, _, _ in placed])
    for height, (_, text, colour) in zip(heights, placed, strict=True):
        axes.text(
            1.02, height, text, transform=axes.transAxes, color=colour, fontsize=8, va="center"
        )


def _apart(heights: list[float]) -> list[float]:
    """Rising heights at least `_APART` from each other, shifted down if they leave the panel."""
    spaced: list[float] = []
    for height in heights:
        spaced.append(max(height, spaced[-1] + _APART) if spaced else height)
    for i in reversed(range(len(spaced))):
        above = spaced[i + 1] - _APART if i + 1 < len(spaced) else 1.0
        spaced[i] = min(spaced[i], above)
    return spaced
