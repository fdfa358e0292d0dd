"""`hardmax disguise`: a legible model whose inside is hidden, still known, and proved again."""

from __future__ import annotations

import sys

import click

from hardmax import Verdict, disguise, save
from hardmax.cli import _options
from hardmax.cli._certifying import Effort, leave, tell_verdict
from hardmax.cli._errors import note_written, telling_refusals
from hardmax.cli._files import check_writable, open_certified
from hardmax.cli._records import certificate_record, model_record, print_json


@click.command("disguise", short_help="Hide what a legible model does, and prove it again.")
@click.argument("model", metavar="FILE")
@click.option("-o", "--output", "place", metavar="PLACE", required=True, help="Where to write.")
@click.option(
    "--level", type=int, metavar="N", help="0 to 3: rotated, with distractors, with noise.  [1]"
)
@click.option("--rotate", type=int, metavar="ROUNDS", help="Rounds of reflections of the stream.")
@click.option("--distractors", type=int, metavar="N", help="True steps that no answer reads.")
@click.option("--noise", type=float, metavar="SIZE", help="By which every weight is moved.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of all that is drawn.")
@_options.budget
@_options.as_json
@telling_refusals
def disguise_model(
    model: str,
    place: str,
    level: int | None,
    rotate: int | None,
    distractors: int | None,
    noise: float | None,
    seed: int,
    budget: str | None,
    as_json: bool,
) -> None:
    """Turn the stream of FILE, a model of `hardmax compile --route legible`, by an exactly
    orthogonal map, let it work out true things that no answer needs, and move its weights.

    What comes out is proved again from its own weights, certificate and frame are stored with it,
    and its steps are known along directions: hm.load(PLACE).circuit.projection("rank"). Exits with
    1, and writes nothing, if it cannot be proved.

    \b
    Examples:
      hardmax disguise sort.safetensors --rotate 3 --seed 1 -o hidden.safetensors
      hardmax disguise sort.safetensors --level 3 -o hidden.safetensors
    """
    effort = Effort.of(None, budget, 1)
    check_writable(place, source=model, called="the model")
    construction, _ = open_certified(model)
    made = disguise(
        construction, level=level, rotate=rotate, distractors=distractors, noise=noise, seed=seed
    )
    certificate = effort.certify(made, visible=not as_json and sys.stderr.isatty())
    proved = certificate.verdict is Verdict.PROVED
    if proved:
        save(made, place, certificate)
        note_written(place)
    if as_json:
        print_json(model_record(made) | {"certificate": certificate_record(certificate)})
    else:
        from hardmax.cli._tables import print_verified

        print_verified(made, certificate, [f"written to {place}"] if proved else [])
    if not proved:
        tell_verdict(certificate)
        leave(certificate)
