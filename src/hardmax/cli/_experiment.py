"""`hardmax experiment`: how regions grow, for random and constructed Transformers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from hardmax.cli import _options
from hardmax.cli._errors import note_written, telling_refusals
from hardmax.cli._files import check_picture_place
from hardmax.cli._records import print_json

if TYPE_CHECKING:
    from hardmax.geometry import Experiment, ExperimentRow


@click.command("experiment", short_help="Tabulate regions of random and constructed Transformers.")
@click.option(
    "--seeds", type=click.IntRange(min=1), default=10, show_default=True, help="Random models each."
)
@click.option("--quick", is_flag=True, help="Fewer and smaller models.")
@click.option("--plot", metavar="FILE", help="Draw regions against tokens as .svg, .png or .pdf.")
@_options.as_json
@telling_refusals
def run_experiment(seeds: int, quick: bool, plot: str | None, as_json: bool) -> None:
    """Count the regions of hard Transformers over one moving query: against tokens, heads, depth
    and hidden width, beside the exact bounds; attention alone against attention and feed-forward at
    equal parameters; and constructed weights against their theorems.

    \b
    Example:
      hardmax experiment --seeds 5 --plot growth.svg
    """
    from hardmax.geometry import experiment

    if plot is not None:
        check_picture_place(plot, source=None)
    with _telling(not as_json and sys.stderr.isatty()) as tell:
        tables = experiment(seeds=seeds, quick=quick, progress=tell)
    if plot is not None:
        _draw(tables, plot)
        note_written(plot)
    if as_json:
        print_json(tables.as_dict() | {"picture": plot})
        return
    from hardmax.cli._experiment_tables import print_experiment

    print_experiment(tables)
    if plot is not None:
        click.echo(f"drawn {plot}")


def _draw(found: Experiment, plot: str) -> None:
    from hardmax.plots import growth_picture

    rows: list[ExperimentRow] = [row for row in found.random if row.group == "tokens"]
    tokens = [row.shape.tokens for row in rows]
    growth_picture(
        {"2 heads, random": (tokens, [row.regions for row in rows])},
        bounds={"2 heads, random": (tokens, [row.most for row in rows])},
        path=plot,
        y="regions",
    )


@contextmanager
def _telling(visible: bool) -> Iterator[Callable[[str], None] | None]:
    if not visible:
        yield None
        return
    from rich.console import Console

    with Console(stderr=True).status("counting") as status:
        yield lambda what: status.update(what)
