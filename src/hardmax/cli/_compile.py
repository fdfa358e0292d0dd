"""`hardmax compile`: from a function or a network to a Transformer with a claim, measured."""

from __future__ import annotations

import sys

import click

from hardmax import Construction, Function, Measurement, RequestError, compile, measure, save
from hardmax.cli import _options
from hardmax.cli._errors import BROKEN_CLAIM, guarded, note_written
from hardmax.cli._files import check_writable
from hardmax.cli._progress import progress
from hardmax.cli._records import measurement_record, model_record, print_json
from hardmax.cli._sources import is_file, number, open_source, where
from hardmax.core import Target


@click.command("compile", short_help="Compile a function or a network into a Transformer.")
@_options.source
@_options.on
@_options.error
@click.option("--hard", is_flag=True, help="Keep a network's hard skeleton, exact over rationals.")
@click.option("--route", metavar="NAME", help="One of those that `hardmax plan` lists.")
@_options.prefer
@click.option("-o", "--output", metavar="FILE", help="Save the model as one safetensors file.")
@click.option(
    "--points",
    type=click.IntRange(min=1),
    default=100_000,
    show_default=True,
    help="How many points to measure.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Which points."
)
@_options.as_json
@guarded
def compile_source(
    source: str,
    domain: tuple[str, ...],
    error: str | None,
    hard: bool,
    route: str | None,
    prefer: str | None,
    output: str | None,
    points: int,
    seed: int,
    as_json: bool,
) -> None:
    """Compile SOURCE, a function as text or a network in a .npz or .safetensors file, into a
    Transformer that computes it on DOMAIN to within the error asked; measure it, show its bill,
    and save it.

    \b
    Examples:
      hardmax compile "x*y" --on x=-1:1 --on y=-1:1 --error 1e-3 -o product.safetensors
      hardmax compile net.npz --on "[-1,1]^8" --error 1e-3 --route attention -o t.safetensors
    """
    if route is not None and prefer is not None:
        raise RequestError("--route leaves nothing for --prefer to pick. Drop one.")
    asked = _asked(error, hard)
    target = open_source(source)
    _check_hard(target, hard)
    box = where(domain, target)
    if output is not None:
        check_writable(output, source=source if is_file(source) else None)
    visible = not as_json and sys.stderr.isatty()
    with progress("compiling", None, visible):
        construction = compile(target, on=box, error=asked, route=route, prefer=prefer)
    with progress("measuring", points, visible) as advance:
        measurement = measure(construction, points, seed=seed, progress=advance)
    holds = measurement.error <= construction.claim.error
    if output is not None and holds:
        save(construction, output)
        note_written(output)
    _report(construction, measurement, asked, seed, output if holds else None, as_json)
    if not holds:
        click.echo("The measured error breaks the claim: nothing was saved.", err=True)
        raise click.exceptions.Exit(BROKEN_CLAIM)


def _asked(error: str | None, hard: bool) -> float | None:
    """The error in numbers; None for the hard skeleton."""
    if hard and error is not None:
        raise RequestError("--hard makes no softening error, so --error says nothing. Drop one.")
    return None if hard else number(_options.DEFAULT_ERROR if error is None else error)


def _check_hard(target: Target, hard: bool) -> None:
    if hard and isinstance(target, Function):
        raise RequestError(
            "--hard keeps the hard skeleton of a network, and a function has none. Give --error."
        )


def _report(
    construction: Construction,
    measurement: Measurement,
    asked: float | None,
    seed: int,
    saved: str | None,
    as_json: bool,
) -> None:
    if as_json:
        record = model_record(construction)
        record |= {
            "measured": measurement.error,
            "measurement": measurement_record(measurement, seed),
            "saved": saved,
        }
        print_json(record)
        return
    from hardmax.cli._tables import print_compiled

    print_compiled(construction, measurement, asked, saved)
