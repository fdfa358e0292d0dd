"""What is said of a model beside the weights that run: for people and tools, as plain data."""

from __future__ import annotations

import json
from collections.abc import Mapping

from hardmax._errors import FileError, RequestError
from hardmax.core import Attention, Construction, Legend, Transformer, fingerprint
from hardmax.interop._description import describe
from hardmax.interop._hooks import step_hooks
from hardmax.interop._runnable import Runnable, transformer_of
from hardmax.languages.programs import ProgramTarget

FORMAT = "1"


def about(
    construction: Construction,
    made: Runnable,
    certificate: Mapping[str, object] | None,
    embedding: str = "embedding",
) -> dict[str, object]:
    """By their names: structure and fingerprints, claim and route, legend, codes, certificate.

    `fingerprint` is that of the construction, `stored_fingerprint` that of the weights which run:
    they differ where a format rounds. The other parts are there if the model has them. Of a legible
    model `circuit` is whole, and `hooks` says by the name of a stream, `sublayers.2` or what the
    host calls its `embedding`, which steps are in which of its coordinates.
    """
    description, _ = describe(construction)
    of_the_source = fingerprint(construction.transformer)
    said: dict[str, object] = {
        "format": FORMAT,
        "fingerprint": of_the_source,
        "stored_fingerprint": fingerprint(transformer_of(made.structure, made.arrays)),
        "structure": made.structure,
        "claim": dict(description["claim"]) | {"target": description["target"]},
        "route": construction.route,
    }
    if construction.legend is not None:
        said["legend"] = labels_of_parts(construction.transformer, construction.legend)
    if construction.circuit is not None:
        said["circuit"] = construction.circuit.as_dict()
        said["hooks"] = step_hooks(
            construction.circuit, lambda k: embedding if k < 0 else f"sublayers.{k}"
        )
    target = construction.claim.target
    if isinstance(target, ProgramTarget):
        said["codes"] = codes_of(target)
    if certificate is not None:
        said["certificate"] = _certificate(certificate, of_the_source)
    return said


def canonical(value: object) -> str:
    """One text per JSON value: sorted keys, no spaces, plain ASCII, no infinities."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _certificate(certificate: Mapping[str, object], fingerprint: str) -> dict[str, object]:
    """Plain data, if it is about these weights."""
    if not isinstance(certificate, Mapping):
        raise RequestError(
            f"A certificate is plain data here, hm.certify(model).as_dict(), not a "
            f"{type(certificate).__name__}."
        )
    if certificate.get("fingerprint") != fingerprint:
        raise RequestError(
            "The certificate is about other weights: certify this construction, "
            "hm.certify(model).as_dict()."
        )
    try:
        plain: dict[str, object] = json.loads(canonical(dict(certificate)))
    except (TypeError, ValueError, RecursionError) as reason:
        raise FileError(f"was not written: the model is not plain data ({reason}).") from reason
    return plain


def labels_of_parts(transformer: Transformer, legend: Legend) -> dict[str, list[str]]:
    """A label for each coordinate of the stream, each head of a pattern and each hidden unit."""
    labels = {"embedding": list(legend.coordinates)}
    layers = zip(transformer.sublayers, legend.sublayers, strict=True)
    for number, (layer, steps) in enumerate(layers):
        point = "pattern" if isinstance(layer, Attention) else "hidden"
        labels[f"sublayers.{number}.{point}"] = list(steps)
    return labels


def codes_of(target: ProgramTarget) -> list[dict[str, object]]:
    """For each output of a program its items, and the numbers that stand for them.

    An answer is the item whose number is nearest. Items that JSON lacks are their texts.
    """
    codes = [target.codes[output] for output in target.program.outputs]
    plain = (str, int, float, bool, type(None))
    return [
        {
            "items": [one if isinstance(one, plain) else str(one) for one in code.items],
            "numbers": [float(code.number(one)) for one in code.items],
        }
        for code in codes
    ]
