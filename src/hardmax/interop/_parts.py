"""What the description in a file says, part by part: the format, as types.

Nothing is checked by these: what is read from a file is checked by the values that it is made
into. Keys that are not always there are NotRequired.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NotRequired, TypedDict, final


@final  # so that a key tells one from the other
class BoxPart(TypedDict):
    low: list[float]
    high: list[float]


@final
class WordsPart(TypedDict):
    alphabet: list[str | int]
    lengths: list[int]  # shortest, longest


class InputPart(TypedDict):
    kind: str  # vector | sequence
    alphabet: NotRequired[list[Hashable]]
    start: NotRequired[bool]


class GroupPart(TypedDict):
    """Heads of one shape, with the places they have in the layer."""

    members: list[int]
    coldness: list[float | None]  # null for a hardmax: JSON has no infinity
    causal: bool
    position_bias: bool


class SublayerPart(TypedDict):
    kind: str  # feed-forward | gated | attention
    groups: NotRequired[list[GroupPart]]
    activation: NotRequired[str]  # of gates


class ReadOutPart(TypedDict):
    token: int | None


class TransformerPart(TypedDict):
    input: InputPart
    sublayers: list[SublayerPart]
    readout: ReadOutPart


class ClaimPart(TypedDict):
    domain: BoxPart | WordsPart
    ledger: list[tuple[str, str, float]]
    format: NotRequired[str]  # older files do not say: float64
    asked: NotRequired[float]  # nor this: the error claimed


class TargetPart(TypedDict):
    kind: str
    text: NotRequired[str]
    tensors: NotRequired[list[str]]


class LegendPart(TypedDict):
    """Every text once, and its number wherever it stands."""

    texts: list[str]
    coordinates: list[int]
    sublayers: list[list[int]]
    readings: NotRequired[list[ReadingPart]]
    sums: NotRequired[list[list[int]]]  # sublayer and head of each


class ReadingPart(TypedDict):
    """What numbers in the stream say; the fields are those of `core.Reading`."""

    name: str
    sublayer: int
    coordinates: list[int]
    weights: list[float]
    constant: float
    numbers: list[float]
    labels: list[str]
    carried: float
    at_start: bool


class HoldingPart(TypedDict):
    sublayer: int
    token: int
    value: int
    components: list[int]  # the shape
    combines: NotRequired[int]


class Description(TypedDict):
    transformer: TransformerPart
    claim: NotRequired[ClaimPart]
    target: TargetPart
    witness: list[HoldingPart] | None
    route: str
    certificate: NotRequired[dict[str, object]]
    legend: NotRequired[LegendPart]
    circuit: NotRequired[dict[str, object]]  # as core.Circuit writes it
