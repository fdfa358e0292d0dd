"""A construction as text and tensors, and back: what a file says, whatever its format.

Structure, claim and witness become a JSON object; every array becomes a named tensor. Heads
of one shape are stored stacked, so that a layer of 512 heads is four tensors, with the places
they had in the layer beside them. JSON prints a float64 with all the digits that matter, so
nothing is rounded on the way.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import index

import numpy as np

from hardmax._errors import FileError
from hardmax.core import (
    Attention,
    Box,
    Circuit,
    Claim,
    Construction,
    EncodedTarget,
    FeedForward,
    GatedFeedForward,
    Hardmax,
    Head,
    HeadGroup,
    Holding,
    Legend,
    ReadOut,
    SequenceInput,
    SequenceTarget,
    Share,
    Softmax,
    Sublayer,
    Target,
    Transformer,
    VectorInput,
    Witness,
    Words,
)
from hardmax.interop._legends import describe_legend, rebuild_legend
from hardmax.interop._parts import (
    BoxPart,
    Description,
    GroupPart,
    HoldingPart,
    InputPart,
    ReadOutPart,
    SublayerPart,
    TargetPart,
    WordsPart,
)

OPAQUE = "opaque"
_TARGET = "target."


class Tensors(dict[str, np.ndarray]):
    """The named arrays of a file; one that is not there is a fault of the file."""

    def __missing__(self, name: str) -> np.ndarray:
        raise FileError(f"lacks the tensor {name}, which its description asks for.")


@dataclass(frozen=True, eq=False)
class StoredConstruction:
    """What a file holds of a construction; its target still has to be decoded by its language.

    `encoded_target` is None for an opaque target, a plain Python callable: the claim about it
    is stored, but what it is about is not. `certificate` is what a checker once said, as plain
    data, and what it said it about; reading confirms neither.
    """

    transformer: Transformer
    encoded_target: EncodedTarget | None
    domain: Box | Words
    ledger: tuple[Share, ...]
    witness: Witness | None
    route: str
    certificate: dict[str, object] | None = None
    legend: Legend | None = None
    format: str = "float64"
    asked: float | None = None
    circuit: Circuit | None = None

    def join(self, target: Target | SequenceTarget) -> Construction:
        """The construction again, now that its target is known."""
        claim = Claim(target, self.domain, self.ledger, format=self.format, asked=self.asked)
        return Construction(
            self.transformer, claim, self.witness, self.route, self.legend, self.circuit
        )


def describe(construction: Construction) -> tuple[Description, Tensors]:
    """The JSON object and the tensors that say everything about a construction."""
    tensors = Tensors()
    transformer, claim = construction.transformer, construction.claim
    description: Description = {
        "transformer": {
            "input": _describe_input(transformer.input, tensors),
            "sublayers": [
                _describe_sublayer(sublayer, f"sublayers.{number}", tensors)
                for number, sublayer in enumerate(transformer.sublayers)
            ],
            "readout": _describe_readout(transformer.readout, tensors),
        },
        "claim": {
            "domain": _describe_domain(claim.domain),
            "ledger": [(s.cause, s.where, float(s.amount)) for s in claim.ledger],
            "format": claim.format,
            "asked": claim.asked,
        },
        "target": _describe_target(claim.target, tensors),
        "witness": _describe_witness(construction.witness, tensors),
        "route": construction.route,
    }
    if construction.legend is not None:
        description["legend"] = describe_legend(construction.legend)
    if construction.circuit is not None:
        description["circuit"] = construction.circuit.as_dict()
    return description, tensors


def rebuild(description: Description, tensors: Tensors) -> StoredConstruction:
    """The inverse of `describe`; whatever does not fit together is refused by the values."""
    parts, claim = description["transformer"], description.get("claim")
    if claim is None:
        raise FileError("holds no claim: nothing was promised of this model.")
    transformer = Transformer(
        _rebuild_input(parts["input"], tensors),
        [
            _rebuild_sublayer(sublayer, f"sublayers.{number}", tensors)
            for number, sublayer in enumerate(parts["sublayers"])
        ],
        _rebuild_readout(parts["readout"], tensors),
    )
    certificate = description.get("certificate")
    return StoredConstruction(
        transformer=transformer,
        encoded_target=_rebuild_target(description["target"], tensors),
        domain=_rebuild_domain(claim["domain"]),
        ledger=tuple(Share(str(cause), str(where), a) for cause, where, a in claim["ledger"]),
        witness=_rebuild_witness(description["witness"], tensors),
        route=str(description["route"]),
        certificate=None if certificate is None else dict(certificate),
        legend=rebuild_legend(description.get("legend")),
        format=claim.get("format", "float64"),
        asked=claim.get("asked"),
        circuit=_rebuild_circuit(description.get("circuit")),
    )


def _rebuild_circuit(part: dict[str, object] | None) -> Circuit | None:
    return None if part is None else Circuit.from_dict(part)


def _describe_domain(domain: Box | Words) -> BoxPart | WordsPart:
    match domain:
        case Box():
            return {"low": domain.low.tolist(), "high": domain.high.tolist()}
        case Words():
            lengths = [domain.shortest, domain.longest]
            return {"alphabet": list(domain.alphabet), "lengths": lengths}


def _rebuild_domain(part: BoxPart | WordsPart) -> Box | Words:
    if "alphabet" in part:
        shortest, longest = part["lengths"]
        return Words(part["alphabet"], longest, shortest)
    return Box(part["low"], part["high"])  # type: ignore[arg-type]  # lists: it makes arrays


def _describe_input(source: VectorInput | SequenceInput, tensors: Tensors) -> InputPart:
    match source:
        case VectorInput():
            tensors["input.maps"] = source.maps
            tensors["input.offsets"] = source.offsets
            return {"kind": "vector"}
        case SequenceInput():
            tensors["input.embedding"] = source.embedding
            tensors["input.positions"] = source.positions
            if source.start is not None:
                tensors["input.start"] = source.start
            has_start = source.start is not None
            return {"kind": "sequence", "alphabet": list(source.alphabet), "start": has_start}


def _rebuild_input(part: InputPart, tensors: Tensors) -> VectorInput | SequenceInput:
    match part["kind"]:
        case "vector":
            return VectorInput(tensors["input.maps"], tensors["input.offsets"])
        case "sequence":
            start = tensors["input.start"] if part["start"] else None
            embedding, positions = tensors["input.embedding"], tensors["input.positions"]
            return SequenceInput(tuple(part["alphabet"]), embedding, positions, start)
    raise FileError(f"has an input of the unknown kind {part['kind']!r}.")


def _describe_sublayer(sublayer: Sublayer, name: str, tensors: Tensors) -> SublayerPart:
    match sublayer:
        case FeedForward():
            for part in ("inner", "inner_bias", "outer", "outer_bias"):
                tensors[f"{name}.{part}"] = getattr(sublayer, part)
            return {"kind": "feed-forward"}
        case GatedFeedForward():
            for part, array in sublayer.parts().items():
                tensors[f"{name}.{part}"] = array
            return {"kind": "gated", "activation": sublayer.activation}
        case Attention():
            groups = [
                _describe_group(group, f"{name}.{number}", tensors)
                for number, group in enumerate(sublayer.groups)
            ]
            return {"kind": "attention", "groups": groups}


def _rebuild_sublayer(part: SublayerPart, name: str, tensors: Tensors) -> Sublayer:
    match part["kind"]:
        case "feed-forward":
            inner, inner_bias = tensors[f"{name}.inner"], tensors[f"{name}.inner_bias"]
            return FeedForward(
                inner, inner_bias, tensors[f"{name}.outer"], tensors[f"{name}.outer_bias"]
            )
        case "gated":
            arrays = {one: tensors[f"{name}.{one}"] for one in GatedFeedForward.PARTS}
            return GatedFeedForward.of(arrays, str(part["activation"]))
        case "attention":
            heads: dict[int, Head] = {}
            for number, group in enumerate(part["groups"]):
                heads |= _rebuild_group(group, f"{name}.{number}", tensors)
            return Attention(heads[place] for place in range(len(heads)))
    raise FileError(f"has a sublayer of the unknown kind {part['kind']!r}.")


def _describe_group(group: HeadGroup, name: str, tensors: Tensors) -> GroupPart:
    """Heads of one shape: four stacked tensors, and a fifth if they have position biases.

    A hardmax has no coldness, and is written as null: JSON has no infinity.
    """
    for part in ("query", "key", "value", "output", "position_bias"):
        if getattr(group, part) is not None:
            tensors[f"{name}.{part}"] = getattr(group, part)
    return {
        "members": list(group.members),
        "coldness": [b if np.isfinite(b) else None for b in group.coldness.tolist()],
        "causal": bool(group.causal),
        "position_bias": group.position_bias is not None,
    }


def _rebuild_group(part: GroupPart, name: str, tensors: Tensors) -> dict[int, Head]:
    """The heads of a group by their places in the layer."""
    stacked = [tensors[f"{name}.{field}"] for field in ("query", "key", "value", "output")]
    shared = [None] * len(part["members"])
    biases = tensors[f"{name}.position_bias"] if part["position_bias"] else shared
    return {
        index(place): Head(
            *(query, key, value, output),
            weighting=Hardmax() if coldness is None else Softmax(coldness),
            causal=part["causal"] is True,
            position_bias=bias,
        )
        for place, coldness, bias, query, key, value, output in zip(
            part["members"], part["coldness"], biases, *stacked, strict=True
        )
    }


def _describe_readout(readout: ReadOut, tensors: Tensors) -> ReadOutPart:
    tensors["readout.weights"] = readout.weights
    tensors["readout.bias"] = readout.bias
    return {"token": None if readout.token is None else int(readout.token)}


def _rebuild_readout(part: ReadOutPart, tensors: Tensors) -> ReadOut:
    token = None if part["token"] is None else index(part["token"])
    return ReadOut(tensors["readout.weights"], tensors["readout.bias"], token)


def _describe_target(target: Target | SequenceTarget, tensors: Tensors) -> TargetPart:
    encoded = target.encode()
    if encoded is None:
        return {"kind": OPAQUE}
    for name, array in encoded.tensors.items():
        tensors[_TARGET + name] = np.asarray(array)
    return {"kind": encoded.kind, "text": encoded.text, "tensors": sorted(encoded.tensors)}


def _rebuild_target(part: TargetPart, tensors: Tensors) -> EncodedTarget | None:
    if part["kind"] == OPAQUE:
        return None
    own = {name: tensors[_TARGET + name] for name in part["tensors"]}
    return EncodedTarget(str(part["kind"]), str(part["text"]), own)


def _describe_witness(witness: Witness | None, tensors: Tensors) -> list[HoldingPart] | None:
    """A few tensors for all holdings together, and their shapes to take them apart again."""
    if witness is None:
        return None
    held = witness.holdings
    tensors["witness.coordinates"] = _concatenate([h.coordinates for h in held], np.int64)
    tensors["witness.components"] = _concatenate([h.components.ravel() for h in held], np.int64)
    tensors["witness.errors"] = _concatenate([h.errors for h in held], np.float64)
    forms = [h for h in held if h.weights is not None and h.constants is not None]
    if forms:
        weights = [h.weights.ravel() for h in forms if h.weights is not None]
        tensors["witness.weights"] = _concatenate(weights, np.float64)
        constants = [h.constants for h in forms if h.constants is not None]
        tensors["witness.constants"] = _concatenate(constants, np.float64)
    return [_describe_holding(h) for h in held]


def _describe_holding(holding: Holding) -> HoldingPart:
    described: HoldingPart = {
        "sublayer": int(holding.sublayer),
        "token": int(holding.token),
        "value": int(holding.value),
        "components": list(holding.components.shape),
    }
    if holding.weights is not None:
        described["combines"] = len(holding.coordinates)
    return described


def _concatenate(arrays: list[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate([np.empty(0, dtype), *arrays])


def _rebuild_witness(parts: list[HoldingPart] | None, tensors: Tensors) -> Witness | None:
    if parts is None:
        return None
    shapes = [(index(rows), index(columns)) for rows, columns in (p["components"] for p in parts)]
    by_row = [rows for rows, _ in shapes]
    by_entry = [rows * columns for rows, columns in shapes]
    combined = [index(p["combines"]) if "combines" in p else None for p in parts]
    places = [rows if c is None else c for rows, c in zip(by_row, combined, strict=True)]
    coordinates = _apart("witness.coordinates", np.int64, places, tensors)
    components = _apart("witness.components", np.int64, by_entry, tensors)
    errors = _apart("witness.errors", np.float64, by_row, tensors)
    forms = _rebuild_forms(by_row, combined, tensors)
    return Witness(
        Holding(
            sublayer=index(part["sublayer"]),
            token=index(part["token"]),
            coordinates=coordinates[i],
            value=index(part["value"]),
            components=components[i].reshape(shape),
            errors=errors[i],
            weights=forms[i][0],
            constants=forms[i][1],
        )
        for i, (part, shape) in enumerate(zip(parts, shapes, strict=True))
    )


def _rebuild_forms(
    rows: list[int], combined: list[int | None], tensors: Tensors
) -> list[tuple[np.ndarray | None, np.ndarray | None]]:
    """Weights and constants of the holdings that have them."""
    forms: list[tuple[np.ndarray | None, np.ndarray | None]] = [(None, None)] * len(rows)
    with_form = [i for i, c in enumerate(combined) if c is not None]
    if not with_form:
        return forms
    sizes = [rows[i] * (combined[i] or 0) for i in with_form]
    weights = _apart("witness.weights", np.float64, sizes, tensors)
    heights = [rows[i] for i in with_form]
    constants = _apart("witness.constants", np.float64, heights, tensors)
    for number, i in enumerate(with_form):
        forms[i] = weights[number].reshape(rows[i], combined[i] or 0), constants[number]
    return forms


def _apart(name: str, dtype: type, sizes: list[int], tensors: Tensors) -> list[np.ndarray]:
    joined = tensors[name]
    if joined.dtype != dtype or joined.shape != (sum(sizes),):
        raise FileError(f"has a tensor {name} that does not fit its description.")
    return np.split(joined, np.cumsum(sizes))
