"""`hardmax run`: evaluate a compiled model beside the function it stands for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click
import numpy as np

from hardmax import Claim, Construction, RequestError
from hardmax.cli._errors import BROKEN_CLAIM, guarded
from hardmax.cli._files import open_model
from hardmax.cli._points import example, points_from, typed_point
from hardmax.cli._records import print_json


@click.command(
    "run",
    short_help="Evaluate a compiled model at a point.",
    context_settings={"ignore_unknown_options": True},  # so that -0.5 is a number
)
@click.argument("model", metavar="MODEL")
@click.argument("values", metavar="[VALUES]...", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--input",
    "place",
    metavar="FILE",
    help="Many points: .npy, .npz, text with one point per line, or - for stdin.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
@guarded
def run_model(model: str, values: tuple[str, ...], place: str | None, as_json: bool) -> None:
    """Evaluate MODEL, a file saved by `hardmax compile`, and show its outputs beside the
    target's own values and the claimed bound.

    \b
    Examples:
      hardmax run t.safetensors 0.3 -0.5
      hardmax run product.safetensors x=0.3 y=0.5
      hardmax run t.safetensors x0=0.3 x1=-0.5 --json
      hardmax run t.safetensors --input points.npy
      echo "0.3 -0.5" | hardmax run t.safetensors --input -
    """
    _refuse_options(values)
    construction = open_model(model)
    points = _points(values, place, construction.names)
    evaluation = Evaluation.of(construction, points)
    if as_json:
        print_json(evaluation.record())
    else:
        from hardmax.cli._tables import print_evaluation

        print_evaluation(evaluation)
    _warn(evaluation)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A model at some points, beside its target."""

    claim: Claim
    points: np.ndarray
    outputs: np.ndarray
    targets: np.ndarray
    inside: np.ndarray  # whether the claim covers the point

    @classmethod
    def of(cls, construction: Construction, points: np.ndarray) -> Evaluation:
        claim = construction.claim
        inside = claim.domain.contains(points)
        outputs = construction(points)
        return cls(claim, points, outputs, claim.target(points), inside)

    @property
    def differences(self) -> np.ndarray:
        """The largest difference over the outputs, for every point."""
        return np.abs(self.outputs - self.targets).max(axis=1)

    def record(self) -> dict[str, Any]:
        rows = zip(
            self.points, self.outputs, self.targets, self.differences, self.inside, strict=True
        )
        return {
            "claim": {"error": self.claim.error, "domain": str(self.claim.domain)},
            "points": [
                {
                    "input": point.tolist(),
                    "output": output.tolist(),
                    "target": target.tolist(),
                    "difference": float(difference),
                    "inside": bool(inside),
                }
                for point, output, target, difference, inside in rows
            ],
        }


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
