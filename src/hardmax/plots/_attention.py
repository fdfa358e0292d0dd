"""How every head attends on one word: one panel a head, named by the step that it does."""

from __future__ import annotations

import math
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from hardmax._errors import RequestError
from hardmax.core import HeadTrace, SequenceTrace
from hardmax.plots._picture import check_picture, check_subject, finished, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

_MOST_HEADS = 24
_COLUMNS = 3
_MAP = "Blues"  # from light to dark: read alike by colour-blind readers and in grey
_MOST_WRITTEN = 10  # tokens of a word whose weights are written into the cells
_DARK = 0.6  # weights from here on are written in white
_LINE, _LINES = 38, 3  # of a panel's title


def attention_picture(
    trace: SequenceTrace, *, path: str | Path | None = None, title: str = ""
) -> Figure:
    """Draw the attention weights on one word, as .svg, .png or .pdf: rows ask, columns are asked.

    attention_picture(hm.trace(model, "abca"), path="attention.svg")
    """
    check_picture(path)
    check_subject(trace, SequenceTrace, 'hm.trace(model, "abc")')
    heads = trace.heads
    if not 1 <= len(heads) <= _MOST_HEADS:
        raise RequestError(
            f"The attention of 1 to {_MOST_HEADS} heads can be drawn, but this model has "
            f"{len(heads)}."
        )
    columns = min(_COLUMNS, len(heads))
    rows = math.ceil(len(heads) / columns)
    side = min(6.0, max(3.0, 1.2 + 0.34 * len(trace.tokens)))
    figure = new_figure((columns * side + 0.8, rows * (side + 0.4) + 0.5))
    panels = figure.subplots(rows, columns, squeeze=False).flat
    for number, axes in enumerate(panels):
        if number < len(heads):
            image = _draw_head(axes, trace, heads[number])
        else:
            axes.set_axis_off()
    figure.colorbar(image, ax=figure.axes[: rows * columns], label="weight", shrink=0.8)
    figure.suptitle(title or f"attention on {_word(trace)}", fontsize=11, parse_math=False)
    figure.supxlabel("token asked", fontsize=9)
    figure.supylabel("asking token", fontsize=9)
    return finished(figure, path)


def _word(trace: SequenceTrace) -> str:
    symbols = [str(symbol) for symbol in trace.word]
    return ("" if all(len(symbol) == 1 for symbol in symbols) else ",").join(symbols)


def _draw_head(axes: Axes, trace: SequenceTrace, head: HeadTrace) -> AxesImage:
    image = axes.imshow(head.weights, cmap=_MAP, vmin=0.0, vmax=1.0, interpolation="nearest")
    places = range(len(trace.tokens))
    axes.set_xticks(places, trace.tokens, fontsize=8, parse_math=False)
    axes.set_yticks(places, trace.tokens, fontsize=8, parse_math=False)
    axes.tick_params(length=0)
    if max(map(len, trace.tokens)) > 2:
        axes.tick_params(axis="x", rotation=45)
    lines = textwrap.wrap(head.step, _LINE, max_lines=_LINES, placeholder=" ...")
    where = f"sublayer {head.sublayer}, head {head.head}"
    axes.set_title("\n".join([where, *lines]), fontsize=8, parse_math=False)
    if len(trace.tokens) <= _MOST_WRITTEN:
        _write_weights(axes, head)
    return image


def _write_weights(axes: Axes, head: HeadTrace) -> None:
    """Two digits in every cell that has some."""
    for asking, row in enumerate(head.weights):
        for asked, weight in enumerate(row):
            text = f"{weight:.2f}".rstrip("0").rstrip(".")
            if text != "0":
                colour = "white" if weight >= _DARK else "black"
                axes.text(asked, asking, text, ha="center", va="center", fontsize=7, color=colour)
