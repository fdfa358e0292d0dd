"""Small drawings as SVG text: polygons of the plane."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

_SIDE = 260  # pixels of a drawing's square
_MARGIN = 12
_HUES = 0.381966  # of the circle from one cell to the next: the golden section never comes back


def _colour(number: int) -> str:
    return f"hsl({360 * (number * _HUES % 1):.0f} 55% 55%)"


class Plane:
    """A square of pixels for a box of the plane, second coordinate upwards."""

    def __init__(self, points: np.ndarray) -> None:
        self.low, high = points.min(axis=0), points.max(axis=0)
        reach = float((high - self.low).max())
        self.scale = (_SIDE - 2 * _MARGIN) / reach if reach > 0 else 1.0
        self.marks: list[str] = []

    def _at(self, point: Sequence[float]) -> tuple[float, float]:
        x = _MARGIN + (float(point[0]) - float(self.low[0])) * self.scale
        y = _SIDE - _MARGIN - (float(point[1]) - float(self.low[1])) * self.scale
        return x, y

    def polygon(self, corners: np.ndarray, number: int, title: str) -> None:
        """A cell with a colour of its own, and a title for the mouse."""
        around = " ".join("{:.1f},{:.1f}".format(*self._at(corner)) for corner in corners)
        self.marks.append(
            f'<polygon points="{around}" fill="{_colour(number)}" fill-opacity=".55" '
            f'stroke="currentColor" stroke-width=".6"><title>{escape(title)}</title></polygon>'
        )

    def dot(self, point: Sequence[float], title: str, *, faint: bool = False) -> None:
        x, y = self._at(point)
        self.marks.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="currentColor" '
            f'opacity="{0.3 if faint else 1}"><title>{escape(title)}</title></circle>'
        )

    def svg(self, title: str) -> str:
        return _svg(_SIDE, _SIDE, title, self.marks)


def around(points: np.ndarray) -> np.ndarray:
    """The corners of a convex polygon, one after another."""
    middle = points.mean(axis=0)
    return points[np.argsort(np.arctan2(*(points - middle).T[::-1]), kind="stable")]


def _svg(width: int, height: int, title: str, marks: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">'
        f"{''.join(marks)}</svg>"
    )
