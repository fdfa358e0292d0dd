"""Cards, tables and marks: HTML that is legible on white and on black, and brings all it needs.

Colours are those of the page (`currentColor`, opacity), so that a dark notebook needs no second
sheet; styles stand inline, because notebooks strip sheets and ids collide between two outputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_CARD = "border-left:3px solid {};padding:.3em .9em;margin:.4em 0;line-height:1.45"
_TABLE = "border-collapse:collapse;color:inherit;margin:.4em 0;font-variant-numeric:tabular-nums"
_CELL = "padding:.15em .7em;text-align:{};border-bottom:1px solid rgba(128,128,128,.3)"
PLAIN, GOOD, BAD, OPEN = "rgba(128,128,128,.6)", "#2a9d5c", "#d64545", "#d99a2b"
MOST_ROWS = 60  # of a table: more is for files


def card(title: str, *parts: str, colour: str = PLAIN, note: str = "") -> str:
    """A title, a quiet note beside it, and what belongs to it."""
    beside = f' <span style="opacity:.65">{escape(note)}</span>' if note else ""
    head = f"<div><b>{escape(title)}</b>{beside}</div>"
    return f'<div style="{_CARD.format(colour)}">{head}{"".join(parts)}</div>'


def line(text: str, *, quiet: bool = False) -> str:
    """A sentence."""
    style = ' style="opacity:.65"' if quiet else ""
    return f"<div{style}>{escape(text)}</div>"


def table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, marked: Iterable[int] = ()
) -> str:
    """Rows of text; the first column is set to the left, marked rows are bold."""
    bold, shown = set(marked), list(rows)
    head = "".join(_cell("th", name, k == 0) for k, name in enumerate(columns))
    body = "".join(
        f"<tr{' style=font-weight:bold' if number in bold else ''}>"
        + "".join(_cell("td", text, k == 0) for k, text in enumerate(row))
        + "</tr>"
        for number, row in enumerate(shown[:MOST_ROWS])
    )
    more = len(shown) - MOST_ROWS
    rest = line(f"... and {more:,} more", quiet=True) if more > 0 else ""
    return f'<table style="{_TABLE}"><tr>{head}</tr>{body}</table>{rest}'


def _cell(tag: str, text: str, first: bool) -> str:
    style = _CELL.format("left" if first else "right")
    return f'<{tag} style="{style}">{escape(text)}</{tag}>'


def folded(summary: str, content: str) -> str:
    """What is there for those who open it."""
    return f"<details><summary>{escape(summary)}</summary>{content}</details>"
