"""Progress bars for people who wait."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hardmax import Standing


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


@contextmanager
def certifying(visible: bool) -> Iterator[Callable[[Standing], object] | None]:
    """A bar that fills as the certified bound comes down to the measured one."""
    if not visible:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (BarColumn(bar_width=20), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        number = bar.add_task("certifying", total=None)
        first: list[float] = []

        def show(standing: Standing) -> None:
            if not first and math.isfinite(standing.certified):
                first.append(standing.certified)
            total = 1.0 if first else None  # a bar that only moves until there is a bound
            done = descent(first[0], standing) if first else 0.0
            bar.update(number, total=total, completed=done, description=standing_line(standing))

        yield show


def descent(first: float, standing: Standing) -> float:
    """How far the bound has come down from `first` to what is measured, on a log scale.

    0 at the start and 1 when both are equal. Where nothing is measured above 0, the way ends at
    the claim.
    """
    goal = standing.measured if standing.measured > 0 else standing.claimed
    if standing.certified <= goal:
        return 1.0
    if not 0 < goal < standing.certified < first < math.inf:
        return 0.0
    return 1.0 - math.log(standing.certified / goal) / math.log(first / goal)


def standing_line(standing: Standing) -> str:
    """The three numbers, and how much was looked at."""
    return (
        f"certified {standing.certified:.2e} -> measured {standing.measured:.2e} "
        f"(claimed {standing.claimed:.2e}) {standing.boxes:,} {standing.phase}"
    )
