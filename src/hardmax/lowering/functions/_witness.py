"""The witness of a function: which rows hold which of its steps, and how closely."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardmax.core import Holding, Target, Witness
from hardmax.languages import Expression, Function
from hardmax.lowering.stream import Arrangement, Form


@dataclass(frozen=True, eq=False)
class Whereabouts:
    """Forms that read a value right after the stage at which it is ready; the first is best."""

    forms: list[Form]
    ready: int


@dataclass(frozen=True, eq=False)
class Held:
    """A value of the target (an expression, or the number of an output) and where it is."""

    what: object
    place: Whereabouts
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
        form = _visible(arrangement, entry.place.forms)
        if place is not None and form is not None:
            holdings.append(_holding(arrangement, place, form, entry.place.ready, entry.error))
    return Witness(sorted(holdings, key=lambda holding: holding.sublayer))


def _visible(arrangement: Arrangement, forms: list[Form]) -> Form | None:
    """The first form whose rows all have coordinates."""
    there = set(arrangement.coordinate)
    return next((form for form in forms if set(form.terms) <= there), None)


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
