"""A softmax of affine functions is a head."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hardmax.lowering.gadgets._anchors import constants
from hardmax.lowering.gadgets._maximum import table_ends
from hardmax.lowering.gadgets._site import Approximation, Site
from hardmax.lowering.sketch import Chooser, exact_form
from hardmax.numerics import inflate, stray


def softmax_by_head(
    site: Site, logits: Sequence[Sequence[float]], held: Sequence[float]
) -> Approximation:
    """sum_i v_i e^(l_i) / sum_i e^(l_i): a head with scores l_i and values v_i, and nothing else.

    Each l_i is affine in the input: its weights, then its constant. Exact but for ln b_i and l_i
    rounded to floats, which moves each logit by four roundings of its size at most, and therefore
    the result by that times the spread of the values.
    Prompts that are longer repeat the first token and lower the copies' shares: n copies of a
    token with logits l - ln n weigh as much as one with l.
    """
    domain = site.sketch.domain
    copies = site.tokens - len(held) + 1
    scores = [list(line) for line in logits]
    scores[0][-1] -= float(np.log(copies))
    table = np.array([*scores, *[scores[0]] * (copies - 1)])
    values = np.array([*held, *[held[0]] * (copies - 1)], dtype=float)
    reach = np.maximum(np.abs(domain.low), np.abs(domain.high))
    size = np.abs(table[:, :-1]) @ reach + np.abs(table[:, -1])
    chooser = Chooser(
        sublayer=0,
        query=(exact_form(1),),
        keys=(table,),
        values=constants(values, domain.dimension),
        coldness=1.0,
        node=site.node,
        gain=1.0,
        score_ends=table_ends(site.sketch, table),
        value_range=(float(values.min()), float(values.max())),
    )
    register = site.sketch.written(site.sketch.choose(chooser))
    spread = float(values.max() - values.min())
    moved = stray(8, 1.0 + float(size.max()))
    return Approximation(register, inflate(moved * spread, domain.dimension + 4))
