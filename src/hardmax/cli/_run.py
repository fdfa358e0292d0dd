"""`hardmax run`: evaluate a compiled model beside the function it stands for."""

from __future__ import annotations

import click
import numpy as np

from hardmax import Construction, RequestError
from hardmax.cli import _options
from hardmax.cli._answers import Evaluation, WordModel
from hardmax.cli._errors import BROKEN_CLAIM, telling_refusals
from hardmax.cli._files import check_picture_place, open_model
from hardmax.cli._points import example, points_from, typed_point
from hardmax.cli._programs import compile_program
from hardmax.cli._records import print_json
from hardmax.cli._words import run_words, typed_words
from hardmax.core import SequenceInput


@click.command(
    "run",
    short_help="Evaluate a compiled model at a point, or on a word.",
    context_settings={"ignore_unknown_options": True},  # so that -0.5 is a number
)
@click.argument("model", metavar="[MODEL]", required=False)
@click.argument("values", metavar="[VALUES]...", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--input",
    "place",
    metavar="FILE",
    help="Many points: .npy, .npz, text with one point or word per line, or - for stdin.",
)
@_options.program
@_options.alphabet
@_options.length
@click.option("--trace", is_flag=True, help="Show who attends to whom and what every token holds.")
@click.option("--raw", is_flag=True, help="With --trace: the bare numbers, not words.")
@click.option("--route", metavar="NAME", help="Of --program: legible, one step one component.")
@click.option("--plot", metavar="FILE", help="Draw how every head attends, as .svg, .png or .pdf.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
@telling_refusals
def run_model(
    model: str | None,
    values: tuple[str, ...],
    place: str | None,
    program: str | None,
    alphabet: str | None,
    length: int | None,
    trace: bool,
    raw: bool,
    route: str | None,
    plot: str | None,
    as_json: bool,
) -> None:
    """Evaluate MODEL, a file saved by `hardmax compile`, and show its outputs beside the
    target's own values and the claimed bound. With --program a sequence program is compiled and
    run at once, without a file. A word is a text, or symbols between commas; --trace and --plot
    follow one word through the model.

    \b
    Examples:
      hardmax run t.safetensors 0.3 -0.5
      hardmax run product.safetensors x=0.3 y=0.5
      hardmax run t.safetensors x0=0.3 x1=-0.5 --json
      hardmax run t.safetensors --input points.npy
      echo "0.3 -0.5" | hardmax run t.safetensors --input -
      hardmax run sort.safetensors cabea
      hardmax run --program reverse --alphabet abcde --length 5 abca --trace --plot attention.svg
      hardmax run --program sort --alphabet abcde --length 5 cabea --trace
      hardmax run --program sort --alphabet abcde --length 5 cabea --trace --route legible
    """
    _refuse_options((model or "", *values))
    if plot is not None:
        check_picture_place(plot, source=model if program is None else None, called="the model")
    if program is not None:
        values = values if model is None else (model, *values)
        built = WordModel.of(compile_program(program, alphabet, length, None, route))
        run_words(built, typed_words(values, place, built.alphabet), trace, plot, as_json, raw)
        return
    opened = open_model(_given_model(model, alphabet, length))
    if isinstance(opened.transformer.input, SequenceInput):
        stored = WordModel.of(opened)
        run_words(stored, typed_words(values, place, stored.alphabet), trace, plot, as_json, raw)
        return
    assert isinstance(opened, Construction)
    _refuse_tracing(trace, plot)
    _run_points(opened, values, place, as_json)


def _run_points(
    construction: Construction, values: tuple[str, ...], place: str | None, as_json: bool
) -> None:
    points = _points(values, place, construction.names)
    evaluation = Evaluation.of(construction, points)
    if as_json:
        print_json(evaluation.record())
    else:
        from hardmax.cli._tables import print_evaluation

        print_evaluation(evaluation)
    _warn(evaluation)


def _given_model(model: str | None, alphabet: str | None, length: int | None) -> str:
    if model is None:
        raise click.UsageError("Missing argument 'MODEL' (or give --program).")
    for option, value in {"--alphabet": alphabet, "--length": length}.items():
        if value is not None:
            raise RequestError(f"{option} belongs to --program; a model knows its own.")
    return model


def _refuse_tracing(trace: bool, plot: str | None) -> None:
    if trace or plot is not None:
        option = "--trace" if trace else "--plot"
        raise RequestError(f"{option} follows a word through a model, but this one reads numbers.")


def _refuse_options(values: tuple[str, ...]) -> None:
    """With unknown options let through as numbers, a mistyped one would look like a value."""
    for value in values:
        if value.startswith("--"):
            raise click.NoSuchOption(value)


def _points(values: tuple[str, ...], place: str | None, names: tuple[str, ...]) -> np.ndarray:
    inputs = len(names)
    if place is not None and values:
        raise RequestError("Give the point as numbers or with --input, not both.")
    if place is not None:
        return points_from(place, inputs)
    if not values:
        raise RequestError(
            f"Say where to evaluate: {inputs} numbers, as in {example(inputs)}, or --input FILE."
        )
    return typed_point(values, names)


def _warn(evaluation: Evaluation) -> None:
    outside = int((~evaluation.inside).sum())
    if outside:
        many = f"{outside} of {len(evaluation.points)} points lie "
        click.echo(
            f"{many if len(evaluation.points) > 1 else ''}outside the claimed domain "
            f"{evaluation.claim.domain}: no promise",
            err=True,
        )
    if (evaluation.differences > evaluation.claim.error)[evaluation.inside].any():
        click.echo("A difference breaks the claim: do not use this model.", err=True)
        raise click.exceptions.Exit(BROKEN_CLAIM)
