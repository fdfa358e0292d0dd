"""What all pictures have in common: figures are returned, a path is optional, equal is equal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

import hardmax as hm

KEYS = np.array([[1.0, 1.0], [-1.0, 1.0], [0.0, -1.0]])
CORNER = hm.MaxAffine([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], [0.0, 0.0, 0.0])
SQUARE = hm.Polytope([[0, 0], [1, 0], [0, 1], [1, 1]])
Draw = Callable[..., Figure]
PICTURES: dict[str, tuple[Draw, Callable[[], object]]] = {
    "diagram": (hm.plots.diagram_picture, lambda: hm.power_diagram(KEYS, on="[-1,1]^2")),
    "regions": (hm.plots.regions_picture, lambda: hm.regions(CORNER, on="[-1,1]^2")),
    "polytope": (hm.plots.polytope_picture, lambda: SQUARE),
    "growth": (hm.plots.growth_picture, lambda: {"heads": ([2, 3, 4], [4, 9, 16])}),
    "stability": (hm.plots.stability_picture, lambda: hm.stability_of(KEYS, KEYS, KEYS).report()),
    "error": (hm.plots.error_picture, lambda: hm.compile("x*y", on="[-1,1]^2", error=1e-2)),
    "attention": (
        hm.plots.attention_picture,
        lambda: hm.trace(hm.compile(hm.programs.reverse, alphabet="ab", length=3), "aba"),
    ),
}


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_returned_and_a_path_is_optional(name: str, tmp_path: Path) -> None:
    draw, thing = PICTURES[name]
    assert isinstance(draw(thing()), Figure)
    for ending in ("svg", "png", "pdf"):
        first, second = tmp_path / f"first.{ending}", tmp_path / f"second.{ending}"
        assert isinstance(draw(thing(), path=first), Figure)
        draw(thing(), path=second)
        assert first.read_bytes() == second.read_bytes()
        assert first.stat().st_size > 1000
    with pytest.raises(hm.RequestError, match=r"an \.svg, a \.png or a \.pdf file, but"):
        draw(thing(), path=tmp_path / "picture.bmp")


@pytest.mark.parametrize("name", ["diagram", "regions", "growth"])
def test_one_panel_is_drawn_into_axes_that_are_there(name: str) -> None:
    draw, thing = PICTURES[name]
    figure = Figure()
    left, right = figure.subplots(1, 2)
    assert draw(thing(), ax=right) is figure
    assert not left.has_data()
    assert right.has_data()
    assert figure.axes == [left, right]


def test_several_panels_do_not_fit_into_one() -> None:
    diagram = hm.power_diagram(KEYS, on="[-1,1]^2")
    with pytest.raises(hm.RequestError, match="Axes hold one panel"):
        hm.plots.diagram_picture(diagram, temperatures=(0.1, 1.0), ax=Figure().subplots())
