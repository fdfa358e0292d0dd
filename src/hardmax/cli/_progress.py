"""A progress bar for people who wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(
    task: str, total: int | None, visible: bool
) -> Iterator[Callable[[int], object] | None]:
    """A bar on stderr that goes away when the work is done; nothing at all if not visible."""
    if not visible:
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        number = bar.add_task(task, total=total)
        yield lambda done: bar.advance(number, done)
