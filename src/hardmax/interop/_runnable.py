"""A Transformer as named arrays and a structure of plain data: what a host needs to run it.

ONNX graphs, trees of arrays for JAX, and folders that run by themselves hold the same arrays by
the same names. They come from the standard form, less its empty parts. Streams are rows, and
matrices act on them from the right: with x of shape (tokens, width) a layer's queries are
x @ query, of shape (tokens, heads * key width). A key or value width of 0 becomes 1, and so do no
heads and no hidden units: zeros, which add exact zeros, and which every host multiplies.

Coldness is in the queries and the position biases. What it was, and each head's own widths, are in
the structure, so that `transformer_of` finds the Transformer again; what division does not undo is
named there, too (`_folded_coldness`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NotRequired, TypedDict

import numpy as np

from hardmax._errors import FileError, PrecisionError
from hardmax.core import (
    Attention,
    FeedForward,
    GatedFeedForward,
    Head,
    HeadGroup,
    ReadOut,
    SequenceInput,
    Softmax,
    Sublayer,
    Transformer,
    VectorInput,
)
from hardmax.interop._folded_coldness import Exceptions, exceptions_of, unfolded
from hardmax.interop._standard_form import (
    Block,
    UniformAttention,
    UniformFeedForward,
    standard_form,
)
from hardmax.numerics import Format

Arrays = dict[str, np.ndarray]


class InputPart(TypedDict):
    """Words have an alphabet, and a start token or none; reals have a prompt of this shape."""

    kind: str  # words | reals
    alphabet: NotRequired[list[str | int]]
    start: NotRequired[bool]
    shape: NotRequired[list[int]]  # tokens, width


class GroupPart(TypedDict):
    """Heads of one shape and mask, by their places in the layer."""

    members: list[int]
    coldness: list[float]
    key_width: int
    value_width: int
    causal: bool
    bias: int | None  # positions that the heads' position biases cover


class LayerPart(TypedDict):
    kind: str  # attention | feed-forward | gated
    name: str  # before the names of its arrays: sublayers.3
    heads: NotRequired[int]  # as they are stored, at least 1
    causal: NotRequired[list[bool]]  # head by head
    bias: NotRequired[bool]
    groups: NotRequired[list[GroupPart]]
    exceptions: NotRequired[dict[str, Exceptions]]
    hidden_width: NotRequired[int]
    activation: NotRequired[str]  # of the gates: relu | silu


class ReadOutPart(TypedDict):
    token: int | None


class Structure(TypedDict):
    dtype: str
    input: InputPart
    layers: list[LayerPart]
    readout: ReadOutPart


@dataclass(frozen=True, eq=False)
class Runnable:
    """What runs: arrays whose numbers the format holds, in float64, and what is not a number."""

    structure: Structure
    arrays: Arrays


# ---- from a Transformer --------------------------------------------------------------------------


def runnable(transformer: Transformer, format: Format) -> Runnable:
    """The Transformer with its weights rounded to the format; hard heads are refused."""
    with np.errstate(over="ignore"):  # a coldness that overflows is refused by `_rounded`
        least = {"heads": 1, "key_width": 1, "value_width": 1, "hidden_width": 1}
        form = standard_form(transformer, **least, gates=True)
    given, arrays = _input(transformer)
    layers: list[LayerPart] = []
    for part in _parts(form.blocks):
        sublayer = transformer.sublayers[part.sublayer or 0]
        match part, sublayer:
            case UniformAttention(), Attention():
                layer, own = _attention(part, sublayer, transformer.tokens, format)
            case UniformFeedForward(), FeedForward() | GatedFeedForward():
                layer, own = _feed_forward(part, sublayer)
        layers.append(layer)
        arrays |= {f"{layer['name']}.{key}": array for key, array in own.items()}
    arrays["readout.weights"] = transformer.readout.weights.T
    arrays["readout.bias"] = transformer.readout.bias
    structure: Structure = {
        "dtype": format.name,
        "input": given,
        "layers": layers,
        "readout": {"token": _whole(transformer.readout.token)},
    }
    return Runnable(structure, {name: _rounded(a, format) for name, a in arrays.items()})


def _whole(token: int | None) -> int | None:
    return None if token is None else int(token)


def _parts(blocks: tuple[Block, ...]) -> Iterator[UniformAttention | UniformFeedForward]:
    """The sublayers in their order, without those that a block lacks."""
    for block in blocks:
        for part in (block.attention, block.feed_forward):
            if part.sublayer is not None:
                yield part


def _input(transformer: Transformer) -> tuple[InputPart, Arrays]:
    source = transformer.input
    match source:
        case VectorInput():
            maps = source.maps.reshape(source.tokens * source.width, source.inputs).T
            arrays = {"input.maps": maps, "input.offsets": source.offsets}
            return {"kind": "reals", "shape": [source.tokens, source.width]}, arrays
        case SequenceInput():
            alphabet = [_plain(symbol) for symbol in source.alphabet]
            arrays = {"input.embedding": source.embedding, "input.positions": source.positions}
            if source.start is not None:
                arrays["input.start"] = source.start
            start = source.start is not None
            return {"kind": "words", "alphabet": alphabet, "start": start}, arrays


def _plain(symbol: object) -> str | int:
    assert isinstance(symbol, str | int)  # as every SequenceInput has made sure
    return symbol


def _attention(
    part: UniformAttention, layer: Attention, tokens: int, format: Format
) -> tuple[LayerPart, Arrays]:
    groups, width = layer.groups, layer.width
    heads = max(1, len(layer.heads))
    keys = max([1, *(head.key_width for head in layer.heads)])
    values = max([1, *(head.value_width for head in layer.heads)])
    query, key = part.query[:heads, :keys], part.key[:heads, :keys]
    value, output = part.value[:heads, :values], part.output[:heads, :, :values]
    arrays = {name: _columns(a) for name, a in (("query", query), ("key", key), ("value", value))}
    arrays["output"] = output.transpose(0, 2, 1).reshape(heads * values, width)
    described: LayerPart = {
        "kind": "attention",
        "name": f"sublayers.{part.sublayer}",
        "heads": heads,
        "causal": part.causal[:heads].tolist(),
        "bias": part.bias is not None,
        "groups": [_group(group) for group in groups],
    }
    if part.bias is not None:
        arrays["position_bias"] = part.bias[:heads]
    exceptions = exceptions_of(layer, query, part.bias, tokens, format)
    if exceptions:
        described["exceptions"] = exceptions
    return described, arrays


def _columns(stacked: np.ndarray) -> np.ndarray:
    """Heads x rows x width as one matrix that acts from the right."""
    return stacked.reshape(-1, stacked.shape[2]).T


def _group(group: HeadGroup) -> GroupPart:
    bias = group.position_bias
    return {
        "members": list(map(int, group.members)),
        "coldness": group.coldness.tolist(),
        "key_width": group.query.shape[1],
        "value_width": group.value.shape[1],
        "causal": bool(group.causal),
        "bias": None if bias is None else bias.shape[1],
    }


def _feed_forward(
    part: UniformFeedForward, layer: FeedForward | GatedFeedForward
) -> tuple[LayerPart, Arrays]:
    own = max(1, layer.hidden_width)
    arrays = {
        "inner": part.inner[:own].T,
        "inner_bias": part.inner_bias[:own],
        "outer": part.outer[:, :own].T,
        "outer_bias": part.outer_bias,
    }
    name = f"sublayers.{part.sublayer}"
    described: LayerPart = {
        "kind": "feed-forward",
        "name": name,
        "hidden_width": layer.hidden_width,
    }
    if part.gates is not None:
        described |= {"kind": "gated", "activation": part.gates.activation}
        arrays |= {"gate": part.gates.gate[:own].T, "gate_bias": part.gates.gate_bias[:own]}
    return described, arrays


def _rounded(values: np.ndarray, format: Format) -> np.ndarray:
    """A copy in C order, rounded to nearest; refused if a number leaves the format's range."""
    with np.errstate(over="ignore", invalid="ignore"):
        stored = np.array(format.stored(values), dtype=np.float64, order="C")
    if not (np.abs(stored) <= format.largest).all():
        raise PrecisionError(
            f"The weights reach {np.abs(values).max():.3g} once coldness is multiplied in, but "
            f"{format.name} ends at {format.largest:.3g}: choose a wider dtype, or a larger error."
        )
    return stored


