"""How stable heads are: what is guaranteed against the temperature, and the gaps behind it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hardmax._errors import RequestError
from hardmax.geometry.temperature import Kind, StabilityReport
from hardmax.plots._picture import (
    COLOURS,
    GREY,
    MARKERS,
    check_picture,
    check_subject,
    finished,
    new_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_HEADS = 48
_ACTUAL = "actual, at the head's own temperature"
_STEPS = 121
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_DECADES = 3.0  # on either side of the temperatures in question
_STYLES = {
    kind: (COLOURS[i], MARKERS[i]) for i, kind in enumerate((Kind.HARD, Kind.SOFT, Kind.UNIFORM))
}


def stability_picture(
    report: StabilityReport, *, path: str | Path | None = None, title: str = ""
) -> Figure:
    """Draw a report as .svg, .png or .pdf: one line and one bar for each head.

    Left: the weight outside the winner that is guaranteed for 95% of a head's queries, at every
    temperature; a marker says what it actually is at the head's own. Right: where the middle
    half of the head's gaps lies, and nine tenths of them. Hard, soft and uniform heads differ in
    colour and marker.
    """
    check_picture(path)
    check_subject(report, StabilityReport, "hm.stability(model, inputs)")
    if len(report.heads) > _MOST_HEADS:
        raise RequestError(
            f"The stability of up to {_MOST_HEADS} heads can be drawn, but there are "
            f"{len(report.heads)}. Do without a picture, or draw some of the heads."
        )
    height = max(4.2, 0.24 * len(report.heads) + 1.8)
    figure = new_figure((10.0, height))
    curves, gaps = figure.subplots(1, 2)
    _draw_curves(curves, report)
    _draw_gaps(gaps, report)
    _draw_legend(figure, report)
    figure.suptitle(title or report.headline(), fontsize=11, parse_math=False)
    return finished(figure, path)


def _draw_curves(axes: Axes, report: StabilityReport) -> None:
    temperatures = _temperatures(report)
    for head in report.heads:
        colour, marker = _STYLES[head.kind(report.tolerance)]
        guaranteed = [head.guaranteed_weight(t) for t in temperatures]
        axes.plot(temperatures, guaranteed, color=colour, linewidth=1.0)
        summary = head.summary(report.tolerance)
        if summary["temperature"] > 0.0 and summary["weight_actual"] > 0.0:
            axes.plot(
                summary["temperature"],
                summary["weight_actual"],
                marker=marker,
                color=colour,
                markersize=5,
                markeredgecolor="white",
                markeredgewidth=0.5,
            )
    axes.axhline(report.tolerance, color=GREY, linestyle="--", linewidth=1)
    axes.set(xscale="log", yscale="log", xlim=(temperatures[0], temperatures[-1]))
    axes.set_ylim(min(1e-4, report.tolerance / 10.0), 2.0)
    axes.set_xlabel("temperature", fontsize=10)
    axes.set_ylabel("weight outside the winner, 95% of queries", fontsize=9)
    _tidy(axes)


def _temperatures(report: StabilityReport) -> np.ndarray:
    """From well below what some head needs to well above what any head has."""
    summaries = [head.summary(report.tolerance) for head in report.heads]
    known = [s[name] for s in summaries for name in ("temperature", "temperature_needed")]
    finite = [t for t in known if 1e-12 < t < 1e12] or [1.0]
    low, high = np.log10(min(finite)) - 1.0, np.log10(max(finite)) + 1.0
    return np.logspace(min(low, high - _DECADES), high, _STEPS)


def _draw_gaps(axes: Axes, report: StabilityReport) -> None:
    """On a logarithmic axis; a tie, which it does not show, is drawn at its left end."""
    finite = [head.table.gap[np.isfinite(head.table.gap)] for head in report.heads]
    ranges = [np.quantile(gaps, _QUANTILES) if gaps.size else None for gaps in finite]
    positive = [
        q for range_of_gaps in ranges if range_of_gaps is not None for q in range_of_gaps if q > 0.0
    ] or [1.0]
    left, right = min(positive) / 2.0, max(positive) * 2.0
    for place, (head, range_of_gaps) in enumerate(zip(report.heads, ranges, strict=True)):
        if range_of_gaps is None:
            continue
        colour, marker = _STYLES[head.kind(report.tolerance)]
        least, low, middle, high, most = np.maximum(range_of_gaps, left)
        axes.plot([least, most], [place, place], color=colour, linewidth=0.9)
        axes.plot([low, high], [place, place], color=colour, linewidth=4.0, solid_capstyle="butt")
        axes.plot(middle, place, marker=marker, color="white", markeredgecolor=colour, markersize=5)
    axes.set_yticks(range(len(ranges)), [head.name for head in report.heads], fontsize=8)
    axes.set(xscale="log", xlim=(left, right), ylim=(len(ranges) - 0.5, -0.5))
    axes.set_xlabel("gap: 5%, 25%, 50%, 75%, 95% of queries have less", fontsize=9)
    axes.set_ylabel("head", fontsize=10)
    _tidy(axes)


def _draw_legend(figure: Figure, report: StabilityReport) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=colour, marker=marker, markersize=5, label=str(kind))
        for kind, (colour, marker) in _STYLES.items()
    ]
    handles.append(Line2D([], [], color=GREY, marker="o", linestyle="none", label=_ACTUAL))
    label = f"tolerance {report.tolerance:g}"
    handles.append(Line2D([], [], color=GREY, linestyle="--", label=label))
    figure.legend(handles=handles, loc="outside lower center", ncols=5, fontsize=9, frameon=False)


def _tidy(axes: Axes) -> None:
    axes.minorticks_off()
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
