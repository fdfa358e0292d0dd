"""Partitions of a plane into cells, coloured by what they do."""

from __future__ import annotations

import colorsys
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hardmax._errors import RequestError
from hardmax.geometry import LinearCell, Regions
from hardmax.plots._picture import COLOURS, check_picture, check_subject, finished, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_CELLS = 100_000
Colour = str | tuple[float, float, float]
_GREY = "#dddddd"


def regions_picture(
    regions: Regions,
    *,
    path: str | Path | None = None,
    colour: str = "map",
    title: str = "",
    ax: Axes | None = None,
) -> Figure:
    """Draw the cells of a plane, as .svg, .png or .pdf.

    By "map" cells with one affine map have one colour, the same in every picture of it; by "depth"
    a cell is white and its walls have the colour of the layer that made them; by "winner" cells
    have the colour of who wins in the first layer.
    """
    check_picture(path)
    check_subject(regions, Regions, "hm.regions(source, on=...) of a plane")
    if colour not in ("map", "depth", "winner"):
        raise RequestError("Cells of a plane are drawn, coloured by map, depth or winner.")
    if regions.cells > _MOST_CELLS:
        raise RequestError(
            f"At most {_MOST_CELLS:,} cells are drawn, but there are {regions.cells:,}; give a "
            f"smaller domain."
        )
    cells = list(regions)
    if cells[0].dimension != 2:
        raise RequestError(
            f"Cells are drawn in the plane, but these have {cells[0].dimension} dimensions; take a "
            f"hm.Slice."
        )
    figure, axes = new_axes(ax, (5.6, 5.2))
    width = 0.6 if len(cells) <= 2_000 else 0.15
    if colour == "depth":
        _draw_walls(axes, cells, 2.0 * width)
    else:
        _draw_cells(axes, cells, _fills(cells, colour), width)
    corners = np.concatenate([cell.vertices for cell in cells])
    (x0, y0), (x1, y1) = corners.min(axis=0), corners.max(axis=0)
    axes.set(xlim=(x0, x1), ylim=(y0, y1))
    axes.set_aspect("equal")
    axes.set_xlabel("coordinate 1", fontsize=8)
    axes.set_ylabel("coordinate 2", fontsize=8)
    axes.tick_params(labelsize=7)
    axes.set_title(title or f"{len(cells):,} cells", fontsize=9, parse_math=False)
    return finished(figure, path)


def _draw_cells(axes: Axes, cells: list[LinearCell], fills: list[Colour], width: float) -> None:
    from matplotlib.collections import PolyCollection

    polygons = [cell.vertices for cell in cells]
    axes.add_collection(
        PolyCollection(polygons, facecolors=fills, edgecolors="black", linewidths=width)
    )


def _draw_walls(axes: Axes, cells: list[LinearCell], width: float) -> None:
    """Each wall in the colour of its layer; deeper ones below, so that the first are whole."""
    from matplotlib.collections import LineCollection

    lines: dict[int, list[np.ndarray]] = {}
    for cell in cells:
        around = np.concatenate([cell.vertices, cell.vertices[:1]])
        for number, label in enumerate(_layers(cell)):
            if label >= 0:
                lines.setdefault(label, []).append(around[number : number + 2])
    for layer in sorted(lines, reverse=True):
        colour = COLOURS[layer % len(COLOURS)]
        name = f"layer {layer + 1}"
        axes.add_collection(
            LineCollection(lines[layer], colors=colour, linewidths=width, label=name)
        )
    if lines:
        axes.legend(fontsize=7, loc="upper right", framealpha=0.9)


def _layers(cell: LinearCell) -> list[int]:
    """The layer of the wall that begins at each corner."""
    if cell.stack is not None:
        return [label[0] for label in cell.walls]
    matrix, offset = cell.inequalities
    middles = (cell.vertices + np.roll(cell.vertices, -1, axis=0)) / 2
    nearest = np.abs(middles @ matrix.T + offset).argmin(axis=1)
    return [cell.walls[n][0] for n in nearest]


def _fills(cells: list[LinearCell], colour: str) -> list[Colour]:
    if colour == "map":
        return [
            _colour_of_numbers(np.round(np.hstack([*map(np.ravel, cell.map)]), 9)) for cell in cells
        ]
    fills: list[Colour] = []
    for cell in cells:
        first = cell.pattern[0]
        if cell.stack is not None:
            fills.append(_colour_of_numbers(np.asarray(first, dtype=float)))
        else:
            fills.append(_tint(COLOURS[int(first[0][0]) % len(COLOURS)]) if first else _GREY)
    return fills


def _colour_of_numbers(numbers: np.ndarray) -> tuple[float, float, float]:
    """A light colour that depends on nothing but the numbers."""
    digest = hashlib.sha256((numbers + 0.0).tobytes()).digest()
    return colorsys.hls_to_rgb(digest[0] / 255, 0.62 + 0.25 * digest[1] / 255, 0.55)


def _tint(colour: str) -> tuple[float, float, float]:
    red, green, blue = (1.0 - 0.55 * (1.0 - int(colour[i : i + 2], 16) / 255.0) for i in (1, 3, 5))
    return red, green, blue
