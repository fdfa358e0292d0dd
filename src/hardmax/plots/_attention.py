"""How every head attends on one word: one panel a head, named by the step that it does."""

from __future__ import annotations

import math
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hardmax._errors import RequestError
from hardmax.core import HeadTrace, SequenceTrace, shown_share
from hardmax.plots._picture import check_picture, check_subject, finished, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

_MOST_HEADS = 24
_COLUMNS = 3
_MAP = "Blues"  # from light to dark: read alike by colour-blind readers and in grey
_SINK = "#bbbbbb"
_MOST_WRITTEN = 10  # tokens of a word whose weights are written into the cells
_MOST_LABELLED = 24  # tokens on an axis that are all labelled
_DARK = 0.6  # of the colour scale: from here on cells are written in white
_LINE, _LINES = 34, 3  # of a panel's title
_LONGEST, _TITLE = 12, 60  # letters of a token's label, and of the picture's title


def attention_picture(
    trace: SequenceTrace, *, path: str | Path | None = None, title: str = ""
) -> Figure:
    """Draw the attention weights on one word, as .svg, .png or .pdf: rows ask, columns are asked.

    Where a start token takes nearly all the weight of a head that adds up, its column is grey, the
    scale is logarithmic, and cells say which share of the rest a symbol has.

    attention_picture(hm.trace(model, "abca"), path="attention.svg")
    """
    check_picture(path)
    check_subject(trace, SequenceTrace, 'hm.trace(model, "abc")')
    return finished(attention_figure(trace, title), path)


def attention_figure(trace: SequenceTrace, title: str = "") -> Figure:
    """The figure itself, a panel for each head."""
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
    scale = _scale(heads)
    for number, axes in enumerate(panels):
        if number < len(heads):
            image = _draw_head(axes, trace, heads[number], scale)
        else:
            axes.set_axis_off()
    figure.colorbar(image, ax=figure.axes[: rows * columns], label="weight", shrink=0.8)
    told = textwrap.shorten(title or f"attention on {_word(trace)}", _TITLE, placeholder=" ...")
    figure.suptitle(_cut(told, _TITLE), fontsize=11, parse_math=False)
    figure.supxlabel("token asked", fontsize=9)
    figure.supylabel("asking token", fontsize=9)
    return figure


def _scale(heads: tuple[HeadTrace, ...]) -> Normalize:
    """From 0 to 1; logarithmic, from what the least symbol gets, where sinks take the rest."""
    from matplotlib.colors import LogNorm, Normalize

    shared = [_asked(head)[_asked(head) > 0.0] for head in heads if _has_sink(head)]
    if not shared:
        return Normalize(0.0, 1.0)
    least = min(float(weights.min(initial=1.0)) for weights in shared)
    return LogNorm(least / 10.0, 1.0, clip=True)


def _has_sink(head: HeadTrace) -> bool:
    return head.adds_up and head.has_start


def _asked(head: HeadTrace) -> np.ndarray:
    """What symbols get from symbols."""
    return head.weights[1:, 1:]


def _word(trace: SequenceTrace) -> str:
    symbols = [str(symbol) for symbol in trace.word]
    return ("" if all(len(symbol) == 1 for symbol in symbols) else ",").join(symbols)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def _draw_head(axes: Axes, trace: SequenceTrace, head: HeadTrace, scale: Normalize) -> AxesImage:
    from matplotlib.patches import Rectangle

    image = axes.imshow(head.weights, cmap=_MAP, norm=scale, interpolation="nearest")
    many = len(trace.tokens)
    if _has_sink(head):
        axes.add_patch(Rectangle((-0.5, -0.5), 1, many, color=_SINK))
    _label_tokens(axes, trace)
    lines = textwrap.wrap(head.step, _LINE, max_lines=_LINES, placeholder=" ...")
    where = f"sublayer {head.sublayer}, head {head.head}"
    axes.set_title("\n".join([where, *lines]), fontsize=8, parse_math=False)
    if many <= _MOST_WRITTEN:
        _write_weights(axes, head, scale)
    return image


def _label_tokens(axes: Axes, trace: SequenceTrace) -> None:
    """Every token with its position; of many, one in a few."""
    labels = [_cut(one, _LONGEST) for one in trace.headings]
    places = range(0, len(labels), math.ceil(len(labels) / _MOST_LABELLED))
    shown = [labels[place] for place in places]
    upright = max(map(len, shown)) > 3
    axes.set_xticks(
        places, shown, fontsize=8, parse_math=False, rotation="vertical" if upright else 0
    )
    axes.set_yticks(places, shown, fontsize=8, parse_math=False)
    axes.tick_params(length=0)


def _write_weights(axes: Axes, head: HeadTrace, scale: Normalize) -> None:
    """Two digits in every cell that has some; beside a sink, the shares of the rest."""
    shares = head.shares
    for asking, row in enumerate(head.weights):
        for asked, weight in enumerate(row):
            if _has_sink(head):
                of_rest = shares[asking].of_rest
                own = of_rest[asked - 1] if asking and asked else 0.0
                text = shown_share(own, len(of_rest)) if own > 0.0 else "0"
            else:
                text = f"{weight:.2f}".rstrip("0").rstrip(".")
            if text != "0":
                colour = "white" if np.asarray(scale(weight)).item() >= _DARK else "black"
                axes.text(asked, asking, text, ha="center", va="center", fontsize=7, color=colour)
