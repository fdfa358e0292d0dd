"""`hardmax plan`: every route side by side, at one error or along many."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping

import click

from hardmax import Function, Plan, PrecisionError, RequestError, plan
from hardmax.cli import _options
from hardmax.cli._errors import note_written, telling_refusals
from hardmax.cli._files import check_picture_place
from hardmax.cli._programs import plan_of
from hardmax.cli._progress import progress
from hardmax.cli._records import print_json, target_text
from hardmax.cli._sources import is_file, number, open_source, where
from hardmax.core import Box, Target
from hardmax.lowering import SizingCurve, sizing_curve

_DEFAULT_ERRORS = "1e-1:1e-9"
_MOST_ERRORS = 100


@click.command("plan", short_help="Show what every route would cost.")
@_options.optional_source
@_options.program
@_options.alphabet
@_options.length
@_options.positions
@_options.on
@_options.error
@_options.prefer
@_options.float_format
@click.option("--curve", is_flag=True, help="Resources against the error, with growth exponents.")
@click.option(
    "--errors",
    metavar="FROM:TO",
    help=f"The errors of --curve, by powers of ten.  [default: {_DEFAULT_ERRORS}]",
)
@click.option("--plot", metavar="FILE", help="Draw the curves of --curve as .svg, .png or .pdf.")
@_options.as_json
@telling_refusals
def plan_source(
    source: str | None,
    program: str | None,
    alphabet: str | None,
    length: int | None,
    positions: str | None,
    domain: tuple[str, ...],
    error: str | None,
    prefer: str | None,
    float_format: str | None,
    curve: bool,
    errors: str | None,
    plot: str | None,
    as_json: bool,
) -> None:
    """Lay out every route for SOURCE, a function as text or a network file: layers, heads, width,
    parameters, largest logit and weight, the cheapest float format in which the error holds, and
    the claimed error, which is about the format of --float.
    Instead of SOURCE, --program takes a sequence program and says why each route is possible.

    \b
    Examples:
      hardmax plan "x*y" --on x=-1:1 --on y=-1:1 --error 1e-6
      hardmax plan "1/x" --on x=0.1:1 --error 1e-4 --prefer parameters
      hardmax plan "x*y" --on x=-1:1 --on y=-1:1 --curve --plot curves.svg
      hardmax plan "1/x" --on x=0.1:1 --float float32
      hardmax plan net.npz --on "[-1,1]^8" --json
      hardmax plan --program "fsm('(ab)*')" --alphabet ab --length 16
    """
    if program is not None:
        given = {"SOURCE": source, "--on": domain, "--error": error, "--prefer": prefer}
        others = given | {"--curve": curve, "--plot": plot}
        _show_program(others, as_json, program, alphabet, length, positions, float_format)
        return
    if source is None:
        raise click.UsageError("Missing argument 'SOURCE' (or give --program).")
    _check_options(error, prefer, float_format, curve, errors, plot)
    if plot is not None:
        check_picture_place(plot, source=source if is_file(source) else None)
    target = open_source(source)
    box = where(domain, target)
    if curve:
        _show_curve(target, box, _decades(errors or _DEFAULT_ERRORS), plot, as_json)
    else:
        asked = number(error or _options.DEFAULT_ERROR)
        _show_plan(target, box, asked, prefer, float_format, as_json)


def _show_program(
    others: Mapping[str, object],
    as_json: bool,
    program: str,
    alphabet: str | None,
    length: int | None,
    positions: str | None,
    float_format: str | None,
) -> None:
    for option, value in others.items():
        if value:
            raise RequestError(f"{option} says nothing about a program. Drop it.")
    found = plan_of(program, alphabet, length, positions, float_format)
    if as_json:
        print_json(found.as_dict())
    else:
        click.echo(str(found))


def _check_options(
    error: str | None,
    prefer: str | None,
    float_format: str | None,
    curve: bool,
    errors: str | None,
    plot: str | None,
) -> None:
    """--error, --prefer and --float belong to one plan, --errors and --plot to a curve of plans."""
    if curve and error is not None:
        raise RequestError("--curve runs over many errors; give them as --errors 1e-1:1e-9.")
    if curve and prefer is not None:
        raise RequestError("--prefer picks a route at one error; leave out --curve.")
    if curve and float_format is not None:
        raise RequestError("--float belongs to the plan at one error; leave out --curve.")
    for option, value in (("--errors", errors), ("--plot", plot)):
        if value is not None and not curve:
            raise RequestError(f"{option} belongs to --curve; add that.")


def _show_plan(
    target: Target,
    box: Box,
    error: float,
    prefer: str | None,
    float_format: str | None,
    as_json: bool,
) -> None:
    with progress("planning", None, not as_json and sys.stderr.isatty()):
        whole_plan = plan(target, on=box, error=error, prefer=prefer, float=float_format)
        picked = _route_picked(whole_plan, prefer)
        record = whole_plan.as_dict()  # counted and kept here, while the bar is shown
    if as_json:
        named = {"target": target_text(target), "prefer": prefer, "picked": picked}
        print_json(named | record)
        return
    from hardmax.cli._plan_tables import print_plan

    print_plan(target, whole_plan, prefer, picked)


def _route_picked(found: Plan, prefer: str | None) -> str | None:
    """What `hardmax compile` would take; None if only a baseline is left."""
    if not found.open:
        raise PrecisionError(_every_refusal(found))
    if prefer is None and not isinstance(found.target, Function):
        default = found.offers[0]
        return default.route if default.refusal is None else None
    try:
        return found.choose(prefer).route
    except PrecisionError:
        if prefer is not None:
            raise
        return None


def _every_refusal(found: Plan) -> str:
    """All reasons at once, each with the routes that gave it."""
    reasons: dict[str, list[str]] = {}
    for offer in found.offers:
        reasons.setdefault(offer.refusal or "no offer.", []).append(offer.route)
    told = " ".join(f"{', '.join(routes)}: {reason}" for reason, routes in reasons.items())
    return f"No route promises {found.error:.3g} on {found.domain}. {told}"


def _show_curve(
    target: Target, box: Box, errors: tuple[float, ...], plot: str | None, as_json: bool
) -> None:
    visible = sys.stderr.isatty() and not as_json
    with progress("planning", len(errors), visible) as advance:
        curve = sizing_curve(target, box, errors, progress=advance)
    if plot is not None:
        _draw(curve, target, plot)
    if as_json:
        print_json({"target": target_text(target), **curve.as_dict(), "plot": plot})
        return
    from hardmax.cli._plan_tables import print_curve

    print_curve(curve, plot)


def _draw(curve: SizingCurve, target: Target, plot: str) -> None:
    from hardmax.cli._records import equation
    from hardmax.plots import draw_sizing

    draw_sizing(curve, plot, title=f"{equation(target)} on {curve.domain}")
    note_written(plot)


def _decades(text: str) -> tuple[float, ...]:
    """1e-1:1e-3 as 1e-1, 1e-2, 1e-3; the ends may be any numbers, and the last one is included."""
    start, colon, end = text.partition(":")
    largest, smallest = number(start), number(end) if colon else number(start)
    if not (math.inf > largest >= smallest > 0):
        raise RequestError(
            f"The errors must fall from one number > 0 to another, as in {_DEFAULT_ERRORS}, but "
            f"they are {text!r}."
        )
    count = round(math.log10(largest / smallest), 9)
    if count > _MOST_ERRORS:
        raise RequestError(f"{text!r} spans more than {_MOST_ERRORS} powers of ten; give fewer.")
    steps = [float(f"{largest * 10.0**-k:.12g}") for k in range(math.ceil(count))]
    return (*steps, smallest)
