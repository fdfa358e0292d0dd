"""How counts grow: cells against tokens, one line a setting, beside what bounds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardmax._errors import ShapeError
from hardmax.plots._picture import (
    COLOURS,
    GREY,
    MARKERS,
    check_picture,
    finished,
    new_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Line = tuple[Sequence[float], Sequence[float]]


def growth_picture(
    counted: Mapping[str, Line],
    *,
    path: str | Path | None = None,
    bounds: Mapping[str, Line] | None = None,
    log: bool = True,
    title: str = "",
    x: str = "tokens N",
    y: str = "cells",
    ax: Axes | None = None,
) -> Figure:
    """Draw counts (solid, with markers) and bounds (dashed, in the colour of the same name).

    growth_picture({"2 heads": ([2, 3, 4], [4, 9, 16])}, path="growth.svg")
    """
    check_picture(path)
    if not counted:
        raise ShapeError("There is nothing to draw; give at least one line of counts.")
    figure, axes = new_axes(ax, (5.6, 4.2))
    for number, (name, (amounts, counts)) in enumerate(counted.items()):
        style = number % len(COLOURS)
        line: dict[str, Any] = {"color": COLOURS[style], "linewidth": 1.2}
        axes.plot(amounts, counts, marker=MARKERS[style], markersize=4, label=name, **line)
        if bounds and name in bounds:
            axes.plot(*bounds[name], linestyle="--", **line)
    if bounds:
        axes.plot([], [], linestyle="--", color=GREY, label="exact maximum")
    if log:
        axes.set(xscale="log", yscale="log")
        _plain_ticks(axes, counted)
    axes.set_xlabel(x, fontsize=9)
    axes.set_ylabel(y, fontsize=9)
    axes.grid(which="major", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.legend(fontsize=8)
    axes.set_title(title, fontsize=10, parse_math=False)
    return finished(figure, path)


def _plain_ticks(axes: Axes, counted: Mapping[str, Line]) -> None:
    """The amounts that were counted, written as they are; powers of ten or two for the counts."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    amounts = sorted({float(one) for line in counted.values() for one in line[0]})
    shown = amounts[:: max(1, len(amounts) // 8)]
    axes.set_xticks(shown, [f"{one:g}" for one in shown])
    counts = [float(one) for line in counted.values() for one in line[1]]
    base = 10.0 if max(counts) > 200.0 * min(counts) else 2.0
    axes.yaxis.set_major_locator(LogLocator(base))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda one, _: f"{one:,g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_minor_formatter(NullFormatter())
