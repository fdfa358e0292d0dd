"""A sum over places is a soft head."""

from __future__ import annotations

import math

import numpy as np

from hardmax.core import Softmax
from hardmax.lowering.sketch import EXCLUDED, Placed, WordForm, WordHead, WordSketch, attention_from


def soft_sum(
    sketch: WordSketch,
    step: str,
    value: Placed,
    mask: np.ndarray | None,
    causal: bool,
    least: int = 0,
    name: str = "",
) -> Placed:
    """The sum over all places, or those up to here, of a value that is clean.

    The start token has score 0, every symbol -B, so each symbol has the weight e^-B = r up to
    1/(1 + r n), and the values' sum comes out, times 1/r in the output matrix, to within the
    fraction r n. No division, no look-up, key width 1; sums over the same places share a head.

    It is right to 2^-bits of the largest summand, with as many bits as care asks for. The register
    goes by the `name`, or by the step.
    """
    if causal or mask is not None:
        sketch.check_order(step)
    sublayer = attention_from(value.ready)
    bits = max(least, sketch.care.bits) + 2 * math.ceil(math.log2(sketch.tokens))
    weight = 2.0**-bits
    row = sketch.linear(value.form)
    size = 2.0 ** math.ceil(math.log2(max(row.bound, 2.0**-20)))
    register = sketch.register(name or step, sketch.tokens * size)
    register.is_wild = not (causal or sketch.sane_start)
    key = (sublayer, causal, bits, None if mask is None else mask.tobytes())
    if key not in sketch.shared_heads:
        token = sketch.token
        sketch.needs_start = True
        bias = None if mask is None else np.where(mask, 0.0, -EXCLUDED)
        query = sketch.one if sketch.sane_start and not causal else token
        keys = [token * -math.log(1 / weight)]
        head = WordHead(step, [query], keys, [], [], Softmax(1.0), causal, bias, "sum")
        sketch.shared_heads[key] = sketch.head(sublayer, head)
    head = sketch.shared_heads[key]
    head.value.append(row * (1 / size))
    head.output.append({register: size / weight})
    head.brings.append(register.name)
    return Placed(WordForm({register: 1.0}), sublayer + 1, causal)