# ---- and back ------------------------------------------------------------------------------------


class Named(dict[str, np.ndarray]):
    """The arrays of a file; one that is not there is a fault of the file."""

    def __missing__(self, name: str) -> np.ndarray:
        raise FileError(f"lacks the weights {name}, which its structure asks for.")


def transformer_of(structure: Structure, arrays: Mapping[str, np.ndarray]) -> Transformer:
    """The inverse of `runnable`: bit for bit in float64, else with the weights that are stored.

    What does not fit together is refused by the values, or by `runnable`: of whatever comes out
    here it makes these arrays again, or the arrays are not those of this structure.
    """
    named = Named(arrays)
    layers = [_layer(part, named) for part in structure["layers"]]
    token = structure["readout"]["token"]
    readout = ReadOut(named["readout.weights"].T, named["readout.bias"], token)
    return Transformer(_source(structure["input"], named), layers, readout)


def _source(part: InputPart, arrays: Named) -> VectorInput | SequenceInput:
    if part["kind"] == "reals":
        tokens, width = part["shape"]
        maps = arrays["input.maps"].T.reshape(tokens, width, -1)
        return VectorInput(maps, arrays["input.offsets"])
    if part["kind"] != "words":
        raise FileError(f"has an input of the unknown kind {part['kind']!r}.")
    start = arrays["input.start"] if part["start"] else None
    embedding, positions = arrays["input.embedding"], arrays["input.positions"]
    return SequenceInput(tuple(part["alphabet"]), embedding, positions, start)


