"""`hardmax compile`: from a source to a Transformer with a claim, measured."""

from __future__ import annotations

import sys
from collections.abc import Callable

import click

from hardmax import (
    Certificate,
    Construction,
    Function,
    Measurement,
    RequestError,
    Verdict,
    compile,
    measure,
    save,
)
from hardmax.cli import _options
from hardmax.cli._certifying import Effort, check_error_plot, draw_error, leave, tell_verdict
from hardmax.cli._errors import BROKEN_CLAIM, note_written, telling_refusals
from hardmax.cli._files import check_different, check_picture_place, check_writable
from hardmax.cli._programs import compile_program
from hardmax.cli._progress import progress
from hardmax.cli._records import (
    certificate_record,
    measurement_record,
    model_record,
    print_json,
)
from hardmax.cli._sources import is_file, number, open_source, where
from hardmax.core import Target

_POINTS, _WORDS = 100_000, 1000


@click.command("compile", short_help="Compile a function, a network or a program.")
@_options.optional_source
@_options.program
@_options.alphabet
@_options.length
@_options.positions
@_options.on
@_options.error
@click.option("--hard", is_flag=True, help="Keep a network's hard skeleton, exact over rationals.")
@click.option("--route", metavar="NAME", help="One of those that `hardmax plan` lists.")
@_options.prefer
@_options.float_format
@click.option("-o", "--output", metavar="FILE", help="Save the model as one safetensors file.")
@click.option(
    "--points",
    type=click.IntRange(min=1),
    help=f"How many points to measure.  [default: {_POINTS}, or {_WORDS} words of a program]",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Which points."
)
@click.option(
    "--certify", is_flag=True, help="Let the checker prove the claim; store its certificate."
)
@_options.tolerance
@_options.budget
@_options.jobs
@_options.plot
@_options.as_json
@telling_refusals
def compile_source(
    source: str | None,
    program: str | None,
    alphabet: str | None,
    length: int | None,
    positions: str | None,
    domain: tuple[str, ...],
    error: str | None,
    hard: bool,
    route: str | None,
    prefer: str | None,
    float_format: str | None,
    output: str | None,
    points: int | None,
    seed: int,
    certify: bool,
    tolerance: str | None,
    budget: str | None,
    jobs: int,
    plot: str | None,
    as_json: bool,
) -> None:
    """Compile SOURCE, a function as text (typed, or in a .txt file) or a network in a .npz or
    .safetensors file, into a Transformer that computes it on DOMAIN to within the error asked;
    measure it, show its bill, and save it. Instead of SOURCE, --program takes a sequence program,
    which is compiled for all words over --alphabet up to --length symbols. With --float the error
    holds for an evaluation in that format, rounding included. With --certify an
    independent checker has to prove the claim: a refuted model is not saved, an undecided one is
    saved as such, and both exit with 1.

    \b
    Examples:
      hardmax compile "x*y" --on x=-1:1 --on y=-1:1 --error 1e-3 --certify -o product.safetensors
      hardmax compile "1/x" --on x=0.1:1 --error 1e-3 --float float32 --certify
      hardmax compile net.npz --on "[-1,1]^8" --error 1e-3 --route attention -o t.safetensors
      hardmax compile --program sort --alphabet abcde --length 5 --certify -o sort.safetensors
      hardmax compile --program "tokens.at(length - 1 - index)" --alphabet 0,1,2 --length 8
    """
    effort = _effort(certify, tolerance, budget, jobs)
    asked = None if program is not None else _error_asked(error, hard)
    if program is not None:
        given = {"--on": domain, "--error": error, "--prefer": prefer}
        _check_program(source, given | {"--hard": hard, "--plot": plot})
        build = _from_program(program, alphabet, length, positions, route, float_format)
    else:
        given_source = _given_source(source, alphabet, length)
        build = _from_source(given_source, domain, asked, hard, route, prefer, float_format)
    _check_places(source, output, plot)
    visible = not as_json and sys.stderr.isatty()
    with progress("compiling", None, visible):
        construction = build()
    check_error_plot(construction, plot)
    points = points or (_POINTS if program is None else _WORDS)
    with progress("measuring", points, visible) as advance:
        measurement = measure(construction, points, seed=seed, progress=advance)
    holds = measurement.error <= construction.claim.error
    certificate = effort.certify(construction, visible) if effort and holds else None
    saved = output if holds and _is_worth_saving(certificate) else None
    if saved is not None:
        save(construction, saved, certificate)
        note_written(saved)
    if plot is not None:
        draw_error(construction, certificate, plot)
    _report(construction, measurement, certificate, asked, seed, saved, plot, as_json)
    _end(holds, certificate, saved)


