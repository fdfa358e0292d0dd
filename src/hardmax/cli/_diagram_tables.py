"""Diagrams as tables for people. Opening this file loads Rich."""

from __future__ import annotations

from rich import box
from rich.table import Table

from hardmax import PowerDiagram
from hardmax.cli._tables import plain_console, print_table


def print_diagram(head: PowerDiagram, name: str, most: int) -> None:
    """What lives, and for each cell its neighbours and its share of the box."""
    console = plain_console()
    where = "" if head.on is None else f" on {head.on}"
    console.print(
        f"{name}{len(head.sites):,} keys in {head.dimension} dimensions{where}: "
        f"{len(head.live):,} live, {len(head.empty):,} empty, {len(head.neighbours):,} walls, "
        f"{len(head.vertices):,} vertices{' (a fan)' if head.is_fan else ''}",
        soft_wrap=True,
    )
    around: dict[int, list[int]] = {key: [] for key in head.cells.tolist()}
    for a, b in head.neighbours.tolist():
        around[a].append(b)
        around[b].append(a)
    volumes = {} if head.on is None else head.volumes()
    total = sum(volumes.values())
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("cell of key", justify="right")
    if volumes:
        table.add_column("share", justify="right")
    table.add_column("neighbours")
    for key in head.cells.tolist()[:most]:
        share = [f"{float(volumes[key] / total):.4g}"] if volumes else []
        table.add_row(str(key), *share, " ".join(map(str, around[key])))
    print_table(console, table)
    if len(around) > most:
        console.print(f"and {len(around) - most:,} more cells; --json lists all", soft_wrap=True)
    console.print(f"decided exactly; {head.decided:,} signs needed more than floats")
