"""`hardmax compile`: from a network file to a Transformer with a claim, measured and billed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from hardmax import Construction, DomainError, Measurement, RequestError, compile, measure, save
from hardmax.cli._errors import BROKEN_CLAIM, guarded, note_written
from hardmax.cli._files import check_writable, open_network
from hardmax.cli._records import measurement_record, model_record, print_json
from hardmax.core import Target

_DEFAULT_ERROR = "1e-3"


@click.command("compile", short_help="Compile a network file into a Transformer.")
@click.argument("network", metavar="NETWORK")
@click.option(
    "--on",
    "domain",
    metavar="DOMAIN",
    help='Where the error is promised: "[-1,1]^8" or "[0,1]^2 x [-2,2]".',
)
@click.option(
    "--error", metavar="NUMBER", help=f"The largest error allowed.  [default: {_DEFAULT_ERROR}]"
)
@click.option("--hard", is_flag=True, help="Keep the hard skeleton, exact over the rationals.")
@click.option("--route", metavar="NAME", help="attention, attention-only or feedforward.")
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
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
@guarded
def compile_network(
    network: str,
    domain: str | None,
    error: str | None,
    hard: bool,
    route: str | None,
    output: str | None,
    points: int,
    seed: int,
    as_json: bool,
) -> None:
    """Compile NETWORK, a .npz or .safetensors file, into a Transformer that computes it on
    DOMAIN to within the error asked; measure it, show its bill, and save it.

    \b
    Example:
      hardmax compile net.npz --on "[-1,1]^8" --error 1e-3 --route attention -o t.safetensors
    """
    asked = _asked(error, hard)
    source = open_network(network)
    where = _where(domain, source)
    if output is not None:
        check_writable(output, source=network)
    visible = not as_json and sys.stderr.isatty()
    with _progress("compiling", None, visible):
        construction = compile(source, on=where, error=asked, route=route)
    with _progress("measuring", points, visible) as advance:
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
    if hard:
        return None
    text = _DEFAULT_ERROR if error is None else error
    try:
        return float(text)
    except ValueError:
        raise RequestError(
            f"The error must be a number > 0, such as 1e-3, but it is {text!r}."
        ) from None


def _where(domain: str | None, source: Target) -> str:
    if domain is None:
        raise DomainError(
            f"A claim needs a domain. The network has {source.inputs} inputs: say where, for "
            f'example --on "[-1,1]^{source.inputs}".'
        )
    return domain


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


@contextmanager
def _progress(
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