def _from_source(
    source: str,
    domain: tuple[str, ...],
    asked: float | None,
    hard: bool,
    route: str | None,
    prefer: str | None,
    float_format: str | None,
) -> Callable[[], Construction]:
    """What will compile a function or a network; whatever can be refused now is."""
    if route is not None and prefer is not None:
        raise RequestError("--route leaves nothing for --prefer to pick. Drop one.")
    target = open_source(source)
    _check_hard(target, hard)
    box = where(domain, target)
    return lambda: compile(
        target, on=box, error=asked, route=route, prefer=prefer, float=float_format
    )


def _from_program(
    program: str,
    alphabet: str | None,
    length: int | None,
    positions: str | None,
    route: str | None,
    float_format: str | None,
) -> Callable[[], Construction]:
    return lambda: compile_program(program, alphabet, length, positions, route, float_format)


def _given_source(source: str | None, alphabet: str | None, length: int | None) -> str:
    if source is None:
        raise click.UsageError("Missing argument 'SOURCE' (or give --program).")
    for option, value in {"--alphabet": alphabet, "--length": length}.items():
        if value is not None:
            raise RequestError(f"{option} belongs to --program; add that instead of SOURCE.")
    return source


def _check_program(source: str | None, options: dict[str, object]) -> None:
    """A program has no domain of numbers, no error to ask for, and one route."""
    if source is not None:
        raise RequestError("SOURCE and --program say two things to compile. Drop one.")
    for option, value in options.items():
        if value:
            raise RequestError(
                f"{option} is for functions and networks and says nothing about a program. Drop it."
            )


def _effort(certify: bool, tolerance: str | None, budget: str | None, jobs: int) -> Effort | None:
    """How hard to try; None without --certify, to which the other options belong."""
    if certify:
        return Effort.of(tolerance, budget, jobs)
    given = {"--tolerance": tolerance, "--budget": budget, "--jobs": None if jobs == 1 else jobs}
    for option, value in given.items():
        if value is not None:
            raise RequestError(f"{option} belongs to --certify; add that.")
    return None


def _check_places(source: str | None, output: str | None, plot: str | None) -> None:
    own = source if source is not None and is_file(source) else None
    check_different(output=output, plot=plot)
    if output is not None:
        check_writable(output, source=own)
    if plot is not None:
        check_picture_place(plot, source=own)


def _is_worth_saving(certificate: Certificate | None) -> bool:
    """Not what is refuted, nor what an interruption left undecided."""
    if certificate is None or certificate.verdict is Verdict.PROVED:
        return True
    return certificate.verdict is Verdict.UNDECIDED and not certificate.was_interrupted


def _error_asked(error: str | None, hard: bool) -> float | None:
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
    certificate: Certificate | None,
    asked: float | None,
    seed: int,
    saved: str | None,
    plot: str | None,
    as_json: bool,
) -> None:
    if as_json:
        record = model_record(construction)
        record |= {
            "measured": measurement.error,
            "measurement": measurement_record(measurement, seed),
            "certificate": certificate_record(certificate),
            "saved": saved,
            "plot": plot,
        }
        print_json(record)
        return
    from hardmax.cli._tables import print_compiled

    print_compiled(construction, measurement, certificate, asked, saved, plot)


def _end(holds: bool, certificate: Certificate | None, saved: str | None) -> None:
    """What is wrong, if anything, in a sentence or two on stderr; undecided is no success."""
    if not holds:
        click.echo("The measured error breaks the claim: nothing was saved.", err=True)
        raise click.exceptions.Exit(BROKEN_CLAIM)
    if certificate is None or certificate.verdict is Verdict.PROVED:
        return
    tell_verdict(certificate)
    kept = f"{saved} was saved with this certificate" if saved else "nothing was saved"
    click.echo(f"Not proved: {kept}.", err=True)
    leave(certificate)
