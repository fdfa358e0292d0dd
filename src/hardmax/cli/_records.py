"""What the commands report, as plain data for `--json`."""

from __future__ import annotations

import json
import math

import click

from hardmax import Certificate, Construction, Function, Measurement
from hardmax.core import Target, Witness, fingerprint
from hardmax.languages.programs import ProgramTarget
from hardmax.lowering import routes_for


def print_json(record: dict[str, object]) -> None:
    """One JSON object on stdout, and nothing else; infinities, which JSON lacks, as texts."""
    click.echo(json.dumps(_finite(record), indent=2, allow_nan=False))


def _finite(value: object) -> object:
    match value:
        case float() if not math.isfinite(value):
            return "nan" if math.isnan(value) else "infinity" if value > 0 else "-infinity"
        case dict():
            return {key: _finite(part) for key, part in value.items()}
        case list() | tuple():
            return [_finite(part) for part in value]
    return value


def model_record(construction: Construction) -> dict[str, object]:
    """Bill, claim and identity of a compiled model."""
    claim = construction.claim
    return {
        "bill": construction.bill.as_dict(),
        "claim": {
            "error": claim.error,
            "asked": claim.asked,
            "float": claim.format,
            "domain": str(claim.domain),
            "ledger": [
                {"cause": share.cause, "where": share.where, "amount": share.amount}
                for share in claim.ledger
            ],
        },
        "route": construction.route,
        "semantics": semantics(construction),
        "target": target_text(claim.target),
        "fingerprint": fingerprint(construction.transformer),
    }


def measurement_record(measurement: Measurement, seed: int) -> dict[str, object]:
    return {"points": measurement.points, "seed": seed, "at": list(measurement.at)}


def certificate_record(certificate: Certificate | None) -> dict[str, object] | None:
    """Every field, and the float formats in which the claim and the error asked hold."""
    if certificate is None:
        return None
    said = {"format": certificate.format, "asked": certificate.asked}
    held = {
        "holds_in": list(certificate.holds_in),
        "asked_holds_in": list(certificate.asked_holds_in),
    }
    return certificate.as_dict() | said | held


def witness_record(witness: Witness | None) -> list[dict[str, object]] | None:
    """One entry per holding: which value lives where, and how closely."""
    if witness is None:
        return None
    return [
        {
            "after_sublayer": holding.sublayer,
            "token": holding.token,
            "coordinates": len(holding.coordinates),
            "value": holding.value,
            "largest_error": float(holding.errors.max(initial=0.0)),
        }
        for holding in witness.holdings
    ]


def network_record(network: Target) -> dict[str, object]:
    """Kind, layer sizes and routes of a network."""
    encoded = network.encode()
    return {
        "kind": encoded.kind if encoded else type(network).__name__,
        "text": target_text(network),
        "inputs": network.inputs,
        "outputs": network.outputs,
        "parameters": network.parameters,
        "tensors": tensor_shapes(network),
        "routes": list(routes_for(network)),
    }


def tensor_shapes(network: Target) -> dict[str, list[int]]:
    encoded = network.encode()
    return {k: list(v.shape) for k, v in encoded.tensors.items()} if encoded else {}


def semantics(construction: Construction) -> str:
    if not construction.transformer.heads:
        return "no heads"
    return "hardmax" if construction.transformer.is_hard else "softmax"


def target_text(target: Target) -> str:
    encoded = target.encode()
    if encoded is None and isinstance(target, ProgramTarget):
        return str(target.program)
    return encoded.text if encoded else f"opaque {type(target).__name__}"


def equation(target: Target) -> str:
    """A function as f(x, y) = x*y, a program by its name, whatever else as its own text."""
    if isinstance(target, ProgramTarget):
        return f"program {target.program.name}"
    text = target_text(target)
    if not isinstance(target, Function):
        return text
    names, _, outputs = text.partition(" -> ")
    return f"f({names}) = {outputs if target.outputs == 1 else f'({outputs})'}"
