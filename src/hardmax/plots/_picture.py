"""Figures: made, handed back, and written at once or not at all."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from hardmax._atomic import write_atomically
from hardmax._errors import MissingExtra, RequestError
from hardmax._reading import naming

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, told apart by colour-blind readers; markers differ too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
GREY = "#555555"
_UNDATED: dict[str, dict[str, None]] = {  # so that equal pictures are equal bytes
    ".svg": {"Date": None},
    ".png": {"Software": None},
    ".pdf": {"CreationDate": None},
}


def check_picture(path: str | Path | None) -> None:
    """Refuse what cannot be drawn: a format that is unknown, or matplotlib missing."""
    if path is not None and Path(path).suffix.lower() not in _UNDATED:
        raise RequestError(f"A picture is an .svg, a .png or a .pdf file, but {path} is none.")
    new_figure((1.0, 1.0))


def check_subject(given: object, kind: type, maker: str, hint: str = "") -> None:
    """Refuse what is not the thing to be drawn, and say what makes one."""
    if not isinstance(given, kind):
        told = f"; {hint}" if hint else ""
        raise RequestError(
            f"A {kind.__name__} is drawn here, as {maker} makes it, but a {type(given).__name__} "
            f"came{told}."
        )


def new_figure(inches: tuple[float, float]) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise MissingExtra("matplotlib", "plots") from None
    return Figure(figsize=inches, layout="constrained")


def new_axes(ax: Axes | None, inches: tuple[float, float]) -> tuple[Figure, Axes]:
    """One panel: the axes that somebody has, or those of a new figure."""
    if ax is None:
        figure = new_figure(inches)
        return figure, figure.subplots()
    found = ax.get_figure(root=True)
    assert found is not None
    return found, ax


def finished(figure: Figure, path: str | Path | None) -> Figure:
    """The figure, written if there is a path.

    Equal pictures are equal bytes: no date, and fixed names inside an SVG.
    """
    if path is None:
        return figure
    import matplotlib as mpl

    ending, buffer = Path(path).suffix.lower(), io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "hardmax", "svg.fonttype": "none"}):
        figure.savefig(buffer, format=ending[1:], dpi=160, metadata=_UNDATED[ending])
    with naming(path):
        write_atomically(path, buffer.getvalue())
    return figure
