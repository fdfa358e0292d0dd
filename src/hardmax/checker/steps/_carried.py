"""How far deviations move a step, when slopes are taken at the target's own values.

With h the true values behind the verified variables and |d_i| <= D_i,

    |V(h + d) - V(h)|  <=  sup_x sum_i |V_i(h(x))| D_i  +  sum_ij |V_ij| D_i D_j / 2:

the first is searched over the domain, where h is what it is (e^x and e^x + e^y hang together, and
a quotient of the two never exceeds 1); the second, with V_ij anywhere in the ranges of the
variables, is small because it is of second order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

from flint import fmpq

from hardmax.checker.boxes import SmallBoxes, TooManyDimensions, Unsuitable
from hardmax.checker.forms import Form, Gradient, NoGradient, Substituted, rational, total

_MOST_MOVING = 4


def carried_at_truth(
    small: SmallBoxes,
    form: Form,
    deviations: Mapping[int, float],
    truths: Mapping[int, Form],
    room: float,
) -> float:
    """A bound on how far `form` moves, or infinity; variables that deviate have their truths."""
    if len(deviations) > _MOST_MOVING or not deviations.keys() <= truths.keys():
        return math.inf
    graph = small.graph
    try:
        slopes = {a: Gradient(graph, a).form(form) for a in deviations}
        second = 0.0
        for (a, slope), b in itertools.product(slopes.items(), deviations):
            ends = graph.range(Gradient(graph, b).form(slope))
            second += 0.5 * max(map(abs, ends)) * deviations[a] * deviations[b]
        second *= 1 + 1e-9
        if not second < room:
            return math.inf
        at_truth = Substituted(graph, truths)
        rows = [(rational(deviations[a]), at_truth.form(slope)) for a, slope in slopes.items()]
        return _largest_sum(small, rows, room - second) + second
    except (NoGradient, Unsuitable, TooManyDimensions, ZeroDivisionError):
        return math.inf


def _largest_sum(small: SmallBoxes, rows: list[tuple[fmpq, Form]], room: float) -> float:
    """sup of sum_i |c_i f_i|: the largest |sum_i +- c_i f_i|, for every choice of signs."""
    worst = 0.0
    for signs in itertools.product((1, -1), repeat=len(rows) - 1):
        chosen = [(c * s, f) for (c, f), s in zip(rows, (1, *signs), strict=True)]
        worst = max(worst, small.bound(total(chosen), room))
        if not worst <= room:
            return math.inf
    return worst
