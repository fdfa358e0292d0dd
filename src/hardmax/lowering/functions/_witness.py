"""The witness of a function: which rows hold which of its steps, and how closely."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardmax.core import Holding, Target, Witness
from hardmax.languages import Expression, Function
from hardmax.lowering.stream import Arrangement, Form


@dataclass(frozen=True, eq=False)
class Held:
    """A value of the target (an expression, or the number of an output) and where it is."""

    what: object
    form: Form
    error: float


def write_witness(target: Target, arrangement: Arrangement, held: list[Held]) -> Witness | None:
    """Holdings for all values that have a place among the target's steps."""
    if not isinstance(target, Function):
        return None
    places, last = target.places(), len(target.steps().steps)
    holdings = []
    for entry in held:
        if isinstance(entry.what, Expression):
            place = places.get(entry.what)
        else:
            place = (last, int(str(entry.what)))
        form = _visible(arrangement, entry.form)
        if place is not None and form is not None:
            ready = arrangement.program.ready(entry.form)
            holdings.append(_holding(arrangement, place, form, ready, entry.error))
    return Witness(sorted(holdings, key=lambda holding: holding.sublayer))


def _visible(arrangement: Arrangement, form: Form) -> Form | None:
    """The form itself if all its rows exist, or what shows it as soon as it is ready."""
    for candidate in (form, arrangement.program.views.get(form.key)):
        if candidate is not None and set(candidate.terms) <= set(arrangement.coordinate):
            return candidate
    return None


def _holding(
    arrangement: Arrangement, place: tuple[int, int], form: Form, ready: int, error: float
) -> Holding:
    value, component = place
    rows = sorted(form.terms)
    return Holding(
        sublayer=sum(stage <= ready for stage in arrangement.stages) - 1,
        token=arrangement.data,
        coordinates=np.array([arrangement.coordinate[r] for r in rows], dtype=np.int64),
        value=value,
        components=np.array([[component]]),
        errors=np.array([error]),
        weights=np.array([[float(form.terms[r]) for r in rows]]),
        constants=np.array([float(form.constant)]),
    )
