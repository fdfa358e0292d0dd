"""The experiment as tables for people. Opening this file loads Rich."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table

from hardmax.cli._tables import plain_console, print_table
from hardmax.geometry import Experiment, ExperimentRow
from hardmax.geometry.bounds import scientific


def print_experiment(found: Experiment) -> None:
    console = plain_console()
    console.print(
        f"random models, one query in a plane, means of {found.seeds}: N tokens, H heads and m "
        f"hidden units a layer, L layers",
        soft_wrap=True,
    )
    print_table(console, _table(found.random))
    console.print("the same parameters: attention alone, or with feed-forward", soft_wrap=True)
    print_table(console, _table(found.equal))
    _answer(console, found)
    console.print("constructed weights: counted, and what the theorem says", soft_wrap=True)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("tokens", "heads", "hidden", "layers", "parameters", "counted", "promised"):
        table.add_column(name, justify="right")
    for row in found.built:
        sizes = (row.recipe.tokens, row.recipe.heads, row.recipe.hidden, row.recipe.layers)
        numbers = (*sizes, row.parameters, row.counted, row.promised)
        table.add_row(*(f"{one:,}" for one in numbers))
    print_table(console, table)


def _table(rows: tuple[ExperimentRow, ...]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("by", no_wrap=True)
    names = ("N", "H", "L", "m", "weights", "cells", "regions", "+-", "at most")
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        shape = row.shape
        sizes = (shape.tokens, shape.heads, shape.layers, shape.hidden, shape.parameters)
        counts = (row.cells, row.regions, row.spread)
        table.add_row(
            row.group,
            *(f"{one:,}" for one in sizes),
            *(f"{one:,.1f}" for one in counts),
            scientific(row.most),
        )
    return table


def _answer(console: Console, found: Experiment) -> None:
    """Who has more regions, depth by depth."""
    for layers in sorted({row.shape.layers for row in found.equal}):
        rows = [row for row in found.equal if row.shape.layers == layers]
        best = max(rows, key=lambda row: row.regions)
        alone = next(row for row in rows if not row.shape.hidden)
        console.print(
            f"{layers} layer{'s' * (layers > 1)}: most regions by {best.group}, "
            f"{best.regions / alone.regions:.2f} times those of attention alone",
            soft_wrap=True,
        )
