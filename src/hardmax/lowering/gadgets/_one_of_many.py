"""One number of many, by a hidden unit each."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hardmax.lowering.sketch import OneOf, Placed, WordForm, WordSketch, feed_forward_from


def number_with_open_gate(
    sketch: WordSketch, name: str, parts: Sequence[tuple[Placed, Placed]], most: float
) -> Placed:
    """The sum of the numbers, from 0 to `most`, whose gates are 1; the other gates are 0.

    With B > most, relu(number - B (1 - gate)) is the number where the gate is 1, and 0 where it is
    0, with B - most to spare. One hidden unit a number. Where one gate is open at most, so is one
    unit, and only the worst of them strays (`OneOf`).
    """
    reach = 2.0 ** math.ceil(math.log2(most + 1.0))
    ready = max(max(number.ready, gate.ready) for number, gate in parts)
    sublayer = feed_forward_from(ready)
    register = sketch.register(name, most)
    law = OneOf(reach - most)
    for number, gate in parts:
        unit = number.form + gate.form * reach + -reach
        register.open_to(unit, 1.0)
        sketch.unit(sublayer, name, unit, {register: 1.0}, law)
    return Placed(WordForm({register: 1.0}), sublayer + 1, False)