def _layer(part: LayerPart, arrays: Named) -> Sublayer:
    def own(key: str) -> np.ndarray:
        return arrays[f"{part['name']}.{key}"]

    if part["kind"] in ("feed-forward", "gated"):
        units = part["hidden_width"]
        inner, outer = own("inner").T[:units], own("outer").T[:, :units]
        inner_bias, outer_bias = own("inner_bias")[:units], own("outer_bias")
        if part["kind"] == "feed-forward":
            return FeedForward(inner, inner_bias, outer, outer_bias)
        gate, gate_bias = own("gate").T[:units], own("gate_bias")[:units]
        rest = (gate, gate_bias, inner, inner_bias, outer, outer_bias)
        return GatedFeedForward(*rest, activation=part["activation"])
    if part["kind"] != "attention":
        raise FileError(f"has a sublayer of the unknown kind {part['kind']!r}.")
    count = part["heads"]
    stacked = {
        key: own(key).T.reshape(count, -1, len(own(key))) for key in ("query", "key", "value")
    }
    output = own("output").reshape(count, -1, own("output").shape[1]).transpose(0, 2, 1)
    stacked["output"] = output
    if part["bias"]:
        stacked["position_bias"] = own("position_bias")
    heads: dict[int, Head] = {}
    for group in part["groups"]:
        for place, coldness in zip(group["members"], group["coldness"], strict=True):
            heads[place] = _head(group, place, coldness, stacked, part.get("exceptions", {}))
    return Attention(heads[place] for place in range(len(heads)))


def _head(
    group: GroupPart,
    place: int,
    coldness: float,
    stacked: Mapping[str, np.ndarray],
    exceptions: Mapping[str, Exceptions],
) -> Head:
    keys, values, size = group["key_width"], group["value_width"], group["bias"]
    weighting = Softmax(coldness)
    query = unfolded(stacked["query"][place, :keys], coldness)
    bias: np.ndarray | None = None
    if size is not None:
        inside = unfolded(stacked["position_bias"][place, :size, :size], coldness)
        named = exceptions.get("position_bias", [])
        if size > len(inside) and len(named) < size * size - inside.size:
            raise FileError("lacks position biases that its structure asks for.")
        bias = np.zeros((size, size))
        bias[: len(inside), : len(inside)] = inside
    for name, array in (("query", query), ("position_bias", bias)):
        for head, row, column, number in exceptions.get(name, []):
            if head == place and array is not None:
                array[row, column] = number
    return Head(
        query,
        stacked["key"][place, :keys],
        stacked["value"][place, :values],
        stacked["output"][place, :, :values],
        weighting=weighting,
        causal=group["causal"] is True,
        position_bias=bias,
    )
