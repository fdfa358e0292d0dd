"""Newton polytopes and their Minkowski sums, in the plane and in space."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hardmax._errors import RequestError, ShapeError
from hardmax.geometry import Polytope
from hardmax.plots._picture import COLOURS, check_picture, check_subject, finished, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from mpl_toolkits.mplot3d import Axes3D

_MOST_FACETS = 5_000
_MOST_DOTTED = 400  # vertices that are marked one by one


def polytope_picture(
    polytopes: Polytope | Sequence[Polytope],
    *,
    path: str | Path | None = None,
    names: Sequence[str] = (),
    title: str = "",
) -> Figure:
    """Draw polytopes beside each other, as .svg, .png or .pdf: a panel each, with its vertex count.

    polytope_picture([P, Q, hm.minkowski_sum([P, Q]).polytope()], path="sum.svg")
    """
    check_picture(path)
    given = list(polytopes) if isinstance(polytopes, Iterable) else [polytopes]
    _check(given)
    space = given[0].points.dimension
    figure = new_figure((4.2 * len(given), 4.2))
    kind = "3d" if space == 3 else None
    for number, polytope in enumerate(given):
        axes = figure.add_subplot(1, len(given), number + 1, projection=kind)
        draw = _draw_solid if space == 3 else _draw_flat
        draw(axes, polytope, COLOURS[number % len(COLOURS)])
        name = names[number] + ": " if number < len(names) else ""
        axes.set_title(f"{name}{len(polytope.vertices)} vertices", fontsize=9, parse_math=False)
        axes.tick_params(labelsize=6)
    if title:
        figure.suptitle(title, fontsize=11, parse_math=False)
    return finished(figure, path)


def _check(polytopes: list[Polytope]) -> None:
    if not polytopes:
        raise ShapeError("There is no polytope to draw; give at least one.")
    for polytope in polytopes:
        check_subject(polytope, Polytope, "hm.Polytope.of(points)")
    spaces = {polytope.points.dimension for polytope in polytopes}
    if len(spaces) > 1 or not spaces <= {2, 3}:
        raise RequestError(
            f"Polytopes are drawn in two or three dimensions, all in the same, but these lie in "
            f"{', '.join(map(str, sorted(spaces)))}."
        )
    if max(len(polytope.facets) for polytope in polytopes) > _MOST_FACETS:
        raise RequestError(f"At most {_MOST_FACETS:,} facets are drawn; give fewer points.")


def _draw_flat(axes: Axes, polytope: Polytope, colour: str) -> None:
    corners = polytope.points.floats[polytope.vertices]
    around = corners[_in_order(corners)]
    axes.fill(around[:, 0], around[:, 1], facecolor=colour, edgecolor="black", alpha=0.35)
    axes.plot(around[:, 0], around[:, 1], "o", color=colour, markersize=3)
    axes.set_aspect("equal")


def _draw_solid(axes: Axes3D, polytope: Polytope, colour: str) -> None:
    from mpl_toolkits.mplot3d.art3d import Poly3DCollection

    floats = polytope.points.floats
    facets = polytope.facets if polytope.dimension == 3 else (tuple(polytope.vertices.tolist()),)
    faces = []
    for facet in facets:
        corners = floats[list(facet)]
        faces.append(corners[_in_order(corners)])
    axes.add_collection3d(
        Poly3DCollection(faces, facecolor=colour, edgecolor="black", linewidth=0.4, alpha=0.45)
    )
    vertices = floats[polytope.vertices]
    if len(vertices) <= _MOST_DOTTED:
        axes.plot(*vertices.T, "o", color=colour, markersize=2)
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    reach = max(float((high - low).max()) / 2, 1e-9)
    middle = (low + high) / 2
    axes.set(
        xlim=(middle[0] - reach, middle[0] + reach),
        ylim=(middle[1] - reach, middle[1] + reach),
        zlim=(middle[2] - reach, middle[2] + reach),
    )
    axes.set_box_aspect((1, 1, 1))


def _in_order(corners: np.ndarray) -> np.ndarray:
    """Corners of a flat convex polygon in the order around it."""
    away = corners - corners.mean(axis=0)
    plane = np.linalg.svd(away, full_matrices=False)[2][:2]
    flat = away @ plane.T
    if flat.shape[1] < 2:
        return np.argsort(flat[:, 0])
    return np.argsort(np.arctan2(flat[:, 1], flat[:, 0]))
