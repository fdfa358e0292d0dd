"""The picture of attention: every label inside the canvas, none over another; sinks told apart."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import hardmax as hm

pytest.importorskip("matplotlib")

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from hardmax.plots._attention import attention_figure

P = hm.programs
CASES = {
    "sort": (P.sort, "abcde", 5, "cabea", None),
    "reverse": (P.reverse, "abcde", 5, "abca", None),
    "legible sort": (P.sort, "abcde", 5, "cabea", "legible"),
    "frequency": (P.sort_by_frequency, "abc", 4, "abca", None),
    "long": (P.reverse, "abc", 30, "abc" * 10, None),
    "words": (P.histogram, ["a rather long symbol", "$", "go"], 4, ["go", "$"] * 2, None),
}


def figure_of(name: str) -> Figure:
    program, alphabet, length, word, route = CASES[name]
    model = hm.compile(program, alphabet=alphabet, length=length, route=route)
    return attention_figure(hm.trace(model, word))


def badly_placed(figure: Figure) -> list[str]:
    """Labels that leave the canvas, and pairs of them that overlap."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    width, height = canvas.get_width_height()
    shown = [one for one in figure.findobj(Text) if one.get_text().strip() and one.get_visible()]
    boxes = [(one.get_text(), one.get_window_extent(renderer)) for one in shown]
    found = [
        text for text, box in boxes if box.x0 < 0 or box.y0 < 0 or box.x1 > width or box.y1 > height
    ]
    for (one, box), (other, its) in itertools.combinations(boxes, 2):
        if min(box.x1, its.x1) > max(box.x0, its.x0) and min(box.y1, its.y1) > max(box.y0, its.y0):
            found.append(f"{one} over {other}")
    return found


@pytest.mark.parametrize("name", CASES)
def test_labels_are_whole_and_apart(name: str) -> None:
    assert badly_placed(figure_of(name)) == []


def test_a_label_out_of_place_is_found() -> None:
    figure = figure_of("reverse")
    figure.axes[0].set_title("wide " * 60)
    assert badly_placed(figure)


def test_a_sink_is_grey_and_the_scale_logarithmic() -> None:
    """In sort all symbols get 2.4e-7 each: a fifth of what the start token leaves."""
    figure = figure_of("sort")
    panel = figure.axes[0]
    assert isinstance(panel.images[0].norm, LogNorm)
    weights = panel.images[0].get_array()
    assert panel.images[0].norm.vmin == pytest.approx(weights[1:, 1:].min() / 10.0)
    (sink,) = [one for one in panel.patches if isinstance(one, Rectangle)]
    assert (sink.get_x(), sink.get_width(), sink.get_height()) == (-0.5, 1, 6)
    assert [one.get_text() for one in panel.texts] == ["1/5"] * 25
    assert panel.get_title().startswith("sublayer 0, head 0\nn<=a, n<=b")
    ticks = [label.get_text() for label in panel.get_xticklabels()]
    assert ticks == ["start", "0:c", "1:a", "2:b", "3:e", "4:a"]


def test_without_a_sink_the_scale_is_linear() -> None:
    figure = figure_of("reverse")
    assert not isinstance(figure.axes[0].images[0].norm, LogNorm)
    assert not figure.axes[0].patches
    assert np.max(figure.axes[1].images[0].get_array()) > 0.99
