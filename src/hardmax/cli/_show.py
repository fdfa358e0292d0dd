"""`hardmax show`: what a file holds."""

from __future__ import annotations

import click

from hardmax import Certificate, Construction, RequestError
from hardmax.cli._errors import telling_refusals
from hardmax.cli._files import open_either
from hardmax.cli._records import (
    certificate_record,
    model_record,
    network_record,
    print_json,
    witness_record,
)
from hardmax.core import Target, to_text


@click.command("show", short_help="Show what a model or network file holds.")
@click.argument("file", metavar="FILE")
@click.option("--weights", is_flag=True, help="Print every nonzero weight of a compiled model.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
@telling_refusals
def show_file(file: str, weights: bool, as_json: bool) -> None:
    """Show FILE: bill, claim, witness, target and stored certificate of a compiled model, or the
    layers of a network and the routes it can take. Nothing is re-established: `hardmax verify`
    does that.

    \b
    Examples:
      hardmax show t.safetensors
      hardmax show t.safetensors --weights
      hardmax show net.npz --json
    """
    content, certificate = open_either(file)
    if isinstance(content, Construction):
        _show_model(content, certificate, file, weights, as_json)
    else:
        _show_network(content, file, weights, as_json)


def _show_model(
    construction: Construction,
    certificate: Certificate | None,
    file: str,
    weights: bool,
    as_json: bool,
) -> None:
    if as_json:
        record = model_record(construction)
        record["certificate"] = certificate_record(certificate)
        record["altered"] = list(certificate.altered(construction)) if certificate else []
        record["witness"] = witness_record(construction.witness)
        if weights:
            record["weights"] = to_text(construction.transformer)
        print_json(record)
    elif weights:
        click.echo(to_text(construction.transformer), nl=False)
    else:
        from hardmax.cli._tables import print_model

        print_model(construction, certificate, file)


def _show_network(network: Target, file: str, weights: bool, as_json: bool) -> None:
    if weights:
        raise RequestError(
            f"--weights prints the text form of a compiled model, but {file} holds a network."
        )
    if as_json:
        print_json(network_record(network))
        return
    from hardmax.cli._tables import print_network

    print_network(network)
