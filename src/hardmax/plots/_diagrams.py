"""Power diagrams in the plane: cells, what a temperature makes of them, who borders on whom."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hardmax._errors import RequestError, ShapeError
from hardmax.core import Box
from hardmax.geometry import PowerDiagram, TopKDiagram
from hardmax.plots._picture import (
    COLOURS,
    GREY,
    check_picture,
    check_subject,
    finished,
    new_axes,
    new_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FINE = 320  # pixels a side of what is shaded
_TINT = 0.45  # how much colour a cell has; the rest is white
_MOST_NAMED = 40  # cells that carry the number of their key
_MOST_CELLS = 20_000
_COLUMNS = 2
_SURE = 0.9  # the dashed line: inside, the winner has this weight
_FILLS = (*COLOURS[:6], "#F0E442")
_STYLES = ("-", "--", "-.", ":")


def diagram_picture(
    diagrams: PowerDiagram | Sequence[PowerDiagram],
    *,
    path: str | Path | None = None,
    on: Box | str | Sequence[object] | None = None,
    temperatures: Sequence[float] = (),
    adjacency: bool = False,
    names: Sequence[str] = (),
    title: str = "",
    ax: Axes | None = None,
) -> Figure:
    """Draw one head's diagram, or the walls of several over each other, as .svg, .png or .pdf.

    With temperatures there is a panel for each: the colours of the keys, mixed by their softmax
    weights, and a dashed line within which the winner has 9/10 of the weight. With `adjacency`
    the cells that share a wall are joined. `names` are written into the cells, one for each key;
    without them the keys' numbers. `ax` are axes to draw one panel into; the figure is returned.

        diagram_picture(hm.power_diagram(keys), on=(-4, 4), path="diagram.svg")
    """
    check_picture(path)
    heads = list(diagrams) if isinstance(diagrams, Iterable) else [diagrams]
    for head in heads:
        hint = "its .diagram is one" if isinstance(head, TopKDiagram) else ""
        check_subject(head, PowerDiagram, "hm.power_diagram(keys)", hint)
    box = _common_box(heads, on)
    for given in temperatures:
        if not (math.isfinite(given) and given > 0.0):
            raise RequestError(f"A temperature must be larger than 0, but it is {given}.")
    panels: list[float | None] = list(temperatures) or [None]
    if len(heads) > 1 and (adjacency or temperatures):
        raise RequestError("Temperatures and adjacency are drawn for one head at a time.")
    if ax is not None:
        if len(panels) > 1:
            raise RequestError("Axes hold one panel: draw one temperature, or leave out ax.")
        _draw_panel(ax, heads, box, panels[0], adjacency, names)
        return finished(new_axes(ax, (1.0, 1.0))[0], path)
    columns = min(_COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure = new_figure((4.6 * columns, 4.6 * rows))
    for axes, temperature in zip(
        figure.subplots(rows, columns, squeeze=False).flat, panels, strict=False
    ):
        _draw_panel(axes, heads, box, temperature, adjacency, names)
    for axes in figure.axes[len(panels) :]:
        axes.set_axis_off()
    if title:
        figure.suptitle(title, fontsize=11, parse_math=False)
    if temperatures:
        note = f"dashed: the winner has {_SURE:g} of the weight"
        figure.supxlabel(note + "; dots: cells, joined across walls" * adjacency, fontsize=8)
    figure.set_layout_engine("constrained", h_pad=0.08, w_pad=0.08)
    return finished(figure, path)


def _common_box(heads: list[PowerDiagram], on: Box | str | Sequence[object] | None) -> Box:
    if not heads:
        raise ShapeError("There is no diagram to draw; give at least one.")
    if any(head.dimension != 2 for head in heads):
        raise RequestError(
            f"Diagrams are drawn in the plane, but these keys have {heads[0].dimension} dimensions."
        )
    if sum(len(head.winners) for head in heads) > _MOST_CELLS:
        raise RequestError(f"At most {_MOST_CELLS:,} cells are drawn; give fewer keys.")
    if on is not None:
        return Box.of(on, 2)
    given = [head.on for head in heads if head.on is not None]
    return given[0] if given else _natural_box(heads)


def _natural_box(heads: list[PowerDiagram]) -> Box:
    """Around the vertices, or, where there are none or one, around the origin."""
    corners = np.concatenate([head.vertices for head in heads] + [np.zeros((1, 2))])
    low, high = np.quantile(corners, 0.02, axis=0), np.quantile(corners, 0.98, axis=0)
    middle, reach = (low + high) / 2, max(float((high - low).max()), 2.0) * 0.6
    return Box(middle - reach, middle + reach)


def _draw_panel(
    axes: Axes,
    heads: list[PowerDiagram],
    box: Box,
    temperature: float | None,
    adjacency: bool,
    names: Sequence[str],
) -> None:
    if len(heads) == 1:
        head = heads[0]
        colours = _colours(head)
        if temperature is None:
            _draw_cells(axes, head, box, colours)
        else:
            _draw_shading(axes, head, box, colours, temperature)
            _draw_walls(axes, head, box, "black", "-")
        if adjacency:
            _draw_adjacency(axes, head, box)
        elif len(head.winners) <= _MOST_NAMED:
            _write_names(axes, head, box, names)
        text = f"{len(_within(head, box))} cells"
        axes.set_title(text if temperature is None else f"temperature {temperature:g}", fontsize=9)
    else:
        for number, head in enumerate(heads):
            colour = COLOURS[number % len(COLOURS)]
            _draw_walls(axes, head, box, colour, _STYLES[number % 4], f"head {number}")
        axes.legend(fontsize=8, loc="upper right", framealpha=0.9)
    axes.set_xlim(box.low[0], box.high[0])
    axes.set_ylim(box.low[1], box.high[1])
    axes.set_aspect("equal")
    axes.set_xlabel("query, coordinate 1", fontsize=8)
    axes.set_ylabel("query, coordinate 2", fontsize=8)
    axes.tick_params(labelsize=7)


def _within(head: PowerDiagram, box: Box) -> dict[int, np.ndarray]:
    """The corners of each cell in the box, in floats, by key."""
    found = {}
    for key in head.winners.tolist():
        corners = head.cell(key, on=box).corners
        if corners:
            found[key] = np.array([[float(x) for x in corner] for corner in corners])
    return found


def _colours(head: PowerDiagram) -> dict[int, np.ndarray]:
    """Colours by key: neighbours differ, as long as seven colours last."""
    around: dict[int, set[int]] = {key: set() for key in head.winners.tolist()}
    for a, b in head.winners[head.walls].reshape(-1, 2).tolist():
        around[a].add(b)
        around[b].add(a)
    chosen: dict[int, int] = {}
    for key in sorted(around, key=lambda one: -len(around[one])):
        taken = {chosen[other] for other in around[key] if other in chosen}
        free = [c for c in range(len(_FILLS)) if c not in taken] or list(range(len(_FILLS)))
        used = [sum(c == one for one in chosen.values()) for c in free]
        chosen[key] = free[int(np.argmin(used))]
    return {key: _tint(_FILLS[c]) for key, c in chosen.items()}


def _tint(colour: str) -> np.ndarray:
    strong = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255.0
    return 1.0 - _TINT * (1.0 - strong)


def _draw_cells(axes: Axes, head: PowerDiagram, box: Box, colours: dict[int, np.ndarray]) -> None:
    from matplotlib.collections import PolyCollection

    cells = _within(head, box)
    width = 1.0 if len(cells) <= 200 else 0.3
    axes.add_collection(
        PolyCollection(
            list(cells.values()),
            facecolors=[colours[key] for key in cells],
            edgecolors="black",
            linewidths=width,
        )
    )


def _draw_shading(
    axes: Axes, head: PowerDiagram, box: Box, colours: dict[int, np.ndarray], temperature: float
) -> None:
    x = np.linspace(box.low[0], box.high[0], _FINE)
    y = np.linspace(box.low[1], box.high[1], _FINE)
    queries = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    scores = (queries @ head.keys.T + head.biases) / temperature
    scores -= scores.max(axis=1, keepdims=True)
    weights = np.exp(scores)
    weights /= weights.sum(axis=1, keepdims=True)
    palette = np.full((len(head.keys), 3), 0.8)  # keys that never win are grey
    for key, colour in colours.items():
        palette[key] = colour
    extent = (box.low[0], box.high[0], box.low[1], box.high[1])
    shape = (_FINE, _FINE)
    axes.imshow(
        (weights @ palette).reshape(*shape, 3), origin="lower", extent=extent, aspect="equal"
    )
    sure = weights.max(axis=1).reshape(shape)
    if sure.min() < _SURE < sure.max():
        axes.contour(x, y, sure, [_SURE], colors=GREY, linewidths=0.8, linestyles="--")


def _draw_walls(
    axes: Axes, head: PowerDiagram, box: Box, colour: str, style: str, label: str = ""
) -> None:
    from matplotlib.collections import LineCollection

    lines = []
    for key in head.winners.tolist():
        for side in head.cell(key, on=box).sides:
            if side.rival is not None and key < side.rival:
                lines.append([[float(x) for x in corner] for corner in side.corners])
    axes.add_collection(
        LineCollection(lines, colors=colour, linestyles=style, linewidths=1.2, label=label or None)
    )


def _draw_adjacency(axes: Axes, head: PowerDiagram, box: Box) -> None:
    from matplotlib.collections import LineCollection

    middle = {key: corners.mean(axis=0) for key, corners in _within(head, box).items()}
    lines = [
        [middle[key], middle[other]]
        for key in middle
        for other in head.cell(key, on=box).neighbours
        if key < other and other in middle
    ]
    axes.add_collection(LineCollection(lines, colors=GREY, linewidths=1.0))
    places = np.array(list(middle.values())).reshape(-1, 2)
    axes.plot(places[:, 0], places[:, 1], "o", color="black", markersize=4)


def _write_names(axes: Axes, head: PowerDiagram, box: Box, names: Sequence[str]) -> None:
    for key, corners in _within(head, box).items():
        x, y = corners.mean(axis=0)
        text = names[key] if names else str(key)
        axes.text(x, y, text, ha="center", va="center", fontsize=8)
