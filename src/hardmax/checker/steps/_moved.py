"""How far deviations move a step, point by point.

With |d_i| <= D_i for the verified variables H_i,

    |V(H) - V(H - d)|  <=  sum_i |V_i(H)| D_i  +  sum_ij sup |V_ij| D_i D_j / 2.

The first sum is a function of H, to be added to |F - V| at the same H before anything is searched:
a quotient u/v is moved most where v is small, while the sum of gates that stands for 1/v matters
most where u is large. The second, with V_ij anywhere in the ranges of the variables, is small
because it is of second order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

from hardmax.checker.forms import NOTHING, Form, Gradient, Graph, rational
from hardmax.numerics import inflate

_MOST_MOVING = 4


def moved(graph: Graph, form: Form, deviations: Mapping[int, float]) -> tuple[list[Form], float]:
    """Forms whose absolute values, and a number, add up to a bound; may raise NoGradient."""
    slopes = {a: Gradient(graph, a).form(form) for a in deviations}
    if len(set(slopes.values())) > _MOST_MOVING:
        return [], math.inf
    shares: dict[Form, Form] = {}  # variables with one slope move it together
    for a, slope in slopes.items():
        shares[slope] = shares.get(slope, NOTHING) + slope.scaled(rational(deviations[a]))
    second = 0.0
    for (a, slope), b in itertools.product(slopes.items(), deviations):
        ends = graph.range(Gradient(graph, b).form(slope))
        second += 0.5 * max(map(abs, ends)) * deviations[a] * deviations[b]
    return [share for share in shares.values() if not share.is_zero], inflate(
        second, len(slopes) ** 2 + 4
    )
