"""The bill before the weights: counted from the shape of the program."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from hardmax.lowering.stream._arrangement import Arrangement, ChooserHead, GateHead
from hardmax.lowering.stream._assembly import SINK, sink_means
from hardmax.lowering.stream._program import Chooser, Gate, Unit
from hardmax.lowering.stream._ranges import RangeTable


@dataclass(frozen=True)
class Statement:
    """What the bill will say, field by field under the same names."""

    layers: int
    heads: int
    width: int
    tokens: int
    hidden_width: int
    parameters: int
    largest_logit: float
    largest_weight: float

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def state(arrangement: Arrangement, ranges: RangeTable) -> Statement:
    """Layers, heads, width, parameters, largest logit and weight of what `assemble` will build."""
    heads = [head for layer in arrangement.heads.values() for head in layer]
    return Statement(
        layers=_layers(arrangement),
        heads=len(heads),
        width=arrangement.width,
        tokens=arrangement.tokens,
        hidden_width=max((len(units) for units in arrangement.units.values()), default=0),
        parameters=_parameters(arrangement, heads),
        largest_logit=_largest_logit(arrangement, ranges),
        largest_weight=_largest_weight(arrangement),
    )


def _layers(a: Arrangement) -> int:
    """Attention stages, and feed-forward stages that do not directly follow one."""
    return len(a.heads) + sum(stage - 1 not in a.heads for stage in a.units)


def _parameters(a: Arrangement, heads: list[GateHead | ChooserHead]) -> int:
    inputs, outputs = a.program.domain.dimension, len(a.program.outputs)
    mapped = _mapped_tokens(a)
    ends = a.width * (a.tokens + mapped * inputs + outputs) + outputs
    attention = sum(2 * a.width * (head.key_width + head.value_width) for head in heads)
    feed_forward = sum(2 * a.width * len(u) + len(u) + a.width for u in a.units.values())
    return ends + attention + feed_forward


def _mapped_tokens(a: Arrangement) -> int:
    """Tokens that depend on the input; the others store their vector only."""
    moving = np.zeros(a.tokens, dtype=bool)
    moving[a.data] = any(a.program.rows[r].inputs for r in a.coordinate)
    for table in a.tables:
        moving |= table[:, :-1].any(axis=1)
    if any(mean[:-1].any() for mean in sink_means(a).values()):
        moving[SINK] = True
    return int(moving.sum())


def _largest_logit(a: Arrangement, ranges: RangeTable) -> float:
    """The sink asks too (flag -1/2, rows 0), and it matters if somebody looks at it later."""
    largest, last = 0.0, max(a.heads, default=0)
    for m, maker in enumerate(a.program.makers):
        size = max(map(abs, ranges.gates[m]))
        match maker:
            case Gate():
                at_sink = abs(float(maker.gate.constant)) if maker.stage < last else 0.0
                largest = max(largest, maker.coldness * max(size, at_sink) / 2)
            case Chooser():
                largest = max(largest, maker.coldness * size)
    return largest


def _largest_weight(a: Arrangement) -> float:
    largest = [0.5] if a.flag is not None else []
    if a.one is not None or a.heads:
        largest.append(1.0)  # keys
    for r in a.coordinate:
        row = a.program.rows[r]
        largest += [abs(float(v)) for v in (row.offset, *row.inputs.values(), *row.writes.values())]
    largest += [float(abs(table).max()) for table in (*a.tables, *sink_means(a).values())]
    for maker in a.program.makers:
        match maker:
            case Gate():
                largest.append(_asked(maker.gate) * max(maker.coldness, 1.0))
                largest += [abs(float(w)) for w in maker.value.terms.values()]
                largest.append(abs(float(maker.value.constant)))
            case Chooser():
                asked = [w for form in maker.query for w in (form.constant, *form.terms.values())]
                largest += [abs(float(w)) * max(maker.coldness, 1.0) for w in asked]
            case Unit():
                largest += [abs(float(w)) for w in maker.value.terms.values()]
                largest.append(abs(float(maker.value.constant)))
    for form in a.program.outputs:
        largest += [abs(float(w)) for w in (form.constant, *form.terms.values())]
    return max(largest, default=0.0)


def _asked(form: Any) -> float:
    """The largest weight of a query; its constant is read off a flag of 1/2."""
    weights = [abs(float(w)) for w in form.terms.values()]
    return max([*weights, 2 * abs(float(form.constant))], default=0.0)
