"""`hardmax stability`: how close every head of a model is to its hard skeleton."""

from __future__ import annotations

import math
from pathlib import Path

import click
import numpy as np

from hardmax import RequestError
from hardmax.cli import _options
from hardmax.cli._answers import WordModel
from hardmax.cli._arrays import read_archive
from hardmax.cli._errors import note_written, telling_refusals
from hardmax.cli._files import check_picture_place, open_model
from hardmax.cli._points import points_from
from hardmax.cli._records import print_json
from hardmax.cli._words import typed_words
from hardmax.core import SequenceInput, VectorInput
from hardmax.geometry.temperature import StabilityReport, stability, stability_of

_ARRAYS = ("q", "k", "v")


@click.command(
    "stability", short_help="How close every head is to hard attention, with guarantees."
)
@click.argument("model", metavar="MODEL")
@click.argument("inputs", metavar="[INPUTS]", required=False)
@click.option("--words", "word", metavar="WORD", multiple=True, help="A word; may be repeated.")
@click.option(
    "--temperature", metavar="NUMBER", help="Of every head.  [default: each head's own, or 1]"
)
@click.option(
    "--tolerance",
    metavar="NUMBER",
    default="0.01",
    show_default=True,
    help="The weight that may lie outside the winner of a hard head.",
)
@click.option(
    "--error", metavar="NUMBER", help="Tell the coldness that guarantees this error of the outputs."
)
@click.option(
    "--scale", metavar="NUMBER", help="Multiplies q.k, such as 0.125 for keys of width 64."
)
@click.option("--causal", is_flag=True, help="Queries see the keys up to their own place.")
@click.option("--plot", metavar="FILE", help="Draw guarantees and gaps, as .svg, .png or .pdf.")
@_options.as_json
@telling_refusals
def show_stability(
    model: str,
    inputs: str | None,
    word: tuple[str, ...],
    temperature: str | None,
    tolerance: str,
    error: str | None,
    scale: str | None,
    causal: bool,
    plot: str | None,
    as_json: bool,
) -> None:
    """Compare the soft attention of MODEL with its hard limit: winners, gaps, distances to the
    nearest wall, guaranteed distances of weights and outputs, and the temperature each head needs.

    MODEL is a file saved by `hardmax compile`, with INPUTS: points as .npz, .npy or text, one a
    row, or words, one a line. Or MODEL is an .npz file with arrays q, k and v (and mask or bias,
    if any) of heads of any other model; then there are no INPUTS, and --scale and --causal apply.

    \b
    Examples:
      hardmax stability product.safetensors points.npz --tolerance 0.001
      hardmax stability sort.safetensors --words cabea --words abc
      hardmax stability heads.npz --scale 0.125 --causal --temperature 0.5 --plot heads.svg
    """
    limit = _number(tolerance, "--tolerance")
    chosen = None if temperature is None else _number(temperature, "--temperature")
    wanted = None if error is None else _number(error, "--error")
    if plot is not None:
        check_picture_place(plot, source=model, called="the model")
    if Path(model).suffix.lower() == ".npz":
        _refuse_inputs(inputs, word)
        factor = 1.0 if scale is None else _number(scale, "--scale")
        report = _of_arrays(model, causal, factor, 1.0 if chosen is None else chosen, limit)
    else:
        _refuse_array_options(scale, causal)
        report = _of_model(model, inputs, word, chosen, limit)
    critical = None if wanted is None else report.critical_coldness(wanted)
    if plot is not None:
        _draw(report, plot)
    if as_json:
        print_json(report.as_dict() | _critical_record(wanted, critical) | {"plot": plot})
    else:
        _print(report, wanted, critical, plot)


def _of_model(
    place: str, inputs: str | None, word: tuple[str, ...], temperature: float | None, limit: float
) -> StabilityReport:
    opened = open_model(place)
    source = opened.transformer.input
    given: list[list[str | int]] | np.ndarray
    if isinstance(source, SequenceInput):
        given = [list(one) for one in typed_words(word, inputs, WordModel.of(opened).alphabet)]
    else:
        assert isinstance(source, VectorInput)
        if word:
            raise RequestError("--words are for models of sequences, but this one reads numbers.")
        if inputs is None:
            raise RequestError(
                f"Say on which inputs: an .npz, .npy or text file with rows of {source.inputs} "
                f"numbers."
            )
        given = points_from(inputs, source.inputs)
    return stability(opened.transformer, given, temperature=temperature, tolerance=limit)


def _of_arrays(
    place: str, causal: bool, scale: float, temperature: float, limit: float
) -> StabilityReport:
    arrays = read_archive(place, _ARRAYS)
    if causal and "mask" in arrays:
        raise RequestError(f"{place} holds a mask of its own: leave --causal out.")
    mask = "causal" if causal else arrays.get("mask")
    q, k, v = (arrays[name] for name in _ARRAYS)
    found = stability_of(q, k, v, mask, scale, temperature=temperature, bias=arrays.get("bias"))
    return found.report(limit)


def _number(text: str, option: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise RequestError(f"{option} takes a number, but {text!r} is none.") from None
    if not math.isfinite(number):
        raise RequestError(f"{option} takes a finite number, but it is {text}.")
    return number


def _refuse_inputs(inputs: str | None, word: tuple[str, ...]) -> None:
    if inputs is not None or word:
        raise RequestError("Arrays q, k and v are their own inputs: give the .npz file alone.")


def _refuse_array_options(scale: str | None, causal: bool) -> None:
    if scale is not None or causal:
        option = "--causal" if causal else "--scale"
        raise RequestError(f"{option} belongs to arrays q, k, v; a model knows its own.")


def _critical_record(error: float | None, coldness: float | None) -> dict[str, object]:
    finite = coldness is not None and math.isfinite(coldness)
    return {"error": error, "critical_coldness": coldness if finite else None}


def _print(
    report: StabilityReport, error: float | None, coldness: float | None, plot: str | None
) -> None:
    click.echo(str(report))
    if coldness is not None:
        click.echo(f"\n{_guarantee(error, coldness)}")
    if plot is not None:
        click.echo(f"drawn {plot}")


def _guarantee(error: float | None, coldness: float) -> str:
    if math.isinf(coldness):
        return f"no coldness guarantees an output error of {error:g}: some queries are tied"
    if coldness == 0.0:
        return f"any temperature guarantees an output error of {error:g}"
    return (
        f"an output error of {error:g} is guaranteed for every query from coldness "
        f"{coldness * (1 + 1e-5):.6g} on (temperature {(1 - 1e-5) / coldness:.6g} and below)"
    )


def _draw(report: StabilityReport, plot: str) -> None:
    from hardmax.plots import stability_picture

    stability_picture(report, path=plot)
    note_written(plot)
