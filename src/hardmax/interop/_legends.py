"""The words for the parts of a Transformer, as plain data and back."""

from __future__ import annotations

from hardmax.core import Legend, Reading, told_apart
from hardmax.interop._parts import LegendPart, ReadingPart


def describe_legend(legend: Legend) -> LegendPart:
    """Every text once, and its number wherever it stands: thousands of units do one step."""
    texts = dict.fromkeys([*legend.coordinates, *(s for steps in legend.sublayers for s in steps)])
    number = {text: i for i, text in enumerate(texts)}
    part: LegendPart = {
        "texts": list(texts),
        "coordinates": [number[text] for text in legend.coordinates],
        "sublayers": [[number[text] for text in steps] for steps in legend.sublayers],
    }
    if legend.readings:
        part["readings"] = [_describe_reading(one) for one in legend.readings]
    if legend.sums:
        part["sums"] = [list(one) for one in sorted(legend.sums)]
    return part


def _describe_reading(reading: Reading) -> ReadingPart:
    return {
        "name": reading.name,
        "sublayer": reading.sublayer,
        "coordinates": list(reading.coordinates),
        "weights": list(reading.weights),
        "constant": reading.constant,
        "numbers": list(reading.numbers),
        "labels": list(reading.labels),
        "carried": reading.carried,
        "at_start": reading.at_start,
    }


def rebuild_legend(part: LegendPart | None) -> Legend | None:
    """None for a model without one, as those of older files are."""
    if part is None:
        return None
    texts = dict(enumerate(map(str, part["texts"])))
    sublayers = [[texts[i] for i in steps] for steps in part["sublayers"]]
    readings = [_rebuild_reading(one) for one in part.get("readings", [])]
    sums = [(int(sublayer), int(head)) for sublayer, head in part.get("sums", [])]
    names = [texts[i] for i in part["coordinates"]]  # of older files, not always told apart
    return Legend(told_apart(names), sublayers, readings, sums)


def _rebuild_reading(part: ReadingPart) -> Reading:
    return Reading(
        str(part["name"]),
        int(part["sublayer"]),
        tuple(map(int, part["coordinates"])),
        tuple(map(float, part["weights"])),
        float(part["constant"]),
        tuple(map(float, part["numbers"])),
        tuple(map(str, part["labels"])),
        float(part["carried"]),
        bool(part["at_start"]),
    )
