"""Values that show themselves where somebody looks at them, in a notebook for example."""

from __future__ import annotations

from importlib import import_module

MOST_LETTERS = 80


def shortened(text: str, most: int = MOST_LETTERS) -> str:
    """The beginning of a text that may be long, for a line that names it."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


class Shown:
    """A value with a page of HTML of its own.

    How it looks is the affair of the room `hardmax.notebook`, which sees all rooms and is loaded
    when somebody looks: values know nothing of pages.
    """

    __slots__ = ()

    def _repr_html_(self) -> str:
        return str(import_module("hardmax.notebook").html_of(self))
