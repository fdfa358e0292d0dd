"""A rectifier form while it is being written: units are added one lot after the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from hardmax.lowering.networks._activity import Activity, Place
from hardmax.lowering.networks._rectifiers import (
    Answer,
    Held,
    RectifierForm,
    Statement,
    Sums,
    Term,
    units_read,
)


class FormDraft:
    """Numbers units, gives them levels, and notes for the witness what they hold.

    `places` say for each new unit which components of the steps it is the maximum of.
    """

    def __init__(self, activity: Activity) -> None:
        self.activity = activity
        self.levels: list[int] = []  # by unit
        self.sums: list[Sums] = []
        self.statements: list[Statement] = []

    def level_of(self, units: Iterable[int]) -> int:
        """When all of these are complete; -1 for none, since inputs are there from the start."""
        return max((self.levels[unit] for unit in units), default=-1)

    def add_rows(
        self,
        rows: Sequence[Mapping[Term, float]],
        places: Sequence[tuple[Place, ...]],
        continues: Sequence[int] | None = None,
    ) -> list[int]:
        """Units that are short sums without a bias."""
        if not rows:
            return []
        terms = list(dict.fromkeys(term for row in rows for term in row))
        columns = {term: j for j, term in enumerate(terms)}
        weights = np.zeros((len(rows), len(terms)))
        for i, row in enumerate(rows):
            for term, weight in row.items():
                weights[i, columns[term]] = weight
        return self.add(terms, weights, np.zeros(len(rows)), places, continues=continues)

    def add(
        self,
        terms: Sequence[Term],
        weights: np.ndarray,
        bias: np.ndarray,
        places: Sequence[tuple[Place, ...]],
        *,
        continues: Sequence[int] | None = None,
        affine_level: int | None = None,
    ) -> list[int]:
        """New units, complete as soon as their terms allow; an affine step's own at its level."""
        level = max([affine_level or 0, *(self.level_of(units_read(term)) + 1 for term in terms)])
        first, count = len(self.levels), len(bias)
        low = np.array([self.activity.low(held) for held in places])
        starts = np.full(count, -1) if continues is None else np.array(continues)
        self.sums.append(
            Sums(
                first=first,
                level=level,
                terms=tuple(terms),
                weights=weights,
                bias=bias,
                nonnegative=low >= 0.0,
                continues=starts,
                is_affine_step=affine_level is not None,
            )
        )
        self.levels += [level] * count
        units = list(range(first, first + count))
        self.state(units, places)
        return units

    def state(
        self,
        units: Iterable[int],
        places: Iterable[tuple[Place, ...]],
        *,
        rectified: bool = False,
    ) -> None:
        """Say for the witness what units hold, by level and by value."""
        told: dict[tuple[int, int], list[tuple[int, list[int]]]] = {}
        for unit, held in zip(units, places, strict=True):
            value, components = held[0][0], [i for _, i in held]
            if all(source == value for source, _ in held):
                told.setdefault((self.levels[unit], value), []).append((unit, components))
        for (level, value), rows in told.items():
            longest = max(len(components) for _, components in rows)
            table = [components + [-1] * (longest - len(components)) for _, components in rows]
            holders = np.array([unit for unit, _ in rows])
            self.statements.append(Statement(level, holders, value, np.array(table), rectified))

    def finished(self, answer: Answer) -> RectifierForm:
        inputs = self.activity.steps.inputs
        return _in_place(RectifierForm(inputs, tuple(self.sums), tuple(self.statements), answer))


def _in_place(form: RectifierForm) -> RectifierForm:
    """Let a unit that starts out as another one take its place, where nobody reads it afterwards.

    All who read the old unit do so before or while the layer runs that changes it, and only one
    unit can take its place; the others add it like any other term.
    """
    taken: set[int] = set()
    result = []
    for sums in form.sums:
        weights, continues = sums.weights.copy(), sums.continues.copy()
        for row, unit in enumerate(continues.tolist()):
            if unit < 0:
                continue
            changed = max(form.level_of(sums.terms[j]) for j in np.flatnonzero(weights[row]))
            if unit not in taken and form.is_free_after(unit, changed):
                taken.add(unit)
                weights[row, sums.terms.index(Held(unit))] = 0.0
            else:
                continues[row] = -1
        result.append(replace(sums, weights=weights, continues=continues))
    return replace(form, sums=tuple(result))
