"""`hardmax regions`: linear regions, counted exactly."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any

import click

from hardmax import (
    Construction,
    MissingExtra,
    RequestError,
    Segment,
    Slice,
    Transformer,
    regions,
    skeleton,
)
from hardmax.cli import _options
from hardmax.cli._errors import note_written, telling_refusals
from hardmax.cli._files import check_different, check_picture_place, check_writable, open_either
from hardmax.cli._points import points_from
from hardmax.cli._records import print_json
from hardmax.cli._workers import hide_warnings
from hardmax.core import Target
from hardmax.geometry import Regions, input_width

COLOURS = ("map", "depth", "winner")


@click.command("regions", short_help="Count the linear regions of a network or hard Transformer.")
@click.argument("file", metavar="FILE")
@click.option("--on", "domain", metavar="BOX", help='Where to count, such as "[-1,1]^2".')
@click.option("--from", "start", metavar="POINT", help="One end of a segment, such as 0,0,1.")
@click.option("--to", "end", metavar="POINT", help="Its other end.")
@click.option("--origin", metavar="POINT", help="Of a plane slice; --on is then its polygon's box.")
@click.option(
    "--direction", "directions", metavar="VECTOR", multiple=True, help="Of the slice; twice."
)
@click.option("--skeleton", "hard", is_flag=True, help="Of a model: make its heads hard first.")
@click.option("--inputs", metavar="FILE", help="Count the cells that these points visit instead.")
@click.option("--fast", is_flag=True, help="Believe every float sign; the answer says so.")
@click.option("--cells", "only_cells", is_flag=True, help="Do not join cells into regions: faster.")
@click.option("--limit", type=int, metavar="N", help="Stop at more cells than this.")
@_options.jobs
@click.option("--dask", metavar="ADDRESS", help="Count on a Dask cluster (pip: hardmax[dask]).")
@click.option("--checkpoint", metavar="FILE", help="Keep what is done, and go on from there.")
@click.option("--plot", metavar="FILE", help="Draw the cells of a plane as .svg, .png or .pdf.")
@click.option(
    "--colour",
    type=click.Choice(COLOURS),
    default="map",
    show_default=True,
    help="Of a cell: by affine map, by its walls' depth, by attention winner.",
)
@_options.as_json
@telling_refusals
def show_regions(
    file: str,
    domain: str | None,
    start: str | None,
    end: str | None,
    origin: str | None,
    directions: tuple[str, ...],
    hard: bool,
    inputs: str | None,
    fast: bool,
    only_cells: bool,
    limit: int | None,
    jobs: int,
    dask: str | None,
    checkpoint: str | None,
    plot: str | None,
    colour: str,
    as_json: bool,
) -> None:
    """Count the cells (sets of inputs with one pattern) and the maximal affine regions of the
    network in FILE, or of a compiled model's hard skeleton, on a box, a segment or a plane slice.

    \b
    Examples:
      hardmax regions net.npz --on "[-1,1]^2" --plot regions.svg
      hardmax regions net.npz --from 0,0,0 --to 1,1,1 --json
      hardmax regions net.npz --on "[-1,1]^4" --jobs 2 --checkpoint count.npz
      hardmax regions model.safetensors --skeleton --on "[-1,1]^2"
    """
    check_different(plot=plot, checkpoint=checkpoint)
    if plot is not None:
        check_picture_place(plot, source=file)
    if checkpoint is not None:
        check_writable(checkpoint, source=file, called="the network")
    content, _ = open_either(file)
    source: Target | Transformer
    if isinstance(content, Construction):
        source = skeleton(content) if hard else content.transformer
    elif hard:
        raise RequestError(f"--skeleton is about compiled models, but {file} holds a network.")
    else:
        source = content
    if inputs is not None:
        if domain or start or end or origin or plot or checkpoint:
            raise RequestError(
                "--inputs asks where points lie; leave out domain, plot and checkpoint."
            )
        _show_visits(source, inputs, as_json)
        return
    where = _where(domain, start, end, origin, directions)
    if (
        plot is not None
        and not isinstance(where, Slice)
        and (isinstance(where, Segment) or input_width(source) != 2)
    ):
        raise RequestError("Cells are drawn in the plane: take two inputs, or a slice by --origin.")
    with _counting(not as_json and sys.stderr.isatty()) as progress, _pool(jobs, dask) as pool:
        counted = regions(
            source,
            on=where,
            fast=fast,
            executor=pool,
            checkpoint=checkpoint,
            limit=limit,
            progress=progress,
        )
        record = counted.as_dict(regions=not only_cells) | {"on": str(where)}
        if plot is not None:
            from hardmax.plots import regions_picture

            if not isinstance(counted, Regions):
                raise RequestError("Cells with curved walls are not drawn: leave out --plot.")
            regions_picture(counted, path=plot, colour=colour)
            note_written(plot)
            record["picture"] = plot
    if as_json:
        print_json(record)
    else:
        _print(record)


def _point(text: str, option: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise RequestError(f"{option} takes numbers between commas, but it is {text!r}.") from None


def _where(
    domain: str | None,
    start: str | None,
    end: str | None,
    origin: str | None,
    directions: tuple[str, ...],
) -> Segment | Slice | str:
    if start is not None or end is not None:
        if start is None or end is None or domain or origin or directions:
            raise RequestError("A segment is given by --from and --to, and by nothing else.")
        return Segment(_point(start, "--from"), _point(end, "--to"))
    if origin is not None or directions:
        if origin is None or domain is None:
            raise RequestError("A slice needs --origin, --direction twice, and --on for its box.")
        ways = [_point(one, "--direction") for one in directions]
        return Slice(_point(origin, "--origin"), ways, domain)
    if domain is None:
        raise RequestError(
            'Regions are counted on a bounded domain: give one, for example --on "[-1,1]^2", a '
            "segment by --from and --to, or a slice by --origin."
        )
    return domain


def _print(record: dict[str, Any]) -> None:
    how = "exact" if record["exact"] else "fast: float signs believed"
    click.echo(f"{record['source']} on {record['on']}")
    if record["cells"] is None:
        most = record["cells_at_most"]
        top = "an unknown number" if most is None else f"{most:,}"
        click.echo(f"between {record['cells_at_least']:,} and {top} cells")
        return
    joined = record.get("regions")
    told = "" if joined is None else f", {joined:,} maximal affine regions"
    click.echo(f"{record['cells']:,} cells{told} ({how})")
    if len(record.get("layers", ())) > 1:
        click.echo("after each layer: " + ", ".join(f"{one:,}" for one in record["layers"]))
    if record["exact"] and "exact_decisions" in record:
        click.echo(f"{record['exact_decisions']:,} signs needed more than floats")
    if record.get("at_most"):
        click.echo(f"no weights of this shape have more than {record['at_most']} cells")
    for note in record.get("notes", ()):
        click.echo(note)
    if record.get("picture"):
        click.echo(f"drawn {record['picture']}")


def _show_visits(source: Target | Transformer, inputs: str, as_json: bool) -> None:
    found = regions(source, inputs=points_from(inputs, input_width(source)))
    if as_json:
        print_json(found.as_dict())
        return
    click.echo(f"{found.inputs:,} inputs lie in {found.cells:,} cells")
    click.echo("most visited: " + ", ".join(f"{one:,}" for one in found.often[:10].tolist()))
    if found.ties:
        click.echo(f"{found.ties:,} inputs are nearer to a wall than rounding tells")


@contextmanager
def _counting(visible: bool) -> Iterator[Callable[[int], None] | None]:
    """The number of cells so far, on stderr, while somebody looks."""
    if not visible:
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("counting", total=None)
        yield lambda cells: bar.update(task, description=f"{cells:,} cells")


@contextmanager
def _pool(jobs: int, dask: str | None) -> Iterator[Executor | Callable[[], Executor] | None]:
    """Nothing, a way to make a pool of processes, or a cluster's executor."""
    if dask is not None:
        try:
            from distributed import Client
        except ModuleNotFoundError:
            raise MissingExtra("distributed", "dask") from None
        try:
            client = Client(dask, timeout="10s")
        except (OSError, ValueError) as reason:
            raise RequestError(f"No Dask scheduler answers at {dask} ({reason}).") from None
        with client:
            yield client.get_executor()
        return
    if jobs == 1:
        yield None
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    fresh = get_context("spawn")
    yield lambda: ProcessPoolExecutor(jobs, mp_context=fresh, initializer=hide_warnings)
