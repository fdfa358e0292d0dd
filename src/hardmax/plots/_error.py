"""The error over the domain, with what is certified and what is claimed."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax._errors import RequestError
from hardmax.checker import Certificate
from hardmax.core import Construction, VectorInput
from hardmax.plots._error_samples import Difference, curve, difference, heat
from hardmax.plots._picture import (
    COLOURS,
    GREY,
    check_picture,
    check_subject,
    finished,
    new_figure,
)

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.colorbar import Colorbar
    from matplotlib.figure import Figure

_MOST_SLICES = 9
_COLUMNS = 3
_MAP = "PuOr_r"  # purple against orange, told apart by colour-blind readers; white is no error
_BAND = "#56B4E9"
_CELLS, _STEPS = 200, 2
_CHEAP = 2e10  # operations that a picture may take before it gets coarser
_SAMPLE = 4096
_WIDE = 3.0  # claims: a certified bound beyond is not worth the room
_LONGEST = 96


def error_picture(
    construction: Construction,
    certificate: Certificate | None = None,
    *,
    path: str | Path | None = None,
    title: str = "",
) -> Figure:
    """Draw T(x) - f(x) over the domain, as .svg, .png or .pdf.

    One variable: a curve in the certified band, between the claimed lines. Two: a heat map whose
    colour bar carries both. Three to nine: a curve along each variable, through the worst point.
    A variable whose range is a single number does not count. The worst point is marked: the
    certificate's, or without one the largest error among some thousands of points.
    """
    check_error_picture(construction, path)
    view = _View.of(construction, certificate)
    figure = _draw_map(view) if len(view.free) == 2 else _draw_curves(view)
    told = str(certificate) if certificate is not None else repr(construction.claim)
    lines = [line for text in (title, told) for line in textwrap.wrap(text, _LONGEST)]
    figure.suptitle("\n".join(lines), fontsize=10)
    return finished(figure, path)


def check_error_picture(construction: Construction, path: str | Path | None) -> None:
    """Refuse, before any long work, what `error_picture` could not draw."""
    check_picture(path)
    check_subject(construction, Construction, "hm.compile(source, on=...)")
    if not isinstance(construction.transformer.input, VectorInput):
        raise RequestError("Only a model that reads numbers has an error to draw.")
    count = len(_free(construction))
    if not 1 <= count <= _MOST_SLICES:
        raise RequestError(
            f"The error can be drawn over 1 to {_MOST_SLICES} variables, but {count} vary here. "
            f"Do without a picture."
        )


def _free(construction: Construction) -> tuple[int, ...]:
    """The variables that vary."""
    domain = construction.claim.domain
    return tuple(int(i) for i in np.flatnonzero(domain.low < domain.high))


@dataclass(frozen=True, eq=False)
class _View:
    """What is drawn: the error, the variables that vary, and the worst point."""

    construction: Construction
    certificate: Certificate | None
    off: Difference
    free: tuple[int, ...]
    worst: np.ndarray

    @classmethod
    def of(cls, construction: Construction, certificate: Certificate | None) -> _View:
        off = difference(construction)
        worst = _worst(construction, certificate, off)
        return cls(construction, certificate, off, _free(construction), worst)

    @property
    def names(self) -> list[str]:
        return [self.construction.names[i] for i in self.free]

    @property
    def claimed(self) -> float:
        return self.construction.claim.error

    @property
    def certified(self) -> float | None:
        """The bound to draw, if there is one that is near the claim."""
        if self.certificate is None or self.certificate.certified > _WIDE * self.claimed:
            return None
        return self.certificate.certified

    @property
    def at_worst(self) -> np.ndarray:
        """The errors of all outputs at the worst point."""
        return self.off(self.worst[None, :])[0]

    def height(self, drawn: float) -> float:
        """How far the picture reaches up and down; never 0."""
        return 1.08 * max(self.claimed, drawn, self.certified or 0.0) or 1.0

    def place(self) -> str:
        """The worst point in words."""
        pairs = zip(self.names, self.worst[list(self.free)], strict=True)
        return ", ".join(f"{name} = {value:.4g}" for name, value in pairs)


def _worst(
    construction: Construction, certificate: Certificate | None, off: Difference
) -> np.ndarray:
    domain = construction.claim.domain
    if certificate is not None and certificate.worst is not None:
        return np.array([float(v) for v in certificate.worst])
    sample = domain.sample(_SAMPLE, np.random.default_rng(0))
    return sample[np.abs(off(sample)).max(axis=1).argmax()]


def _draw_curves(view: _View) -> Figure:
    """One panel for each variable, all to one scale."""
    count = len(view.free)
    columns = min(count, _COLUMNS)
    rows = math.ceil(count / columns)
    figure = new_figure((8.0, 4.6) if count == 1 else (3.7 * columns, 2.9 * rows + 0.9))
    panels = figure.subplots(rows, columns, sharey=True, squeeze=False).flat
    domain = view.construction.claim.domain
    curves = [curve(view.off, domain, view.worst, i) for i in view.free]
    height = view.height(max(float(np.abs(y).max()) for _, y in curves))
    for number, axes in enumerate(panels):
        if number >= count:
            axes.set_axis_off()
            continue
        x, y = curves[number]
        _draw_curve(axes, view, x, y, number)
        axes.set_ylim(-height, height)
    figure.supylabel("T(x) - f(x)", fontsize=10)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    return figure


def _draw_curve(axes: Axes, view: _View, x: np.ndarray, y: np.ndarray, number: int) -> None:
    if view.certified is not None:
        _band(axes, view.certified)
    for sign in (1, -1):
        label = f"claimed ±{view.claimed:.4g}" if sign == 1 else None
        axes.axhline(sign * view.claimed, color=GREY, linestyle="--", linewidth=1, label=label)
    outputs = y.shape[1]
    for j in range(outputs):
        label = "T(x) - f(x)" if outputs == 1 else f"T(x) - f(x), output y{j}"
        shown = label if j < len(COLOURS) else None
        axes.plot(x, y[:, j], color=COLOURS[j % len(COLOURS)], linewidth=1.1, label=shown)
    largest = view.at_worst[np.abs(view.at_worst).argmax()]
    axes.plot(
        view.worst[view.free[number]],
        largest,
        **_MARK,
        label=f"largest seen {abs(largest):.4g} at {view.place()}",
    )
    axes.set_xlabel(view.names[number], fontsize=10)
    axes.margins(x=0.01)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)


_MARK: dict[str, Any] = {
    "marker": "X",
    "markersize": 9,
    "markerfacecolor": "white",
    "markeredgecolor": "black",
    "linestyle": "none",
    "clip_on": False,
    "zorder": 5,
}


def _band(axes: Axes, certified: float) -> None:
    axes.axhspan(
        -certified,
        certified,
        color=_BAND,
        alpha=0.25,
        linewidth=0,
        label=f"certified ±{certified:.4g}",
    )


def _draw_map(view: _View) -> Figure:
    """The plane in colour; both bounds are lines on the colour bar, drawn to its scale."""
    first, second = view.free
    bill, domain = view.construction.bill, view.construction.claim.domain
    cheap = bill.flops * (_CELLS * _STEPS) ** 2 <= _CHEAP
    cells, steps = (_CELLS, _STEPS) if cheap else (_CELLS // 2, 1)
    errors = heat(view.off, domain, view.worst, (first, second), cells=cells, steps=steps)
    output = int(np.abs(view.at_worst).argmax())
    largest = float(view.at_worst[output])
    height = view.height(max(abs(largest), float(np.abs(errors[..., output]).max())))
    figure = new_figure((7.0, 6.0))
    axes = figure.subplots()
    low, high = domain.low, domain.high
    image = axes.imshow(
        errors[..., output].T,
        origin="lower",
        extent=(low[first], high[first], low[second], high[second]),
        aspect="auto",
        cmap=_MAP,
        vmin=-height,
        vmax=height,
        interpolation="nearest",
    )
    label = f"largest seen {abs(largest):.4g} at {view.place()}"
    axes.plot(*view.worst[[first, second]], **_MARK, label=label)
    axes.set_xlabel(view.names[0], fontsize=10)
    axes.set_ylabel(view.names[1], fontsize=10)
    said = "T(x) - f(x)" if errors.shape[2] == 1 else f"T(x) - f(x), output y{output}"
    _draw_bar(figure, figure.colorbar(image, ax=axes, label=said), view)
    return figure


def _draw_bar(figure: Figure, bar: Colorbar, view: _View) -> None:
    """The colour bar with its bounds, and one legend for bar and map."""
    from matplotlib.patheffects import withStroke

    edge = [withStroke(linewidth=2.2, foreground="white")]  # the ends of the map are dark
    bounds = [("claimed", view.claimed, "--")]
    if view.certified is not None:
        bounds.insert(0, ("certified", view.certified, "-"))
    for name, bound, style in bounds:
        for sign in (1, -1):
            label = f"{name} ±{bound:.4g}" if sign == 1 else None
            line = bar.ax.axhline(sign * bound, color="black", linestyle=style, label=label)
            line.set(linewidth=1.2, path_effects=edge)
    handles: list[Artist] = []
    labels: list[str] = []
    for axes in (bar.ax, figure.axes[0]):
        more = axes.get_legend_handles_labels()
        handles += more[0]
        labels += more[1]
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
