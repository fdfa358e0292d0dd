"""The picture of error against coldness. matplotlib is imported here and nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import hardmax as hm

# Okabe and Ito's colours, told apart by colour-blind readers; markers differ too.
COLOURS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "x", "s", "^", "D", "v", "P")
Curves = dict[str, dict[str, Any]]


def draw_coldness(betas: np.ndarray, extremal: Curves, random: Curves, out: Path) -> list[Path]:
    """`coldness.svg` and `coldness.png`: theorems as lines, measurements as markers."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise hm.MissingExtra("matplotlib", "plots") from None
    figure = Figure(figsize=(11.0, 5.2), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    _draw_extremal(left, betas, extremal)
    _draw_random(right, betas, random)
    for axes in (left, right):
        axes.set(xscale="log", yscale="log", xlabel="coldness β")
        axes.grid(which="major", color="#dddddd", linewidth=0.6)
        axes.set_axisbelow(True)
    left.set_ylabel("largest error")
    out.mkdir(parents=True, exist_ok=True)
    paths = [out / f"coldness.{kind}" for kind in ("svg", "png")]
    for path in paths:
        figure.savefig(path, dpi=160)
    return paths


def _draw_extremal(axes: Any, betas: np.ndarray, curves: Curves) -> None:
    for (name, curve), colour, marker in zip(curves.items(), COLOURS, MARKERS, strict=True):
        constant = curve["theorem"][0] * betas[0]
        label = f"{name}: {constant:.4f}/β"
        axes.plot(betas, curve["theorem"], color=colour, linewidth=1.0)
        hollow = "none" if marker in "osD" else colour
        axes.plot(
            betas, curve["measured"], marker, color=colour, mfc=hollow, markersize=5, label=label
        )
    axes.plot([], [], color="#555555", linewidth=1.0, label="theorem: W((n-1)/e)/β")
    axes.set_title("Extremal networks: measured (markers) on the theorem (lines)", fontsize=10)
    axes.legend(fontsize=8, frameon=False)


def _draw_random(axes: Any, betas: np.ndarray, curves: Curves) -> None:
    names = list(dict.fromkeys(curve["network"] for curve in curves.values()))
    for name, colour, marker in zip(names, COLOURS[1:], MARKERS[2:], strict=False):
        group = [curve["measured"] for curve in curves.values() if curve["network"] == name]
        for number, errors in enumerate(group):
            label = f"{name}, {len(group)} seeds" if number == 0 else None
            axes.plot(betas, errors, marker, color=colour, mfc="none", markersize=4, label=label)
        guide = np.median([errors[-1] for errors in group]) * betas[-1] / betas
        axes.plot(betas, guide, color=colour, linewidth=1.0, linestyle="--")
    axes.plot([], [], color="#555555", linestyle="--", linewidth=1.0, label="slope -1")
    axes.set_title("Random networks, every head at one coldness, sampled", fontsize=10)
    axes.legend(fontsize=8, frameon=False)
